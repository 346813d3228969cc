//! The result document of a comparison of a simulation with a measurement.

use std::ops::Range;

use sakiyomi_report::result::{
    self, ErrorBin, Kind, KindError, LabelAgreement, Labels, QuantilePoint, RequestError, Spread,
    ValidateResult, curve_shares,
};
use sakiyomi_validate::{Accuracy, Agreement, Anchored, Distribution, Measured, Pairs, Simulated, judge};

/// Bins of the histogram of errors on each side of zero.
const BINS_PER_SIDE: i64 = 60;
/// Share of the errors within the bins; larger errors are counted in the outermost ones.
const BINNED_ERRORS_RATIO: f64 = 0.98;

/// Both replays of a measured trace.
pub(super) struct BothReplays<'a> {
    pub(super) measured: &'a [Measured],
    pub(super) free: Vec<Simulated>,
    pub(super) anchored: Anchored,
}

/// Returns the figures of the result document's `result`; names, settings and bounds are left to the caller. Only
/// requests within `part` are judged.
pub(super) fn judged(replayed: &BothReplays<'_>, part: Range<usize>) -> ValidateResult {
    let BothReplays { measured, free, anchored: Anchored { simulated: anchored, coherence, .. } } = replayed;
    let real: Distribution = measured[part.clone()].iter().map(|request| request.response).collect();
    let [own, stayed] = [free, anchored]
        .map(|simulated| simulated[part.clone()].iter().map(|own| own.response).collect::<Distribution>());
    let [free_judged, anchored_judged] =
        [free, anchored].map(|simulated| judge(measured, simulated, part.clone()));
    ValidateResult {
        requests: measured.len() as u64,
        judged: part.len() as u64,
        measured_response_ns: spread(&real),
        free: accuracy(&free_judged, &own),
        anchored: accuracy(&anchored_judged, &stayed),
        spindle_coherence: *coherence,
        labels: labels(&free_judged, &anchored_judged),
        quantile_curve: curve_shares(part.len() as u64)
            .map(|share| QuantilePoint {
                share_ratio: share,
                measured_ns: real.quantile(share).0,
                free_ns: own.quantile(share).0,
                anchored_ns: stayed.quantile(share).0,
            })
            .collect(),
        error_histogram: error_histogram(
            &errors(measured, free, part.clone()),
            &errors(measured, anchored, part),
        ),
        ..ValidateResult::default()
    }
}

fn spread(times: &Distribution) -> Spread {
    Spread {
        mean: times.mean_ns().round() as u64,
        p50: times.quantile(0.5).0,
        p90: times.quantile(0.9).0,
        p99: times.quantile(0.99).0,
        p999: times.quantile(0.999).0,
        max: times.max().0,
    }
}

fn accuracy(judged: &Accuracy, times: &Distribution) -> result::Accuracy {
    let kinds = [
        (Kind::Reads, &judged.reads),
        (Kind::Writes, &judged.writes),
        (Kind::Hits, &judged.hits),
        (Kind::Misses, &judged.misses),
    ];
    let kinds = kinds.into_iter().filter(|(_, pairs)| pairs.requests > 0);
    result::Accuracy {
        simulated_response_ns: spread(times),
        rms_ns: judged.rms_ns.round() as u64,
        rms_ratio: judged.rms_ratio,
        binned_rms_ns: judged.binned_rms_ns.round() as u64,
        request_error_ns: request_error(&judged.all),
        correlation: judged.all.correlation,
        kinds: kinds.map(|(kind, pairs)| kind_error(kind, pairs)).collect(),
    }
}

fn kind_error(kind: Kind, pairs: &Pairs) -> KindError {
    KindError {
        kind,
        requests: pairs.requests,
        measured_mean_ns: pairs.measured_mean_ns.round() as u64,
        simulated_mean_ns: pairs.simulated_mean_ns.round() as u64,
        request_error_ns: request_error(pairs),
        correlation: pairs.correlation,
    }
}

fn request_error(pairs: &Pairs) -> RequestError {
    RequestError {
        median: pairs.median_ns,
        mean: pairs.mean_ns.round() as u64,
        p90: pairs.p90_ns,
        bias: pairs.bias_ns.round() as i64,
    }
}

/// Returns the agreement with the labels, which are the same for both replays: both have one, or neither.
fn labels(free: &Accuracy, anchored: &Accuracy) -> Option<Labels> {
    let (free, anchored) = (free.labels.as_ref()?, anchored.labels.as_ref()?);
    Some(Labels {
        hits: free.baseline.hits(),
        misses: free.baseline.misses(),
        baseline_agreement_ratio: free.baseline.agreement(),
        free: label_agreement(free),
        anchored: label_agreement(anchored),
    })
}

fn label_agreement(found: &Agreement) -> LabelAgreement {
    let counts = &found.simulated;
    LabelAgreement {
        agreement_ratio: counts.agreement(),
        hits_as_hits: counts.hits_as_hits,
        hits_as_misses: counts.hits_as_misses,
        misses_as_hits: counts.misses_as_hits,
        misses_as_misses: counts.misses_as_misses,
        hit_error_ns: request_error(&found.hits),
        miss_error_ns: request_error(&found.misses),
    }
}

/// Returns the simulated less the measured time of each request, in nanoseconds.
fn errors(measured: &[Measured], simulated: &[Simulated], part: Range<usize>) -> Vec<i64> {
    let both = measured[part.clone()].iter().zip(&simulated[part]);
    both.map(|(request, own)| own.response.0 as i64 - request.response.0 as i64).collect()
}

/// Returns bins of equal width that cover the errors of both replays, except the largest few, which are counted in
/// the outermost.
fn error_histogram(free: &[i64], anchored: &[i64]) -> Vec<ErrorBin> {
    let mut sizes: Vec<u64> = free.iter().chain(anchored).map(|error| error.unsigned_abs()).collect();
    sizes.sort_unstable();
    let rank = (sizes.len() as f64 * BINNED_ERRORS_RATIO).ceil() as usize;
    let reach = sizes.get(rank.clamp(1, sizes.len().max(1)) - 1).copied().unwrap_or_default();
    let width = i64::try_from(reach).unwrap_or(i64::MAX) / BINS_PER_SIDE + 1;
    let mut bins: Vec<ErrorBin> = (-BINS_PER_SIDE..BINS_PER_SIDE)
        .map(|bin| ErrorBin {
            from_ns: bin.saturating_mul(width),
            to_ns: (bin + 1).saturating_mul(width),
            ..ErrorBin::default()
        })
        .collect();
    let index = |error: i64| {
        (error.div_euclid(width).clamp(-BINS_PER_SIDE, BINS_PER_SIDE - 1) + BINS_PER_SIDE) as usize
    };
    free.iter().for_each(|&error| bins[index(error)].free += 1);
    anchored.iter().for_each(|&error| bins[index(error)].anchored += 1);
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_in_one_bin() {
        let errors = [i64::MIN, -700, -1, 0, 1, 59, 700, i64::MAX];
        for errors in [&errors[..], &errors[1..7], &[]] {
            let bins = error_histogram(errors, &errors[errors.len() / 2..]);
            assert_eq!(bins.iter().map(|bin| bin.free).sum::<u64>(), errors.len() as u64);
            assert!(bins.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        }
        let bins = error_histogram(&[-5, 5], &[0]);
        assert_eq!(bins[BINS_PER_SIDE as usize].anchored, 1, "zero is in the first bin above it");
    }
}
