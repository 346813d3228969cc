//! State shared by the tasks of a blocked read, and the processing of a block.

use std::any::Any;
use std::io::Read;
use std::ops::{Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_io::{Access, EngineKind, EngineSpec};

use super::builder::BlockedRead;
use super::error::Error;
use super::fetch::Fetch;
use super::gather::{Gather, Sink};
use super::records::{Cut, Joined, Joiner, TooLong};
use super::report::Report;
use super::semaphore::{Permit, Semaphore};
use super::stream::{Bytes, SmallBufs};
use super::tuner::Transfer;
use crate::executor::Failure;

/// A file up to this size is read in one call by the thread that processes it: handing it over would take longer.
pub(super) const SMALL_FILE_MAX: usize = 256 << 10;
/// Maximum number of files that are processed or whose results wait for their turn; as many are opened ahead.
const FILES_MAX: u64 = 64;
/// Descriptors left to the rest of the process.
const DESCRIPTORS_RESERVED: u64 = 16;
/// Descriptors that a file may need: while it is opened ahead, mapped and read.
const DESCRIPTORS_PER_FILE: u64 = 4;

/// Offset of a failure that concerns no block: beyond every block that was handed over.
const BEHIND_ALL: u64 = u64::MAX - 1;

/// State shared by the tasks.
pub(super) struct Work<'g, T> {
    pub(super) read: &'g BlockedRead,
    map: &'g (dyn Fn(usize, &[u8]) -> T + Sync),
    cut: Option<Cut>,
    pub(super) in_order: bool,
    sink: Sink<'g, T>,
    /// Permits for blocks, and for files.
    pub(super) blocks: Semaphore,
    pub(super) files: Semaphore,
    pub(super) kept: SmallBufs,
    /// The error that stopped the whole read, if any.
    stopped: Mutex<Option<Error>>,
}

impl<'g, T: Send> Work<'g, T> {
    pub(super) fn new(
        read: &'g BlockedRead,
        map: &'g (dyn Fn(usize, &[u8]) -> T + Sync),
        end: Option<u8>,
        in_order: bool,
        sink: Sink<'g, T>,
    ) -> Work<'g, T> {
        let (blocks, files) = (Semaphore::new(read.blocks_ahead()), Semaphore::new(files_max()));
        let (cut, kept, stopped) = (end.map(Cut), SmallBufs::default(), Mutex::default());
        Work { read, map, cut, in_order, sink, blocks, files, kept, stopped }
    }

    /// Stops the whole read.
    pub(super) fn stop(&self, error: Error) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.blocks.close();
        self.files.close();
    }

    pub(super) fn into_stopped(self) -> Result<(), Error> {
        self.stopped.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Waits for permits for this many bytes and their results; `None` if the read was stopped.
    pub(super) fn room_for(&self, bytes: u64) -> Option<Permit> {
        let most = self.blocks.most() as u64;
        let count = (bytes * most).div_ceil(self.read.bytes_ahead());
        self.blocks.permits(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Returns the engine for files that are not resident.
    pub(super) fn method(&self) -> EngineSpec {
        let usual = if self.read.access == Access::Direct { EngineKind::Pread } else { EngineKind::Read };
        self.read.method.unwrap_or(EngineSpec::usual(usual))
    }

    /// Returns whether engine and access have their defaults.
    pub(super) fn is_usual(&self) -> bool {
        self.read.method.is_none() && self.read.access == Access::Buffered
    }

    /// Returns whether whole files are wanted, so that a small one can be read at once.
    pub(super) fn takes_small(&self) -> bool {
        self.is_usual() && self.read.range == (0..u64::MAX)
    }

    pub(super) fn file<'w>(&'w self, index: usize, path: &'w Path, permit: Permit) -> FileGuard<'w, 'g, T> {
        let start = self.read.range.start;
        let most = self.read.record_max.unwrap_or(self.read.bytes_ahead());
        FileGuard(Some(Arc::new(FileJob {
            work: self,
            index,
            path,
            gather: self.sink.file(index),
            joiner: Mutex::new(Joiner::new(most, start)),
            begun: Instant::now(),
            permit,
            failed_at: AtomicU64::new(u64::MAX),
            failure: Mutex::default(),
            bytes: AtomicU64::new(0),
            mapped_bytes: AtomicU64::new(0),
            computing_ns: AtomicU64::new(0),
            plan: Mutex::default(),
        })))
    }

    /// Reads a small input on this thread.
    pub(super) fn alone(self, path: &Path, from: &mut dyn Read) -> Result<(), Error> {
        let permit = self.files.permit().expect("the first");
        self.file(0, path, permit).read_small(from, None);
        self.into_stopped()
    }
}

/// A file that is being read.
pub(super) struct FileJob<'w, 'g, T> {
    pub(super) work: &'w Work<'g, T>,
    index: usize,
    pub(super) path: &'w Path,
    gather: Gather<'w, 'g, T>,
    joiner: Mutex<Joiner>,
    begun: Instant,
    permit: Permit,
    /// Offset of the first failure in bytes, as in `failure`; `u64::MAX` if nothing has failed.
    failed_at: AtomicU64,
    failure: Mutex<Option<(u64, Error)>>,
    bytes: AtomicU64,
    mapped_bytes: AtomicU64,
    computing_ns: AtomicU64,
    /// Resident bytes, and the engine that read the others.
    plan: Mutex<(u64, Option<EngineSpec>)>,
}

/// A reference to a file's job: when the last one is dropped, the file ends.
pub(super) struct FileGuard<'w, 'g, T: Send>(Option<Arc<FileJob<'w, 'g, T>>>);

impl<T: Send> Clone for FileGuard<'_, '_, T> {
    fn clone(&self) -> Self {
        FileGuard(self.0.clone())
    }
}

impl<'w, 'g, T: Send> Deref for FileGuard<'w, 'g, T> {
    type Target = FileJob<'w, 'g, T>;

    fn deref(&self) -> &FileJob<'w, 'g, T> {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl<T: Send> Drop for FileGuard<'_, '_, T> {
    fn drop(&mut self) {
        if let Some(file) = self.0.take().and_then(Arc::into_inner) {
            file.end();
        }
    }
}

impl<T: Send> FileJob<'_, '_, T> {
    fn joiner(&self) -> MutexGuard<'_, Joiner> {
        self.joiner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the residency found before the file is read.
    pub(super) fn note_plan(&self, resident_bytes: u64, method: Option<EngineSpec>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = (resident_bytes, method);
    }

    /// Stops reading this file after the blocks already handed over.
    pub(super) fn fail(&self, error: Error) {
        self.fail_at(BEHIND_ALL, error);
    }

    /// Stops reading this file at an offset. Among several failures, the one with the lowest offset is reported, so
    /// that the outcome does not depend on which thread was first.
    fn fail_at(&self, offset: u64, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|&(first, _)| offset < first) {
            *failure = Some((offset, error));
            self.failed_at.store(offset, Ordering::Relaxed);
        }
    }

    pub(super) fn fail_if(&self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            self.fail(error);
        }
    }

    /// Returns whether no further block of it is to be handed over.
    pub(super) fn is_over(&self) -> bool {
        self.failed_at.load(Ordering::Relaxed) != u64::MAX || self.is_enough()
    }

    fn is_enough(&self) -> bool {
        self.gather.is_enough() || self.work.blocks.is_closed()
    }

    /// Returns whether the block at an offset, which was handed over, is still to be processed. Results in order
    /// include all that precede a failure; otherwise a failure leaves no result.
    fn wants(&self, offset: u64) -> bool {
        let failed_at = self.failed_at.load(Ordering::Relaxed);
        !self.is_enough() && (failed_at == u64::MAX || self.work.in_order && offset < failed_at)
    }

    /// Runs a step: an error ends only this file, at `offset`; a panic ends all of them.
    fn try_to(&self, offset: u64, what: impl FnOnce() -> Result<(), Error>) {
        match catch_unwind(AssertUnwindSafe(what)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail_at(offset, error),
            Err(panic) => self.work.stop(panicked(&*panic)),
        }
    }

    /// Delivers the result of a place, if there is one.
    fn put(&self, place: Range<u64>, result: Option<T>, permit: Option<Permit>) {
        if let Err(error) = self.gather.put(place, result, permit) {
            self.work.stop(error);
        }
    }

    /// Reads a file from its beginning to its end, `SMALL_FILE_MAX` bytes at a time, and processes it on this thread.
    /// Some files, as those in /proc, contain more than their size.
    pub(super) fn read_small(&self, from: &mut (impl Read + ?Sized), mut permit: Option<Permit>) {
        let mut offset = 0;
        while !self.is_over() {
            let (small, outcome) = self.work.kept.read(from, SMALL_FILE_MAX);
            let length = small.len();
            if length > 0 {
                self.piece(offset, Bytes::Small(small), permit.take());
            }
            if let Err(source) = outcome {
                return self.fail(Error::Stream { path: self.path.to_owned(), source });
            }
            if length < SMALL_FILE_MAX {
                return;
            }
            offset += length as u64;
        }
    }

    /// Fetches a piece and processes it.
    pub(super) fn fetched(&self, piece: Range<u64>, fetch: &Fetch, permit: Option<Permit>) {
        let mut rest = piece;
        while !rest.is_empty() && self.wants(rest.start) {
            let (transfer, part) = fetch.next(&rest);
            rest.start = part.end;
            let (offset, length, begun) = (part.start, part.end - part.start, Instant::now());
            match self.fetched_so(transfer, part, fetch, permit.as_ref()) {
                Ok(transfer) => fetch.took(transfer, length, begun.elapsed()),
                Err(error) => self.fail_at(offset, error.into()),
            }
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
        if transfer == Transfer::Mmap
            && let Some(block) = fetch.map(part.clone())?
        {
            self.piece(block.offset(), Bytes::Block(block), permit.cloned());
            return Ok(Transfer::Mmap);
        }
        for piece in fetch.pieces(part).take_while(|piece| self.wants(piece.start)) {
            let block = fetch.copy(piece)?;
            self.piece(block.offset(), Bytes::Block(block), permit.cloned());
        }
        Ok(Transfer::Copy)
    }

    /// Processes a non-empty block and the records that it completes.
    pub(super) fn piece(&self, offset: u64, bytes: Bytes, permit: Option<Permit>) {
        if self.wants(offset) {
            self.try_to(offset, || self.work_on(offset, bytes, permit));
        }
    }

    fn work_on(&self, offset: u64, bytes: Bytes, permit: Option<Permit>) -> Result<(), Error> {
        let (start, end) = (offset, offset + bytes.len() as u64);
        self.bytes.fetch_add(end - start, Ordering::Relaxed);
        if bytes.are_mapped() {
            self.mapped_bytes.fetch_add(end - start, Ordering::Relaxed);
        }
        // Each boundary has two places: that of the record that crosses it, and that of the records after it.
        let (place, result, joined) = match self.work.cut.map(|cut| cut.split(&bytes)) {
            None => (2 * start..2 * end, Some(self.mapped(&bytes)), Vec::new()),
            Some(None) => (2 * start..2 * end, None, self.joined_by(start..end, &bytes, None)?),
            Some(Some((head, body, tail))) => {
                let joined = self.joined_by(start..end, head, Some(tail))?;
                let result = (!body.is_empty()).then(|| self.mapped(body));
                (2 * start + 1..2 * end, result, joined)
            }
        };
        bytes.intact()?;
        // The buffer is released before the permit.
        drop(bytes);
        self.put(place, result, permit);
        joined.into_iter().for_each(|joined| self.put_joined(joined));
        Ok(())
    }

    fn joined_by(&self, block: Range<u64>, head: &[u8], tail: Option<&[u8]>) -> Result<Vec<Joined>, Error> {
        let joined = self.joiner().add(block, head, tail);
        joined.map_err(|TooLong(most)| Error::LongRecord { path: self.path.to_owned(), most })
    }

    /// Processes a joined record.
    fn put_joined(&self, (at, record): Joined) {
        let result = (!record.is_empty()).then(|| self.mapped(&record));
        self.put(2 * at..2 * at + 1, result, None);
    }

    fn mapped(&self, bytes: &[u8]) -> T {
        let begun = Instant::now();
        let result = (self.work.map)(self.index, bytes);
        self.computing_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }

    /// Ends the file after its last block.
    fn end(self) {
        if self.work.blocks.is_closed() {
            return;
        }
        if self.work.cut.is_some() && !self.is_over() {
            // The record at the end of the file.
            self.try_to(BEHIND_ALL, || {
                let last = self.joiner().finish();
                last.into_iter().for_each(|joined| self.put_joined(joined));
                Ok(())
            });
        }
        let FileJob { work, gather, begun, permit, failure, bytes, mapped_bytes, computing_ns, plan, .. } =
            self;
        let (resident_bytes, method) = plan.into_inner().unwrap_or_else(PoisonError::into_inner);
        let report = Report {
            bytes: bytes.into_inner(),
            resident_bytes,
            mapped_bytes: mapped_bytes.into_inner(),
            method,
            elapsed: begun.elapsed(),
            computing: Duration::from_nanos(computing_ns.into_inner()),
            io_is_urgent: None,
        };
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        let end = failure.map_or(Ok(report), |(_, error)| Err(error));
        match catch_unwind(AssertUnwindSafe(|| gather.end(end, permit))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => work.stop(error),
            Err(panic) => work.stop(panicked(&*panic)),
        }
    }
}

/// Returns the number of files for which there are descriptors.
fn files_max() -> usize {
    let room = sakiyomi_io::open_files_max().saturating_sub(DESCRIPTORS_RESERVED);
    (room / DESCRIPTORS_PER_FILE).clamp(1, FILES_MAX) as usize
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    Error::Task(Failure::of_panic("block", panic))
}
