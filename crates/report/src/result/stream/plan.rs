//! The assignment of operators to cores at a rate, and the rates that the machine sustains.

use serde::{Deserialize, Serialize};

use super::whole_ns;
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{duration, per_second, plural, rate, whole_percent};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Present, Section};
use crate::value::Value;

/// The plan of a pipeline at a rate, and those of all rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamPlanResult {
    /// Name of the file with the pipeline.
    pub pipeline: String,
    /// Mean rate of the input, in records per second.
    pub rate_per_s: f64,
    /// Number of usable cores.
    pub cores: u64,
    /// Maximum utilization of a core.
    pub utilization_max_ratio: f64,
    /// Groups of operators, one core each; empty if no plan sustains the rate.
    pub groups: Vec<StreamGroup>,
    /// Mean latency of an output record in nanoseconds; absent without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// Whether the plan is proven optimal among plans of neighboring operators.
    pub is_exact: bool,
    /// The difference of the rate from the highest sustained one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<StreamShortfall>,
    /// Ranges of rates with one plan each, ascending.
    pub rates: Vec<StreamRate>,
}

/// Operators that share a core, or cores that share the operators' tuples by key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamGroup {
    /// Names of the operators.
    pub operators: Vec<String>,
    /// The operating system's numbers of the CPUs.
    pub cpus: Vec<u64>,
    /// Utilization of the busiest of them.
    pub utilization_ratio: f64,
}

/// A rate that no plan sustains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamShortfall {
    /// The highest rate that a plan sustains, in records per second.
    pub held_per_s: f64,
    /// Its limit, in words.
    pub limit: String,
    /// The cheapest edge at which a part goes to a larger engine; absent if not even the sources fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<StreamCut>,
}

/// A division of a pipeline between this machine and a larger engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamCut {
    /// Operators that stay here.
    pub stays: Vec<String>,
    /// Operators that go there.
    pub goes: Vec<String>,
    /// Records that are handed over, per second.
    pub records_per_s: f64,
    /// Their bytes, per second.
    pub bytes_per_s: f64,
}

/// A range of rates with the same plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamRate {
    /// The highest rate of the range, in records per second.
    pub to_per_s: f64,
    /// Number of cores in use.
    pub cores: u64,
    /// The groups: names of operators joined by `+`, groups by ` | `.
    pub groups: String,
    /// Mean latency at the upper end of the range, in nanoseconds.
    pub latency_ns: f64,
}

impl StreamCut {
    fn describe(&self) -> String {
        format!(
            "The cheapest cut leaves {} here and moves {} to a larger engine: {} records/s, {}.",
            self.stays.join(", "),
            self.goes.join(", "),
            per_second(self.records_per_s),
            rate(self.bytes_per_s)
        )
    }
}

impl Present for StreamPlanResult {
    const SCHEMA: &'static str = "sakiyomi.stream-plan/2";

    fn title(&self) -> String {
        self.pipeline.clone()
    }

    fn verdict(&self) -> Vec<Finding> {
        let asked = per_second(self.rate_per_s);
        let Some(latency_ns) = self.latency_ns else {
            let shortfall = self.shortfall.clone().unwrap_or_default();
            let sentence = format!(
                "No plan holds {asked} records/s on {}: short by {} records/s. {}",
                plural(self.cores, "core"),
                per_second((self.rate_per_s - shortfall.held_per_s).max(0.0)),
                shortfall.limit
            );
            let cut = shortfall.cut.as_ref().map(StreamCut::describe);
            let sentences = [Some(sentence), cut].into_iter().flatten().collect();
            return vec![Finding { sentences, is_alarm: true, ..Finding::default() }];
        };
        let used: u64 = self.groups.iter().map(|group| group.cpus.len() as u64).sum();
        let mut sentences = vec![format!(
            "At {asked} records/s the pipeline needs {} of {}, and an output record is {} old on average.",
            plural(used, "core"),
            self.cores,
            duration(whole_ns(latency_ns))
        )];
        let busiest = self.groups.iter().map(|group| group.utilization_ratio).fold(0.0, f64::max);
        let highest = self.rates.last().map(|range| range.to_per_s);
        sentences.push(format!("The busiest core is utilized to {}.", whole_percent(busiest)));
        sentences.extend(highest.map(|rate| format!("All cores hold {} records/s.", per_second(rate))));
        Finding::whole(sentences)
    }

    fn settings(&self) -> Vec<Fact> {
        let proof = if self.is_exact { "the best one" } else { "found by local search" };
        vec![
            Fact::new("rate", Value::PerSecond(self.rate_per_s)),
            Fact::new("cores", self.cores.to_string()),
            Fact::new("utilization", format!("at most {}", whole_percent(self.utilization_max_ratio))),
            Fact::new("plan", proof),
        ]
    }

    fn sections(&self) -> Vec<Section> {
        let cpus = |cpus: &[u64]| cpus.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let groups = Rows::new("plan", "Operators by core", &self.groups)
            .text("CPU", |group| cpus(&group.cpus))
            .text("operators", |group| group.operators.join(", "))
            .figure("utilization", |group| Value::Share(group.utilization_ratio))
            .section();
        let rates = Rows::new("rates", "Plans by rate", &self.rates)
            .text("operators by core", |range| range.groups.clone())
            .figure("up to, records/s", |range| Value::PerSecond(range.to_per_s))
            .figure("cores", |range| Value::Count(range.cores))
            .figure("latency there", |range| Value::Time(whole_ns(range.latency_ns)))
            .section();
        vec![groups, rates]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        Vec::new()
    }

    fn glossary(&self) -> Glossary {
        glossary::STREAM
    }
}
