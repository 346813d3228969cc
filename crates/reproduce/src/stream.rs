//! Figure 3 of Ueda 2013: a stream whose rate changes, on cores assigned once or anew after each change.

use sakiyomi_model::Nanos;
use sakiyomi_placement::{
    Arrivals, ControlSettings, Controller, Hop, Operator, Pipeline, Planner, Settings, Topology,
};
use sakiyomi_scenario::stream::{
    ArrivalPattern, Control, IntervalFigures, Spacing, StreamOutcome, StreamSettings, StreamSpec, simulate,
};

use crate::metrics::{Metrics, TaskError};

/// Service times of the operators in nanoseconds; assumed, as the report gives none. They are those of operators in Java,
/// and long enough that few tuples have to be simulated.
const OPERATORS_NS: [f64; 4] = [20_000.0, 15_000.0, 25_000.0, 15_000.0];
/// Cores of the two processors; assumed.
const CORES_OF_PROCESSORS: [usize; 2] = [4, 4];
/// Costs of a message within a processor; assumed, as those between the two.
const HOP: Hop = Hop { transit_ns: 1_000.0, ..Hop::FREE };
/// Transit of a message from one processor to the other, in nanoseconds.
const FAR_TRANSIT_NS: f64 = 3_000.0;
/// Rate of the ordinary pattern in tuples per second: one core is enough.
const RATE_LOW_PER_S: f64 = 2e3;
/// Rate of the other pattern: one core holds it, with long queues.
const RATE_HIGH_PER_S: f64 = 1.2e4;
/// Seconds at which the other pattern begins; it lasts for five seconds each time.
const CHANGES_S: [u64; 3] = [10, 20, 30];
/// How long the other pattern lasts, in seconds.
const CHANGE_LENGTH_S: u64 = 5;
/// Length of the run in seconds.
const LENGTH_S: u64 = 40;
/// Length of an interval for which there is a mean latency.
const MEAN_INTERVAL: Nanos = Nanos(100_000_000);
/// Time after a change from which the new assignment is in use.
const STEADY_AFTER: Nanos = Nanos(1_000_000_000);
/// Time between two samples of the number of arrivals.
const ARRIVALS_SAMPLE_PERIOD: Nanos = Nanos(10_000_000);

/// Compares both assignments on the same arrivals.
pub(crate) fn run(seed: u64) -> Result<Metrics, TaskError> {
    let pipeline = Pipeline::chain(OPERATORS_NS.map(Operator::new).to_vec(), &[1.0; 3])?;
    let topology =
        Topology::two_level(CORES_OF_PROCESSORS.to_vec(), HOP, Hop { transit_ns: FAR_TRANSIT_NS, ..HOP })?;
    let planner = Planner::new(&pipeline, &topology, Settings::default())?;
    let table = planner.table(Arrivals::poisson(1.0)?, RATE_LOW_PER_S / 10.0..=2.0 * RATE_HIGH_PER_S)?;
    let first = planner.plan(Arrivals::poisson(RATE_LOW_PER_S)?)?.placement;
    let outcome = |is_relocated: bool| -> Result<StreamOutcome, TaskError> {
        let settings =
            StreamSettings { interval: MEAN_INTERVAL, ..StreamSettings::new(seconds(LENGTH_S), seed) };
        let arrivals = ArrivalPattern::steps(&rates(), Spacing::Poisson);
        let mut spec = StreamSpec::new(&pipeline, &topology, first.clone(), arrivals, settings);
        if is_relocated {
            let controller = Controller::new(table.clone(), ControlSettings::default())?;
            let reaction = Nanos::MILLISECOND;
            spec.control = Some(Control { controller, planner, sample: ARRIVALS_SAMPLE_PERIOD, reaction });
        }
        Ok(simulate(&spec)?)
    };
    Ok(metrics(&outcome(false)?, &outcome(true)?))
}

fn rates() -> Vec<(Nanos, f64)> {
    let changes = CHANGES_S.iter().flat_map(|&from| {
        [(seconds(from), RATE_HIGH_PER_S), (seconds(from + CHANGE_LENGTH_S), RATE_LOW_PER_S)]
    });
    std::iter::once((Nanos::ZERO, RATE_LOW_PER_S)).chain(changes).collect()
}

fn metrics(fixed: &StreamOutcome, relocated: &StreamOutcome) -> Metrics {
    let is_in = |part: &IntervalFigures, after: Nanos, until: Nanos| {
        CHANGES_S.iter().any(|&from| (seconds(from) + after..seconds(from) + until).contains(&part.from))
    };
    let is_steady = |part: &IntervalFigures| is_in(part, STEADY_AFTER, seconds(CHANGE_LENGTH_S));
    let changed = mean_ns(fixed, is_steady) / mean_ns(relocated, is_steady);
    let ordinary = |part: &IntervalFigures| part.from >= STEADY_AFTER && part.from < seconds(CHANGES_S[0]);
    let degraded = mean_ns(fixed, is_steady) / mean_ns(fixed, ordinary);
    // Of each change, the intervals until the new assignment is in use.
    let during = fixed.intervals.iter().zip(&relocated.intervals);
    let during = during.filter(|(part, _)| is_in(part, Nanos::ZERO, STEADY_AFTER));
    let worst = during.clone().map(|(fixed, relocated)| relocated.latency.mean_ns / fixed.latency.mean_ns);
    let highest_ns = during.map(|(_, relocated)| relocated.latency.mean_ns).fold(0.0, f64::max);
    let figures = [
        ("static_over_relocated", changed),
        ("static_over_ordinary", degraded),
        ("relocating_over_static", worst.fold(0.0, f64::max)),
        ("relocating_over_steady", highest_ns / mean_ns(relocated, is_steady)),
        ("reordered", (fixed.reordered_results + relocated.reordered_results) as f64),
        ("relocations", relocated.relocations.len() as f64),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Mean latency of the results in some intervals.
fn mean_ns(outcome: &StreamOutcome, is_wanted: impl Fn(&IntervalFigures) -> bool) -> f64 {
    let wanted = outcome.intervals.iter().filter(|part| is_wanted(part)).map(|part| &part.latency);
    let (results, total) = wanted.fold((0.0, 0.0), |(results, total), latency| {
        let many = latency.results as f64;
        (results + many, total + many * latency.mean_ns)
    });
    total / results
}

fn seconds(count: u64) -> Nanos {
    Nanos::SECOND * count
}
