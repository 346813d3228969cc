//! Several consecutive files as one sequence of bytes.
//!
//! Each file takes its size rounded up to pages plus one page: its metadata takes memory and its opening takes time, so
//! that thousands of small files are bounded like a large one. Pure.

use std::ops::Range;

const PAGE_BYTES: u64 = 4096;

/// Cost of opening a file, expressed as bytes of its contents: the metadata that the system reads and keeps.
const OPEN_COST_BYTES: u64 = PAGE_BYTES;

/// Consecutive files, each with associated data.
#[derive(Debug)]
pub(super) struct FileSequence<T> {
    files: Vec<Member<T>>,
}

#[derive(Debug)]
struct Member<T> {
    start: u64,
    size: u64,
    of: T,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Index of the file.
    pub(super) index: usize,
    /// Bytes of the file; an empty range if the file is empty, which is opened nevertheless.
    pub(super) range: Range<u64>,
}

impl<T> FileSequence<T> {
    pub(super) fn new(first: T, size: u64) -> FileSequence<T> {
        FileSequence { files: vec![Member { start: 0, size, of: first }] }
    }

    pub(super) fn push(&mut self, of: T, size: u64) {
        let start = self.files.last().map_or(0, |last| last.start + footprint(last.size));
        self.files.push(Member { start, size, of });
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the total size. A single file has its own size.
    pub(super) fn size(&self) -> u64 {
        match &*self.files {
            [alone] => alone.size,
            files => files.last().map_or(0, |last| last.start + footprint(last.size)),
        }
    }

    /// Returns the size of a file.
    pub(super) fn size_of(&self, index: usize) -> u64 {
        self.files[index].size
    }

    /// Changes the size of the last file; the positions of the others are fixed.
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

    /// Returns the position in the sequence of an offset in a file.
    pub(super) fn position(&self, index: usize, offset: u64) -> u64 {
        let member = &self.files[index];
        member.start + offset.min(member.size)
    }

    /// Returns the index of the file that contains a position; the space after a file belongs to it.
    pub(super) fn index_at(&self, position: u64) -> usize {
        self.files.partition_point(|member| member.start <= position).saturating_sub(1)
    }

    /// Returns the parts of files that a range of the sequence covers.
    pub(super) fn parts(&self, range: &Range<u64>) -> Vec<Part> {
        let first = self.index_at(range.start);
        let touched = self.files.iter().enumerate().skip(first);
        let touched = touched.take_while(|(_, member)| member.start < range.end);
        let part = touched.filter_map(|(index, member)| {
            let end = range.end.saturating_sub(member.start).min(member.size);
            let start = range.start.saturating_sub(member.start);
            // A file whose bytes are covered by another range needs nothing.
            let begins_here = range.start <= member.start;
            (start < end || begins_here).then_some(Part { index, range: start.min(end)..end })
        });
        part.collect()
    }
}

/// Returns the space that a file takes in the sequence.
fn footprint(size: u64) -> u64 {
    size.next_multiple_of(PAGE_BYTES) + OPEN_COST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sequence(sizes: &[u64]) -> FileSequence<usize> {
        let mut sequence = FileSequence::new(0, sizes[0]);
        sizes.iter().enumerate().skip(1).for_each(|(index, &size)| sequence.push(index, size));
        sequence
    }

    #[test]
    fn a_file_alone_is_as_long_as_it_is() {
        let mut alone = sequence(&[5000]);
        assert_eq!(alone.size(), 5000);
        assert_eq!(alone.parts(&(100..5000)), [Part { index: 0, range: 100..5000 }]);
        alone.resize_last(6000);
        assert_eq!(alone.size(), 6000);
    }

    #[test]
    fn a_small_file_takes_two_pages() {
        let three = sequence(&[10, 0, 4096]);
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
            let sequence = sequence(&sizes);
            let mut cuts: Vec<u64> = cuts.into_iter().map(|cut| cut.min(sequence.size())).collect();
            cuts.extend([0, sequence.size()]);
            cuts.sort_unstable();
            let mut covered = vec![0; sizes.len()];
            let mut opened = vec![false; sizes.len()];
            for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
                for Part { index, range } in sequence.parts(&(cut[0]..cut[1])) {
                    opened[index] = true;
                    if !range.is_empty() {
                        prop_assert_eq!(covered[index], range.start);
                        covered[index] = range.end;
                        let at = sequence.position(index, range.start);
                        prop_assert!(cut[0] <= at && at < cut[1]);
                    }
                }
            }
            prop_assert_eq!(&covered, &sizes);
            prop_assert!(sequence.size() == 0 || opened.iter().all(|&opened| opened));
        }
    }
}
