//! The cores that the recorded program used over time.

use sakiyomi_model::Nanos;

use crate::recording::{Recording, ThreadState};

/// The times in which the recorded threads did not occupy all cores.
#[derive(Debug, Default)]
pub(super) struct FreeCores {
    /// Times from which on another number of threads computed, each with the time before it in which a core was free and
    /// whether one is free from there on.
    changes: Vec<(Nanos, Nanos, bool)>,
}

impl FreeCores {
    /// Counts the threads of a recording that compute.
    pub(super) fn of(recording: &Recording) -> FreeCores {
        let cores = i64::from(recording.machine.cores.max(1));
        let mut steps = Vec::new();
        for span in recording.threads.iter().flat_map(|thread| &thread.spans) {
            if span.state == ThreadState::Computing {
                steps.push((span.begun_ns, 1));
                steps.push((span.ended_ns, -1));
            }
        }
        steps.sort_unstable();
        let (mut computing, mut free, mut since) = (0_i64, Nanos::ZERO, Nanos::ZERO);
        let mut changes = vec![(Nanos::ZERO, Nanos::ZERO, true)];
        for (at, change) in steps {
            if computing < cores {
                free += at.saturating_sub(since);
            }
            (since, computing) = (at, computing + change);
            changes.push((at, free, computing < cores));
        }
        FreeCores { changes }
    }

    /// Returns for how long between two times a core was free.
    pub(super) fn between(&self, from: Nanos, to: Nanos) -> Nanos {
        self.until(to).saturating_sub(self.until(from))
    }

    fn until(&self, at: Nanos) -> Nanos {
        let index = self.changes.partition_point(|&(changed, ..)| changed <= at);
        let Some(&(changed, free, is_free)) = index.checked_sub(1).map(|last| &self.changes[last]) else {
            return Nanos::ZERO;
        };
        if is_free { free + at.saturating_sub(changed) } else { free }
    }
}
