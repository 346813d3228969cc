package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** Pairs of rows with one key whose event times are apart by a time at most. */
final class Joins extends KeyedCoProcessFunction<String, Row, Row, Row> {
    /** Parts of the largest distance of a pair. */
    private static final long PARTS = 4;

    private final Sides sides;
    private transient MapState<Long, List<Row>> lefts;
    private transient MapState<Long, List<Row>> rights;

    /** The settings of a join, which its job and its savepoint share. */
    static final class Sides implements Serializable {
        private final List<List<Integer>> keys = new ArrayList<>();
        private final List<List<Integer>> columns = new ArrayList<>();
        private final List<Job.Node> inputs;
        final long withinNs;
        /** Rows are kept by parts of time, of which a look-up visits few. */
        final long partNs;

        Sides(Job.Node node, Job job) {
            JsonNode json = node.json();
            json.get("keys").forEach(side -> keys.add(Job.numbers(side)));
            json.get("columns").forEach(side -> columns.add(Job.numbers(side)));
            withinNs = Values.time(json.get("within_ns"));
            partNs = Math.max(1, withinNs / PARTS);
            inputs = List.of(job.nodes.get(node.inputs.get(0)), job.nodes.get(node.inputs.get(1)));
        }

        MapStateDescriptor<Long, List<Row>> descriptor(int side) {
            return new MapStateDescriptor<>(
                    side == 0 ? "left" : "right", Types.LONG, Types.LIST(inputs.get(side).rowType()));
        }

        String key(Row row, int side) {
            return Values.key(keys.get(side).stream().map(row::getField).collect(java.util.stream.Collectors.toList()));
        }

        /** Rows with null keys have no match. */
        boolean hasKey(Row row, int side) {
            return keys.get(side).stream().allMatch(cell -> row.getField(cell) != null);
        }

        long time(Row row, int side) {
            return inputs.get(side).time.of(row);
        }

        /** A row as the export writes it. */
        Row read(JsonNode values, int side) {
            List<String> types = inputs.get(side).row;
            Row row = new Row(types.size());
            for (int cell = 0; cell < types.size(); cell++) {
                row.setField(cell, Values.of(values.get(cell), types.get(cell)));
            }
            return row;
        }

        private Row pair(Row left, Row right) {
            Row pair = new Row(columns.get(0).size() + columns.get(1).size() + 1);
            int at = 0;
            for (int cell : columns.get(0)) {
                pair.setField(at++, left.getField(cell));
            }
            for (int cell : columns.get(1)) {
                pair.setField(at++, right.getField(cell));
            }
            pair.setField(at, Math.max(time(left, 0), time(right, 1)));
            return pair;
        }
    }

    Joins(Sides sides) {
        this.sides = sides;
    }

    @Override
    public void open(OpenContext context) {
        lefts = getRuntimeContext().getMapState(sides.descriptor(0));
        rights = getRuntimeContext().getMapState(sides.descriptor(1));
    }

    @Override
    public void processElement1(Row row, Context context, Collector<Row> out) throws Exception {
        long timeNs = sides.time(row, 0);
        if (timeNs > context.timerService().currentWatermark()) {
            for (Row other : matches(rights, 1, timeNs)) {
                out.collect(sides.pair(row, other));
            }
            context.timerService().registerEventTimeTimer(keep(lefts, sides, timeNs, row));
        }
    }

    @Override
    public void processElement2(Row row, Context context, Collector<Row> out) throws Exception {
        long timeNs = sides.time(row, 1);
        if (timeNs > context.timerService().currentWatermark()) {
            for (Row other : matches(lefts, 0, timeNs)) {
                out.collect(sides.pair(other, row));
            }
            context.timerService().registerEventTimeTimer(keep(rights, sides, timeNs, row));
        }
    }

    private List<Row> matches(MapState<Long, List<Row>> others, int side, long timeNs) throws Exception {
        List<Row> matches = new ArrayList<>();
        long last = Values.plus(timeNs, sides.withinNs) / sides.partNs;
        for (long part = Math.max(0, timeNs - sides.withinNs) / sides.partNs; part <= last; part++) {
            List<Row> kept = others.get(part);
            for (Row other : kept == null ? List.<Row>of() : kept) {
                if (Math.abs(sides.time(other, side) - timeNs) <= sides.withinNs) {
                    matches.add(other);
                }
            }
        }
        return matches;
    }

    /** Keeps a row; the time of the timer at which it is freed. */
    static long keep(MapState<Long, List<Row>> rows, Sides sides, long timeNs, Row row) throws Exception {
        long part = timeNs / sides.partNs;
        List<Row> kept = rows.get(part);
        List<Row> all = kept == null ? new ArrayList<>() : kept;
        all.add(row);
        rows.put(part, all);
        return Values.plus(part * sides.partNs + (sides.partNs - 1), sides.withinNs);
    }

    /** No later row can match those of this part. */
    @Override
    public void onTimer(long time, OnTimerContext context, Collector<Row> out) throws Exception {
        if (time < Long.MAX_VALUE) {
            long part = (time - sides.withinNs) / sides.partNs;
            lefts.remove(part);
            rights.remove(part);
        }
    }
}
