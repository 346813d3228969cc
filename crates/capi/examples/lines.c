/* Counts the lines of files on all cores: `lines FILE...`. */
#include <inttypes.h>
#include <sakiyomi.h>
#include <stdio.h>
#include <string.h>

static int count(void *state, const sakiyomi_block *block, void *context) {
    uint64_t *lines = state;
    const char *at = block->bytes, *end = at + block->length;
    (void)context;
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        ++*lines;
        ++at;
    }
    return 0;
}

static void add(void *into, const void *from, void *context) {
    (void)context;
    *(uint64_t *)into += *(const uint64_t *)from;
}

int main(int number, char **names) {
    uint64_t lines = 0;
    const char *const *paths = (const char *const *)names + 1;
    if (sakiyomi_blocks_fold(paths, (size_t)number - 1, NULL, count, add, &lines, sizeof lines, NULL) < 0) {
        fprintf(stderr, "%s\n", sakiyomi_last_error());
        return 2;
    }
    printf("%" PRIu64 "\n", lines);
    return 0;
}
