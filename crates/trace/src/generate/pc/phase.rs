//! Phases of the desktop workload: their files, and the choice of the next read.

use sakiyomi_model::Bytes;

use super::super::sample::Sampler;
use super::PcParams;
use super::layout::{CLUSTER_BYTES, GAME_GROUP, Layout, MEDIA_GROUP, PROGRAMS_GROUP, Piece, VIDEO_GROUP};

/// A phase of a round.
pub(super) struct Phase {
    /// Group of its files.
    group: usize,
    /// Number of files open at a time.
    open_files: usize,
    /// Share of the commands, in hundredths.
    pub(super) weight: u32,
    /// Factor on the mean share of writes; the weighted mean of all phases is 1.
    pub(super) write_factor: f64,
}

/// Application start, media import, virus scan, video editing, gaming.
pub(super) const PHASES: [Phase; 5] = [
    Phase { group: PROGRAMS_GROUP, open_files: 2, weight: 25, write_factor: 0.4 },
    Phase { group: MEDIA_GROUP, open_files: 1, weight: 15, write_factor: 2.4 },
    Phase { group: PROGRAMS_GROUP, open_files: 1, weight: 20, write_factor: 0.2 },
    Phase { group: VIDEO_GROUP, open_files: 2, weight: 20, write_factor: 2.0 },
    Phase { group: GAME_GROUP, open_files: 3, weight: 20, write_factor: 0.5 },
];
/// Sum of the weights.
pub(super) const WEIGHT_TOTAL: u32 = 100;

/// Reader of a phase's files.
pub(super) struct Reader {
    group: usize,
    open: Vec<Cursor>,
    current: usize,
}

/// Read position in an open file.
struct Cursor {
    piece: Piece,
    next: Bytes,
}

impl Reader {
    pub(super) fn new(phase: &Phase, layout: &Layout, sampler: &mut Sampler) -> Reader {
        let open =
            (0..phase.open_files).map(|_| Cursor::jump(&layout.groups[phase.group], sampler)).collect();
        Reader { group: phase.group, open, current: 0 }
    }

    /// Returns address and length of the next read.
    pub(super) fn read(
        &mut self,
        params: &PcParams,
        layout: &Layout,
        sampler: &mut Sampler,
    ) -> (Bytes, Bytes) {
        let kind = sampler.unit();
        if kind < params.metadata {
            return (layout.metadata(sampler), Bytes(CLUSTER_BYTES));
        }
        if sampler.chance(params.turn) {
            self.current = sampler.below(self.open.len() as u64) as usize;
        }
        let length = params.read_sizes.sample(sampler);
        let cursor = &mut self.open[self.current];
        let skip_from = params.metadata + params.sequential;
        let forward = if kind < skip_from {
            Some(Bytes::ZERO)
        } else if kind < skip_from + params.skip {
            Some(skip_distance(params, sampler))
        } else {
            None
        };
        let start = forward.and_then(|distance| cursor.forward(distance, length)).unwrap_or_else(|| {
            *cursor = Cursor::jump(&layout.groups[self.group], sampler);
            cursor.next
        });
        // An extent holds at least the longest command, but a jump may end near its end.
        let start = start.min(cursor.piece.end() - length);
        cursor.next = start + length;
        (start, length)
    }
}

impl Cursor {
    /// Returns a random position in the first half of a random extent of a random file, so that sequential reads can
    /// follow.
    fn jump(files: &[Vec<Piece>], sampler: &mut Sampler) -> Cursor {
        let file = &files[sampler.below(files.len() as u64) as usize];
        let piece = file[sampler.below(file.len() as u64) as usize];
        let clusters = piece.length.0 / CLUSTER_BYTES / 2;
        Cursor { piece, next: piece.start + Bytes(CLUSTER_BYTES) * sampler.below(clusters) }
    }

    /// Returns the position after a skip, if `length` bytes fit there before the extent ends.
    fn forward(&self, distance: Bytes, length: Bytes) -> Option<Bytes> {
        let start = self.next + distance;
        (start + length <= self.piece.end()).then_some(start)
    }
}

/// Draws a skip, a multiple of the allocation unit.
fn skip_distance(params: &PcParams, sampler: &mut Sampler) -> Bytes {
    let drawn = sampler.log_uniform(params.skip_min.0 as f64, params.skip_max.0 as f64) as u64;
    Bytes(drawn.next_multiple_of(CLUSTER_BYTES).min(params.skip_max.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_make_up_a_round() {
        assert_eq!(PHASES.iter().map(|phase| phase.weight).sum::<u32>(), WEIGHT_TOTAL);
        let writes: f64 = PHASES.iter().map(|phase| f64::from(phase.weight) * phase.write_factor).sum();
        assert!((writes / f64::from(WEIGHT_TOTAL) - 1.0).abs() < 0.01, "{writes}");
    }
}
