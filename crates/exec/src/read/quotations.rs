//! Pieces whose ends depend on all bytes before them: whether a quotation is open at their beginning is known only
//! after the pieces before them have been searched. Until then they wait here, with their permits.

use std::collections::BTreeMap;

use super::semaphore::Permit;
use super::stream::Bytes;

/// Bytes of a file to be processed.
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    pub(super) permit: Option<Permit>,
}

/// The state of quotations at the beginning of pieces.
pub(super) struct Quotations {
    /// Up to this offset the state is known.
    known: u64,
    is_quoted: bool,
    /// By offset; with each piece, whether it changes the state.
    waiting: BTreeMap<u64, (bool, Piece)>,
}

impl Quotations {
    pub(super) fn new(start: u64) -> Quotations {
        Quotations { known: start, is_quoted: false, waiting: BTreeMap::new() }
    }

    /// Adds a piece; returns the pieces whose state is known now, with the state.
    pub(super) fn add(&mut self, piece: Piece, changes: bool) -> Vec<(bool, Piece)> {
        self.waiting.insert(piece.offset, (changes, piece));
        let mut ready = Vec::new();
        while let Some((changes, piece)) = self.waiting.remove(&self.known) {
            self.known += piece.bytes.len() as u64;
            let is_quoted = self.is_quoted;
            self.is_quoted ^= changes;
            ready.push((is_quoted, piece));
        }
        ready
    }

    /// Drops the pieces that are no longer wanted, since those before them may never arrive.
    pub(super) fn retain(&mut self, wants: impl Fn(u64) -> bool) {
        self.waiting.retain(|&offset, _| wants(offset));
    }
}
