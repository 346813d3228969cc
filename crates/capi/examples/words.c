/* Counts the words of a file that is read ahead: `words FILE`. */
#include <ctype.h>
#include <sakiyomi.h>
#include <stdio.h>

int main(int count, char **names) {
    static unsigned char buffer[1 << 16];
    sakiyomi_prefetch *reader;
    if (count != 2 || sakiyomi_prefetch_open(names[1], NULL, &reader) < 0) {
        fprintf(stderr, "%s\n", count == 2 ? sakiyomi_last_error() : "usage: words FILE");
        return 2;
    }
    unsigned long words = 0;
    int inside = 0;
    ssize_t read;
    while ((read = sakiyomi_prefetch_read(reader, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < read; at++) {
            words += !inside && !isspace(buffer[at]);
            inside = !isspace(buffer[at]);
        }
    if (read < 0)
        fprintf(stderr, "%s: %s\n", names[1], sakiyomi_last_error());
    printf("%lu\n", words);
    sakiyomi_prefetch_close(reader);
    return read < 0 ? 2 : 0;
}
