//! Pieces of one file: the mapping from its block numbers to places on the drive.

use std::collections::BTreeMap;
use std::ops::Range;

/// Contiguous blocks of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block.
    pub start: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Run {
    pub(super) fn end(self) -> u64 {
        self.start + self.blocks
    }
}

/// Runs by the file's block number; pieces that are contiguous in file and drive are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces(BTreeMap<u64, Run>);

impl Pieces {
    /// Returns the runs that hold blocks of `range`, clipped to it, each with the file's block number.
    pub(super) fn runs_in(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Run)> + '_ {
        let first = self.0.range(..=range.start).next_back().map_or(range.start, |(&at, _)| at);
        self.0.range(first..range.end.max(first)).filter_map(move |(&at, &run)| {
            let (from, to) = (at.max(range.start), (at + run.blocks).min(range.end));
            (from < to).then(|| (from, Run { start: run.start + (from - at), blocks: to - from }))
        })
    }

    /// Returns the whole run that holds a block, with the file's number of its first block.
    pub(super) fn run_with(&self, block: u64) -> Option<(u64, Run)> {
        let (&at, &run) = self.0.range(..=block).next_back()?;
        (block < at + run.blocks).then_some((at, run))
    }

    /// Returns the parts of `range` that have not been allocated.
    pub(super) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (from, run) in self.runs_in(range.clone()) {
            if at < from {
                gaps.push(at..from);
            }
            at = from + run.blocks;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Returns the number of allocated blocks from number `from` on.
    pub(super) fn blocks_from(&self, from: u64) -> u64 {
        self.runs_in(from..u64::MAX).map(|(_, run)| run.blocks).sum()
    }

    /// Returns the number of allocated blocks, or `most` if there are more. Unlike the exact number, it takes a time that
    /// does not grow with the number of pieces.
    pub(super) fn blocks_up_to(&self, most: u64) -> u64 {
        let mut blocks = 0;
        for run in self.0.values() {
            blocks += run.blocks;
            if blocks >= most {
                return most;
            }
        }
        blocks
    }

    /// Returns the number after the last allocated block.
    pub(super) fn end(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(&at, run)| at + run.blocks)
    }

    /// Returns the place on the drive where block number `at` would be contiguous with the previous one.
    pub(super) fn after(&self, at: u64) -> Option<u64> {
        let (&start, run) = self.0.range(..at).next_back()?;
        (start + run.blocks == at).then(|| run.end())
    }

    /// Adds allocated blocks from number `at` on.
    pub(super) fn insert(&mut self, mut at: u64, mut run: Run) {
        if let Some((&before, &other)) = self.0.range(..at).next_back()
            && before + other.blocks == at
            && other.end() == run.start
        {
            self.0.remove(&before);
            (at, run) = (before, Run { start: other.start, blocks: other.blocks + run.blocks });
        }
        if let Some(&other) = self.0.get(&(at + run.blocks))
            && run.end() == other.start
        {
            self.0.remove(&(at + run.blocks));
            run.blocks += other.blocks;
        }
        self.0.insert(at, run);
    }

    /// Removes the allocation of `range` and passes each run to `freed`.
    pub(super) fn remove(&mut self, range: Range<u64>, mut freed: impl FnMut(Run)) {
        let concerned: Vec<(u64, Run)> = self.runs_in(range).collect();
        for (at, run) in concerned {
            let (&start, &whole) = self.0.range(..=at).next_back().expect("it was just seen");
            self.0.remove(&start);
            let (before, after) = (at - start, start + whole.blocks - (at + run.blocks));
            if before > 0 {
                self.0.insert(start, Run { start: whole.start, blocks: before });
            }
            if after > 0 {
                self.0.insert(at + run.blocks, Run { start: run.end(), blocks: after });
            }
            freed(run);
        }
    }
}
