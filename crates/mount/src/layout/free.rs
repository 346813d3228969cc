//! Free blocks of the drive as runs, indexed by place and by size.

use std::collections::{BTreeMap, BTreeSet};

use super::pieces::Run;

/// Free runs; adjacent ones are always merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Free {
    by_start: BTreeMap<u64, u64>,
    /// (blocks, start).
    by_size: BTreeSet<(u64, u64)>,
    blocks: u64,
}

impl Free {
    /// Makes a drive of `blocks` blocks, all free.
    pub(super) fn all(blocks: u64) -> Free {
        let mut free = Free::default();
        free.give(Run { start: 0, blocks });
        free
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns whether all of `run` is free.
    pub(super) fn holds(&self, run: Run) -> bool {
        self.run_at(run.start).is_some_and(|found| found.end() >= run.end())
    }

    /// Takes up to `wanted` blocks from `start`, if that block is free.
    pub(super) fn take_at(&mut self, start: u64, wanted: u64) -> Option<Run> {
        let found = self.run_at(start).filter(|_| wanted > 0)?;
        Some(self.cut(found, Run { start, blocks: wanted.min(found.end() - start) }))
    }

    /// Takes `wanted` blocks from the smallest run that is long enough, or else the longest run.
    ///
    /// # Panics
    /// If no block is free.
    pub(super) fn take_best(&mut self, wanted: u64) -> Run {
        let fitting = self.by_size.range((wanted, 0)..).next().or_else(|| self.by_size.last());
        let &(blocks, start) = fitting.expect("there is room");
        self.cut(Run { start, blocks }, Run { start, blocks: wanted.min(blocks) })
    }

    /// Takes up to `wanted` blocks from `position`, or from the next free run after it, with wrap-around.
    ///
    /// # Panics
    /// If no block is free.
    pub(super) fn take_near(&mut self, position: u64, wanted: u64) -> Run {
        if let Some(run) = self.take_at(position, wanted) {
            return run;
        }
        let next = self.by_start.range(position..).next().or_else(|| self.by_start.first_key_value());
        let (&start, &blocks) = next.expect("there is room");
        self.cut(Run { start, blocks }, Run { start, blocks: wanted.min(blocks) })
    }

    /// Frees a run that is in use.
    pub(super) fn give(&mut self, run: Run) {
        if run.blocks == 0 {
            return;
        }
        self.blocks += run.blocks;
        let (mut start, mut end) = (run.start, run.end());
        if let Some((&before, &blocks)) = self.by_start.range(..=start).next_back() {
            assert!(before + blocks <= start, "block {start} is free already");
            if before + blocks == start {
                self.forget(Run { start: before, blocks });
                start = before;
            }
        }
        if let Some((&after, &blocks)) = self.by_start.range(run.start..).next() {
            assert!(after >= end, "block {after} is free already");
            if after == end {
                self.forget(Run { start: after, blocks });
                end = after + blocks;
            }
        }
        self.note(Run { start, blocks: end - start });
    }

    fn run_at(&self, block: u64) -> Option<Run> {
        let (&start, &blocks) = self.by_start.range(..=block).next_back()?;
        Some(Run { start, blocks }).filter(|run| block < run.end())
    }

    /// Takes `part` out of the free run `whole`.
    fn cut(&mut self, whole: Run, part: Run) -> Run {
        self.forget(whole);
        self.note(Run { start: whole.start, blocks: part.start - whole.start });
        self.note(Run { start: part.end(), blocks: whole.end() - part.end() });
        self.blocks -= part.blocks;
        part
    }

    fn note(&mut self, run: Run) {
        if run.blocks > 0 {
            self.by_start.insert(run.start, run.blocks);
            self.by_size.insert((run.blocks, run.start));
        }
    }

    fn forget(&mut self, run: Run) {
        self.by_start.remove(&run.start);
        self.by_size.remove(&(run.blocks, run.start));
    }
}
