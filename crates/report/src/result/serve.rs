//! A served block device over the whole time of the server.

use serde::{Deserialize, Serialize};

use super::mount::{chart, classes, rates_verdict, times};
use super::{IorateProgram, MountClass, MountRates, MountTimes, MountWindow};
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{bytes, count, duration, percent};
use crate::section::{Fact, Finding, Glossary, Present, Section};

/// Result of a served block device. All times and rates are on the drive's time line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServeResult {
    /// The NBD URI of its first export.
    #[serde(default)]
    pub uri: String,
    /// File or block device with the content; absent for content without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The emulated drive; absent if the content had its own speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Size of the block device in bytes.
    pub size_bytes: u64,
    /// Time from the start to the end in nanoseconds.
    pub elapsed_ns: u64,
    /// Connections of clients.
    pub connections: u64,
    /// Answered requests, without those that were refused.
    pub accesses: u64,
    /// Requests that were refused: invalid, unsupported, or at the end.
    pub refused: u64,
    /// Bytes read from the drive, or from the content without a drive.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Time from the arrival of a request to the beginning of its reply.
    pub response_ns: MountTimes,
    /// Time from the model's end of a request to its reply; absent without a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ns: Option<MountTimes>,
    /// Share of the time for which the drive was busy; absent without a drive and rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ratio: Option<f64>,
    /// Requests to the drive by class, without classes that did not occur; empty for a device without classes.
    pub by_class: Vec<MountClass>,
    /// Records in the trace; absent without a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<u64>,
    /// Statistics of the rates; `None` without `--regulate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<MountRates>,
    /// The command that was run with the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<IorateProgram>,
    /// Seconds in order of time; joined if there are more than 2,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MountWindow>,
}

impl Present for ServeResult {
    const SCHEMA: &'static str = "sakiyomi.serve/1";

    fn title(&self) -> String {
        match (&self.drive, &self.content) {
            (Some(drive), _) => format!("{drive} at {}", self.uri),
            (None, Some(content)) => format!("{content} at {}", self.uri),
            (None, None) => format!("Block device at {}", self.uri),
        }
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let drive = self.drive.as_deref().unwrap_or("none: the speed of the content");
        let trace = self.recorded.map(|records| format!("{} records", count(records)));
        [
            Fact::new("Address", self.uri.as_str()),
            Fact::new("Content", self.content.as_deref().unwrap_or("a file without a name")),
            Fact::new("Drive", drive),
            Fact::new("Size", bytes(self.size_bytes)),
            Fact::time("Served for", self.elapsed_ns),
        ]
        .into_iter()
        .chain(trace.map(|trace| Fact::new("Trace", trace)))
        .collect()
    }

    fn sections(&self) -> Vec<Section> {
        vec![times(self.response_ns, self.lateness_ns), classes(&self.by_class)]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(&self.windows)
    }

    fn glossary(&self) -> Glossary {
        glossary::SERVE
    }
}

/// Returns sentences about a server.
fn verdict(result: &ServeResult) -> Vec<String> {
    let connections = match result.connections {
        1 => "1 connection".to_owned(),
        number => format!("{} connections", count(number)),
    };
    let accesses = match result.accesses {
        1 => "1 access".to_owned(),
        number => format!("{} accesses", count(number)),
    };
    let mut sentences = vec![format!(
        "{accesses} by {connections} in {}: {} read, {} written.",
        duration(result.elapsed_ns),
        bytes(result.read_bytes),
        bytes(result.written_bytes)
    )];
    if result.accesses > 0 {
        sentences.push(format!(
            "An access takes {} on average; 99 % take at most {}.",
            duration(result.response_ns.mean),
            duration(result.response_ns.p99)
        ));
    }
    sentences
        .extend(result.busy_ratio.map(|busy| format!("The drive is busy {} of the time.", percent(busy))));
    sentences.extend(result.rates.as_ref().and_then(rates_verdict));
    if result.refused > 0 {
        sentences.push(format!("Requests that were refused: {}.", count(result.refused)));
    }
    sentences
}
