//! A pipeline simulated on an increasing number of cores: latency and overflow against the number of cores.

mod chart;

use serde::{Deserialize, Serialize};

use super::whole_ns;
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{duration, per_second, percent, plural};
use crate::rows::Rows;
use crate::section::{Emphasis, Fact, Finding, Glossary, Present, Section};
use crate::value::{Aim, Value};

/// A simulated pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSimResult {
    /// Name of the file with the pipeline.
    pub pipeline: String,
    /// Mean rate of the input, in records per second.
    pub rate_per_s: f64,
    /// Simulated time in nanoseconds during which records arrive.
    pub simulated_ns: u64,
    /// Seed of arrivals and service times.
    pub seed: u64,
    /// Cache domains of the simulated machine.
    pub domains: u64,
    /// Cores of the simulated machine.
    pub cores: u64,
    /// Number of cores that the planner chooses; absent if no plan sustains the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_cores: Option<u64>,
    /// The best plan on each number of cores, ascending.
    pub points: Vec<StreamSimPoint>,
}

/// A simulated plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSimPoint {
    /// Number of cores in use.
    pub cores: u64,
    /// Operators by core: names joined by `+`, cores by ` | `.
    pub groups: String,
    /// Mean latency in nanoseconds by the planner's model; absent if a core is overloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_ns: Option<f64>,
    /// Simulated mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Share of the records that were dropped for lack of room.
    pub shed_ratio: f64,
    /// Utilization of the busiest core.
    pub utilization_max_ratio: f64,
    /// Mean number of hops between cores per record.
    pub hops: f64,
    /// CPU time of all cores in nanoseconds, including polling.
    pub cpu_ns: u64,
    /// Maximum number of records in a ring.
    pub ring_max: u64,
}

impl StreamSimResult {
    fn best(&self) -> Option<&StreamSimPoint> {
        let held = self.points.iter().filter(|point| point.shed_ratio == 0.0);
        held.min_by(|a, b| a.mean_ns.total_cmp(&b.mean_ns))
    }
}

impl Present for StreamSimResult {
    const SCHEMA: &'static str = "sakiyomi.stream-sim/2";

    fn title(&self) -> String {
        format!("{}, simulated", self.pipeline)
    }

    fn verdict(&self) -> Vec<Finding> {
        let rate = per_second(self.rate_per_s);
        let Some(best) = self.best() else {
            let sentence =
                format!("Simulated: {rate} records/s overflow on any number of cores up to {}.", self.cores);
            return vec![Finding { sentences: vec![sentence], is_alarm: true, ..Finding::default() }];
        };
        let mut sentences = vec![format!(
            "Simulated: at {rate} records/s the least mean latency is {}, on {}.",
            duration(whole_ns(best.mean_ns)),
            plural(best.cores, "core")
        )];
        if let Some(fewest) = self.points.iter().find(|point| point.shed_ratio == 0.0) {
            sentences.push(format!("The fewest cores that do not overflow are {}.", fewest.cores));
        }
        let chosen =
            self.chosen_cores.and_then(|cores| self.points.iter().find(|point| point.cores == cores));
        sentences.extend(chosen.map(|chosen| {
            format!(
                "The planner chooses {}, with {} more latency.",
                plural(chosen.cores, "core"),
                percent((chosen.mean_ns / best.mean_ns - 1.0).max(0.0))
            )
        }));
        Finding::whole(sentences)
    }

    fn settings(&self) -> Vec<Fact> {
        let cores = match self.domains {
            0 | 1 => self.cores.to_string(),
            domains => format!("{} in {domains} cache domains", self.cores),
        };
        vec![
            Fact::new("rate", Value::PerSecond(self.rate_per_s)),
            Fact::new("cores", cores),
            Fact::time("simulated time", self.simulated_ns),
            Fact::count("seed", self.seed),
        ]
    }

    fn sections(&self) -> Vec<Section> {
        let time = |ns: f64| Value::Time(whole_ns(ns));
        let is_chosen = |point: &&StreamSimPoint| Some(point.cores) == self.chosen_cores;
        let curve = Rows::new("cores", "Latency by number of cores", &self.points)
            .text("cores", |point| point.cores.to_string())
            .figure("model", |point| Value::known(point.model_ns, time))
            .spare(2)
            .figure("mean", |point| time(point.mean_ns))
            .figure("p50", |point| Value::Time(point.p50_ns))
            .spare(3)
            .figure("p99", |point| Value::Time(point.p99_ns))
            .figure("p99.9", |point| Value::Time(point.p99_9_ns))
            .figure("shed", |point| Value::Share(point.shed_ratio))
            .figure("busiest", |point| Value::Share(point.utilization_max_ratio))
            .figure("hops", |point| Value::Number(point.hops, 2))
            .spare(4)
            .figure("CPU", |point| Value::Time(point.cpu_ns))
            .spare(5)
            .figure("ring", |point| Value::Count(point.ring_max))
            .spare(6)
            .aim(Aim::Low)
            .emphasis(|point| if is_chosen(point) { Emphasis::Best } else { Emphasis::None })
            .legend("simulated; model: mean by the planner's model; shed: dropped because rings were full; hops between cores of a record");
        let plans = Rows::new("plans", "Operators by core", &self.points)
            .text("cores", |point| point.cores.to_string())
            .text("operators by core", |point| point.groups.clone());
        vec![curve.section(), plans.section()]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::STREAM
    }
}
