//! Reading ahead of a program at a controlled distance (Fukayama et al., Waseda 2006).
//!
//! The program reads a file from its beginning to its end and computes on what it reads; a second reader goes through
//! the same file ahead of it, and so puts the data into the page cache. Nothing but the page cache passes between the
//! two. How far ahead is the whole question: too little, and the program still waits; too much, and what was read is
//! evicted before it is used.
//!
//! | what | where |
//! |---|---|
//! | how far ahead, and whether at all: pure, told the time | [`controller`] |
//! | what unmodified programs read, and reading it ahead of them | [`follow`] |
//! | a reader for programs that are made for it: `Read`, `BufRead`, `Seek` | [`reader`] |
//! | carrying out what the controller wants: threads, and one file of which parts are brought into memory | `fetcher`, `cached_file` |
//!
//! # A reader that is read ahead of
//!
//! ```text
//! program's thread                              prefetching thread                threads that fetch
//! reader ── position, bytes, waits (atomic) ──► reader/ahead ──► Controller
//!    └────► kernel (page cache)                     └── Errand ──► fetcher ──► cached_file ──► page cache
//! ```
//!
//! The program's thread takes no lock and waits for nobody but the kernel. The prefetching thread waits for nobody but its
//! reader, so that it ends at once; who fetches may hang in the kernel, is never waited for, and holds nothing but the file.
//!
//! # A program that is followed
//!
//! ```text
//! /proc   ── positions, times, files ──► reading ──► Controller ──► errand ──► fetcher ──► page cache
//! tracefs ── touched pages ──► streams ────┘
//! ```
//!
//! A file that is read by `pread` or in a mapping has no position. `os::tracefs` takes the kernel's events from a
//! private ring buffer; `prefetch/follow/streams.rs`, which is pure, derives streams from them, places that advance, each a
//! reading. `signs.rs`, pure as well, detects programs that seem to read so, and `tracer.rs` decides when events are worth
//! their cost.
//!
//! The instance of tracefs belongs to a separate process (`os/tracefs/owner.rs`), because the kernel waits for other
//! cores when it is set up and removed, during which no process can end. If tracefs is not mounted, `tracefs/tree.rs`
//! mounts it privately. `account.rs`, pure, computes the waiting of a program with and without prefetching, actual and
//! estimated; `storage_rate.rs` measures the throughput of the storage after a `--dry-run`.
//!
//! `coming.rs` knows the files that a program will read next, and `listing.rs`, pure, in which order it goes through a
//! directory. An open file that several processes have is followed in one of them (`os::process`, `kcmp`).

pub mod controller;
#[cfg(feature = "system")]
pub mod follow;
#[cfg(feature = "system")]
pub mod reader;

#[cfg(feature = "system")]
mod cached_file;
#[cfg(feature = "system")]
mod fetcher;
#[cfg(all(test, feature = "system"))]
mod scratch;

pub use controller::{Action, Controller, Event, Idle, Limit, ReadingId, State};
#[cfg(feature = "system")]
pub use reader::PrefetchReader;
