//! A run of a pipeline: figures of its operators, latencies of its outputs, and its moves between cores.

mod chart;
mod snapshots;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{count, duration, per_second, plural, ratio};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Notes, Present, Section};
use crate::value::Value;

pub use snapshots::StreamSnapshots;

/// A run of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamRunResult {
    /// Name of the file with the pipeline.
    pub pipeline: String,
    /// Time in nanoseconds from the start to the end of the last sink.
    pub elapsed_ns: u64,
    /// User CPU time of the process in nanoseconds.
    pub user_ns: u64,
    /// System CPU time of the process in nanoseconds.
    pub system_ns: u64,
    /// Number of usable cores.
    pub cores: u64,
    /// The sources.
    pub sources: Vec<StreamSource>,
    /// All operators in their order, including sources and sinks.
    pub operators: Vec<StreamOperator>,
    /// The sinks.
    pub sinks: Vec<StreamSink>,
    /// The last thousand changes of the plan.
    pub changes: Vec<StreamChange>,
    /// Operators that stopped after a panic.
    pub failures: Vec<StreamFailure>,
    /// Its snapshots; absent if none were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<StreamSnapshots>,
    /// Losses after a crash, and other remarks.
    pub notes: Vec<String>,
}

/// A source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSource {
    /// Its name.
    pub name: String,
    /// Emitted records.
    pub records: u64,
    /// Records that could not be parsed, and were skipped.
    pub bad: u64,
    /// The first of these: its position and its fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bad: Option<String>,
    /// Late records, which came after the watermark and were dropped.
    pub late: u64,
    /// Records dropped under overload.
    pub shed: u64,
}

/// An operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamOperator {
    /// Its name.
    pub name: String,
    /// The operating system's number of the CPU that it ran on at the end; absent if workers are not pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// Number of cores among which its records were divided at the end, of which `cpu` is the first; absent if it had
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u64>,
    /// Received records.
    pub records_in: u64,
    /// Emitted records.
    pub records_out: u64,
    /// Records whose processing failed.
    pub failed: u64,
    /// Records dropped because they came after their window, and evicted keys.
    pub late: u64,
    /// Estimated CPU time of the operator in nanoseconds.
    pub busy_ns: u64,
    /// Maximum number of records in its input ring.
    pub ring_max: u64,
}

/// A sink and the latencies of its records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSink {
    /// Its name.
    pub name: String,
    /// Number of records.
    pub records: u64,
    /// Mean latency in nanoseconds, from the scheduled arrival of a record's latest input.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Latencies per tenth of a second with records, over the last hour.
    pub windows: Vec<StreamWindow>,
}

/// A tenth of a second at a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamWindow {
    /// Start in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
    /// Number of records.
    pub records: u64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

/// A change of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamChange {
    /// Time of its completion in nanoseconds since the start.
    pub at_ns: u64,
    /// The reason.
    pub reason: String,
    /// Rate of the input at the decision, in records per second; absent if the reason is not a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Cores in use afterwards; absent if unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u64>,
    /// Number of segments that were moved, split or fused.
    pub moves: u64,
    /// Time in nanoseconds from the sample that led to the decision to the completion.
    pub duration_ns: u64,
}

/// An operator that stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFailure {
    /// Its name.
    pub operator: String,
    /// The panic.
    pub message: String,
}

impl StreamRunResult {
    fn records(&self) -> u64 {
        self.sources.iter().map(|source| source.records).sum()
    }

    fn operators(&self) -> Section {
        Rows::new("operators", "Operators", &self.operators)
            .text("operator", |operator| match operator.replicas {
                Some(replicas) => format!("{} × {replicas}", operator.name),
                None => operator.name.clone(),
            })
            .figure("CPU", |operator| Value::known(operator.cpu, Value::Count))
            .spare(3)
            .figure("in", |operator| Value::Count(operator.records_in))
            .figure("out", |operator| Value::Count(operator.records_out))
            .figure("failed", |operator| Value::Count(operator.failed))
            .spare(2)
            .figure("late", |operator| Value::Count(operator.late))
            .spare(3)
            .figure("busy", |operator| Value::Share(ratio(operator.busy_ns, self.elapsed_ns)))
            .figure("a record", |operator| {
                let records = operator.records_in;
                Value::known((records > 0).then(|| operator.busy_ns / records), Value::Time)
            })
            .figure("ring", |operator| Value::Count(operator.ring_max))
            .spare(4)
            .legend("late: arrived after their window had closed; busy: share of the run spent in the operator; ring: maximum of records that waited before it")
            .section()
    }

    fn sources(&self) -> Section {
        Rows::new("sources", "Sources", &self.sources)
            .text("source", |source| source.name.clone())
            .figure("records", |source| Value::Count(source.records))
            .figure("bad", |source| Value::Count(source.bad))
            .figure("late", |source| Value::Count(source.late))
            .figure("shed", |source| Value::Count(source.shed))
            .legend("bad: could not be read; late: arrived after the watermark; shed: dropped under overload")
            .section()
    }

    fn sinks(&self) -> Section {
        Rows::new("sinks", "Latency at the sinks", &self.sinks)
            .text("sink", |sink| sink.name.clone())
            .figure("records", |sink| Value::Count(sink.records))
            .figure("mean", |sink| Value::Time(sink.mean_ns))
            .figure("p50", |sink| Value::Time(sink.p50_ns))
            .figure("p99", |sink| Value::Time(sink.p99_ns))
            .figure("p99.9", |sink| Value::Time(sink.p99_9_ns))
            .figure("longest", |sink| Value::Time(sink.max_ns))
            .legend("from the scheduled arrival of a record's latest input until its arrival at the sink")
            .section()
    }

    fn changes(&self) -> Section {
        Rows::new("changes", "Changes of the plan", &self.changes)
            .text("reason", |change| change.reason.clone())
            .figure("at", |change| Value::Time(change.at_ns))
            .figure("records/s", |change| Value::known(change.rate_per_s, Value::PerSecond))
            .figure("cores", |change| Value::known(change.cores, Value::Count))
            .figure("moves", |change| Value::Count(change.moves))
            .figure("took", |change| Value::Time(change.duration_ns))
            .section()
    }
}

impl Present for StreamRunResult {
    const SCHEMA: &'static str = "sakiyomi.stream-run/1";

    fn title(&self) -> String {
        self.pipeline.clone()
    }

    fn verdict(&self) -> Vec<Finding> {
        let records = self.records();
        let rate = records as f64 / (self.elapsed_ns.max(1) as f64 / 1e9);
        let mut sentences = vec![format!(
            "{} in {}, {} per second.",
            plural(records, "record"),
            duration(self.elapsed_ns),
            per_second(rate)
        )];
        sentences.extend(self.sinks.iter().filter(|sink| sink.records > 0).map(|sink| {
            format!(
                "Half of the {} records at {} are at most {} old, and 99 % at most {}.",
                count(sink.records),
                sink.name,
                duration(sink.p50_ns),
                duration(sink.p99_ns)
            )
        }));
        sentences.extend(self.snapshots.as_ref().map(StreamSnapshots::sentence));
        let lost = |name: &str, of: fn(&StreamSource) -> u64| {
            let sum: u64 = self.sources.iter().map(of).sum();
            (sum > 0).then(|| format!("{} {name}.", plural(sum, "record")))
        };
        let dropped = [
            lost("could not be read", |source| source.bad),
            lost("arrived after the watermark", |source| source.late),
            lost("dropped under overload", |source| source.shed),
        ];
        let late: u64 = self.operators.iter().map(|operator| operator.late).sum();
        let late =
            (late > 0).then(|| format!("{} arrived after their window had closed.", plural(late, "record")));
        let mut findings = Finding::whole(sentences);
        let alarm = |sentence| Finding { sentences: vec![sentence], is_alarm: true, ..Finding::default() };
        findings.extend(dropped.into_iter().flatten().chain(late).map(alarm));
        findings.extend(self.failures.iter().map(|failure| {
            alarm(format!("Operator {} stopped after a panic: {}", failure.operator, failure.message))
        }));
        findings
    }

    fn settings(&self) -> Vec<Fact> {
        vec![
            Fact::time("elapsed", self.elapsed_ns),
            Fact::time("CPU time, user", self.user_ns),
            Fact::time("CPU time, system", self.system_ns),
            Fact::count("cores", self.cores),
        ]
    }

    fn sections(&self) -> Vec<Section> {
        let first_bad = self.sources.iter().filter_map(|source| {
            let first = source.first_bad.as_ref()?;
            Some(format!("first bad record of {}: {first}", source.name))
        });
        vec![
            self.sinks(),
            self.operators(),
            self.sources(),
            self.changes(),
            StreamSnapshots::section(self.snapshots.as_ref()),
            Notes::plain("Notes", first_bad.chain(self.notes.iter().cloned())),
        ]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::STREAM
    }
}
