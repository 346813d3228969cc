//! Accesses of the members for a request: what is read first, and what is written then.
//!
//! | request | accesses |
//! |---|---|
//! | read | the data; without its member, as many chunks of the row as it has data |
//! | write of a whole row | data and parity, no reads |
//! | write of at most half a row | old data and old parity first (read-modify-write): on RAID 5 two reads and two writes, on RAID 6 three of each |
//! | write of more | the row's other data first (reconstruct-write) |
//!
//! A write that lacks what it would have to read takes the other way, or reads as many chunks as restore the row.

use super::layout::{ArrayLayout, Part, Piece};

/// Accesses of one row, or of a request without parity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) reads: Vec<Piece>,
    /// Written when all reads have ended.
    pub(crate) writes: Vec<Piece>,
}

/// Returns the accesses for reading the parts of one row whose data is lost: `alive` tells which members hold current
/// data at a row. `None` if the row cannot be restored.
pub(crate) fn restore(
    layout: &ArrayLayout,
    row: u64,
    (from, to): (u64, u64),
    alive: &impl Fn(usize, u64) -> bool,
) -> Option<Vec<Piece>> {
    let data = (0..layout.data_chunks()).flat_map(|index| layout.holders(row, index));
    let chunks = data.chain(layout.parities(row)).filter(|member| alive(*member, row));
    let pieces: Vec<Piece> = chunks
        .take(layout.data_chunks() as usize)
        .map(|member| layout.piece(member, row, from, to))
        .collect();
    (pieces.len() as u64 == layout.data_chunks()).then_some(pieces)
}

/// Returns the accesses for writing `parts`, which lie in one row of an array with parity.
pub(crate) fn write_row(
    layout: &ArrayLayout,
    parts: &[Part],
    alive: &impl Fn(usize, u64) -> bool,
) -> Option<Step> {
    let row = parts.first()?.row;
    let holder = |index: u64| layout.holders(row, index).start;
    let is_alive = |member: &usize| alive(*member, row);
    let from = parts.iter().map(|part| part.from).min()?;
    let to = parts.iter().map(|part| part.to).max()?;
    let parities: Vec<usize> = layout.parities(row).filter(is_alive).collect();
    let data = parts.iter().map(|part| layout.piece(holder(part.index), row, part.from, part.to));
    let parity = |from, to| parities.iter().map(move |member| layout.piece(*member, row, from, to));
    let mut writes: Vec<Piece> = data.clone().filter(|piece| alive(piece.member, row)).collect();
    writes.extend(parity(from, to));
    if writes.is_empty() {
        return None;
    }
    // Sectors of the row between the first and the last offset written that keep their data.
    let kept = |index: u64| {
        let part = parts.iter().find(|part| part.index == index);
        let (first, end) = part.map_or((to, to), |part| (part.from, part.to));
        let pieces = [(from, first), (end, to)].into_iter().filter(|(from, to)| from < to);
        pieces.map(move |(from, to)| layout.piece(holder(index), row, from, to))
    };
    let others: Vec<Piece> = (0..layout.data_chunks()).flat_map(kept).collect();
    let is_whole = others.is_empty() || parities.is_empty();
    let old: Vec<Piece> = data.clone().chain(parity(from, to)).collect();
    let all_alive = |pieces: &[Piece]| pieces.iter().all(|piece| alive(piece.member, row));
    let is_small = 2 * parts.len() as u64 <= layout.data_chunks();
    let ways = if is_small { [old, others] } else { [others, old] };
    let reads = match ways.into_iter().find(|pieces| all_alive(pieces)) {
        _ if is_whole => Vec::new(),
        Some(pieces) => pieces,
        None => restore(layout, row, (from, to), alive)?,
    };
    Some(Step { reads, writes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ArraySpec, RaidLevel};

    fn layout(text: &str) -> ArrayLayout {
        let spec: ArraySpec = text.parse().unwrap();
        ArrayLayout::new(&spec, 512, 100_000)
    }

    fn write(text: &str, start: u64, sectors: u64, failed: &[usize]) -> (usize, usize) {
        let layout = layout(text);
        let parts: Vec<Part> = layout.parts(start, start + sectors).collect();
        let step = write_row(&layout, &parts, &|member, _| !failed.contains(&member)).unwrap();
        let members = |pieces: &[Piece]| {
            let mut members: Vec<usize> = pieces.iter().map(|piece| piece.member).collect();
            members.sort_unstable();
            members.dedup();
            assert!(members.iter().all(|member| !failed.contains(member)), "a failed drive is not accessed");
            pieces.len()
        };
        (members(&step.reads), members(&step.writes))
    }

    #[test]
    fn a_small_write_is_two_reads_and_two_writes_on_raid_5_and_three_of_each_on_raid_6() {
        for members in 3..12 {
            assert_eq!(write(&format!("raid5:{members}:4KiB"), 3, 2, &[]), (2, 2), "{members}");
        }
        for members in 4..12 {
            assert_eq!(write(&format!("raid6:{members}:4KiB"), 3, 2, &[]), (3, 3), "{members}");
        }
    }

    #[test]
    fn a_write_of_a_whole_row_reads_nothing() {
        assert_eq!(write("raid5:4:4KiB", 24, 24, &[]), (0, 4));
        assert_eq!(write("raid6:6:4KiB", 32, 32, &[]), (0, 6));
        assert_eq!(write("raid6:6:4KiB", 32, 32, &[0, 5]), (0, 4));
    }

    #[test]
    fn a_large_write_reads_the_other_data() {
        // Four of five data chunks.
        assert_eq!(write("raid5:6:4KiB", 0, 32, &[]), (1, 5));
        assert_eq!(write("raid6:7:4KiB", 0, 32, &[]), (1, 6));
    }

    #[test]
    fn without_a_member_a_write_reads_what_is_left() {
        // Row 0 of four members: data on 0, 1, 2, parity on 3.
        assert_eq!(write("raid5:4:4KiB", 0, 2, &[3]), (0, 1), "the parity is lost: nothing to update");
        assert_eq!(write("raid5:4:4KiB", 0, 2, &[0]), (2, 1), "the data is lost: parity from the other data");
        assert_eq!(write("raid5:4:4KiB", 0, 2, &[1]), (2, 2), "other data is lost: as usual");
        // Rows of RAID 6: data on 1, 2, 3, 4 behind the parity on 5 and 0.
        assert_eq!(write("raid6:6:4KiB", 0, 2, &[1, 2]), (4, 2), "both data and other data are lost");
    }

    #[test]
    fn a_lost_chunk_is_restored_from_as_many_chunks_as_hold_data() {
        for (text, failed, chunks) in [("raid5:4:4KiB", vec![1], 3), ("raid6:6:4KiB", vec![1, 0], 4)] {
            let layout = layout(text);
            let pieces = restore(&layout, 0, (2, 6), &|member, _| !failed.contains(&member)).unwrap();
            assert_eq!(pieces.len(), chunks);
            assert!(pieces.iter().all(|piece| !failed.contains(&piece.member) && piece.sectors == 4));
            assert_eq!(restore(&layout, 0, (2, 6), &|member, _| member > 2), None);
        }
        assert_eq!(RaidLevel::Raid6.parities(), 2);
    }
}
