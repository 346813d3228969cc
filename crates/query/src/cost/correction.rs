//! Corrections of predictions: factors on the CPU time and on the elapsed time of each kind of phase, fitted to jobs that
//! were predicted and run.
//!
//! A factor is the median of the ratios of measured to predicted times, so that a few wild ones do not matter, and is
//! clamped. Few jobs say little about a kind of phase: its median includes the factor of the next larger class once, that of
//! its step, or of all phases, or 1. The CPU time is corrected first, and the elapsed time then by what that leaves.
//!
//! The uncertainty is the spread of the ratios around their factor: 1.4826 times their median absolute deviation, which for
//! normal errors is the standard deviation (Hampel 1974), of logarithms, because errors are ratios.

use sakiyomi_probe::target::Device;
use serde::{Deserialize, Serialize};

use super::step::{PhaseKind, Step};

/// Smallest factor: a model that is wrong by more is broken, or the measurement was.
pub const FACTOR_MIN: f64 = 0.25;
/// Largest factor, for the same reason.
pub const FACTOR_MAX: f64 = 4.0;
/// Shorter times are not compared, in nanoseconds. They are mostly those of starting threads and of first uses of memory, of
/// which longer jobs have no more: such a time says little about the rows.
const COMPARED_MIN_NS: u64 = 50_000_000;
/// Fewest ratios that have a spread of their own.
const SPREAD_RATIOS_MIN: usize = 3;
/// Standard deviation of normal errors over their median absolute deviation.
const NORMAL_DEVIATION_RATIO: f64 = 1.4826;

/// Predicted or measured times of a job or of a part of it, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Elapsed time.
    pub elapsed_ns: u64,
    /// CPU time in user and kernel mode.
    pub cpu_ns: u64,
}

/// A part of a job that was predicted and run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedPart {
    /// The kinds of its phases, which overlap.
    pub kinds: Vec<PhaseKind>,
    /// Predicted times.
    pub predicted: Times,
    /// Measured times.
    pub measured: Times,
}

/// A job that was predicted and run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedJob {
    /// Its parts.
    pub parts: Vec<ObservedPart>,
    /// Predicted times of the whole.
    pub predicted: Times,
    /// Measured times of the whole.
    pub measured: Times,
}

/// A factor with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// The factor.
    pub ratio: f64,
    /// Spread of the jobs around it: about two thirds of them are within 1 + this, multiplied or divided.
    pub uncertainty_ratio: f64,
    /// Number of compared times.
    pub times: u64,
}

/// Corrections of a kind of phase, or of whole jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Factor of the elapsed time that is predicted with the corrected CPU time.
    pub elapsed: Factor,
    /// Factor of the CPU time.
    pub cpu: Factor,
}

/// The correction of a kind of phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseCorrection {
    /// The kind.
    #[serde(flatten)]
    pub kind: PhaseKind,
    /// The correction.
    #[serde(flatten)]
    pub correction: Correction,
}

/// Corrections of all predictions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Corrections {
    /// Number of jobs to which they were fitted; without jobs, predictions are not corrected.
    pub jobs: u64,
    /// Corrections of the kinds of phases that the jobs had.
    pub phases: Vec<PhaseCorrection>,
    /// Correction of other kinds of phases.
    pub others: Correction,
    /// Correction of the sum of the corrected phases.
    pub whole: Correction,
}

/// Corrections of predictions of jobs all of whose files lie on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceCorrections {
    /// The device.
    pub device: Device,
    /// The corrections.
    pub corrections: Corrections,
}

impl Default for Factor {
    fn default() -> Factor {
        Factor { ratio: 1.0, uncertainty_ratio: 0.0, times: 0 }
    }
}

impl Corrections {
    /// Fits corrections to jobs. `observe` returns all jobs, with the predictions that some corrections give.
    #[must_use]
    pub fn fitted(mut observe: impl FnMut(&Corrections) -> Vec<ObservedJob>) -> Corrections {
        let mut found = Corrections::default();
        let jobs = observe(&found);
        found.jobs = jobs.len() as u64;
        found.fit_parts(&jobs, Quantity::Cpu);
        found.fit_parts(&observe(&found), Quantity::Elapsed);
        let jobs = observe(&found);
        for quantity in [Quantity::Cpu, Quantity::Elapsed] {
            let ratios: Vec<f64> =
                jobs.iter().filter_map(|job| quantity.log_ratio(job.predicted, job.measured)).collect();
            let spread = spread(&ratios, center(&ratios, 0.0));
            *quantity.of(&mut found.whole) = factor(&ratios, 0.0, spread);
        }
        found
    }

    /// Returns the correction of a kind of phase: its own, that of its step, or that of all.
    #[must_use]
    pub fn of(&self, kind: PhaseKind) -> Correction {
        let same = |exact: bool| {
            let is_same = move |known: &&PhaseCorrection| {
                known.kind.step == kind.step && (!exact || known.kind == kind)
            };
            self.phases.iter().find(is_same).map(|known| known.correction)
        };
        same(true).or_else(|| same(false)).unwrap_or(self.others)
    }

    /// Returns the uncertainty of a factor, or `None` without jobs.
    #[must_use]
    pub fn uncertainty(&self, factor: Factor) -> Option<f64> {
        (self.jobs > 0).then_some(factor.uncertainty_ratio)
    }

    /// Returns a description of the first invalid factor, if any.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let all = self.phases.iter().map(|phase| phase.correction).chain([self.others, self.whole]);
        let mut factors = all.flat_map(|correction| [correction.elapsed, correction.cpu]);
        let is_sound = |factor: Factor| {
            let uncertainty = factor.uncertainty_ratio;
            (FACTOR_MIN..=FACTOR_MAX).contains(&factor.ratio) && uncertainty.is_finite() && uncertainty >= 0.0
        };
        (!factors.all(is_sound)).then_some("a correction is not from a quarter to four")
    }

    fn fit_parts(&mut self, jobs: &[ObservedJob], quantity: Quantity) {
        let mut found: Vec<(PhaseKind, f64)> = Vec::new();
        for part in jobs.iter().flat_map(|job| &job.parts) {
            let ratio = quantity.log_ratio(part.predicted, part.measured);
            found.extend(part.kinds.iter().filter_map(|&kind| Some((kind, ratio?))));
        }
        let mut kinds: Vec<PhaseKind> = found.iter().map(|&(kind, _)| kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let ratios = |wanted: &dyn Fn(PhaseKind) -> bool| -> Vec<f64> {
            found.iter().filter(|(kind, _)| wanted(*kind)).map(|&(_, ratio)| ratio).collect()
        };
        let all = ratios(&|_| true);
        let of_all = center(&all, 0.0);
        let of_step = |step: Step| center(&ratios(&|kind| kind.step == step), of_all);
        let of_kind = |kind: PhaseKind| center(&ratios(&|other| other == kind), of_step(kind.step));
        let errors: Vec<f64> = found.iter().map(|&(kind, ratio)| ratio - of_kind(kind)).collect();
        let shared = spread(&errors, 0.0);
        *quantity.of(&mut self.others) = factor(&all, 0.0, spread(&all, of_all));
        for kind in kinds {
            let (own, parent) = (ratios(&|other| other == kind), of_step(kind.step));
            let is_enough = own.len() >= SPREAD_RATIOS_MIN;
            let spread = if is_enough { spread(&own, center(&own, parent)) } else { shared };
            *quantity.of(self.entry(kind)) = factor(&own, parent, spread);
        }
    }

    fn entry(&mut self, kind: PhaseKind) -> &mut Correction {
        let at = self.phases.binary_search_by_key(&kind, |known| known.kind);
        let at = at.unwrap_or_else(|at| {
            self.phases.insert(at, PhaseCorrection { kind, correction: Correction::default() });
            at
        });
        &mut self.phases[at].correction
    }
}

/// The quantity that a factor corrects.
#[derive(Clone, Copy, Debug)]
enum Quantity {
    Elapsed,
    Cpu,
}

impl Quantity {
    fn of(self, correction: &mut Correction) -> &mut Factor {
        match self {
            Quantity::Elapsed => &mut correction.elapsed,
            Quantity::Cpu => &mut correction.cpu,
        }
    }

    /// Returns the logarithm of measured over predicted time; none if one of them is too short.
    fn log_ratio(self, predicted: Times, measured: Times) -> Option<f64> {
        let [predicted, measured] = [predicted, measured].map(|times| match self {
            Quantity::Elapsed => times.elapsed_ns,
            Quantity::Cpu => times.cpu_ns,
        });
        let is_long = predicted.min(measured) >= COMPARED_MIN_NS;
        is_long.then(|| (measured as f64 / predicted as f64).ln())
    }
}

/// Returns the median of some logarithms and that of the class above them.
fn center(ratios: &[f64], parent: f64) -> f64 {
    median(ratios.iter().copied().chain([parent]))
}

fn factor(ratios: &[f64], parent: f64, spread: f64) -> Factor {
    Factor {
        ratio: center(ratios, parent).exp().clamp(FACTOR_MIN, FACTOR_MAX),
        uncertainty_ratio: spread.exp_m1(),
        times: ratios.len() as u64,
    }
}

/// Standard deviation of normal logarithms around a center, without regard to outliers.
fn spread(ratios: &[f64], center: f64) -> f64 {
    NORMAL_DEVIATION_RATIO * median(ratios.iter().map(|ratio| (ratio - center).abs()))
}

/// Returns the median, the mean of the two in the middle of an even number; 0 of nothing.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (count, middle) if count % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        (_, middle) => sorted[middle],
    }
}
