//! A file that is being read, and the processing of its pieces. [`file_input`](super::file_input) gets them.

use std::io;
use std::ops::{ControlFlow, Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_io::EngineSpec;

use super::cut::Parts;
use super::error::Error;
use super::gather::{Gather, Results};
use super::joiner::{Joined, Joiner, TooLong};
use super::quotations::{Piece, Quotations};
use super::report::Report;
use super::semaphore::Permit;
use super::stream::Bytes;
use super::work::{Work, panicked};

/// Offset of a failure that concerns no block: beyond every block that was handed over.
const BEHIND_ALL: u64 = u64::MAX - 1;

/// A file that is being read.
pub(super) struct FileJob<'w, 'g, T> {
    pub(super) work: &'w Work<'g, T>,
    index: usize,
    pub(super) path: &'w Path,
    gather: Gather<'w, 'g, T>,
    joiner: Mutex<Joiner>,
    quotations: Mutex<Quotations>,
    begun: Instant,
    permit: Permit,
    /// Offset at which reading will end, if it is known.
    end: OnceLock<u64>,
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

impl<'w, 'g, T: Send> FileGuard<'w, 'g, T> {
    pub(super) fn new(job: FileJob<'w, 'g, T>) -> FileGuard<'w, 'g, T> {
        FileGuard(Some(Arc::new(job)))
    }
}

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

impl<'w, 'g, T: Send> FileJob<'w, 'g, T> {
    pub(super) fn new(
        work: &'w Work<'g, T>,
        index: usize,
        path: &'w Path,
        gather: Gather<'w, 'g, T>,
        permit: Permit,
    ) -> FileJob<'w, 'g, T> {
        let start = work.read.range.start;
        FileJob {
            work,
            index,
            path,
            gather,
            joiner: Mutex::new(Joiner::new(work.read.record_max(), start)),
            quotations: Mutex::new(Quotations::new(start)),
            begun: Instant::now(),
            permit,
            end: OnceLock::new(),
            failed_at: AtomicU64::new(u64::MAX),
            failure: Mutex::default(),
            bytes: AtomicU64::new(0),
            mapped_bytes: AtomicU64::new(0),
            computing_ns: AtomicU64::new(0),
            plan: Mutex::default(),
        }
    }
}

impl<T: Send> FileJob<'_, '_, T> {
    fn joiner(&self) -> MutexGuard<'_, Joiner> {
        self.joiner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quotations(&self) -> MutexGuard<'_, Quotations> {
        self.quotations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the residency found before the file is read.
    pub(super) fn note_plan(&self, resident_bytes: u64, method: Option<EngineSpec>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = (resident_bytes, method);
    }

    /// Records the offset at which reading will end.
    pub(super) fn note_end(&self, offset: u64) {
        self.end.get_or_init(|| offset);
    }

    /// Stops reading this file after the blocks already handed over.
    pub(super) fn fail(&self, error: Error) {
        self.fail_at(BEHIND_ALL, error);
    }

    /// Stops reading this file at an offset. Among several failures, the one with the lowest offset is reported, so
    /// that the outcome does not depend on which thread was first.
    pub(super) fn fail_at(&self, offset: u64, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|&(first, _)| offset < first) {
            *failure = Some((offset, error));
            self.failed_at.store(offset, Ordering::Relaxed);
        }
        drop(failure);
        // The place of a record that crosses into the piece at the offset is the first one of it, and that of the others
        // the second one.
        self.gather.give_up_from(offset.saturating_mul(2).saturating_add(2));
        self.drop_unwanted();
    }

    /// Makes the error of an input that is not read at offsets.
    pub(super) fn unreadable(&self, source: io::Error) -> Error {
        Error::Stream { path: self.path.to_owned(), source }
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
        self.gather.is_enough() || self.work.is_stopped()
    }

    /// Returns whether the block at an offset, which was handed over, is still to be processed. Results in order
    /// include all that precede a failure; otherwise a failure leaves no result.
    pub(super) fn wants(&self, offset: u64) -> bool {
        let failed_at = self.failed_at.load(Ordering::Relaxed);
        !self.is_enough() && (failed_at == u64::MAX || self.work.in_order && offset < failed_at)
    }

    /// Drops pieces that wait for one before them, if they are no longer wanted.
    pub(super) fn drop_unwanted(&self) {
        if self.work.shape.depends_on_all() {
            self.quotations().retain(|offset| self.wants(offset));
        }
    }

    /// Runs a step: an error ends only this file, at `offset`; a panic ends all of them.
    fn try_to(&self, offset: u64, what: impl FnOnce() -> Result<(), Error>) {
        match catch_unwind(AssertUnwindSafe(what)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail_at(offset, error),
            Err(panic) => {
                self.work.stop(panicked(&*panic));
                self.drop_unwanted();
            }
        }
    }

    /// Delivers the results of a place.
    fn put(&self, place: Range<u64>, results: Results<T>, permit: Option<Permit>) {
        match self.gather.put(place, results, permit) {
            // The caller may want nothing more, while the I/O thread waits for permits of results that it never takes.
            Ok(()) => _ = self.work.is_stopped(),
            Err(error) => self.work.stop(error),
        }
    }

    /// Processes a non-empty piece, or keeps it until those before it are known.
    pub(super) fn piece(&self, piece: Piece) {
        let offset = piece.offset;
        if !self.wants(offset) {
            self.drop_unwanted();
        } else if !self.work.shape.depends_on_all() {
            self.try_to(offset, || self.work_on(piece, false));
        } else {
            let changes = self.work.shape.cut().is_some_and(|cut| cut.changes_quotation(&piece.bytes));
            let ready = self.quotations().add(piece, changes);
            for (is_quoted, piece) in ready {
                self.try_to(piece.offset, || self.work_on(piece, is_quoted));
            }
            // Those before it may have been given up meanwhile.
            if !self.wants(offset) {
                self.drop_unwanted();
            }
        }
    }

    fn work_on(&self, piece: Piece, is_quoted: bool) -> Result<(), Error> {
        let Piece { offset, bytes, permit } = piece;
        let (start, end) = (offset, offset + bytes.len() as u64);
        self.count(&bytes);
        let parts = self.work.shape.split(start, &bytes, self.end.get().copied(), is_quoted);
        // Each boundary has two places: that of the record that crosses it, and that of the records after it.
        let (place, (results, is_whole), joined) = match parts {
            _ if self.work.shape.cut().is_none() => {
                (2 * start..2 * end, self.mapped(start, &bytes), Vec::new())
            }
            None => {
                let joined = self.joined_by(start..end, &bytes, None)?;
                (2 * start..2 * end, (Results::new(), true), joined)
            }
            Some(Parts { head, body, tail }) => {
                let joined = self.joined_by(start..end, head, Some(tail))?;
                (2 * start + 1..2 * end, self.mapped(start + head.len() as u64, body), joined)
            }
        };
        bytes.intact()?;
        // The buffer is released before the permit.
        drop(bytes);
        self.put(up_to(place, is_whole), results, permit);
        joined.into_iter().for_each(|joined| self.put_joined(joined));
        if let Some(tracker) = &self.work.tracker {
            tracker.add(end - start);
        }
        Ok(())
    }

    fn count(&self, bytes: &Bytes) {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if bytes.are_mapped() {
            self.mapped_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    fn joined_by(&self, piece: Range<u64>, head: &[u8], tail: Option<&[u8]>) -> Result<Vec<Joined>, Error> {
        let joined = self.joiner().add(piece, head, tail);
        joined.map_err(|TooLong(most)| Error::LongRecord { path: self.path.to_owned(), most })
    }

    /// Processes a joined record.
    fn put_joined(&self, Joined { place, start, bytes }: Joined) {
        let (results, is_whole) = self.mapped(start, &bytes);
        self.put(up_to(2 * place..2 * place + 1, is_whole), results, None);
    }

    /// Maps whole records or blocks, up to the first failure; returns whether there was none.
    fn mapped(&self, start: u64, bytes: &[u8]) -> (Results<T>, bool) {
        let (begun, mut results) = (Instant::now(), Results::new());
        let mut blocks = self.work.shape.calls(self.index, start, bytes);
        let ended = blocks.try_for_each(|block| {
            let result = self.map_one(block)?;
            self.gather.push(&mut results, result);
            ControlFlow::Continue(())
        });
        self.computing_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        (results, ended.is_continue())
    }

    fn map_one(&self, block: super::Block<'_>) -> ControlFlow<(), T> {
        let offset = block.offset();
        if !self.wants(offset) {
            return ControlFlow::Break(());
        }
        match (self.work.kernel)(block) {
            Ok(result) => ControlFlow::Continue(result),
            Err(source) => {
                self.fail_at(offset, Error::Function { path: self.path.to_owned(), offset, source });
                ControlFlow::Break(())
            }
        }
    }

    /// Ends the file after its last block.
    fn end(mut self) {
        if self.work.shape.cut().is_some() && !self.is_over() {
            // The record at the end of the file.
            self.try_to(BEHIND_ALL, || {
                let last = self.joiner().finish();
                last.into_iter().for_each(|joined| self.put_joined(joined));
                Ok(())
            });
        }
        let report = self.report();
        let failure = self.failure.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if failure.is_none() {
            self.work.add(&report);
        }
        let end = failure.map_or(Ok(report), |(_, error)| Err(error));
        let FileJob { work, gather, permit, .. } = self;
        if work.is_stopped() {
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| gather.end(end, permit))) {
            // The caller may want no further file.
            Ok(Ok(())) => _ = work.is_stopped(),
            Ok(Err(error)) => work.stop(error),
            Err(panic) => work.stop(panicked(&*panic)),
        }
    }

    fn report(&mut self) -> Report {
        let (resident_bytes, method) = *self.plan.get_mut().unwrap_or_else(PoisonError::into_inner);
        Report {
            bytes: *self.bytes.get_mut(),
            resident_bytes,
            mapped_bytes: *self.mapped_bytes.get_mut(),
            method,
            elapsed: self.begun.elapsed(),
            computing: Duration::from_nanos(*self.computing_ns.get_mut()),
            io_is_urgent: None,
        }
    }
}

/// Returns a place behind which nothing is delivered, unless the results in it are whole: those of later blocks must not
/// follow the results before a failure.
fn up_to(place: Range<u64>, is_whole: bool) -> Range<u64> {
    place.start..if is_whole { place.end } else { u64::MAX }
}
