//! Several files in a row as one sequence of bytes.
//!
//! Each file takes a page more than its size, rounded up to pages: what is known about a file takes memory, too, and its
//! being opened takes time, so that thousands of small files are bounded as a large one is. Pure.

use std::ops::Range;

const PAGE_BYTES: u64 = 4096;

/// Cost of opening a file, expressed as bytes of its contents: the metadata that the system reads and keeps.
const OPEN_COST_BYTES: u64 = PAGE_BYTES;

/// Files in a row, each with what belongs to it.
#[derive(Debug)]
pub(super) struct Row<T> {
    files: Vec<Member<T>>,
}

#[derive(Debug)]
struct Member<T> {
    start: u64,
    size: u64,
    of: T,
}

/// A part of one of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Which of the files.
    pub(super) index: usize,
    /// Bytes of it; empty if the file is, which is to be opened all the same.
    pub(super) range: Range<u64>,
}

impl<T> Row<T> {
    pub(super) fn new(first: T, size: u64) -> Row<T> {
        Row { files: vec![Member { start: 0, size, of: first }] }
    }

    pub(super) fn push(&mut self, of: T, size: u64) {
        let start = self.files.last().map_or(0, |last| last.start + footprint(last.size));
        self.files.push(Member { start, size, of });
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// How many bytes there are. A file alone has its own size.
    pub(super) fn size(&self) -> u64 {
        match &*self.files {
            [alone] => alone.size,
            files => files.last().map_or(0, |last| last.start + footprint(last.size)),
        }
    }

    /// The size of one of the files.
    pub(super) fn size_of(&self, index: usize) -> u64 {
        self.files[index].size
    }

    /// The last file has another size now: only its, because the others' places are settled.
    pub(super) fn resize_last(&mut self, size: u64) {
        if let Some(last) = self.files.last_mut() {
            last.size = size;
        }
    }

    pub(super) fn get(&self, index: usize) -> &T {
        &self.files[index].of
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.files[index].of
    }

    /// Where a position in one of the files is in the row.
    pub(super) fn position(&self, index: usize, offset: u64) -> u64 {
        let member = &self.files[index];
        member.start + offset.min(member.size)
    }

    /// Which of the files a position is in, what lies between one and the next being the former's.
    pub(super) fn index_at(&self, position: u64) -> usize {
        self.files.partition_point(|member| member.start <= position).saturating_sub(1)
    }

    /// The files, and what of each, that a range of the row covers.
    pub(super) fn parts(&self, range: &Range<u64>) -> Vec<Part> {
        let first = self.index_at(range.start);
        let touched = self.files.iter().enumerate().skip(first);
        let touched = touched.take_while(|(_, member)| member.start < range.end);
        let part = touched.filter_map(|(index, member)| {
            let end = range.end.saturating_sub(member.start).min(member.size);
            let start = range.start.saturating_sub(member.start);
            // Of a file whose bytes are covered by another range, nothing is left to do.
            let begins_here = range.start <= member.start;
            (start < end || begins_here).then_some(Part { index, range: start.min(end)..end })
        });
        part.collect()
    }
}

/// What a file takes of the row.
fn footprint(size: u64) -> u64 {
    size.next_multiple_of(PAGE_BYTES) + OPEN_COST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(sizes: &[u64]) -> Row<usize> {
        let mut row = Row::new(0, sizes[0]);
        sizes.iter().enumerate().skip(1).for_each(|(index, &size)| row.push(index, size));
        row
    }

    #[test]
    fn a_file_alone_is_as_long_as_it_is() {
        let mut alone = row(&[5000]);
        assert_eq!(alone.size(), 5000);
        assert_eq!(alone.parts(&(100..5000)), [Part { index: 0, range: 100..5000 }]);
        alone.resize_last(6000);
        assert_eq!(alone.size(), 6000);
    }

    #[test]
    fn a_small_file_takes_two_pages() {
        let three = row(&[10, 0, 4096]);
        assert_eq!(three.size(), 8192 + 4096 + 8192);
        assert_eq!((three.index_at(10), three.index_at(8191), three.index_at(8192)), (0, 0, 1));
        assert_eq!((three.index_at(8192 + 4096), three.index_at(u64::MAX)), (2, 2), "an end is no beginning");
        assert_eq!((three.position(0, 10), three.position(1, 0), three.position(2, 5)), (10, 8192, 12293));
        let parts = three.parts(&(0..three.size()));
        assert_eq!(parts.iter().map(|part| part.range.clone()).collect::<Vec<_>>(), [0..10, 0..0, 0..4096]);
    }

    proptest! {
        #[test]
        fn ranges_side_by_side_cover_every_byte_once(
            sizes in prop::collection::vec(0u64..20_000, 1..12),
            cuts in prop::collection::vec(0u64..200_000, 0..12),
        ) {
            let row = row(&sizes);
            let mut cuts: Vec<u64> = cuts.into_iter().map(|cut| cut.min(row.size())).collect();
            cuts.extend([0, row.size()]);
            cuts.sort_unstable();
            let mut covered = vec![0; sizes.len()];
            let mut opened = vec![false; sizes.len()];
            for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
                for Part { index, range } in row.parts(&(cut[0]..cut[1])) {
                    opened[index] = true;
                    if !range.is_empty() {
                        prop_assert_eq!(covered[index], range.start);
                        covered[index] = range.end;
                        let at = row.position(index, range.start);
                        prop_assert!(cut[0] <= at && at < cut[1]);
                    }
                }
            }
            prop_assert_eq!(&covered, &sizes);
            prop_assert!(row.size() == 0 || opened.iter().all(|&opened| opened));
        }
    }
}
