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
