//! The parts of a file that are resident, and those that must be loaded.

use std::fs::File;
use std::ops::Range;

use sakiyomi_io::page_cache::residency;

use super::grid::cut;

/// The parts of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) resident: Vec<Range<u64>>,
    pub(super) cold: Vec<Range<u64>>,
    /// Whether pages of the file were evicted before: loading parts of it would evict the resident ones.
    pub(super) is_too_large: bool,
}

/// Bytes whose residency is queried together. If any page is missing, all count as cold.
const RESIDENCY_GRAIN_BYTES: u64 = 4 << 20;

impl Plan {
    pub(super) fn all_cold(range: Range<u64>) -> Plan {
        Plan { cold: vec![range], ..Plan::default() }
    }

    /// Queries the page cache. If the residency cannot be determined, all counts as cold.
    pub(super) fn of(file: &File, range: Range<u64>) -> Plan {
        let Ok(whole) = residency(file, range.clone()) else { return Plan::all_cold(range) };
        if whole.is_whole() {
            return Plan { resident: vec![range], ..Plan::default() };
        }
        let is_too_large = whole.detail.is_some_and(|detail| detail.evicted > 0);
        if whole.cached == 0 {
            return Plan::all_cold(range);
        }
        let is_resident =
            |grain: &Range<u64>| residency(file, grain.clone()).is_ok_and(|residency| residency.is_whole());
        Plan { is_too_large, ..Plan::by(range, is_resident) }
    }

    fn by(range: Range<u64>, is_resident: impl Fn(&Range<u64>) -> bool) -> Plan {
        let mut plan = Plan::default();
        for grain in cut(range, RESIDENCY_GRAIN_BYTES) {
            let parts = if is_resident(&grain) { &mut plan.resident } else { &mut plan.cold };
            match parts.last_mut() {
                Some(last) if last.end == grain.start => last.end = grain.end,
                _ => parts.push(grain),
            }
        }
        plan
    }

    /// Returns whether it covers exactly this range.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        let bytes = self.bytes();
        let parts = || self.resident.first().into_iter().chain(self.cold.first());
        bytes == range.end - range.start && parts().map(|part| part.start).min() == Some(range.start)
    }

    pub(super) fn resident_bytes(&self) -> u64 {
        bytes_of(&self.resident)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.resident_bytes() + bytes_of(&self.cold)
    }
}

fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Returns an upper bound of a piece in bytes, a power of two: small enough that `bytes` give each thread sixteen
/// pieces, unless they became too small to pay, and that two pieces per thread fit in `room`.
pub(super) fn piece_max(bytes: u64, room: u64, threads: usize) -> u64 {
    let threads = threads as u64;
    let most = (bytes / (16 * threads)).max(PIECE_MIN_BYTES).min(room / (2 * threads));
    1 << most.max(1).ilog2()
}

/// Minimum size of a piece: smaller ones take longer to map than to process.
const PIECE_MIN_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_lies_side_by_side_is_one_part() {
        let range = 100..RESIDENCY_GRAIN_BYTES * 5 + 7;
        let plan = Plan::by(range.clone(), |grain| {
            (RESIDENCY_GRAIN_BYTES * 2..RESIDENCY_GRAIN_BYTES * 4).contains(&grain.start)
        });
        assert_eq!(plan.cold, [100..RESIDENCY_GRAIN_BYTES * 2, RESIDENCY_GRAIN_BYTES * 4..range.end]);
        assert_eq!(
            (plan.resident.len(), &plan.resident[0]),
            (1, &(RESIDENCY_GRAIN_BYTES * 2..RESIDENCY_GRAIN_BYTES * 4))
        );
    }

    proptest! {
        #[test]
        fn pieces_are_so_small_that_all_threads_have_one(
            bytes in 0u64..1 << 40, room in 1u64 << 20..1 << 32, threads in 1usize..1024,
        ) {
            let most = piece_max(bytes, room, threads);
            prop_assert!(most.is_power_of_two());
            prop_assert!(most == 1 || room / most >= 2 * threads as u64);
            prop_assert!(most <= PIECE_MIN_BYTES || bytes / most >= 16 * threads as u64);
        }
    }
}
