//! Calls of operators: numbers of tuples are checked, times sampled, panics caught.
//!
//! A panic ends at the operator that caused it. The segment stays where it is, with all its states and rings, so
//! that nothing is lost but what the declared policy gives up.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::{Error, Failure};
use crate::operator::{OnPanic, Recover};
use crate::sync::lock;
use crate::tuple::OperatorId;

/// Tuples per tuple whose processing time is measured. Two looks at the clock cost 100 ns.
const SAMPLE_TUPLES: u64 = 64;

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
        Ok(Guard { of, policy, snapshot, stopped: false })
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
        if sequence != *expected {
            self.of.counters.sequence_violations.add(1);
        }
        *expected = sequence + 1;
        if self.is_snapshot_due(number) {
            self.save(sequence, cx);
        }
        if !number.is_multiple_of(SAMPLE_TUPLES) {
            return self.call(Some(sequence), cx, work);
        }
        let start = Instant::now();
        let done = self.call(Some(sequence), cx, work);
        self.of.counters.sampled.add(1);
        self.of.counters.sampled_ns.add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        done
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
    pub(crate) fn call(&mut self, tuple: Option<u64>, cx: &Context, work: impl FnOnce(&mut O)) -> bool {
        if self.stopped {
            self.of.counters.discarded.add(u64::from(tuple.is_some()));
            // The value's own end may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
            return false;
        }
        match catch_unwind(AssertUnwindSafe(|| work(&mut self.of.operator))) {
            Ok(()) => true,
            Err(panic) => {
                self.recover(tuple, &*panic, cx);
                false
            }
        }
    }

    fn save(&mut self, sequence: u64, cx: &Context) {
        match catch_unwind(AssertUnwindSafe(|| self.of.operator.snapshot())) {
            Ok(Some(snapshot)) => self.snapshot = Some(snapshot),
            // The one before stays valid.
            Ok(None) => {}
            Err(panic) => self.stop(Some(sequence), &*panic, cx),
        }
    }

    fn recover(&mut self, tuple: Option<u64>, panic: &(dyn Any + Send), cx: &Context) {
        self.of.counters.dead_letters.add(u64::from(tuple.is_some()));
        match self.policy {
            OnPanic::Stop => self.stop(tuple, panic, cx),
            OnPanic::Skip => {}
            OnPanic::Restart { .. } => self.restart(tuple, cx),
        }
    }

    fn restart(&mut self, tuple: Option<u64>, cx: &Context) {
        let again = catch_unwind(AssertUnwindSafe(|| {
            let again = self.snapshot.as_ref().and_then(Recover::snapshot);
            self.of.operator = again.expect("a snapshot can be copied");
        }));
        match again {
            Ok(()) => self.of.counters.restarts.add(1),
            Err(panic) => self.stop(tuple, &*panic, cx),
        }
    }

    fn stop(&mut self, tuple: Option<u64>, panic: &(dyn Any + Send), cx: &Context) {
        self.stopped = true;
        lock(&cx.board.failures).push(Failure {
            operator: self.of.id,
            name: self.of.name.clone(),
            tuple,
            message: message(panic),
        });
    }
}

/// The text of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// Drops values whose ends may panic.
pub(crate) fn forget_all<T>(values: &mut Vec<T>) {
    let _ = catch_unwind(AssertUnwindSafe(|| values.clear()));
}
