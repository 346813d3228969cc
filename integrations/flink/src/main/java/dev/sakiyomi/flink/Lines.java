package dev.sakiyomi.flink;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.types.Row;

/** Rows as objects of JSON. */
final class Lines implements MapFunction<Row, String> {
    private final List<String> names = new ArrayList<>();
    private final List<String> types = new ArrayList<>();

    Lines(JsonNode columns) {
        for (JsonNode column : columns) {
            names.add(text(column.get("name").asText()));
            types.add(column.get("type").asText());
        }
    }

    @Override
    public String map(Row row) {
        StringBuilder line = new StringBuilder("{");
        for (int at = 0; at < names.size(); at++) {
            line.append(at > 0 ? "," : "").append(names.get(at)).append(':').append(value(row.getField(at), types.get(at)));
        }
        return line.append('}').toString();
    }

    private static String text(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + '"';
    }

    private static String value(Object value, String type) {
        if (value == null || value instanceof Double number && (number.isNaN() || number.isInfinite())) {
            return "null";
        }
        if (value instanceof String text) {
            return text(text);
        }
        if (type.equals("date")) {
            return '"' + LocalDate.ofEpochDay((Long) value).toString() + '"';
        }
        if (type.startsWith("timestamp")) {
            return '"' + Times.shown((Long) value, Values.unitsPerSecond(type)) + '"';
        }
        return value.toString();
    }
}
