package dev.sakiyomi.flink;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Dates and times in text: ISO 8601, and the form of web server logs. */
final class Times {
    private static final String ZONE = "([Zz]|[-+]\\d{2}(?::?\\d{2})?)?";
    private static final Pattern ISO = Pattern.compile(
            "(\\d{4})-(\\d{2})-(\\d{2})(?:[Tt ](\\d{2}):(\\d{2}):(\\d{2})(?:[.,](\\d+))?" + ZONE + ")?");
    private static final Pattern LOG =
            Pattern.compile("(\\d{2})/([A-Z][a-z]{2})/(\\d{4}):(\\d{2}):(\\d{2}):(\\d{2}) ?" + ZONE);
    private static final List<String> MONTHS =
            List.of("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec");

    private Times() {}

    /** Days since 1970-01-01; null if the text is no date. */
    static Long date(String text) {
        Matcher found = ISO.matcher(text);
        return text.length() == 10 && found.matches() ? days(found.group(1), number(found.group(2)), found.group(3)) : null;
    }

    /** Units since 1970-01-01 UTC, rounded down; null if the text is no time, or beyond 64 bits. */
    static Long time(String text, long unitsPerSecond) {
        Matcher iso = ISO.matcher(text);
        if (iso.matches()) {
            Long days = days(iso.group(1), number(iso.group(2)), iso.group(3));
            return iso.group(4) == null
                    ? moment(days, 0L, 0, unitsPerSecond)
                    : moment(days, second(iso, 4, 8), nanos(iso.group(7)), unitsPerSecond);
        }
        Matcher log = LOG.matcher(text);
        if (log.matches()) {
            return moment(days(log.group(3), MONTHS.indexOf(log.group(2)) + 1, log.group(1)), second(log, 4, 7), 0, unitsPerSecond);
        }
        return null;
    }

    private static Long moment(Long days, Long second, long nanos, long unitsPerSecond) {
        if (days == null || second == null) {
            return null;
        }
        try {
            long seconds = days * 86_400 + second;
            return Math.addExact(Math.multiplyExact(seconds, unitsPerSecond), nanos / (1_000_000_000L / unitsPerSecond));
        } catch (ArithmeticException error) {
            return null;
        }
    }

    private static int number(String digits) {
        return Integer.parseInt(digits);
    }

    private static Long days(String year, int month, String day) {
        try {
            return LocalDate.of(number(year), month, number(day)).toEpochDay();
        } catch (DateTimeException error) {
            return null;
        }
    }

    /** The second of the day, in UTC; a leap second counts as the one after it. */
    private static Long second(Matcher found, int clock, int zone) {
        int hour = number(found.group(clock));
        int minute = number(found.group(clock + 1));
        int second = number(found.group(clock + 2));
        if (hour > 23 || minute > 59 || second > 60) {
            return null;
        }
        return hour * 3600L + minute * 60L + second - offset(found.group(zone));
    }

    private static long offset(String zone) {
        if (zone == null || zone.equalsIgnoreCase("z")) {
            return 0;
        }
        String digits = zone.substring(1).replace(":", "");
        long seconds = number(digits.substring(0, 2)) * 3600L
                + (digits.length() > 2 ? number(digits.substring(2)) * 60L : 0);
        return zone.charAt(0) == '-' ? -seconds : seconds;
    }

    private static long nanos(String fraction) {
        if (fraction == null) {
            return 0;
        }
        return Long.parseLong((fraction + "000000000").substring(0, 9));
    }

    /** {@code YYYY-MM-DDTHH:MM:SS[.fff]Z}, with the digits of the unit. */
    static String shown(long value, long unitsPerSecond) {
        long seconds = Math.floorDiv(value, unitsPerSecond);
        long part = Math.floorMod(value, unitsPerSecond);
        LocalDateTime time = LocalDateTime.ofEpochSecond(seconds, 0, ZoneOffset.UTC);
        String shown = String.format("%sT%02d:%02d:%02d", time.toLocalDate(), time.getHour(), time.getMinute(), time.getSecond());
        int digits = String.valueOf(unitsPerSecond).length() - 1;
        return digits == 0 ? shown + "Z" : shown + "." + String.format("%0" + digits + "d", part) + "Z";
    }
}
