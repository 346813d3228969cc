//! Values that come after the watermark has passed their event time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of late values of an operator, read while the stream runs. Clones share the number.
#[derive(Clone, Debug, Default)]
pub struct LateCounter(Arc<AtomicU64>);

impl LateCounter {
    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one. Only the operator does, so that no update is lost between load and store.
    pub(super) fn count(&self) {
        self.set(self.get() + 1);
    }

    pub(super) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// Treatment of late values by an [`EventTime`](super::EventTime).
pub trait LatePolicy<T>: Send + 'static {
    /// Its output.
    type Out: Send + 'static;

    /// Returns the output of a value in time.
    fn on_time(&self, value: T) -> Self::Out;

    /// Returns the output of a value whose event time is `late_ns` before the watermark; none drops it.
    fn late(&self, value: T, late_ns: u64) -> Option<Self::Out>;
}

/// Drops late values. They are counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropLate;

impl<T: Send + 'static> LatePolicy<T> for DropLate {
    type Out = T;

    fn on_time(&self, value: T) -> T {
        value
    }

    fn late(&self, _: T, _: u64) -> Option<T> {
        None
    }
}

/// Passes values on that are late by this at most, in nanoseconds, for windows that allow the same lateness. Later ones
/// are dropped. All late values are counted.
#[derive(Clone, Copy, Debug)]
pub struct AllowLate(pub u64);

impl<T: Send + 'static> LatePolicy<T> for AllowLate {
    type Out = T;

    fn on_time(&self, value: T) -> T {
        value
    }

    fn late(&self, value: T, late_ns: u64) -> Option<T> {
        (late_ns <= self.0).then_some(value)
    }
}

/// Emits late values told from the others, so that a split can take them apart. They are counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkLate;

impl<T: Send + 'static> LatePolicy<T> for MarkLate {
    type Out = Late<T>;

    fn on_time(&self, value: T) -> Late<T> {
        Late::OnTime(value)
    }

    fn late(&self, value: T, _: u64) -> Option<Late<T>> {
        Some(Late::Late(value))
    }
}

/// A value that is late, or is not: the output of [`MarkLate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Late<T> {
    /// The event time was not before the watermark.
    OnTime(T),
    /// The event time was before the watermark.
    Late(T),
}

impl<T> Late<T> {
    /// Returns the value, if it is in time.
    pub fn on_time(self) -> Option<T> {
        match self {
            Late::OnTime(value) => Some(value),
            Late::Late(_) => None,
        }
    }

    /// Returns the value, if it is late.
    pub fn late(self) -> Option<T> {
        match self {
            Late::OnTime(_) => None,
            Late::Late(value) => Some(value),
        }
    }
}
