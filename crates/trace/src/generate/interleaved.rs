//! Several sequential streams, with one command of each in turn, which defeat a cache with fewer segments than streams.

use sakiyomi_model::{Bytes, StreamId};

use super::sample::Sampler;
use super::sequential::Sequential;
use super::{Place, SECTOR_BYTES, require};
use crate::error::TraceError;

/// Maximum number of streams, whose state is kept in memory.
const STREAMS_MAX: u32 = 1 << 20;
/// Alignment of the streams' parts, if they are larger than this.
const PART_ALIGN_BYTES: u64 = 1 << 20;

pub(super) struct Interleaved {
    streams: Vec<Sequential>,
    turn: u32,
}

impl Interleaved {
    pub(super) fn new(span: Bytes, streams: u32, longest: Bytes) -> Result<Interleaved, TraceError> {
        require((1..=STREAMS_MAX).contains(&streams), "the number of streams", streams, "from 1 to 2^20")?;
        let share = span.0 / u64::from(streams);
        let align = if share >= PART_ALIGN_BYTES { PART_ALIGN_BYTES } else { SECTOR_BYTES };
        let part = Bytes(share - share % align);
        require(
            longest <= part,
            "each stream's part of the span",
            part,
            "at least the longest command's size",
        )?;
        let streams = (0..u64::from(streams)).map(|at| Sequential::new(part * at, part)).collect();
        Ok(Interleaved { streams, turn: 0 })
    }
}

impl Place for Interleaved {
    fn next(&mut self, length: Bytes, _: &mut Sampler) -> (StreamId, Bytes) {
        let turn = self.turn;
        self.turn = (turn + 1) % self.streams.len() as u32;
        (StreamId(turn), self.streams[turn as usize].advance(length))
    }
}
