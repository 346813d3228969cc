//! Admission to a device that serves several requests at once, by its profile.

use super::Regulator;
use super::admitted::Admitted;
use super::planned::{Piece, Planned};

/// Standard deviations of service times that are kept free before the earliest arrival of an owner's next request.
const SLACK_ARRIVAL_DEVIATIONS: f64 = 2.0;

impl Regulator {
    /// Returns the next piece for the device: of an owner, or of others as far as there is room beside the owners.
    pub(super) fn next_in_parallel(&self, planned: &Planned, parallel: &Admitted) -> Option<Piece> {
        if let Some(piece) = self.next_of_owners() {
            return Some(piece);
        }
        let largest = self.largest_piece(planned);
        let pieces = self.candidates().into_iter().map(|turn| self.piece_of(turn.id, largest));
        pieces.into_iter().find(|piece| self.has_room_beside_owners(planned, parallel, piece))
    }

    fn has_room_beside_owners(&self, planned: &Planned, parallel: &Admitted, piece: &Piece) -> bool {
        let limits = planned.limits();
        if limits.parallel.is_none_or(|most| parallel.has_room(piece.size, most)) {
            return true;
        }
        if !self.deadlines.is_empty() || !self.presence.thinking().is_empty() {
            return false;
        }
        let beyond = planned.beyond + planned.beyond(piece.op, piece.size);
        let time = planned.profile().behind(self.device.len() as u32 + 1) + beyond;
        let ends_before = |arrival| self.now + time.bound(SLACK_ARRIVAL_DEVIATIONS) <= arrival;
        let arrives = self.presence.expected().map(|(arrival, _)| arrival).min();
        let away = self.presence.shortest_away();
        arrives.is_none_or(ends_before) && away.is_none_or(|(allowed, _)| time.bound(1.0) <= allowed)
    }
}
