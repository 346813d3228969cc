//! How an owner's I/Os went: since its rate was set, and lately. Constant memory for each owner.

use sakiyomi_model::Nanos;

use crate::gate::Ended;

/// An owner's last 128 to 256 I/Os, or all that there were since the rate was set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// How many.
    pub ios: u32,
    /// How many the device had not done in time.
    pub late: u32,
    /// How long they took, in the mean; zero without any.
    pub took: Nanos,
    /// How long they were to take, in the mean; zero without any.
    pub ideal: Nanos,
    /// Mean of the time that they took, against the ideal; 1 without any.
    pub accuracy: f64,
    /// Standard deviation of the time that they took, over its mean; 0 without any.
    pub cov: f64,
}

/// What is kept of an owner's I/Os.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    pub(super) ios: u64,
    pub(super) late: u64,
    ratios: f64,
    /// The last full block and the one that is being filled: together the last [`BLOCK_IOS`] to twice as many.
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

impl Kept {
    pub(super) fn add(&mut self, ended: Ended) {
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
        self.block.squares += took * took;
    }

    /// An I/O that has been added, and was to take about `ideal`, took `by` longer.
    pub(super) fn add_late(&mut self, by: f64, ideal: f64) {
        if self.block.ios > 0 {
            self.ratios += by / ideal;
            self.block.ratios += by / ideal;
            self.block.took += by;
            self.block.squares += by * (2.0 * ideal + by);
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
        let variance = (sum(|block| block.squares) / count - took * took).max(0.0);
        Recent {
            ios,
            late,
            took: Nanos(took as u64),
            ideal: Nanos((sum(|block| block.ideals) / count) as u64),
            accuracy: sum(|block| block.ratios) / count,
            cov: if took > 0.0 { variance.sqrt() / took } else { 0.0 },
        }
    }
}
