//! Shortest positioning time first (SPTF, SATF; called RPO by drive makers), with aging (ASPTF, Jacobson & Wilkes
//! 1991).

use sakiyomi_model::Nanos;

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
        if self.age_weight == 0.0 {
            return least(waiting, view, preference, |candidate| self.positioning(candidate, phase, view));
        }
        least(waiting, view, preference, |candidate| {
            self.positioning(candidate, phase, view) - self.age(candidate.since, view.now)
        })
    }

    /// Returns whether continuing the transfer with a read precedes all `older` commands. It needs no positioning, so
    /// only age can outweigh it.
    pub(super) fn continues_transfer<'a>(
        &self,
        since: Nanos,
        mut older: impl Iterator<Item = &'a Waiting>,
        view: View<'_>,
        preference: u64,
    ) -> bool {
        let phase = view.servo.phase(view.now);
        let own = -self.age(since, view.now) - preference as i64;
        let cost = |waiting: &Waiting| {
            self.positioning(waiting, phase, view)
                - self.age(waiting.since, view.now)
                - waiting.read_bonus(preference)
        };
        self.age_weight == 0.0 || older.all(|waiting| cost(waiting) >= own)
    }

    #[inline]
    fn positioning(&self, candidate: &Waiting, phase: u32, view: View<'_>) -> i64 {
        let travel = view.servo.travel(phase, view.arm, candidate.target, candidate.write);
        let wait = view.servo.rotational_latency(phase, travel, candidate.target);
        // Within the margin the sector may be missed: a lost revolution is assumed. If the head is already on track, no
        // margin is needed.
        let lost = if wait < self.margin && travel > 0 { view.servo.revolution().0 } else { 0 };
        (u64::from(travel) + u64::from(wait) + lost) as i64
    }

    /// Returns the age credit of a command that has waited since `since`.
    fn age(&self, since: Nanos, now: Nanos) -> i64 {
        (self.age_weight * now.saturating_sub(since).0 as f64) as i64
    }
}
