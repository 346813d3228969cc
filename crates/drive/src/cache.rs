//! The buffer: read segments, dirty data, and recently evicted ranges.

mod ghost;
mod grid;
mod media_cache;
mod segments;
mod tournament;
mod write;

pub(crate) use ghost::Ghosts;
pub(crate) use media_cache::MediaCache;
pub(crate) use segments::{SegmentId, Segments};
pub(crate) use write::{DestageCandidate, WriteCache};
