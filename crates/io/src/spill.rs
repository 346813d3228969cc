//! Data that does not fit into memory: written once and read back once, in one unnamed file.
//!
//! ```no_run
//! # fn main() -> Result<(), sakiyomi_io::Error> {
//! use std::io::Write;
//! use sakiyomi_io::{Io, IoOptions, SharedOptions, Spill, WriteOptions};
//! let io = Io::open(&IoOptions::default())?;
//! let spill = Spill::create(&io, "/var/tmp".as_ref())?;
//! let mut writer = spill.run(&WriteOptions::default())?;
//! writer.write_all(b"sorted").unwrap();
//! let run = writer.finish()?;
//! for block in run.drain(&SharedOptions::default())? {
//!     assert_eq!(&block?[..], b"sorted");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A spill has any number of runs, each a sequence of bytes. All of them are in one file, so that thousands of runs
//! need one descriptor, and their order on the disk is that in which they were written. Several may be written at the
//! same time; a run can be read as soon as it is finished, while others are still written.
//!
//! The space of a drained run is released behind its reader, and returned to the file system by punching holes
//! (`FALLOC_FL_PUNCH_HOLE`). A hole costs a transaction of the file system, during which ext4 stops the file's direct
//! transfers, so released ranges are collected and coalesced while free space is plentiful; the rest is returned when
//! the file is closed. A merge needs at most 1.5 times the space of its input, and little more than its input where
//! space is short. File systems without holes keep the space until the spill is dropped.

mod holes;
pub(crate) mod place;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::buffer::{Account, Buffer};
use crate::file::create_unnamed;
use crate::file::{Access, IoFile};
use crate::read::{Block, Order, ReadStream, SharedOptions};
use crate::shared::Io;
use crate::write::{Destination, WriteOptions, WriteStream};
use crate::{Error, IoStats};

use place::{Place, Space};
pub use place::{SpaceLimit, SpillStats};

/// Maximum bytes freed by one hole.
const HOLE_MAX_BYTES: u64 = 1 << 20;
/// A run shorter than 8 MiB is freed in this many parts.
const HOLES_PER_RUN: u64 = 8;

/// A file of runs. Clones are handles of the same file.
#[derive(Clone, Debug)]
pub struct Spill {
    io: Io,
    space: Arc<Space>,
}

impl Spill {
    /// Creates an unnamed file in a directory, for direct I/O if its file system supports it.
    ///
    /// # Errors
    /// If no file can be created there.
    pub fn create(io: &Io, directory: &Path) -> Result<Spill, Error> {
        match Spill::create_for(io, directory, Access::Direct) {
            Err(Error::NoDirect { .. }) => Spill::create_for(io, directory, Access::Buffered),
            other => other,
        }
    }

    /// Creates an unnamed file in a directory.
    ///
    /// # Errors
    /// If no file can be created there, or not for direct I/O.
    pub fn create_for(io: &Io, directory: &Path, access: Access) -> Result<Spill, Error> {
        let path = directory.join("spill");
        let opened = create_unnamed(directory, access);
        let file = opened.map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) if access == Access::Direct => Error::NoDirect { path: path.clone() },
            _ => Error::Open { path: path.clone(), source },
        })?;
        Ok(Spill::over(io, Arc::new(IoFile::from_file(file, &path, access)?)))
    }

    /// Creates it over any file, such as one in memory ([`crate::fake`]); runs begin at offset 0.
    #[must_use]
    pub fn over(io: &Io, file: Arc<IoFile>) -> Spill {
        Spill { io: io.clone(), space: Arc::new(Space::new(file, None)) }
    }

    /// Limits the space of the file; it must not have runs yet.
    #[must_use]
    pub fn within(self, limit: Arc<dyn SpaceLimit>) -> Spill {
        let file = Arc::clone(&self.space.file);
        Spill { io: self.io, space: Arc::new(Space::new(file, Some(limit))) }
    }

    /// Begins a run. Ignores the offset and the expected size of the options.
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget has no room for another stream.
    pub fn run(&self, options: &WriteOptions) -> Result<RunWriter, Error> {
        self.run_within(None, options)
    }

    /// Like [`Spill::run`], with the memory of an account that was opened before.
    ///
    /// # Errors
    /// Returns the errors of [`Spill::run`]; not [`Error::Budget`] if an account is given.
    pub fn run_within(
        &self,
        account: Option<&Arc<Account>>,
        options: &WriteOptions,
    ) -> Result<RunWriter, Error> {
        let options = WriteOptions { from: 0, expected: None, ..*options };
        let destination = Destination::Spill(Place::new(&self.space));
        let stream = WriteStream::at(&self.io, account, &self.space.file, destination, &options)?;
        Ok(RunWriter { stream, io: self.io.clone() })
    }

    /// Allocates space for `bytes` bytes, rounded up to whole units of the file, which the caller writes and reads itself
    /// ([`crate::background`]).
    ///
    /// # Errors
    /// If the file cannot become that large, or a limit does not leave that much.
    pub fn allocate(&self, bytes: usize) -> Result<Extent, Error> {
        let mut place = Place::new(&self.space);
        let length = bytes.next_multiple_of(place.alignment());
        place.next(length).map_err(|(offset, source)| {
            let path = self.file().path().to_owned();
            Error::Write { path, offset, length, source }
        })?;
        Ok(Extent { place })
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &Arc<IoFile> {
        &self.space.file
    }

    /// Returns whether `bytes` more bytes can be written, as far as is known: they are allocated, or the file system
    /// has that much free space, if necessary after all released space was returned to it.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.space.has_room(bytes)
    }

    /// Like [`Spill::has_room`], but does not ask the limit of the spill: for bytes for which no other spill has room. A
    /// write that exceeds the limit fails.
    #[must_use]
    pub fn has_space(&self, bytes: u64) -> bool {
        self.space.has_space(bytes)
    }

    /// Returns the counters of its runs.
    #[must_use]
    pub fn stats(&self) -> SpillStats {
        self.space.stats()
    }
}

/// Space in the file of a spill. It is returned when it is dropped; no transfer may then be in flight.
#[derive(Debug)]
pub struct Extent {
    place: Place,
}

impl Extent {
    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &Arc<IoFile> {
        &self.place.space.file
    }

    /// Its range of the file: whole units of the file's alignment.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.place.extents.first().cloned().unwrap_or_default()
    }
}

/// A run that is being written. Dropping it abandons the run and returns its space.
pub struct RunWriter {
    stream: WriteStream,
    io: Io,
}

impl RunWriter {
    /// Returns an empty buffer to fill, as [`WriteStream::buffer`].
    ///
    /// # Errors
    /// Returns the errors of [`WriteStream::buffer`].
    pub fn buffer(&mut self) -> Result<Buffer, Error> {
        self.stream.buffer()
    }

    /// Appends the bytes of a buffer, as [`WriteStream::submit`].
    ///
    /// # Errors
    /// Returns the errors of [`WriteStream::submit`].
    pub fn submit(&mut self, buffer: Buffer) -> Result<(), Error> {
        self.stream.submit(buffer)
    }

    /// Returns the number of bytes accepted so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stream.len()
    }

    /// Returns whether no byte was accepted so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    /// Returns the counters of its writes so far.
    #[must_use]
    pub fn stats(&self) -> IoStats {
        self.stream.stats()
    }

    /// Waits for the writes in flight.
    ///
    /// # Errors
    /// The error of a failed write.
    pub fn wait_for_writes(&mut self) -> Result<(), Error> {
        self.stream.wait_for_all()
    }

    /// Submits the rest without waiting for it, so that the last writes of several runs overlap. No further bytes may
    /// be appended.
    ///
    /// # Errors
    /// The error of a failed write.
    pub fn submit_rest(&mut self) -> Result<(), Error> {
        self.stream.submit_rest()
    }

    /// Writes the rest and waits for all writes.
    ///
    /// # Errors
    /// The error of any failed write.
    pub fn finish(self) -> Result<Run, Error> {
        let (written, destination) = self.stream.finish_into()?;
        let Destination::Spill(place) = destination else { unreachable!("a run is written to a spill") };
        Ok(Run { place, io: self.io, length: written.bytes, write_stats: written.stats })
    }
}

impl io::Write for RunWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A finished run. Its space is released on drop.
#[derive(Debug)]
pub struct Run {
    place: Place,
    io: Io,
    length: u64,
    write_stats: IoStats,
}

impl Run {
    /// Returns its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the counters of the stream that wrote it.
    #[must_use]
    pub fn write_stats(&self) -> IoStats {
        self.write_stats
    }

    /// Returns the offsets in the spill's file ([`Spill::file`]) of the bytes of a range of the run, in order, for
    /// readers that take parts of several runs. They are valid until the run is dropped.
    ///
    /// # Panics
    /// If the range is not within the run.
    pub fn locate(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "{range:?} of a run of {}",
            self.length
        );
        let mut before = 0;
        self.place.extents.iter().filter_map(move |extent| {
            let begin = before;
            before += extent.end - extent.start;
            let (from, to) = (range.start.max(begin), range.end.min(before));
            (from < to).then(|| extent.start + (from - begin)..extent.start + (to - begin))
        })
    }

    /// Reads the run without releasing its space.
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget has no room for another stream.
    pub fn read(&self, options: &SharedOptions) -> Result<ReadStream, Error> {
        self.read_within(None, options)
    }

    /// Like [`Run::read`], with the memory of an account that was opened before.
    ///
    /// # Errors
    /// Returns the errors of [`Run::read`]; not [`Error::Budget`] if an account is given.
    pub fn read_within(
        &self,
        account: Option<&Arc<Account>>,
        options: &SharedOptions,
    ) -> Result<ReadStream, Error> {
        let mut left = self.length;
        let extents = self.place.extents.iter().map(|extent| {
            let end = extent.end.min(extent.start + left);
            left -= end - extent.start;
            extent.start..end
        });
        ReadStream::extents(&self.io, account, &self.place.space.file, extents.collect(), options)
    }

    /// Reads the run in order, and releases the space behind the reader.
    ///
    /// # Errors
    /// Returns the errors of [`Run::read`].
    pub fn drain(self, options: &SharedOptions) -> Result<RunReader, Error> {
        self.drain_within(None, options)
    }

    /// Like [`Run::drain`], with the memory of an account that was opened before.
    ///
    /// # Errors
    /// Returns the errors of [`Run::read`]; not [`Error::Budget`] if an account is given.
    pub fn drain_within(
        self,
        account: Option<&Arc<Account>>,
        options: &SharedOptions,
    ) -> Result<RunReader, Error> {
        let stream = self.read_within(account, &SharedOptions { order: Order::File, ..*options })?;
        let rest = self.place.extents.iter().cloned().collect();
        let unit = self.place.alignment() as u64;
        let step = (self.length / HOLES_PER_RUN).clamp(unit, HOLE_MAX_BYTES);
        Ok(RunReader { stream, run: self, rest, step })
    }
}

/// The blocks of a run that is drained. Dropping it also releases the space of unread blocks.
pub struct RunReader {
    stream: ReadStream,
    run: Run,
    /// Ranges that have not been released, in order.
    rest: VecDeque<Range<u64>>,
    /// Bytes that are released together.
    step: u64,
}

impl RunReader {
    /// Submits the first reads without waiting for them.
    ///
    /// # Errors
    /// If the engine cannot be driven.
    pub fn start(&mut self) -> Result<(), Error> {
        self.stream.start()
    }

    /// Returns the counters of its reads so far.
    #[must_use]
    pub fn stats(&self) -> IoStats {
        self.stream.stats()
    }

    /// Releases the space before `end`, whose bytes are in memory.
    fn release_before(&mut self, end: u64) {
        let unit = self.run.place.alignment() as u64;
        while let Some(extent) = self.rest.front_mut() {
            let is_within = extent.contains(&end);
            let hole = extent.start..if is_within { end / unit * unit } else { extent.end };
            if hole.end - hole.start < self.step && is_within {
                return;
            }
            self.run.place.space.release(&hole);
            extent.start = hole.end;
            if is_within {
                return;
            }
            self.rest.pop_front();
            // The reader is at the end of this extent. The next one does not contain `end` either, but is unread.
            if end == hole.end {
                return;
            }
        }
    }
}

impl Iterator for RunReader {
    type Item = Result<Block, Error>;

    fn next(&mut self) -> Option<Result<Block, Error>> {
        let next = self.stream.next();
        match &next {
            Some(Ok(block)) => self.release_before(block.offset() + block.len() as u64),
            Some(Err(_)) => {}
            None => self.rest.drain(..).for_each(|rest| self.run.place.space.release(&rest)),
        }
        next
    }
}

impl Drop for RunReader {
    fn drop(&mut self) {
        // The rest is released with the run.
        self.run.place.extents = std::mem::take(&mut self.rest).into();
    }
}
