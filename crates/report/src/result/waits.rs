//! The waits of a process for storage, by file.

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{bytes, duration, percent, plural};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Present, Section, Table};
use crate::value::Value;

/// The observed waits of a process for storage: the report of `sakiyomi.io_report` in Python.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitsResult {
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the process in nanoseconds.
    pub computing_ns: u64,
    /// I/O wait in nanoseconds, summed over threads.
    pub io_wait_ns: u64,
    /// Time in nanoseconds for which threads waited for a core, summed likewise.
    pub core_wait_ns: u64,
    /// Threads that were looked at, without those of sakiyomi that read ahead.
    pub threads: u64,
    /// Looks at the threads.
    pub samples: u64,
    /// Bytes that it read from files, pipes and sockets.
    pub read_bytes: u64,
    /// Bytes that storage read for it, with those read ahead.
    pub storage_read_bytes: u64,
    /// Bytes that it changed in files, and that storage writes.
    pub storage_written_bytes: u64,
    /// Page faults that needed storage.
    pub major_faults: u64,
    /// The waits by file, the longest first.
    pub files: Vec<FileWaits>,
    /// Observations that were not possible, in sentences.
    pub notes: Vec<String>,
}

/// Waits for one use of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileWaits {
    /// The path; absent if it was not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The use of the file: `read`, `write`, `sync` (also closing), `open` (also asking for attributes), `list`,
    /// `page-fault`, or `other`.
    pub call: String,
    /// I/O wait in nanoseconds.
    pub io_wait_ns: u64,
    /// Looks that found a thread waiting; with few of them the time is a rough estimate.
    pub samples: u64,
}

impl Present for WaitsResult {
    const SCHEMA: &'static str = "sakiyomi.io-report/1";

    fn title(&self) -> String {
        "I/O waits of this process".to_owned()
    }

    fn verdict(&self) -> Vec<Finding> {
        let share = self.io_wait_ns as f64 / self.elapsed_ns.max(1) as f64;
        let mut sentences = vec![format!(
            "Threads waited for I/O for {} in {} ({}).",
            duration(self.io_wait_ns),
            duration(self.elapsed_ns),
            percent(share)
        )];
        if let Some(first) = self.files.first().filter(|first| first.io_wait_ns > 0) {
            sentences.push(format!(
                "The longest wait was for {} ({}): {}.",
                first.path.as_deref().unwrap_or("a file that is not visible"),
                first.call,
                duration(first.io_wait_ns)
            ));
        }
        Finding::whole(sentences)
    }

    fn settings(&self) -> Vec<Fact> {
        vec![
            Fact::time("elapsed", self.elapsed_ns),
            Fact::time("computing", self.computing_ns),
            Fact::time("waiting for I/O", self.io_wait_ns),
            Fact::time("waiting for a core", self.core_wait_ns),
            Fact::new("read", bytes(self.read_bytes)),
            Fact::new("read by storage", bytes(self.storage_read_bytes)),
            Fact::new("written", bytes(self.storage_written_bytes)),
            Fact::new("page faults that needed storage", Value::Count(self.major_faults)),
            Fact::new(
                "looked at",
                format!("{}, {}", plural(self.threads, "thread"), plural(self.samples, "time")),
            ),
        ]
    }

    fn sections(&self) -> Vec<Section> {
        let table = Rows::new("files", "Files", &self.files)
            .text("file", |file| file.path.as_deref().unwrap_or("not visible").to_owned())
            .text("call", |file| file.call.as_str())
            .figure("waiting for I/O", |file| Value::Time(file.io_wait_ns))
            .figure("looks", |file| Value::Count(file.samples))
            .table();
        vec![Section::Table(Table { is_detail: true, ..table })]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        Vec::new()
    }

    fn glossary(&self) -> Glossary {
        glossary::WAITS
    }
}
