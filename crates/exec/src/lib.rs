//! Tasks and blocked reads (Kohagura & Kono 2014): reading files while computing on what has arrived.
//!
//! | what | where |
//! |---|---|
//! | tasks, what they depend on, and the threads that run them | [`executor`] |
//! | a file read by blocks, mapped, and reduced or written in order | [`read`] |
//!
//! # Blocked reads and their files
//!
//! ```text
//! look_ahead ─► schedule ─► plan ─► resident ────────────────────────► fetch ─┐
//! files in turn             └─► cold ─► load ─► page cache ─► permit ──┘      ├─► piece ─► map ─► gather
//!                                          └──► buffers ────► permit ─────────┘     (neighbours, or in order)
//! ```
//!
//! | file of `exec` | what |
//! |---|---|
//! | `executor.rs`, `executor/threads.rs` | an executor and its runs; which threads it has, and their start |
//! | `executor/run.rs`, `builder.rs`, `series.rs`, `room.rs` | the run as its caller has it; how tasks are made, one by one or as task blocks; waiting for room |
//! | `executor/handle.rs` | functions as tasks, and the handles of their outputs |
//! | `executor/tasks.rs` | a run: its active tasks, their execution, what follows from an end |
//! | `executor/pool.rs` | the threads: which runs are active, and which of them a thread serves |
//! | `executor/edges.rs`, `live.rs`, `place.rs`, `failure.rs` | what waits for what; how many live; which thread this is; why something failed. None knows a task |
//! | `queues.rs`, `sleep.rs` | where active tasks of a run wait, and stealing; how threads sleep and are woken |
//! | `read/builder.rs`, `mapped.rs`, `report.rs`, `error.rs` | the blocked read, made of tasks: what a caller sees |
//! | `read/look_ahead.rs`, `schedule.rs`, `load.rs`, `ahead.rs` | the I/O thread: opens the next files, dispatches their blocks, loads what is cold, asks the kernel to read ahead |
//! | `read/work.rs`, `fetch.rs`, `tuner.rs` | the threads that compute: the result of a block, and how its bytes are transferred: mapped or copied, by measured times |
//!
//! In `executor`, no file uses one of a row above its own. In `read/`, a file ends when its last guard is dropped,
//! and its end is reported in order. A block's place is a range of numbers, so that results can arrive in any order:
//! `gather` joins neighbours, `records` does the same for the edges of blocks. Each piece that is loaded holds a
//! permit of a `semaphore` for each of its blocks, and so do its results until they are written, which bounds the
//! memory. If results are taken in order, a read waits for an empty pipe only after all results have been taken,
//! because the pipe's writer may wait for them. Vectors come from safe loops that the compiler turns into them,
//! compiled for AVX2 by `pulp`: there is no unsafe code for speed.
//!
//! # Threads
//!
//! Two crates have pools, and no other crate keeps a group of equal threads:
//!
//! | threads | where | for | at the end |
//! |---|---|---|---|
//! | an executor's | `exec::executor` | runs of tasks: computing, and lanes for what waits. Blocked reads, and what the command does to many items (`cli/parallel.rs`), are runs | a run ends with its last task, the threads with their executor |
//! | a pool's | `io::thread_pool` | system calls that wait: of engines, and a mount's backing I/O | jobs are awaited |
//! | expendable ones | `prefetch::fetcher` | reads on behalf of a program that must not wait for them | never awaited |
//! | workers | `stream::runtime` | the segments of one stream, each of which belongs to one worker until it is moved | the stream's end |
//! | single ones | each with its owner | a device in real time, a watcher, a bar of progress | their owner's |
//!
//! The threads of `fetcher` do not form a pool, because a pool promises the opposite: it starts its threads at once,
//! its queue is bounded and blocks the submitter, and its end waits for jobs in progress. The thread that follows a
//! program must not wait. A fetch thread hangs if the server of a file system has died: it is then left behind, holds
//! only its file, and another thread is started in its place, up to a number. All that these threads share with a
//! pool is a queue under a lock. (For each file, one fetch at a time is in flight, so that the nearest arrives first;
//! that, and waking the thread that decides, is most of `fetcher.rs`.)

pub mod executor;
pub mod read;

mod queues;
mod sleep;
mod sync;
