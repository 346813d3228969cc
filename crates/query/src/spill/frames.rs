//! Spilled runs of bytes, read in the order in which they were written.
//!
//! A run is a sequence of frames: a header with the level, the lengths and a checksum, and the stored bytes. It needs no
//! index and no padding. A run lies in one spill file; when its file system becomes full, it continues in another.

mod header;
mod reader;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use sakiyomi_io::buffer::Account;
use sakiyomi_io::read::FileRange;
use sakiyomi_io::{Order, ReadStream, Run, RunWriter, SharedOptions, Spill, WriteOptions};

use header::{HEADER_BYTES, Header};
use reader::Blocks;
pub(crate) use reader::FrameReader;

use super::files::{SpillFiles, spill_error, with_room};
use super::level::Level;
use super::level_chooser::{Handover, Stored};
use crate::phase::{Phase, nanos};
use crate::{Error, Job};

/// Maximum bytes of a frame before compression.
pub(crate) const FRAME_BYTES: usize = 256 << 10;

/// Writer of a run.
pub(crate) struct FrameWriter {
    job: Job,
    files: Vec<Spill>,
    /// The file in use.
    file: usize,
    /// `None` after an error.
    writer: Option<RunWriter>,
    /// Memory of all parts, unless each has its own.
    account: Option<Arc<Account>>,
    options: WriteOptions,
    /// Finished parts in other files.
    parts: Vec<(usize, Run)>,
    /// Number of frames.
    count: u32,
    raw_bytes: u64,
}

/// A finished run; its space is freed on drop.
#[derive(Debug)]
pub(crate) struct FrameRun {
    job: Job,
    files: Vec<Spill>,
    parts: Vec<(usize, Run)>,
}

impl SpillFiles {
    /// Begins a run in the next file with room.
    ///
    /// # Errors
    /// If no file can be created, all are full, or the budget has no room for another stream.
    pub(crate) fn run(&self, options: &WriteOptions) -> Result<FrameWriter, Error> {
        self.run_within(None, options)
    }

    /// Like [`SpillFiles::run`], with the memory of an account that was opened before.
    ///
    /// # Errors
    /// Returns the errors of [`SpillFiles::run`]; none of the budget with an account.
    pub(crate) fn run_within(
        &self,
        account: Option<&Arc<Account>>,
        options: &WriteOptions,
    ) -> Result<FrameWriter, Error> {
        let files = self.files()?;
        let block = options.block as u64;
        let file = with_room(&files, self.next_turn(), block, block)?;
        let writer = Some(files[file].run_within(account, options)?);
        let (job, account, options) = (self.job().clone(), account.cloned(), *options);
        let parts = Vec::new();
        Ok(FrameWriter { job, files, file, writer, account, options, parts, count: 0, raw_bytes: 0 })
    }
}

impl FrameWriter {
    /// Writes bytes as frames.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        bytes.chunks(FRAME_BYTES).try_for_each(|frame| self.frame(frame))
    }

    fn frame(&mut self, raw: &[u8]) -> Result<(), Error> {
        let job = self.job.clone();
        let levels = job.levels();
        let handover = levels.begin();
        let compressed = match handover.level {
            Level::None => None,
            level => levels.scratch.try_with(raw.len(), |scratch| {
                let stored = scratch.compress(level, raw)?;
                stored.map(|stored| self.append(&handover, level, raw.len(), stored)).transpose()
            }),
        };
        let stored = match compressed.transpose()?.flatten() {
            Some(stored) => stored,
            None => self.append(&handover, Level::None, raw.len(), raw)?,
        };
        self.raw_bytes += stored.raw_bytes;
        levels.end(&handover, stored);
        Ok(())
    }

    /// Appends a frame.
    fn append(
        &mut self,
        handover: &Handover,
        level: Level,
        raw: usize,
        stored: &[u8],
    ) -> Result<Stored, Error> {
        let compress = handover.elapsed();
        self.find_room((HEADER_BYTES + stored.len()) as u64)?;
        let mut header = Header { checksum: 0, level, raw, stored: stored.len() };
        header.checksum = header.checksum(self.count, stored);
        self.count += 1;
        let writer = self.writer.as_mut().ok_or(Error::Cancelled)?;
        let waited = writer.stats().waiting;
        let written = writer.write_all(&header.bytes()).and_then(|()| writer.write_all(stored));
        let waited = writer.stats().waiting - waited;
        written.map_err(|error| self.failed(error))?;
        let stored_bytes = (HEADER_BYTES + stored.len()) as u64;
        Ok(Stored { level, raw_bytes: raw as u64, stored_bytes, compress, waited, locked: Duration::ZERO })
    }

    /// Continues in another file if this one has no room.
    fn find_room(&mut self, bytes: u64) -> Result<(), Error> {
        // Buffered bytes and writes in flight have not taken their space yet.
        let pending = (self.options.block * (self.options.in_flight + 1)) as u64;
        let file = with_room(&self.files, self.file, bytes + pending, bytes)?;
        if file != self.file {
            // Both use the same memory, so this part ends first.
            self.end_part()?;
            self.file = file;
            self.writer = Some(self.files[file].run_within(self.account.as_ref(), &self.options)?);
        }
        Ok(())
    }

    fn end_part(&mut self) -> Result<(), Error> {
        let writer = self.writer.take().ok_or(Error::Cancelled)?;
        let part = writer.finish().map_err(|error| spill_error(&self.files, error))?;
        self.parts.push((self.file, part));
        Ok(())
    }

    /// Unwraps the error of the run from [`std::io::Error`].
    fn failed(&self, error: std::io::Error) -> Error {
        let text = error.to_string();
        match error.into_inner().map(|inner| inner.downcast::<sakiyomi_io::Error>()) {
            Some(Ok(inner)) => spill_error(&self.files, *inner),
            _ => Error::Query(format!("data cannot be spilled: {text}")),
        }
    }

    /// Submits the rest without waiting for it, so that the last writes of several runs overlap. The run must not get more
    /// bytes.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let writer = self.writer.as_mut().ok_or(Error::Cancelled)?;
        writer.submit_rest().map_err(|error| spill_error(&self.files, error))
    }

    /// Finishes the run, and adds its figures to a phase.
    ///
    /// # Errors
    /// If the remaining bytes cannot be written.
    pub(crate) fn finish(mut self, phase: &str) -> Result<FrameRun, Error> {
        self.end_part()?;
        let stats = self.parts.iter().map(|(_, run)| run.write_stats());
        let (stored_bytes, waited) = stats.fold((0, Duration::ZERO), |(bytes, waited), stats| {
            (bytes + stats.bytes, waited + stats.waiting)
        });
        let (name, bytes, waited_ns) = (phase.to_owned(), self.raw_bytes, nanos(waited));
        self.job.phases().add(Phase { name, bytes, stored_bytes, waited_ns, ..Phase::default() });
        Ok(FrameRun { job: self.job, files: self.files, parts: self.parts })
    }
}

impl FrameRun {
    /// Reads the run without freeing its space, with the memory of an account that was opened before; adds the figures to a
    /// phase.
    ///
    /// # Errors
    /// If the engine cannot be used.
    pub(crate) fn read_within(
        &self,
        account: &Arc<Account>,
        options: &SharedOptions,
        phase: &'static str,
    ) -> Result<FrameReader, Error> {
        let account = Some(account);
        let mut reader = FrameReader::new(&self.job, &self.files, account, options, phase);
        reader.file = self.parts[0].0;
        let stream = match &self.parts[..] {
            [(_, run)] => run.read_within(account, options)?,
            parts => {
                let ranges: Vec<FileRange> =
                    parts.iter().flat_map(|part| self.blocks(part, options.block)).collect();
                let options = SharedOptions { gap: 0, order: Order::File, ..*options };
                ReadStream::ranges_within(self.job.io(), account, ranges, &options)?
            }
        };
        reader.blocks = Some(Blocks::Read(stream));
        Ok(reader)
    }

    /// Returns the blocks of a part of the run.
    fn blocks<'a>(&'a self, part: &'a (usize, Run), block: usize) -> impl Iterator<Item = FileRange> + 'a {
        let (file, run) = (self.files[part.0].file(), &part.1);
        run.locate(0..run.len()).flat_map(move |range| {
            let starts = range.clone().step_by(block);
            starts.map(move |start| (Arc::clone(file), start..range.end.min(start + block as u64)))
        })
    }

    /// Reads the run and frees its space, with the memory of an account that was opened before or of its own; adds the
    /// figures to a phase.
    ///
    /// # Errors
    /// If the budget has no room for another stream; not with an account.
    pub(crate) fn drain_within(
        self,
        account: Option<&Arc<Account>>,
        options: &SharedOptions,
        phase: &'static str,
    ) -> Result<FrameReader, Error> {
        let mut reader = FrameReader::new(&self.job, &self.files, account, options, phase);
        reader.parts = self.parts.into();
        reader.next_part()?;
        Ok(reader)
    }
}
