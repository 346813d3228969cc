//! The receiving end of an edge: the number of the next item, and what has come.

use crate::barrier::Barrier;
use crate::counters::Counters;
use crate::snapshot::{InputProgress, Progress};

/// Progress of an input.
#[derive(Clone, Copy, Default)]
pub(crate) struct Input {
    /// Number of the next item.
    pub(crate) expected: u64,
    /// Epoch of the last barrier.
    epoch: u64,
    /// The last watermark.
    pub(crate) watermark_ns: Option<u64>,
    pub(crate) has_ended: bool,
}

impl Input {
    /// Returns the input as a snapshot of this epoch has it.
    pub(crate) fn load(saved: &InputProgress, epoch: u64) -> Input {
        let &InputProgress { sequence, watermark_ns, has_ended } = saved;
        Input { expected: sequence, epoch, watermark_ns, has_ended }
    }

    pub(crate) fn save(&self) -> InputProgress {
        let &Input { expected, watermark_ns, has_ended, .. } = self;
        InputProgress { sequence: expected, watermark_ns, has_ended }
    }

    /// Checks that a barrier comes before the item that is next, and after the barrier of the epoch before.
    pub(crate) fn check_barrier(&mut self, barrier: &Barrier, sequence: u64, counters: &Counters) {
        if sequence != self.expected || barrier.epoch() != self.epoch + 1 {
            counters.sequence_violations.add(1);
        }
        (self.expected, self.epoch) = (sequence, barrier.epoch());
    }

    /// Progress of an operator with this input and these outputs.
    pub(crate) fn progress(&self, outputs: Vec<u64>) -> Progress {
        let &Input { watermark_ns, has_ended, .. } = self;
        Progress { inputs: vec![self.save()], outputs, watermark_ns, has_ended, ..Progress::default() }
    }
}
