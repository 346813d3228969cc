package dev.sakiyomi.flink;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** Sessions of a key: rows that are less than the gap apart. */
final class Sessions extends KeyedProcessFunction<String, Row, Row> {
    private final Aggregates aggregates;
    private transient MapState<Long, Row> sessions;

    Sessions(Aggregates aggregates) {
        this.aggregates = aggregates;
    }

    @Override
    public void open(OpenContext context) {
        sessions = getRuntimeContext().getMapState(aggregates.descriptor());
    }

    static long timer(Row session, Aggregates aggregates) {
        return Values.plus(Aggregates.last(session), aggregates.lengthNs - 1);
    }

    @Override
    public void processElement(Row row, Context context, Collector<Row> out) throws Exception {
        long timeNs = aggregates.time(row);
        long gapNs = aggregates.lengthNs;
        List<Map.Entry<Long, Row>> near = new ArrayList<>();
        for (Map.Entry<Long, Row> session : sorted().entrySet()) {
            if (timeNs - Aggregates.last(session.getValue()) < gapNs && session.getKey() - timeNs < gapNs) {
                near.add(session);
            }
        }
        Row state;
        long firstNs = timeNs;
        if (near.isEmpty()) {
            if (Values.plus(timeNs, gapNs - 1) <= context.timerService().currentWatermark()) {
                return;
            }
            state = aggregates.begin(row);
            aggregates.add(state, row);
        } else {
            state = near.get(0).getValue();
            firstNs = Math.min(timeNs, near.get(0).getKey());
            aggregates.add(state, row);
            for (Map.Entry<Long, Row> later : near.subList(1, near.size())) {
                aggregates.merge(state, later.getValue());
            }
            for (Map.Entry<Long, Row> session : near) {
                sessions.remove(session.getKey());
            }
        }
        sessions.put(firstNs, state);
        context.timerService().registerEventTimeTimer(timer(state, aggregates));
    }

    private TreeMap<Long, Row> sorted() throws Exception {
        TreeMap<Long, Row> sorted = new TreeMap<>();
        for (Map.Entry<Long, Row> session : sessions.entries()) {
            sorted.put(session.getKey(), session.getValue());
        }
        return sorted;
    }

    /** Timers of sessions that were extended since find nothing. */
    @Override
    public void onTimer(long time, OnTimerContext context, Collector<Row> out) throws Exception {
        for (Map.Entry<Long, Row> session : sorted().entrySet()) {
            if (timer(session.getValue(), aggregates) <= time) {
                sessions.remove(session.getKey());
                long endNs = Values.plus(Aggregates.last(session.getValue()), aggregates.lengthNs);
                Row result = aggregates.result(session.getKey(), endNs, session.getValue());
                if (result != null) {
                    out.collect(result);
                }
            }
        }
    }
}
