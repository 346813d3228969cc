//! Delivery of results to the caller: reduced when neighbors are complete, or handed over one after the other; files
//! always in their order.
//!
//! The place of a result is a range of numbers; those of a whole file have no gaps.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::{SmallVec, smallvec};

use super::error::Error;
use super::report::{Event, Report, Wanted};
use super::semaphore::Permit;

/// Joins the results of neighbors.
pub(super) type PutTogether<'g, T> = &'g (dyn Fn(T, T) -> T + Sync);
pub(super) type Take<'g, T> = Box<dyn FnMut(usize, Event<T>) -> Result<Wanted, Error> + Send + 'g>;

/// The results of a place: one if they are reduced, else one for each block.
pub(super) type Results<T> = SmallVec<[T; 1]>;

/// Receives the results of all files.
pub(super) struct Sink<'g, T> {
    /// The reducing function, if the results of a file become one.
    put_together: Option<PutTogether<'g, T>>,
    /// The first place of each file.
    first: u64,
    turns: Mutex<Turns<'g, T>>,
}

/// Hands over results in the files' order, each as soon as all before it have been handed over.
struct Turns<'g, T> {
    now: usize,
    files: BTreeMap<usize, Waiting<T>>,
    take: Take<'g, T>,
    /// Whether nothing more is handed over: the caller wants nothing more, or has failed.
    broken: bool,
    /// Permit of the file whose end was refused: if it were released, the next file would be allowed to begin.
    last: Option<Permit>,
}

struct Waiting<T> {
    next: u64,
    /// First place whose results are not wanted any more.
    until: u64,
    results: BTreeMap<u64, (u64, Results<T>, Option<Permit>)>,
    end: Option<(Result<Report, Error>, Permit)>,
    enough: Arc<AtomicBool>,
}

impl<'g, T> Sink<'g, T> {
    /// Makes a sink for files that are read from offset `start`.
    pub(super) fn new(
        put_together: Option<PutTogether<'g, T>>,
        start: u64,
        take: Take<'g, T>,
    ) -> Sink<'g, T> {
        let turns = Turns { now: 0, files: BTreeMap::new(), take, broken: false, last: None };
        Sink { put_together, first: 2 * start, turns: Mutex::new(turns) }
    }

    /// Adds the next file; all are added in their order.
    pub(super) fn file(&self, index: usize) -> Gather<'_, 'g, T> {
        let enough = Arc::new(AtomicBool::new(false));
        let waiting = Waiting {
            next: self.first,
            until: u64::MAX,
            results: BTreeMap::new(),
            end: None,
            enough: Arc::clone(&enough),
        };
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).files.insert(index, waiting);
        Gather { sink: self, index, runs: self.put_together.map(Runs::new), enough }
    }

    fn hand_over(&self, index: usize, note: impl FnOnce(&mut Waiting<T>)) -> Result<(), Error> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        note(turns.files.get_mut(&index).expect("a file that has not ended"));
        turns.hand_over()
    }
}

impl<T> Turns<'_, T> {
    fn hand_over(&mut self) -> Result<(), Error> {
        while let Some(file) = self.files.get_mut(&self.now).filter(|_| !self.broken) {
            // Stays set if `take` fails or panics, so that it is not called again.
            self.broken = true;
            while let Some((end, results, _permit)) = file.results.remove(&file.next) {
                file.next = end;
                for result in results {
                    if file.enough.load(Ordering::Relaxed) {
                        break;
                    }
                    let wanted = (self.take)(self.now, Event::Result(result));
                    // Set before the permit is released, because otherwise more of the file would be awaited.
                    file.enough.store(!matches!(wanted, Ok(Wanted::More)), Ordering::Relaxed);
                    if wanted? == Wanted::Nothing {
                        return Ok(());
                    }
                }
            }
            let Some((end, permit)) = file.end.take() else {
                self.broken = false;
                return Ok(());
            };
            self.files.remove(&self.now);
            match (self.take)(self.now, Event::End(end)) {
                Ok(Wanted::More | Wanted::NextFile) => {}
                refused => {
                    self.last = Some(permit);
                    return refused.map(drop);
                }
            }
            self.now += 1;
            self.broken = false;
        }
        Ok(())
    }
}

/// Receives the results of a file.
pub(super) struct Gather<'s, 'g, T> {
    sink: &'s Sink<'g, T>,
    index: usize,
    runs: Option<Runs<'g, T>>,
    enough: Arc<AtomicBool>,
}

impl<T> Gather<'_, '_, T> {
    /// Returns whether the caller wants no more results of this file.
    pub(super) fn is_enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Adds the result of the next block to those of the blocks before it.
    pub(super) fn push(&self, results: &mut Results<T>, result: T) {
        let before = if self.runs.is_some() { results.pop() } else { None };
        results.push(match (&self.runs, before) {
            (Some(runs), Some(before)) => (runs.put_together)(before, result),
            _ => result,
        });
    }

    /// Accepts the results of a place. The permit is released when they have been delivered.
    ///
    /// # Errors
    /// Returns the errors of the caller's function.
    pub(super) fn put(
        &self,
        place: Range<u64>,
        mut results: Results<T>,
        permit: Option<Permit>,
    ) -> Result<(), Error> {
        match &self.runs {
            Some(runs) => {
                drop(permit);
                runs.put(place, results.pop());
                Ok(())
            }
            None => self.sink.hand_over(self.index, |file| {
                if place.start < file.until {
                    file.results.insert(place.start, (place.end, results, permit));
                }
            }),
        }
    }

    /// Drops the results of this place and of all after it, those that have come and those to come: a place before them
    /// will never have any. Their permits are released, for which the thread that reads may wait.
    pub(super) fn give_up_from(&self, place: u64) {
        let mut turns = self.sink.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = turns.files.get_mut(&self.index) else { return };
        file.until = file.until.min(place);
        let unwanted = file.results.split_off(&place);
        drop(turns);
        drop(unwanted);
    }

    /// Ends the file: it gets no more results.
    ///
    /// # Errors
    /// Returns the errors of the caller's function.
    pub(super) fn end(self, end: Result<Report, Error>, permit: Permit) -> Result<(), Error> {
        let Gather { sink, index, runs, .. } = self;
        let whole = runs.filter(|_| end.is_ok()).and_then(Runs::into_result);
        sink.hand_over(index, |file| {
            if let Some(result) = whole {
                file.results.insert(file.next, (u64::MAX, smallvec![result], None));
            }
            file.end = Some((end, permit));
        })
    }
}

/// Reduces the results of neighbors.
struct Runs<'g, T> {
    put_together: PutTogether<'g, T>,
    /// By the first place of a run: its end and its result.
    runs: Mutex<BTreeMap<u64, (u64, Option<T>)>>,
}

impl<'g, T> Runs<'g, T> {
    fn new(put_together: PutTogether<'g, T>) -> Runs<'g, T> {
        Runs { put_together, runs: Mutex::new(BTreeMap::new()) }
    }

    fn join(&self, first: Option<T>, next: Option<T>) -> Option<T> {
        match (first, next) {
            (Some(first), Some(next)) => Some((self.put_together)(first, next)),
            (first, next) => first.or(next),
        }
    }

    fn put(&self, place: Range<u64>, mut result: Option<T>) {
        let Range { mut start, mut end } = place;
        loop {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            let before = runs.range(..start).next_back().filter(|(_, run)| run.0 == start).map(|(&at, _)| at);
            if let Some(before) = before {
                let (_, first) = runs.remove(&before).expect("just seen");
                // The lock is released because the function may take long.
                drop(runs);
                start = before;
                result = self.join(first, result);
            } else if let Some((further, next)) = runs.remove(&end) {
                drop(runs);
                end = further;
                result = self.join(result, next);
            } else {
                runs.insert(start, (end, result));
                return;
            }
        }
    }

    /// Returns the result of the whole file.
    ///
    /// # Panics
    /// If a place in the middle has no result.
    fn into_result(self) -> Option<T> {
        let mut runs = self.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let whole = runs.pop_first();
        assert!(runs.is_empty(), "a place without a result");
        whole.and_then(|(_, (_, result))| result)
    }
}
