//! Tasks and blocked reads (Kohagura & Kono 2014): files are read while the data that has arrived is processed.
//!
//! | part | where |
//! |---|---|
//! | tasks, their dependencies, and the threads that run them | [`executor`] |
//! | a file read by blocks, mapped, and reduced or written in order | [`read`] |
//!
//! ```
//! use sakiyomi_exec::read::blocked_read;
//! # let scratch = sakiyomi_testing::ScratchFile::new("2 apples\n3 pears\n");
//! # let path = scratch.path();
//! // On all cores, while the file is read: how many lines are there, and how long is the longest?
//! let (found, report) = blocked_read(path)
//!     .records(b'\n')
//!     .map(|lines| lines.split_inclusive(|&byte| byte == b'\n').fold((0, 0), |(count, longest), line| {
//!         (count + 1, line.len().max(longest))
//!     }))
//!     .reduce((0, 0), |(count, longest), next| (count + next.0, longest.max(next.1)))?;
//! assert_eq!(found, (2, 9));
//! assert_eq!(report.bytes, 17);
//! # Ok::<(), sakiyomi_exec::read::Error>(())
//! ```
//!
//! Examples that can be run are in `examples/`: a histogram, the sum of a column of CSV, the most frequent words, a tree
//! of digests, and the One Billion Row Challenge.
//!
//! | feature | effect |
//! |---|---|
//! | `async` | the results of a blocked read as an asynchronous stream (`futures_core::Stream`). Off by default |
//! | `compression` | compressed inputs and results: gzip, BGZF and Zstandard. Off by default |
//!
//! # Blocked reads and their files
//!
//! ```text
//! look_ahead ─► schedule ─► plan ─► resident ────────────────────────► fetch ─┐
//! files in turn             └─► cold ─► load ─► page cache ─► permit ──┘      ├─► piece ─► map ─► gather
//!                                          └──► buffers ────► permit ─────────┘     (neighbors, or in order)
//! ```
//!
//! | file of `exec` | content |
//! |---|---|
//! | `executor.rs`, `executor/threads.rs` | an executor and its runs; configuration and start of its threads |
//! | `executor/run.rs`, `builder.rs`, `series.rs`, `room.rs` | the run for its caller; construction of tasks, singly or as task blocks; limit of live tasks |
//! | `executor/handle.rs` | functions as tasks, and the handles of their outputs |
//! | `executor/tasks.rs` | a run: its active tasks, their execution, the consequences of their end |
//! | `executor/pool.rs` | the threads: the active runs, and the choice of the run that a thread serves |
//! | `executor/edges.rs`, `live.rs`, `place.rs`, `failure.rs` | dependencies; the number of live tasks; the identity of the current thread; causes of failures. Independent of the type of tasks |
//! | `queues.rs`, `sleep.rs` | queues of active tasks, and work stealing; sleeping and waking of threads |
//! | `read/builder.rs`, `source.rs`, `mapped.rs`, `block.rs`, `report.rs`, `error.rs`, `cancel.rs` | the interface of a blocked read: input, options, function, errors |
//! | `read/deliver.rs`, `fold.rs`, `find.rs`, `results.rs`, `run.rs` | the ways to get its results, each of which is a run |
//! | `read/look_ahead.rs`, `schedule.rs`, `load.rs`, `ahead.rs` | the I/O thread: opens the next files, dispatches their pieces, loads cold parts, asks the kernel to read ahead |
//! | `read/work.rs`, `file_job.rs`, `file_input.rs`, `fetch.rs`, `tuner.rs` | the compute threads: the processing of a piece, and the transfer of its bytes, mapped or copied, by measured times |
//! | `read/decode.rs`, `decode/` | compressed inputs: units that compute threads decode, or a sequence; indexes of their parts |
//! | `read/shape.rs`, `grid.rs`, `cut.rs`, `joiner.rs`, `quotations.rs`, `gather.rs` | from pieces to blocks and records, and from their results to those in order |
//!
//! In `executor`, no file uses one of a row above its own. In `read/`, a file ends when its last guard is dropped, and
//! its end is reported in order. A file is loaded, mapped or copied in *pieces* of any size. A piece's place is a range
//! of numbers, so that results can arrive in any order: `gather` joins neighbors, `joiner` does the same for blocks and
//! records that lie across pieces. Pieces begin with a block where that is possible, but nothing depends on it: blocks
//! are exactly those that were asked for. Each piece that is loaded holds a permit
//! of a `semaphore` for each of its blocks, and so do its results until they are written, which bounds the memory. If
//! results are consumed in order, a read waits for an empty pipe only after all earlier results have been consumed,
//! because the pipe's writer may wait for them. Vector code comes from safe loops that the compiler vectorizes,
//! compiled for AVX2 by `pulp`: performance requires no unsafe code.
//!
//! # Threads
//!
//! Two crates have pools, and no other crate keeps a group of equal threads:
//!
//! | threads | where | purpose | at the end |
//! |---|---|---|---|
//! | an executor's | `exec::executor` | runs of tasks: compute threads, and lanes for tasks that block. Blocked reads, and what the command does to many items (`cli/parallel.rs`), are runs | a run ends with its last task, the threads with their executor |
//! | a pool's | `io::thread_pool` | system calls that block: of engines, and a mount's backing I/O | jobs are awaited |
//! | expendable ones | `prefetch::fetcher` | reads on behalf of a program that must not wait for them | never awaited |
//! | workers | `stream::runtime` | the segments of one stream, each of which belongs to one worker until it is moved | the stream's end |
//! | single ones | each with its owner | a device in real time, a watcher, a progress bar | their owner's |
//!
//! The threads of `fetcher` do not form a pool, because a pool promises the opposite: it starts its threads at once,
//! its queue is bounded and blocks the submitter, and its end waits for jobs in progress. The thread that follows a
//! program must not wait. A fetch thread hangs if the server of a file system has died: it is then abandoned, holds
//! only its file, and another thread is started in its place, up to a limit. All that these threads share with a pool
//! is a queue under a lock. (One fetch per file is in flight at a time, so that the nearest arrives first; that, and
//! waking the thread that decides, is most of `fetcher.rs`.)

pub mod executor;
pub mod read;

mod queues;
mod sleep;
mod sync;
