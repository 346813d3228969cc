package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.types.Row;

/** The operators of {@code job.json}, in their order. */
final class Job {
    static final ObjectMapper JSON = new ObjectMapper();

    /** Version of the format that this program reads. */
    private static final int VERSION = 1;

    final List<Node> nodes = new ArrayList<>();

    /** A source, step or sink. */
    static final class Node implements Serializable {
        final String uid;
        final String kind;
        final boolean skipsBad;
        final List<Integer> inputs;
        final List<String> row;
        final Time time;
        /** Its object as text, because nodes of JSON cannot be serialized. */
        private final String text;

        private Node(JsonNode json) {
            uid = json.get("uid").asText();
            kind = json.get("kind").asText();
            skipsBad = json.get("skips_bad").asBoolean();
            inputs = numbers(json.get("inputs"));
            row = new ArrayList<>();
            json.get("row").forEach(type -> row.add(type.asText()));
            JsonNode time = json.get("time");
            this.time = time.isNull() ? null : new Time(time.get("cell").asInt(), time.get("unit_ns").asLong());
            text = json.toString();
        }

        JsonNode json() {
            try {
                return JSON.readTree(text);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        TypeInformation<Row> rowType() {
            return Values.rowType(row);
        }
    }

    /** The cell of event times and the nanoseconds of its unit. */
    record Time(int cell, long unitNs) implements Serializable {
        long of(Row row) {
            return (Long) row.getField(cell) * unitNs;
        }
    }

    static Job read(Path file) throws IOException {
        JsonNode json = JSON.readTree(file.toFile());
        if (json.path("version").asInt() != VERSION) {
            throw new IOException(file + " has version " + json.path("version") + ", and this program reads version "
                    + VERSION + "; export the pipeline again");
        }
        Job job = new Job();
        json.get("nodes").forEach(node -> job.nodes.add(new Node(node)));
        return job;
    }

    static List<Integer> numbers(JsonNode array) {
        List<Integer> numbers = new ArrayList<>();
        array.forEach(number -> numbers.add(number.asInt()));
        return numbers;
    }

    static List<Expression> expressions(JsonNode array) {
        List<Expression> expressions = new ArrayList<>();
        array.forEach(tree -> expressions.add(Expression.of(tree)));
        return expressions;
    }
}
