//! File layout of the desktop workload: groups of files, each in its own part of the disk, in disjoint extents.

use sakiyomi_model::Bytes;

use super::super::sample::Sampler;
use super::super::sequential::Sequential;
use super::PcParams;

/// Maximum size of a command. An extent holds at least one.
pub(super) const COMMAND_MAX: Bytes = Bytes(256 << 10);
/// Allocation unit of the file system.
pub(super) const CLUSTER_BYTES: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A group of files in a part of the disk, with log-uniformly distributed sizes from `size_min` to `size_max`.
pub(super) struct Group {
    files: u32,
    size_min: Bytes,
    size_max: Bytes,
    /// Part of the disk, in thousandths of the span.
    part: std::ops::Range<u64>,
}

/// The groups, indexed by the constants below. Together they hold about 9 GiB: on a large disk most of a part is gaps,
/// occupied by other files.
pub(super) const GROUPS: [Group; 4] = [
    Group { files: 600, size_min: Bytes(512 << 10), size_max: Bytes(8 * MIB), part: 20..250 },
    Group { files: 250, size_min: Bytes(2 * MIB), size_max: Bytes(12 * MIB), part: 250..500 },
    Group { files: 8, size_min: Bytes(128 * MIB), size_max: Bytes(512 * MIB), part: 500..700 },
    Group { files: 24, size_min: Bytes(32 * MIB), size_max: Bytes(128 * MIB), part: 700..900 },
];
/// Index of the programs and their libraries.
pub(super) const PROGRAMS_GROUP: usize = 0;
/// Index of pictures and music.
pub(super) const MEDIA_GROUP: usize = 1;
/// Index of videos.
pub(super) const VIDEO_GROUP: usize = 2;
/// Index of a game's packed resources.
pub(super) const GAME_GROUP: usize = 3;

/// Position of the log, in thousandths of the span.
const LOG_AT_PER_MILLE: u64 = 0;
/// Position of the metadata, in thousandths of the span.
const METADATA_AT_PER_MILLE: u64 = 10;
/// Position of the free space for new files, in thousandths of the span.
const OUTPUT_AT_PER_MILLE: u64 = 900;
/// Size of the log, a ring buffer.
const LOG_SIZE: Bytes = Bytes(64 * MIB);
/// Size of the free space for new files.
const OUTPUT_SIZE: Bytes = Bytes(1024 * MIB);
/// Number of metadata clusters: few, which are reread often.
const METADATA_CLUSTERS: u64 = 64;

/// An extent of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: Bytes,
    pub(super) length: Bytes,
}

impl Piece {
    pub(super) fn end(self) -> Bytes {
        self.start + self.length
    }
}

pub(super) struct Layout {
    /// For each group, the extents of each file, in file order.
    pub(super) groups: Vec<Vec<Vec<Piece>>>,
    pub(super) log: Sequential,
    pub(super) output: Sequential,
    metadata: Bytes,
}

impl Layout {
    pub(super) fn new(params: &PcParams, sampler: &mut Sampler) -> Layout {
        let at = |thousandths: u64| align(params.span / 1000 * thousandths);
        let groups = GROUPS
            .iter()
            .map(|group| {
                let files: Vec<_> = (0..group.files).map(|_| pieces(group, params, sampler)).collect();
                place(&files, at(group.part.start), at(group.part.end), sampler)
            })
            .collect();
        Layout {
            groups,
            log: Sequential::new(at(LOG_AT_PER_MILLE), LOG_SIZE),
            output: Sequential::new(at(OUTPUT_AT_PER_MILLE), OUTPUT_SIZE),
            metadata: at(METADATA_AT_PER_MILLE),
        }
    }

    /// Returns a random position of metadata.
    pub(super) fn metadata(&self, sampler: &mut Sampler) -> Bytes {
        self.metadata + Bytes(CLUSTER_BYTES) * sampler.below(METADATA_CLUSTERS)
    }
}

fn align(size: Bytes) -> Bytes {
    Bytes(size.0 - size.0 % CLUSTER_BYTES)
}

/// Draws a file's size, and divides it into extent lengths.
fn pieces(group: &Group, params: &PcParams, sampler: &mut Sampler) -> Vec<Bytes> {
    let size = sampler.log_uniform(group.size_min.0 as f64, group.size_max.0 as f64) as u64;
    let mut left = align(Bytes(size));
    if !sampler.chance(params.fragmented) {
        return vec![left];
    }
    let mut lengths = Vec::new();
    while left > COMMAND_MAX * 2 {
        let length = align(Bytes(sampler.exponential(params.fragment.0 as f64) as u64));
        let length = length.max(COMMAND_MAX).min(left - COMMAND_MAX);
        lengths.push(length);
        left -= length;
    }
    lengths.push(left);
    lengths
}

/// Places the extents between `start` and `end`: in random order with random gaps, as on an aged file system.
fn place(files: &[Vec<Bytes>], start: Bytes, end: Bytes, sampler: &mut Sampler) -> Vec<Vec<Piece>> {
    let mut order: Vec<(usize, usize)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, pieces)| (0..pieces.len()).map(move |piece| (file, piece)))
        .collect();
    for last in (1..order.len()).rev() {
        order.swap(last, sampler.below(last as u64 + 1) as usize);
    }
    let used: Bytes = files.iter().flatten().copied().sum();
    let mut gap_left = (end - start).saturating_sub(used);
    let mut next = start;
    let mut placed: Vec<Vec<Piece>> =
        files.iter().map(|pieces| vec![Piece { start, length: Bytes::ZERO }; pieces.len()]).collect();
    for (at, &(file, piece)) in order.iter().enumerate() {
        let mean = gap_left.0 as f64 / (order.len() - at) as f64;
        let gap = align(Bytes(sampler.exponential(mean) as u64).min(gap_left));
        gap_left -= gap;
        next += gap;
        let length = files[file][piece];
        placed[file][piece] = Piece { start: next, length };
        next += length;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::super::SPAN_MIN;
    use super::*;

    #[test]
    fn pieces_lie_inside_their_parts_and_do_not_overlap() {
        for fragmented in [0.0, 0.3, 1.0] {
            let params = PcParams { span: SPAN_MIN, fragmented, ..PcParams::default() };
            let layout = Layout::new(&params, &mut Sampler::new(8));
            let mut all: Vec<Piece> = layout.groups.iter().flatten().flatten().copied().collect();
            all.sort_by_key(|piece| piece.start);
            assert!(all.iter().all(|piece| piece.length >= COMMAND_MAX));
            assert!(all.windows(2).all(|pair| pair[0].end() <= pair[1].start));
            assert!(all.last().unwrap().end() <= params.span / 1000 * OUTPUT_AT_PER_MILLE);
        }
    }
}
