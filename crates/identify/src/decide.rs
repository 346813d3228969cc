//! Decision of the policies by the likelihood of the residuals.
//!
//! A search changes one policy at a time, to the alternative with the highest marginal likelihood, until none pays. It
//! begins at the given drive and at the best of many combinations of the policies that depend on one another. A change
//! pays if it raises the logarithm of the likelihood by more than the choice costs (the logarithm of the number of
//! alternatives, and half that of the number of requests: Schwarz 1978), and by more than twice the standard error of
//! the rise over parts of the trace (a jackknife: Efron & Tibshirani 1993, chapter 11), so that a few odd requests decide
//! nothing.

use sakiyomi_drive::spec::DriveSpec;

use crate::likelihood::marginal;
use crate::policy::{Policy, beginnings, policies};
use crate::training::{Replays, Training};
use sakiyomi_validate::Pace;

/// Parts of the trace, each of which is left out once.
const JACKKNIFE_PARTS: usize = 10;
/// Standard errors by which a change must pay: one in forty changes that do nothing would seem to.
const GAIN_MIN_STANDARD_ERRORS: f64 = 2.0;
/// Beginnings of searches, beside the given drive.
const SEARCH_RESTARTS: usize = 2;
/// Typical number of alternatives of a policy.
const POLICY_ALTERNATIVES_TYPICAL: usize = 6;
/// Passes over all policies; later ones rarely change anything.
const PASSES_MAX: usize = 6;

/// Evidence of a trace about a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Key.
    pub key: &'static str,
    /// Initial value.
    pub from: String,
    /// Value in the identified drive.
    pub to: String,
    /// Alternatives that explain the trace as well.
    pub rivals: Vec<String>,
    /// Rise of the logarithm of the likelihood over the best other alternative.
    pub margin_nats: f64,
    /// Requests whose time differs between the value and the best other alternative.
    pub samples: usize,
    /// Requests that would decide it.
    pub advice: &'static str,
}

impl Decision {
    /// Returns whether the trace identifies the policy.
    #[must_use]
    pub fn is_identified(&self) -> bool {
        self.samples > 0 && self.rivals.is_empty()
    }
}

/// A drive with its replays.
#[derive(Clone)]
struct Candidate {
    spec: DriveSpec,
    replays: Replays,
    ln_likelihood: f64,
}

/// Returns the drive with the policies that the trace reveals.
pub(crate) fn decide(training: &Training<'_>, start: &DriveSpec) -> Option<DriveSpec> {
    let mut best = improved(training, candidate(training, start)?);
    let mut beginnings: Vec<Candidate> =
        beginnings(start).iter().filter_map(|spec| candidate(training, spec)).collect();
    beginnings.sort_by(|a, b| b.ln_likelihood.total_cmp(&a.ln_likelihood));
    for beginning in beginnings.into_iter().take(SEARCH_RESTARTS) {
        let other = improved(training, beginning);
        // Several policies differ, so the change costs several choices.
        let choices = changed(&best.spec, &other.spec).max(1) as f64;
        if pays(training, &best, &other, choices * choice_cost(training, POLICY_ALTERNATIVES_TYPICAL)) {
            best = other;
        }
    }
    Some(best.spec)
}

/// Returns what the trace says about each policy of `spec`, compared with `start`.
pub(crate) fn decisions(
    training: &Training<'_>,
    start: &DriveSpec,
    spec: &DriveSpec,
) -> Option<Vec<Decision>> {
    let best = candidate(training, spec)?;
    let mut decisions = Vec::new();
    for policy in policies(training.pace == Pace::Open) {
        let alternatives = (policy.alternatives)(spec);
        let cost = choice_cost(training, alternatives.len());
        let others = alternatives[1..].iter();
        let others: Vec<Candidate> = others.filter_map(|other| candidate(training, other)).collect();
        if training.is_stopped() {
            return None;
        }
        let nearest = others.iter().max_by(|a, b| a.ln_likelihood.total_cmp(&b.ln_likelihood));
        let rivals = others.iter().filter(|other| !pays(training, other, &best, cost));
        decisions.push(Decision {
            key: policy.key,
            from: value(policy, start),
            to: value(policy, spec),
            rivals: rivals.map(|other| value(policy, &other.spec)).collect(),
            margin_nats: nearest.map_or(0.0, |other| best.ln_likelihood - other.ln_likelihood),
            samples: nearest.map_or(0, |other| differing(&best.replays, &other.replays)),
            advice: policy.advice,
        });
    }
    Some(decisions)
}

fn candidate(training: &Training<'_>, spec: &DriveSpec) -> Option<Candidate> {
    let replays = training.replay(spec)?;
    let ln_likelihood = marginal(training, &replays, |_| true)?;
    Some(Candidate { spec: spec.clone(), replays, ln_likelihood })
}

/// Changes one policy at a time until nothing pays.
fn improved(training: &Training<'_>, mut best: Candidate) -> Candidate {
    for _ in 0..PASSES_MAX {
        let mut changed = false;
        for policy in policies(training.pace == Pace::Open) {
            let alternatives = (policy.alternatives)(&best.spec);
            let others = alternatives[1..].iter().filter_map(|other| candidate(training, other));
            let nearest = others.max_by(|a, b| a.ln_likelihood.total_cmp(&b.ln_likelihood));
            let cost = choice_cost(training, alternatives.len());
            if let Some(other) = nearest
                && pays(training, &best, &other, cost)
            {
                best = other;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    best
}

/// Returns what choosing one of several alternatives costs, in nats.
fn choice_cost(training: &Training<'_>, alternatives: usize) -> f64 {
    (alternatives.max(1) as f64).ln() + 0.5 * (training.measured.len().max(1) as f64).ln()
}

/// Returns whether `other` explains the trace better than `this` by more than `cost` and more than chance; false if the
/// search was stopped.
fn pays(training: &Training<'_>, this: &Candidate, other: &Candidate, cost: f64) -> bool {
    let gain = other.ln_likelihood - this.ln_likelihood;
    if gain <= cost {
        return false;
    }
    let count = training.measured.len();
    let without = |part: usize| {
        let keep = |place: usize| place * JACKKNIFE_PARTS / count != part;
        Some(marginal(training, &other.replays, keep)? - marginal(training, &this.replays, keep)?)
    };
    let Some(gains) = (0..JACKKNIFE_PARTS).map(without).collect::<Option<Vec<f64>>>() else { return false };
    let mean = gains.iter().sum::<f64>() / JACKKNIFE_PARTS as f64;
    let squares: f64 = gains.iter().map(|gain| (gain - mean).powi(2)).sum();
    let standard_error = (squares * (JACKKNIFE_PARTS - 1) as f64 / JACKKNIFE_PARTS as f64).sqrt();
    gain > GAIN_MIN_STANDARD_ERRORS * standard_error
}

/// Returns the number of requests whose times differ.
fn differing(these: &Replays, others: &Replays) -> usize {
    let (Some(these), Some(others)) = (these.first(), others.first()) else { return 0 };
    these.iter().zip(others).filter(|(a, b)| a.response != b.response).count()
}

/// Returns the number of keys that differ.
fn changed(a: &DriveSpec, b: &DriveSpec) -> usize {
    let (a, b) = (a.entries(), b.entries());
    b.iter().filter(|entry| !a.contains(entry)).count()
}

/// Returns the value of a policy as a drive's file has it.
fn value(policy: &Policy, spec: &DriveSpec) -> String {
    let entries = spec.entries();
    entries.into_iter().find(|(key, _)| key == policy.key).map_or_else(String::new, |(_, value)| value)
}
