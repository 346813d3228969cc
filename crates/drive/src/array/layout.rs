//! Placement of an array's addresses on its members.
//!
//! Addresses are divided into chunks, and rows of one chunk per member. In RAID 5 the parity chunk moves by one member
//! per row towards the first, and data follows it (left-symmetric, Lee & Katz 1993); RAID 6 has its second parity chunk
//! after the first.

use crate::spec::{ArraySpec, RaidLevel};

/// Consecutive sectors of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) member: usize,
    pub(crate) start: u64,
    pub(crate) sectors: u64,
}

/// Consecutive sectors of the array within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) row: u64,
    /// Index of the chunk among the data chunks of its row.
    pub(crate) index: u64,
    /// First sector within the chunk.
    pub(crate) from: u64,
    /// First sector after the part, within the chunk.
    pub(crate) to: u64,
}

/// Placement of an array.
#[derive(Clone, Debug)]
pub(crate) struct ArrayLayout {
    level: RaidLevel,
    members: u64,
    /// Sectors per chunk.
    pub(crate) chunk: u64,
    pub(crate) rows: u64,
}

impl ArrayLayout {
    /// Places an array on members of `capacity` sectors of `sector` bytes.
    pub(crate) fn new(spec: &ArraySpec, sector: u64, capacity: u64) -> ArrayLayout {
        let members = u64::from(spec.members);
        // RAID 1 has no chunks: a request is not divided.
        let chunk = if spec.level == RaidLevel::Raid1 { capacity.max(1) } else { spec.chunk.0 / sector };
        ArrayLayout { level: spec.level, members, chunk, rows: capacity / chunk }
    }

    /// Returns the number of data chunks per row.
    pub(crate) fn data_chunks(&self) -> u64 {
        match self.level {
            RaidLevel::Raid0 => self.members,
            RaidLevel::Raid1 => 1,
            RaidLevel::Raid5 | RaidLevel::Raid6 => self.members - u64::from(self.level.parities()),
            RaidLevel::Raid10 => self.members / 2,
        }
    }

    /// Returns the number of addressable sectors.
    pub(crate) fn capacity(&self) -> u64 {
        self.rows * self.data_chunks() * self.chunk
    }

    /// Divides `start..end` at chunks.
    pub(crate) fn parts(&self, start: u64, end: u64) -> impl Iterator<Item = Part> {
        let (chunk, data) = (self.chunk, self.data_chunks());
        let mut at = start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (number, from) = (at / chunk, at % chunk);
            let to = chunk.min(from + (end - at));
            at += to - from;
            Some(Part { row: number / data, index: number % data, from, to })
        })
    }

    /// Returns the members that hold the data chunk `index` of a row: one, or its mirrors.
    pub(crate) fn holders(&self, row: u64, index: u64) -> std::ops::Range<usize> {
        let first = match self.level {
            RaidLevel::Raid0 => index,
            RaidLevel::Raid1 => return 0..self.members as usize,
            RaidLevel::Raid10 => return 2 * index as usize..2 * index as usize + 2,
            RaidLevel::Raid5 => (self.parity(row) + 1 + index) % self.members,
            RaidLevel::Raid6 => (self.parity(row) + 2 + index) % self.members,
        };
        first as usize..first as usize + 1
    }

    /// Returns the members that hold the parity chunks of a row.
    pub(crate) fn parities(&self, row: u64) -> impl Iterator<Item = usize> {
        let (first, members) = (self.parity(row), self.members);
        (0..u64::from(self.level.parities())).map(move |index| ((first + index) % members) as usize)
    }

    /// Returns the sectors `from..to` of a row's chunk on a member.
    pub(crate) fn piece(&self, member: usize, row: u64, from: u64, to: u64) -> Piece {
        Piece { member, start: row * self.chunk + from, sectors: to - from }
    }

    fn parity(&self, row: u64) -> u64 {
        self.members - 1 - row % self.members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sakiyomi_model::Bytes;
    use std::collections::BTreeMap;

    fn layouts() -> impl Strategy<Value = (ArraySpec, ArrayLayout)> {
        let levels =
            vec![RaidLevel::Raid0, RaidLevel::Raid1, RaidLevel::Raid5, RaidLevel::Raid6, RaidLevel::Raid10];
        (prop::sample::select(levels), 0u32..6, 1u64..20, 0u64..150).prop_map(
            |(level, more, chunk, capacity)| {
                let members = level.members_min() + if level == RaidLevel::Raid10 { 2 * more } else { more };
                let spec = ArraySpec { level, members, chunk: Bytes(chunk * 512), ..ArraySpec::default() };
                let layout = ArrayLayout::new(&spec, 512, capacity);
                (spec, layout)
            },
        )
    }

    proptest! {
        /// Every sector of a member up to the last row holds exactly one address, or parity of its row.
        #[test]
        fn addresses_and_parity_fill_the_rows_of_all_members_once((spec, layout) in layouts()) {
            let mut places: BTreeMap<(usize, u64), Option<u64>> = BTreeMap::new();
            for part in layout.parts(0, layout.capacity()) {
                for member in layout.holders(part.row, part.index) {
                    let piece = layout.piece(member, part.row, part.from, part.to);
                    for sector in 0..piece.sectors {
                        let address = (part.row * layout.data_chunks() + part.index) * layout.chunk + sector;
                        prop_assert_eq!(places.insert((member, piece.start + sector), Some(address)), None);
                    }
                }
            }
            for row in 0..layout.rows {
                for member in layout.parities(row) {
                    for sector in 0..layout.chunk {
                        let place = (member, row * layout.chunk + sector);
                        prop_assert_eq!(places.insert(place, None), None);
                    }
                }
            }
            let whole = layout.rows * layout.chunk * u64::from(spec.members);
            prop_assert_eq!(places.len() as u64, whole);
            let copies = u64::from(spec.copies());
            prop_assert_eq!(places.values().flatten().count() as u64, layout.capacity() * copies);
        }

        #[test]
        fn parts_cover_a_request_in_order((_, layout) in layouts(), from in 0u64..500, length in 0u64..200) {
            let (start, end) = (from.min(layout.capacity()), (from + length).min(layout.capacity()));
            let mut at = start;
            for part in layout.parts(start, end) {
                let address = (part.row * layout.data_chunks() + part.index) * layout.chunk + part.from;
                prop_assert_eq!(address, at);
                prop_assert!(part.from < part.to && part.to <= layout.chunk);
                at += part.to - part.from;
            }
            prop_assert_eq!(at, end);
        }
    }
}
