//! System calls: reading and writing files by every method that Linux has, the page cache, and CPU accounting.
//!
//! | subject | module |
//! |---|---|
//! | files as streams of blocks that are read while the caller works | [`read`] |
//! | an engine and a budget of memory that streams share | [`mod@io`] |
//! | I/O engines: a thread, threads, Linux AIO, io_uring, mappings; for any number of files | [`engine`] |
//! | an engine over files in memory, with faults, for the tests of everything above | [`fake`] |
//! | aligned and huge memory, lent and given back | [`buffer`] |
//! | a file opened for buffered or direct I/O, with its size and alignment | [`mod@file`] |
//! | writing a file while the caller makes the next block | [`writer`] |
//! | which pages of a file are in memory; fetching and dropping them | [`page_cache`] |
//! | character classes of the C library | [`ctype`] |
//! | CPU time of threads, of the kernel's own threads, and of cores | [`cpu`] |
//! | a block device made of a file | [`loop_device`] |
//! | information about processes from `/proc`; running a command transparently | [`process`] |
//! | which pages of which files processes touch, by the kernel's tracepoints | [`tracefs`] |
//! | a file without name or descriptor | [`file_handle`] |
//! | a message to a file system that is a program | [`exchange`] |
//! | which standard streams the program was started without | [`standard`] |
//! | how soon a thread runs when it is woken | [`priority`] |
//!
//! This crate holds mechanism, not policy: the crates above decide how far to read ahead, which engine to use and what
//! to conclude from a measurement. This is the only crate with unsafe code, in the modules that say
//! `allow(unsafe_code)`: memory that the kernel writes into, and the system interfaces that no library covers (Linux
//! AIO, mappings that shrink, the page cache, loop devices, character classes).

pub mod buffer;
pub mod cpu;
pub mod ctype;
pub mod engine;
pub mod exchange;
pub mod fake;
pub mod file;
pub mod file_handle;
pub mod io;
pub mod loop_device;
pub mod page_cache;
pub mod priority;
pub mod process;
pub mod read;
pub mod readiness;
pub mod standard;
pub mod tracefs;
pub mod writer;

mod crew;
mod error;
mod mapping;

pub use buffer::{Buffer, BufferPool, Granted, Memory};
pub use engine::{EngineKind, EngineSpec};
pub use error::Error;
pub use file::{Access, Alignment, IoFile, open_files_max};
pub use io::{Io, IoOptions};
pub use mapping::Mapping;
pub use read::{Block, Order, Pattern, ReadOptions, ReadStream, SharedOptions};
