//! Blocked reads: a file's blocks are read while earlier ones are processed, in a notation as short as a loop.
//!
//! ```no_run
//! use sakiyomi_exec::read::blocked_read;
//! # fn main() -> Result<(), sakiyomi_exec::read::Error> {
//! let (longest, _) = blocked_read("log.txt")
//!     .records(b'\n')
//!     .map(|lines| lines.split(|&byte| byte == b'\n').map(<[u8]>::len).max().unwrap_or(0))
//!     .reduce(0, |longest, other| longest.max(other))?;
//! # Ok(())
//! # }
//! ```
//!
//! # An input, a division, a function, a delivery
//!
//! | step | choices |
//! |---|---|
//! | input | [`blocked_read`], [`blocked_reads`] (many files), [`blocked_reader`] (anything that is [`Read`](std::io::Read)); with the feature `compression`, `decompressed` |
//! | division | [`block`](BlockedRead::block), [`records`](BlockedRead::records), [`records_of_length`](BlockedRead::records_of_length), [`csv_records`](BlockedRead::csv_records), [`records_of`](BlockedRead::records_of); none |
//! | function | [`map`](BlockedRead::map), [`map_blocks`](BlockedRead::map_blocks) (with offset, number and file), [`try_map`](BlockedRead::try_map), [`fold`](BlockedRead::fold), [`try_fold`](BlockedRead::try_fold) |
//! | delivery | [`reduce`](Mapped::reduce), [`try_reduce`](Mapped::try_reduce), [`reduce_each`](Mapped::reduce_each); [`in_order`](Mapped::in_order), [`each_in_order`](Mapped::each_in_order), [`find_first`](Mapped::find_first), an [iterator](Results), [`write_ordered`](Mapped::write_ordered), [`write_file`](Mapped::write_file) |
//!
//! # What a call gets
//!
//! | division | a call of the function gets |
//! |---|---|
//! | none | bytes from anywhere to anywhere, as many as are at hand, up to some megabytes. The size is ours to choose, and differs from run to run: for functions whose result does not depend on it |
//! | blocks | exactly one block of the size that was set; only the last one of a file is shorter. Whatever is cached, and however it is read |
//! | records | whole records, each in exactly one call. How many is ours to choose, but if a block size is set, they exceed it only if a single record does |
//!
//! # Order, errors, memory
//!
//! Results are reduced by an associative function as soon as neighbors are complete, or delivered in the file's order.
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
//! An error of the function ends the reading of its file, and a panic that of all files, as [`Error::Task`] with the
//! message; calls in progress return first. [`Cancel`] ends a read from another thread.
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
