/* Calls every function of tasks with valid and invalid arguments: `tasks NUMBER` of tasks in a long run. */
#include <errno.h>
#include <pthread.h>
#include <sakiyomi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(sakiyomi_executor_options) == EXECUTOR_OPTIONS_SIZE, "executor_options");
_Static_assert(offsetof(sakiyomi_executor_options, threads) == EXECUTOR_OPTIONS_THREADS_AT, "threads");
_Static_assert(offsetof(sakiyomi_executor_options, live_max) == EXECUTOR_OPTIONS_LIVE_MAX_AT, "live_max");
_Static_assert(offsetof(sakiyomi_executor_options, io_lanes) == EXECUTOR_OPTIONS_IO_LANES_AT, "io_lanes");
_Static_assert(offsetof(sakiyomi_executor_options, io_lane_count) == EXECUTOR_OPTIONS_IO_LANE_COUNT_AT,
               "io_lane_count");
_Static_assert(offsetof(sakiyomi_executor_options, cores) == EXECUTOR_OPTIONS_CORES_AT, "cores");
_Static_assert(offsetof(sakiyomi_executor_options, core_count) == EXECUTOR_OPTIONS_CORE_COUNT_AT, "core_count");
_Static_assert(sizeof(sakiyomi_task_options) == TASK_OPTIONS_SIZE, "task_options");
_Static_assert(offsetof(sakiyomi_task_options, name) == TASK_OPTIONS_NAME_AT, "name");
_Static_assert(offsetof(sakiyomi_task_options, lane) == TASK_OPTIONS_LANE_AT, "lane");
_Static_assert(offsetof(sakiyomi_task_options, lane_number) == TASK_OPTIONS_LANE_NUMBER_AT, "lane_number");
_Static_assert(offsetof(sakiyomi_task_options, priority) == TASK_OPTIONS_PRIORITY_AT, "priority");
_Static_assert(offsetof(sakiyomi_task_options, destroy_context) == TASK_OPTIONS_DESTROY_CONTEXT_AT, "destroy_context");
_Static_assert(offsetof(sakiyomi_task_options, destroy_output) == TASK_OPTIONS_DESTROY_OUTPUT_AT, "destroy_output");

static void check(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: not so: %s (%s)\n", line, what, sakiyomi_last_error());
        exit(1);
    }
}
#define CHECK(holds) check((holds) != 0, #holds, __LINE__)
/* The last error is this sentence. */
#define SAYS(sentence) CHECK(strcmp(sakiyomi_last_error(), sentence) == 0)

/* Numbers that exist: what is made is destroyed once. */
static atomic_int objects;

static uint64_t *number(uint64_t value) {
    uint64_t *made = malloc(sizeof *made);
    CHECK(made);
    *made = value;
    ++objects;
    return made;
}

static void destroy(void *object) {
    CHECK(object);
    --objects;
    free(object);
}

static sakiyomi_task_options named(const char *name) {
    sakiyomi_task_options options = {.size = sizeof options, .name = name};
    options.destroy_context = options.destroy_output = destroy;
    return options;
}

/* The sum of the context and all inputs. */
static int add(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    uint64_t sum = *(uint64_t *)context;
    CHECK(*output == NULL && sakiyomi_tasks_is_cancelled(tasks) == 0);
    for (size_t index = 0; index < count; index++)
        sum += *(uint64_t *)inputs[index];
    *output = number(sum);
    return 0;
}

/* Fails with the number of the context, with an output all the same. */
static int fail(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    (void)tasks, (void)inputs, (void)count;
    *output = number(0);
    return (int)*(uint64_t *)context;
}

static int nothing(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    (void)tasks, (void)output;
    for (size_t index = 0; index < count; index++)
        CHECK(inputs[index] == NULL || *(uint64_t *)inputs[index] > 0);
    if (context)
        ++*(atomic_ullong *)context;
    return 0;
}

/* Every task has the two before as inputs: the numbers of Fibonacci. */
static void adds_in_order(const sakiyomi_executor *executor) {
    enum { NUMBERS = 90 };
    sakiyomi_task *made[NUMBERS];
    sakiyomi_tasks *tasks;
    sakiyomi_task_options options = named("add");
    CHECK(sakiyomi_tasks_start(executor, &tasks) == 0);
    for (size_t index = 0; index < NUMBERS; index++) {
        const sakiyomi_task *inputs[] = {made[index > 1 ? index - 2 : 0], made[index > 0 ? index - 1 : 0]};
        size_t count = index < 2 ? 0 : 2;
        options.priority = (int)(index % 3) - 1;
        options.lane = (int)(index % 3);
        options.lane_number = (uint32_t)index;
        CHECK(sakiyomi_tasks_spawn(tasks, &options, count ? inputs : NULL, count, add, number(index < 2 ? index : 0),
                                   &made[index]) == 0);
    }
    void *output;
    CHECK(sakiyomi_tasks_wait(tasks, made[NUMBERS - 1], &output) == 0 && *(uint64_t *)output == 1779979416004714189u);
    CHECK(sakiyomi_tasks_wait(tasks, made[NUMBERS - 1], &output) == 0 && *(uint64_t *)output == 1779979416004714189u);
    CHECK(sakiyomi_tasks_wait(tasks, made[10], NULL) == 0);
    CHECK(sakiyomi_tasks_finish(tasks) == 0);
    /* Outputs remain until their handles are released. */
    CHECK(objects == NUMBERS && *(uint64_t *)output == 1779979416004714189u);
    for (size_t index = 0; index < NUMBERS; index++)
        CHECK(sakiyomi_task_release(made[index]) == 0);
    CHECK(objects == 0);
}

/* A tree of tasks that make tasks, from numbers that halve. */
static atomic_ullong leaves;

static int divide(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    uint64_t size = *(uint64_t *)context;
    sakiyomi_task_options options = named("divide");
    (void)inputs, (void)count, (void)output;
    if (size == 1) {
        ++leaves;
        return 0;
    }
    CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, divide, number(size / 2), NULL) == 0);
    CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, divide, number(size - size / 2), NULL) == 0);
    return 0;
}

static void makes_many(const sakiyomi_executor *executor, uint64_t many) {
    sakiyomi_tasks *tasks;
    sakiyomi_task_options options = named("divide");
    atomic_ullong done = 0;
    CHECK(sakiyomi_tasks_start(executor, &tasks) == 0);
    CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, divide, number(many), NULL) == 0);
    for (uint64_t index = 0; index < many; index++)
        CHECK(sakiyomi_tasks_spawn(tasks, NULL, NULL, 0, nothing, &done, NULL) == 0);
    CHECK(sakiyomi_tasks_finish(tasks) == 0);
    CHECK(leaves == many && done == many && objects == 0);
}

static void fails(const sakiyomi_executor *executor) {
    int codes[] = {7, -ENOENT, INT32_MIN, INT32_MAX};
    for (size_t index = 0; index < sizeof codes / sizeof *codes; index++) {
        sakiyomi_tasks *tasks;
        sakiyomi_task *failed, *dependent, *other;
        sakiyomi_task_options options = named("parse");
        void *output = &options;
        CHECK(sakiyomi_tasks_start(executor, &tasks) == 0);
        CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, fail, number((uint64_t)codes[index]), &failed) == 0);
        options.name = NULL;
        const sakiyomi_task *inputs[] = {failed};
        CHECK(sakiyomi_tasks_spawn(tasks, &options, inputs, 1, add, number(1), &dependent) == 0);
        CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, add, number(5), &other) == 0);
        CHECK(sakiyomi_tasks_wait(tasks, dependent, &output) == codes[index] && !output);
        CHECK(strstr(sakiyomi_last_error(), "the task `parse` failed: its function returned ") == sakiyomi_last_error());
        CHECK(sakiyomi_tasks_wait(tasks, other, &output) == 0 && *(uint64_t *)output == 5);
        /* The failure was returned above. */
        CHECK(sakiyomi_tasks_finish(tasks) == 0);
        sakiyomi_task_release(failed), sakiyomi_task_release(dependent), sakiyomi_task_release(other);
        CHECK(objects == 0);

        CHECK(sakiyomi_tasks_start(executor, &tasks) == 0);
        /* The context remains the caller's, the output does not. */
        options = (sakiyomi_task_options){.size = sizeof options, .destroy_output = destroy};
        uint64_t code = (uint64_t)codes[index];
        CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, fail, &code, NULL) == 0);
        CHECK(sakiyomi_tasks_finish(tasks) == codes[index]);
        CHECK(objects == 0);
    }
    SAYS("the task `task` failed: its function returned 2147483647");
}

static int cancel(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    (void)inputs, (void)count, (void)context, (void)output;
    CHECK(sakiyomi_tasks_cancel(tasks) == 0 && sakiyomi_tasks_is_cancelled(tasks) == 1);
    return 0;
}

static void *cancel_in_thread(void *tasks) {
    CHECK(sakiyomi_tasks_cancel(tasks) == 0);
    return NULL;
}

/* Lasts until the run is cancelled. */
static int endless(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    (void)inputs, (void)count, (void)context, (void)output;
    while (!sakiyomi_tasks_is_cancelled(tasks))
        continue;
    return 0;
}

static void cancels(const sakiyomi_executor *executor) {
    sakiyomi_tasks *tasks;
    sakiyomi_task *first, *spared;
    sakiyomi_task_options options = named("spared");
    void *output = &options;
    CHECK(sakiyomi_tasks_start(executor, &tasks) == 0);
    CHECK(sakiyomi_tasks_spawn(tasks, NULL, NULL, 0, cancel, NULL, &first) == 0);
    const sakiyomi_task *inputs[] = {first};
    CHECK(sakiyomi_tasks_spawn(tasks, &options, inputs, 1, add, number(1), &spared) == 0);
    CHECK(sakiyomi_tasks_wait(tasks, first, &output) == 0 && !output);
    CHECK(sakiyomi_tasks_wait(tasks, spared, &output) == -ECANCELED && !output);
    SAYS("the tasks were cancelled");
    CHECK(sakiyomi_tasks_is_cancelled(tasks) == 1);
    /* Also those that are made now end without being run. */
    CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, add, number(1), NULL) == 0);
    int end = sakiyomi_tasks_finish(tasks);
    CHECK(end == -ECANCELED || end == 0);
    sakiyomi_task_release(first), sakiyomi_task_release(spared);
    CHECK(objects == 0);

    /* By another thread, while the owner waits. */
    pthread_t thread;
    CHECK(sakiyomi_tasks_start(executor, &tasks) == 0);
    CHECK(sakiyomi_tasks_spawn(tasks, NULL, NULL, 0, endless, NULL, &first) == 0);
    CHECK(pthread_create(&thread, NULL, cancel_in_thread, tasks) == 0);
    int waited = sakiyomi_tasks_wait(tasks, first, NULL);
    CHECK(waited == 0 || waited == -ECANCELED);
    CHECK(pthread_join(thread, NULL) == 0);
    end = sakiyomi_tasks_finish(tasks);
    CHECK(end == -ECANCELED || end == 0);
    sakiyomi_task_release(first);
}

/* What a task must not do with its run and with that of its owner, who is finishing it. */
static int misuse(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
    sakiyomi_tasks *owner = *(sakiyomi_tasks **)context;
    sakiyomi_task *made;
    (void)inputs, (void)count, (void)output;
    CHECK(sakiyomi_tasks_spawn(tasks, NULL, NULL, 0, nothing, NULL, &made) == 0);
    CHECK(sakiyomi_tasks_wait(tasks, made, NULL) == -EDEADLK);
    SAYS("a task cannot wait for another one: make a task that has it as an input");
    CHECK(sakiyomi_tasks_finish((sakiyomi_tasks *)tasks) == -EDEADLK);
    SAYS("a task cannot finish the run that it belongs to");
    CHECK(sakiyomi_tasks_spawn(owner, NULL, NULL, 0, nothing, NULL, NULL) == -EBUSY);
    CHECK(strstr(sakiyomi_last_error(), "the run is in use: ") == sakiyomi_last_error());
    CHECK(sakiyomi_tasks_wait(owner, made, NULL) == -EBUSY);
    CHECK(sakiyomi_tasks_finish(owner) == -EBUSY);
    return sakiyomi_task_release(made);
}

static void refuses(const sakiyomi_executor *executor) {
    sakiyomi_tasks *tasks = (sakiyomi_tasks *)&executor, *other;
    sakiyomi_task *made = (sakiyomi_task *)&executor, *foreign;
    CHECK(sakiyomi_tasks_start(NULL, &tasks) == -EINVAL && !tasks);
    SAYS("executor is a null pointer, which is not allowed here");
    CHECK(sakiyomi_tasks_start(executor, NULL) == -EINVAL);
    CHECK(sakiyomi_tasks_start(executor, &tasks) == 0 && sakiyomi_tasks_start(executor, &other) == 0);
    CHECK(sakiyomi_tasks_spawn(NULL, NULL, NULL, 0, nothing, NULL, &made) == -EINVAL && !made);
    CHECK(sakiyomi_tasks_spawn(tasks, NULL, NULL, 0, NULL, NULL, &made) == -EINVAL);
    CHECK(sakiyomi_tasks_spawn(tasks, NULL, NULL, 1, nothing, NULL, &made) == -EINVAL);
    SAYS("inputs is a null pointer, which is not allowed here");
    const sakiyomi_task *inputs[] = {NULL};
    CHECK(sakiyomi_tasks_spawn(tasks, NULL, inputs, 1, nothing, NULL, &made) == -EINVAL && !made);
    sakiyomi_task_options options = {.size = 8};
    CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, nothing, NULL, &made) == -EINVAL);
    options = (sakiyomi_task_options){.size = sizeof options, .lane = 3};
    CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, nothing, NULL, &made) == -EINVAL);
    SAYS("options.lane is 3; it is SAKIYOMI_LANE_COMPUTE, SAKIYOMI_LANE_IO or SAKIYOMI_LANE_PINNED");
    CHECK(sakiyomi_tasks_spawn(other, NULL, NULL, 0, nothing, NULL, &foreign) == 0);
    inputs[0] = foreign;
    /* The context remains the caller's. */
    options = named("foreign");
    uint64_t *context = number(3);
    CHECK(sakiyomi_tasks_spawn(tasks, &options, inputs, 1, add, context, &made) == -EINVAL && objects == 1);
    destroy(context);
    SAYS("the input 0 belongs to another run");
    CHECK(sakiyomi_tasks_wait(tasks, foreign, NULL) == -EINVAL);
    CHECK(sakiyomi_tasks_wait(NULL, foreign, NULL) == -EINVAL && sakiyomi_tasks_wait(tasks, NULL, NULL) == -EINVAL);
    CHECK(sakiyomi_tasks_cancel(NULL) == -EINVAL && sakiyomi_tasks_is_cancelled(NULL) == -EINVAL);
    CHECK(sakiyomi_tasks_finish(other) == 0);
    /* Also after the run has ended; a new one does not take the tasks of an old one for its own. */
    CHECK(sakiyomi_tasks_start(executor, &other) == 0);
    CHECK(sakiyomi_tasks_spawn(other, NULL, inputs, 1, nothing, NULL, NULL) == -EINVAL);
    CHECK(sakiyomi_tasks_finish(other) == 0 && sakiyomi_task_release(foreign) == 0);
    /* Runs on this thread, which finishes the run. */
    options = (sakiyomi_task_options){.size = sizeof options, .lane = SAKIYOMI_LANE_PINNED};
    CHECK(sakiyomi_tasks_spawn(tasks, &options, NULL, 0, misuse, &tasks, NULL) == 0);
    CHECK(sakiyomi_tasks_finish(tasks) == 0);
    CHECK(sakiyomi_tasks_finish(NULL) == 0 && sakiyomi_task_release(NULL) == 0);
}

static void refuses_executors(void) {
    sakiyomi_executor *executor = (sakiyomi_executor *)&objects;
    sakiyomi_executor_options options = {.size = 1};
    uint32_t cores[] = {0, 4000000000u};
    CHECK(sakiyomi_executor_start(&options, &executor) == -EINVAL && !executor);
    CHECK(sakiyomi_executor_start(NULL, NULL) == -EINVAL);
    options = (sakiyomi_executor_options){.size = sizeof options, .cores = cores, .core_count = 2};
    CHECK(sakiyomi_executor_start(&options, &executor) == -EINVAL && !executor);
    CHECK(strstr(sakiyomi_last_error(), "core 4000000000 does not exist") == sakiyomi_last_error());
    options = (sakiyomi_executor_options){.size = sizeof options, .core_count = 2};
    CHECK(sakiyomi_executor_start(&options, &executor) == -EINVAL);
    options = (sakiyomi_executor_options){.size = sizeof options, .io_lane_count = 2};
    CHECK(sakiyomi_executor_start(&options, &executor) == -EINVAL);
    SAYS("options.io_lanes is a null pointer, which is not allowed here");
    CHECK(sakiyomi_executor_threads(NULL) == -EINVAL && sakiyomi_executor_close(NULL) == 0);
}

int main(int count, char **words) {
    CHECK(count == 2);
    uint32_t lanes[] = {1, 2};
    sakiyomi_executor_options each[] = {
        {.size = sizeof *each},
        {.size = sizeof *each, .threads = 1, .live_max = 1},
        {.size = sizeof *each, .threads = 3, .live_max = 50, .io_lanes = lanes, .io_lane_count = 2},
    };
    for (size_t index = 0; index < sizeof each / sizeof *each; index++) {
        sakiyomi_executor *executor;
        CHECK(sakiyomi_executor_start(index ? &each[index] : NULL, &executor) == 0 && executor);
        CHECK(sakiyomi_executor_threads(executor) == (int)each[index].threads || index == 0);
        CHECK(sakiyomi_executor_threads(executor) >= 1);
        leaves = 0;
        adds_in_order(executor);
        makes_many(executor, strtoull(words[1], NULL, 10));
        fails(executor);
        cancels(executor);
        refuses(executor);
        /* Closed before its last run: that goes on. */
        sakiyomi_tasks *tasks;
        atomic_ullong done = 0;
        CHECK(sakiyomi_tasks_start(executor, &tasks) == 0 && sakiyomi_executor_close(executor) == 0);
        CHECK(sakiyomi_tasks_spawn(tasks, NULL, NULL, 0, nothing, &done, NULL) == 0);
        CHECK(sakiyomi_tasks_finish(tasks) == 0 && done == 1 && objects == 0);
    }
    refuses_executors();
    return 0;
}
