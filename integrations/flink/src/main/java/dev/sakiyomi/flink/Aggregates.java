package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.types.Row;

/**
 * The settings of an aggregate, which its job and its savepoint share.
 *
 * <p>Its input has the values of the key, those of the arguments, and the event time in nanoseconds. Its state has a row for
 * each window of a key, by the time of its begin: the time of its last row, the totals, and the key.
 */
final class Aggregates implements Serializable {
    private final List<String> keyTypes = new ArrayList<>();
    final List<String> inputTypes = new ArrayList<>();
    final Totals totals;
    final String window;
    /** Size or gap in nanoseconds. */
    final long lengthNs;
    /** Nanoseconds of the unit of the columns of the window; 0 if there are none. */
    final long unitNs;
    private final String uid;
    private final boolean skipsBad;

    /** Fields before the totals. */
    private static final int TOTALS_AT = 1;

    Aggregates(Job.Node node) {
        JsonNode json = node.json();
        json.get("keys").forEach(key -> keyTypes.add(key.get("type").asText()));
        inputTypes.addAll(keyTypes);
        totals = new Totals(json.get("calls"), keyTypes.size());
        for (JsonNode call : json.get("calls")) {
            if (!call.get("argument").isNull()) {
                inputTypes.add(call.get("argument").get("type").asText());
            }
        }
        inputTypes.add("timestamp(ns)");
        JsonNode span = json.get("window");
        window = span.get("kind").asText();
        lengthNs = Values.time(span.path(window.equals("session") ? "gap_ns" : "size_ns"));
        unitNs = json.get("window_unit_ns").asLong(0);
        uid = node.uid;
        skipsBad = node.skipsBad;
    }

    /** The state by the begin of the window. */
    MapStateDescriptor<Long, Row> descriptor() {
        List<TypeInformation<?>> types = new ArrayList<>();
        types.add(Types.LONG);
        types.addAll(totals.types());
        keyTypes.forEach(type -> types.add(Values.type(type)));
        return new MapStateDescriptor<>("windows", Types.LONG, Types.ROW(types.toArray(TypeInformation[]::new)));
    }

    String key(Row input) {
        List<Object> values = new ArrayList<>();
        for (int cell = 0; cell < keyTypes.size(); cell++) {
            values.add(input.getField(cell));
        }
        return Values.key(values);
    }

    String key(JsonNode values) {
        List<Object> found = new ArrayList<>();
        for (int cell = 0; cell < keyTypes.size(); cell++) {
            found.add(Values.of(values.get(cell), keyTypes.get(cell)));
        }
        return Values.key(found);
    }

    long time(Row input) {
        return (Long) input.getField(inputTypes.size() - 1);
    }

    /** The state of a window whose first row is this. */
    Row begin(Row input) {
        Row state = new Row(TOTALS_AT + totals.width() + keyTypes.size());
        state.setField(0, time(input));
        totals.init(state, TOTALS_AT);
        for (int cell = 0; cell < keyTypes.size(); cell++) {
            state.setField(TOTALS_AT + totals.width() + cell, input.getField(cell));
        }
        return state;
    }

    /** The same as the export writes it. */
    Row read(JsonNode line) {
        Row state = new Row(TOTALS_AT + totals.width() + keyTypes.size());
        state.setField(0, Values.time(line.path(window.equals("session") ? "last_ns" : "start_ns")));
        totals.read(line.get("totals"), state, TOTALS_AT);
        for (int cell = 0; cell < keyTypes.size(); cell++) {
            state.setField(TOTALS_AT + totals.width() + cell, Values.of(line.get("key").get(cell), keyTypes.get(cell)));
        }
        return state;
    }

    static long last(Row state) {
        return (Long) state.getField(0);
    }

    void add(Row state, Row input) {
        state.setField(0, Math.max(last(state), time(input)));
        totals.add(state, TOTALS_AT, input);
    }

    void merge(Row state, Row later) {
        state.setField(0, Math.max(last(state), last(later)));
        totals.merge(state, TOTALS_AT, later);
    }

    /** The row of a window; null if a value cannot be computed and such rows are skipped. */
    Row result(long startNs, long endNs, Row state) {
        int columns = unitNs > 0 ? 2 : 0;
        Row row = new Row(columns + keyTypes.size() + totals.calls() + (unitNs > 0 ? 1 : 0));
        if (unitNs > 0) {
            row.setField(0, startNs / unitNs);
            row.setField(1, endNs / unitNs + (endNs % unitNs > 0 ? 1 : 0));
            row.setField(row.getArity() - 1, endNs - 1);
        }
        for (int cell = 0; cell < keyTypes.size(); cell++) {
            row.setField(columns + cell, state.getField(TOTALS_AT + totals.width() + cell));
        }
        try {
            totals.results(state, TOTALS_AT, row, columns + keyTypes.size());
        } catch (BadValue error) {
            if (skipsBad) {
                return null;
            }
            throw new BadValue(uid + ": " + error.getMessage());
        }
        return row;
    }
}
