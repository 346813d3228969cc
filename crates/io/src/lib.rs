//! Reading and writing files by every I/O interface of Linux: engines, buffers, streams, and the page cache.
//!
//! | subject | module |
//! |---|---|
//! | files as streams of blocks that are read while the caller works | [`read`] |
//! | an engine and a budget of memory that streams share | [`shared`] |
//! | I/O engines: a thread, threads, Linux AIO, io_uring, mappings; for any number of files | [`engine`] |
//! | an engine over files in memory, with faults, for the tests of everything above | [`fake`] |
//! | aligned and huge memory, lent and given back | [`buffer`] |
//! | a file opened for buffered or direct I/O, with its size and alignment | [`mod@file`] |
//! | files as streams of buffers that are written while the caller fills the next one | [`mod@write`] |
//! | data that is written once and read once, in a file without a name | [`spill`] |
//! | transfers that call back, for callers that never wait | [`background`] |
//! | a file that appears under its name when it is whole | [`AtomicFile`] |
//! | the content of a block device, in a file or on a device | [`volume`] |
//! | the right to write a file, against other processes | [`Claim`] |
//! | threads that perform jobs of any kind, such as a file system's I/O | [`thread_pool`] |
//! | which pages of a file are in memory; fetching and dropping them | [`page_cache`] |
//! | a file without name or descriptor | [`file_handle`] |
//!
//! This crate holds mechanism, not policy: the crates above decide how far to read ahead, which engine to use and
//! what to conclude from a measurement. `unsafe` is confined to the modules that say `allow(unsafe_code)`: memory
//! that the kernel writes into, and the system interfaces that no library covers (Linux AIO, mappings that shrink,
//! the page cache).
//!
//! # Files
//!
//! | file of `io` | what |
//! |---|---|
//! | `engine.rs`, `engine/` | the trait, and one file for each engine; operations on any number of files, each of which owns its memory until it completes |
//! | `read.rs`, `read/` | the stream: the next ranges (`plan`), handling of short reads (`progress`), order, errors in place; ranges at random places for a caller that never waits (`random`) |
//! | `shared.rs` | resources that streams share: the thread that waits drives the engine for all; a single stream has its engine without a lock |
//! | `background.rs` | a thread that drives an engine for callers that never wait, and calls their functions |
//! | `thread_pool.rs`, `thread_pool/jobs.rs` | threads that do one job at a time: for an engine, whose caller does one itself if it has nothing to hide; and for any number of submitters, with a bounded queue (the backing I/O of `mount`) |
//! | `buffer.rs`, `buffer/` | aligned memory, huge where granted: fixed pools, and budgets with guarantees (`state`) |
//! | `mapping.rs` | mapped files, and SIGBUS turned into an error |
//! | `fake.rs` | an engine over files in memory, with faults, for the tests of all crates |
//! | `write.rs`, `write/` | the stream that writes: buffers, the unaligned end, errors; continued writes (`progress`), blocks allocated ahead (`allocation`) |
//! | `spill.rs`, `spill/place.rs` | runs of bytes in one file without a name, holes behind their readers |
//! | `atomic.rs` | a file that appears when it is whole, the only implementation of that promise |
//! | `volume.rs` | any range at any time from many threads, aligned or not; holes |
//! | `claim.rs` | locks on files that are written |
//! | `stats.rs`, `engine/cpu.rs` | counters of a stream, of reading or writing; CPU time of the threads that belong to an engine |

pub mod background;
pub mod buffer;
pub mod engine;
pub mod fake;
pub mod file;
pub mod file_handle;
pub mod page_cache;
pub mod read;
pub mod readiness;
pub mod shared;
pub mod spill;
pub mod thread_pool;
pub mod volume;
pub mod write;

mod atomic;
mod claim;
mod error;
mod mapping;
mod stats;

pub use atomic::{AtomicFile, partial_path};
pub use buffer::{Buffer, BufferPool, Granted, Memory};
pub use claim::Claim;
pub use engine::{EngineKind, EngineSpec};
pub use error::Error;
pub use file::{Access, Alignment, IoFile, open_files_max, raise_open_files_max};
pub use mapping::Mapping;
pub use read::{Block, Order, RandomRead, RandomReader, ReadOptions, ReadStream, SharedOptions};
pub use shared::{Io, IoOptions};
pub use spill::{Extent, Run, RunReader, RunWriter, Spill};
pub use stats::{EngineCpu, IoStats};
pub use volume::{Volume, VolumeOptions};
pub use write::{OwnEngine, WriteOptions, WriteStream, Written};
