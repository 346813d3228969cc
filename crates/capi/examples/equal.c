/* Compares two files by tasks, which read both at the same time: `equal FILE FILE`. */
#include <errno.h>
#include <sakiyomi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct content {
    size_t length;
    char *bytes;
};

static void destroy(void *object) {
    struct content *content = object;
    free(content->bytes);
    free(content);
}

/* Reads the file whose name is the context. */
static int read_file(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    enum { STEP = 1 << 16 };
    struct content *content = calloc(1, sizeof *content);
    FILE *file = fopen(context, "rb");
    (void)tasks, (void)inputs, (void)count;
    /* Is destroyed also if the task fails. */
    *output = content;
    if (!file || !content)
        return file ? (fclose(file), ENOMEM) : errno;
    for (size_t read = STEP; read == STEP; content->length += read) {
        char *grown = realloc(content->bytes, content->length + STEP);
        if (!grown)
            break;
        content->bytes = grown;
        read = fread(grown + content->length, 1, STEP, file);
    }
    int error = ferror(file) ? EIO : feof(file) ? 0 : ENOMEM;
    fclose(file);
    return error;
}

static int compare(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    const struct content *one = inputs[0], *other = inputs[1];
    (void)tasks, (void)count, (void)output;
    *(int *)context = one->length == other->length &&
                      (one->length == 0 || memcmp(one->bytes, other->bytes, one->length) == 0);
    return 0;
}

int main(int count, char **names) {
    uint32_t threads_of_lane = 2;
    sakiyomi_executor_options lanes = {.size = sizeof lanes, .io_lanes = &threads_of_lane, .io_lane_count = 1};
    sakiyomi_task_options reads = {
        .size = sizeof reads, .name = "read", .lane = SAKIYOMI_LANE_IO, .destroy_output = destroy};
    sakiyomi_executor *executor;
    sakiyomi_tasks *tasks;
    sakiyomi_task *files[2];
    int are_equal = 0;
    if (count != 3) {
        fprintf(stderr, "usage: equal FILE FILE\n");
        return 2;
    }
    if (sakiyomi_executor_start(&lanes, &executor) < 0 || sakiyomi_tasks_start(executor, &tasks) < 0) {
        fprintf(stderr, "%s\n", sakiyomi_last_error());
        return 2;
    }
    for (size_t index = 0; index < 2; index++)
        sakiyomi_tasks_spawn(tasks, &reads, NULL, 0, read_file, names[1 + index], &files[index]);
    sakiyomi_tasks_spawn(tasks, NULL, (const sakiyomi_task *const *)files, 2, compare, &are_equal, NULL);
    for (size_t index = 0; index < 2; index++)
        sakiyomi_task_release(files[index]);
    int end = sakiyomi_tasks_finish(tasks);
    if (end == 0)
        printf("%s\n", are_equal ? "equal" : "different");
    else
        fprintf(stderr, "%s%s%s\n", sakiyomi_last_error(), end > 0 ? ": " : "", end > 0 ? strerror(end) : "");
    sakiyomi_executor_close(executor);
    return end == 0 ? 0 : 2;
}
