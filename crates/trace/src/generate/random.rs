//! Uniformly random addresses within the span.

use sakiyomi_model::{Bytes, StreamId};

use super::Place;
use super::sample::Sampler;

pub(super) struct Random {
    span: Bytes,
    align: Bytes,
}

impl Random {
    pub(super) fn new(span: Bytes, align: Bytes) -> Random {
        Random { span, align }
    }
}

impl Place for Random {
    fn next(&mut self, length: Bytes, sampler: &mut Sampler) -> (StreamId, Bytes) {
        let places = (self.span - length) / self.align.0;
        (StreamId(0), self.align * sampler.below(places.0 + 1))
    }
}
