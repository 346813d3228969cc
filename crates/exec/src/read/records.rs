//! Records that boundaries cut: each block gives its whole records, and its edges are put together with its
//! neighbours'.

use std::collections::BTreeMap;
use std::ops::Range;

use memchr::{memchr, memrchr};

/// The byte that ends a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut(pub(super) u8);

impl Cut {
    /// The end of a record that began before, whole records, and the start of one that goes on; `None` if no record
    /// ends in the block.
    pub(super) fn split<'b>(&self, block: &'b [u8]) -> Option<(&'b [u8], &'b [u8], &'b [u8])> {
        let first = memchr(self.0, block)? + 1;
        let last = memrchr(self.0, block)? + 1;
        Some((&block[..first], &block[first..last], &block[last..]))
    }
}

/// A record that was put together, and where it belongs: at the boundary at this byte, before the records that
/// follow.
pub(super) type Joined = (u64, Vec<u8>);

/// More bytes of a record were found than are allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong(pub(super) u64);

/// Blocks that lie side by side, as far as their edges are concerned.
#[derive(Debug)]
struct Run {
    end: u64,
    head: Edge,
    /// Behind the last end of a record, if there is one; otherwise all of it is head.
    tail: Option<Vec<u8>>,
}

/// The first bytes of a run, up to the first end of a record.
#[derive(Debug)]
struct Edge {
    bytes: Vec<u8>,
    /// The block in which the record ends begins here; where it is put together with what is before, it belongs here.
    at: u64,
    /// Given out already, as the first of all.
    given: bool,
}

/// Puts edges together, in whatever order blocks come.
#[derive(Debug)]
pub(super) struct Joiner {
    most: u64,
    /// Offset of the first block.
    start: u64,
    runs: BTreeMap<u64, Run>,
}

impl Joiner {
    /// Records that are cut may be of `most` bytes; the first begins at `start`.
    pub(super) fn new(most: u64, start: u64) -> Joiner {
        Joiner { most, start, runs: BTreeMap::new() }
    }

    /// A block has come, cut as [`Cut::split`] does, or of no record's end: gives the records that are whole by it.
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
            // At once: others may be written only when it is.
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

    /// All blocks have come: gives the last record if it has no end.
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
