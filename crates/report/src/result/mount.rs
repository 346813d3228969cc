//! A mounted drive over the whole time of the mount.

pub(super) mod chart;

use serde::{Deserialize, Serialize};

use super::IorateBypass;
use crate::chart::Chart;
use crate::document::Machine;
use crate::number::{bytes, count, duration, percent};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Present, Section};
use crate::value::Value;
use crate::{glossary, label};

/// Result of a mount. All times and rates are on the drive's time line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountResult {
    /// The mount point.
    #[serde(default)]
    pub directory: String,
    /// The emulated drive as it was given, with its array and changed settings; absent if the files had their own speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
    /// Time from mount to unmount in nanoseconds.
    pub elapsed_ns: u64,
    /// Answered accesses.
    pub accesses: u64,
    /// Bytes read from the drive, or from the files without a drive.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Time from the beginning of an access to its reply.
    pub response_ns: MountTimes,
    /// Time from the model's end of an access to its reply; absent without a drive.
    pub lateness_ns: Option<MountTimes>,
    /// Share of the time for which the drive was busy; absent without a drive.
    pub busy_ratio: Option<f64>,
    /// Requests to the drive by class, without classes that did not occur; empty for a device without classes.
    pub by_class: Vec<MountClass>,
    /// Records in the trace; absent without a trace.
    pub recorded: Option<u64>,
    /// Statistics of the rates; `None` without `--regulate`.
    pub rates: Option<MountRates>,
    /// Seconds in order of time; joined if there are more than 2,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MountWindow>,
}

impl Present for MountResult {
    const SCHEMA: &'static str = "sakiyomi.mount/1";

    fn title(&self) -> String {
        match &self.drive {
            Some(drive) => format!("{drive} under {}", self.directory),
            None => format!("Files under {}", self.directory),
        }
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let drive = self.drive.as_deref().unwrap_or("none: the speed of the files");
        let trace = self.recorded.map(|records| format!("{} records", count(records)));
        [
            Fact::new("Directory", self.directory.as_str()),
            Fact::new("Drive", drive),
            Fact::time("Mounted for", self.elapsed_ns),
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
        glossary::MOUNT
    }
}

/// Returns the table of response times, and of lateness if there are any.
pub(super) fn times(response: MountTimes, lateness: Option<MountTimes>) -> Section {
    let lateness = lateness.map(|lateness| ("lateness", lateness));
    Rows::new("times", "Times", std::iter::once(("response", response)).chain(lateness))
        .text("", |&(name, _)| name)
        .figure("mean", |(_, of)| Value::Time(of.mean))
        .figure("median", |(_, of)| Value::Time(of.p50))
        .figure("p99", |(_, of)| Value::Time(of.p99))
        .figure("longest", |(_, of)| Value::Time(of.max))
        .section()
}

/// Returns the table of requests by class.
pub(super) fn classes(by_class: &[MountClass]) -> Section {
    let all: f64 = by_class.iter().map(|class| class.count as f64).sum();
    let name = |class: &MountClass| label::class_named(&class.class).map(label::class);
    Rows::new("classes", "Requests to the drive", by_class)
        .text("class", |class| name(class).unwrap_or(&class.class).to_owned())
        .figure("requests", |class| Value::Count(class.count))
        .figure("share", |class| Value::Share(class.count as f64 / all))
        .section()
}

/// Returns sentences about a mount.
fn verdict(result: &MountResult) -> Vec<String> {
    let mut sentences = vec![format!(
        "{} accesses in {}: {} read, {} written.",
        count(result.accesses),
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
    sentences
}

/// Returns a sentence about the I/Os of owners with a rate, if there were any.
pub(super) fn rates_verdict(rates: &MountRates) -> Option<String> {
    let accuracy =
        rates.accuracy_ratio.map(|ratio| format!(" take {ratio:.3} times their ideal time on average, and"));
    (rates.ios > 0).then(|| {
        format!(
            "The {} I/Os of owners with a rate{} are late in {} of the cases.",
            count(rates.ios),
            accuracy.unwrap_or_default(),
            percent(rates.late as f64 / rates.ios as f64)
        )
    })
}

/// Statistics of durations, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountTimes {
    /// Their mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// Number of requests of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountClass {
    /// Its name, as [`sakiyomi_model::Class::name`] gives it.
    pub class: String,
    /// Number of requests.
    pub count: u64,
}

/// Statistics of rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountRates {
    /// Owners with a rate at present.
    pub owners: u64,
    /// I/Os of owners with a rate.
    pub ios: u64,
    /// Number of these that exceeded their time.
    pub late: u64,
    /// The mean of actual over ideal time; `None` without I/Os.
    pub accuracy_ratio: Option<f64>,
    /// Traffic that bypasses the mount, while it is detected.
    pub bypass: Option<IorateBypass>,
}

/// A second of a mount, or several joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountWindow {
    /// Start on the drive's time line, in nanoseconds.
    pub start_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
    /// Accesses answered.
    pub accesses: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Mean response in nanoseconds; absent without accesses.
    pub response_mean_ns: Option<u64>,
    /// Maximum of the accesses in flight at the end of a second.
    pub in_flight_max: u64,
    /// Reads by the drive whose class is known; 0 for a device without a cache.
    pub reads: u64,
    /// Number of these that needed no positioning.
    pub hits: u64,
    /// Busy time of the drive in nanoseconds; `None` without a drive.
    pub busy_ns: Option<u64>,
    /// I/Os of owners with a rate.
    pub rated_ios: u64,
    /// Mean of their actual over ideal time.
    pub accuracy_ratio: Option<f64>,
}

impl MountWindow {
    /// Joins the following window.
    pub fn join(&mut self, next: &MountWindow) {
        let response = |of: &MountWindow| of.response_mean_ns.map(|ns| (ns as f64, of.accesses));
        self.response_mean_ns = mean(response(self), response(next)).map(|ns| ns.round() as u64);
        let accuracy = |of: &MountWindow| of.accuracy_ratio.map(|ratio| (ratio, of.rated_ios));
        self.accuracy_ratio = mean(accuracy(self), accuracy(next));
        self.end_ns = next.end_ns;
        self.accesses = self.accesses.saturating_add(next.accesses);
        self.read_bytes = self.read_bytes.saturating_add(next.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(next.written_bytes);
        self.in_flight_max = self.in_flight_max.max(next.in_flight_max);
        self.reads = self.reads.saturating_add(next.reads);
        self.hits = self.hits.saturating_add(next.hits);
        self.busy_ns = sum(self.busy_ns, next.busy_ns);
        self.rated_ios = self.rated_ios.saturating_add(next.rated_ios);
    }
}

/// Returns the mean of two means, each given with its number of values.
pub(super) fn mean(a: Option<(f64, u64)>, b: Option<(f64, u64)>) -> Option<f64> {
    match (a, b) {
        (Some((a, of_a)), Some((b, of_b))) if of_a > 0 || of_b > 0 => {
            let (of_a, of_b) = (of_a as f64, of_b as f64);
            Some((a * of_a + b * of_b) / (of_a + of_b))
        }
        (a, b) => a.or(b).map(|(mean, _)| mean),
    }
}

/// Returns the sum of the known values.
pub(super) fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_windows_keep_sums_maxima_and_weighted_means() {
        let window = |start: u64, accesses: u64, mean: Option<u64>| MountWindow {
            start_ns: start,
            end_ns: start + 10,
            accesses,
            read_bytes: 100,
            response_mean_ns: mean,
            in_flight_max: accesses,
            busy_ns: Some(5),
            ..MountWindow::default()
        };
        let mut joined = window(0, 1, Some(30));
        joined.join(&window(10, 2, Some(60)));
        joined.join(&window(20, 0, None));
        assert_eq!((joined.start_ns, joined.end_ns, joined.accesses, joined.read_bytes), (0, 30, 3, 300));
        assert_eq!((joined.response_mean_ns, joined.in_flight_max), (Some(50), 2));
        assert_eq!((joined.busy_ns, joined.accuracy_ratio), (Some(15), None));
    }
}
