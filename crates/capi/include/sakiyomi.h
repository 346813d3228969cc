/*
 * sakiyomi: a reader that prefetches its file while the program computes, ranges and mappings that are prefetched in an
 * order that the program knows, blocks of files that are processed on all cores while others are read, tasks with inputs
 * and outputs, rates of processes on a drive, and simulations of a drive.
 *
 *     sakiyomi_prefetch *reader;
 *     if (sakiyomi_prefetch_open("large.csv", NULL, &reader) < 0)
 *         errx(1, "%s", sakiyomi_last_error());
 *     while ((count = sakiyomi_prefetch_read(reader, buffer, sizeof buffer)) > 0)
 *         compute(buffer, count);
 *     sakiyomi_prefetch_close(reader);
 *
 * Results: a function that fails returns a negative error number of <errno.h>, such as -ENOENT, and leaves errno
 * unchanged. sakiyomi_last_error() describes the error. A null pointer that is not allowed gives -EINVAL.
 *
 * Threads: any thread may use a reader, but only one at a time. Different readers are independent. A reader starts
 * threads of its own once a read has had to wait; signals of the process may be delivered to them. Prefetched ranges and
 * mapped files have such threads from the beginning, and any number of threads may use one of them at the same time, until
 * one closes it.
 *
 * Fork: a child must neither use nor close what its parent has opened or started.
 *
 * Functions of the program that the library calls must not leave by longjmp() or an exception.
 */
#ifndef SAKIYOMI_H
#define SAKIYOMI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. Versions with the same first two numbers have compatible libraries. */
#define SAKIYOMI_VERSION "0.2.0"

/* Returns the version of the library, a text as above. */
const char *sakiyomi_version(void);

/* A reader of one file. Opened by sakiyomi_prefetch_open(), closed by sakiyomi_prefetch_close(). */
typedef struct sakiyomi_prefetch sakiyomi_prefetch;

/* Options of a reader. Set all members to 0, then `size`, then those that differ from the default. */
typedef struct sakiyomi_prefetch_options {
    /* sizeof(sakiyomi_prefetch_options), by which later versions recognize this one. */
    size_t size;
    /* Maximum distance ahead of the program, in bytes. 0: 512 MiB. */
    uint64_t limit_bytes;
    /* 0: the distance is controlled automatically, up to limit_bytes. Otherwise at least 4096: this many bytes are
     * always read at a time, unless more than limit_bytes lie ahead. */
    uint64_t step_bytes;
    /* Maximum memory for data read ahead of the program, in bytes. 0: a quarter of the available memory. */
    uint64_t memory_bytes;
} sakiyomi_prefetch_options;

/* Statistics of a reader since it was opened. */
typedef struct sakiyomi_prefetch_statistics {
    /* sizeof(sakiyomi_prefetch_statistics), set by the caller. */
    size_t size;
    /* Bytes read from the file into the program's memory. */
    uint64_t read_bytes;
    /* Bytes read into the page cache ahead of the program that were not cached before. */
    uint64_t prefetched_bytes;
    /* Number of reads in which the program waited for I/O, and total time of these waits in nanoseconds. */
    uint64_t waits;
    uint64_t io_wait_ns;
    /* Estimated additional waiting time without prefetching, in nanoseconds. */
    uint64_t io_hidden_ns;
    /* Bytes requested ahead of the program's position. */
    uint64_t ahead_bytes;
} sakiyomi_prefetch_statistics;

/*
 * Opens a file for reading from its beginning. `path` is NUL-terminated; `options` may be null. On success returns 0
 * and stores a reader in `*reader`; on failure stores null there.
 *
 * Pipes, terminals, small files and files in memory are read without prefetching.
 *
 * Fails with the error numbers of open(2); -EISDIR for a directory; -EINVAL for invalid options.
 */
int sakiyomi_prefetch_open(const char *path, const sakiyomi_prefetch_options *options, sakiyomi_prefetch **reader);

/*
 * Like sakiyomi_prefetch_open() for an open file, from its current position. Reads a duplicate of `fd`, so the caller
 * may close `fd` at any time. The position of `fd` does not move, unless it is a pipe or similar.
 *
 * Fails with -EBADF, -EMFILE; -EISDIR for a directory; -EINVAL for invalid options.
 */
int sakiyomi_prefetch_open_fd(int fd, const sakiyomi_prefetch_options *options, sakiyomi_prefetch **reader);

/*
 * Reads up to `count` bytes into `buffer` and returns their number: 0 at the end of the file, or if `count` is 0.
 * Small reads are served from a buffer of 128 KiB. May return fewer bytes than requested anywhere in the file, as
 * read(2) does for a pipe. System calls interrupted by signals are repeated.
 *
 * If the file grows, reading can continue after its end was reached. Up to 128 KiB after the position may be returned
 * as they were before a recent change; sakiyomi_prefetch_seek() discards them.
 *
 * Fails with the error numbers of read(2); -EINVAL if `count` is greater than SSIZE_MAX.
 */
ssize_t sakiyomi_prefetch_read(sakiyomi_prefetch *reader, void *buffer, size_t count);

/*
 * Moves the position and returns the new one, in bytes from the beginning of the file. `whence` is SEEK_SET, SEEK_CUR
 * or SEEK_END. The position may lie after the end of the file, but not before its beginning.
 *
 * Fails with -EINVAL; -ESPIPE for a pipe or similar. A failure leaves the position unchanged.
 */
int64_t sakiyomi_prefetch_seek(sakiyomi_prefetch *reader, int64_t offset, int whence);

/* Returns the position in bytes from the beginning of the file; for a pipe or similar, the number of bytes read. */
int64_t sakiyomi_prefetch_position(const sakiyomi_prefetch *reader);

/*
 * Fills in `*statistics`, whose member `size` the caller has set. Returns 0. Fails with -EINVAL if this version does
 * not know this size.
 */
int sakiyomi_prefetch_stats(const sakiyomi_prefetch *reader, sakiyomi_prefetch_statistics *statistics);

/*
 * Closes a reader and frees it, without waiting for I/O in flight; the file may stay open until that has completed.
 * Null is allowed. Always returns 0.
 */
int sakiyomi_prefetch_close(sakiyomi_prefetch *reader);

/*
 * Prefetched ranges: for programs that know which parts of a file they will need, and in which order.
 *
 *     sakiyomi_ranges *ranges;
 *     if (sakiyomi_ranges_open("samples.bin", order, count, NULL, &ranges) < 0)
 *         errx(1, "%s", sakiyomi_last_error());
 *     for (size_t index = 0; index < count; index++) {
 *         sakiyomi_ranges_wait(ranges, index);
 *         pread(fd, buffer, order[index].length, order[index].offset);
 *         sakiyomi_ranges_advance(ranges, index + 1);
 *     }
 *     sakiyomi_ranges_close(ranges);
 *
 * The ranges are read into the page cache in the order of the list, up to 32 pieces of at most 1 MiB at a time, within a
 * window of memory ahead of the program. Ranges may overlap and repeat; one that is cached already costs no read. They
 * are cut at the end that the file has when it is opened. Empty ranges, and what lies beyond that end, are always there.
 */

/* Bytes of a file. */
typedef struct sakiyomi_range {
    uint64_t offset;
    /* An end beyond that of the file, as with UINT64_MAX here, is allowed. */
    uint64_t length;
} sakiyomi_range;

/* Options of ranges and mapped files. Set all members to 0, then `size`, then those that differ from the default. */
typedef struct sakiyomi_ranges_options {
    /* sizeof(sakiyomi_ranges_options), by which later versions recognize this one. */
    size_t size;
    /* The window: maximum memory for data ahead of the program, in bytes, at least 65536. 0: a quarter of the memory that
     * is available when the file is opened. */
    uint64_t memory_bytes;
} sakiyomi_ranges_options;

/* Prefetched ranges of one file. Opened by sakiyomi_ranges_open(), closed by sakiyomi_ranges_close(). */
typedef struct sakiyomi_ranges sakiyomi_ranges;

/*
 * Opens a regular file or a block device, and begins to prefetch `count` ranges of it. `path` is NUL-terminated; `ranges`
 * is copied, and may be null if `count` is 0; `options` may be null. On success returns 0 and stores the handle in
 * `*opened`; on failure stores null there.
 *
 * Fails with the error numbers of open(2); -EISDIR for a directory; -ESPIPE for a pipe, socket or character device;
 * -EINVAL for invalid options.
 */
int sakiyomi_ranges_open(const char *path, const sakiyomi_range *ranges, size_t count,
                         const sakiyomi_ranges_options *options, sakiyomi_ranges **opened);

/*
 * Like sakiyomi_ranges_open() for an open file. Uses a duplicate of `fd`, so the caller may close `fd` at any time; its
 * position does not move. It must not be open for direct I/O (O_DIRECT), which bypasses the page cache.
 *
 * Fails with -EBADF, -EMFILE; -EISDIR, -ESPIPE, -EINVAL as above.
 */
int sakiyomi_ranges_open_fd(int fd, const sakiyomi_range *ranges, size_t count,
                            const sakiyomi_ranges_options *options, sakiyomi_ranges **opened);

/*
 * Waits until the range with this index, counted from 0, is cached. Returns 0 if it is, and 1 if the kernel does not cache
 * this file, so that reads of it will wait. A range that prefetching has not reached is requested at once, ahead of the
 * order and beyond the window. The kernel may evict it again, as any cached data, if memory is short.
 *
 * Fails with -EINVAL if there is no such range; the error numbers of read(2) if it cannot be read. The next call tries
 * again.
 */
int sakiyomi_ranges_wait(const sakiyomi_ranges *ranges, size_t index);

/*
 * Reports that the first `count` ranges have been used, so that the window moves on: without such reports nothing beyond
 * the first window is prefetched. A smaller count than before changes nothing, so threads may report in any order. A range
 * that is larger than the window is better given as several. Returns 0.
 */
int sakiyomi_ranges_advance(const sakiyomi_ranges *ranges, size_t count);

/*
 * Ends prefetching and frees the handle, without waiting for I/O in flight; the file may stay open until that has
 * completed. No other thread may be using it. Null is allowed. Always returns 0.
 */
int sakiyomi_ranges_close(sakiyomi_ranges *ranges);

/*
 * A file that is mapped read-only, and prefetched in a given order. Opened by sakiyomi_mapped_open(), closed by
 * sakiyomi_mapped_close().
 *
 * The bytes are those that the file has at present, also if other programs write to it. If the file is truncated, missing
 * bytes read as zeros; for this purpose the library handles SIGBUS from the first sakiyomi_mapped_open() on, and passes
 * those of other causes to the handler that was installed before. A program that installs its own handler later loses
 * this, unless it calls the one that it replaces.
 */
typedef struct sakiyomi_mapped sakiyomi_mapped;

/*
 * Maps a regular file or a block device, and begins to prefetch `count` ranges of it, as sakiyomi_ranges_open() does; or
 * all of it from its beginning on, if `ranges` is null and `count` 0.
 *
 * Fails with the error numbers of open(2) and mmap(2); -EISDIR, -ESPIPE, -EINVAL as above.
 */
int sakiyomi_mapped_open(const char *path, const sakiyomi_range *ranges, size_t count,
                         const sakiyomi_ranges_options *options, sakiyomi_mapped **opened);

/*
 * Waits until `length` bytes from `offset` on are cached, stores a pointer to them in `*data`, which is valid until the
 * file is closed, and returns 0. On failure stores null there.
 *
 * The window moves on to the first of these bytes if it is in one of the next 64 ranges; a program that uses the ranges in
 * another order calls sakiyomi_mapped_advance().
 *
 * Fails with -EINVAL for bytes beyond the end that the file had when it was opened; -EIO if it has been truncated; the
 * error numbers of read(2).
 */
int sakiyomi_mapped_slice(const sakiyomi_mapped *mapped, uint64_t offset, size_t length, const void **data);

/* Reports that the first `count` ranges have been used, as sakiyomi_ranges_advance() does. Returns 0. */
int sakiyomi_mapped_advance(const sakiyomi_mapped *mapped, size_t count);

/* Returns the size of the file when it was opened, in bytes. */
int64_t sakiyomi_mapped_size(const sakiyomi_mapped *mapped);

/* Returns 1 if a byte was accessed that the file no longer had, so that a zero was read instead; otherwise 0. */
int sakiyomi_mapped_truncated(const sakiyomi_mapped *mapped);

/*
 * Ends prefetching, unmaps the file and frees the handle, without waiting for I/O in flight. No pointer from
 * sakiyomi_mapped_slice() is valid any more, and no other thread may be using it. Null is allowed. Always returns 0.
 */
int sakiyomi_mapped_close(sakiyomi_mapped *mapped);

/*
 * Blocked reads: a function for each block of some files, on all cores, while other blocks are read.
 *
 *     static int count(void *state, const sakiyomi_block *block, void *context) {
 *         const char *at = block->bytes, *end = at + block->length;
 *         while ((at = memchr(at, '\n', end - at)) != NULL)
 *             ++*(uint64_t *)state, ++at;
 *         return 0;
 *     }
 *     static void add(void *into, const void *from, void *context) {
 *         *(uint64_t *)into += *(const uint64_t *)from;
 *     }
 *     ...
 *     uint64_t lines = 0;
 *     if (sakiyomi_blocks_fold(paths, number, NULL, count, add, &lines, sizeof lines, NULL) < 0)
 *         errx(1, "%s", sakiyomi_last_error());
 */

/* A block. */
typedef struct sakiyomi_block {
    /* The bytes, which are valid until the function returns, and must not be written. Never empty. */
    const void *bytes;
    size_t length;
    /* Offset of the first byte in its file. */
    uint64_t offset;
    /* Index of the file among the paths. */
    size_t file;
} sakiyomi_block;

/* Options of a blocked read. Set all members to 0, then `size`, then those that differ from the default. */
typedef struct sakiyomi_blocks_options {
    /* sizeof(sakiyomi_blocks_options), by which later versions recognize this one. */
    size_t size;
    /* Bytes of a block: each has exactly so many, but for the last one of a file. 0: blocks of any size, whatever is fastest.
     * With records, a block has as many whole records as fit, but at least one. */
    uint64_t block_bytes;
    /* Not 0: blocks consist of whole records, each with the byte `record_end` at its end; the last one of a file may lack
     * it. */
    int has_records;
    uint8_t record_end;
    /* Number of threads that call the function. 0: one per core. */
    uint32_t threads;
} sakiyomi_blocks_options;

/*
 * Called for each block, by several threads at the same time, in any order. `state` is the thread's own; `context` is what
 * was given to sakiyomi_blocks_fold(). Returns 0 to go on; any other value ends the read, and is what it returns.
 */
typedef int (*sakiyomi_block_function)(void *state, const sakiyomi_block *block, void *context);

/* Merges the state `from` into the state `into`. Called at the end, by one thread; in which order is not defined. */
typedef void (*sakiyomi_merge_function)(void *into, const void *from, void *context);

/*
 * Reads `count` files in this order and calls `function` for each block of them. Each thread has a state of its own, which
 * begins as a copy of the `state_size` bytes at `state`, aligned to 16 bytes; at the end all of them are merged, and stored
 * at `state`. So `state` must be neutral for `merge`, such as zeros for sums. Memory that a state points to is the caller's
 * to free. `options` may be null. Pipes and small files are read by one thread.
 *
 * Returns 0; or what a function returned to end the read, and then, as after an error, the bytes at `state` are as they
 * were. Fails with the error numbers of open(2) and read(2); -EISDIR for a directory; -EINVAL for invalid options; -EIO if
 * a record is longer than 16 MiB, or than four blocks if these are larger.
 */
int sakiyomi_blocks_fold(const char *const *paths, size_t count, const sakiyomi_blocks_options *options,
                         sakiyomi_block_function function, sakiyomi_merge_function merge, void *state, size_t state_size,
                         void *context);

/*
 * Tasks: functions with inputs and outputs, which threads run as soon as their inputs are there.
 *
 *     static int square(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
 *         uint64_t *number = context;
 *         *number *= *number;
 *         *output = number;
 *         return 0;
 *     }
 *     static int sum(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context, void **output) {
 *         for (size_t index = 0; index < count; index++)
 *             *(uint64_t *)context += *(uint64_t *)inputs[index];
 *         return 0;
 *     }
 *     ...
 *     uint64_t numbers[2] = {3, 4}, total = 0;
 *     sakiyomi_executor_start(NULL, &executor);
 *     sakiyomi_tasks_start(executor, &tasks);
 *     for (size_t index = 0; index < 2; index++)
 *         sakiyomi_tasks_spawn(tasks, NULL, NULL, 0, square, &numbers[index], &squares[index]);
 *     sakiyomi_tasks_spawn(tasks, NULL, (const sakiyomi_task *const *)squares, 2, sum, &total, NULL);
 *     if (sakiyomi_tasks_finish(tasks) < 0)
 *         errx(1, "%s", sakiyomi_last_error());
 *
 * An executor has threads, and any number of runs, consecutive and concurrent ones. A run has tasks, and fails and is
 * cancelled by itself. A task is made after its inputs, so that cycles are impossible. If a task fails, the tasks that
 * depend on it end without being run.
 */

/* Threads that run tasks. Started by sakiyomi_executor_start(), ended by sakiyomi_executor_close(). */
typedef struct sakiyomi_executor sakiyomi_executor;

/*
 * A run. Started by sakiyomi_tasks_start(), ended by sakiyomi_tasks_finish(). Its owner uses it in one thread at a time. A
 * task uses the pointer that its function is given, which is valid until that returns.
 */
typedef struct sakiyomi_tasks sakiyomi_tasks;

/* A task, for those that need its output. Made by sakiyomi_tasks_spawn(), freed by sakiyomi_task_release(). */
typedef struct sakiyomi_task sakiyomi_task;

/* Options of an executor. Set all members to 0, then `size`, then those that differ from the default. */
typedef struct sakiyomi_executor_options {
    /* sizeof(sakiyomi_executor_options), by which later versions recognize this one. */
    size_t size;
    /* Number of compute threads, at most 32767; one of them is the owner of a run while it waits. 0: one per core. */
    uint32_t threads;
    /* Maximum number of tasks that the owner of a run has made and that have not ended: if there are more, the owner runs
     * tasks before it makes the next one. 0: 1024. */
    uint32_t live_max;
    /* Number of threads of each I/O lane, whose tasks may block: `io_lane_count` numbers. 0 lanes: one with one thread. */
    const uint32_t *io_lanes;
    size_t io_lane_count;
    /* Cores to which the compute threads are pinned, in turn: `core_count` numbers. 0: they are not pinned. */
    const uint32_t *cores;
    size_t core_count;
} sakiyomi_executor_options;

/* Frees a context or an output, which is not null. Called once, by any thread. */
typedef void (*sakiyomi_destroy_function)(void *object);

/* The threads that may run a task: any compute thread; the I/O lane, or the compute thread, with the number of the
 * options, modulo how many there are. Compute thread 0 is the owner of the run while it waits. */
enum { SAKIYOMI_LANE_COMPUTE = 0, SAKIYOMI_LANE_IO = 1, SAKIYOMI_LANE_PINNED = 2 };

/* Options of a task. Set all members to 0, then `size`, then those that differ from the default. */
typedef struct sakiyomi_task_options {
    /* sizeof(sakiyomi_task_options), by which later versions recognize this one. */
    size_t size;
    /* Name for messages, NUL-terminated, which is copied. Null: "task". */
    const char *name;
    /* The threads that may run it, as above. */
    int lane;
    uint32_t lane_number;
    /* Precedence among the tasks that could run: 1 before, -1 after those of 0. */
    int priority;
    /* Frees the context of the task when its function has returned, or will not be called. Null: the caller does. */
    sakiyomi_destroy_function destroy_context;
    /* Frees the output of the task when its handle has been released and all tasks that have it as an input have ended.
     * Null: nothing does. */
    sakiyomi_destroy_function destroy_output;
} sakiyomi_task_options;

/*
 * The function of a task. `inputs` has the outputs of its `count` inputs, in their order; several tasks may use one of them
 * at the same time. `context` is what was given to sakiyomi_tasks_spawn(). The output is stored in `*output`, which is null
 * before. Returns 0; any other value fails the task, and is what waiting for it returns: a value above 0 differs from the
 * errors of this library.
 */
typedef int (*sakiyomi_task_function)(const sakiyomi_tasks *tasks, void *const *inputs, size_t count, void *context,
                                      void **output);

/*
 * Starts threads, which stay until the executor is closed. `options` may be null. On success returns 0 and stores an
 * executor in `*executor`; on failure stores null there. Any number of threads may start runs on it at the same time.
 *
 * Fails with -EINVAL for invalid options, and for a core that this process may not use; -EAGAIN if the threads cannot be
 * started.
 */
int sakiyomi_executor_start(const sakiyomi_executor_options *options, sakiyomi_executor **executor);

/* Returns the number of compute threads. */
int sakiyomi_executor_threads(const sakiyomi_executor *executor);

/*
 * Ends the threads and frees the executor. Runs that are not finished keep the threads; they end with the last run. Null
 * is allowed. Always returns 0.
 */
int sakiyomi_executor_close(sakiyomi_executor *executor);

/* Starts a run, and stores it in `*tasks`. Returns 0. */
int sakiyomi_tasks_start(const sakiyomi_executor *executor, sakiyomi_tasks **tasks);

/*
 * Makes a task, which runs once its `count` inputs have ended: tasks of the same run, whose handles may be released
 * afterwards. `options` may be null, and so may `inputs` if `count` is 0. A dependency without data is an input that the
 * function ignores. `task` may be null if the output is not needed; otherwise a handle is stored there, or null on failure.
 * Returns 0. Both the owner of the run and its tasks may call this; the former may thereby run other tasks.
 *
 * Fails with -EINVAL for invalid options, and for inputs of another run; -EBUSY if another thread uses this run, or a task
 * the pointer of the owner. The context then remains the caller's.
 */
int sakiyomi_tasks_spawn(const sakiyomi_tasks *tasks, const sakiyomi_task_options *options,
                         const sakiyomi_task *const *inputs, size_t count, sakiyomi_task_function function, void *context,
                         sakiyomi_task **task);

/*
 * Runs tasks of this run until `task` has ended; must not be called with a lock that they take. Stores its output in
 * `*output` unless `output` is null; it is valid until the task is released. Returns 0. May be called again for the same
 * task.
 *
 * If the task or one that it depends on has failed, returns what its function returned, stores null in `*output`, and
 * sakiyomi_last_error() names the task that failed first. sakiyomi_tasks_finish() does not return this failure again. Fails
 * with -ECANCELED if the run was cancelled before the task began; -EDEADLK for the pointer of a task, which must have the
 * other one as an input instead; -EINVAL for a task of another run; -EBUSY as above.
 */
int sakiyomi_tasks_wait(const sakiyomi_tasks *tasks, const sakiyomi_task *task, void **output);

/*
 * Cancels a run: tasks that have not begun end without being run, also those that are made later. Those that have begun are
 * not interrupted. Any thread may call this until sakiyomi_tasks_finish() is called, and tasks as long as they run. Returns 0.
 */
int sakiyomi_tasks_cancel(const sakiyomi_tasks *tasks);

/* Returns 1 if the run was cancelled, for tasks that take long; otherwise 0. May be called as sakiyomi_tasks_cancel(). */
int sakiyomi_tasks_is_cancelled(const sakiyomi_tasks *tasks);

/*
 * Runs tasks until all have ended, and frees the run. Handles of its tasks remain, with their outputs, until they are
 * released. Returns 0. Null is allowed.
 *
 * If a task has failed, returns what its function returned, unless sakiyomi_tasks_wait() did; of several the first. Fails
 * with -ECANCELED if the run was cancelled before that. With -EDEADLK, for the pointer of a task, and -EBUSY as above the
 * run goes on; otherwise it is freed in any case.
 */
int sakiyomi_tasks_finish(sakiyomi_tasks *tasks);

/* Frees a handle of a task, which runs all the same. Any thread may call this. Null is allowed. Always returns 0. */
int sakiyomi_task_release(sakiyomi_task *task);

/*
 * Gives process `pid` a rate of `req_iorate` percent, 1 to 100, of the drive that holds `dev_path`: each of its I/Os
 * then takes a constant time, regardless of other processes. 0 removes the rate; it also ends with the process.
 * Returns 0.
 *
 * `dev_path` is any file or directory of a mount made with `sakiyomi mount BACKING DIR --regulate`, NUL-terminated.
 * Threads share the rate of their process; child processes do not inherit it. Only root and the user who owns the
 * process may call this.
 *
 * Fails with -EINVAL for a rate out of range; -EBUSY for one that cannot be guaranteed beside the others
 * (sakiyomi_last_error() names the best possible); -ENOTTY if `dev_path` is not on a mount with regulation; -ESRCH if
 * the process does not exist, or the caller is in another PID namespace (a container); -EPERM if the process belongs
 * to another user, or another user set a rate of it; -EDQUOT if the rates of the user or of a control group would exceed
 * their quota; -ENODATA if it has no rate to remove; -ENOSPC if the maximum number of rates is in use; -EPROTO if the
 * mount is served by another version; the error numbers of open(2) for `dev_path`; -EIO if the mount does not
 * answer.
 */
int sakiyomi_set_iorate(pid_t pid, const char *dev_path, int req_iorate);

/*
 * Simulations: a block trace on a hard disk in virtual time.
 */

/*
 * Called every 16,384 commands with the bytes read from the trace and the number of commands so far. Returns 0 to go on;
 * any other value ends the simulation, and is what it returns.
 */
typedef int (*sakiyomi_progress_function)(uint64_t read_bytes, uint64_t commands, void *context);

/*
 * Options of a simulation, those of the command `sakiyomi sim`. Set all members to 0, then `size`, then those that differ
 * from the default. Texts are NUL-terminated and in UTF-8; times and sizes have units, such as 10s and 64KiB.
 */
typedef struct sakiyomi_simulation_options {
    /* sizeof(sakiyomi_simulation_options), by which later versions recognize this one. */
    size_t size;
    /* Changes of the drive: `setting_count` texts such as "cache.read_ahead.max=1MiB". */
    const char *const *settings;
    size_t setting_count;
    /* An array of such drives, such as "raid5:4:64KiB". Null: one drive. */
    const char *array;
    /* Length of a chunk of the result: "time=1s", "bytes=64MiB" or "commands=1000". Null: "time=1s". */
    const char *chunk;
    /* Time from the beginning that is excluded from the results. Null: "0". */
    const char *warm_up;
    /* Format of the trace, one of `sakiyomi trace formats`. Null: detected. */
    const char *format;
    /* The device to simulate, a number, MAJOR,MINOR or a name. Null: the trace must have one, but see `map`. */
    const char *device;
    /* "concat" places all devices of the trace one after the other. */
    const char *map;
    /* Maximum time over which records are put in order. Null: "1s". */
    const char *sort_window;
    /* The action letter of blkparse that counts as the arrival. Null: "Q". */
    const char *action;
    /* Factor on arrival and think times; 0.5 replays the trace twice as fast. 0: 1. */
    double time_scale;
    /* 1: each request is issued when an earlier one completes; -1: at its recorded time; 0: as the trace was recorded. */
    int closed_loop;
    /* Number of outstanding requests of a closed loop, 1 to 65536. 0: 1. */
    uint32_t outstanding;
    /* Maximum requests queued in the host while the drive's queue is full. 0: 1048576. */
    uint32_t host_queue;
    /* Not 0: addresses beyond the end of the drive are wrapped around to its start. */
    int wrap;
    /* Learns of progress, with `context`. Null: nothing does. */
    sakiyomi_progress_function progress;
    void *context;
} sakiyomi_simulation_options;

/*
 * Simulates the trace in a file, in any supported format, plain or compressed; "-" is standard input. `drive` is the name
 * of a built-in drive, one of `sakiyomi drive list`, or a .toml, .diskspecs or .parv file. `options` may be null.
 *
 * Returns 0 and stores the result document in `*document`: that of `sakiyomi sim --json`, whose keys are in the reference
 * of JSON, without the circumstances of the run. The same input gives the same bytes. Unless `notes` is null, what the
 * command would say beside it is stored in `*notes`, a line each; "" if nothing. Both are freed by sakiyomi_text_free().
 * On failure, and if `progress` ends the simulation, stores null in both.
 *
 * Fails with -EINVAL for invalid options, a drive that is not known, possible or readable, and a trace that is not valid or
 * does not fit the drive; the error numbers of open(2) and read(2) for the trace; -EIO for compressed data that is damaged.
 */
int sakiyomi_simulate(const char *trace, const char *drive, const sakiyomi_simulation_options *options, char **document,
                      char **notes);

/* Frees a text. Null is allowed. Always returns 0. */
int sakiyomi_text_free(char *text);

/*
 * Returns a sentence that describes the last error of the calling thread; "" if no call has failed. Never null. The
 * text is valid until the next failing call of this thread, or its end.
 */
const char *sakiyomi_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
