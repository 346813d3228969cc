//! Reads a spilled run frame by frame, verifying checksums and decompressing. `frames.rs` defines runs and frames.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_buffer::Buffer;
use sakiyomi_io::buffer::Account;
use sakiyomi_io::{Block, IoStats, ReadStream, Run, RunReader, SharedOptions, Spill};

use super::header::{HEADER_BYTES, Header, frame_length};
use crate::phase::{Phase, nanos};
use crate::spill::files::damaged;
use crate::spill::level::Level;
use crate::{Error, Job};

/// Reads the frames of a run in the order in which they were written. A run may have parts in several files.
pub(crate) struct FrameReader {
    job: Job,
    files: Vec<Spill>,
    /// File of the blocks that are being read.
    pub(super) file: usize,
    pub(super) blocks: Option<Blocks>,
    pub(super) parts: VecDeque<(usize, Run)>,
    /// Memory of all parts, unless each has its own.
    account: Option<Arc<Account>>,
    options: SharedOptions,
    /// Bytes of a frame that continues in a later block.
    begun: Vec<u8>,
    /// The block being read, and the offset of its next frame.
    block: Option<(Block, usize)>,
    /// Offset in the file of the end of the last block that was read.
    read_to: u64,
    /// Sequence number of the next frame.
    count: u32,
    raw_bytes: u64,
    phase: &'static str,
}

/// The blocks of a part.
pub(super) enum Blocks {
    /// The file is kept.
    Read(ReadStream),
    /// The space of each block is freed after it was read.
    Drain(RunReader),
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
    pub(super) fn new(
        job: &Job,
        files: &[Spill],
        account: Option<&Arc<Account>>,
        options: &SharedOptions,
        phase: &'static str,
    ) -> FrameReader {
        FrameReader {
            job: job.clone(),
            files: files.to_vec(),
            file: 0,
            blocks: None,
            parts: VecDeque::new(),
            account: account.cloned(),
            options: *options,
            begun: Vec::new(),
            block: None,
            read_to: 0,
            count: 0,
            raw_bytes: 0,
            phase,
        }
    }

    /// Opens the next part, if any.
    pub(super) fn next_part(&mut self) -> Result<bool, Error> {
        self.end_part();
        let Some((file, run)) = self.parts.pop_front() else { return Ok(false) };
        self.blocks = Some(Blocks::Drain(run.drain_within(self.account.as_ref(), &self.options)?));
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

    /// Submits the first reads without waiting for any of them, so that several runs are read in parallel.
    ///
    /// # Errors
    /// If the engine cannot be driven.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        match &mut self.blocks {
            Some(Blocks::Read(stream)) => Ok(stream.start()?),
            Some(Blocks::Drain(stream)) => Ok(stream.start()?),
            None => Ok(()),
        }
    }

    /// Returns the bytes of the next frame; `None` at the end.
    ///
    /// # Errors
    /// If they cannot be read, or are not what was written.
    pub(crate) fn next(&mut self) -> Result<Option<Buffer>, Error> {
        loop {
            if self.block.is_none() && !self.next_block()? {
                return if self.begun.is_empty() { Ok(None) } else { Err(self.damage(self.read_to)) };
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
                    let block = block?;
                    self.read_to = block.offset() + block.len() as u64;
                    self.block = Some((block, 0));
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
        match job.levels().scratch.with(|scratch| scratch.restore(header.level, stored, &mut raw))? {
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
