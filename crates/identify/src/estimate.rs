//! Estimation of the continuous parameters: a pattern search (Hooke & Jeeves 1961) for the least composite loss.
//!
//! Parameters that do not pay are put back in the end: of a drive's many parameters a trace determines some, and the
//! others would only absorb noise.

use sakiyomi_drive::spec::DriveSpec;

use crate::interval::{SAMPLES_MIN, dependents};
use crate::likelihood::losses;
use crate::parameter::Parameter;
use crate::training::Training;

/// Rounds of the search; the steps are halved after each.
const SEARCH_ROUNDS: usize = 9;
/// Passes over all parameters within a round.
const PASSES_MAX: usize = 2;
/// Factor by which a step grows that improves the fit.
const STEP_GROWTH: f64 = 1.5;
/// Reduction of the loss, in nats, from which a step is kept.
const GAIN_MIN_NATS: f64 = 0.5;
/// A parameter stays below this many times its first value, or as many milliseconds.
const VALUE_MAX_RATIO: f64 = 10.0;

/// A drive and its loss.
#[derive(Clone, Debug)]
pub(crate) struct Estimated {
    pub(crate) spec: DriveSpec,
    pub(crate) loss: f64,
}

/// Returns the drive with the least loss, reduced to the parameters that pay; `None` if `start` cannot be replayed.
pub(crate) fn estimate(training: &Training<'_>, start: &DriveSpec) -> Option<Estimated> {
    let replays = training.replay(start)?;
    let mut best = Estimated { loss: losses(training, &replays)?.iter().sum(), spec: start.clone() };
    // A parameter with few dependent requests would only compensate for the errors of others.
    let mut parameters = Parameter::all(start);
    parameters.retain(|parameter| dependents(training, *parameter, start, &replays) >= SAMPLES_MIN);
    let mut steps: Vec<f64> = parameters.iter().map(|parameter| parameter.steps(start)[0]).collect();
    for _ in 0..SEARCH_ROUNDS {
        for _ in 0..PASSES_MAX {
            let mut gained = false;
            for (parameter, step) in parameters.iter().zip(&steps) {
                gained |= moved(training, &mut best, start, *parameter, *step);
            }
            if !gained {
                break;
            }
        }
        for (parameter, step) in parameters.iter().zip(&mut steps) {
            *step = (*step / 2.0).max(parameter.steps(start)[1]);
        }
    }
    put_back(training, &mut best, start, &parameters);
    Some(best)
}

pub(crate) fn loss(training: &Training<'_>, spec: &DriveSpec) -> Option<f64> {
    let replays = training.replay(spec)?;
    Some(losses(training, &replays)?.iter().sum())
}

/// Moves one parameter up or down while that reduces the loss; whether it did.
fn moved(
    training: &Training<'_>,
    best: &mut Estimated,
    start: &DriveSpec,
    parameter: Parameter,
    step: f64,
) -> bool {
    let bound = parameter.get(start).abs().max(parameter.typical()) * VALUE_MAX_RATIO;
    for direction in [1.0, -1.0] {
        let mut by = direction * step;
        let mut gained = false;
        loop {
            let value = parameter.get(&best.spec) + by;
            let mut tried = best.spec.clone();
            parameter.set(&mut tried, value);
            if tried == best.spec || value.abs() > bound {
                break;
            }
            match loss(training, &tried) {
                Some(loss) if loss < best.loss - GAIN_MIN_NATS => *best = Estimated { spec: tried, loss },
                _ => break,
            }
            gained = true;
            by *= STEP_GROWTH;
        }
        if gained {
            return true;
        }
    }
    false
}

/// Puts parameters back to their first values, those that matter least first, while together they cost less than half
/// the logarithm of the number of requests each (Schwarz 1978).
fn put_back(training: &Training<'_>, best: &mut Estimated, start: &DriveSpec, parameters: &[Parameter]) {
    let each = 0.5 * (training.measured.len().max(2) as f64).ln();
    let least = best.loss;
    let mut allowed = each;
    for parameter in parameters.iter().rev() {
        let first = parameter.get(start);
        if parameter.get(&best.spec) == first {
            continue;
        }
        let mut tried = best.spec.clone();
        parameter.set(&mut tried, first);
        if let Some(loss) = loss(training, &tried)
            && loss <= least + allowed
        {
            *best = Estimated { spec: tried, loss };
            allowed += each;
        }
    }
}
