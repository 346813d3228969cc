package dev.sakiyomi.flink;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectReader;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.flink.types.Row;

/** Records of CSV and JSON to rows, as the parser of sakiyomi reads them. */
final class Records {
    private static final Pattern FLOAT = Pattern.compile("[-+]?(\\d+\\.?\\d*|\\.\\d+)([eE][-+]?\\d+)?");

    private final ObjectReader json =
            Job.JSON.reader().with(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private final List<Field> fields = new ArrayList<>();
    private final int width;
    private final boolean isCsv;
    private final char separator;
    private final boolean hasHeader;
    /** Fields up to the last one that is used. */
    private int usedFields;
    /** For each field of a record its number in {@code fields}, or -1; null while the header is awaited. */
    private int[] order;

    private record Field(String name, String type, int cell) {}

    Records(JsonNode source, int width, int[] order) {
        this.width = width;
        for (JsonNode field : source.get("fields")) {
            int cell = field.get("cell").isNull() ? -1 : field.get("cell").asInt();
            fields.add(new Field(field.get("name").asText(), field.get("type").asText(), cell));
            if (cell >= 0) {
                usedFields = fields.size();
            }
        }
        isCsv = source.get("format").asText().equals("csv");
        separator = isCsv ? source.get("separator").asText().charAt(0) : 0;
        hasHeader = source.get("header").asBoolean();
        this.order = order != null ? order : isCsv && !hasHeader ? identity() : null;
    }

    /** The order of a header that was read; null before. */
    int[] order() {
        return order;
    }

    boolean hasQuotes() {
        return isCsv;
    }

    private int[] identity() {
        int[] order = new int[usedFields];
        for (int at = 0; at < order.length; at++) {
            order[at] = at;
        }
        return order;
    }

    /**
     * The row of a record; null of one that is none.
     *
     * @throws BadValue if the record cannot be read
     */
    Row parse(byte[] bytes, int from, int to) {
        int end = to > from && bytes[to - 1] == '\r' ? to - 1 : to;
        if (end == from) {
            return null;
        }
        String line;
        try {
            line = StandardCharsets.UTF_8.newDecoder()
                    .onMalformedInput(CodingErrorAction.REPORT)
                    .onUnmappableCharacter(CodingErrorAction.REPORT)
                    .decode(ByteBuffer.wrap(bytes, from, end - from))
                    .toString();
        } catch (CharacterCodingException error) {
            throw new BadValue("the line is not UTF-8");
        }
        return isCsv ? csv(line) : object(line);
    }

    private Row csv(String line) {
        Fields parts = new Fields(line);
        if (order == null) {
            order = header(parts);
            return null;
        }
        Row row = new Row(width);
        for (int number = 0; number < order.length; number++) {
            if (!parts.next()) {
                throw new BadValue("the record has only " + number + " fields");
            }
            // An empty field without quotes is null, also of a text.
            if (order[number] >= 0 && (parts.isQuoted || !parts.text.isEmpty())) {
                set(row, fields.get(order[number]), parts.text);
            }
        }
        return row;
    }

    private int[] header(Fields parts) {
        List<Integer> found = new ArrayList<>();
        while (parts.next()) {
            String name = parts.text.replaceFirst("^\ufeff+", "").strip();
            int index = -1;
            for (int at = 0; at < usedFields && index < 0; at++) {
                Field field = fields.get(at);
                index = field.cell >= 0 && field.name.equals(name) ? at : -1;
            }
            found.add(index);
        }
        for (int at = 0; at < usedFields; at++) {
            if (fields.get(at).cell >= 0 && !found.contains(at)) {
                throw new BadValue("the header has no column " + fields.get(at).name);
            }
        }
        while (!found.isEmpty() && found.get(found.size() - 1) < 0) {
            found.remove(found.size() - 1);
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }

    /** The fields of a record (RFC 4180). */
    private final class Fields {
        private final String record;
        /** Where the next field begins; -1 after the last. */
        private int at;
        private String text;
        private boolean isQuoted;

        private Fields(String record) {
            this.record = record;
        }

        private boolean next() {
            if (at < 0) {
                return false;
            }
            isQuoted = at < record.length() && record.charAt(at) == '"';
            if (!isQuoted) {
                int end = record.indexOf(separator, at);
                text = end < 0 ? record.substring(at) : record.substring(at, end);
                at = end < 0 ? -1 : end + 1;
                return true;
            }
            StringBuilder unescaped = new StringBuilder();
            int from = at + 1;
            while (true) {
                int quote = record.indexOf('"', from);
                if (quote < 0) {
                    throw new BadValue("the record ends within quotes");
                }
                unescaped.append(record, from, quote);
                boolean isLast = quote + 1 == record.length();
                if (isLast || record.charAt(quote + 1) == separator) {
                    text = unescaped.toString();
                    at = isLast ? -1 : quote + 2;
                    return true;
                }
                if (record.charAt(quote + 1) != '"') {
                    throw new BadValue("the record ends within quotes");
                }
                unescaped.append('"');
                from = quote + 2;
            }
        }
    }

    private Row object(String line) {
        JsonNode object;
        try {
            object = json.readTree(line);
        } catch (JsonProcessingException error) {
            throw new BadValue("the line is not an object of JSON");
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        }
        if (!object.isObject()) {
            throw new BadValue("the line is not an object of JSON");
        }
        Row row = new Row(width);
        for (Field field : fields) {
            JsonNode value = field.cell < 0 ? null : object.get(field.name);
            if (value != null && !value.isNull()) {
                if (value.isTextual()) {
                    set(row, field, value.asText());
                } else {
                    row.setField(field.cell, known(field, number(field, value)));
                }
            }
        }
        return row;
    }

    /** The value of a boolean or number of JSON; null if it does not fit. */
    private static Object number(Field field, JsonNode value) {
        if (value.isBoolean()) {
            return field.type.equals("bool") ? value.asBoolean() : null;
        }
        if (field.type.equals("float64")) {
            return value.isNumber() ? value.doubleValue() : null;
        }
        if (!value.isIntegralNumber() || !value.canConvertToLong()) {
            return null;
        }
        long[] range = Values.range(field.type);
        long number = value.longValue();
        if (range == null) {
            return field.type.startsWith("timestamp") ? number : null;
        }
        return number >= range[0] && number <= range[1] ? number : null;
    }

    private static Object known(Field field, Object value) {
        if (value == null) {
            throw new BadValue("the value of column " + field.name + " is not of type " + field.type);
        }
        return value;
    }

    private static void set(Row row, Field field, String text) {
        if (text.isEmpty() && !field.type.equals("text")) {
            return;
        }
        row.setField(field.cell, known(field, value(field.type, text)));
    }

    /** The value of a text; null if it does not fit. */
    private static Object value(String type, String text) {
        switch (type) {
            case "text":
                return text;
            case "bool":
                return text.equalsIgnoreCase("true") ? Boolean.TRUE : text.equalsIgnoreCase("false") ? Boolean.FALSE : null;
            case "float64":
                return FLOAT.matcher(text).matches() ? Double.valueOf(text) : null;
            case "date":
                return Times.date(text);
            default:
                break;
        }
        Long number = Values.integer(text);
        long[] range = Values.range(type);
        if (range != null) {
            return number != null && number >= range[0] && number <= range[1] ? number : null;
        }
        Long time = Times.time(text, Values.unitsPerSecond(type));
        return time != null ? time : number;
    }
}
