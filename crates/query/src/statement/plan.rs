//! Plans of the cost model as options of the executor (pure).

use sakiyomi_io::Access;

use crate::JobOptions;
use crate::cost::Plan;
use crate::cost::plan::{Algorithm, PageCache, SortMethod};
use crate::cost::shape::Side;
use crate::join::{JoinMethod, JoinSide};
use crate::sort::SortOptions;

impl Plan {
    /// Options of a job that runs the plan, with the limits and directories of `asked`.
    #[must_use]
    pub fn job_options(&self, asked: &JobOptions) -> JobOptions {
        JobOptions {
            threads: self.threads,
            engine: self.engine,
            block: usize::try_from(self.input.block_bytes).unwrap_or(asked.block),
            ..asked.clone()
        }
    }

    /// Returns how the plan opens the files of tables.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.input.page_cache {
            PageCache::Bypassed => Access::Direct,
            PageCache::Used => Access::Buffered,
        }
    }

    /// Options of the sort of a statement.
    pub(super) fn sort_options(&self) -> SortOptions {
        match self.algorithm {
            Algorithm::Sort { sort } => self.options_of(sort),
            _ => SortOptions::default(),
        }
    }

    /// Returns the method of a join, and the options of the sorts of both sides.
    pub(super) fn join_options(&self) -> (JoinMethod, [SortOptions; 2]) {
        match self.algorithm {
            Algorithm::MergeJoin { left, right } => {
                (JoinMethod::Merge, [left, right].map(|method| self.options_of(method)))
            }
            Algorithm::HashJoin { build, .. } => {
                let side = if build == Side::Left { JoinSide::Left } else { JoinSide::Right };
                (JoinMethod::Hash(side), Default::default())
            }
            _ => (JoinMethod::Merge, Default::default()),
        }
    }

    /// Returns whether each side of a join is divided at sampled keys.
    pub(super) fn samples_sides(&self) -> [bool; 2] {
        match self.algorithm {
            Algorithm::MergeJoin { left, right } => [left, right].map(SortMethod::needs_sample),
            _ => [false; 2],
        }
    }

    fn options_of(&self, method: SortMethod) -> SortOptions {
        let whole = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let default = SortOptions::default();
        let block = self.spill.map_or(default.block, |spill| whole(spill.stream.block_bytes));
        let options = SortOptions { block, ..default };
        match method {
            SortMethod::InMemory { partitions, resident_bytes, memory_bytes }
            | SortMethod::RangePartition { partitions, resident_bytes, memory_bytes } => SortOptions {
                planned_partitions: Some(whole(partitions)),
                resident: whole(resident_bytes),
                memory: Some(whole(memory_bytes)),
                ..options
            },
            SortMethod::RunsAndMerge { run_bytes, memory_bytes, .. } => SortOptions {
                planned_run: Some(whole(run_bytes)),
                memory: Some(whole(memory_bytes)),
                ..options
            },
            SortMethod::TopN | SortMethod::AlreadySorted => options,
        }
    }
}

impl SortMethod {
    /// Returns whether the sort divides rows at sampled keys.
    pub(super) fn needs_sample(self) -> bool {
        matches!(self, SortMethod::InMemory { .. } | SortMethod::RangePartition { .. })
    }
}

#[cfg(test)]
mod tests;
