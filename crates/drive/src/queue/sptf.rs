//! Shortest positioning time first (SPTF, SATF; drive makers say RPO), with aging (ASPTF, Jacobson & Wilkes 1991).

use super::{View, Waiting, least};
use crate::spec::QueueSpec;

/// SPTF with its weights.
#[derive(Clone, Debug)]
pub(super) struct Sptf {
    age_weight: f64,
    margin: u32,
}

impl Sptf {
    pub(super) fn new(spec: &QueueSpec) -> Sptf {
        Sptf { age_weight: spec.age_weight, margin: spec.rpo_margin.0 as u32 }
    }

    pub(super) fn choose(&self, waiting: &[Waiting], view: View<'_>, preference: u64) -> Option<usize> {
        let phase = view.servo.phase(view.now);
        let revolution = view.servo.revolution().0;
        let positioning = |candidate: &Waiting| {
            let travel = view.servo.travel(phase, view.arm, candidate.target, candidate.write);
            let wait = view.servo.wait(phase, travel, candidate.target);
            // Too near to be sure of: planned as if a revolution were lost. Where the head is on the edge already, and
            // has nowhere to go, nothing is in doubt.
            let goes_on = travel == 0 && wait == 0;
            let lost = if wait < self.margin && !goes_on { revolution } else { 0 };
            (u64::from(travel) + u64::from(wait) + lost) as i64
        };
        if self.age_weight == 0.0 {
            return least(waiting, view, preference, positioning);
        }
        least(waiting, view, preference, |candidate| {
            let age = view.now.saturating_sub(candidate.since).0 as f64;
            positioning(candidate) - (self.age_weight * age) as i64
        })
    }
}
