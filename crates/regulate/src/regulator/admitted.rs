//! The requests of others in a device that serves several at once.

use sakiyomi_model::Bytes;

use crate::profile::size_class;

/// Requests of others in the device, by their sizes.
#[derive(Clone, Debug, Default)]
pub(super) struct Admitted {
    /// Number by class of size.
    counts: [u32; 4],
}

impl Admitted {
    pub(super) fn issued(&mut self, piece: Bytes) {
        self.counts[size_class(piece)] += 1;
    }

    pub(super) fn left(&mut self, piece: Bytes) {
        self.counts[size_class(piece)] -= 1;
    }

    /// Returns whether there is room for `piece` if there may be `most` requests of each class of size alone.
    pub(super) fn has_room(&self, piece: Bytes, most: [u32; 4]) -> bool {
        let mut counts = self.counts;
        counts[size_class(piece)] += 1;
        let parts = counts.iter().zip(most).filter(|(count, _)| **count > 0);
        // No request of a class of which there may be none: 1/0 is more than all.
        parts.map(|(&count, most)| f64::from(count) / f64::from(most)).sum::<f64>() <= 1.0
    }
}
