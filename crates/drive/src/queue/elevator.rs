//! LOOK and C-LOOK: sweeps over the cylinders.

use super::{Candidates, View, Waiting, least};

/// The direction of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Elevator {
    both_ways: bool,
    inwards: bool,
}

impl Elevator {
    pub(super) fn new(both_ways: bool) -> Elevator {
        Elevator { both_ways, inwards: true }
    }

    pub(super) fn choose<'a>(
        &mut self,
        candidates: Candidates<'a>,
        view: View<'_>,
        preference: u64,
    ) -> Option<&'a Waiting> {
        // A sweep does not compare times, so any positive preference puts all reads before all writes.
        let ready = |w: &Waiting| w.ready <= view.now;
        let reads_first = preference > 0 && candidates.iter().any(|w| !w.write && ready(w));
        let counts =
            |w: &Waiting| ready(w) && !(reads_first && w.write) && !candidates.continues(w, view.now);
        // The sweep does not reverse if there is nothing to choose from.
        let mut counted = candidates.iter().filter(|w| counts(w)).peekable();
        if self.both_ways && counted.peek().is_some() && !counted.any(|w| self.is_ahead(w, view)) {
            self.inwards = !self.inwards;
        }
        let (inwards, own) = (self.inwards, i64::from(view.arm.cylinder));
        least(candidates, view, 0, |candidate| {
            let cylinder = i64::from(candidate.target.cylinder);
            let ahead = if inwards { cylinder - own } else { own - cylinder };
            // Cylinders behind the arm follow those ahead of it; with C-LOOK from the far end.
            let place = if ahead >= 0 { ahead } else { ahead + CYLINDERS_BOUND };
            place + if reads_first && candidate.write { 2 * CYLINDERS_BOUND } else { 0 }
        })
    }

    fn is_ahead(&self, candidate: &Waiting, view: View<'_>) -> bool {
        let (cylinder, own) = (candidate.target.cylinder, view.arm.cylinder);
        if self.inwards { cylinder >= own } else { cylinder <= own }
    }
}

/// Exceeds the number of cylinders of any drive.
const CYLINDERS_BOUND: i64 = 1 << 40;
