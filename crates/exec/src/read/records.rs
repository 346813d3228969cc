//! Records that cross block boundaries: each block yields its whole records, and its edges are joined with those of its
//! neighbors.

use std::collections::BTreeMap;
use std::ops::Range;

use memchr::{memchr, memrchr};

/// The byte that ends a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut(pub(super) u8);

impl Cut {
    /// Splits a block into the end of a record that began before, whole records, and the beginning of a record that
    /// continues; `None` if no record ends in the block.
    pub(super) fn split<'b>(&self, block: &'b [u8]) -> Option<(&'b [u8], &'b [u8], &'b [u8])> {
        let first = memchr(self.0, block)? + 1;
        let last = memrchr(self.0, block)? + 1;
        Some((&block[..first], &block[first..last], &block[last..]))
    }
}

/// A joined record, and its place: at the boundary at this offset, before the records that follow.
pub(super) type Joined = (u64, Vec<u8>);

/// A record exceeds this number of bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong(pub(super) u64);

/// Adjacent blocks, reduced to their outer edges.
#[derive(Debug)]
struct Run {
    end: u64,
    head: Edge,
    /// The bytes after the last end of a record, if there is one; otherwise all bytes are in `head`.
    tail: Option<Vec<u8>>,
}

/// The first bytes of a run, up to the first end of a record.
#[derive(Debug)]
struct Edge {
    bytes: Vec<u8>,
    /// Start of the block in which the record ends; after joining with the bytes before it, the record belongs here.
    at: u64,
    /// Whether it was already returned, as the first record of all.
    given: bool,
}

/// Joins the edges of blocks that arrive in any order.
#[derive(Debug)]
pub(super) struct Joiner {
    most: u64,
    /// Offset of the first block.
    start: u64,
    runs: BTreeMap<u64, Run>,
}

impl Joiner {
    /// Makes a joiner for records of at most `most` bytes; the first one begins at `start`.
    pub(super) fn new(most: u64, start: u64) -> Joiner {
        Joiner { most, start, runs: BTreeMap::new() }
    }

    /// Adds a block, split by [`Cut::split`] or without an end of a record; returns the records that it completes.
    pub(super) fn add(
        &mut self,
        block: Range<u64>,
        head: &[u8],
        tail: Option<&[u8]>,
    ) -> Result<Vec<Joined>, TooLong> {
        let (mut start, mut joined) = (block.start, Vec::new());
        let head = Edge { bytes: head.to_vec(), at: block.start, given: false };
        let mut run = Run { end: block.end, head, tail: tail.map(<[u8]>::to_vec) };
        if let Some((&at, _)) = self.runs.range(..start).next_back().filter(|(_, before)| before.end == start)
        {
            let before = self.runs.remove(&at).expect("just seen");
            (start, run) = (at, before.then(run, &mut joined));
        }
        if let Some(next) = self.runs.remove(&run.end) {
            run = run.then(next, &mut joined);
        }
        if start == self.start && run.tail.is_some() && !run.head.given {
            // Returned at once, because others can be written only after it.
            joined.push((run.head.at, std::mem::take(&mut run.head.bytes)));
            run.head.given = true;
        }
        let longest = run.head.bytes.len().max(run.tail.as_ref().map_or(0, Vec::len));
        if longest as u64 > self.most {
            return Err(TooLong(self.most));
        }
        self.runs.insert(start, run);
        Ok(joined)
    }

    /// Returns the last record if it lacks an end; to be called after all blocks.
    pub(super) fn finish(&mut self) -> Vec<Joined> {
        let Some((_, run)) = self.runs.pop_first() else { return Vec::new() };
        assert!(self.runs.is_empty(), "a block is missing");
        let end = run.end;
        match run.tail {
            None => vec![(end, run.head.bytes)],
            Some(tail) => vec![(end, tail)],
        }
    }
}

impl Run {
    fn then(mut self, next: Run, joined: &mut Vec<Joined>) -> Run {
        self.end = next.end;
        match (&mut self.tail, next.tail) {
            (Some(tail), None) => tail.extend_from_slice(&next.head.bytes),
            (Some(tail), Some(next_tail)) => {
                tail.extend_from_slice(&next.head.bytes);
                joined.push((next.head.at, std::mem::replace(tail, next_tail)));
            }
            (None, next_tail) => {
                self.head.bytes.extend_from_slice(&next.head.bytes);
                if next_tail.is_some() {
                    self.head.at = next.head.at;
                }
                self.tail = next_tail;
            }
        }
        self
    }
}
