//! Requests that are alike: whose times depend on the same figures of a drive.

use sakiyomi_model::Op;

use sakiyomi_validate::Measured;

/// Smaller groups have no meaningful distribution: each decile would rest on less than ten requests.
const GROUP_MIN_REQUESTS: usize = 100;
/// Groups that the longer distances are divided into, of equal size.
const FAR_GROUPS: usize = 3;

/// Returns the requests, by their place, in groups: by operation, by distance from the end of the previous one, by
/// size. Too small a group is put to the previous one.
pub(crate) fn groups(measured: &[Measured]) -> Vec<Vec<usize>> {
    let mut groups = Vec::new();
    for op in [Op::Read, Op::Write] {
        let mut of_kind: Vec<usize> = (0..measured.len()).filter(|&place| measured[place].op == op).collect();
        of_kind.sort_by_key(|&place| distance(measured, place));
        let in_sequence = of_kind.partition_point(|&place| distance(measured, place) == 0);
        let (near, far) = of_kind.split_at(in_sequence);
        let thirds = far.chunks(far.len().div_ceil(FAR_GROUPS).max(1));
        let mut apart: Vec<Vec<usize>> = Vec::new();
        for alike in std::iter::once(near).chain(thirds) {
            let mut by_size = alike.to_vec();
            by_size.sort_by_key(|&place| measured[place].extent.sectors);
            let middle = by_size.get(by_size.len() / 2).map(|&place| measured[place].extent.sectors);
            let small = by_size.partition_point(|&place| Some(measured[place].extent.sectors) < middle);
            let (small, large) = by_size.split_at(small);
            apart.extend([small, large].map(<[usize]>::to_vec));
        }
        groups.extend(joined(apart));
    }
    groups
}

/// Sectors between the end of the request before and the beginning of this one.
fn distance(measured: &[Measured], place: usize) -> u64 {
    let before = place.checked_sub(1).map_or(0, |before| measured[before].extent.end().0);
    measured[place].extent.start.0.abs_diff(before)
}

fn joined(apart: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for group in apart {
        match groups.last_mut() {
            Some(last) if last.len() < GROUP_MIN_REQUESTS || group.len() < GROUP_MIN_REQUESTS => {
                last.extend(group)
            }
            _ => groups.push(group),
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::any_measured;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_request_is_in_one_group_of_its_kind(measured in prop::collection::vec(any_measured(), 1..8)) {
            let measured = measured.concat();
            let groups = groups(&measured);
            let mut all: Vec<usize> = groups.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..measured.len()).collect::<Vec<_>>());
            for group in &groups {
                prop_assert!(group.iter().all(|&place| measured[place].op == measured[group[0]].op));
            }
            for op in [Op::Read, Op::Write] {
                let sizes = groups.iter().filter(|group| measured[group[0]].op == op).map(Vec::len);
                let sizes: Vec<usize> = sizes.collect();
                prop_assert!(sizes.len() < 2 || sizes.iter().all(|&size| size >= GROUP_MIN_REQUESTS), "{sizes:?}");
            }
        }
    }
}
