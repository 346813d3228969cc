package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.types.Row;

/**
 * Runs a pipeline that {@code sakiyomi stream export --to flink} wrote: {@code job.json} as a job of the DataStream API whose
 * uids are the names of the operators, from a savepoint with the state in {@code state.jsonl}.
 */
public final class Main {
    /** Of savepoint and job, which must agree. */
    static final int MAX_PARALLELISM = 128;

    /** Files of the output appear at checkpoints. */
    private static final long CHECKPOINT_MS = 1_000;

    private static final String USAGE = "usage: java -jar sakiyomi-flink.jar EXPORT OUT [PARALLELISM]\n"
            + "EXPORT: the directory of `sakiyomi stream export --to flink EXPORT`\n"
            + "OUT: a directory for the savepoint and the output, which must not exist\n"
            + "PARALLELISM: instances of each keyed operator [default: 1]";

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 2 || arguments.length > 3) {
            System.err.println(USAGE);
            System.exit(2);
        }
        Path export = Path.of(arguments[0]).toAbsolutePath();
        Path out = Path.of(arguments[1]).toAbsolutePath();
        int parallelism = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1;
        if (Files.exists(out)) {
            System.err.println(out + " exists; name another directory");
            System.exit(2);
        }
        Files.createDirectories(out);
        Job job = Job.read(export.resolve("job.json"));
        Path state = export.resolve("state.jsonl");
        Configuration configuration = new Configuration();
        if (Files.size(state) > 0) {
            Path savepoint = out.resolve("savepoint");
            Savepoint.write(job, state, savepoint);
            configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint.toUri().toString());
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setRuntimeMode(RuntimeExecutionMode.STREAMING);
        environment.setParallelism(parallelism);
        environment.setMaxParallelism(MAX_PARALLELISM);
        environment.enableCheckpointing(CHECKPOINT_MS);
        build(job, environment, out);
        environment.execute(export.getFileName().toString());
    }

    private static void build(Job job, StreamExecutionEnvironment environment, Path out) {
        List<DataStream<Row>> streams = new ArrayList<>();
        for (Job.Node node : job.nodes) {
            streams.add(switch (node.kind) {
                case "source" -> environment
                        .fromSource(new LogSource(node), WatermarkStrategy.noWatermarks(), node.uid, node.rowType())
                        .uid(node.uid)
                        .setParallelism(1);
                case "filter" -> step(input(node, streams), new Steps.Filter(node), node);
                case "select" -> step(
                        input(node, streams), new Steps.Select(node, Job.expressions(node.json().get("items"))), node);
                case "aggregate" -> aggregate(input(node, streams), job, node);
                case "join" -> join(streams, job, node);
                case "sink" -> sink(input(node, streams), node, out);
                default -> throw new IllegalArgumentException(node.uid + ": " + node.kind + " is unknown");
            });
        }
    }

    private static DataStream<Row> input(Job.Node node, List<DataStream<Row>> streams) {
        return streams.get(node.inputs.get(0));
    }

    /** One instance, so that the rows of a key stay in their order. */
    private static DataStream<Row> step(DataStream<Row> input, Steps step, Job.Node node) {
        return input.flatMap(step).returns(node.rowType()).uid(node.uid).name(node.uid).setParallelism(1);
    }

    private static DataStream<Row> aggregate(DataStream<Row> input, Job job, Job.Node node) {
        JsonNode json = node.json();
        Aggregates aggregates = new Aggregates(node);
        List<Expression> items = Job.expressions(json.get("keys"));
        for (JsonNode call : json.get("calls")) {
            if (!call.get("argument").isNull()) {
                items.add(Expression.of(call.get("argument")));
            }
        }
        Job.Time time = aggregates.window.equals("all") ? null : job.nodes.get(node.inputs.get(0)).time;
        String prepare = node.uid + ".prepare";
        return input.flatMap(new Steps.Select(node, items, true, time))
                .returns(Values.rowType(aggregates.inputTypes))
                .uid(prepare)
                .name(prepare)
                .setParallelism(1)
                .keyBy(aggregates::key, Types.STRING)
                .process(aggregates.window.equals("session") ? new Sessions(aggregates) : new Windows(aggregates))
                .returns(node.rowType())
                .uid(node.uid)
                .name(node.uid);
    }

    private static DataStream<Row> join(List<DataStream<Row>> streams, Job job, Job.Node node) {
        Joins.Sides sides = new Joins.Sides(node, job);
        DataStream<Row> left = streams.get(node.inputs.get(0)).filter(row -> sides.hasKey(row, 0)).setParallelism(1);
        DataStream<Row> right = streams.get(node.inputs.get(1)).filter(row -> sides.hasKey(row, 1)).setParallelism(1);
        return left.keyBy(row -> sides.key(row, 0), Types.STRING)
                .connect(right.keyBy(row -> sides.key(row, 1), Types.STRING))
                .process(new Joins(sides))
                .returns(node.rowType())
                .uid(node.uid)
                .name(node.uid);
    }

    private static DataStream<Row> sink(DataStream<Row> input, Job.Node node, Path out) {
        JsonNode json = node.json();
        if (json.get("path").isNull()) {
            return input;
        }
        FileSink<String> files = FileSink.forRowFormat(
                        new org.apache.flink.core.fs.Path(out.resolve(node.uid).toUri()), new SimpleStringEncoder<String>())
                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                .build();
        String lines = node.uid + ".lines";
        input.map(new Lines(json.get("columns")))
                .returns(Types.STRING)
                .uid(lines)
                .name(lines)
                .sinkTo(files)
                .uid(node.uid)
                .name(node.uid);
        return input;
    }
}
