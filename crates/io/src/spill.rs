//! Data that does not fit into memory: written once, read back, and gone, in one file that never has a name.
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
//! A spill has any number of runs, each a sequence of bytes. All of them lie in one file, so that thousands of runs need
//! one descriptor, and their order on the disk is that in which they were written. Several may be written at the same
//! time; a run can be read as soon as it is finished, whatever is still written.
//!
//! The space of a run that is drained is returned to the file system behind its reader, by punching holes
//! (`FALLOC_FL_PUNCH_HOLE`), so that a merge needs little more space than its input. File systems without holes keep the
//! space until the spill is dropped. Holes are punched in steps: ext4 stops the file's direct transfers for each.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::retry_on_intr;

use crate::buffer::Buffer;
use crate::file::create_unnamed;
use crate::file::{Access, IoFile};
use crate::read::{Block, Order, ReadStream, SharedOptions};
use crate::shared::Io;
use crate::write::allocation::Allocation;
use crate::write::{Destination, WriteOptions, WriteStream};
use crate::{Error, IoStats};

/// Unit of a run's place in the file, in bytes: the usual block of a file system, as only whole blocks become holes.
const UNIT_BYTES: usize = 4096;

/// Bytes behind a reader that become one hole.
const HOLE_MAX_BYTES: u64 = 1 << 20;
/// Holes that a shorter run is released in, so that its space is free again early.
const HOLES_PER_RUN: u64 = 8;

/// A file of runs. Clones are handles of the same.
#[derive(Clone, Debug)]
pub struct Spill {
    io: Io,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: Arc<IoFile>,
    space: Mutex<Space>,
}

#[derive(Debug)]
struct Space {
    /// Where the next bytes go.
    end: u64,
    live: u64,
    peak: u64,
    /// Whether the file system makes holes, as far as is known.
    has_holes: bool,
    allocation: Allocation,
}

/// Bytes of a spill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillStats {
    /// Bytes written so far, those that pad the ends of runs included.
    pub written_bytes: u64,
    /// Bytes that occupy space now. What is allocated ahead of the writers is not counted.
    pub live_bytes: u64,
    /// The most bytes that occupied space at the same time.
    pub peak_bytes: u64,
}

impl Spill {
    /// Creates a file without a name in a directory, for direct I/O where its file system offers it.
    ///
    /// # Errors
    /// If no file can be created there.
    pub fn create(io: &Io, directory: &Path) -> Result<Spill, Error> {
        match Spill::create_for(io, directory, Access::Direct) {
            Err(Error::NoDirect { .. }) => Spill::create_for(io, directory, Access::Buffered),
            other => other,
        }
    }

    /// Creates a file without a name in a directory.
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

    /// Over any file, such as one in memory ([`crate::fake`]); runs begin at its beginning.
    #[must_use]
    pub fn over(io: &Io, file: Arc<IoFile>) -> Spill {
        let space = Space { end: 0, live: 0, peak: 0, has_holes: true, allocation: Allocation::none() };
        Spill { io: io.clone(), shared: Arc::new(Shared { file, space: Mutex::new(space) }) }
    }

    /// Begins a run. Of the options, those of the place and of the expected size are not used.
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget has no room for another stream.
    pub fn run(&self, options: &WriteOptions) -> Result<RunWriter, Error> {
        let options = WriteOptions { from: 0, expected: None, ..*options };
        let place = Place { shared: Arc::clone(&self.shared), extents: Vec::new() };
        let stream = WriteStream::at(&self.io, &self.shared.file, Destination::Spill(place), &options)?;
        Ok(RunWriter { stream, io: self.io.clone() })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Arc<IoFile> {
        &self.shared.file
    }

    /// Bytes of its runs.
    #[must_use]
    pub fn stats(&self) -> SpillStats {
        let space = self.shared.space();
        SpillStats { written_bytes: space.end, live_bytes: space.live, peak_bytes: space.peak }
    }
}

impl Shared {
    fn space(&self) -> MutexGuard<'_, Space> {
        // Its numbers are consistent whatever its holder was doing when it panicked.
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the space of a range to the file system.
    fn punch(&self, range: &Range<u64>) {
        if range.is_empty() || !self.space().has_holes {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let length = range.end - range.start;
        let punched = retry_on_intr(|| fallocate(self.file.file(), flags, range.start, length));
        let mut space = self.space();
        match punched {
            Ok(()) => space.live -= length,
            // It occupies space until the spill is dropped, which is no reason to fail.
            Err(_) => space.has_holes = false,
        }
    }
}

/// The place of a run in a spill.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    /// In the order of the run's bytes.
    extents: Vec<Range<u64>>,
}

impl Place {
    pub(crate) fn alignment(&self) -> usize {
        self.shared.file.alignment().offset.max(UNIT_BYTES)
    }

    /// The offset of the next `length` bytes. An error comes with the offset that they would have had.
    pub(crate) fn next(&mut self, length: usize) -> Result<u64, (u64, io::Error)> {
        let mut space = self.shared.space();
        let (offset, end) = (space.end, space.end + length as u64);
        space.allocation.check_limit(end).map_err(|error| (offset, error))?;
        space.end = end;
        space.live += length as u64;
        space.peak = space.peak.max(space.live);
        if self.shared.file.alignment().offset > 1 {
            space.allocation.ahead_of(&self.shared.file, end);
        }
        drop(space);
        match self.extents.last_mut() {
            Some(last) if last.end == offset => last.end = end,
            _ => self.extents.push(offset..end),
        }
        Ok(offset)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.extents.iter().for_each(|extent| self.shared.punch(extent));
    }
}

/// A run that is being written. One that is dropped is given up, and its space returned.
pub struct RunWriter {
    stream: WriteStream,
    io: Io,
}

impl RunWriter {
    /// An empty buffer to fill: [`WriteStream::buffer`].
    ///
    /// # Errors
    /// As there.
    pub fn buffer(&mut self) -> Result<Buffer, Error> {
        self.stream.buffer()
    }

    /// Appends the bytes of a buffer: [`WriteStream::submit`].
    ///
    /// # Errors
    /// As there.
    pub fn submit(&mut self, buffer: Buffer) -> Result<(), Error> {
        self.stream.submit(buffer)
    }

    /// Bytes accepted so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stream.len()
    }

    /// Whether no byte was accepted so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    /// Writes the rest and waits for all.
    ///
    /// # Errors
    /// That of any write that has failed.
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

/// A run that is written. Its space is returned when it is dropped.
#[derive(Debug)]
pub struct Run {
    place: Place,
    io: Io,
    length: u64,
    write_stats: IoStats,
}

impl Run {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Counters of the stream that wrote it.
    #[must_use]
    pub fn write_stats(&self) -> IoStats {
        self.write_stats
    }

    /// Reads it, and leaves it as it is.
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget has no room for another stream.
    pub fn read(&self, options: &SharedOptions) -> Result<ReadStream, Error> {
        let mut left = self.length;
        let extents = self.place.extents.iter().map(|extent| {
            let end = extent.end.min(extent.start + left);
            left -= end - extent.start;
            extent.start..end
        });
        ReadStream::extents(&self.io, &self.place.shared.file, extents.collect(), options)
    }

    /// Reads it in order, and returns the space behind the reader to the file system.
    ///
    /// # Errors
    /// As [`Run::read`].
    pub fn drain(self, options: &SharedOptions) -> Result<RunReader, Error> {
        let stream = self.read(&SharedOptions { order: Order::File, ..*options })?;
        let rest = self.place.extents.iter().cloned().collect();
        let unit = self.place.alignment() as u64;
        let step = (self.length / HOLES_PER_RUN).clamp(unit, HOLE_MAX_BYTES);
        Ok(RunReader { stream, run: self, rest, step })
    }
}

/// The blocks of a run that is drained. What has not been read when it is dropped is returned as well.
pub struct RunReader {
    stream: ReadStream,
    run: Run,
    /// Places that have not become holes, in order.
    rest: VecDeque<Range<u64>>,
    /// Bytes that become a hole at once.
    step: u64,
}

impl RunReader {
    /// Counters of its reads so far.
    #[must_use]
    pub fn stats(&self) -> IoStats {
        self.stream.stats()
    }

    /// The bytes before `end` are in memory.
    fn release_before(&mut self, end: u64) {
        let unit = self.run.place.alignment() as u64;
        while let Some(extent) = self.rest.front_mut() {
            let is_within = extent.contains(&end);
            let hole = extent.start..if is_within { end / unit * unit } else { extent.end };
            if hole.end - hole.start < self.step && is_within {
                return;
            }
            self.run.place.shared.punch(&hole);
            extent.start = hole.end;
            if is_within {
                return;
            }
            self.rest.pop_front();
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
            None => self.rest.drain(..).for_each(|rest| self.run.place.shared.punch(&rest)),
        }
        next
    }
}

impl Drop for RunReader {
    fn drop(&mut self) {
        // The rest becomes holes with the run.
        self.run.place.extents = std::mem::take(&mut self.rest).into();
    }
}
