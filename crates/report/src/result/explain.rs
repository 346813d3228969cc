//! Where the time of a program goes, and predictions of what would change it.

mod chart;
mod verdict;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{count, duration, percent, rate, ratio};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Notes, Present, Section};
use crate::value::Value;
use crate::words::command_line;

/// The latency of storage that the program did not wait for, which says nothing about the storage.
const LATENCY_MIN_NS: u64 = 1_000;

/// The elapsed time of a program, divided by what it was spent on, with predictions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainResult {
    /// The program and its arguments, or the recorded process.
    pub program: Vec<String>,
    /// Its exit code; absent if a signal killed it, or if it was not started by this command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
    /// How it was recorded: `traced` or `sampled`.
    pub method: String,
    /// Elapsed time in nanoseconds, the sum of `terms`.
    pub elapsed_ns: u64,
    /// Threads that were recorded.
    pub threads: u64,
    /// Files that they used.
    pub files: u64,
    /// The critical path by program, kind and file, the longest time first.
    pub terms: Vec<ExplainTerm>,
    /// The critical path over time, in equal intervals.
    pub intervals: Vec<ExplainInterval>,
    /// The model of the present storage; absent if nothing is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<ExplainStorage>,
    /// Predictions, the shortest elapsed time first.
    pub predictions: Vec<ExplainPrediction>,
    /// The elapsed time in nanoseconds if storage took no time: what all remedies together can gain at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_waiting_ns: Option<u64>,
    /// The reason why nothing is predicted, as a clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_predicted: Option<String>,
    /// Median elapsed time in nanoseconds of repetitions without a remedy; only with `--try`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_plain_ns: Option<u64>,
    /// Sentences about what is missing from the recording.
    pub notes: Vec<String>,
}

/// A part of the elapsed time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainTerm {
    /// The program; empty if no thread explains the time.
    pub program: String,
    /// The kind of activity or wait.
    pub kind: ExplainKind,
    /// The file, or the directory of several files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Number of files; 0 if the kind does not concern files or they are not known.
    pub files: u64,
    /// The time in nanoseconds.
    pub time_ns: u64,
    /// Number of separate waits or bursts.
    pub count: u64,
}

/// Something on which elapsed time is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExplainKind {
    /// Computing.
    Computing,
    /// Waiting for a core.
    AwaitingCore,
    /// Reading a file in order.
    SequentialRead,
    /// Reading a file at scattered positions.
    ScatteredRead,
    /// Accessing a mapped file.
    Mapping,
    /// Opening, looking up, listing and renaming files.
    Metadata,
    /// Waiting until written data is on storage.
    Sync,
    /// Writing to a file.
    Write,
    /// Slowed down because too much written data is not yet on storage.
    WriteBack,
    /// Waiting for asynchronous I/O.
    AsynchronousIo,
    /// Waiting for a time that the program asked for.
    Timer,
    /// Waiting for other programs.
    OtherPrograms,
    /// Not known.
    #[default]
    NotAttributed,
}

/// An interval of the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainInterval {
    /// Its end in nanoseconds since the begin.
    pub until_ns: u64,
    /// Computing, in nanoseconds.
    pub computing_ns: u64,
    /// Waiting for a core, in nanoseconds.
    pub core_wait_ns: u64,
    /// Waiting for storage, in nanoseconds.
    pub io_wait_ns: u64,
    /// Anything else, in nanoseconds.
    pub other_ns: u64,
    /// Bytes of files that all threads read or touched, from the page cache or past it.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes that were loaded from storage for it, with those that were read ahead.
    #[serde(default)]
    pub loaded_bytes: u64,
}

/// The model of the present storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainStorage {
    /// Time of an access without its data, in nanoseconds; 1000 if the program did not wait for the storage.
    pub latency_ns: u64,
    /// Accesses that it serves at a time.
    pub parallel: u64,
    /// Bandwidth in bytes per second; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Difference between the replayed and the recorded elapsed time, as a share of the latter.
    pub error_ratio: f64,
}

/// The predicted elapsed time with a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainPrediction {
    /// The change.
    pub change: String,
    /// The command that applies it, ready to copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Predicted elapsed time in nanoseconds.
    pub predicted_ns: u64,
    /// Lower end of the interval of the prediction, in nanoseconds.
    pub low_ns: u64,
    /// Upper end of the interval of the prediction, in nanoseconds.
    pub high_ns: u64,
    /// Whether it is proposed: it gains at least a twentieth, wherever in its interval the truth is.
    pub is_proposed: bool,
    /// Median elapsed time in nanoseconds of repetitions with it; only with `--try`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_ns: Option<u64>,
}

/// Predictions of a recorded program's elapsed time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhatifResult {
    /// The program and its arguments, or the recorded process.
    pub program: Vec<String>,
    /// Recorded elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// The model of the storage on which it was recorded.
    pub storage: ExplainStorage,
    /// The predictions, in the order of the options.
    pub predictions: Vec<ExplainPrediction>,
    /// Sentences about what is missing from the recording.
    pub notes: Vec<String>,
}

impl ExplainKind {
    /// Describes it in a table.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            ExplainKind::Computing => "computing",
            ExplainKind::AwaitingCore => "waiting for a core",
            ExplainKind::SequentialRead => "sequential reads",
            ExplainKind::ScatteredRead => "scattered reads",
            ExplainKind::Mapping => "reads of a mapping",
            ExplainKind::Metadata => "metadata",
            ExplainKind::Sync => "fsync",
            ExplainKind::Write => "writes",
            ExplainKind::WriteBack => "write-back",
            ExplainKind::AsynchronousIo => "asynchronous I/O",
            ExplainKind::Timer => "timers",
            ExplainKind::OtherPrograms => "waiting for other programs",
            ExplainKind::NotAttributed => "not attributed",
        }
    }

    /// Returns whether it is a wait for storage.
    pub(crate) fn is_storage(self) -> bool {
        matches!(
            self,
            ExplainKind::SequentialRead
                | ExplainKind::ScatteredRead
                | ExplainKind::Mapping
                | ExplainKind::Metadata
                | ExplainKind::Sync
                | ExplainKind::Write
                | ExplainKind::WriteBack
                | ExplainKind::AsynchronousIo
        )
    }
}

impl ExplainTerm {
    /// Returns the file, or the directory with the number of its files.
    pub(crate) fn place(&self) -> String {
        match (&self.place, self.files) {
            (Some(place), 0 | 1) => place.clone(),
            (Some(place), files) => format!("{} files in {place}", count(files)),
            (None, _) => String::new(),
        }
    }
}

/// Rows of the table that are shown; the JSON has all.
const ROWS_MAX: usize = 24;

impl Present for ExplainResult {
    const SCHEMA: &'static str = "sakiyomi.explanation/1";

    fn title(&self) -> String {
        command_line(&self.program, 100)
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict::sentences(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let of_kind = |is_counted: fn(ExplainKind) -> bool| {
            let counted = self.terms.iter().filter(|term| is_counted(term.kind));
            counted.map(|term| term.time_ns).sum::<u64>()
        };
        let shared = |ns: u64| format!("{} ({})", duration(ns), percent(ratio(ns, self.elapsed_ns)));
        let storage = of_kind(ExplainKind::is_storage);
        let computing = of_kind(|kind| kind == ExplainKind::Computing);
        let core = of_kind(|kind| kind == ExplainKind::AwaitingCore);
        let unknown = of_kind(|kind| kind == ExplainKind::NotAttributed);
        let rest = self.elapsed_ns.saturating_sub(storage + computing + core + unknown);
        let mut facts = vec![
            Fact::time("elapsed", self.elapsed_ns),
            Fact::new("waiting for storage", shared(storage)),
            Fact::new("computing", shared(computing)),
            Fact::new("waiting for a core", shared(core)),
            Fact::new("waiting for timers and other programs", shared(rest)),
            Fact::new("not attributed", shared(unknown)),
            Fact::new("recorded", format!("{} and {}", threads(self.threads), files(self.files))),
        ];
        facts.extend(self.storage.as_ref().map(ExplainStorage::fact));
        facts
    }

    fn sections(&self) -> Vec<Section> {
        let rows = self.terms.iter().take(ROWS_MAX);
        let ledger = Rows::new("ledger", "Critical path", rows)
            .text("program", |term| term.program.as_str())
            .text("spent on", |term| term.kind.describe())
            .text("file", |term| term.place())
            .figure("time", |term| Value::Time(term.time_ns))
            .figure("share", |term| Value::Share(ratio(term.time_ns, self.elapsed_ns)))
            .figure("waits or bursts", |term| Value::Count(term.count))
            .section();
        let mut sections = vec![ledger, predictions(&self.predictions, self.elapsed_ns)];
        if !self.notes.is_empty() {
            sections.push(Notes::plain("Not in the recording", self.notes.clone()));
        }
        sections
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::EXPLAIN
    }
}

impl Present for WhatifResult {
    const SCHEMA: &'static str = "sakiyomi.whatif/1";

    fn title(&self) -> String {
        command_line(&self.program, 100)
    }

    fn verdict(&self) -> Vec<Finding> {
        let best = self.predictions.iter().min_by_key(|prediction| prediction.predicted_ns);
        let sentence = best.map(|best| {
            format!(
                "Recorded in {}; the shortest prediction is {} ({} to {}): {}.",
                duration(self.elapsed_ns),
                duration(best.predicted_ns),
                duration(best.low_ns),
                duration(best.high_ns),
                best.change
            )
        });
        Finding::whole(sentence.into_iter().chain(self.notes.iter().cloned()).collect())
    }

    fn settings(&self) -> Vec<Fact> {
        vec![Fact::time("recorded", self.elapsed_ns), self.storage.fact()]
    }

    fn sections(&self) -> Vec<Section> {
        vec![predictions(&self.predictions, self.elapsed_ns)]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::predictions(&self.predictions, self.elapsed_ns).into_iter().collect()
    }

    fn glossary(&self) -> Glossary {
        glossary::EXPLAIN
    }
}

impl ExplainStorage {
    fn fact(&self) -> Fact {
        if self.latency_ns <= LATENCY_MIN_NS {
            return Fact::new("model of the storage", "none: the program did not wait for it");
        }
        let bandwidth =
            self.bytes_per_s.map(|bandwidth| format!(", {}", rate(bandwidth as f64))).unwrap_or_default();
        let model = format!(
            "{} an access, {} at a time{bandwidth}; error {}",
            duration(self.latency_ns),
            count(self.parallel),
            percent(self.error_ratio)
        );
        Fact::new("model of the storage", model)
    }
}

fn threads(number: u64) -> String {
    crate::number::plural(number, "thread")
}

fn files(number: u64) -> String {
    crate::number::plural(number, "file")
}

fn predictions(predictions: &[ExplainPrediction], elapsed: u64) -> Section {
    let is_tried = predictions.iter().any(|prediction| prediction.tried_ns.is_some());
    Rows::new("predictions", "Predicted", predictions.iter())
        .text("change", |prediction| prediction.change.as_str())
        .text("command", |prediction| prediction.command.clone().unwrap_or_default())
        .spare(1)
        .figure("elapsed", |prediction| Value::Time(prediction.predicted_ns))
        .figure("at least", |prediction| Value::Time(prediction.low_ns))
        .figure("at most", |prediction| Value::Time(prediction.high_ns))
        .figure("of the recorded", move |prediction| Value::Share(ratio(prediction.predicted_ns, elapsed)))
        .when(is_tried, |rows| {
            rows.figure("tried", |prediction| Value::known(prediction.tried_ns, Value::Time))
        })
        .section()
}
