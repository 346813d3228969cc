//! Steps: operators on rows.

mod aggregate;
mod append;
mod distinct;
mod file_lookup;
mod filter;
mod join;
mod keyed;
mod lookup;
mod prepare;
mod select;
mod top;
mod totals;
mod wrapped;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use sakiyomi_stream::operators::LateCounter;

use crate::Error;
use crate::control::Control;
use crate::spec::OnBad;

pub(crate) use aggregate::{Grouping, Results, TimeOf, aggregate};
pub(crate) use append::{Append, AppendWritten};
pub(crate) use distinct::distinct;
pub(crate) use file_lookup::FileLookup;
pub(crate) use filter::Filter;
pub(crate) use join::{JoinInput, join};
pub(crate) use keyed::Division;
pub(crate) use lookup::{Columns as LookupColumns, Lookup, Output as LookupOutput};
pub(crate) use prepare::{Prepare, write_key};
pub(crate) use select::{Item, Select};
pub(crate) use top::{Ranking, top};
pub(crate) use totals::{Call, Function, Total, Totals};
pub(crate) use wrapped::{Wrapped, WrappedJoin};

/// Rows that a step did not use. They can be read while the stream runs.
#[derive(Debug, Default)]
pub struct StepCounts {
    bad: AtomicU64,
    late: OnceLock<Vec<LateCounter>>,
}

impl StepCounts {
    /// Returns the rows for which a value could not be computed.
    #[must_use]
    pub fn bad(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }

    /// Returns the rows that came after their window had ended; of a `distinct` without a window, keys that were
    /// forgotten.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late.get().map_or(0, |late| late.iter().map(LateCounter::get).sum())
    }

    /// Sets the counters of all instances of the step's operator.
    pub(crate) fn set_late(&self, counters: Vec<LateCounter>) {
        // A step has one operator.
        let _ = self.late.set(counters);
    }
}

/// Declares that an operator keeps nothing from one row to the next: a snapshot lacks nothing of it.
macro_rules! stateless {
    ($operator:ty) => {
        impl sakiyomi_stream::SaveState for $operator {
            fn save(&self, _: &mut Vec<u8>) {}

            fn load(&mut self, _: &[u8]) -> Result<(), sakiyomi_stream::StateError> {
                Ok(())
            }
        }
    };
}

pub(crate) use stateless;

/// Treatment of rows that a step cannot compute.
#[derive(Clone, Debug)]
pub(crate) struct RowErrors {
    pub(crate) name: Arc<str>,
    pub(crate) bad: OnBad,
    pub(crate) control: Arc<Control>,
    pub(crate) counts: Arc<StepCounts>,
}

impl RowErrors {
    /// Counts a row, or ends the pipeline.
    #[cold]
    pub(crate) fn note(&self, reason: &dyn std::fmt::Display) {
        match self.bad {
            OnBad::Skip => {
                self.counts.bad.fetch_add(1, Ordering::Relaxed);
            }
            OnBad::Stop => {
                let (name, reason) = (self.name.to_string(), reason.to_string());
                self.control.fail(Error::Row { name, reason });
            }
        }
    }
}
