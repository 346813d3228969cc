/* Adds up the bytes of a file, 1 MiB at a time in a shuffled order that is prefetched: `shuffled FILE`. */
#include <sakiyomi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PART = 1 << 20 };

static int failed(void) {
    fprintf(stderr, "%s\n", sakiyomi_last_error());
    return 2;
}

int main(int count, char **names) {
    struct stat file;
    if (count != 2 || stat(names[1], &file) < 0) {
        fprintf(stderr, "usage: shuffled FILE\n");
        return 2;
    }
    size_t parts = ((size_t)file.st_size + PART - 1) / PART;
    sakiyomi_range *order = calloc(parts + 1, sizeof *order);
    if (!order)
        return 2;
    for (size_t index = 0; index < parts; index++) {
        size_t other = (size_t)rand() % (index + 1);
        order[index] = order[other];
        order[other] = (sakiyomi_range){.offset = (uint64_t)index * PART, .length = PART};
    }
    sakiyomi_mapped *mapped;
    if (sakiyomi_mapped_open(names[1], order, parts, NULL, &mapped) < 0)
        return failed();
    uint64_t sum = 0, size = (uint64_t)sakiyomi_mapped_size(mapped);
    for (size_t index = 0; index < parts; index++) {
        const unsigned char *bytes;
        uint64_t left = order[index].offset < size ? size - order[index].offset : 0;
        size_t length = left < PART ? (size_t)left : PART;
        if (sakiyomi_mapped_slice(mapped, order[index].offset, length, (const void **)&bytes) < 0)
            return failed();
        for (size_t at = 0; at < length; at++)
            sum += bytes[at];
    }
    if (sakiyomi_mapped_truncated(mapped))
        fprintf(stderr, "%s was truncated while it was read\n", names[1]);
    printf("%llu\n", (unsigned long long)sum);
    sakiyomi_mapped_close(mapped);
    free(order);
    return 0;
}
