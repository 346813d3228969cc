package dev.sakiyomi.flink;

/** A record that cannot be read, or a value that cannot be computed. */
final class BadValue extends RuntimeException {
    BadValue(String reason) {
        super(reason);
    }
}
