//! Accuracy of an owner's I/Os since its rate was set, and recently. Constant memory per owner.

use sakiyomi_model::Nanos;

use crate::gate::CompletedRequest;

/// Figures of an owner's last 128 to 256 I/Os, or of all since the rate was set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// Number of I/Os.
    pub ios: u32,
    /// Number that missed their deadline.
    pub late: u32,
    /// Mean time; zero without I/Os.
    pub took: Nanos,
    /// Mean ideal time; zero without I/Os.
    pub ideal: Nanos,
    /// Mean ratio of actual to ideal time; 1 without I/Os.
    pub accuracy: f64,
    /// Coefficient of variation of the ratio of actual to ideal time, standard deviation over mean; 0 without I/Os.
    pub cov: f64,
}

/// Statistics of an owner's I/Os.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IoTimeStatistics {
    pub(super) ios: u64,
    pub(super) late: u64,
    ratios: f64,
    /// The last full block and the current one: together the last [`BLOCK_IOS`] to twice as many I/Os.
    before: Block,
    block: Block,
}

/// I/Os in a block.
const BLOCK_IOS: u32 = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    ios: u32,
    late: u32,
    ratios: f64,
    ideals: f64,
    took: f64,
    squares: f64,
}

impl IoTimeStatistics {
    pub(super) fn add(&mut self, ended: CompletedRequest) {
        if self.block.ios == BLOCK_IOS {
            self.before = std::mem::take(&mut self.block);
        }
        let (took, ideal) = (ended.took.0 as f64, ended.ideal.0 as f64);
        self.ios += 1;
        self.late += u64::from(ended.late);
        self.ratios += took / ideal;
        self.block.ios += 1;
        self.block.late += u32::from(ended.late);
        self.block.ratios += took / ideal;
        self.block.ideals += ideal;
        self.block.took += took;
        self.block.squares += (took / ideal).powi(2);
    }

    /// Corrects the last I/O added, with an ideal time of about `ideal`: it took `by` longer.
    pub(super) fn add_late(&mut self, by: f64, ideal: f64) {
        if self.block.ios > 0 {
            self.ratios += by / ideal;
            self.block.ratios += by / ideal;
            self.block.took += by;
            // The I/O took about its ideal time before.
            self.block.squares += by / ideal * (2.0 + by / ideal);
        }
    }

    pub(super) fn accuracy(&self) -> f64 {
        if self.ios == 0 { 1.0 } else { self.ratios / self.ios as f64 }
    }

    pub(super) fn recent(&self) -> Recent {
        let sum = |part: fn(&Block) -> f64| part(&self.before) + part(&self.block);
        let (ios, late) = (self.before.ios + self.block.ios, self.before.late + self.block.late);
        if ios == 0 {
            let (took, ideal) = (Nanos::ZERO, Nanos::ZERO);
            return Recent { ios, late, took, ideal, accuracy: 1.0, cov: 0.0 };
        }
        let count = f64::from(ios);
        let took = sum(|block| block.took) / count;
        let accuracy = sum(|block| block.ratios) / count;
        let variance = (sum(|block| block.squares) / count - accuracy * accuracy).max(0.0);
        Recent {
            ios,
            late,
            took: Nanos(took as u64),
            ideal: Nanos((sum(|block| block.ideals) / count) as u64),
            accuracy,
            cov: if accuracy > 0.0 { variance.sqrt() / accuracy } else { 0.0 },
        }
    }
}
