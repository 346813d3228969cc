//! Calls of operators: numbers of tuples are checked, times sampled, panics caught.
//!
//! A panic ends at the operator that caused it. The segment stays where it is, with all its states and rings, so
//! that nothing is lost but what the declared policy gives up.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::{Error, Failure};
use crate::operator::{OnPanic, Recover};
use crate::samples::{Samples, elapsed_ns};
use crate::sync::lock;
use crate::tuple::{OperatorId, Stamp};

/// An operator with its identity.
pub(crate) struct Named<O> {
    pub(crate) id: OperatorId,
    pub(crate) name: String,
    pub(crate) counters: Arc<Counters>,
    pub(crate) operator: O,
}

/// An operator that may panic.
pub(crate) struct Guard<O> {
    pub(crate) of: Named<O>,
    policy: OnPanic,
    snapshot: Option<O>,
    samples: Samples,
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
        Ok(Guard { of, policy, snapshot, samples, stopped: false })
    }

    /// Processes the tuple of this number, of which `expected` is the next on its edge. Whether it succeeded.
    pub(crate) fn tuple(
        &mut self,
        sequence: u64,
        expected: &mut u64,
        cx: &Context,
        work: impl FnOnce(&mut O),
    ) -> bool {
        let number = self.of.counters.tuples_in.get();
        self.of.counters.tuples_in.add(1);
        self.check(sequence, expected);
        if self.is_snapshot_due(number) {
            self.save(sequence, cx);
        }
        let start = self.samples.start();
        let done = self.call(Some(sequence), cx, work);
        self.samples.count(start, &self.of.counters);
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

    /// As [`Guard::mark`], of an operator whose inputs have checked the number.
    pub(crate) fn call_for_mark(&mut self, cx: &Context, work: impl FnOnce(&mut O)) -> bool {
        let start = Instant::now();
        let done = self.call(None, cx, work);
        self.of.counters.rare_ns.add(elapsed_ns(start));
        done
    }

    /// Whether the operator receives nothing more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether to take a snapshot before the tuple of this number. The first one is from the building.
    fn is_snapshot_due(&self, number: u64) -> bool {
        match self.policy {
            OnPanic::Restart { snapshot_every } => {
                number > 0 && number.is_multiple_of(snapshot_every.max(1)) && !self.stopped
            }
            OnPanic::Stop | OnPanic::Skip => false,
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

    fn save(&mut self, sequence: u64, cx: &Context) {
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

/// The payload of a panic that was caught.
pub(crate) type Panic = Box<dyn Any + Send>;

/// The text of a panic, whose payload is dropped.
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
