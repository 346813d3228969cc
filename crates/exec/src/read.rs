//! Blocked reads: a file's blocks are read while earlier ones are processed, in a notation as short as a loop.
//!
//! ```no_run
//! use sakiyomi_exec::read::blocked_read;
//! # fn main() -> Result<(), sakiyomi_exec::read::Error> {
//! let (longest, _) = blocked_read("log.txt")
//!     .block(128 << 10)
//!     .records(b'\n')
//!     .map(|lines| lines.split(|&byte| byte == b'\n').map(<[u8]>::len).max().unwrap_or(0))
//!     .reduce(0, |longest, other| longest.max(other))?;
//! # Ok(())
//! # }
//! ```
//!
//! The function maps a block: cut anywhere ([`BlockedRead::map`], for functions that return head and tail as the
//! paper's word count does), or with whole records only ([`BlockedRead::records`]); a record that crosses a block
//! boundary is joined and mapped by itself.
//!
//! Results are reduced by an associative function as soon as neighbors are complete, or written in the file's order.
//! Blocks may therefore be read in any order, and **cached blocks go first**: compute threads process them,
//! mapped or copied,
//! whichever is faster, while the I/O thread loads the others. If pages of the file were evicted before for lack of
//! memory, the I/O thread starts after that, since the blocks that it loads would evict the cached ones.
//!
//! With many files ([`blocked_reads`]) the next is read while the last is processed, and the files after it are opened
//! and fetched ahead. They form one text ([`Mapped::reduce`], [`Mapped::write_ordered`]), or each has its own result or
//! error ([`Mapped::reduce_each`], [`Mapped::each_in_order`]):
//!
//! ```no_run
//! use sakiyomi_exec::read::blocked_reads;
//! # fn main() -> Result<(), sakiyomi_exec::read::Error> {
//! let paths = ["a.log", "b.log"];
//! let count = |lines: &[u8]| lines.iter().filter(|&&byte| byte == b'\n').count();
//! blocked_reads(paths).map(count).reduce_each(|| 0, |first, next| first + next, |file, counted| {
//!     match counted {
//!         Ok((lines, _)) => println!("{lines} {}", paths[file]),
//!         Err(error) => eprintln!("{error}"),
//!     }
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! Bytes that are loaded and not yet processed are bounded, and so are results that wait for their turn, by the size of
//! their blocks; a longer record is an error.

mod ahead;
mod block;
mod builder;
mod cancel;
#[cfg(feature = "compression")]
mod compress;
mod cut;
mod decode;
mod deliver;
mod error;
mod fetch;
mod file_input;
mod file_job;
mod find;
mod fold;
mod gather;
mod grid;
mod joiner;
mod load;
mod look_ahead;
mod mapped;
mod plan;
mod quotations;
mod report;
mod results;
mod run;
mod schedule;
mod semaphore;
mod shape;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod tuner;
mod work;

pub use block::Block;
pub use builder::{BlockedRead, IoThread, blocked_read, blocked_reader, blocked_reads};
pub use cancel::{Cancel, Progress};
#[cfg(feature = "compression")]
pub use compress::Compression;
pub use cut::Splitter;
pub use error::Error;
pub use mapped::{Mapped, Records};
pub use report::{Event, Report, Wanted};
pub use results::Results;
pub use source::{Paths, Reader, Source};
