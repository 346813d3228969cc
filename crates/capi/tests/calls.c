/* Calls the functions of the header, but for tasks and simulations, with valid and invalid arguments. Macros give the layout
 * of Rust's structures. */
#include <errno.h>
#include <fcntl.h>
#include <sakiyomi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(sakiyomi_prefetch_options) == OPTIONS_SIZE, "options");
_Static_assert(offsetof(sakiyomi_prefetch_options, size) == OPTIONS_SIZE_AT, "options.size");
_Static_assert(offsetof(sakiyomi_prefetch_options, limit_bytes) == OPTIONS_LIMIT_BYTES_AT, "limit_bytes");
_Static_assert(offsetof(sakiyomi_prefetch_options, step_bytes) == OPTIONS_STEP_BYTES_AT, "step_bytes");
_Static_assert(offsetof(sakiyomi_prefetch_options, memory_bytes) == OPTIONS_MEMORY_BYTES_AT, "memory_bytes");
_Static_assert(sizeof(sakiyomi_prefetch_statistics) == STATISTICS_SIZE, "statistics");
_Static_assert(offsetof(sakiyomi_prefetch_statistics, size) == STATISTICS_SIZE_AT, "statistics.size");
_Static_assert(offsetof(sakiyomi_prefetch_statistics, read_bytes) == STATISTICS_READ_BYTES_AT, "read_bytes");
_Static_assert(offsetof(sakiyomi_prefetch_statistics, prefetched_bytes) == STATISTICS_PREFETCHED_BYTES_AT,
               "prefetched_bytes");
_Static_assert(offsetof(sakiyomi_prefetch_statistics, waits) == STATISTICS_WAITS_AT, "waits");
_Static_assert(offsetof(sakiyomi_prefetch_statistics, io_wait_ns) == STATISTICS_IO_WAIT_NS_AT, "io_wait_ns");
_Static_assert(offsetof(sakiyomi_prefetch_statistics, io_hidden_ns) == STATISTICS_IO_HIDDEN_NS_AT, "io_hidden_ns");
_Static_assert(offsetof(sakiyomi_prefetch_statistics, ahead_bytes) == STATISTICS_AHEAD_BYTES_AT, "ahead_bytes");
_Static_assert(sizeof(sakiyomi_range) == RANGE_SIZE, "range");
_Static_assert(offsetof(sakiyomi_range, offset) == RANGE_OFFSET_AT, "range.offset");
_Static_assert(offsetof(sakiyomi_range, length) == RANGE_LENGTH_AT, "range.length");
_Static_assert(sizeof(sakiyomi_ranges_options) == RANGES_OPTIONS_SIZE, "ranges_options");
_Static_assert(offsetof(sakiyomi_ranges_options, size) == RANGES_OPTIONS_SIZE_AT, "ranges_options.size");
_Static_assert(offsetof(sakiyomi_ranges_options, memory_bytes) == RANGES_OPTIONS_MEMORY_BYTES_AT,
               "ranges_options.memory_bytes");

_Static_assert(sizeof(sakiyomi_block) == BLOCK_SIZE, "block");
_Static_assert(offsetof(sakiyomi_block, bytes) == BLOCK_BYTES_AT, "block.bytes");
_Static_assert(offsetof(sakiyomi_block, length) == BLOCK_LENGTH_AT, "block.length");
_Static_assert(offsetof(sakiyomi_block, offset) == BLOCK_OFFSET_AT, "block.offset");
_Static_assert(offsetof(sakiyomi_block, file) == BLOCK_FILE_AT, "block.file");
_Static_assert(sizeof(sakiyomi_blocks_options) == BLOCKS_OPTIONS_SIZE, "blocks_options");
_Static_assert(offsetof(sakiyomi_blocks_options, size) == BLOCKS_OPTIONS_SIZE_AT, "blocks_options.size");
_Static_assert(offsetof(sakiyomi_blocks_options, block_bytes) == BLOCKS_OPTIONS_BLOCK_BYTES_AT, "block_bytes");
_Static_assert(offsetof(sakiyomi_blocks_options, has_records) == BLOCKS_OPTIONS_HAS_RECORDS_AT, "has_records");
_Static_assert(offsetof(sakiyomi_blocks_options, record_end) == BLOCKS_OPTIONS_RECORD_END_AT, "record_end");
_Static_assert(offsetof(sakiyomi_blocks_options, threads) == BLOCKS_OPTIONS_THREADS_AT, "threads");

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: not so: %s (%s)\n", line, what, sakiyomi_last_error());
        exit(1);
    }
}
#define CHECK(holds) check((holds) != 0, #holds, __LINE__)

/* A file of SIZE bytes; each byte is its offset modulo 251. */
enum { SIZE = 3000000 };
static unsigned char buffer[SIZE + 1];

static size_t read_all(sakiyomi_prefetch *reader, size_t from, size_t at_a_time) {
    size_t at = from;
    ssize_t count;
    while ((count = sakiyomi_prefetch_read(reader, buffer, at_a_time)) > 0)
        for (ssize_t index = 0; index < count; index++, at++)
            CHECK(buffer[index] == at % 251);
    CHECK(count == 0);
    return at - from;
}

static void reads_and_seeks(const char *path) {
    sakiyomi_prefetch_options options = {.size = sizeof options, .limit_bytes = 1 << 20, .step_bytes = 1 << 16};
    sakiyomi_prefetch *reader;
    CHECK(sakiyomi_prefetch_open(path, &options, &reader) == 0 && reader);
    CHECK(sakiyomi_prefetch_position(reader) == 0);
    CHECK(read_all(reader, 0, 1000) == SIZE);
    CHECK(sakiyomi_prefetch_position(reader) == SIZE);
    CHECK(sakiyomi_prefetch_seek(reader, -1000, SEEK_END) == SIZE - 1000);
    CHECK(sakiyomi_prefetch_seek(reader, -1000, SEEK_CUR) == SIZE - 2000);
    CHECK(read_all(reader, SIZE - 2000, sizeof buffer) == 2000);
    CHECK(sakiyomi_prefetch_seek(reader, 7, SEEK_SET) == 7);
    CHECK(read_all(reader, 7, sizeof buffer) == SIZE - 7);
    sakiyomi_prefetch_statistics statistics = {.size = sizeof statistics};
    CHECK(sakiyomi_prefetch_stats(reader, &statistics) == 0);
    CHECK(statistics.read_bytes >= 2 * SIZE - 7);
    CHECK(sakiyomi_prefetch_seek(reader, -1, SEEK_SET) == -EINVAL);
    CHECK(sakiyomi_prefetch_seek(reader, INT64_MIN, SEEK_CUR) == -EINVAL);
    CHECK(sakiyomi_prefetch_seek(reader, 0, 77) == -EINVAL);
    CHECK(strstr(sakiyomi_last_error(), "SEEK_SET") != NULL);
    CHECK(sakiyomi_prefetch_position(reader) == SIZE);
    CHECK(sakiyomi_prefetch_read(reader, NULL, 0) == 0);
    CHECK(sakiyomi_prefetch_read(reader, NULL, 1) == -EINVAL);
    CHECK(sakiyomi_prefetch_read(reader, buffer, SIZE_MAX) == -EINVAL);
    statistics.size = 8;
    CHECK(sakiyomi_prefetch_stats(reader, &statistics) == -EINVAL);
    CHECK(sakiyomi_prefetch_stats(reader, NULL) == -EINVAL);
    CHECK(sakiyomi_prefetch_close(reader) == 0);
}

static void reads_descriptors(const char *path) {
    sakiyomi_prefetch *reader;
    int fd = open(path, O_RDONLY);
    CHECK(lseek(fd, 5, SEEK_SET) == 5);
    CHECK(sakiyomi_prefetch_open_fd(fd, NULL, &reader) == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == 5 && close(fd) == 0);
    CHECK(read_all(reader, 5, 70000) == SIZE - 5);
    CHECK(sakiyomi_prefetch_close(reader) == 0);

    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "\0\1\2", 3) == 3 && close(ends[1]) == 0);
    CHECK(sakiyomi_prefetch_open_fd(ends[0], NULL, &reader) == 0);
    CHECK(sakiyomi_prefetch_seek(reader, 0, SEEK_CUR) == -ESPIPE);
    CHECK(read_all(reader, 0, 100) == 3 && sakiyomi_prefetch_position(reader) == 3);
    CHECK(sakiyomi_prefetch_close(reader) == 0 && close(ends[0]) == 0);
}

static void refuses(const char *path) {
    sakiyomi_prefetch *reader = (sakiyomi_prefetch *)buffer;
    CHECK(sakiyomi_prefetch_open("/nowhere/at/all", NULL, &reader) == -ENOENT && !reader);
    CHECK(strstr(sakiyomi_last_error(), "cannot open /nowhere/at/all: ") == sakiyomi_last_error());
    CHECK(sakiyomi_prefetch_open("/", NULL, &reader) == -EISDIR);
    CHECK(sakiyomi_prefetch_open(NULL, NULL, &reader) == -EINVAL);
    CHECK(sakiyomi_prefetch_open(path, NULL, NULL) == -EINVAL);
    CHECK(sakiyomi_prefetch_open_fd(-1, NULL, &reader) == -EBADF);
    CHECK(sakiyomi_prefetch_open_fd(987654, NULL, &reader) == -EBADF);
    int directory = open("/", O_RDONLY);
    CHECK(sakiyomi_prefetch_open_fd(directory, NULL, &reader) == -EISDIR && close(directory) == 0);
    CHECK(sakiyomi_prefetch_open_fd(0, NULL, NULL) == -EINVAL);
    sakiyomi_prefetch_options options = {.size = 0};
    CHECK(sakiyomi_prefetch_open(path, &options, &reader) == -EINVAL);
    options = (sakiyomi_prefetch_options){.size = sizeof options, .step_bytes = 1};
    CHECK(sakiyomi_prefetch_open(path, &options, &reader) == -EINVAL && !reader);
    CHECK(sakiyomi_prefetch_read(NULL, buffer, 1) == -EINVAL);
    CHECK(sakiyomi_prefetch_seek(NULL, 0, SEEK_SET) == -EINVAL);
    CHECK(sakiyomi_prefetch_position(NULL) == -EINVAL);
    CHECK(sakiyomi_prefetch_stats(NULL, NULL) == -EINVAL);
    CHECK(strcmp(sakiyomi_last_error(), "reader is a null pointer, which is not allowed here") == 0);
    CHECK(sakiyomi_prefetch_close(NULL) == 0);
}

/* The whole file in shuffled parts that overlap by 10 bytes, beside an empty one and one beyond the end. */
enum { PARTS = 31, PART = 100000 };
static sakiyomi_range order[PARTS];

static void shuffle(void) {
    for (size_t index = 0; index < PARTS - 1; index++)
        order[index] = (sakiyomi_range){.offset = index * 7 % (PARTS - 1) * PART, .length = PART + 10};
    order[3].length = UINT64_MAX;
    order[PARTS - 1] = (sakiyomi_range){.offset = UINT64_MAX, .length = 5};
}

static void prefetches_ranges(const char *path) {
    sakiyomi_ranges_options options = {.size = sizeof options, .memory_bytes = 1 << 18};
    sakiyomi_ranges *ranges;
    int fd = open(path, O_RDONLY);
    CHECK(lseek(fd, 5, SEEK_SET) == 5);
    for (int by_fd = 0; by_fd < 2; by_fd++) {
        if (by_fd)
            CHECK(sakiyomi_ranges_open_fd(fd, order, PARTS, NULL, &ranges) == 0 && ranges);
        else
            CHECK(sakiyomi_ranges_open(path, order, PARTS, &options, &ranges) == 0 && ranges);
        for (size_t index = 0; index < PARTS; index++) {
            int cached = sakiyomi_ranges_wait(ranges, index);
            CHECK(cached == 0 || cached == 1);
            if (order[index].offset >= SIZE)
                break;
            ssize_t count = pread(fd, buffer, PART, (off_t)order[index].offset);
            CHECK(count == PART);
            for (ssize_t at = 0; at < count; at++)
                CHECK(buffer[at] == (order[index].offset + (uint64_t)at) % 251);
            CHECK(sakiyomi_ranges_advance(ranges, index + 1) == 0);
        }
        CHECK(sakiyomi_ranges_advance(ranges, 0) == 0 && sakiyomi_ranges_advance(ranges, SIZE_MAX) == 0);
        CHECK(sakiyomi_ranges_wait(ranges, PARTS) == -EINVAL);
        CHECK(strstr(sakiyomi_last_error(), "range 31 of ") == sakiyomi_last_error());
        CHECK(sakiyomi_ranges_close(ranges) == 0);
    }
    CHECK(lseek(fd, 0, SEEK_CUR) == 5 && close(fd) == 0);
    /* Closed before anything has arrived. */
    CHECK(sakiyomi_ranges_open(path, order, PARTS, NULL, &ranges) == 0);
    CHECK(sakiyomi_ranges_close(ranges) == 0);
    CHECK(sakiyomi_ranges_open(path, NULL, 0, NULL, &ranges) == 0);
    CHECK(sakiyomi_ranges_wait(ranges, 0) == -EINVAL && sakiyomi_ranges_close(ranges) == 0);
}

static void maps_files(const char *path) {
    sakiyomi_ranges_options options = {.size = sizeof options, .memory_bytes = 1 << 18};
    sakiyomi_mapped *mapped;
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        const sakiyomi_range *ranges = is_whole ? NULL : order;
        CHECK(sakiyomi_mapped_open(path, ranges, is_whole ? 0 : PARTS, &options, &mapped) == 0 && mapped);
        CHECK(sakiyomi_mapped_size(mapped) == SIZE);
        const void *data;
        for (size_t index = 0; index < PARTS - 1; index++) {
            CHECK(sakiyomi_mapped_slice(mapped, order[index].offset, PART, &data) == 0);
            for (size_t at = 0; at < PART; at++)
                CHECK(((const unsigned char *)data)[at] == (order[index].offset + at) % 251);
            CHECK(sakiyomi_mapped_advance(mapped, index) == 0);
        }
        CHECK(sakiyomi_mapped_slice(mapped, 0, SIZE, &data) == 0 && data);
        CHECK(sakiyomi_mapped_slice(mapped, SIZE, 0, &data) == 0);
        CHECK(sakiyomi_mapped_slice(mapped, SIZE, 1, &data) == -EINVAL && !data);
        CHECK(sakiyomi_mapped_slice(mapped, UINT64_MAX, SIZE_MAX, &data) == -EINVAL);
        CHECK(strstr(sakiyomi_last_error(), "it had 3000000 bytes when it was opened") != NULL);
        CHECK(sakiyomi_mapped_slice(mapped, 0, 1, NULL) == -EINVAL);
        CHECK(sakiyomi_mapped_truncated(mapped) == 0);
        CHECK(sakiyomi_mapped_close(mapped) == 0);
    }
}

static void refuses_ranges(const char *path) {
    sakiyomi_ranges *ranges = (sakiyomi_ranges *)buffer;
    CHECK(sakiyomi_ranges_open("/nowhere/at/all", order, PARTS, NULL, &ranges) == -ENOENT && !ranges);
    CHECK(sakiyomi_ranges_open("/", order, PARTS, NULL, &ranges) == -EISDIR);
    CHECK(sakiyomi_ranges_open("/dev/null", order, PARTS, NULL, &ranges) == -ESPIPE);
    CHECK(sakiyomi_ranges_open(path, NULL, 1, NULL, &ranges) == -EINVAL);
    CHECK(strcmp(sakiyomi_last_error(), "ranges is a null pointer, which is not allowed here") == 0);
    CHECK(sakiyomi_ranges_open(path, order, SIZE_MAX, NULL, &ranges) == -EINVAL);
    CHECK(sakiyomi_ranges_open(NULL, order, PARTS, NULL, &ranges) == -EINVAL);
    CHECK(sakiyomi_ranges_open(path, order, PARTS, NULL, NULL) == -EINVAL);
    sakiyomi_ranges_options options = {.size = 0};
    CHECK(sakiyomi_ranges_open(path, order, PARTS, &options, &ranges) == -EINVAL);
    options = (sakiyomi_ranges_options){.size = sizeof options, .memory_bytes = 65535};
    CHECK(sakiyomi_ranges_open(path, order, PARTS, &options, &ranges) == -EINVAL && !ranges);
    CHECK(strstr(sakiyomi_last_error(), "give at least 65536 bytes") != NULL);
    CHECK(sakiyomi_ranges_open_fd(-1, order, PARTS, NULL, &ranges) == -EBADF);
    CHECK(sakiyomi_ranges_open_fd(987654, order, PARTS, NULL, &ranges) == -EBADF);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(sakiyomi_ranges_open_fd(ends[0], order, PARTS, NULL, &ranges) == -ESPIPE);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    CHECK(sakiyomi_ranges_wait(NULL, 0) == -EINVAL);
    CHECK(sakiyomi_ranges_advance(NULL, 0) == -EINVAL);
    CHECK(sakiyomi_ranges_close(NULL) == 0);
    /* A file that is not open for reading. */
    int fd = open(path, O_WRONLY);
    CHECK(sakiyomi_ranges_open_fd(fd, order, PARTS, NULL, &ranges) == 0 && close(fd) == 0);
    int cached = sakiyomi_ranges_wait(ranges, 0);
    CHECK(cached == 0 || cached == -EBADF);
    CHECK(sakiyomi_ranges_close(ranges) == 0);

    sakiyomi_mapped *mapped = (sakiyomi_mapped *)buffer;
    CHECK(sakiyomi_mapped_open("/nowhere/at/all", NULL, 0, NULL, &mapped) == -ENOENT && !mapped);
    CHECK(sakiyomi_mapped_open(path, NULL, 1, NULL, &mapped) == -EINVAL);
    CHECK(sakiyomi_mapped_open(path, NULL, 0, NULL, NULL) == -EINVAL);
    const void *data;
    CHECK(sakiyomi_mapped_slice(NULL, 0, 1, &data) == -EINVAL && !data);
    CHECK(sakiyomi_mapped_advance(NULL, 0) == -EINVAL);
    CHECK(sakiyomi_mapped_size(NULL) == -EINVAL && sakiyomi_mapped_truncated(NULL) == -EINVAL);
    CHECK(strcmp(sakiyomi_last_error(), "mapped is a null pointer, which is not allowed here") == 0);
    CHECK(sakiyomi_mapped_close(NULL) == 0);
}

static void maps_a_file_that_shrinks(const char *path) {
    sakiyomi_mapped *mapped;
    CHECK(sakiyomi_mapped_open(path, NULL, 0, NULL, &mapped) == 0);
    const void *data;
    CHECK(sakiyomi_mapped_slice(mapped, 0, SIZE, &data) == 0);
    CHECK(truncate(path, 0) == 0);
    CHECK(((const unsigned char *)data)[SIZE / 2] == 0 && sakiyomi_mapped_truncated(mapped) == 1);
    const void *other;
    CHECK(sakiyomi_mapped_slice(mapped, 0, 1, &other) == -EIO && !other);
    CHECK(strstr(sakiyomi_last_error(), " shrank while it was mapped") != NULL);
    CHECK(sakiyomi_mapped_close(mapped) == 0);
    FILE *file = fopen(path, "w");
    CHECK(file);
    for (size_t at = 0; at < SIZE; at++)
        fputc((int)(at % 251), file);
    CHECK(fclose(file) == 0);
}

struct sum {
    uint64_t bytes, blocks, ends;
};

/* What the file has at these offsets, and in blocks of which size. */
static int add_block(void *state, const sakiyomi_block *block, void *context) {
    struct sum *sum = state;
    const unsigned char *bytes = block->bytes;
    const size_t *size = context;
    CHECK(block->length > 0 && block->file < 2 && (uintptr_t)state % 16 == 0);
    for (size_t at = 0; at < block->length; at++)
        CHECK(bytes[at] == (block->offset + at) % 251);
    if (size && *size > 0)
        CHECK(block->offset % *size == 0 && (block->length == *size || block->offset + block->length == SIZE));
    sum->bytes += block->length;
    sum->blocks++;
    sum->ends += bytes[block->length - 1] == 250;
    return 0;
}

static void merge_sums(void *into, const void *from, void *context) {
    struct sum *whole = into;
    const struct sum *part = from;
    (void)context;
    whole->bytes += part->bytes;
    whole->blocks += part->blocks;
    whole->ends += part->ends;
}

static int end_at_once(void *state, const sakiyomi_block *block, void *context) {
    (void)block;
    ++*(int *)state;
    return *(int *)context;
}

static void merge_nothing(void *into, const void *from, void *context) {
    (void)into;
    (void)from;
    (void)context;
}

static void folds_blocks(const char *path) {
    const char *paths[] = {path, path};
    sakiyomi_blocks_options options = {.size = sizeof options};
    size_t sizes[] = {0, 1000, 4096, 99991, 2 * SIZE};
    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        struct sum sum = {0, 0, 0};
        options.block_bytes = sizes[index];
        options.threads = (uint32_t)index;
        CHECK(sakiyomi_blocks_fold(paths, 2, &options, add_block, merge_sums, &sum, sizeof sum, sizes + index) == 0);
        CHECK(sum.bytes == 2 * (uint64_t)SIZE);
        if (sizes[index] > 0)
            CHECK(sum.blocks == 2 * ((SIZE + sizes[index] - 1) / sizes[index]));
    }
    struct sum sum = {0, 0, 0};
    CHECK(sakiyomi_blocks_fold(paths, 1, NULL, add_block, merge_sums, &sum, sizeof sum, NULL) == 0 && sum.bytes == SIZE);
    sum.bytes = sum.blocks = sum.ends = 0;
    sakiyomi_blocks_options records = {.size = sizeof records, .block_bytes = 1, .has_records = 1, .record_end = 250};
    CHECK(sakiyomi_blocks_fold(paths, 1, &records, add_block, merge_sums, &sum, sizeof sum, NULL) == 0);
    CHECK(sum.bytes == SIZE && sum.ends == SIZE / 251 && sum.blocks == sum.ends + (SIZE % 251 > 0));
    sum.bytes = 7;
    CHECK(sakiyomi_blocks_fold(NULL, 0, NULL, add_block, merge_sums, &sum, sizeof sum, NULL) == 0 && sum.bytes == 7);
}

static void refuses_blocks(const char *path) {
    const char *paths[] = {path, "/nowhere/at/all", NULL};
    int state = 5, code = 3;
    CHECK(sakiyomi_blocks_fold(paths, 1, NULL, end_at_once, merge_nothing, &state, sizeof state, &code) == 3);
    CHECK(state == 5);
    CHECK(sakiyomi_blocks_fold(paths + 1, 1, NULL, end_at_once, merge_nothing, &state, sizeof state, &code) == -ENOENT);
    CHECK(strstr(sakiyomi_last_error(), "cannot open /nowhere/at/all: ") != NULL && state == 5);
    CHECK(sakiyomi_blocks_fold(paths, 3, NULL, end_at_once, merge_nothing, &state, sizeof state, &code) == -EINVAL);
    CHECK(sakiyomi_blocks_fold(NULL, 1, NULL, end_at_once, merge_nothing, &state, sizeof state, &code) == -EINVAL);
    CHECK(sakiyomi_blocks_fold(paths, 1, NULL, NULL, merge_nothing, &state, sizeof state, &code) == -EINVAL);
    CHECK(sakiyomi_blocks_fold(paths, 1, NULL, end_at_once, NULL, &state, sizeof state, &code) == -EINVAL);
    CHECK(sakiyomi_blocks_fold(paths, 1, NULL, end_at_once, merge_nothing, NULL, sizeof state, &code) == -EINVAL);
    sakiyomi_blocks_options other = {.size = 1};
    CHECK(sakiyomi_blocks_fold(paths, 1, &other, end_at_once, merge_nothing, &state, sizeof state, &code) == -EINVAL);
    const char *directory[] = {"/"};
    CHECK(sakiyomi_blocks_fold(directory, 1, NULL, end_at_once, merge_nothing, &state, sizeof state, &code) == -EISDIR);
}

static void refuses_rates(const char *path) {
    CHECK(sakiyomi_set_iorate(getpid(), path, 20) == -ENOTTY);
    CHECK(strstr(sakiyomi_last_error(), "is not on a mount of sakiyomi") != NULL);
    CHECK(sakiyomi_set_iorate(getpid(), "/nowhere/at/all", 20) == -ENOENT);
    CHECK(sakiyomi_set_iorate(getpid(), NULL, 20) == -EINVAL);
    CHECK(sakiyomi_set_iorate(getpid(), path, 101) == -EINVAL);
    CHECK(sakiyomi_set_iorate(getpid(), path, -1) == -EINVAL);
    CHECK(sakiyomi_set_iorate(0, path, 20) == -ESRCH);
    CHECK(sakiyomi_set_iorate(-1, path, 20) == -ESRCH);
}

int main(int count, char **names) {
    CHECK(count == 2);
    CHECK(*sakiyomi_last_error() == 0);
    CHECK(strcmp(sakiyomi_version(), SAKIYOMI_VERSION) == 0);
    reads_and_seeks(names[1]);
    reads_descriptors(names[1]);
    refuses(names[1]);
    shuffle();
    prefetches_ranges(names[1]);
    maps_files(names[1]);
    refuses_ranges(names[1]);
    maps_a_file_that_shrinks(names[1]);
    folds_blocks(names[1]);
    refuses_blocks(names[1]);
    refuses_rates(names[1]);
    return 0;
}
