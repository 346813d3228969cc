//! Errors of a simulated drive compared with a measured one.

mod chart;

use serde::{Deserialize, Serialize};

use super::Spread;
use super::sim::{replay, responses};
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{count, duration, percent, percent_exact};
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Present, Section, changed};
use crate::value::Value;

/// A trace with measured response times, compared with a simulated drive.
///
/// The trace is replayed twice. In the free replay each request is issued as soon as the simulation is ready for it. In
/// the anchored replay each request is issued at its measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValidateResult {
    /// The name of the trace.
    pub trace: String,
    /// The name of the drive.
    pub drive: String,
    /// Settings that differ from the drive's own file, such as `cache.read_ahead.max=1MiB`.
    pub settings: Vec<String>,
    /// How the trace was read and freely replayed: `closed loop`, `device 1`.
    pub replay: Vec<String>,
    /// Start of the evaluated requests by issue time, on the trace's own time line, in nanoseconds.
    pub from_ns: u64,
    /// End of the evaluated requests, likewise; absent if the trace was evaluated to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
    /// Replayed requests.
    pub requests: u64,
    /// Evaluated requests, to which all other figures refer.
    pub judged: u64,
    /// Response times of the real drive.
    pub measured_response_ns: Spread,
    /// Free replay: each request is issued when the simulation is ready for it, so that errors shift later requests.
    pub free: Accuracy,
    /// Anchored replay: each request is issued at its measured time.
    pub anchored: Accuracy,
    /// How well the anchored replay predicts the spindle phase, from 0 (no better than chance) to 1 (always). If it is near 0,
    /// the anchored errors include the rotational latency of each access.
    #[serde(default)]
    pub spindle_coherence: f64,
    /// Hits and misses as the real drive reported them; absent if it did not, or always reported the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// The three distributions, thinned; denser at the tail.
    pub quantile_curve: Vec<QuantilePoint>,
    /// Number of requests by error. The outermost bins also hold larger errors.
    pub error_histogram: Vec<ErrorBin>,
}

/// Errors of one replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Response times of the simulated drive.
    pub simulated_response_ns: Spread,
    /// Root mean square of the horizontal distance of the two distributions in nanoseconds (Ruemmler & Wilkes 1994).
    pub rms_ns: u64,
    /// The demerit: the root mean square divided by the mean of the measured times.
    pub rms_ratio: f64,
    /// The root mean square, computed from histograms with the bins of DiskSim's validation, in nanoseconds.
    pub binned_rms_ns: u64,
    /// Errors of single requests.
    pub request_error_ns: RequestError,
    /// Correlation of simulated and measured times, -1 to 1; absent if either is constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
    /// The errors by kind of request, without kinds that do not occur.
    pub kinds: Vec<KindError>,
}

/// Errors of single requests, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestError {
    /// Median of the absolute error.
    pub median: u64,
    /// Mean of the absolute error.
    pub mean: u64,
    /// 90th percentile of the absolute error.
    pub p90: u64,
    /// Mean of the signed error: positive if the simulation is slower.
    pub bias: i64,
}

/// The errors of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindError {
    /// The kind.
    pub kind: Kind,
    /// Number of requests.
    pub requests: u64,
    /// Mean response time on the real drive in nanoseconds.
    pub measured_mean_ns: u64,
    /// Mean response time in the simulation in nanoseconds.
    pub simulated_mean_ns: u64,
    /// Their errors.
    pub request_error_ns: RequestError,
    /// Correlation of simulated and measured times; absent if either is constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
}

/// A kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// All reads.
    #[default]
    Reads,
    /// All writes.
    Writes,
    /// Reads that the simulation answered from its cache, or while passing over them.
    Hits,
    /// Reads that needed positioning in the simulation.
    Misses,
}

/// Hits and misses of the real drive, and the agreement with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    /// Reads that the real drive labeled hits.
    pub hits: u64,
    /// Reads that it labeled misses.
    pub misses: u64,
    /// Share of the labeled reads for which the rule "a hit starts where the last read ended" agrees with the drive.
    pub baseline_agreement_ratio: f64,
    /// Agreement of the free replay with the labels.
    pub free: LabelAgreement,
    /// Agreement of the anchored replay with the labels.
    pub anchored: LabelAgreement,
}

/// Agreement of one replay with the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelAgreement {
    /// Share of the labeled reads for which simulation and drive agree.
    pub agreement_ratio: f64,
    /// Labeled and simulated as hits.
    pub hits_as_hits: u64,
    /// Labeled as hits, but simulated as misses.
    pub hits_as_misses: u64,
    /// Labeled as misses, but simulated as hits.
    pub misses_as_hits: u64,
    /// Labeled and simulated as misses.
    pub misses_as_misses: u64,
    /// Errors of the reads labeled hits.
    pub hit_error_ns: RequestError,
    /// Errors of the reads labeled misses.
    pub miss_error_ns: RequestError,
}

/// A point of the three curves: `share_ratio` of the requests took at most these times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuantilePoint {
    /// Share of the requests, 0 to 1.
    pub share_ratio: f64,
    /// Time on the real drive in nanoseconds.
    pub measured_ns: u64,
    /// Time in the free replay in nanoseconds.
    pub free_ns: u64,
    /// Time in the anchored replay in nanoseconds.
    pub anchored_ns: u64,
}

/// Number of requests with an error, simulated minus measured, from `from_ns` up to `to_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBin {
    /// Lower bound of the error, inclusive.
    pub from_ns: i64,
    /// Upper bound, exclusive.
    pub to_ns: i64,
    /// Requests of the free replay.
    pub free: u64,
    /// Requests of the anchored replay.
    pub anchored: u64,
}

impl Present for ValidateResult {
    const SCHEMA: &'static str = "sakiyomi.validate/1";

    fn title(&self) -> String {
        format!("{} on {}: simulated and measured", self.trace, self.drive)
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let facts = [("Replay", replay(&self.replay)), ("Judged", judged(self))];
        changed(&self.settings).chain(facts.map(|(name, value)| Fact::new(name, value))).collect()
    }

    fn sections(&self) -> Vec<Section> {
        let mut sections = vec![
            responses([
                ("measured", &self.measured_response_ns),
                ("free", &self.free.simulated_response_ns),
                ("anchored", &self.anchored.simulated_response_ns),
            ]),
            self.distances(),
            self.requests("free replay", "Single requests, free replay", &self.free),
            self.requests("anchored", "Single requests, anchored replay", &self.anchored),
        ];
        sections.extend(self.labels.as_ref().map(Labels::table));
        sections
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::VALIDATE
    }
}

/// A name and its figure.
type Measure<T> = (&'static str, fn(&T) -> Value);

impl ValidateResult {
    fn distances(&self) -> Section {
        let measures: [Measure<Accuracy>; 3] = [
            ("rms", |of| Value::Time(of.rms_ns)),
            ("of the measured mean", |of| Value::Share(of.rms_ratio)),
            ("rms in DiskSim's bins", |of| Value::Time(of.binned_rms_ns)),
        ];
        let both = measures.map(|(name, of)| (name, of(&self.free), of(&self.anchored)));
        let coherence = Value::Number(self.spindle_coherence, 2);
        let coherence =
            ("prediction of the spindle's phase (1 exact, 0 by chance)", Value::Nothing, coherence);
        Rows::new("distance", "Distance of the distributions", both.into_iter().chain([coherence]))
            .text("", |row| row.0)
            .figure("free", |row| row.1.clone())
            .figure("anchored", |row| row.2.clone())
            .section()
    }

    /// Returns a table with all requests first, then the kinds.
    fn requests(&self, name: &str, heading: &'static str, accuracy: &Accuracy) -> Section {
        let all = KindError {
            requests: self.judged,
            measured_mean_ns: self.measured_response_ns.mean,
            simulated_mean_ns: accuracy.simulated_response_ns.mean,
            request_error_ns: accuracy.request_error_ns,
            correlation: accuracy.correlation,
            ..KindError::default()
        };
        let kinds = accuracy.kinds.iter().map(|kind| (request_kind(kind.kind), *kind));
        let correlation = |value: f64| Value::Number(value.clamp(-1.0, 1.0), 3);
        Rows::new(name, heading, std::iter::once(("all", all)).chain(kinds))
            .text("", |&(name, _)| name)
            .figure("requests", |(_, of)| Value::Count(of.requests))
            .figure("measured", |(_, of)| Value::Time(of.measured_mean_ns))
            .figure("simulated", |(_, of)| Value::Time(of.simulated_mean_ns))
            .figure("bias", |(_, of)| Value::TimeDifference(of.request_error_ns.bias))
            .figure("median", |(_, of)| Value::Time(of.request_error_ns.median))
            .figure("mean", |(_, of)| Value::Time(of.request_error_ns.mean))
            .figure("p90", |(_, of)| Value::Time(of.request_error_ns.p90))
            .figure("correlation", |(_, of)| Value::known(of.correlation, correlation))
            .section()
    }
}

impl Labels {
    fn table(&self) -> Section {
        let measures: [Measure<LabelAgreement>; 7] = [
            ("agreement", |of| Value::ExactShare(of.agreement_ratio)),
            ("hits predicted as hits", |of| Value::Count(of.hits_as_hits)),
            ("hits predicted as misses", |of| Value::Count(of.hits_as_misses)),
            ("misses predicted as hits", |of| Value::Count(of.misses_as_hits)),
            ("misses predicted as misses", |of| Value::Count(of.misses_as_misses)),
            ("median error of hits", |of| Value::Time(of.hit_error_ns.median)),
            ("median error of misses", |of| Value::Time(of.miss_error_ns.median)),
        ];
        let baseline = |name| (name == "agreement").then_some(self.baseline_agreement_ratio);
        Rows::new("labels", "Reads by the drive's own labels", measures)
            .text("", |&(name, _)| name)
            .figure("free", |(_, of)| of(&self.free))
            .figure("anchored", |(_, of)| of(&self.anchored))
            .figure("last-end rule", |&(name, _)| Value::known(baseline(name), Value::ExactShare))
            .section()
    }
}

/// Returns sentences about a validation.
fn verdict(result: &ValidateResult) -> Vec<String> {
    if result.judged == 0 {
        return vec!["No request was compared.".to_owned()];
    }
    let (free, anchored) = (&result.free, &result.anchored);
    let mut sentences = vec![
        format!(
            "The distributions of simulated and measured times differ by {} of the measured mean in the \
             free replay, and by {} in the anchored one.",
            percent(free.rms_ratio),
            percent(anchored.rms_ratio)
        ),
        format!(
            "Half of the requests are within {} of their measured time in the free replay, and within {} in the anchored one.",
            duration(free.request_error_ns.median),
            duration(anchored.request_error_ns.median)
        ),
    ];
    if let Some(labels) = &result.labels {
        sentences.push(format!(
            "The simulation predicts hit or miss correctly for {} of the reads; the rule that a hit \
             starts at the end of the previous read does so for {}.",
            percent_exact(labels.anchored.agreement_ratio),
            percent_exact(labels.baseline_agreement_ratio)
        ));
    }
    sentences
}

/// Describes the judged part of the trace: `10,000 requests judged`, `3,200 of 7,852 requests judged: issued from 2 d
/// on`.
fn judged(result: &ValidateResult) -> String {
    let from = (result.from_ns > 0).then(|| format!("from {} on", duration(result.from_ns)));
    let until = result.until_ns.map(|until| format!("before {}", duration(until)));
    let bounds: Vec<String> = from.into_iter().chain(until).collect();
    if bounds.is_empty() {
        return format!("{} requests compared", count(result.judged));
    }
    let (judged, all) = (count(result.judged), count(result.requests));
    format!("{judged} of {all} requests compared: issued {}", bounds.join(" and "))
}

/// Returns the name of a kind of request.
fn request_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Reads => "reads",
        Kind::Writes => "writes",
        Kind::Hits => "read hits",
        Kind::Misses => "read misses",
    }
}
