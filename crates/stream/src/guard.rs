//! Calls of operators: numbers of tuples are checked, times sampled, panics caught.
//!
//! A panic ends at the operator that caused it. The segment stays where it is, with all its states and rings, so
//! that nothing is lost but what the declared policy gives up.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use std::vec::Drain;

use crate::barrier::{Barrier, Saved};
use crate::board::Context;
use crate::counters::Counters;
use crate::error::{Error, Failure};
use crate::item::{Run, Stamp};
use crate::operator::{Emitter, OnPanic, Recover};
use crate::replicas::{BinOwner, BinState, Migration};
use crate::samples::{Samples, elapsed_ns};
use crate::shape::Place;
use crate::snapshot::{OperatorSnapshot, Progress, other};
use crate::state::SaveState;
use crate::sync::lock;
use crate::tuple::OperatorId;

/// An operator with its identity.
pub(crate) struct Named<O> {
    pub(crate) id: OperatorId,
    pub(crate) name: String,
    pub(crate) counters: Arc<Counters>,
    pub(crate) operator: O,
}

/// The place of a replica.
pub(crate) struct Seat<O> {
    pub(crate) place: Place,
    /// Its bins.
    pub(crate) bins: fn(&mut O) -> &mut dyn BinOwner,
}

/// Tuples of a run that have been counted and not processed.
pub(crate) struct Tuples<'a, T> {
    /// Number of the next.
    sequence: u64,
    left: Drain<'a, (T, u64)>,
}

impl<T> Tuples<'_, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.left.as_slice().is_empty()
    }
}

/// An operator that may panic.
pub(crate) struct Guard<O> {
    pub(crate) of: Named<O>,
    policy: OnPanic,
    snapshot: Option<O>,
    /// The place of a replica; none if the operator is not one.
    seat: Option<Seat<O>>,
    samples: Samples,
    /// Tuples that it has received, those before the snapshot included from which the stream resumed.
    tuples: u64,
    /// Length of the last state that was saved.
    state_bytes: usize,
    stopped: bool,
}

impl<O: Recover> Guard<O> {
    /// # Errors
    /// If the operator is to restart and has no snapshot.
    pub(crate) fn new(of: Named<O>) -> Result<Guard<O>, Error> {
        let policy = of.operator.on_panic();
        let snapshot = match policy {
            OnPanic::Restart { .. } => {
                Some(of.operator.snapshot().ok_or_else(|| Error::NoSnapshot(of.name.clone()))?)
            }
            OnPanic::Stop | OnPanic::Skip => None,
        };
        let samples = Samples::new(of.id.0);
        Ok(Guard { of, policy, snapshot, seat: None, samples, tuples: 0, state_bytes: 0, stopped: false })
    }

    /// Returns a replica.
    pub(crate) fn in_seat(mut self, seat: Seat<O>) -> Guard<O> {
        self.seat = Some(seat);
        self
    }

    /// Counts the tuples of a run, of whose edge `expected` is the next number. [`Guard::process`] takes them.
    pub(crate) fn receive<'a, T>(&self, run: Run<'a, T>, expected: &mut u64) -> Tuples<'a, T> {
        let Run { first, tuples } = run;
        let count = tuples.len() as u64;
        self.of.counters.tuples_in.add(count);
        self.check(first, expected);
        *expected = first + count;
        Tuples { sequence: first, left: tuples.drain(..) }
    }

    /// Calls the operator for one value and its number after the other, until none is left or `out` is to be sent first. What is in `out`
    /// then are the outputs of all calls that have succeeded.
    pub(crate) fn process<In, Out>(
        &mut self,
        tuples: &mut Tuples<'_, In>,
        out: &mut Emitter<Out>,
        cx: &Context,
        mut work: impl FnMut(&mut O, In, u64, &mut Emitter<Out>),
    ) {
        while !tuples.is_empty() && !out.is_full() {
            if self.is_snapshot_due() {
                self.copy(tuples.sequence, cx);
            }
            if self.stopped {
                self.discard(tuples);
                return;
            }
            // Up to the next copy of the state.
            let until = tuples.sequence.saturating_add(self.until_snapshot());
            let Guard { of, samples, tuples: received, .. } = self;
            let Named { operator, counters, .. } = of;
            let (first, mut start, mut staged) = (tuples.sequence, None, out.staged().len());
            // The number of the first tuple whose call is not known to `samples`.
            let mut unknown = first;
            let result = catch_unwind(AssertUnwindSafe(|| {
                while tuples.sequence < until && !tuples.is_empty() && !out.is_full() {
                    start = samples.start();
                    // A call that is timed comes alone.
                    let calls_max = samples.untimed().clamp(1, until - tuples.sequence);
                    let calls_max = usize::try_from(calls_max).unwrap_or(usize::MAX);
                    for (value, arrival_ns) in tuples.left.by_ref().take(calls_max) {
                        let sequence = tuples.sequence;
                        tuples.sequence += 1;
                        staged = out.staged().len();
                        out.set_arrival_ns(arrival_ns);
                        work(operator, value, sequence, out);
                        if out.is_full() {
                            break;
                        }
                    }
                    samples.count_all(start.take(), tuples.sequence - unknown, counters);
                    unknown = tuples.sequence;
                }
            }));
            let calls = tuples.sequence - first;
            *received += calls;
            counters.calls.add(calls);
            if let Err(panic) = result {
                samples.count_all(start, tuples.sequence - unknown, counters);
                drop_all_quietly(out.withdraw(staged));
                self.recover(Some(tuples.sequence - 1), panic, cx);
            }
        }
    }

    fn discard<T>(&mut self, tuples: &mut Tuples<'_, T>) {
        let count = tuples.left.len() as u64;
        self.tuples += count;
        self.of.counters.discarded.add(count);
        self.of.counters.calls.add(count);
        drop_all_quietly(&mut tuples.left);
    }

    /// Counts the tuple of this number, which is processed by later calls.
    pub(crate) fn receive_one(&mut self, sequence: u64, expected: &mut u64, cx: &Context) {
        self.of.counters.tuples_in.add(1);
        self.check(sequence, expected);
        if self.is_snapshot_due() {
            self.copy(sequence, cx);
        }
        self.tuples += 1;
    }

    /// Calls the operator for a tuple that was received. Whether it succeeded.
    pub(crate) fn call_for_tuple(&mut self, sequence: u64, cx: &Context, work: impl FnOnce(&mut O)) -> bool {
        let start = self.samples.start();
        let done = self.call(Some(sequence), cx, work);
        self.samples.count(start, &self.of.counters);
        self.of.counters.calls.add(1);
        done
    }

    /// Checks the number of an item, of which `expected` is the next on its edge.
    pub(crate) fn check(&self, sequence: u64, expected: &mut u64) {
        if sequence != *expected {
            self.of.counters.sequence_violations.add(1);
        }
        *expected = sequence + 1;
    }

    /// Calls the operator for a watermark or the end. Whether it succeeded.
    pub(crate) fn mark(
        &mut self,
        stamp: Stamp,
        expected: &mut u64,
        cx: &Context,
        work: impl FnOnce(&mut O),
    ) -> bool {
        self.check(stamp.sequence, expected);
        self.call_for_mark(cx, work)
    }

    /// Like [`Guard::mark`], of an operator whose inputs have checked the number.
    pub(crate) fn call_for_mark(&mut self, cx: &Context, work: impl FnOnce(&mut O)) -> bool {
        let start = Instant::now();
        let done = self.call(None, cx, work);
        self.of.counters.rare_ns.add(elapsed_ns(start));
        done
    }

    /// Calls the operator for replies to its requests, of which `work` returns the number. Looks that find none are not
    /// counted as work.
    pub(crate) fn call_for_replies(&mut self, cx: &Context, work: impl FnOnce(&mut O) -> usize) {
        let (start, mut replies) = (Instant::now(), 0);
        self.call(None, cx, |operator| replies = work(operator));
        if replies > 0 {
            self.of.counters.rare_ns.add(elapsed_ns(start));
        }
    }

    /// Returns whether the operator receives nothing more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Saves the state for a snapshot of the stream, and reports it with the progress on the edges. At a barrier that
    /// moves bins hands those over that leave this replica. Whether the replica may continue: false while
    /// [`Guard::take_bins`] is to be called.
    pub(crate) fn report(&mut self, barrier: &Barrier, progress: Progress, cx: &Context) -> bool {
        self.report_with(barrier, progress, cx, |state| state)
    }

    /// Like [`Guard::report`]; `complete` adds to the state of the operator what the runtime keeps for it.
    pub(crate) fn report_with(
        &mut self,
        barrier: &Barrier,
        progress: Progress,
        cx: &Context,
        complete: impl FnOnce(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> bool {
        if let Some(migration) = barrier.migration() {
            self.give_bins(migration, cx);
            return self.take_bins(barrier, cx);
        }
        let start = Instant::now();
        let saved = self.saved(Progress { tuples: self.tuples, ..progress });
        let saved = saved.map(|saved| Saved { state: complete(saved.state), ..saved });
        self.of.counters.saved(elapsed_ns(start));
        barrier.report(self.of.id, saved, &cx.board);
        true
    }

    fn give_bins(&mut self, migration: &Migration, cx: &Context) {
        let Some(Seat { place, bins }) = &self.seat else { return };
        let leaving = migration.leaving(place.group, place.replica);
        if leaving.is_empty() {
            return;
        }
        let (operator, copy, stopped) = (&mut self.of.operator, &mut self.snapshot, self.stopped);
        let parcels = leaving.into_iter().map(|bin| match stopped {
            // Later tuples would meet a state that lacks those that were discarded.
            true => (bin, BinState::default()),
            false => {
                let instance = bins(operator).give(bin);
                (bin, BinState { instance, copy: copy.as_mut().and_then(|copy| bins(copy).give(bin)) })
            }
        });
        migration.put(place.stage, parcels.collect());
        // The replica that waits for them may be on any worker.
        cx.board.wake_all();
    }

    /// Takes the bins that come to this replica. Whether all of them have been handed over; then the barrier has passed.
    pub(crate) fn take_bins(&mut self, barrier: &Barrier, cx: &Context) -> bool {
        if let (Some(Seat { place, bins }), Some(migration)) = (&self.seat, barrier.migration()) {
            let coming = migration.coming(place.group, place.replica);
            let Some(parcels) = migration.get(place.stage, &coming) else { return false };
            for (bin, BinState { instance, copy }) in parcels {
                instance.into_iter().for_each(|instance| bins(&mut self.of.operator).take(bin, instance));
                if let (Some(snapshot), Some(copy)) = (&mut self.snapshot, copy) {
                    bins(snapshot).take(bin, copy);
                }
            }
        }
        barrier.pass(&cx.board);
        true
    }

    fn saved(&mut self, progress: Progress) -> Result<Saved, String> {
        if self.stopped {
            return Err("has stopped".to_owned());
        }
        let seat = self.seat.as_ref();
        let save = |operator: &mut O, last_bytes| match seat {
            Some(seat) => save_quietly(|| (seat.bins)(operator).save()),
            None => save_state(operator, O::state, last_bytes),
        };
        let state = save(&mut self.of.operator, self.state_bytes)?;
        self.state_bytes = state.as_ref().map_or(0, Vec::len);
        let restart_state = match &mut self.snapshot {
            Some(snapshot) => save(snapshot, self.state_bytes)?,
            None => None,
        };
        Ok(Saved { state, restart_state, progress })
    }

    /// Loads the state that a snapshot of the stream has.
    pub(crate) fn load(&mut self, saved: &OperatorSnapshot) -> Result<(), Error> {
        let Named { name, operator, .. } = &mut self.of;
        let seat = self.seat.as_ref();
        let load = |operator: &mut O, bytes| match seat {
            Some(seat) => load_bins(name, (seat.bins)(operator), bytes),
            None => load_state(name, operator.state(), bytes),
        };
        // A snapshot has the tuples of all replicas.
        let is_first = seat.is_none_or(|seat| seat.place.replica == 0);
        self.tuples = if is_first { saved.progress.tuples } else { 0 };
        load(operator, saved.state.as_deref())?;
        if self.snapshot.is_some() {
            let mut copy = operator.snapshot().ok_or_else(|| Error::NoSnapshot(name.clone()))?;
            // None of an operator that was not to restart when the snapshot was taken.
            if saved.restart_state.is_some() {
                load(&mut copy, saved.restart_state.as_deref())?;
            }
            self.snapshot = Some(copy);
        }
        Ok(())
    }

    /// Returns whether to take a snapshot before the next tuple. The first one is from the building.
    fn is_snapshot_due(&self) -> bool {
        match self.policy {
            OnPanic::Restart { snapshot_every } => {
                self.tuples > 0 && self.tuples.is_multiple_of(snapshot_every.max(1)) && !self.stopped
            }
            OnPanic::Stop | OnPanic::Skip => false,
        }
    }

    /// Tuples until the next snapshot is due, at least 1.
    fn until_snapshot(&self) -> u64 {
        match self.policy {
            OnPanic::Restart { snapshot_every } => {
                let every = snapshot_every.max(1);
                every - self.tuples % every
            }
            OnPanic::Stop | OnPanic::Skip => u64::MAX,
        }
    }

    /// Calls the operator for a tuple of this number, or for a watermark or the end. Whether it succeeded.
    fn call(&mut self, tuple: Option<u64>, cx: &Context, work: impl FnOnce(&mut O)) -> bool {
        if self.stopped {
            self.of.counters.discarded.add(u64::from(tuple.is_some()));
            drop_quietly(work);
            return false;
        }
        match catch_unwind(AssertUnwindSafe(|| work(&mut self.of.operator))) {
            Ok(()) => true,
            Err(panic) => {
                self.recover(tuple, panic, cx);
                false
            }
        }
    }

    fn copy(&mut self, sequence: u64, cx: &Context) {
        let start = Instant::now();
        let snapshot = catch_unwind(AssertUnwindSafe(|| self.of.operator.snapshot()));
        self.of.counters.rare_ns.add(elapsed_ns(start));
        match snapshot {
            Ok(Some(snapshot)) => drop_quietly(self.snapshot.replace(snapshot)),
            // The one before stays valid.
            Ok(None) => {}
            Err(panic) => self.stop(Some(sequence), panic, cx),
        }
    }

    fn recover(&mut self, tuple: Option<u64>, panic: Panic, cx: &Context) {
        let counters = &self.of.counters;
        if tuple.is_some() { &counters.dead_letters } else { &counters.dead_marks }.add(1);
        match self.policy {
            OnPanic::Stop => self.stop(tuple, panic, cx),
            OnPanic::Skip => drop_quietly(panic),
            OnPanic::Restart { .. } => {
                drop_quietly(panic);
                self.restart(tuple, cx);
            }
        }
    }

    fn restart(&mut self, tuple: Option<u64>, cx: &Context) {
        let copy = || self.snapshot.as_ref().and_then(Recover::snapshot).expect("a snapshot can be copied");
        match catch_unwind(AssertUnwindSafe(copy)) {
            Ok(again) => {
                drop_quietly(mem::replace(&mut self.of.operator, again));
                self.of.counters.restarts.add(1);
            }
            Err(panic) => self.stop(tuple, panic, cx),
        }
    }

    fn stop(&mut self, tuple: Option<u64>, panic: Panic, cx: &Context) {
        self.stopped = true;
        lock(&cx.board.failures).push(Failure {
            operator: self.of.id,
            name: self.of.name.clone(),
            tuple,
            message: message(panic),
        });
    }
}

impl<O> Drop for Guard<O> {
    fn drop(&mut self) {
        drop_quietly(self.snapshot.take());
    }
}

/// Returns the bytes of a state, if `state` returns one; the reason if there are none because it panics. About as
/// many are expected as the last time: memory that grows would be copied while tuples wait.
pub(crate) fn save_state<O>(
    operator: &mut O,
    state: fn(&mut O) -> Option<&mut dyn SaveState>,
    last_bytes: usize,
) -> Result<Option<Vec<u8>>, String> {
    let save = || {
        state(operator).map(|state| {
            let mut bytes = Vec::with_capacity(last_bytes + last_bytes / 8);
            state.save(&mut bytes);
            bytes
        })
    };
    save_quietly(save)
}

fn save_quietly(save: impl FnOnce() -> Option<Vec<u8>>) -> Result<Option<Vec<u8>>, String> {
    catch_unwind(AssertUnwindSafe(save))
        .map_err(|panic| format!("panicked when it saved its state: {}", message(panic)))
}

/// Loads the state of an operator from the bytes that a snapshot has, if both have one.
pub(crate) fn load_state(
    name: &str,
    state: Option<&mut dyn SaveState>,
    bytes: Option<&[u8]>,
) -> Result<(), Error> {
    match (state, bytes) {
        (Some(state), Some(bytes)) => {
            state.load(bytes).map_err(|source| Error::State { name: name.to_owned(), source })
        }
        (None, None) => Ok(()),
        (Some(_), None) => other(format!("it has no state of operator {name}")),
        (None, Some(_)) => other(format!("it has a state of operator {name}, which loads none")),
    }
}

/// Like [`load_state`], of the bins of a replica.
fn load_bins(name: &str, bins: &mut dyn BinOwner, bytes: Option<&[u8]>) -> Result<(), Error> {
    match (bins.has_state(), bytes) {
        (Some(true), Some(bytes)) => {
            bins.load(bytes).map_err(|source| Error::State { name: name.to_owned(), source })
        }
        (Some(true), None) => other(format!("it has no state of operator {name}")),
        (Some(false), Some(_)) => other(format!("it has a state of operator {name}, which loads none")),
        // A replica without bins loads nothing.
        (None, _) | (Some(false), None) => Ok(()),
    }
}

/// The payload of a panic that was caught.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Returns the text of a panic, whose payload is dropped.
pub(crate) fn message(panic: Panic) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    drop_quietly(panic);
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

/// Drops a value of the application, whose `drop` may panic.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The payload may panic in turn when it is dropped, and so may the payload of that panic.
        mem::forget(panic);
    }
}

/// Drops values of the application one by one: a second panic within a single `drop` would abort the process.
pub(crate) fn drop_all_quietly<T>(values: impl IntoIterator<Item = T>) {
    values.into_iter().for_each(drop_quietly);
}
