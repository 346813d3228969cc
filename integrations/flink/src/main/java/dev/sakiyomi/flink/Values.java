package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.types.Row;

/**
 * Values of cells: null, {@code Boolean}, {@code Long} (integers, dates and times in the unit of their type),
 * {@code Double}, {@code String}.
 */
final class Values {
    private Values() {}

    static TypeInformation<?> type(String name) {
        return switch (name) {
            case "bool" -> Types.BOOLEAN;
            case "float64" -> Types.DOUBLE;
            case "text" -> Types.STRING;
            default -> Types.LONG;
        };
    }

    static TypeInformation<Row> rowType(List<String> names) {
        return Types.ROW(names.stream().map(Values::type).toArray(TypeInformation[]::new));
    }

    /** The value of a type as the export writes it. */
    static Object of(JsonNode json, String type) {
        if (json.isNull()) {
            return null;
        }
        return switch (type) {
            case "bool" -> json.asBoolean();
            case "float64" -> Double.valueOf(json.asText());
            case "text" -> json.asText();
            default -> json.asLong();
        };
    }

    /** Texts compare by their bytes; NaN is one value after all numbers, and -0 is 0. */
    static int compare(Object one, Object other) {
        if (one instanceof String text) {
            return Arrays.compareUnsigned(
                    text.getBytes(StandardCharsets.UTF_8), ((String) other).getBytes(StandardCharsets.UTF_8));
        }
        if (one instanceof Double number) {
            return Double.compare(number + 0.0, (Double) other + 0.0);
        }
        if (one instanceof Boolean value) {
            return Boolean.compare(value, (Boolean) other);
        }
        return Long.compare((Long) one, (Long) other);
    }

    /** The values of a key as one text: equal for equal values only. */
    static String key(Iterable<?> values) {
        StringBuilder key = new StringBuilder();
        for (Object value : values) {
            if (value == null) {
                key.append('n');
            } else {
                String text = value.toString();
                key.append(text.length()).append(':').append(text);
            }
        }
        return key.toString();
    }

    /** Times beyond 63 bits never come. */
    static long time(JsonNode json) {
        return json.canConvertToLong() ? json.asLong() : Long.MAX_VALUE;
    }

    static long plus(long time, long length) {
        return time > Long.MAX_VALUE - length ? Long.MAX_VALUE : time + length;
    }

    static long unitsPerSecond(String type) {
        return switch (type) {
            case "timestamp(s)" -> 1L;
            case "timestamp(ms)" -> 1_000L;
            case "timestamp(us)" -> 1_000_000L;
            case "timestamp(ns)" -> 1_000_000_000L;
            default -> throw new IllegalArgumentException(type + " is not a timestamp");
        };
    }

    /** The range of an integer type; null of other types. */
    static long[] range(String type) {
        return switch (type) {
            case "int8" -> new long[] {Byte.MIN_VALUE, Byte.MAX_VALUE};
            case "int16" -> new long[] {Short.MIN_VALUE, Short.MAX_VALUE};
            case "int32" -> new long[] {Integer.MIN_VALUE, Integer.MAX_VALUE};
            case "int64" -> new long[] {Long.MIN_VALUE, Long.MAX_VALUE};
            case "uint8" -> new long[] {0, 0xffL};
            case "uint16" -> new long[] {0, 0xffffL};
            case "uint32" -> new long[] {0, 0xffff_ffffL};
            default -> null;
        };
    }

    /** An integer in digits with an optional sign; null if it is none or beyond 64 bits. */
    static Long integer(String text) {
        int digits = text.startsWith("-") || text.startsWith("+") ? 1 : 0;
        if (digits == text.length()) {
            return null;
        }
        for (int at = digits; at < text.length(); at++) {
            if (text.charAt(at) < '0' || text.charAt(at) > '9') {
                return null;
            }
        }
        try {
            return Long.valueOf(text);
        } catch (NumberFormatException error) {
            return null;
        }
    }
}
