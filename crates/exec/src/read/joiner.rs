//! Records and blocks that cross the boundaries of pieces: each piece yields its whole ones, and its edges are joined
//! with those of its neighbors.

use std::collections::BTreeMap;
use std::ops::Range;

/// A joined record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Start of the piece in which it ends: it belongs before the records that follow there.
    pub(super) place: u64,
    /// Offset of its first byte.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

/// A record exceeds this number of bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong(pub(super) u64);

/// Adjacent pieces, reduced to their outer edges.
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
    /// Start of the piece in which the record ends; after joining with the bytes before it, the record belongs here.
    at: u64,
    /// Whether it was already returned, as the first record of all.
    given: bool,
}

/// Joins the edges of pieces that arrive in any order.
#[derive(Debug)]
pub(super) struct Joiner {
    most: u64,
    /// Offset of the first piece.
    start: u64,
    runs: BTreeMap<u64, Run>,
}

impl Joiner {
    /// Makes a joiner for records of at most `most` bytes; the first one begins at `start`.
    pub(super) fn new(most: u64, start: u64) -> Joiner {
        Joiner { most, start, runs: BTreeMap::new() }
    }

    /// Adds a piece: its bytes before the first end of a record, and those after the last one, or all bytes if none
    /// ends there. Returns the records that it completes.
    pub(super) fn add(
        &mut self,
        piece: Range<u64>,
        head: &[u8],
        tail: Option<&[u8]>,
    ) -> Result<Vec<Joined>, TooLong> {
        let (mut start, mut joined) = (piece.start, Vec::new());
        let head = Edge { bytes: head.to_vec(), at: piece.start, given: false };
        let mut run = Run { end: piece.end, head, tail: tail.map(<[u8]>::to_vec) };
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
            let (place, bytes) = (run.head.at, std::mem::take(&mut run.head.bytes));
            joined.push(Joined { place, start, bytes });
            run.head.given = true;
        }
        let longest = run.head.bytes.len().max(run.tail.as_ref().map_or(0, Vec::len));
        if longest as u64 > self.most {
            return Err(TooLong(self.most));
        }
        self.runs.insert(start, run);
        Ok(joined)
    }

    /// Returns the last record if it lacks an end; to be called after all pieces.
    pub(super) fn finish(&mut self) -> Vec<Joined> {
        let Some((_, run)) = self.runs.pop_first() else { return Vec::new() };
        assert!(self.runs.is_empty(), "a piece is missing");
        let (place, bytes) = (run.end, run.tail.unwrap_or(run.head.bytes));
        vec![Joined { place, start: place - bytes.len() as u64, bytes }]
    }
}

impl Run {
    fn then(mut self, next: Run, joined: &mut Vec<Joined>) -> Run {
        let middle = std::mem::replace(&mut self.end, next.end);
        match (&mut self.tail, next.tail) {
            (Some(tail), None) => tail.extend_from_slice(&next.head.bytes),
            (Some(tail), Some(next_tail)) => {
                let start = middle - tail.len() as u64;
                tail.extend_from_slice(&next.head.bytes);
                let bytes = std::mem::replace(tail, next_tail);
                joined.push(Joined { place: next.head.at, start, bytes });
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
