//! The pieces of a file as a compute thread gets them: read at once, decoded, mapped or copied.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use sakiyomi_os::cpu;

use super::decode::{BEGINNING_BYTES, Unit};
use super::error::Error;
use super::fetch::Fetch;
use super::file_job::{FileGuard, FileJob};
use super::quotations::Piece;
use super::report::Report;
use super::semaphore::Permit;
use super::stream::Bytes;
use super::tuner::Transfer;
use super::work::{SMALL_FILE_MAX, Work};

impl<'g, T: Send> Work<'g, T> {
    pub(super) fn file<'w>(&'w self, index: usize, path: &'w Path, permit: Permit) -> FileGuard<'w, 'g, T> {
        FileGuard::new(FileJob::new(self, index, path, self.sink.file(index), permit))
    }

    /// Reads a small input on this thread.
    pub(super) fn alone(self, path: &Path, from: impl Read + Send) -> Result<Report, Error> {
        let permit = self.files.permit().expect("the first");
        self.file(0, path, permit).read_small(from, None);
        self.into_report()
    }
}

impl<T: Send> FileJob<'_, '_, T> {
    /// Reads a file from its beginning to its end, `SMALL_FILE_MAX` bytes at a time, and processes it on this thread.
    /// Some files, as those in /proc, contain more than their size.
    pub(super) fn read_small(&self, mut from: impl Read + Send, permit: Option<Permit>) {
        let outcome = match self.work.read.decoder {
            None => self.work.check_whole().and_then(|()| self.read_pieces(&mut from, permit)),
            Some(_) => self.read_decoded(from, permit),
        };
        self.fail_if(outcome.map_err(|source| self.unreadable(source)));
    }

    fn read_decoded(&self, mut from: impl Read + Send, permit: Option<Permit>) -> io::Result<()> {
        let mut beginning = Vec::new();
        from.by_ref().take(BEGINNING_BYTES as u64).read_to_end(&mut beginning)?;
        let format = self.work.format(&beginning);
        let mut from = io::Cursor::new(beginning).chain(from);
        let Some(format) = format else {
            self.work.check_whole()?;
            return self.read_pieces(&mut from, permit);
        };
        let Range { start, end } = self.work.read.range;
        let mut content = format.reader(Box::new(from))?;
        io::copy(&mut content.by_ref().take(start), &mut io::sink())?;
        self.read_pieces(&mut content.take(end.saturating_sub(start)), permit)
    }

    fn read_pieces(&self, from: &mut dyn Read, mut permit: Option<Permit>) -> io::Result<()> {
        let mut offset = self.work.read.range.start;
        while !self.is_over() {
            let (small, outcome) = self.work.kept.read(from, SMALL_FILE_MAX);
            let length = small.len();
            let is_last = length < SMALL_FILE_MAX;
            if outcome.is_ok() && is_last {
                self.note_end(offset + length as u64);
            }
            if length > 0 {
                self.piece(Piece { offset, bytes: Bytes::Small(small), permit: permit.take() });
            }
            outcome?;
            if is_last {
                break;
            }
            offset += length as u64;
        }
        Ok(())
    }

    /// Decodes a part of a unit, whose first byte belongs at an offset, and processes it.
    pub(super) fn unit(&self, offset: u64, unit: Unit, part: Range<u64>, permit: Permit) {
        if !self.wants(offset) {
            return self.drop_unwanted();
        }
        match unit.decoded(part) {
            Ok(bytes) => self.piece(Piece { offset, bytes: Bytes::Own(bytes), permit: Some(permit) }),
            Err(source) => self.fail_at(offset, self.unreadable(source)),
        }
    }

    /// Fetches a piece and processes it.
    pub(super) fn fetched(&self, piece: Range<u64>, fetch: &Fetch, permit: Option<Permit>) {
        let mut rest = piece;
        while !rest.is_empty() && self.wants(rest.start) {
            let (transfer, part) = fetch.next(&rest);
            rest.start = part.end;
            // CPU time, because other programs may take the core meanwhile; cached bytes are not waited for.
            let (offset, length, before) = (part.start, part.end - part.start, cpu::of_this_thread());
            match self.fetched_so(transfer, part, fetch, permit.as_ref()) {
                Ok(transfer) => {
                    fetch.took(transfer, length, cpu::of_this_thread().saturating_sub(before));
                }
                Err(error) => self.fail_at(offset, error.into()),
            }
        }
        if !rest.is_empty() {
            self.drop_unwanted();
        }
    }

    /// Fetches and processes a part; returns the transfer that succeeded.
    fn fetched_so(
        &self,
        transfer: Transfer,
        part: Range<u64>,
        fetch: &Fetch,
        permit: Option<&Permit>,
    ) -> Result<Transfer, sakiyomi_io::Error> {
        let piece = |bytes, offset| Piece { offset, bytes, permit: permit.cloned() };
        if transfer == Transfer::Mmap
            && let Some(block) = fetch.map(part.clone())?
        {
            self.piece(piece(Bytes::Block(block), part.start));
            return Ok(Transfer::Mmap);
        }
        for part in fetch.pieces(part).take_while(|part| self.wants(part.start)) {
            let (offset, block) = (part.start, fetch.copy(part)?);
            // A piece that waits must not keep the buffer of its thread.
            let waits = self.work.shape.depends_on_all();
            let bytes = if waits { Bytes::Own(block.to_vec()) } else { Bytes::Block(block) };
            self.piece(piece(bytes, offset));
        }
        Ok(Transfer::Copy)
    }
}
