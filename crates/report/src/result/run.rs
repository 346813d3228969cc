//! The run of a program with its files prefetched.

mod chart;
mod verdict;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{bytes, duration, percent, plural};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Present, Section, Table};
use crate::value::Value;
use crate::words::command_line;

/// The observed I/O of a program, and the effect of prefetching.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The program and its arguments, or the followed process.
    pub program: Vec<String>,
    /// Its exit code; absent if a signal killed it, or if it was only followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
    /// Limit of the distance: `auto`, or bytes.
    pub limit: String,
    /// Whether it was only observed.
    pub dry_run: bool,
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the program and its descendants in nanoseconds.
    pub computing_ns: u64,
    /// I/O wait in nanoseconds, summed over processes and threads.
    pub io_wait_ns: u64,
    /// Time in nanoseconds for which they waited for a core, summed likewise.
    #[serde(default)]
    pub core_wait_ns: u64,
    /// I/O wait in nanoseconds that prefetching avoided, estimated from the waits before it began; absent without
    /// such waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_hidden_ns: Option<u64>,
    /// Estimate of the elapsed time in nanoseconds that this saved: concurrent waits count once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_ns: Option<u64>,
    /// Estimate of the elapsed time in nanoseconds that prefetching would have saved; only with `--dry-run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub could_save_ns: Option<u64>,
    /// Throughput of the storage in a test that re-read at most 16 MiB; `None` if it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes_per_s: Option<u64>,
    /// The reason why reads without a file offset (`pread`, mappings) could not be followed, if there were any; as a
    /// clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// Followed processes.
    pub programs: u64,
    /// Files that they read or were about to read, as far as they were worth following.
    pub files: u64,
    /// Bytes that they passed through.
    pub read_bytes: u64,
    /// Bytes that were not cached and were prefetched.
    pub prefetched_bytes: u64,
    /// Prefetched bytes that they did not reach.
    pub wasted_bytes: u64,
    /// CPU time of sakiyomi itself in nanoseconds.
    pub own_cpu_ns: u64,
    /// Reasons why files were not prefetched, those with the most bytes first.
    pub idle: Vec<RunIdle>,
    /// The part of learned profiles in this run; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<RunLearned>,
    /// Observations and actions that were not possible, in sentences.
    pub notes: Vec<String>,
    /// The largest streams, one by one.
    pub readings: Vec<RunReading>,
}

/// The part of a learned profile in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLearned {
    /// Look-ups and files prefetched.
    pub replayed_entries: u64,
    /// Bytes prefetched that were not cached.
    pub replayed_bytes: u64,
    /// Name of the profile that was saved for the next run; absent if nothing was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Look-ups and files in it.
    pub profile_entries: u64,
    /// Bytes in it.
    pub profile_bytes: u64,
}

impl RunResult {
    /// Returns the mean number of threads that were computing, or waiting for I/O or a core, at a time; at least 1.
    #[must_use]
    pub fn threads_at_a_time(&self) -> f64 {
        let all = self.computing_ns.saturating_add(self.io_wait_ns).saturating_add(self.core_wait_ns);
        if self.elapsed_ns == 0 { 1.0 } else { (all as f64 / self.elapsed_ns as f64).max(1.0) }
    }

    /// Returns the elapsed time saved by the hidden I/O wait; `None` if it is unknown. Streams that alternate in
    /// one thread save the sum of their hidden waits.
    #[must_use]
    pub fn saved(&self) -> Option<u64> {
        let hidden = self.io_hidden_ns?;
        let by_threads = (hidden as f64 / self.threads_at_a_time()) as u64;
        Some(self.saved_ns.unwrap_or(hidden).max(by_threads))
    }

    /// Returns the I/O wait as a share of the elapsed time, or of the threads' time if several were active at a time.
    #[must_use]
    pub fn io_wait_share(&self) -> f64 {
        let all = self.elapsed_ns.max(1) as f64 * self.threads_at_a_time();
        (self.io_wait_ns as f64 / all).min(1.0)
    }
}

impl Present for RunResult {
    const SCHEMA: &'static str = "sakiyomi.run/1";

    fn title(&self) -> String {
        command_line(&self.program, 100)
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict::sentences(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let io_wait = format!("{} ({})", duration(self.io_wait_ns), percent(self.io_wait_share()));
        let about = |ns: Option<u64>| Value::known(ns, |ns| format!("about {}", duration(ns)).into());
        let (read, wasted) = (bytes(self.read_bytes), bytes(self.wasted_bytes));
        let (files, programs) = (plural(self.files, "file"), plural(self.programs, "process"));
        vec![
            Fact::time("elapsed", self.elapsed_ns),
            Fact::time("computing", self.computing_ns),
            Fact::new("waiting for I/O", io_wait),
            Fact::time("waiting for a core", self.core_wait_ns),
            self.rest(),
            if self.dry_run {
                Fact::new("could be saved", about(self.could_save_ns.filter(|&saved| saved > 0)))
            } else {
                Fact::new("I/O hidden, estimated", about(self.io_hidden_ns))
            },
            Fact::new("followed", format!("{files}, {read} in {programs}")),
            Fact::new("read ahead", format!("{}, of which {wasted} wasted", bytes(self.prefetched_bytes))),
            Fact::new("cost", format!("{} of CPU time", duration(self.own_cpu_ns))),
            Fact::new("distance", self.limit.as_str()),
        ]
    }

    fn sections(&self) -> Vec<Section> {
        let table = Rows::new("files", "Files", &self.readings)
            .text("file", |reading| reading.name.as_str())
            .text("not prefetched, because", |reading| reading.idle.map_or("", RunReason::describe))
            .figure("files", |reading| Value::Count(reading.files))
            .figure("read", |reading| Value::Size(reading.read_bytes))
            .figure("read ahead", |reading| Value::Size(reading.prefetched_bytes))
            .figure("wasted", |reading| Value::Size(reading.wasted_bytes))
            .figure("hidden", |reading| Value::known(reading.io_hidden_ns, Value::Time))
            .table();
        vec![Section::Table(Table { is_detail: true, ..table })]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::RUN
    }
}

impl RunResult {
    /// Reconciles the three times with the elapsed time: names the rest, or the number of threads that they sum.
    fn rest(&self) -> Fact {
        /// Mean number of threads from which times are described as sums over several.
        const THREADS_MIN: f64 = 1.05;
        let threads = self.threads_at_a_time();
        if threads > THREADS_MIN {
            return Fact::new(
                "threads at a time",
                format!("{threads:.1} on average, whose times these three sum"),
            );
        }
        let all = self.computing_ns + self.io_wait_ns + self.core_wait_ns;
        let rest = self.elapsed_ns.saturating_sub(all);
        Fact::new("other", format!("{} (pipes, timers, sleep)", duration(rest)))
    }
}

impl RunReason {
    /// Describes it as a clause.
    fn describe(self) -> &'static str {
        match self {
            RunReason::Resident => "the files were in memory already",
            RunReason::DoesNotWait => "the program does not wait for I/O; the kernel's read-ahead suffices",
            RunReason::NotSequential => "the files are not read sequentially",
            RunReason::IoBound => {
                "the storage is so much slower than the program that prefetching gains nothing"
            }
            RunReason::NoMemory => "there is not enough memory to prefetch into",
            RunReason::Refused => "the system does not allow these files to be prefetched",
        }
    }
}

/// A reason for not prefetching files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunIdle {
    /// The reason.
    pub reason: RunReason,
    /// Bytes that programs passed through in such files.
    pub read_bytes: u64,
}

/// The reason why a file is not prefetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunReason {
    /// It is already in memory.
    Resident,
    /// The program does not wait for it: the kernel's read-ahead suffices.
    #[default]
    DoesNotWait,
    /// It is not read sequentially.
    NotSequential,
    /// The storage is so much slower than the program that prefetching does not help.
    IoBound,
    /// Too little memory is free.
    NoMemory,
    /// The system does not permit prefetching it.
    Refused,
}

/// A stream: one program's sequential reads of a file, or of several files in a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReading {
    /// The first file.
    pub name: String,
    /// Number of files.
    pub files: u64,
    /// Their size in bytes, with an allowance for opening each if there are several.
    pub size_bytes: u64,
    /// Bytes that the program passed through.
    pub read_bytes: u64,
    /// Prefetched bytes.
    pub prefetched_bytes: u64,
    /// Prefetched bytes that it did not reach.
    pub wasted_bytes: u64,
    /// I/O wait in nanoseconds that prefetching avoided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_hidden_ns: Option<u64>,
    /// The reason why it was not prefetched most of the time, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<RunReason>,
    /// A longer read-ahead of the kernel that would be as good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<RunAdvice>,
    /// Positions over time, thinned.
    pub points: Vec<RunPoint>,
}

/// A setting that would help.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAdvice {
    /// The device's name in `/sys/class/bdi`.
    pub bdi: String,
    /// Its read-ahead in bytes.
    pub read_ahead_bytes: u64,
    /// The read-ahead that would suffice, in bytes.
    pub wanted_bytes: u64,
}

/// Positions of program and prefetcher at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPoint {
    /// Time since the start in nanoseconds.
    pub at_ns: u64,
    /// The program's position.
    pub main_bytes: u64,
    /// The prefetcher's position.
    pub prefetched_bytes: u64,
    /// I/O wait of the program so far, in nanoseconds.
    pub io_wait_ns: u64,
}
