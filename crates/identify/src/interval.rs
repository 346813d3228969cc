//! Intervals of the parameters at a nominal level of 95 %, with the others unknown as well.
//!
//! The loss is a sum over requests, so its gradient and curvature at the estimate give the covariance of the estimates
//! by the sandwich formula (Huber 1967; White 1982), which holds also if the likelihood is not the true one. Gradients
//! are summed over successive parts of the trace, so that requests may depend on one another within a part. The loss is
//! not smooth: a request that just misses its sector loses a revolution. So differences are taken over the distance at
//! which the loss has risen by about two nats, the half-width of an interval of a regular likelihood; their curvature is
//! that of the likelihood as a whole.
//!
//! A parameter is not identified if few requests depend on it, if no distance raises the loss, or if its interval is
//! wider than its value.

use sakiyomi_drive::spec::DriveSpec;

use crate::likelihood::losses;
use crate::parameter::{Parameter, Unit};
use crate::training::{Replays, Training};

/// Parts of the trace whose gradients are compared.
const GRADIENT_PARTS: usize = 20;
/// Quantile 97.5 % of Student's distribution with one degree of freedom less than parts.
const T_QUANTILE: f64 = 2.093;
/// Requests that must depend on a parameter.
pub(crate) const SAMPLES_MIN: usize = 30;
/// Rise of the loss over the distance at which it is evaluated, in nats.
const RISE_NATS: f64 = 2.0;
/// Doublings and halvings of the distance until the loss rises so.
const DISTANCE_ROUNDS: usize = 14;
/// Half-width of an interval, relative to the value, from which a parameter counts as not identified.
const HALF_WIDTH_MAX_RATIO: f64 = 1.0;

/// Evidence of a trace about a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Key.
    pub key: String,
    /// Initial value.
    pub from: f64,
    /// Value in the identified drive.
    pub to: f64,
    /// Unit of all values.
    pub unit: Unit,
    /// Lower and upper bound at the level of 95 %; `None` if the trace gives none.
    pub interval: Option<[f64; 2]>,
    /// Requests whose time depends on it.
    pub samples: usize,
    /// The reason why it is not identified.
    pub obstacle: Option<Obstacle>,
    /// Requests that would identify it.
    pub advice: &'static str,
}

/// Reasons why a parameter is not identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Too few requests depend on it.
    TooFew,
    /// Other values explain the trace as well.
    Flat,
    /// It is known only together with another parameter.
    Confounded(String),
}

/// A parameter whose loss rises to both sides.
struct Direction {
    /// Its place among all parameters.
    index: usize,
    distance: f64,
    /// Change of each request's loss, up and down.
    changes: [Vec<f64>; 2],
}

/// Returns an estimate of every parameter of `spec`, in comparison with `start`; `None` if the search was stopped.
pub(crate) fn intervals(
    training: &Training<'_>,
    start: &DriveSpec,
    spec: &DriveSpec,
) -> Option<Vec<Estimate>> {
    let parameters = Parameter::distinct(spec);
    let replays = training.replay(spec)?;
    let here = losses(training, &replays)?;
    let mut estimates: Vec<Estimate> = parameters
        .iter()
        .map(|parameter| Estimate {
            key: parameter.key(),
            from: parameter.get(start),
            to: parameter.get(spec),
            unit: parameter.unit(),
            interval: None,
            samples: 0,
            obstacle: None,
            advice: parameter.advice(),
        })
        .collect();
    let mut directions = Vec::new();
    for (index, parameter) in parameters.iter().enumerate() {
        estimates[index].samples = dependents(training, *parameter, spec, &replays);
        if estimates[index].samples < SAMPLES_MIN {
            estimates[index].obstacle = Some(Obstacle::TooFew);
            continue;
        }
        match direction(training, *parameter, spec, &here, index) {
            Some(direction) => directions.push(direction),
            None => estimates[index].obstacle = Some(Obstacle::Flat),
        }
        if training.is_stopped() {
            return None;
        }
    }
    let curvature = curvature(training, &parameters, spec, &here, &directions)?;
    widths(&mut estimates, &parameters, &directions, curvature);
    Some(estimates)
}

/// Returns the number of requests whose time changes with the parameter.
pub(crate) fn dependents(
    training: &Training<'_>,
    parameter: Parameter,
    spec: &DriveSpec,
    replays: &Replays,
) -> usize {
    // After a shorter step, most accesses to the medium would still end with the same sector under the head.
    let step = parameter.steps(spec)[0].max(parameter.typical());
    let mut most = 0;
    for by in [step, -step] {
        let mut other = spec.clone();
        parameter.set(&mut other, parameter.get(spec) + by);
        let Some(moved) = training.replay(&other) else { continue };
        let differ = replays[0].iter().zip(&moved[0]).filter(|(a, b)| a.response != b.response);
        most = most.max(differ.count());
    }
    most
}

/// Finds the distance at which the loss has risen; `None` if it does not rise.
fn direction(
    training: &Training<'_>,
    parameter: Parameter,
    spec: &DriveSpec,
    here: &[f64],
    index: usize,
) -> Option<Direction> {
    let [longest, shortest] = parameter.steps(spec);
    let mut distance = shortest;
    let mut found = None;
    for _ in 0..DISTANCE_ROUNDS {
        let changes = [distance, -distance].map(|by| changes(training, &[(parameter, by)], spec, here));
        if let [Some(up), Some(down)] = changes {
            let rise = (up.iter().sum::<f64>() + down.iter().sum::<f64>()) / 2.0;
            found = (rise > 0.0).then_some(Direction { index, distance, changes: [up, down] });
            if rise >= RISE_NATS {
                return found;
            }
        }
        if distance >= longest * 4.0 {
            break;
        }
        distance *= 2.0;
    }
    found.filter(|found| rise(found) >= RISE_NATS)
}

fn rise(direction: &Direction) -> f64 {
    direction.changes.iter().flatten().sum::<f64>() / 2.0
}

/// Returns the change of each request's loss when parameters move.
fn changes(
    training: &Training<'_>,
    moves: &[(Parameter, f64)],
    spec: &DriveSpec,
    here: &[f64],
) -> Option<Vec<f64>> {
    let mut other = spec.clone();
    moves.iter().for_each(|(parameter, by)| parameter.set(&mut other, parameter.get(spec) + by));
    let replays = training.replay(&other)?;
    Some(losses(training, &replays)?.iter().zip(here).map(|(there, here)| there - here).collect())
}

/// Returns the matrix of second differences, in units of the distances.
fn curvature(
    training: &Training<'_>,
    parameters: &[Parameter],
    spec: &DriveSpec,
    here: &[f64],
    directions: &[Direction],
) -> Option<Vec<Vec<f64>>> {
    let count = directions.len();
    let sums: Vec<[f64; 2]> =
        directions.iter().map(|one| [0, 1].map(|side| one.changes[side].iter().sum::<f64>())).collect();
    let mut matrix = vec![vec![0.0; count]; count];
    for a in 0..count {
        matrix[a][a] = sums[a][0] + sums[a][1];
        for b in 0..a {
            let moves = |sign: f64| {
                [a, b].map(|one| (parameters[directions[one].index], sign * directions[one].distance))
            };
            let mut mixed = 0.0;
            for (side, sign) in [(0, 1.0), (1, -1.0)] {
                let both = changes(training, &moves(sign), spec, here);
                if training.is_stopped() {
                    return None;
                }
                let apart = sums[a][side] + sums[b][side];
                mixed += both.map_or(0.0, |both| both.iter().sum::<f64>() - apart);
            }
            matrix[a][b] = mixed / 2.0;
            matrix[b][a] = matrix[a][b];
        }
    }
    Some(matrix)
}

/// Sets the intervals from curvature and gradients.
fn widths(
    estimates: &mut [Estimate],
    parameters: &[Parameter],
    directions: &[Direction],
    mut curvature: Vec<Vec<f64>>,
) {
    let gradients: Vec<Vec<f64>> = directions.iter().map(gradients).collect();
    regularize(&mut curvature);
    let Some(inverse) = inverse(&curvature) else { return };
    let count = directions.len();
    // Covariance of the gradients between parts.
    let spread = |a: usize, b: usize| {
        let mean = |one: usize| gradients[one].iter().sum::<f64>() / GRADIENT_PARTS as f64;
        let products =
            (0..GRADIENT_PARTS).map(|part| (gradients[a][part] - mean(a)) * (gradients[b][part] - mean(b)));
        products.sum::<f64>() * GRADIENT_PARTS as f64 / (GRADIENT_PARTS - 1) as f64
    };
    let covariance: Vec<Vec<f64>> = (0..count).map(|a| (0..count).map(|b| spread(a, b)).collect()).collect();
    for (row, direction) in directions.iter().enumerate() {
        let weights = &inverse[row];
        let variance: f64 = (0..count)
            .flat_map(|a| (0..count).map(move |b| (a, b)))
            .map(|(a, b)| weights[a] * covariance[a][b] * weights[b])
            .sum();
        // Not less than the differences resolve: the estimate is the best of a search with that step.
        let resolution = parameters[direction.index].steps_at(estimates[direction.index].to)[1];
        let half = (T_QUANTILE * variance.max(0.0).sqrt() * direction.distance).max(resolution);
        let estimate = &mut estimates[direction.index];
        estimate.interval =
            Some(parameters[direction.index].bounded([estimate.to - half, estimate.to + half]));
        let widest =
            estimate.to.abs().max(parameters[direction.index].typical() / 2.0) * HALF_WIDTH_MAX_RATIO;
        if half > widest {
            let alone =
                T_QUANTILE * covariance[row][row].max(0.0).sqrt() / curvature[row][row] * direction.distance;
            let partner = (0..count)
                .filter(|other| *other != row)
                .max_by(|a, b| inverse[row][*a].abs().total_cmp(&inverse[row][*b].abs()));
            estimate.obstacle = Some(match partner {
                Some(partner) if alone <= widest => {
                    Obstacle::Confounded(parameters[directions[partner].index].key())
                }
                _ => Obstacle::Flat,
            });
        }
    }
}

/// Widens intervals by what the same search found on a part of the requests. It moves one parameter at a time, and where
/// two compensate for each other it ends at another pair on other requests, which the curvature at one of them does not
/// show.
pub(crate) fn widen(estimates: &mut [Estimate], part: &DriveSpec) {
    for parameter in Parameter::distinct(part) {
        let (key, other) = (parameter.key(), parameter.get(part));
        let Some(estimate) = estimates.iter_mut().find(|estimate| estimate.key == key) else { continue };
        let Some([low, high]) = estimate.interval else { continue };
        let (to, apart) = (estimate.to, (other - estimate.to).abs());
        estimate.interval = Some(parameter.bounded([low.min(to - apart), high.max(to + apart)]));
        if apart > to.abs().max(parameter.typical() / 2.0) * HALF_WIDTH_MAX_RATIO {
            estimate.obstacle.get_or_insert(Obstacle::Flat);
        }
    }
}

/// Returns the gradient of the loss in each part of the trace, in units of the distance.
fn gradients(direction: &Direction) -> Vec<f64> {
    let [up, down] = &direction.changes;
    let mut parts = vec![0.0; GRADIENT_PARTS];
    for (place, (up, down)) in up.iter().zip(down).enumerate() {
        parts[place * GRADIENT_PARTS / direction.changes[0].len()] += (up - down) / 2.0;
    }
    parts
}

/// Limits the correlations of the curvature: beyond this, the differences are noise, and the matrix may have no inverse.
fn regularize(matrix: &mut [Vec<f64>]) {
    // Two parameters may compensate for each other almost entirely.
    const CORRELATION_MAX: f64 = 0.99;
    // Widens intervals by half a percent at most where the curvature is regular.
    const RIDGE_RATIO: f64 = 0.01;
    for a in 0..matrix.len() {
        for b in 0..a {
            let most = CORRELATION_MAX * (matrix[a][a] * matrix[b][b]).max(0.0).sqrt();
            matrix[a][b] = matrix[a][b].clamp(-most, most);
            matrix[b][a] = matrix[a][b];
        }
    }
    for (row, values) in matrix.iter_mut().enumerate() {
        values[row] *= 1.0 + RIDGE_RATIO;
    }
}

/// Inverts a matrix by elimination with pivots; `None` if it is singular.
fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let count = matrix.len();
    let mut rows: Vec<Vec<f64>> = matrix.to_vec();
    for (row, values) in rows.iter_mut().enumerate() {
        values.extend((0..count).map(|column| f64::from(u8::from(row == column))));
    }
    for column in 0..count {
        let pivot =
            (column..count).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        if rows[pivot][column].abs() < 1e-9 {
            return None;
        }
        rows.swap(column, pivot);
        let scale = rows[column][column];
        rows[column].iter_mut().for_each(|value| *value /= scale);
        let own = rows[column].clone();
        for (row, values) in rows.iter_mut().enumerate().filter(|(row, _)| *row != column) {
            let factor = values[column];
            debug_assert_ne!(row, column);
            values.iter_mut().zip(&own).for_each(|(value, own)| *value -= factor * own);
        }
    }
    Some(rows.into_iter().map(|row| row[count..].to_vec()).collect())
}
