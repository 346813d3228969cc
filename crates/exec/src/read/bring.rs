//! How the I/O thread brings what is not in memory: into the page cache, from where those who compute have it as all else;
//! or into buffers, where it was told how to read, or the page cache does not keep what is brought.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use sakiyomi_io::page_cache::{Bringer, residency};
use sakiyomi_io::{BufferPool, EngineKind, EngineSpec, Memory, ReadOptions, ReadStream};

use super::ahead::{Ahead, Device};
use super::error::Error;
use super::feed::Feeder;
use super::fetch::Fetch;
use super::plan::{piece_max, tapered};
use super::stream::{Bytes, Stream, fill_buffer};
use super::work::Hold;
use crate::manager::Tasks;

/// What is brought into the page cache before it is handed over, in bytes: the least, so that work begins soon and ends
/// together, and the most, which is mapped at once where the file system has pages as large.
const BROUGHT: Range<u64> = 256 << 10..2 << 20;

impl<'w, 'g, T: Send> Feeder<'w, 'g, T> {
    /// Brings parts of a file, and makes tasks of them.
    pub(super) fn bring(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        fetch: &Arc<Fetch>,
        parts: Vec<Range<u64>>,
    ) -> Result<(), Error> {
        if parts.is_empty() {
            return Ok(());
        }
        let from = fetch.single.file().file();
        let metadata = from.metadata().ok().filter(|_| self.work.is_usual());
        let device = metadata.map(|metadata| self.devices.of(from, &metadata));
        let bringer = device.and_then(|device| Some((Bringer::new().ok()?, device)));
        let mut is_kept = true;
        for part in parts {
            let mut rest = part;
            if let Some((bringer, device)) = bringer.as_ref().filter(|_| is_kept) {
                rest = self.bring_into_cache(tasks, file, fetch, (bringer, *device), rest);
                is_kept = rest.is_empty();
            }
            if file.is_over() {
                return Ok(());
            }
            if !rest.is_empty() {
                self.bring_into_buffers(tasks, file, from, device, rest)?;
            }
        }
        Ok(())
    }

    /// Brings a part of a file into the page cache piece by piece; gives the rest, if it does not stay there or cannot be
    /// brought. Who reads that into buffers is told why not.
    fn bring_into_cache(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        fetch: &Arc<Fetch>,
        (bringer, device): (&Bringer, Device),
        part: Range<u64>,
    ) -> Range<u64> {
        let from = fetch.single.file().file();
        let mut ahead = Ahead::new(from, device, part.clone());
        let most = piece_max(u64::MAX, self.work.read.bytes_ahead(), self.work.read.threads);
        for piece in tapered(part.clone(), BROUGHT.start.min(most)..BROUGHT.end.min(most)) {
            if device.needs_help(self.work.window.is_low()) {
                ahead.keep(piece.start);
            }
            let is_there = bringer.bring(from, piece.clone()).is_ok()
                && residency(from, piece.clone()).is_ok_and(|residency| residency.is_whole());
            if !is_there || !self.hand_over(tasks, file, piece.clone(), fetch) {
                return piece.start..part.end;
            }
        }
        part.end..part.end
    }

    /// Reads a part of a file, and makes a task of each block.
    fn bring_into_buffers(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        from: &File,
        device: Option<Device>,
        part: Range<u64>,
    ) -> Result<(), Error> {
        let read = self.work.read;
        let mut ahead = device.map(|device| Ahead::new(from, device, part.clone()));
        ahead.iter_mut().for_each(|ahead| ahead.keep(part.start));
        let blocks = (part.end - part.start).div_ceil(read.block as u64);
        let options = ReadOptions {
            engine: self.work.method(),
            access: read.access,
            block: read.block,
            hold: (read.window() + 1).min(usize::try_from(blocks).unwrap_or(usize::MAX).saturating_add(1)),
            range: Some(part),
            ..ReadOptions::default()
        };
        let mut blocks = ReadStream::open(file.path, &options)?;
        while let Some(permit) = self.work.window.permit().filter(|_| !file.is_over()) {
            let Some(block) = blocks.next() else { break };
            let block = block?;
            ahead.iter_mut().for_each(|ahead| ahead.keep(block.offset()));
            let file = file.clone();
            let work =
                move |_: &Tasks<'w>| file.piece(block.offset(), Bytes::Block(block.send()), Some(permit));
            tasks.task("block").spawn(work).forget();
        }
        Ok(())
    }

    /// Reads an input without offsets, and makes a task of each block. Before it waits for a writer, it has all earlier
    /// blocks processed: they may be enough, and the writer may wait for the result.
    pub(super) fn take_in(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        from: &mut Stream<'_>,
    ) -> Result<(), Error> {
        file.note_plan(0, Some(EngineSpec::usual(EngineKind::Read)));
        let read = self.work.read;
        let pool = BufferPool::fixed(read.window() + 1, read.block, Memory::Huge)?;
        let mut offset = 0;
        while let Some(permit) = self.work.window.permit().filter(|_| !file.is_over()) {
            if from.would_wait() && (!self.work.window.wait_for_others() || file.is_over()) {
                break;
            }
            let mut buffer = pool.take().expect("no more are lent than permitted");
            let outcome = fill_buffer(from, &mut buffer);
            let length = buffer.len() as u64;
            if length > 0 {
                let file = file.clone();
                let work = move |_: &Tasks<'w>| file.piece(offset, Bytes::Buffer(buffer), Some(permit));
                tasks.task("block").spawn(work).forget();
                offset += length;
            }
            outcome.map_err(|source| Error::Stream { path: file.path.to_owned(), source })?;
            if length == 0 {
                break;
            }
        }
        Ok(())
    }
}
