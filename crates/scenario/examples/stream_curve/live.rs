//! The simulation compared with this machine: a chain runs on one core and on two, and is simulated with the costs that
//! were measured. What is measured for the costs are saturated runs and one at a low rate, and not the loads that are
//! compared.
//!
//! Figures are medians over tenths of a second, of both: a time in which another program has a core is left out so,
//! unless it is half of all.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use sakiyomi_model::Nanos;
use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_placement::{Hop, Operator, Pipeline, Topology};
use sakiyomi_scenario::stream::{ArrivalPattern, Spacing, StreamSettings, StreamSpec, simulate};
use sakiyomi_stream::{Report, Settings};
use serde_json::{Value, json};

use crate::driver::chain::{SINK, chain, placement, workers};
use crate::driver::figures::{Bin, bins, median, medians};
use crate::driver::load::{self, OPERATORS, Pattern, Phase};
use crate::driver::quiet::Moment;

/// Service time of each operator.
const SERVICE_NS: u64 = 2_000;

/// The operator that begins the second core's part: both have four operators.
const CUT: usize = 5;

/// Shares of the busiest core's time that the loads take.
const SHARES: [f64; 3] = [0.3, 0.6, 0.8];

/// Rate of saturated runs, in relation to what one core can do.
const SATURATION_RATIO: f64 = 6.0;

/// Rate of the run without queues, in relation to the same.
const LOW_RATIO: f64 = 0.2;

/// Time for which a worker polls: longer than any gap, because wake-ups are not compared.
const SPIN: Duration = Duration::from_millis(2);

/// Times that each load is run, in turn with the others.
const ROUNDS: u64 = 3;

/// Largest relative errors of the mean and of the 99th percentile.
pub(crate) const MEAN_ERROR_MAX: f64 = 0.10;
pub(crate) const P99_ERROR_MAX: f64 = 0.25;

/// Costs on this machine, in nanoseconds.
#[derive(Debug)]
struct Costs {
    /// Service time of each operator of the stream, with the cost of the runtime.
    services_ns: Vec<f64>,
    hop: Hop,
}

/// A load, live and simulated.
pub(crate) struct Compared {
    cores: usize,
    share: f64,
    rate_per_s: f64,
    /// Mean and 99th percentile, in nanoseconds.
    live_ns: (f64, f64),
    simulated_ns: (f64, f64),
}

/// Comparisons of all loads, and the share of the CPUs that others took meanwhile.
pub(crate) struct Validation {
    pub(crate) compared: Vec<Compared>,
    costs: Costs,
    pub(crate) others_ratio: f64,
}

/// Runs and simulates all loads, each for a time.
///
/// # Errors
/// If there are not two CPUs, a thread cannot be started or pinned, or nothing was measured.
pub(crate) fn validate(time: Duration, seed: u64) -> Result<Validation, Box<dyn Error>> {
    if usable_cpus()?.len() < 2 {
        return Err("the comparison needs two CPUs".into());
    }
    let before = Moment::now();
    let costs = Costs::measure(time, seed)?;
    let loads: Vec<(usize, f64)> =
        [0, CUT].into_iter().flat_map(|cut| SHARES.map(|share| (cut, share))).collect();
    let mut live: Vec<Vec<Bin>> = vec![Vec::new(); loads.len()];
    for round in 0..ROUNDS {
        for (&(cut, share), live) in loads.iter().zip(&mut live) {
            let load = phase(share / costs.busiest_ns(cut) * 1e9);
            live.extend(run(&load, cut, load::Spacing::Poisson, time, seed + round)?.1);
        }
    }
    let others_ratio = before.others_ratio(&Moment::now());
    let compare = |(&(cut, share), live): (&(usize, f64), &Vec<Bin>)| -> Result<Compared, Box<dyn Error>> {
        let rate_per_s = share / costs.busiest_ns(cut) * 1e9;
        Ok(Compared {
            cores: if cut == 0 { 1 } else { 2 },
            share,
            rate_per_s,
            live_ns: medians(live).ok_or("a run had no results")?,
            simulated_ns: costs.simulate(cut, rate_per_s, time * ROUNDS as u32, seed)?,
        })
    };
    let compared = loads.iter().zip(&live).map(compare).collect::<Result<_, _>>()?;
    Ok(Validation { compared, costs, others_ratio })
}

fn phase(rate_per_s: f64) -> Phase {
    Phase { from_ns: 0, rate_per_s, passed_ratio: 1.0, services_ns: [SERVICE_NS; OPERATORS] }
}

/// Runs a load. Returns the report and the bins but for the first, which has the start of the threads, and the last.
fn run(
    load: &Phase,
    cut: usize,
    spacing: load::Spacing,
    time: Duration,
    seed: u64,
) -> Result<(Report, Vec<Bin>), Box<dyn Error>> {
    let pattern = Arc::new(Pattern::steady(load, u64::try_from(time.as_nanos())?, spacing));
    let cpus = usable_cpus()?.into_iter().take(2).collect();
    let settings = Settings { spin: SPIN, ..Settings::pinned(&cpus) };
    let report = chain(&pattern, seed)?.start(settings, &workers(cut))?.finish()?;
    let mut bins = bins(&report, SINK);
    bins.pop();
    Ok((report, bins.into_iter().skip(1).collect()))
}

impl Costs {
    fn measure(time: Duration, seed: u64) -> Result<Costs, Box<dyn Error>> {
        let core_per_s = 1e9 / (OPERATORS as u64 * SERVICE_NS) as f64;
        let (saturated, low) = (phase(SATURATION_RATIO * core_per_s), phase(LOW_RATIO * core_per_s));
        // Time per tuple of the busiest core.
        let occupancy = |cut: usize| -> Result<(Report, f64), Box<dyn Error>> {
            let (report, bins) = run(&saturated, cut, load::Spacing::Constant, time, seed)?;
            let results = median(bins.iter().map(|bin| bin.results as f64).collect());
            let per_bin = results.ok_or("a saturated run is too short")?;
            Ok((report, crate::driver::figures::BIN_NS as f64 / per_bin))
        };
        let latency = |cut: usize| -> Result<f64, Box<dyn Error>> {
            let (_, bins) = run(&low, cut, load::Spacing::Constant, time, seed)?;
            Ok(medians(&bins).ok_or("a run at a low rate is too short")?.0)
        };
        let (report, all_ns) = occupancy(0)?;
        let calls_ns: Vec<f64> = report
            .operators
            .iter()
            .map(|operator| operator.busy_ns as f64 / operator.tuples_out.max(operator.tuples_in) as f64)
            .collect();
        let sum_ns: f64 = calls_ns.iter().sum();
        let services_ns: Vec<f64> = calls_ns.iter().map(|call_ns| call_ns / sum_ns * all_ns).collect();
        let send_ns = (occupancy(SINK)?.1 - (all_ns - services_ns[SINK])).max(0.0);
        let receive_ns = (occupancy(1)?.1 - (all_ns - services_ns[0])).max(0.0);
        let transit_ns = (latency(CUT)? - latency(0)? - send_ns - receive_ns).max(0.0);
        Ok(Costs { services_ns, hop: Hop { send_ns, transit_ns, receive_ns, ..Hop::FREE } })
    }

    /// Time per tuple of the busiest core.
    fn busiest_ns(&self, cut: usize) -> f64 {
        let sum = |range: std::ops::Range<usize>| self.services_ns[range].iter().sum::<f64>();
        match cut {
            0 => sum(0..SINK + 1),
            _ => (sum(0..cut) + self.hop.send_ns).max(sum(cut..SINK + 1) + self.hop.receive_ns),
        }
    }

    /// Mean and 99th percentile, in nanoseconds.
    fn simulate(
        &self,
        cut: usize,
        rate_per_s: f64,
        time: Duration,
        seed: u64,
    ) -> Result<(f64, f64), Box<dyn Error>> {
        let operators = self.services_ns.iter().map(|&service_ns| Operator::new(service_ns)).collect();
        let pipeline = Pipeline::chain(operators, &[1.0; SINK])?;
        let topology = Topology::uniform(2, self.hop)?;
        let arrivals = ArrivalPattern::steady(rate_per_s, Spacing::Poisson);
        let settings = StreamSettings::new(Nanos::from_secs_f64(time.as_secs_f64()), seed);
        let spec = StreamSpec::new(&pipeline, &topology, placement(cut), arrivals, settings);
        let intervals = simulate(&spec)?.intervals;
        let bins: Vec<Bin> = intervals
            .iter()
            .filter(|interval| interval.latency.results > 0 && interval.from >= settings.measure_from)
            .map(|interval| Bin {
                start_ns: interval.from.0,
                results: interval.latency.results,
                mean_ns: interval.latency.mean_ns,
                p99_ns: interval.latency.p99.0,
            })
            .collect();
        Ok(medians(&bins).ok_or("the simulation is too short")?)
    }
}

impl Compared {
    /// Relative errors of the simulated mean and 99th percentile.
    fn errors(&self) -> (f64, f64) {
        (self.simulated_ns.0 / self.live_ns.0 - 1.0, self.simulated_ns.1 / self.live_ns.1 - 1.0)
    }

    fn is_within(&self) -> bool {
        let (mean, p99) = self.errors();
        mean.abs() <= MEAN_ERROR_MAX && p99.abs() <= P99_ERROR_MAX
    }
}

impl Validation {
    pub(crate) fn text(&self) -> String {
        let Hop { send_ns, transit_ns, receive_ns, .. } = self.costs.hop;
        let all_ns: f64 = self.costs.services_ns.iter().sum();
        let mut text = format!(
            "measured: {all_ns:.0} ns a tuple on one core; {send_ns:.0} ns to send, {transit_ns:.0} ns on the way, \
             {receive_ns:.0} ns to receive\n\
             cores share    tuples/s  live mean_us   p99_us  simulated mean_us   p99_us   mean_%    p99_%\n"
        );
        for compared in &self.compared {
            let Compared { cores, share, rate_per_s, live_ns, simulated_ns } = compared;
            let (mean, p99) = compared.errors();
            text += &format!(
                "{cores:5} {share:5.1} {rate_per_s:11.0} {:13.2} {:8.2} {:18.2} {:8.2} {:8.1} {:8.1}{}\n",
                live_ns.0 * 1e-3,
                live_ns.1 * 1e-3,
                simulated_ns.0 * 1e-3,
                simulated_ns.1 * 1e-3,
                mean * 100.0,
                p99 * 100.0,
                if compared.is_within() { "" } else { "  beyond 10 % and 25 %" },
            );
        }
        text + &format!("others took {:.1} % of the CPUs", self.others_ratio * 100.0)
    }

    pub(crate) fn json(&self) -> Value {
        let Hop { send_ns, transit_ns, receive_ns, .. } = self.costs.hop;
        let compared = self.compared.iter().map(|compared| {
            let (mean, p99) = compared.errors();
            json!({
                "cores": compared.cores,
                "share": compared.share,
                "rate_per_s": compared.rate_per_s,
                "live_mean_ns": compared.live_ns.0,
                "live_p99_ns": compared.live_ns.1,
                "simulated_mean_ns": compared.simulated_ns.0,
                "simulated_p99_ns": compared.simulated_ns.1,
                "mean_error_ratio": mean,
                "p99_error_ratio": p99,
            })
        });
        json!({
            "services_ns": self.costs.services_ns,
            "send_ns": send_ns,
            "transit_ns": transit_ns,
            "receive_ns": receive_ns,
            "compared": compared.collect::<Vec<_>>(),
            "others_ratio": self.others_ratio,
        })
    }
}
