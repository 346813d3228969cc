//! `stream sim`: a pipeline on a machine that one does not have.

mod divisions;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_model::Nanos;
use sakiyomi_pipeline::Pipeline;
use sakiyomi_placement::{Arrivals, Planner, Settings};
use sakiyomi_report::Document;
use sakiyomi_report::result::{StreamSimPoint, StreamSimResult};
use sakiyomi_scenario::stream::{
    ArrivalPattern, OverloadPolicy, Spacing, StreamOutcome, StreamSettings, StreamSpec, simulate,
};

use super::cores::{Cores, simulated};
use super::rate::Rate;
use super::result::describe;
use crate::console::Common;
use crate::output::Overwrite;
use crate::progress::Progress;
use crate::provenance;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi stream sim alerts.toml --cores 4x8 --rate 800k
  sakiyomi stream sim alerts.toml --cores 16 --rate 1.5M --for 2s --out simulated
";

/// Simulate a pipeline on machines with more and more cores: latency, overflow, and the planner's choice.
#[derive(Debug, Args)]
#[command(
    after_help = "For each number of cores, the best placement that was found is simulated in virtual time with \
        Poisson arrivals. Service times are those that the file declares as `cost`, or typical ones; costs \
        of hops are those that `sakiyomi stream topology` has saved, or those of a Xeon. Records that meet a \
        full ring are dropped and counted. The same seed gives the same figures. Exits with 1 if the rate \
        overflows on all numbers of cores."
)]
pub(crate) struct Sim {
    /// The pipeline, as TOML
    file: PathBuf,
    /// Mean rate of the input in records per second: 5000, 200k, 1.5M
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Cores of the machine: a number, or cache domains and the cores of each, such as 4x8 [default: the cores of this machine]
    #[arg(long, value_name = "N|DxN")]
    cores: Option<Cores>,
    /// Simulated time in which records arrive
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    r#for: Nanos,
    /// Seed of arrivals and service times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write result.json, report.html, report.md and the chart to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Most records of one simulation: some seconds of computing for each number of cores.
const RECORDS_MAX: f64 = 2e7;

impl Sim {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let records = self.rate.0 * self.r#for.as_secs_f64();
        ensure!(self.r#for.0 > 0, "--for 0: give a simulated time, such as 500ms");
        ensure!(
            records <= RECORDS_MAX,
            "--for {}: {records:.0} records are too many to simulate; give a shorter time",
            self.r#for
        );
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let begun = Instant::now();
        let pipeline = Pipeline::read(&self.file)?;
        let topology = simulated(self.cores)?;
        let graph = pipeline.planner()?;
        let operators: Vec<&str> = pipeline.operators().collect();
        let arrivals = Arrivals::poisson(self.rate.0)?;
        let planner = Planner::new(&graph, &topology, Settings::default())?;
        let model = planner.model(arrivals);
        let chosen = planner.plan(arrivals).ok();
        let divisions = divisions::by_cores(&model, operators.len(), topology.cores(), chosen.as_ref());
        let mut progress = Progress::new(Some(divisions.len() as u64), common.quiet);
        let mut points = Vec::new();
        for placement in divisions {
            progress.set(points.len() as u64, || format!("{} cores", placement.cores_used()))?;
            let settings = StreamSettings {
                overload: OverloadPolicy::Shed,
                ..StreamSettings::new(self.r#for, self.seed)
            };
            let mut spec = StreamSpec::new(
                &graph,
                &topology,
                placement.clone(),
                ArrivalPattern::steady(self.rate.0, Spacing::Poisson),
                settings,
            );
            let entries = (0..operators.len()).map(|operator| (operator, graph.entry(operator)));
            let pattern = |share: f64| ArrivalPattern::steady(self.rate.0 * share, Spacing::Poisson);
            spec.inputs =
                entries.filter(|&(_, share)| share > 0.0).map(|(at, share)| (at, pattern(share))).collect();
            let outcome = simulate(&spec)?;
            let model_ns = model.figures(&placement)?.latency_ns;
            points.push(StreamSimPoint {
                cores: placement.cores_used() as u64,
                groups: describe(&placement, &operators),
                model_ns: Some(model_ns).filter(|ns| ns.is_finite()),
                ..point(&outcome)
            });
        }
        drop(progress);
        let overflows = points.iter().all(|point| point.shed_ratio > 0.0);
        let result = StreamSimResult {
            pipeline: self.file.display().to_string(),
            rate_per_s: self.rate.0,
            simulated_ns: self.r#for.0,
            seed: self.seed,
            domains: topology.domains().len() as u64,
            cores: topology.cores() as u64,
            chosen_cores: chosen.map(|plan| plan.placement.cores_used() as u64),
            points,
        };
        let document = Document::new(provenance::run(begun.elapsed()), result);
        if let Some(out) = out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        common.present(&document)?;
        Ok(if overflows { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Returns the simulated figures of a placement.
fn point(outcome: &StreamOutcome) -> StreamSimPoint {
    let latency = &outcome.latency;
    let offered = outcome.arrived_tuples + outcome.shed_tuples;
    let utilization = outcome.cores.iter().map(|core| core.utilization);
    StreamSimPoint {
        mean_ns: latency.mean_ns,
        p50_ns: latency.p50.0,
        p99_ns: latency.p99.0,
        p99_9_ns: latency.p999.0,
        max_ns: latency.max.0,
        shed_ratio: if offered == 0 { 0.0 } else { outcome.shed_tuples as f64 / offered as f64 },
        utilization_max_ratio: utilization.fold(0.0, f64::max).min(1.0),
        hops: outcome.hops_per_tuple(),
        cpu_ns: outcome.cpu_time().0,
        ring_max: outcome.rings.iter().map(|ring| ring.high_water_tuples as u64).max().unwrap_or(0),
        ..StreamSimPoint::default()
    }
}
