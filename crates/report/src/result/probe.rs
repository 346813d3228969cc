//! The result of `probe`: the performance of each engine on each target, and its limit.

mod chart;
mod groups;
mod verdict;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::number::{duration, plural, rate_range};
use crate::rows::Rows;
use crate::section::{Cell, Emphasis, Fact, Finding, Glossary, Note, Notes, Present, Section, Table, Tone};
use crate::value::Value;
use crate::{glossary, words};

pub(crate) use groups::{Group, groups, limit_name};
use groups::{Reason, harness, reasons};

/// Measurements of I/O engines on one or more targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// The measured targets.
    pub targets: Vec<ProbeTarget>,
    /// Intended duration of one run of one case, in nanoseconds.
    pub run_ns: u64,
    /// Runs of each case; they were interleaved, so that slow phases of the machine affect all cases.
    pub repetitions: u64,
    /// All measured combinations of engine, block size and kind of buffer.
    pub cases: Vec<ProbeCase>,
    /// For each target and kind of access, the fastest case and the cheapest one that is nearly as fast.
    pub choices: Vec<ProbeChoice>,
    /// Settings that were omitted or changed, and conditions that make figures doubtful: whole sentences.
    pub notes: Vec<String>,
}

/// A target of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeTarget {
    /// Its name in cases: `path`, `tmpfs` or `loop`.
    pub name: String,
    /// A short description: `test file in /data, ext4 on vda`.
    pub what: String,
    /// Bytes that are read before it starts again.
    pub size_bytes: u64,
}

/// One engine with one block size and one kind of buffer on one target; figures are medians of the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeCase {
    /// Name of the [`ProbeTarget`].
    pub target: String,
    /// `read`, `pread`, `aio`, `uring`, `uring-sqpoll`, `mmap`, `populate` or `null`.
    pub method: String,
    /// `read`, `write`, or `mix:N` with N % reads; reads if it is empty.
    #[serde(default)]
    pub op: String,
    /// Bytes per request.
    pub block_bytes: u64,
    /// Requests in flight, threads, or concurrent mappings.
    pub depth: u64,
    /// Whether the page cache was bypassed (`O_DIRECT`).
    pub direct: bool,
    /// If not direct: whether the page cache held everything before a run, or nothing.
    pub cached: bool,
    /// Whether blocks were accessed at random offsets instead of sequentially.
    pub random: bool,
    /// The memory of the buffers, as the machine granted it: `ordinary`, `huge pages`, `ordinary, registered` …
    pub buffers: String,
    /// Median of the runs.
    pub throughput_bytes_per_s: f64,
    /// The slowest and the fastest run.
    pub throughput_range_bytes_per_s: ProbeRange,
    /// CPU time of this process in user mode over elapsed time: 1 is one core.
    pub user_ratio: f64,
    /// CPU time of this process in the kernel over elapsed time: 1 is one core.
    pub system_ratio: f64,
    /// CPU time of kernel threads (block layer, loop device) over elapsed time: 1 is one core.
    pub kernel_threads_ratio: f64,
    /// CPU time of this process per byte, user and system: the same number as seconds per 10^9 bytes.
    pub cpu_ns_per_byte: f64,
    /// CPU time of kernel threads per byte: write-back, the block layer, a loop device.
    #[serde(default)]
    pub kernel_threads_cpu_ns_per_byte: f64,
    /// Utilization of all cores by all processes.
    pub machine_cpu_ratio: f64,
    /// Maximum over all threads, of this process and of the kernel, of the time on a core or waiting for one, over
    /// elapsed time.
    pub busiest_thread_ratio: f64,
    /// The name of that thread.
    pub busiest_thread: String,
    /// Latency of requests; of a mix, of its reads; `None` for mappings, which have no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<ProbeLatency>,
    /// Latency of the writes of a mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency_ns: Option<ProbeLatency>,
    /// Relative gain in throughput with twice the depth (ratio less 1); `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double_depth_gain_ratio: Option<f64>,
    /// Relative gain in throughput with the best buffers; `None` if these are the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better_buffers_gain_ratio: Option<f64>,
    /// The limiting resource of this case.
    pub verdict: ProbeVerdict,
    /// The reason, and what would help: one sentence.
    pub reason: String,
}

/// Lowest and highest value of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeRange {
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

/// Latency of requests in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeLatency {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
}

/// The limiting resource of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeVerdict {
    /// More depth and better buffers gain nothing, and no core is busy: the storage is at its limit.
    StorageBound,
    /// The core that runs the path is busy.
    CpuBound,
    /// Neither: a higher depth or better buffers would help.
    LatencyBound,
    /// The machine was too busy with other work, or too little was measured, to decide.
    #[default]
    Undecided,
}

/// The recommended setting for a target and a kind of access.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeChoice {
    /// The target's name.
    pub target: String,
    /// Like [`ProbeCase::op`].
    #[serde(default)]
    pub op: String,
    /// Bypassing the page cache.
    pub direct: bool,
    /// From the page cache.
    pub cached: bool,
    /// At random offsets.
    pub random: bool,
    /// Index of the case with the highest throughput.
    pub fastest: u64,
    /// Index of the case with the least CPU time per byte of those within 5 % of the fastest.
    pub cheapest: u64,
}

impl Present for ProbeResult {
    const SCHEMA: &'static str = "sakiyomi.probe/1";

    fn title(&self) -> String {
        let names: Vec<String> = self.targets.iter().map(|target| target.name.clone()).collect();
        let on = if names.is_empty() { String::new() } else { format!(" on {}", words::list(&names)) };
        format!("Methods of I/O{on}")
    }

    fn verdict(&self) -> Vec<Finding> {
        verdict::findings(self)
    }

    fn settings(&self) -> Vec<Fact> {
        let runs = match self.repetitions {
            1 => format!("one run of {}", duration(self.run_ns)),
            runs => format!("{} of {}, interleaved", plural(runs, "run"), duration(self.run_ns)),
        };
        let target = |target: &ProbeTarget| {
            let what = format!("{}, {}", target.what, Value::Size(target.size_bytes).text());
            Fact::new(target.name.as_str(), what)
        };
        self.targets.iter().map(target).chain([Fact::new("Each case", runs)]).collect()
    }

    fn sections(&self) -> Vec<Section> {
        let groups = groups(self);
        let mut tables: Vec<Table> = groups.iter().map(table).collect();
        if let Some(last) = tables.last_mut() {
            let harness = harness(self).map(|sentence| format!(" {sentence}"));
            last.legend = format!("{LEGEND}{}", harness.unwrap_or_default());
        }
        let reasons = reasons(&groups).into_iter().map(Reason::note).collect();
        let sections = tables.into_iter().map(Section::Table);
        sections
            .chain([
                Section::Notes(Notes { heading: "Why", notes: reasons }),
                Notes::plain("Notes", self.notes.iter().cloned()),
            ])
            .collect()
    }

    fn charts(&self, machine: &Machine) -> Vec<Chart> {
        chart::charts(self, machine)
    }

    fn glossary(&self) -> Glossary {
        glossary::PROBE
    }
}

/// Meaning of the marks and columns.
const LEGEND: &str = "* fastest, + least CPU of those within 5 % of it. Range: slowest and fastest run. CPU: user and \
                      system, 100 % is one core.";

/// Returns the table of a group's cases; settings that all of them share have no column.
fn table(group: &Group<'_>) -> Table {
    let range = |case: &ProbeCase| {
        let ProbeRange { min, max } = case.throughput_range_bytes_per_s;
        rate_range(case.throughput_bytes_per_s, min, max)
    };
    let latency = |case: &ProbeCase, of: fn(ProbeLatency) -> u64| {
        Value::known(case.latency_ns, |latency| Value::Time(of(latency)))
    };
    let is_chosen = |case: &&ProbeCase| !group.mark(case).is_empty();
    let table = Rows::new(&group.name, "Cases", group.cases.iter().copied())
        .text("method", |case| case.name() + group.mark(case))
        .when(group.block_sizes_differ(), |rows| {
            rows.text("block", |case| Value::RoundSize(case.block_bytes))
        })
        .when(group.buffers_differ(), |rows| rows.text("buffers", |case| case.buffers.as_str()))
        .figure("rate", |case| Value::Rate(case.throughput_bytes_per_s))
        // Before the other figures: a phone shows later columns only by scrolling.
        .figure("limit", |case| limit(case.verdict, limit_name(case.verdict).trim_end_matches("-bound")))
        .figure("range", |case| range(case))
        .spare(3)
        .figure("CPU", |case| Value::WholeShare(case.user_ratio + case.system_ratio))
        .figure("s/GB", |case| Value::CpuPerGb(case.cpu_ns_per_byte))
        .figure("p50", |case| latency(case, |latency| latency.p50))
        .spare(2)
        .figure("p99", |case| latency(case, |latency| latency.p99))
        .spare(1)
        .figure("busiest thread", |case| {
            Cell::from(Value::WholeShare(case.busiest_thread_ratio)).note(&case.busiest_thread)
        })
        .detail()
        .figure("2 × depth", |case| Value::known(case.double_depth_gain_ratio, Value::Change))
        .detail()
        .figure("best buffers", |case| Value::known(case.better_buffers_gain_ratio, Value::Change))
        .detail()
        .emphasis(|case| if is_chosen(case) { Emphasis::Best } else { Emphasis::None })
        .table();
    Table { caption: (group.name.clone(), group.shared()), ..table }
}

/// Returns the limit of a case, which the style sheet marks.
fn limit(verdict: ProbeVerdict, name: &str) -> Cell {
    Cell::from(name).tone(match verdict {
        ProbeVerdict::StorageBound => Tone::StorageBound,
        ProbeVerdict::CpuBound => Tone::CpuBound,
        ProbeVerdict::LatencyBound => Tone::LatencyBound,
        ProbeVerdict::Undecided => Tone::Undecided,
    })
}

impl Reason<'_> {
    fn note(self) -> Note {
        let label = Some(limit(self.verdict, limit_name(self.verdict)));
        Note { label, text: self.reason.to_owned(), details: self.cases }
    }
}
