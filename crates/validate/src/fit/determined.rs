//! Which figures of a fitted drive the measured trace determines.
//!
//! A search finds a minimum of its objective in any case, even if the trace holds no information about a figure beyond
//! chance. So each figure that has moved is put back to its initial value, and each that has not is moved: if the fit
//! gets worse by less than the standard error of that change, the trace does not determine the figure, and it keeps its
//! initial value. The standard error is that of the jackknife over ten successive parts of the trace (Efron &
//! Tibshirani, An Introduction to the Bootstrap, 1993, chapter 11): each part is left out in turn, and the change
//! computed again. If fewer than 30 requests depend on a figure, its error is not known well enough, and the figure
//! keeps its initial value as well.
//!
//! A switch is compared with the best drive that has the switch the other way, whose figures were searched for
//! separately. Figures are examined one at a time, with the others as fitted: two figures that only compensate for each
//! other's errors are not detected.

use std::collections::BTreeSet;

use sakiyomi_drive::spec::DriveSpec;

use super::parameter::{Parameter, parameters, switches};
use super::{Best, Search};
use crate::replay::Simulated;

/// Parts of the trace, each of which is left out once.
const JACKKNIFE_PARTS: usize = 10;
/// Standard errors by which the fit must get worse without a figure's change for the change to be kept. On the measured
/// drives of `docs/results/accuracy.md` a lower bound lets a fit make the part worse that it did not see (hp_c2247a,
/// barracuda), and a higher one rejects figures that would have made it better (cheetah9LP, barracuda).
const WORSE_MIN_STANDARD_ERRORS: f64 = 1.0;
/// Requests on which a figure must depend.
pub(super) const SAMPLES_MIN: usize = 30;
/// A figure that has not changed is changed by this share of its value, to see whether the trace determines it.
const PROBE_STEP_RATIO: f64 = 0.25;

/// A parameter of the drive, and whether the trace determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Determined {
    /// Key.
    pub key: &'static str,
    /// Initial value.
    pub from: String,
    /// Value in the fitted drive.
    pub to: String,
    /// Number of fitted requests that depend on it.
    pub samples: usize,
    /// Name of such a request, in the singular.
    pub sample: &'static str,
    /// Verdict of the trace on the parameter.
    pub verdict: Verdict,
}

/// Verdict of a trace on a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Other values fit clearly worse.
    Fitted,
    /// Too few requests depend on it; the initial value is kept.
    TooFew,
    /// Other values do not fit worse beyond chance; the initial value is kept.
    Flat,
}

/// Times of each request, by replay.
pub(super) type Replays = Vec<Vec<Simulated>>;

impl Search<'_> {
    /// Returns the best of `candidates`, reduced to the figures that the trace determines; the rest is as in `start`.
    /// Candidates differ in their switches, and each has figures of its own to match. The determined figures are
    /// searched for again in the end, because the figures put back influenced them.
    pub(super) fn determined(
        &mut self,
        candidates: &[Best],
        start: &DriveSpec,
    ) -> Option<(Best, Vec<Determined>)> {
        let (mut best, mut told) = self.switches(candidates, start)?;
        let switches = told.len();
        // Each figure put back is compared with the best drive, because many small losses would add up to a large one.
        let of_best = self.replays_of(&best.spec)?;
        let mut replays = of_best.clone();
        let mut fitted = Vec::new();
        // Least important figures first: of two figures that correct the same error, the more important one stays.
        for figure in parameters().into_iter().rev() {
            let Some(from) = (figure.get)(start) else { continue };
            let samples = figure.sample.count(&best.spec, self.measured, &replays[0]);
            let mut back = best.spec.clone();
            (figure.put_back)(&mut back, start);
            let moved = back != best.spec;
            let mut verdict = match samples {
                ..SAMPLES_MIN => Verdict::TooFew,
                _ if moved => self.verdict(&of_best, &[back.clone()]),
                _ => self.verdict(&replays, &moved_both_ways(&figure, &best.spec)),
            };
            if moved && verdict != Verdict::Fitted {
                match self.replays_of(&back) {
                    Some(before) => {
                        best = Best { error: self.error_of(&before), spec: back };
                        replays = before;
                    }
                    // The initial value is invalid in combination with the current values of the others.
                    None => verdict = Verdict::Fitted,
                }
            }
            told.push(Determined {
                key: figure.key,
                from: figure.unit.write(from),
                to: String::new(),
                samples,
                sample: figure.sample.name(),
                verdict,
            });
            if verdict == Verdict::Fitted {
                fitted.push(figure);
            }
        }
        told[switches..].reverse();
        fitted.reverse();
        self.climb(&mut best, start, &fitted);
        for figure in parameters() {
            let own = told.iter_mut().filter(|told| told.key == figure.key);
            own.for_each(|told| {
                told.to = (figure.get)(&best.spec).map_or_else(String::new, |value| figure.unit.write(value));
            });
        }
        Some((best, told))
    }

    /// Returns the best candidate that has each switch as at the start, unless one that has it otherwise is clearly
    /// better.
    fn switches(&mut self, candidates: &[Best], start: &DriveSpec) -> Option<(Best, Vec<Determined>)> {
        let mut left: Vec<&Best> = candidates.iter().collect();
        let mut told = Vec::new();
        for switch in switches() {
            let best = least(&left)?;
            let replays = self.replays_of(&best.spec)?;
            let samples = switch.sample.count(&best.spec, self.measured, &replays[0]);
            let (from, value) = ((switch.get)(start), (switch.get)(&best.spec));
            // The best of each other way.
            let others: Vec<&Best> =
                left.iter().filter(|other| (switch.get)(&other.spec) != value).copied().collect();
            let rivals: Vec<DriveSpec> = if from == value {
                let ways: BTreeSet<String> = others.iter().map(|other| (switch.get)(&other.spec)).collect();
                let of_way = |way: &String| {
                    let same: Vec<&Best> =
                        others.iter().filter(|other| (switch.get)(&other.spec) == *way).copied().collect();
                    least(&same).map(|best| best.spec.clone())
                };
                ways.iter().filter_map(of_way).collect()
            } else {
                let as_before: Vec<&Best> =
                    others.iter().filter(|other| (switch.get)(&other.spec) == from).copied().collect();
                least(&as_before).map(|best| best.spec.clone()).into_iter().collect()
            };
            let verdict =
                if samples < SAMPLES_MIN { Verdict::TooFew } else { self.verdict(&replays, &rivals) };
            let to = if verdict == Verdict::Fitted { value } else { from.clone() };
            left.retain(|candidate| (switch.get)(&candidate.spec) == to);
            told.push(Determined {
                key: switch.key,
                from,
                to,
                samples,
                sample: switch.sample.name(),
                verdict,
            });
        }
        least(&left).map(|best| (best.clone(), told))
    }

    /// Fitted if all valid drives of `others` are clearly worse than the replayed one.
    fn verdict(&mut self, replays: &Replays, others: &[DriveSpec]) -> Verdict {
        let others = others.iter().filter_map(|other| self.replays_of(other)).collect::<Vec<_>>();
        let all_worse = others.iter().all(|other| self.is_clearly_worse(replays, other));
        if all_worse { Verdict::Fitted } else { Verdict::Flat }
    }

    /// Returns whether `other` is further from the measurement than `this` by more than chance would have it.
    fn is_clearly_worse(&self, this: &Replays, other: &Replays) -> bool {
        let change = |left_out: Option<usize>| self.square(other, left_out) - self.square(this, left_out);
        let without: Vec<f64> = (0..JACKKNIFE_PARTS).map(|part| change(Some(part))).collect();
        let mean = without.iter().sum::<f64>() / JACKKNIFE_PARTS as f64;
        let squares: f64 = without.iter().map(|change| (change - mean).powi(2)).sum();
        let standard_error = (squares * (JACKKNIFE_PARTS - 1) as f64 / JACKKNIFE_PARTS as f64).sqrt();
        let whole = change(None);
        whole > 0.0 && whole > WORSE_MIN_STANDARD_ERRORS * standard_error
    }

    /// Mean square distance over all groups, without the part that is left out.
    fn square(&self, replays: &Replays, left_out: Option<usize>) -> f64 {
        let count = self.measured.len();
        let part = |place: usize| place * JACKKNIFE_PARTS / count.max(1);
        let groups = self.groups.iter().map(|group| {
            let kept: Vec<usize> =
                group.iter().copied().filter(|place| Some(part(*place)) != left_out).collect();
            (kept.len(), self.square_of(replays, &kept))
        });
        let (requests, sum) =
            groups.fold((0, 0.0), |(requests, sum), (own, square)| (requests + own, sum + square));
        sum / requests.max(1) as f64
    }
}

/// Returns the least error.
fn least<'a>(candidates: &[&'a Best]) -> Option<&'a Best> {
    candidates.iter().copied().min_by(|a, b| a.error.total_cmp(&b.error))
}

/// `spec` with more and with less of a figure.
fn moved_both_ways(figure: &Parameter, spec: &DriveSpec) -> Vec<DriveSpec> {
    let value = (figure.get)(spec).unwrap_or_default();
    let by = value.abs().max(figure.small) * PROBE_STEP_RATIO;
    let moved = [value + by, value - by].map(|to| {
        let mut other = spec.clone();
        (figure.set)(&mut other, to);
        other
    });
    moved.into_iter().filter(|other| other != spec).collect()
}
