//! Comparison of a simulation with the measurement.

use std::ops::Range;

use sakiyomi_model::{Nanos, Op};

use crate::bins::binned_demerit;
use crate::demerit::demerit;
use crate::distribution::Distribution;
use crate::labels::{Agreement, agreement, is_hit};
use crate::measured::Measured;
use crate::pairs::{Pairs, pairs};
use crate::replay::Simulated;

/// Errors of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Demerit figure: root mean square of the horizontal distance of the distributions, in nanoseconds.
    pub rms_ns: f64,
    /// Demerit divided by the mean of the measured times; zero if the mean is zero.
    pub rms_ratio: f64,
    /// Demerit computed from histograms as by DiskSim's tool, in nanoseconds.
    pub binned_rms_ns: f64,
    /// Errors of all requests.
    pub all: Pairs,
    /// Errors of the reads.
    pub reads: Pairs,
    /// Errors of the writes.
    pub writes: Pairs,
    /// Errors of the reads that are hits in the simulation.
    pub hits: Pairs,
    /// Errors of the reads that are misses in the simulation.
    pub misses: Pairs,
    /// Agreement with the labels of the real drive, if there are both hits and misses.
    pub labels: Option<Agreement>,
}

/// Compares `simulated` with `measured`, request by request. Only requests within `part`, clamped to the available
/// ones, are counted.
#[must_use]
pub fn judge(measured: &[Measured], simulated: &[Simulated], part: Range<usize>) -> Accuracy {
    let end = part.end.min(measured.len()).min(simulated.len());
    let part = part.start.min(end)..end;
    let both = || measured[part.clone()].iter().zip(&simulated[part.clone()]);
    let of = |wanted: &dyn Fn(&Measured, &Simulated) -> bool| {
        pairs(both().filter(|(request, own)| wanted(request, own)).map(times))
    };
    let real: Distribution = both().map(|(request, _)| request.response).collect();
    let own: Distribution = both().map(|(_, own)| own.response).collect();
    let (rms_ns, mean_ns) = (demerit(&real, &own), real.mean_ns());
    Accuracy {
        rms_ns,
        rms_ratio: if mean_ns > 0.0 { rms_ns / mean_ns } else { 0.0 },
        binned_rms_ns: binned_demerit(&real, &own),
        all: of(&|_, _| true),
        reads: of(&|request, _| request.op == Op::Read),
        writes: of(&|request, _| request.op == Op::Write),
        hits: of(&|request, own| request.op == Op::Read && is_hit(own)),
        misses: of(&|request, own| request.op == Op::Read && !is_hit(own)),
        labels: agreement(measured, simulated, part),
    }
}

fn times((request, own): (&Measured, &Simulated)) -> (Nanos, Nanos) {
    (request.response, own.response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Pace, free};
    use crate::sample::{any_measured, drive, exact};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn kinds_add_up_and_nothing_outside_the_part_counts(
            measured in any_measured(), from: prop::sample::Index, spoil: u32,
        ) {
            let mut simulated = free(drive(), &measured, Pace::Closed);
            let from = from.index(measured.len());
            let part = from..measured.len();
            let found = judge(&measured, &simulated, part.clone());
            prop_assert_eq!(found.all.requests, part.len() as u64);
            prop_assert_eq!(found.reads.requests + found.writes.requests, found.all.requests);
            prop_assert_eq!(found.hits.requests + found.misses.requests, found.reads.requests);
            simulated[..from].iter_mut().for_each(|own| own.response = Nanos(u64::from(spoil)));
            prop_assert_eq!(judge(&measured, &simulated, part), found);
        }

        #[test]
        fn what_is_simulated_exactly_is_not_off(measured in any_measured()) {
            let simulated = exact(&measured);
            let found = judge(&measured, &simulated, 0..measured.len());
            prop_assert_eq!((found.rms_ns, found.rms_ratio, found.binned_rms_ns), (0.0, 0.0, 0.0));
            prop_assert_eq!((found.all.mean_ns, found.all.bias_ns), (0.0, 0.0));
        }

        #[test]
        fn any_part_can_be_asked_for(measured in any_measured(), from in 0usize..99, to in 0usize..99) {
            let simulated = exact(&measured);
            let found = judge(&measured, &simulated, from..to);
            prop_assert!(found.all.requests <= measured.len() as u64);
        }
    }
}
