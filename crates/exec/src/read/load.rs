//! Loading of cold parts by the I/O thread: into the page cache, from which the compute threads fetch them like
//! resident parts; or into buffers, if an engine was chosen or the page cache does not keep the pages.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sakiyomi_io::buffer::class_size;
use sakiyomi_io::file::IoFile;
use sakiyomi_io::page_cache::{PageLoader, residency};
use sakiyomi_io::read::SharedOptions;
use sakiyomi_io::shared::{Io, IoOptions};
use sakiyomi_io::{BufferPool, EngineKind, EngineSpec, Memory, ReadOptions, ReadStream};

use super::ahead::{Ahead, Device};
use super::decode::{BEGINNING_BYTES, Units};
use super::error::Error;
use super::fetch::Fetch;
use super::file_job::FileGuard;
use super::plan::piece_max;
use super::quotations::Piece;
use super::schedule::Scheduler;
use super::stream::{Bytes, Stream, fill_buffer};
use crate::executor::Tasks;

/// Bytes loaded into the page cache before they are dispatched. The minimum makes processing start soon and all threads
/// end together; the maximum is mapped as one page where the file system has pages of that size.
const LOADED_BYTES: Range<u64> = 256 << 10..2 << 20;
/// Largest alignment of direct transfers that devices require, in bytes.
const ALIGNMENT_MAX: usize = 64 << 10;

impl<'w, 'g, T: Send> Scheduler<'w, 'g, T> {
    /// Loads parts of a file and dispatches them.
    pub(super) fn load(
        &mut self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        fetch: &Arc<Fetch>,
        parts: Vec<Range<u64>>,
    ) -> Result<(), Error> {
        if parts.is_empty() {
            return Ok(());
        }
        let from = Arc::clone(fetch.single.file());
        let metadata = from.file().metadata().ok().filter(|_| self.work.is_usual());
        let device = metadata.map(|metadata| self.devices.of(from.file(), &metadata));
        let mut loader = device.and_then(|device| Some((PageLoader::new().ok()?, device)));
        let mut is_kept = true;
        for part in parts {
            let mut rest = part;
            if let Some((loader, device)) = loader.as_mut().filter(|_| is_kept) {
                rest = self.load_into_cache(tasks, file, fetch, (loader, device), rest);
                is_kept = rest.is_empty();
            }
            if file.is_over() {
                return Ok(());
            }
            if !rest.is_empty() {
                self.load_into_buffers(tasks, file, &from, device, rest)?;
            }
        }
        Ok(())
    }

    /// Loads a part of a file into the page cache piece by piece. Returns the rest if pages do not stay there or cannot
    /// be loaded; reading the rest into buffers then reports the error.
    fn load_into_cache(
        &mut self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        fetch: &Arc<Fetch>,
        (loader, device): (&PageLoader, &mut Device),
        part: Range<u64>,
    ) -> Range<u64> {
        let from = fetch.single.file().file();
        let mut ahead = Ahead::new(from, *device, part.clone());
        let most = piece_max(u64::MAX, self.work.read.bytes_ahead(), self.work.read.threads);
        let sizes = self.work.sizes(LOADED_BYTES.start.min(most)..LOADED_BYTES.end.min(most));
        for piece in self.work.shape.grid.tapered(part.clone(), sizes) {
            let is_helped = device.needs_help(self.work.blocks.is_low());
            if is_helped {
                ahead.keep(piece.start);
            }
            let begun = Instant::now();
            let is_there = loader.load(from, piece.clone()).is_ok()
                && residency(from, piece.clone()).is_ok_and(|residency| residency.is_whole());
            if !is_helped {
                device.loaded_without_help(piece.end - piece.start, begun.elapsed());
                self.devices.keep(*device);
            }
            if !is_there || !self.dispatch_piece(tasks, file, piece.clone(), fetch) {
                return piece.start..part.end;
            }
        }
        part.end..part.end
    }

    /// Reads a part of a file into buffers, and dispatches each block.
    fn load_into_buffers(
        &mut self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        from: &Arc<IoFile>,
        device: Option<Device>,
        part: Range<u64>,
    ) -> Result<(), Error> {
        let mut ahead = device.map(|device| Ahead::new(from.file(), device, part.clone()));
        ahead.iter_mut().for_each(|ahead| ahead.keep(part.start));
        let mut blocks = self.open_stream(file.path, from, part)?;
        while let Some(permit) = self.work.blocks.permit().filter(|_| !file.is_over()) {
            let Some(block) = blocks.next() else { break };
            let block = block?;
            ahead.iter_mut().for_each(|ahead| ahead.keep(block.offset()));
            let (file, offset, bytes) = (file.clone(), block.offset(), Bytes::Block(block.send()));
            let work = move |_: &Tasks<'w>| file.piece(Piece { offset, bytes, permit: Some(permit) });
            tasks.task("block").spawn(work).forget();
        }
        Ok(())
    }

    /// Opens a stream on a part. Many files share one engine and one budget, because setting up a ring for each would
    /// take longer than reading a small file. A single file has an engine of its own, which needs no lock and whose
    /// buffers can be registered with the kernel.
    fn open_stream(
        &mut self,
        path: &Path,
        from: &Arc<IoFile>,
        part: Range<u64>,
    ) -> Result<ReadStream, sakiyomi_io::Error> {
        let (read, engine) = (self.work.read, self.work.method());
        let block = read.io_block().next_multiple_of(from.alignment().offset);
        if self.files.are_many {
            let options = SharedOptions { block, ahead: engine.ahead(block), ..SharedOptions::default() };
            return ReadStream::shared(self.shared_io(engine)?, from, part, &options);
        }
        let blocks = (part.end - part.start).div_ceil(block as u64);
        let options = ReadOptions {
            engine,
            access: read.access,
            block,
            hold: (read.blocks_ahead() + 1)
                .min(usize::try_from(blocks).unwrap_or(usize::MAX).saturating_add(1)),
            range: Some(part),
            ..ReadOptions::default()
        };
        ReadStream::open(path, &options)
    }

    /// Returns the engine of all files, opened on first use. It has memory for the blocks that are read ahead and for
    /// those that have a permit.
    fn shared_io(&mut self, engine: EngineSpec) -> Result<&Io, sakiyomi_io::Error> {
        let read = self.work.read;
        if self.io.is_none() {
            // A direct transfer is widened to the alignment at both ends.
            let block = class_size(read.io_block().saturating_add(2 * ALIGNMENT_MAX));
            let blocks = engine.ahead(read.io_block()) + read.blocks_ahead() + 1;
            let options = IoOptions { engine, budget: block.saturating_mul(blocks), memory: Memory::Huge };
            self.io = Some(Io::open(&options)?);
        }
        Ok(self.io.as_ref().expect("just opened"))
    }

    /// Reads an input without offsets, decoded if it is compressed.
    pub(super) fn load_stream(
        &self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        mut from: Stream<'w>,
    ) -> Result<(), Error> {
        if self.work.read.decoder.is_some() {
            let beginning = from.beginning(BEGINNING_BYTES).map_err(|source| file.unreadable(source))?;
            if let Some(format) = self.work.format(beginning) {
                return self.load_units(tasks, file, format.units(Box::new(from)), 0);
            }
        }
        self.work.check_whole().map_err(|source| file.unreadable(source))?;
        self.load_blocks(tasks, file, &mut from)
    }

    /// Makes a task of each unit of a compressed input, whose content begins at the offset `at`. Units before the range
    /// are not decoded, if they are decoded by tasks.
    pub(super) fn load_units(
        &self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        units: io::Result<Units<'_>>,
        mut at: u64,
    ) -> Result<(), Error> {
        file.note_plan(0, Some(EngineSpec::usual(EngineKind::Read)));
        let wanted = &self.work.read.range;
        for unit in units.map_err(|source| file.unreadable(source))? {
            let unit = unit.map_err(|source| file.unreadable(source))?;
            let content = at..at.saturating_add(unit.length);
            at = content.end;
            let part = content.start.max(wanted.start)..content.end.min(wanted.end);
            if !part.is_empty() {
                let length = part.end - part.start;
                let Some(permit) = self.work.room_for(length).filter(|_| !file.is_over()) else { break };
                let (file, offset) = (file.clone(), part.start);
                let part = part.start - content.start..part.end - content.start;
                tasks.task("block").spawn(move |_| file.unit(offset, unit, part, permit)).forget();
            }
            if at >= wanted.end {
                break;
            }
        }
        Ok(())
    }

    /// Reads an input without offsets, and makes a task of each block. Before it waits for the writer, it waits until
    /// all earlier blocks are processed: they may be enough, and the writer may wait for the result.
    fn load_blocks(
        &self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        from: &mut Stream<'_>,
    ) -> Result<(), Error> {
        file.note_plan(0, Some(EngineSpec::usual(EngineKind::Read)));
        let read = self.work.read;
        let pool = BufferPool::fixed(read.blocks_ahead() + 1, read.io_block(), Memory::Huge)?;
        let mut offset = 0;
        while let Some(permit) = self.work.blocks.permit().filter(|_| !file.is_over()) {
            if from.would_wait() && (!self.work.blocks.wait_for_others() || file.is_over()) {
                break;
            }
            let mut buffer = pool.take().expect("no more are lent than permitted");
            let outcome = fill_buffer(from, &mut buffer);
            let length = buffer.len() as u64;
            if length > 0 {
                let file = file.clone();
                let piece = Piece { offset, bytes: Bytes::Buffer(buffer), permit: Some(permit) };
                let work = move |_: &Tasks<'w>| file.piece(piece);
                tasks.task("block").spawn(work).forget();
                offset += length;
            }
            outcome.map_err(|source| file.unreadable(source))?;
            if length == 0 {
                break;
            }
        }
        Ok(())
    }
}
