//! The system calls: reading and writing files by every method that Linux has, the page cache, and what the CPU did.
//!
//! | what | where |
//! |---|---|
//! | a file, as blocks that are read while the caller works | [`blocks`] |
//! | one way of reading each: a thread, threads, Linux AIO, io_uring, mappings | [`method`] |
//! | a method made of memory, with faults, for the tests of everything above | [`fake`] |
//! | aligned and huge memory, lent and given back | [`buffer`] |
//! | a file opened around the page cache or through it, and what it asks of alignment | [`source`] |
//! | writing a file while the caller makes the next block | [`writer`] |
//! | which pages of a file are in memory; fetching and dropping them | [`page_cache`] |
//! | what the C library takes characters for | [`ctype`] |
//! | CPU time of threads, of the kernel's own threads, and of cores | [`cpu`] |
//! | a block device made of a file | [`loop_device`] |
//! | what `/proc` tells about processes; running a command as if nobody stood between | [`process`] |
//! | which pages of which files processes touch, by the kernel's tracepoints | [`tracefs`] |
//! | a file without name or descriptor | [`file_handle`] |
//! | a message to a file system that is a program | [`exchange`] |
//! | which standard streams the program was started without | [`standard`] |
//! | how soon a thread runs when it is woken | [`priority`] |
//!
//! There is no policy here: how far to read ahead, which method to take and what to conclude from a measurement is
//! decided above. This is the only crate with unsafe code, in the modules that say `allow(unsafe_code)`: memory that
//! the kernel writes into, and the system interfaces that no library covers (Linux AIO, mappings that shrink, the page
//! cache, loop devices, the classes of characters).

pub mod blocks;
pub mod buffer;
pub mod cpu;
pub mod ctype;
pub mod exchange;
pub mod fake;
pub mod file_handle;
pub mod loop_device;
pub mod method;
pub mod page_cache;
pub mod priority;
pub mod process;
pub mod readiness;
pub mod source;
pub mod standard;
pub mod tracefs;
pub mod writer;

mod crew;
mod error;
mod mapping;

pub use blocks::{Block, Blocks, Options, Order, Pattern};
pub use buffer::{Buffer, Granted, Memory, Pool};
pub use error::Error;
pub use mapping::Mapping;
pub use method::{MethodKind, MethodSpec};
pub use source::{Access, Alignment, Source, open_files_max};
