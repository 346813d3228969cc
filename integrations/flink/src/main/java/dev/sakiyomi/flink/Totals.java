package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.types.Row;

/**
 * What the functions of an aggregate keep for a key and window: a row with a count, with a sum and a number of values, or
 * with the least or greatest value, for each call.
 */
final class Totals implements Serializable {
    private final List<Call> calls = new ArrayList<>();
    private final List<TypeInformation<?>> types = new ArrayList<>();

    /**
     * A call.
     *
     * @param argument the cell of the argument, or -1
     * @param at the first field of its totals
     */
    private record Call(String function, int argument, boolean isFloat, String type, int at) implements Serializable {
        boolean isSum() {
            return function.equals("sum") || function.equals("avg");
        }
    }

    /** The totals of some calls, whose arguments are cells from {@code first} on. */
    Totals(JsonNode json, int first) {
        int cell = first;
        for (JsonNode call : json) {
            String function = call.get("function").asText();
            String type = call.get("type").asText();
            boolean hasArgument = !call.get("argument").isNull();
            boolean isFloat = hasArgument && call.get("argument").get("type").asText().equals("float64");
            Call made = new Call(function, hasArgument ? cell++ : -1, isFloat, type, types.size());
            calls.add(made);
            if (made.isSum()) {
                types.add(isFloat ? Types.DOUBLE : Types.BIG_INT);
                types.add(Types.LONG);
            } else {
                types.add(function.equals("count") ? Types.LONG : Values.type(type));
            }
        }
    }

    List<TypeInformation<?>> types() {
        return types;
    }

    int width() {
        return types.size();
    }

    int calls() {
        return calls.size();
    }

    /** Begins the totals at a field of a row. */
    void init(Row state, int at) {
        for (Call call : calls) {
            if (call.isSum()) {
                state.setField(at + call.at, call.isFloat ? (Object) 0.0 : BigInteger.ZERO);
                state.setField(at + call.at + 1, 0L);
            } else {
                state.setField(at + call.at, call.function.equals("count") ? 0L : null);
            }
        }
    }

    void add(Row state, int at, Row row) {
        for (Call call : calls) {
            Object value = call.argument < 0 ? Boolean.TRUE : row.getField(call.argument);
            if (value != null) {
                add(call, state, at + call.at, value, 1);
            }
        }
    }

    /** Adds the totals of later rows. */
    void merge(Row state, int at, Row later) {
        for (Call call : calls) {
            Object value = later.getField(at + call.at);
            if (call.isSum()) {
                add(call, state, at + call.at, value, (Long) later.getField(at + call.at + 1));
            } else if (call.function.equals("count")) {
                state.setField(at + call.at, (Long) state.getField(at + call.at) + (Long) value);
            } else if (value != null) {
                add(call, state, at + call.at, value, 1);
            }
        }
    }

    private static void add(Call call, Row state, int at, Object value, long count) {
        if (call.isSum()) {
            Object sum = call.isFloat
                    ? (Object) ((Double) state.getField(at) + (Double) value)
                    : ((BigInteger) state.getField(at))
                            .add(value instanceof BigInteger big ? big : BigInteger.valueOf((Long) value));
            state.setField(at, sum);
            state.setField(at + 1, (Long) state.getField(at + 1) + count);
        } else if (call.function.equals("count")) {
            state.setField(at, (Long) state.getField(at) + 1);
        } else {
            Object best = state.getField(at);
            int order = best == null ? 0 : Values.compare(value, best);
            if (best == null || (call.function.equals("min") ? order < 0 : order > 0)) {
                // The same zero and NaN as in a key of sakiyomi.
                state.setField(at, value instanceof Double number ? (Object) (number + 0.0) : value);
            }
        }
    }

    /**
     * Writes the results to the fields of a row from {@code first} on.
     *
     * @throws BadValue if a sum is beyond its type
     */
    void results(Row state, int at, Row out, int first) {
        for (int index = 0; index < calls.size(); index++) {
            out.setField(first + index, result(calls.get(index), state, at + calls.get(index).at));
        }
    }

    private static Object result(Call call, Row state, int at) {
        Object value = state.getField(at);
        if (!call.isSum()) {
            return value;
        }
        long count = (Long) state.getField(at + 1);
        if (count == 0) {
            return null;
        }
        if (call.function.equals("avg")) {
            return ((Number) value).doubleValue() / count;
        }
        if (value instanceof BigInteger sum) {
            if (sum.bitLength() > 63) {
                throw new BadValue("a sum is beyond the range of its type");
            }
            return sum.longValue();
        }
        return value;
    }

    /** Reads totals as the export writes them. */
    void read(JsonNode json, Row state, int at) {
        for (int index = 0; index < calls.size(); index++) {
            Call call = calls.get(index);
            JsonNode total = json.get(index);
            if (call.isSum()) {
                String sum = total.get(0).asText();
                state.setField(at + call.at, call.isFloat ? (Object) Double.valueOf(sum) : new BigInteger(sum));
                state.setField(at + call.at + 1, total.get(1).asLong());
            } else {
                Object value = Values.of(total.get(0), call.function.equals("count") ? "int64" : call.type);
                state.setField(at + call.at, value);
            }
        }
    }
}
