//! Operators that run as several replicas, each with the keys of its bins.
//!
//! ```text
//!              ┌► operator[0] ─call─┐
//! partition ───┼► operator[1] ─ring─┼► merge ►     a replica is an operator of the graph: it is placed, moved,
//!   key ► bin  └► operator[2] ─ring─┘              timed and guarded as any other one
//! ```
//!
//! A key is hashed to a bin, and a bin has one replica at a time (Hoffmann et al., *Megaphone*, PVLDB 12(9), 2019, section
//! 3). A replica has one instance of the operator for each of its bins (`binned.rs`), so that any operator can be
//! replicated, and its state by bins is its instances.
//!
//! Bins change their replicas at a barrier (`migration.rs`): behind it the partition sends their tuples to the new replica,
//! the replica before hands their instances over, and the new one holds its input back until it has them. The other
//! replicas continue.
//!
//! # Order
//!
//! The outputs for a key, and for all keys of a bin, have the order of a stream without replicas. Those of bins on
//! different replicas come in any order. A watermark leaves the merge when all replicas have sent it, behind all outputs
//! that they have for it.

mod binned;
mod group;
mod migration;
mod router;
mod states;

pub(crate) use binned::Binned;
pub(crate) use group::{BinCounts, Group, PartitionOutline};
pub(crate) use migration::{BinOwner, BinState, Migration};
pub(crate) use router::Router;
pub(crate) use states::joined;
pub use states::states_of_bins;

/// How an operator is replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    pub(crate) max: usize,
    pub(crate) bins: usize,
}

/// Bins unless the application says otherwise: with eight replicas each has eight, of which one more or less is an eighth
/// of its load. Each has an instance of the operator, which every watermark calls.
const BINS_DEFAULT: usize = 64;

/// Bins at most, for a bin is saved with each tuple in 16 bits.
const BINS_MAX: usize = 1 << 16;

impl Replicas {
    /// At most `max` replicas, all of which are used at first, and 64 bins or as many as replicas.
    ///
    /// # Panics
    /// If there are none, or more than 65,536.
    #[must_use]
    pub fn new(max: usize) -> Replicas {
        assert!((1..=BINS_MAX).contains(&max), "an operator has from 1 to {BINS_MAX} replicas, not {max}");
        Replicas { max, bins: BINS_DEFAULT.max(max) }
    }

    /// With this number of bins. A stream resumes from snapshots with as many bins only; the number of replicas may be
    /// another one.
    ///
    /// # Panics
    /// If there are less than replicas, or more than 65,536.
    #[must_use]
    pub fn bins(self, bins: usize) -> Replicas {
        let max = self.max;
        assert!(
            (max..=BINS_MAX).contains(&bins),
            "{max} replicas have from {max} to {BINS_MAX} bins, not {bins}"
        );
        Replicas { bins, ..self }
    }

    /// Returns the largest number of replicas.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the number of bins.
    #[must_use]
    pub fn bin_count(&self) -> usize {
        self.bins
    }
}

/// A value with the bin of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<T> {
    pub(crate) bin: u16,
    pub(crate) value: T,
}
