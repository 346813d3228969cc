package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.OperatorTransformation;
import org.apache.flink.state.api.SavepointWriter;
import org.apache.flink.state.api.StateBootstrapTransformation;
import org.apache.flink.state.api.functions.KeyedStateBootstrapFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/** Writes the lines of {@code state.jsonl} as a savepoint, from which the job starts. */
final class Savepoint {
    private Savepoint() {}

    /** Writes the savepoint to a directory, which must not exist. */
    static void write(Job job, Path state, Path to) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        FileSource<String> source = FileSource.forRecordStreamFormat(
                        new TextLineInputFormat(), new org.apache.flink.core.fs.Path(state.toUri()))
                .build();
        DataStream<String> lines = environment.fromSource(source, WatermarkStrategy.noWatermarks(), "state", Types.STRING);
        SavepointWriter writer = SavepointWriter.newSavepoint(environment, new HashMapStateBackend(), Main.MAX_PARALLELISM);
        for (Job.Node node : job.nodes) {
            String uid = node.uid;
            DataStream<String> own = lines.filter(line -> parse(line).get("uid").asText().equals(uid));
            if (node.kind.equals("aggregate")) {
                writer.withOperator(OperatorIdentifier.forUid(uid), windows(new Aggregates(node), own));
            } else if (node.kind.equals("join")) {
                writer.withOperator(OperatorIdentifier.forUid(uid), rows(new Joins.Sides(node, job), own));
            }
        }
        writer.write(to.toUri().toString());
        environment.execute("savepoint");
    }

    private static JsonNode parse(String line) throws IOException {
        return Job.JSON.readTree(line);
    }

    private static StateBootstrapTransformation<String> windows(Aggregates aggregates, DataStream<String> lines) {
        return OperatorTransformation.bootstrapWith(lines)
                .keyBy(line -> aggregates.key(parse(line).get("key")), Types.STRING)
                .transform(new WindowState(aggregates));
    }

    private static StateBootstrapTransformation<String> rows(Joins.Sides sides, DataStream<String> lines) {
        return OperatorTransformation.bootstrapWith(lines)
                .keyBy(line -> {
                    JsonNode json = parse(line);
                    int side = side(json);
                    return sides.key(sides.read(json.get("row"), side), side);
                }, Types.STRING)
                .transform(new JoinState(sides));
    }

    private static int side(JsonNode line) {
        return line.get("kind").asText().equals("left") ? 0 : 1;
    }

    /** The windows and sessions of a key, with their timers. */
    private static final class WindowState extends KeyedStateBootstrapFunction<String, String> {
        private final Aggregates aggregates;
        private transient MapState<Long, Row> windows;

        private WindowState(Aggregates aggregates) {
            this.aggregates = aggregates;
        }

        @Override
        public void open(OpenContext context) {
            windows = getRuntimeContext().getMapState(aggregates.descriptor());
        }

        @Override
        public void processElement(String line, Context context) throws Exception {
            JsonNode json = parse(line);
            Row state = aggregates.read(json);
            boolean isSession = aggregates.window.equals("session");
            long startNs = Values.time(json.get(isSession ? "first_ns" : "start_ns"));
            windows.put(startNs, state);
            context.timerService().registerEventTimeTimer(
                    isSession ? Sessions.timer(state, aggregates) : Windows.timer(startNs, aggregates));
        }
    }

    /** The rows of both inputs of a join that wait for others, with their timers. */
    private static final class JoinState extends KeyedStateBootstrapFunction<String, String> {
        private final Joins.Sides sides;
        private transient MapState<Long, java.util.List<Row>> lefts;
        private transient MapState<Long, java.util.List<Row>> rights;

        private JoinState(Joins.Sides sides) {
            this.sides = sides;
        }

        @Override
        public void open(OpenContext context) {
            lefts = getRuntimeContext().getMapState(sides.descriptor(0));
            rights = getRuntimeContext().getMapState(sides.descriptor(1));
        }

        @Override
        public void processElement(String line, Context context) throws Exception {
            JsonNode json = parse(line);
            int side = side(json);
            long timeNs = Values.time(json.get("time_ns"));
            Row row = sides.read(json.get("row"), side);
            context.timerService().registerEventTimeTimer(Joins.keep(side == 0 ? lefts : rights, sides, timeNs, row));
        }
    }
}
