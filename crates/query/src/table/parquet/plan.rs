//! The parts of a scan that its workers share.

use std::sync::Arc;

use arrow_schema::Fields;
use parquet::arrow::arrow_reader::RowSelection;
use rand_core::Rng;
use rand_pcg::Pcg64;

use super::division::Divisions;
use super::footer::ParquetFile;
use crate::job::Reservation;
use crate::table::types::Shape;

/// The files and columns to decode, and their types.
#[derive(Debug)]
pub(in crate::table) struct ParquetPlan {
    pub(in crate::table) files: Arc<Vec<ParquetFile>>,
    /// Columns to decode, in file order, each once.
    pub(in crate::table) columns: Vec<usize>,
    /// The scan's types of all columns of the table.
    pub(in crate::table) types: Fields,
    pub(in crate::table) shape: Shape,
    pub(in crate::table) batch_rows: usize,
    /// Sampled rows of each row group; all if `None`.
    pub(in crate::table) runs: Option<Runs>,
    /// Row groups that are decoded in parts.
    pub(in crate::table) divisions: Arc<Divisions>,
    #[expect(dead_code, reason = "holds the memory")]
    pub(in crate::table) metadata: Reservation,
}

/// A sample: runs of consecutive rows, spread over each row group.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct Runs {
    /// Number of rows to sample.
    pub(in crate::table) wanted: u64,
    /// Number of rows of all row groups.
    pub(in crate::table) of: u64,
    /// Maximum number of runs per row group.
    pub(in crate::table) of_group: u64,
    /// Seed of the row choice.
    pub(in crate::table) seed: u128,
}

impl Runs {
    /// Returns the number of rows to sample of a row group of `rows` rows.
    pub(in crate::table) fn wanted_of(&self, rows: u64) -> u64 {
        let wanted = (u128::from(rows) * u128::from(self.wanted)).div_ceil(u128::from(self.of.max(1)));
        u64::try_from(wanted).unwrap_or(u64::MAX).min(rows)
    }

    /// Selects rows of a row group: one run in each of equal parts. Pages without selected rows are not decompressed.
    pub(super) fn selection(&self, group: usize, rows: u64) -> RowSelection {
        let wanted = self.wanted_of(rows);
        let runs = self.of_group.clamp(1, wanted.max(1));
        let mut random = Pcg64::new(self.seed, group as u128);
        let (mut ranges, mut taken) = (Vec::new(), 0);
        for run in 0..runs {
            let (from, to) = (part(rows, run, runs), part(rows, run + 1, runs));
            let count = (part(wanted, run + 1, runs) - taken).min(to - from);
            let start = from + random.next_u64() % (to - from - count + 1);
            ranges.push(start as usize..(start + count) as usize);
            taken += count;
        }
        RowSelection::from_consecutive_ranges(ranges.into_iter(), rows as usize)
    }
}

/// First row of part `at` of `of` equal parts.
fn part(rows: u64, at: u64, of: u64) -> u64 {
    (u128::from(rows) * u128::from(at) / u128::from(of)) as u64
}
