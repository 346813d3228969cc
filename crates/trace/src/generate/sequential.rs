//! One command after the other, round and round.

use sakiyomi_model::{Bytes, StreamId};

use super::Place;
use super::sample::Sampler;

pub(super) struct Sequential {
    start: Bytes,
    span: Bytes,
    next: Bytes,
}

impl Sequential {
    /// Over `span` bytes from `start`.
    pub(super) fn new(start: Bytes, span: Bytes) -> Sequential {
        Sequential { start, span, next: Bytes::ZERO }
    }

    /// The place of the next `length` bytes; what does not fit before the end goes to the start.
    pub(super) fn advance(&mut self, length: Bytes) -> Bytes {
        if self.next + length > self.span {
            self.next = Bytes::ZERO;
        }
        let offset = self.start + self.next;
        self.next += length;
        offset
    }
}

impl Place for Sequential {
    fn next(&mut self, length: Bytes, _: &mut Sampler) -> (StreamId, Bytes) {
        (StreamId(0), self.advance(length))
    }
}
