package dev.sakiyomi.flink;

/** LIKE: {@code %} is any text, {@code _} any character, and a backslash takes the next character as it is. */
final class Like {
    private static final int ANY_TEXT = -1;
    private static final int ANY_CHAR = -2;

    private Like() {}

    /** Only the last {@code %} is tried again: any match of an earlier one leaves the most text. */
    static boolean matches(String text, String pattern) {
        int[] tokens = tokens(pattern);
        int[] letters = text.codePoints().toArray();
        int token = 0;
        int at = 0;
        int retryToken = -1;
        int retryAt = 0;
        while (true) {
            if (token < tokens.length && tokens[token] == ANY_TEXT) {
                retryToken = ++token;
                retryAt = at;
                continue;
            }
            if (at == letters.length) {
                return token == tokens.length;
            }
            if (token < tokens.length && (tokens[token] == ANY_CHAR || tokens[token] == letters[at])) {
                token++;
                at++;
            } else if (retryToken >= 0) {
                token = retryToken;
                at = ++retryAt;
            } else {
                return false;
            }
        }
    }

    private static int[] tokens(String pattern) {
        int[] letters = pattern.codePoints().toArray();
        int[] tokens = new int[letters.length];
        int count = 0;
        for (int at = 0; at < letters.length; at++) {
            tokens[count++] = switch (letters[at]) {
                case '%' -> ANY_TEXT;
                case '_' -> ANY_CHAR;
                // A backslash at the end is a backslash.
                case '\\' -> at + 1 < letters.length ? letters[++at] : '\\';
                default -> letters[at];
            };
        }
        return java.util.Arrays.copyOf(tokens, count);
    }
}
