//! Reads ahead of a program at a controlled distance (Fukayama et al., Waseda 2006).
//!
//! The program reads a file from its beginning to its end and computes on the data; a second reader reads the same file
//! ahead of it, and thereby fills the page cache. Only the page cache connects the two. The essential question is the
//! distance: if it is too short, the program still waits; if it is too long, data is evicted before it is used.
//!
//! | part | where |
//! |---|---|
//! | whether and how far to read ahead: pure | [`controller`] |
//! | which parts of a mapped file to fetch: pure | [`touched`] |
//! | files and look-ups of a command's earlier runs, and their replay | [`profile`] |
//! | which processes of a machine to follow: pure | [`selection`] |
//! | observing unmodified programs, and reading ahead of them | [`follow`] |
//! | a reader for programs that use it: `Read`, `BufRead`, `Seek` | [`reader`] |
//! | ranges in an order that their program knows, and a mapped reader of them | [`ranges`] |
//! | waits of the own process for storage, by file | [`WaitWatch`] |
//! | execution of the controller's actions: threads, and a file of which ranges are fetched | `fetcher`, `cached_file` |
//!
//! # A reader with prefetching
//!
//! ```text
//! program's thread                              prefetching thread                threads that fetch
//! reader ── position, bytes, waits (atomic) ──► reader/ahead ──► Controller
//!    └────► kernel (page cache)                     └── Errand ──► fetcher ──► cached_file ──► page cache
//! ```
//!
//! The program's thread takes no lock and waits only for the kernel. The prefetching thread waits only for its reader,
//! so that it ends at once. A fetching thread may hang in the kernel; it is never waited for, and holds nothing but the
//! file.
//!
//! # A followed program
//!
//! ```text
//! /proc   ── positions, times, files ──► reading ──► Controller ──► job ──► fetcher ──► page cache
//! tracefs ── touched pages ──► streams ────┘
//! page tables ── touched pages ──► TouchedFile ──► fetch ──► fetcher
//! ```
//!
//! A file that is read by `pread` or through a mapping has no moving position. The pages of a large mapping that a program
//! has touched stand in its page tables (`follow/mapped.rs`), which is seen without tracing and without root. `os::tracefs` takes the kernel's events
//! from a private ring buffer; `prefetch/follow/streams.rs`, which is pure, derives streams from them: places that
//! advance, each of which becomes a reading. `positionless.rs`, also pure, detects programs that appear to read in this way,
//! and `tracer.rs` decides when events are worth their cost.
//!
//! The instance of tracefs belongs to a separate process (`os/tracefs/owner.rs`), because the kernel waits for other
//! cores when it is set up and removed, during which no process can end. If tracefs is not mounted, `tracefs/tree.rs`
//! mounts it privately. `statistics.rs`, pure, computes the waiting time of a program with and without prefetching, actual
//! and estimated; `storage_rate.rs` measures the throughput of the storage after a `--dry-run`.
//!
//! `file_predictor.rs` predicts the files that a program will read next, and `listing.rs`, pure, detects the order in which it
//! traverses a directory. An open file that several processes share is followed in one of them (`os::process`, `kcmp`).

pub mod controller;
#[cfg(feature = "system")]
pub mod follow;
#[cfg(feature = "system")]
pub mod profile;
#[cfg(feature = "system")]
pub mod ranges;
#[cfg(feature = "system")]
pub mod reader;
pub mod selection;
pub mod touched;

#[cfg(feature = "system")]
mod budget;
#[cfg(feature = "system")]
mod cached_file;
#[cfg(feature = "system")]
mod fetcher;
#[cfg(feature = "system")]
mod retention;
#[cfg(all(test, feature = "system"))]
mod scratch;
#[cfg(feature = "system")]
mod waits;

pub use controller::{Action, Controller, Event, Idle, Limit, ReadingId, State};
#[cfg(feature = "system")]
pub use ranges::{MappedReader, Prefetch};
#[cfg(feature = "system")]
pub use reader::PrefetchReader;
#[cfg(feature = "system")]
pub use waits::{FileWait, WaitWatch, Waits};
