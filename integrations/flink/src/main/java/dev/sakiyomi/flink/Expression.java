package dev.sakiyomi.flink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.time.LocalDate;
import java.time.temporal.IsoFields;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.flink.types.Row;

/** An expression over the cells of a row: the interpreter of the trees in {@code job.json}. */
final class Expression implements Serializable {
    private static final long DAY_SECONDS = 86_400;

    /** 2 to the power of 63: the least float that is no integer of 64 bits. */
    private static final double INT64_LIMIT = 0x1p63;

    /** Around the digits of a text that becomes an integer. */
    private static final Pattern BLANKS = Pattern.compile("^[ \\t\\n\\f\\r]+|[ \\t\\n\\f\\r]+\\z");

    private final String op;
    final String type;
    private final String sql;
    private final int column;
    /** The value of a literal. */
    private final Serializable constant;
    private final List<Expression> inputs = new ArrayList<>();

    private Expression(JsonNode tree) {
        op = tree.get("op").asText();
        type = tree.get("type").asText();
        sql = tree.path("sql").asText();
        column = tree.path("column").asInt(-1);
        constant = tree.has("value") ? constant(tree.get("value").asText(), type) : null;
        tree.path("inputs").forEach(input -> inputs.add(new Expression(input)));
    }

    static Expression of(JsonNode tree) {
        return new Expression(tree);
    }

    private static Serializable constant(String text, String type) {
        return switch (type) {
            case "bool" -> Boolean.valueOf(text);
            case "float64" -> Double.valueOf(text);
            case "text" -> text;
            default -> Long.valueOf(text);
        };
    }

    /** Whether a condition is true; it is not if its value is null. */
    boolean select(Row row) {
        return Boolean.TRUE.equals(evaluate(row));
    }

    /** @throws BadValue if the value cannot be computed */
    Object evaluate(Row row) {
        switch (op) {
            case "column":
                return row.getField(column);
            case "literal":
                return constant;
            case "and":
                return chain(row, false);
            case "or":
                return chain(row, true);
            case "case":
                for (int at = 0; at + 1 < inputs.size(); at += 2) {
                    if (inputs.get(at).select(row)) {
                        return inputs.get(at + 1).evaluate(row);
                    }
                }
                return inputs.get(inputs.size() - 1).evaluate(row);
            case "coalesce":
                for (Expression input : inputs) {
                    Object value = input.evaluate(row);
                    if (value != null) {
                        return value;
                    }
                }
                return null;
            default:
                return inputs.size() == 1 ? unary(inputs.get(0).evaluate(row)) : several(row);
        }
    }

    /** AND or OR, from left to right until a value settles it. */
    private Object chain(Row row, boolean settled) {
        Boolean result = !settled;
        for (Expression input : inputs) {
            Object value = input.evaluate(row);
            if (value == null) {
                result = null;
            } else if ((Boolean) value == settled) {
                return settled;
            }
        }
        return result;
    }

    private Object unary(Object value) {
        switch (op) {
            case "is_null":
                return value == null;
            case "is_true":
                return Boolean.TRUE.equals(value);
            case "is_false":
                return Boolean.FALSE.equals(value);
            default:
                break;
        }
        if (value == null) {
            return null;
        }
        return switch (op) {
            case "cast" -> {
                Object result = cast(value);
                if (result == null) {
                    throw bad("cannot convert " + value);
                }
                yield result;
            }
            case "try_cast" -> cast(value);
            case "not" -> !(Boolean) value;
            case "negate" -> value instanceof Long number ? exact(() -> Math.negateExact(number)) : -(Double) value;
            case "abs" -> value instanceof Long number ? exact(() -> Math.absExact(number)) : Math.abs((Double) value);
            case "ceil" -> Math.ceil((Double) value);
            case "floor" -> Math.floor((Double) value);
            case "lower" -> ((String) value).toLowerCase(Locale.ROOT);
            case "upper" -> ((String) value).toUpperCase(Locale.ROOT);
            case "trim" -> trim((String) value);
            case "length" -> length((String) value);
            default -> part((Long) value);
        };
    }

    private static long length(String text) {
        return text.codePointCount(0, text.length());
    }

    /** Blanks only. */
    private static String trim(String text) {
        int from = 0;
        int to = text.length();
        while (from < to && text.charAt(from) == ' ') {
            from++;
        }
        while (from < to && text.charAt(to - 1) == ' ') {
            to--;
        }
        return text.substring(from, to);
    }

    private Object several(Row row) {
        Object a = inputs.get(0).evaluate(row);
        Object b = inputs.get(1).evaluate(row);
        Object c = inputs.size() > 2 ? inputs.get(2).evaluate(row) : 0L;
        switch (op) {
            case "distinct":
                return !same(a, b);
            case "not_distinct":
                return same(a, b);
            case "nullif":
                return a != null && b != null && Values.compare(a, b) == 0 ? null : a;
            default:
                break;
        }
        if (a == null || b == null || c == null) {
            return null;
        }
        return switch (op) {
            case "=" -> Values.compare(a, b) == 0;
            case "<>" -> Values.compare(a, b) != 0;
            case "<" -> Values.compare(a, b) < 0;
            case "<=" -> Values.compare(a, b) <= 0;
            case ">" -> Values.compare(a, b) > 0;
            case ">=" -> Values.compare(a, b) >= 0;
            case "like" -> Like.matches((String) a, (String) b);
            case "concat" -> (String) a + b;
            case "starts_with" -> ((String) a).startsWith((String) b);
            case "ends_with" -> ((String) a).endsWith((String) b);
            case "contains" -> ((String) a).contains((String) b);
            case "substring" -> substring((String) a, (Long) b, inputs.size() > 2 ? (Long) c : null);
            default -> a instanceof Long ? arithmetic((Long) a, (Long) b) : arithmetic((Double) a, (Double) b);
        };
    }

    private static boolean same(Object a, Object b) {
        return a == null || b == null ? a == b : Values.compare(a, b) == 0;
    }

    private Object arithmetic(long a, long b) {
        if (b == 0 && (op.equals("divide") || op.equals("remainder"))) {
            throw bad("division by zero");
        }
        // The remainder is 0.
        if (op.equals("divide") && a == Long.MIN_VALUE && b == -1) {
            throw bad("overflow");
        }
        return exact(() -> switch (op) {
            case "add" -> Math.addExact(a, b);
            case "subtract" -> Math.subtractExact(a, b);
            case "multiply" -> Math.multiplyExact(a, b);
            case "divide" -> a / b;
            case "remainder" -> a % b;
            default -> throw new IllegalStateException(op + " is unknown");
        });
    }

    private Object arithmetic(double a, double b) {
        return switch (op) {
            case "add" -> a + b;
            case "subtract" -> a - b;
            case "multiply" -> a * b;
            case "divide" -> a / b;
            case "remainder" -> a % b;
            default -> throw new IllegalStateException(op + " is unknown");
        };
    }

    private Object exact(java.util.function.LongSupplier compute) {
        try {
            return compute.getAsLong();
        } catch (ArithmeticException error) {
            throw bad("overflow");
        }
    }

    /** Characters are numbered from 1. */
    private String substring(String text, long start, Long length) {
        if (length != null && length < 0) {
            throw bad("the length of a substring is negative");
        }
        long count = length(text);
        long end = length == null || start > Long.MAX_VALUE - length ? Long.MAX_VALUE : start + length;
        long first = Math.max(start, 1);
        long last = Math.min(end, count + 1);
        if (last <= first) {
            return "";
        }
        int from = text.offsetByCodePoints(0, (int) (first - 1));
        return text.substring(from, text.offsetByCodePoints(from, (int) (last - first)));
    }

    /** Null if the value cannot be converted. */
    private Object cast(Object value) {
        String from = inputs.get(0).type;
        if (from.equals(type)) {
            return value;
        }
        long[] range = Values.range(type);
        if (range != null) {
            Long number = whole(value);
            return number == null || number < range[0] || number > range[1] ? null : number;
        }
        if (type.equals("text")) {
            return value.toString();
        }
        if (type.equals("float64")) {
            return (double) (Long) value;
        }
        long units = Values.unitsPerSecond(type);
        long factor = from.equals("date") ? DAY_SECONDS * units : units / Values.unitsPerSecond(from);
        try {
            return Math.multiplyExact((Long) value, factor);
        } catch (ArithmeticException error) {
            return null;
        }
    }

    /** An integer: floats are rounded half to even, texts are digits. */
    private static Long whole(Object value) {
        if (value instanceof Boolean truth) {
            return truth ? 1L : 0L;
        }
        if (value instanceof String text) {
            return Values.integer(BLANKS.matcher(text).replaceAll(""));
        }
        if (value instanceof Double number) {
            double rounded = Math.rint(number);
            return rounded >= -INT64_LIMIT && rounded < INT64_LIMIT ? (Long) (long) rounded : null;
        }
        return (Long) value;
    }

    /** A part of a date or time. */
    private long part(long value) {
        long days = value;
        long second = 0;
        if (!inputs.get(0).type.equals("date")) {
            long seconds = Math.floorDiv(value, Values.unitsPerSecond(inputs.get(0).type));
            days = Math.floorDiv(seconds, DAY_SECONDS);
            second = Math.floorMod(seconds, DAY_SECONDS);
        }
        LocalDate date = LocalDate.ofEpochDay(days);
        return switch (op) {
            case "hour" -> second / 3600;
            case "minute" -> second / 60 % 60;
            case "second" -> second % 60;
            // 1970-01-01 was a Thursday.
            case "dow" -> Math.floorMod(days + 4, 7L);
            case "year" -> date.getYear();
            case "quarter" -> date.get(IsoFields.QUARTER_OF_YEAR);
            case "month" -> date.getMonthValue();
            case "day" -> date.getDayOfMonth();
            case "doy" -> date.getDayOfYear();
            default -> throw new IllegalStateException(op + " is unknown");
        };
    }

    private BadValue bad(String reason) {
        return new BadValue(sql + ": " + reason);
    }
}
