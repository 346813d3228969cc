//! Replicas from outside.

use std::sync::Arc;

use sakiyomi_placement::Bins;

use crate::counters::Count;
use crate::tuple::OperatorId;

/// Tuples of each bin that a partition has sent.
pub(crate) type BinCounts = Arc<[Count]>;

/// The operators from a partition to its merge.
pub(crate) struct Group {
    /// The partition of the first input, then those of the second inputs of joins.
    pub(crate) partitions: Vec<PartitionOutline>,
    /// Replicas that there are, whether they have bins or not.
    pub(crate) replicas: usize,
    /// The replica of each bin.
    pub(crate) bins: Bins,
}

/// A partition.
pub(crate) struct PartitionOutline {
    pub(crate) id: OperatorId,
    pub(crate) counts: BinCounts,
}

impl Group {
    /// Tuples of each bin since the start, and one more, so that bins without tuples are spread as well.
    pub(crate) fn loads(&self) -> Vec<f64> {
        let tuples =
            |bin: usize| self.partitions.iter().map(|partition| partition.counts[bin].get()).sum::<u64>();
        (0..self.bins.replica_of().len()).map(|bin| (tuples(bin) + 1) as f64).collect()
    }
}
