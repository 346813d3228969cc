//! Shortest positioning time first (SPTF, SATF; called RPO by drive makers), with aging (ASPTF, Jacobson & Wilkes
//! 1991).
//!
//! Commands are considered from the arm's cylinder outwards, until the seek alone would take longer than the best one
//! found: of 256 queued commands about a tenth are looked at.

use sakiyomi_model::Nanos;

use super::{Candidates, View, Waiting};
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

    pub(super) fn choose<'a>(
        &self,
        candidates: Candidates<'a>,
        view: View<'_>,
        preference: u64,
    ) -> Option<&'a Waiting> {
        let best = self.nearest(candidates, view, preference, |_| true)?;
        // As in [`least`](super::least): the head reaches a command that continues another one after that.
        if !candidates.continues(best, view.now) {
            return Some(best);
        }
        self.nearest(candidates, view, preference, |candidate| !candidates.continues(candidate, view.now))
    }

    /// Returns the ready candidate that satisfies `counts` with the lowest cost, the earlier one of equals.
    fn nearest<'a>(
        &self,
        candidates: Candidates<'a>,
        view: View<'_>,
        preference: u64,
        counts: impl Fn(&Waiting) -> bool,
    ) -> Option<&'a Waiting> {
        let phase = view.servo.phase(view.now);
        let oldest = candidates.queue.oldest_since().unwrap_or(view.now);
        let most_credit = preference as i64 + self.age(oldest, view.now);
        let cost = |candidate: &Waiting| {
            let credit = self.age(candidate.since, view.now) + candidate.read_bonus(preference);
            (self.positioning(candidate, phase, view) - credit, candidate.ticket)
        };
        let eligible = |candidate: &&Waiting| candidate.ready <= view.now && counts(candidate);
        let mut best = candidates.destage.filter(eligible).map(|destage| (cost(destage), destage));
        for (distance, candidate) in candidates.queue.outward(view.arm.cylinder) {
            let bound = i64::from(view.servo.least_travel(distance)) - most_credit;
            if best.is_some_and(|((best, _), _)| bound > best) {
                break;
            }
            if candidate.ready > view.now {
                continue;
            }
            let cost = cost(candidate);
            if best.is_none_or(|(best, _)| cost < best) && counts(candidate) {
                best = Some((cost, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// Returns the index of the command with the shortest positioning time, the earlier one of equals.
    pub(super) fn choose_any(&self, waiting: &[Waiting], view: View<'_>) -> Option<usize> {
        let phase = view.servo.phase(view.now);
        let costs = waiting.iter().map(|candidate| self.positioning(candidate, phase, view));
        costs.enumerate().min_by_key(|(_, cost)| *cost).map(|(index, _)| index)
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
