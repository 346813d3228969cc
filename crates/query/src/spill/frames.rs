//! Spilled runs of bytes, read in the order in which they were written.
//!
//! A run is a sequence of frames: a header with the level, the lengths and a checksum, and the stored bytes. It needs no
//! index and no padding. A run lies in one spill file; when its file system becomes full, it continues in another.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use arrow_buffer::Buffer;
use sakiyomi_io::read::FileRange;
use sakiyomi_io::{
    Block, IoStats, Order, ReadStream, Run, RunReader, RunWriter, SharedOptions, Spill, WriteOptions,
};

use super::codec::checksum;
use super::files::{SpillFiles, damaged, spill_error, with_room};
use super::level::Level;
use super::regulator::{Handover, Stored};
use crate::phase::{Phase, nanos};
use crate::{Error, Job};

/// Maximum bytes of a frame before compression.
pub(crate) const FRAME_BYTES: usize = 256 << 10;

/// Bytes of a header: checksum, level and raw length, stored length.
const HEADER_BYTES: usize = 12;

/// Bits of the raw length in a header; the level is above them.
const LENGTH_BITS: u32 = 24;

/// Writer of a run.
pub(crate) struct FrameWriter {
    job: Job,
    files: Vec<Spill>,
    /// The file in use.
    file: usize,
    writer: RunWriter,
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

/// Reader of a run.
pub(crate) struct FrameReader {
    job: Job,
    files: Vec<Spill>,
    /// File of the blocks that are being read.
    file: usize,
    blocks: Option<Blocks>,
    parts: VecDeque<(usize, Run)>,
    options: SharedOptions,
    /// Bytes of a frame that ends in a later block.
    begun: Vec<u8>,
    block: Option<(Block, usize)>,
    count: u32,
    raw_bytes: u64,
    phase: &'static str,
}

enum Blocks {
    Read(ReadStream),
    Drain(RunReader),
}

/// Header of a frame.
struct Header {
    checksum: u32,
    level: Level,
    raw: usize,
    stored: usize,
}

impl Header {
    fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.checksum.to_le_bytes());
        let level_and_raw = (self.level as u32) << LENGTH_BITS | self.raw as u32;
        bytes[4..8].copy_from_slice(&level_and_raw.to_le_bytes());
        bytes[8..].copy_from_slice(&(self.stored as u32).to_le_bytes());
        bytes
    }

    /// Parses a header; `None` if no frame has it.
    fn parse(bytes: &[u8]) -> Option<Header> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let level_and_raw = word(4)?;
        let level = *Level::ALL.get((level_and_raw >> LENGTH_BITS) as usize)?;
        let raw = (level_and_raw & ((1 << LENGTH_BITS) - 1)) as usize;
        let header = Header { checksum: word(0)?, level, raw, stored: word(8)? as usize };
        Some(header)
            .filter(|header| header.raw <= FRAME_BYTES && header.stored <= header.raw && header.raw > 0)
    }

    /// Returns the checksum of a frame, which also covers its number and lengths.
    fn checksum(&self, number: u32, stored: &[u8]) -> u32 {
        let place = u64::from(number) << 32 ^ (self.raw as u64) << 8 ^ self.level as u64;
        checksum(stored) ^ checksum(&place.to_le_bytes())
    }
}

impl SpillFiles {
    /// Begins a run in the next file with room.
    ///
    /// # Errors
    /// If no file can be created, all are full, or the budget has no room for another stream.
    pub(crate) fn run(&self, options: &WriteOptions) -> Result<FrameWriter, Error> {
        let files = self.files()?;
        let file = with_room(&files, self.next_turn(), options.block as u64)?;
        let writer = files[file].run(options)?;
        let (job, options) = (self.job().clone(), *options);
        Ok(FrameWriter { job, files, file, writer, options, parts: Vec::new(), count: 0, raw_bytes: 0 })
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
        let regulator = job.regulator();
        let handover = regulator.begin();
        let compressed = match handover.level {
            Level::None => None,
            level => regulator.scratch.try_with(&job, raw.len(), |scratch| {
                let stored = scratch.compress(level, raw)?;
                stored.map(|stored| self.append(&handover, level, raw.len(), stored)).transpose()
            }),
        };
        let stored = match compressed.transpose()?.flatten() {
            Some(stored) => stored,
            None => self.append(&handover, Level::None, raw.len(), raw)?,
        };
        self.raw_bytes += stored.raw_bytes;
        regulator.end(&handover, stored);
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
        let waited = self.writer.stats().waiting;
        let written = self.writer.write_all(&header.bytes()).and_then(|()| self.writer.write_all(stored));
        written.map_err(|error| self.failed(error))?;
        let waited = self.writer.stats().waiting - waited;
        let stored_bytes = (HEADER_BYTES + stored.len()) as u64;
        Ok(Stored { level, raw_bytes: raw as u64, stored_bytes, compress, waited })
    }

    /// Continues in another file if this one has no room.
    fn find_room(&mut self, bytes: u64) -> Result<(), Error> {
        // Buffered bytes and writes in flight have not taken their space yet.
        let pending = (self.options.block * (self.options.in_flight + 1)) as u64;
        let file = match with_room(&self.files, self.file, bytes + pending) {
            // The last frame may fit.
            Err(_) => with_room(&self.files, self.file, bytes)?,
            found => found?,
        };
        if file != self.file {
            let next = self.files[file].run(&self.options)?;
            let part = std::mem::replace(&mut self.writer, next);
            let part = part.finish().map_err(|error| spill_error(&self.files, error))?;
            self.parts.push((std::mem::replace(&mut self.file, file), part));
        }
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

    /// Finishes the run, and adds its figures to a phase.
    ///
    /// # Errors
    /// If the remaining bytes cannot be written.
    pub(crate) fn finish(mut self, phase: &str) -> Result<FrameRun, Error> {
        let part = self.writer.finish().map_err(|error| spill_error(&self.files, error))?;
        self.parts.push((self.file, part));
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
    /// Reads the run without freeing its space; adds the figures to a phase.
    ///
    /// # Errors
    /// If the budget has no room for another stream.
    pub(crate) fn read(&self, options: &SharedOptions, phase: &'static str) -> Result<FrameReader, Error> {
        let mut reader = FrameReader::new(&self.job, &self.files, options, phase);
        reader.file = self.parts[0].0;
        let stream = match &self.parts[..] {
            [(_, run)] => run.read(options)?,
            parts => {
                let ranges: Vec<FileRange> =
                    parts.iter().flat_map(|part| self.blocks(part, options.block)).collect();
                let options = SharedOptions { gap: 0, order: Order::File, ..*options };
                ReadStream::ranges(self.job.io(), ranges, &options)?
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

    /// Reads the run and frees its space; adds the figures to a phase.
    ///
    /// # Errors
    /// If the budget has no room for another stream.
    pub(crate) fn drain(self, options: &SharedOptions, phase: &'static str) -> Result<FrameReader, Error> {
        let mut reader = FrameReader::new(&self.job, &self.files, options, phase);
        reader.parts = self.parts.into();
        reader.next_part()?;
        Ok(reader)
    }
}

impl Blocks {
    fn next(&mut self) -> Option<Result<Block, sakiyomi_io::Error>> {
        match self {
            Blocks::Read(stream) => stream.next(),
            Blocks::Drain(stream) => stream.next(),
        }
    }

    fn stats(&self) -> IoStats {
        match self {
            Blocks::Read(stream) => stream.stats(),
            Blocks::Drain(stream) => stream.stats(),
        }
    }
}

impl FrameReader {
    fn new(job: &Job, files: &[Spill], options: &SharedOptions, phase: &'static str) -> FrameReader {
        FrameReader {
            job: job.clone(),
            files: files.to_vec(),
            file: 0,
            blocks: None,
            parts: VecDeque::new(),
            options: *options,
            begun: Vec::new(),
            block: None,
            count: 0,
            raw_bytes: 0,
            phase,
        }
    }

    /// Opens the next part, if any.
    fn next_part(&mut self) -> Result<bool, Error> {
        self.end_part();
        let Some((file, run)) = self.parts.pop_front() else { return Ok(false) };
        self.blocks = Some(Blocks::Drain(run.drain(&self.options)?));
        self.file = file;
        Ok(true)
    }

    /// Adds the figures of the part that was read to the phase.
    fn end_part(&mut self) {
        let Some(blocks) = self.blocks.take() else { return };
        let stats = blocks.stats();
        let bytes = std::mem::take(&mut self.raw_bytes);
        let (stored_bytes, waited_ns) = (stats.bytes, nanos(stats.waiting));
        let name = self.phase.to_owned();
        self.job.phases().add(Phase { name, bytes, stored_bytes, waited_ns, ..Phase::default() });
    }

    /// Returns the bytes of the next frame; `None` at the end.
    ///
    /// # Errors
    /// If they cannot be read, or are not what was written.
    pub(crate) fn next(&mut self) -> Result<Option<Buffer>, Error> {
        loop {
            if self.block.is_none() && !self.next_block()? {
                return if self.begun.is_empty() { Ok(None) } else { Err(self.damage(0)) };
            }
            if let Some(frame) = self.frame()? {
                return Ok(Some(frame));
            }
        }
    }

    /// Reads the next block; returns false at the end.
    fn next_block(&mut self) -> Result<bool, Error> {
        loop {
            match self.blocks.as_mut().and_then(Blocks::next) {
                Some(block) => {
                    self.block = Some((block?, 0));
                    return Ok(true);
                }
                None if !self.next_part()? => return Ok(false),
                None => {}
            }
        }
    }

    /// Returns the next frame if it ends in this block; otherwise keeps its beginning.
    fn frame(&mut self) -> Result<Option<Buffer>, Error> {
        let Some((block, mut at)) = self.block.take() else { return Ok(None) };
        if self.begun.is_empty() {
            // Usually the frame lies in the block, and is not copied.
            let rest = &block[at..];
            if let Some(length) = frame_length(rest).map_err(|()| self.damage(block.offset()))?
                && let Some(frame) = rest.get(..length)
            {
                let frame = self.restore(frame, block.offset())?;
                self.keep(block, at + length);
                return Ok(Some(frame));
            }
        }
        loop {
            let needed = frame_length(&self.begun).map_err(|()| self.damage(block.offset()))?;
            let needed = needed.unwrap_or(HEADER_BYTES);
            if needed > HEADER_BYTES && self.begun.len() == needed {
                let begun = std::mem::take(&mut self.begun);
                let frame = self.restore(&begun, block.offset())?;
                self.keep(block, at);
                return Ok(Some(frame));
            }
            let taken = (needed - self.begun.len()).min(block.len() - at);
            if taken == 0 {
                return Ok(None);
            }
            self.begun.extend_from_slice(&block[at..at + taken]);
            at += taken;
        }
    }

    /// Keeps a block of which bytes are left.
    fn keep(&mut self, block: Block, at: usize) {
        self.block = Some((block, at)).filter(|(block, at)| *at < block.len());
    }

    /// Verifies a frame and restores its bytes. They are copied: a batch that referenced the block would keep its buffer
    /// reserved.
    fn restore(&mut self, frame: &[u8], offset: u64) -> Result<Buffer, Error> {
        let (head, stored) = frame.split_at(HEADER_BYTES);
        let header =
            Header::parse(head).filter(|header| header.checksum == header.checksum(self.count, stored));
        let Some(header) = header else { return Err(self.damage(offset)) };
        self.count += 1;
        self.raw_bytes += header.raw as u64;
        if header.level == Level::None {
            return Ok(Buffer::from(stored));
        }
        let mut raw = vec![0; header.raw];
        let job = self.job.clone();
        match job.regulator().scratch.with(|scratch| scratch.restore(header.level, stored, &mut raw))? {
            true => Ok(Buffer::from_vec(raw)),
            false => Err(self.damage(offset)),
        }
    }

    fn damage(&self, offset: u64) -> Error {
        damaged(self.files[self.file].file().path(), offset)
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        self.end_part();
    }
}

/// Returns the length of the frame at the start of `bytes`; `None` without a whole header.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let Some(head) = bytes.get(..HEADER_BYTES) else { return Ok(None) };
    Header::parse(head).map(|header| Some(HEADER_BYTES + header.stored)).ok_or(())
}
