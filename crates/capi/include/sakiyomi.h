/*
 * sakiyomi: a reader that has its file read ahead while the program computes, and rates of processes on a drive.
 *
 *     sakiyomi_prefetch *reader;
 *     if (sakiyomi_prefetch_open("large.csv", NULL, &reader) < 0)
 *         errx(1, "%s", sakiyomi_last_error());
 *     while ((count = sakiyomi_prefetch_read(reader, buffer, sizeof buffer)) > 0)
 *         compute(buffer, count);
 *     sakiyomi_prefetch_close(reader);
 *
 * Results. Every function that can fail returns a negative error number, as -ENOENT, and never touches errno; the
 * numbers are those of <errno.h>. sakiyomi_last_error() has it in words. A null pointer where none is allowed is
 * -EINVAL.
 *
 * Threads. A reader may be used by any thread, but by one at a time. Different readers are independent. A reader
 * starts threads of its own when it has had to wait; the process's signals may be delivered to them.
 *
 * Fork. A child must not use, and not close, the readers of its parent.
 */
#ifndef SAKIYOMI_H
#define SAKIYOMI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file that is read ahead. Made by sakiyomi_prefetch_open(), ended by sakiyomi_prefetch_close(). */
typedef struct sakiyomi_prefetch sakiyomi_prefetch;

/* How to read ahead. Set all to 0, then `size`, then what shall differ. */
typedef struct sakiyomi_prefetch_options {
    /* sizeof(sakiyomi_prefetch_options), by which later versions know this one. */
    size_t size;
    /* How far ahead of the program may be read, in bytes. 0: 512 MiB. */
    uint64_t limit_bytes;
    /* 0: as far ahead as pays, at most limit_bytes. Else in bytes, at least 4096: always, so many bytes at a time,
     * unless more than limit_bytes lie ahead. */
    uint64_t step_bytes;
    /* How much memory may be filled ahead of the program, in bytes. 0: a quarter of what is available. */
    uint64_t memory_bytes;
} sakiyomi_prefetch_options;

/* What a reader has done since it was opened. */
typedef struct sakiyomi_prefetch_statistics {
    /* sizeof(sakiyomi_prefetch_statistics); to be set by the caller. */
    size_t size;
    /* Bytes read from the file into the program's memory. */
    uint64_t read_bytes;
    /* Bytes that were brought into the page cache ahead of the program, and were not there before. */
    uint64_t prefetched_bytes;
    /* How often the program had to wait in a read, and how long altogether, in nanoseconds. */
    uint64_t waits;
    uint64_t waited_ns;
    /* An estimate of how much longer it would have waited without help, in nanoseconds. */
    uint64_t hidden_ns;
    /* How much has been asked for ahead of the program and not been passed by it yet, in bytes. */
    uint64_t ahead_bytes;
} sakiyomi_prefetch_statistics;

/*
 * Opens a file for reading from its beginning. `path` ends with a zero byte; `options` may be null. On success returns 0
 * and stores a reader in `*reader`, else stores null there.
 *
 * What cannot be read ahead (a pipe, a terminal, a small file, one in memory) is read plainly.
 *
 * Fails with the numbers of open(2); -EISDIR for a directory; -EINVAL for options that are not possible.
 */
int sakiyomi_prefetch_open(const char *path, const sakiyomi_prefetch_options *options, sakiyomi_prefetch **reader);

/*
 * The same for an open file, from its present position on. A duplicate of `fd` is read: the caller may close `fd` at any
 * time. The position of `fd` does not move, unless it is a pipe or such.
 *
 * Fails with -EBADF, -EMFILE; -EISDIR for a directory; -EINVAL for options that are not possible.
 */
int sakiyomi_prefetch_open_fd(int fd, const sakiyomi_prefetch_options *options, sakiyomi_prefetch **reader);

/*
 * Reads up to `count` bytes into `buffer`, and returns how many: 0 at the end of the file, or if `count` is 0. Small
 * reads are served from a buffer of 128 KiB. Can return fewer bytes than were asked for anywhere in the file, as read(2)
 * can from a pipe. Interrupted calls are repeated.
 *
 * A file that grows has more to read after its end was met. Bytes that were changed less than 128 KiB ahead of the
 * position may be read as they were before; sakiyomi_prefetch_seek() forgets them.
 *
 * Fails with the numbers of read(2); -EINVAL if `count` is more than SSIZE_MAX.
 */
ssize_t sakiyomi_prefetch_read(sakiyomi_prefetch *reader, void *buffer, size_t count);

/*
 * Moves the position, and returns the new one in bytes from the file's beginning. `whence` is SEEK_SET, SEEK_CUR or
 * SEEK_END. Positions behind the end are possible, those before the beginning are not.
 *
 * Fails with -EINVAL; -ESPIPE for what has no positions. The position is then as before.
 */
int64_t sakiyomi_prefetch_seek(sakiyomi_prefetch *reader, int64_t offset, int whence);

/* The position in bytes from the file's beginning; of what has no positions, the number of bytes read so far. */
int64_t sakiyomi_prefetch_position(const sakiyomi_prefetch *reader);

/*
 * Fills in `*statistics`, whose member `size` the caller has set. Returns 0. Fails with -EINVAL if `size` is not what
 * this version knows.
 */
int sakiyomi_prefetch_stats(const sakiyomi_prefetch *reader, sakiyomi_prefetch_statistics *statistics);

/*
 * Ends a reader and frees it, in a short time: what is still being fetched is not waited for, and the file may stay open
 * until that has ended. Null is allowed. Always returns 0.
 */
int sakiyomi_prefetch_close(sakiyomi_prefetch *reader);

/*
 * Gives the process `pid` so many percent, 1 to 100, of the drive that `dev_path` lies on: from now on each of its I/Os
 * takes a constant time, whatever others do. 0 takes the rate back. It ends with the process. Returns 0.
 *
 * `dev_path` is any file or directory below a mount that was made with `sakiyomi mount BACKING DIR --regulate`; it ends
 * with a zero byte. Threads share their process's rate; children have none unless they are given one. Only root and the
 * process's own user may call this.
 *
 * Fails with -EINVAL for a rate that is none; -EBUSY for one that cannot be kept beside the others, of which
 * sakiyomi_last_error() says the best that can; -ENOTTY if `dev_path` is on no mount that regulates; -ESRCH if there is
 * no such process, or none as the mount counts them (from within a container); -EPERM for another user's; -ENODATA if
 * there is no rate to take back; -ENOSPC if as many have one as can; -EPROTO if the mount is served by another version;
 * the numbers of open(2) for `dev_path`; -EIO if the mount does not answer.
 */
int sakiyomi_set_iorate(pid_t pid, const char *dev_path, int req_iorate);

/*
 * Why the calling thread's last call failed that did, in one sentence; "" if none has. Never null. The text is valid
 * until the thread's next call that fails, or its end.
 */
const char *sakiyomi_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
