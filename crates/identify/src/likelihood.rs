//! How well a drive explains a trace.
//!
//! Two measures, for two kinds of question:
//!
//! - **Policies** are compared by the [`marginal`] likelihood of the residuals: their density is unknown in each
//!   context, and integrated out (`dyadic.rs`). A constant error, such as an overhead that was not yet estimated, costs
//!   nothing; what counts is how sharply the residuals are concentrated. So policies can be decided before parameters.
//! - **Parameters** are estimated by a composite likelihood ([`losses`]) of two parts. The first is that of each
//!   request's residual: a sharp peak at zero, smaller ones a revolution to either side (a sector that was just missed
//!   or just caught), a triangle of a revolution to either side (the difference of two unrelated rotational latencies:
//!   the phase of the platters is not predicted), and a uniform background. It is symmetric, so that an error of one
//!   sign is never explained as noise. The second part compares the distribution of the response times within groups
//!   of alike requests, as the demerit figure does, in units of their variance.

use crate::dyadic;
use crate::training::{CONTEXT_COUNT, Replays, Training};

/// Weight of the distribution relative to the single requests. Of 0, 1 and 3, this had the least errors when the first
/// quarters of the five drives of `traces/disksim` were fitted and the second ones judged, and the reverse.
const DISTRIBUTION_WEIGHT: f64 = 3.0;
/// Width of the peak below which a residual is noise of the host's timer.
const PEAK_MIN_NS: f64 = 5_000.0;
/// Rounds of expectation and maximization; the weights change little after ten.
const EM_ROUNDS: usize = 12;
/// Standard deviation below which times count as constant.
const DEVIATION_MIN_NS: f64 = 10_000.0;

/// Returns the logarithm of the marginal likelihood of the residuals of the requests to `keep`, the mean of all replays;
/// `None` if the search was stopped.
pub(crate) fn marginal(
    training: &Training<'_>,
    replays: &Replays,
    keep: impl Fn(usize) -> bool,
) -> Option<f64> {
    let range = training.residual_max();
    let leaf = |residual: f64| {
        let share = (residual / range + 1.0) / 2.0;
        (share * f64::from(dyadic::TREE_LEAVES)).floor().clamp(0.0, f64::from(dyadic::TREE_LEAVES - 1)) as u32
    };
    let sum: Option<f64> = replays
        .iter()
        .map(|replay| {
            training.check()?;
            let mut contexts = vec![Vec::new(); CONTEXT_COUNT];
            for (place, own) in replay.iter().enumerate().filter(|(place, _)| keep(*place)) {
                contexts[training.context(place, own)].push(leaf(training.residual(place, own)));
            }
            let one = |leaves: &mut Vec<u32>| {
                leaves.sort_unstable();
                dyadic::ln_likelihood(leaves)
            };
            Some(contexts.iter_mut().map(one).sum::<f64>())
        })
        .sum();
    Some(sum? / replays.len().max(1) as f64)
}

/// Returns the contribution of each request to the negative composite log-likelihood; `None` if the search was stopped.
pub(crate) fn losses(training: &Training<'_>, replays: &Replays) -> Option<Vec<f64>> {
    let mut losses = vec![0.0; training.measured.len()];
    for replay in replays {
        let mut contexts: Vec<Vec<usize>> = vec![Vec::new(); CONTEXT_COUNT];
        for (place, own) in replay.iter().enumerate() {
            contexts[training.context(place, own)].push(place);
        }
        for places in contexts {
            training.check()?;
            let sizes: Vec<f64> =
                places.iter().map(|&place| training.residual(place, &replay[place]).abs()).collect();
            let of_requests = mixture(&sizes, training.revolution, training.residual_max());
            for (place, loss) in places.into_iter().zip(of_requests) {
                losses[place] += loss / replays.len() as f64;
            }
        }
    }
    for group in &training.groups {
        training.check()?;
        for (&place, loss) in group.iter().zip(distances(training, replays, group)) {
            losses[place] += DISTRIBUTION_WEIGHT * loss;
        }
    }
    Some(losses)
}

/// Returns the negative logarithm of the density of each absolute residual, under the mixture fitted to all of them.
fn mixture(sizes: &[f64], revolution: f64, range: f64) -> Vec<f64> {
    if sizes.is_empty() {
        return Vec::new();
    }
    let mut ascending = sizes.to_vec();
    ascending.sort_by(f64::total_cmp);
    // A third of the requests lie within the peak, or there is none.
    let mut width = ascending[ascending.len() / 3].max(PEAK_MIN_NS);
    let mut weights = [0.4, 0.1, 0.4, 0.1];
    let densities = |size: f64, width: f64, weights: &[f64; 4]| {
        let peak = |center: f64| (-(size - center).abs() / width).exp() / (2.0 * width);
        [
            weights[0] * peak(0.0),
            // The reflected peak at minus a revolution is negligible here.
            weights[1] * peak(revolution) / 2.0,
            weights[2] * (1.0 - size / revolution).max(0.0) / revolution,
            weights[3] / (2.0 * range),
        ]
    };
    for _ in 0..EM_ROUNDS {
        let (mut counts, mut distance) = ([0.0; 4], 0.0);
        for &size in sizes {
            let parts = densities(size, width, &weights);
            let all: f64 = parts.iter().sum();
            counts.iter_mut().zip(parts).for_each(|(count, part)| *count += part / all);
            distance += (parts[0] * size + parts[1] * (size - revolution).abs()) / all;
        }
        // A prior of one residual of the least width, and half a residual of each kind, keeps empty kinds possible.
        width = ((distance + PEAK_MIN_NS) / (counts[0] + counts[1] + 1.0)).max(PEAK_MIN_NS);
        weights = counts.map(|count| (count + 0.5) / (sizes.len() as f64 + 2.0));
    }
    sizes.iter().map(|&size| -densities(size, width, &weights).iter().sum::<f64>().ln()).collect()
}

/// Returns for each request of a group half the squared distance of the two distributions at its rank, in units of the
/// variance of the measured times.
fn distances(training: &Training<'_>, replays: &Replays, group: &[usize]) -> Vec<f64> {
    let time = |place: usize| training.measured[place].response.0 as f64;
    let count = group.len() as f64;
    let mean = group.iter().map(|&place| time(place)).sum::<f64>() / count;
    let variance = group.iter().map(|&place| (time(place) - mean).powi(2)).sum::<f64>() / count;
    let variance = variance + DEVIATION_MIN_NS * DEVIATION_MIN_NS;
    let mut own: Vec<u64> =
        replays.iter().flat_map(|replay| group.iter().map(|&place| replay[place].response.0)).collect();
    own.sort_unstable();
    let mut ranked: Vec<usize> = (0..group.len()).collect();
    ranked.sort_by_key(|&index| training.measured[group[index]].response);
    let mut distances = vec![0.0; group.len()];
    for (rank, index) in ranked.into_iter().enumerate() {
        let all = &own[rank * replays.len()..(rank + 1) * replays.len()];
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        distances[index] = (time(group[index]) - mean).powi(2) / (2.0 * variance);
    }
    distances
}
