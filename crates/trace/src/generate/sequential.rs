//! Sequential addresses with wrap-around.

use sakiyomi_model::{Bytes, StreamId};

use super::Place;
use super::sample::Sampler;

pub(super) struct Sequential {
    start: Bytes,
    span: Bytes,
    next: Bytes,
}

impl Sequential {
    /// Creates the sequence over `span` bytes from `start`.
    pub(super) fn new(start: Bytes, span: Bytes) -> Sequential {
        Sequential { start, span, next: Bytes::ZERO }
    }

    /// Returns the address of the next `length` bytes; wraps around if they do not fit before the end.
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
