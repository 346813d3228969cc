//! Service times and selectivities of the operators, from their counters.

use sakiyomi_placement::{Bins, Error, Key, SelectivityMeter, ServiceMeter};

use super::estimates::{Figure, SLOW_HALF_LIFE_NS, Tracked};
use super::graph::Graph;
use super::loads::{Loads, OperatorLoad};
use super::sample::{OperatorSample, Sample};

/// Calls, or tuples, that show that a figure has changed.
const SAMPLES_MIN: f64 = 100.0;

/// Service times of a sample that the slow meter takes: it then keeps those of several half-lives of the fast one.
const SLOW_CALLS_MAX: usize = 2;

/// Service time of an operator that has not been called, in nanoseconds. It hardly matters, as no tuples reach it.
const SERVICE_UNKNOWN_NS: f64 = 1_000.0;

/// Shortest service time, in nanoseconds: less than what the clock can tell.
const SERVICE_MIN_NS: f64 = 1.0;

/// Relative deviation up to which a service time is known well enough to be kept while calls agree with it.
const SERVICE_KNOWN_RATIO: f64 = 0.05;

/// Relative difference of recent calls from a service time that is kept: half of the change that outdates plans.
const SERVICE_KEPT_RATIO: f64 = 0.1;

/// The tolerance in standard deviations of the mean of those calls, for times that scatter.
const SERVICE_KEPT_DEVIATIONS: f64 = 3.0;

/// Looks at the loads for which a service time is kept at most: two fifths of a second. The samples of an operator take
/// 40 µs to evaluate, in which a worker on the same CPU stands still.
const SERVICE_KEPT_SAMPLES_MAX: u32 = 10;

/// Time that the runtime adds to that of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overhead {
    /// Part of a measured call that is the reading of the clock, in nanoseconds.
    pub(crate) clock_ns: f64,
    /// Time per tuple and operator outside of the measured part, in nanoseconds.
    pub(crate) call_ns: f64,
}

/// Meters of all operators and edges.
pub(crate) struct Meters {
    graph: Graph,
    overhead: Overhead,
    operators: Vec<OperatorMeter>,
    edges: Vec<EdgeMeter>,
    /// For each group of replicas the tuples of each bin since the start.
    bins: Vec<Vec<u64>>,
}

struct OperatorMeter {
    service: Tracked<ServiceMeter>,
    /// Time of watermarks and snapshots, in nanoseconds per tuple taken: a window that closes once per second works in
    /// bursts, so it has the slow meter alone.
    rare: SelectivityMeter,
    totals: OperatorSample,
    known: Option<Known>,
}

/// The last figures of the meters.
#[derive(Clone, Copy)]
struct Known {
    load: OperatorLoad,
    /// Timed calls at the last look, and their time in nanoseconds.
    sampled: u64,
    sampled_ns: u64,
    /// Looks since then at which it was kept.
    looks: u32,
}

struct EdgeMeter {
    selectivity: Tracked<SelectivityMeter>,
    taken: u64,
    sent: u64,
}

impl Meters {
    /// # Errors
    /// None: half-lives are constants.
    pub(crate) fn new(graph: &Graph, overhead: Overhead) -> Result<Meters, Error> {
        let operator = |_| {
            Ok(OperatorMeter {
                service: Tracked::new(ServiceMeter::new, SAMPLES_MIN)?,
                rare: SelectivityMeter::new(SLOW_HALF_LIFE_NS)?,
                totals: OperatorSample::default(),
                known: None,
            })
        };
        let edge = |_| {
            let selectivity = Tracked::new(SelectivityMeter::new, SAMPLES_MIN)?;
            Ok(EdgeMeter { selectivity, taken: 0, sent: 0 })
        };
        Ok(Meters {
            overhead,
            operators: (0..graph.operators).map(operator).collect::<Result<_, Error>>()?,
            edges: graph.edges.iter().map(edge).collect::<Result<_, Error>>()?,
            graph: graph.clone(),
            bins: Vec::new(),
        })
    }

    /// Takes a sample, which must not be earlier than the last.
    pub(crate) fn add(&mut self, sample: &Sample) {
        for (meter, counters) in self.operators.iter_mut().zip(&sample.operators) {
            meter.add(sample.now_ns, counters, self.overhead);
        }
        self.bins.clone_from(&sample.bins);
        for (meter, edge) in self.edges.iter_mut().zip(&self.graph.edges) {
            let counters = &sample.operators[edge.from];
            // A plan is for the tuples that are not dropped.
            meter.taken = counters.tuples_in.saturating_sub(counters.shed);
            meter.sent = (counters.tuples_out as f64 * edge.share) as u64;
            let (taken, sent) = (meter.taken, meter.sent);
            meter.selectivity.each(|selectivity| selectivity.add(sample.now_ns, taken, sent));
        }
    }

    /// Returns the loads at these rates of the sources, in tuples per second.
    pub(crate) fn loads(&mut self, rates_per_s: &[Figure]) -> Loads {
        let overhead = self.overhead;
        let operators = self.operators.iter_mut().map(|meter| meter.load(overhead)).collect();
        let edges = self.edges.iter_mut().map(EdgeMeter::figure).collect();
        let loads = Loads::new(&self.graph, operators, edges, rates_per_s);
        loads.with_keys(
            self.graph.replicas_max.iter().zip(&self.bins).map(|(&max, bins)| key(bins, max)).collect(),
        )
    }
}

impl OperatorMeter {
    fn add(&mut self, now_ns: u64, counters: &OperatorSample, overhead: Overhead) {
        for (number, &call_ns) in counters.call_ns.iter().enumerate() {
            let service_ns = service_ns(call_ns as f64, overhead);
            self.service.fast().add(now_ns, service_ns);
            if number < SLOW_CALLS_MAX {
                self.service.slow().add(now_ns, service_ns);
            }
        }
        self.rare.add(now_ns, counters.tuples_in, counters.rare_ns);
        self.totals = OperatorSample { call_ns: Vec::new(), ..counters.clone() };
    }

    /// Returns the load; as last time if no call has been timed since, or those that have been agree with it.
    fn load(&mut self, overhead: Overhead) -> OperatorLoad {
        let OperatorSample { sampled, sampled_ns, .. } = self.totals;
        if let Some(known) = &mut self.known
            && (known.sampled == sampled || known.is_kept(&self.totals, overhead))
        {
            *known = Known { load: known.load, sampled, sampled_ns, looks: known.looks + 1 };
            return known.load;
        }
        // A changed operator keeps its former figures until new ones are known.
        let mut scv = self.known.map_or(0.0, |known| known.load.scv);
        let mean_ns = self.service.estimate(|meter| {
            let figures = meter.figures()?;
            scv = figures.scv;
            Some(figures.mean_ns)
        });
        let load = match mean_ns {
            Some(mean_ns) => OperatorLoad { service_ns: mean_ns.into(), scv, is_guess: false },
            None => OperatorLoad { service_ns: self.first_calls(overhead), scv: 0.0, is_guess: true },
        };
        let rare_ns = self.rare.selectivity().map(Figure::from).unwrap_or_default();
        let load = OperatorLoad { service_ns: load.service_ns.plus(rare_ns), ..load };
        self.known = Some(Known { load, sampled, sampled_ns, looks: 0 });
        load
    }

    /// Returns the mean of the few calls that were timed.
    fn first_calls(&self, overhead: Overhead) -> Figure {
        let OperatorSample { sampled, sampled_ns, .. } = self.totals;
        if sampled == 0 {
            return Figure::guess(SERVICE_UNKNOWN_NS);
        }
        let mean_ns = service_ns(sampled_ns as f64 / sampled as f64, overhead);
        Figure { value: mean_ns, deviation: mean_ns / (sampled as f64).sqrt() }
    }
}

impl Known {
    /// Returns whether the calls since the last look give no reason to evaluate all samples.
    fn is_kept(&self, totals: &OperatorSample, overhead: Overhead) -> bool {
        let Figure { value, deviation } = self.load.service_ns;
        let is_known = !self.load.is_guess && deviation <= SERVICE_KNOWN_RATIO * value;
        let calls = totals.sampled.saturating_sub(self.sampled) as f64;
        let mean_ns = service_ns(totals.sampled_ns.saturating_sub(self.sampled_ns) as f64 / calls, overhead);
        let by_chance = SERVICE_KEPT_DEVIATIONS * (self.load.scv / calls).sqrt();
        let is_near = (mean_ns - value).abs() <= value * by_chance.max(SERVICE_KEPT_RATIO);
        is_known && self.looks < SERVICE_KEPT_SAMPLES_MAX && is_near
    }
}

/// Returns the shares of the busiest of up to `replicas_max` replicas, if bins are divided by the tuples that they
/// had.
fn key(bins: &[u64], replicas_max: usize) -> Key {
    // Bins without tuples are spread as well.
    let loads: Vec<f64> = bins.iter().map(|&tuples| tuples as f64 + 1.0).collect();
    let share = |replicas| Bins::divided(&loads, replicas).map_or(1.0, |bins| bins.max_share(&loads));
    Key { max_share: (1..=replicas_max).map(share).collect() }
}

/// Returns the time that an operator takes of its core, from that of a call.
fn service_ns(call_ns: f64, overhead: Overhead) -> f64 {
    (call_ns - overhead.clock_ns).max(SERVICE_MIN_NS) + overhead.call_ns
}

impl EdgeMeter {
    fn figure(&mut self) -> Figure {
        let measured = self.selectivity.estimate(SelectivityMeter::selectivity).map(Figure::from);
        measured.unwrap_or_else(|| match self.taken {
            0 => Figure::guess(1.0),
            taken => {
                Figure { value: self.sent as f64 / taken as f64, deviation: 1.0 / (taken as f64).sqrt() }
            }
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the meter of an operator with this number of calls in each 5 ms.
    fn meter() -> OperatorMeter {
        let graph = Graph::new(1, [], vec![0]);
        let overhead = Overhead { clock_ns: 0.0, call_ns: 0.0 };
        Meters::new(&graph, overhead).unwrap().operators.remove(0)
    }

    /// Adds samples of four calls for 40 ms, and looks: the service time in nanoseconds.
    fn sample(meter: &mut OperatorMeter, call_ns: u64) -> f64 {
        let overhead = Overhead { clock_ns: 0.0, call_ns: 0.0 };
        for _ in 0..8 {
            let calls = vec![call_ns; 4];
            let sampled = meter.totals.sampled + calls.len() as u64;
            let sampled_ns = meter.totals.sampled_ns + calls.iter().sum::<u64>();
            let counters =
                OperatorSample { sampled, sampled_ns, call_ns: calls, ..OperatorSample::default() };
            meter.add(sampled * 5 * MS / 4, &counters, overhead);
        }
        meter.load(overhead).service_ns.value
    }

    #[test]
    fn a_service_time_is_kept_while_calls_agree_with_it_and_evaluated_after_some_looks() {
        let mut meter = meter();
        (0..20)
            .map(|_| sample(&mut meter, 1_000))
            .for_each(|service_ns| assert!((service_ns - 1e3).abs() < 1e-6));
        // At a difference of 5 % the first of the looks that follow may evaluate, then one of eleven does.
        let found: Vec<f64> = (0..40).map(|_| sample(&mut meter, 1_050)).collect();
        let changes = found.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((3..=4).contains(&changes), "{found:?}");
        assert!(found[39] > 1_025.0, "{found:?}");
    }

    #[test]
    fn a_change_that_matters_is_known_as_soon_as_if_all_samples_were_always_evaluated() {
        let (mut keeping, mut evaluating) = (meter(), meter());
        for number in 0..60 {
            let call_ns = if number < 25 { 1_000 } else { 1_300 };
            evaluating.known.iter_mut().for_each(|known| known.looks = SERVICE_KEPT_SAMPLES_MAX);
            let (kept, evaluated) = (sample(&mut keeping, call_ns), sample(&mut evaluating, call_ns));
            assert!((kept - evaluated).abs() < 1e-6, "{kept} and {evaluated} at look {number}");
        }
        assert!((sample(&mut keeping, 1_300) - 1_300.0).abs() < 1e-6);
    }
}
