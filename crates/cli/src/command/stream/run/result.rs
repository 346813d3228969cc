//! A run as a result.

use std::time::Instant;

use sakiyomi_os::cpu::user_and_system_of_this_process;
use sakiyomi_pipeline::{Outcome, Run};
use sakiyomi_placement::{Group, Topology};
use sakiyomi_report::StreamRunResult;
use sakiyomi_report::result::{
    StreamChange, StreamFailure, StreamOperator, StreamSink, StreamSource, StreamWindow,
};
use sakiyomi_stream::adapt::Status;
use sakiyomi_stream::adapt::events::{Event, EventKind, Reason};
use sakiyomi_stream::{Latency, LatencyBin, OperatorReport, Report};

use crate::provenance::nanos;

/// Names of a run's figures.
pub(super) struct Namer {
    pub(super) pipeline: String,
    /// Names of the operators, in the order of their numbers.
    pub(super) operators: Vec<String>,
    pub(super) topology: Topology,
    pub(super) is_pinned: bool,
    pub(super) begun: Instant,
    /// Sentences about records that a crash loses although there are snapshots.
    pub(super) losses: Vec<String>,
}

/// Prefixes of the operators of sources and sinks, before the name in the file.
const SOURCE_PREFIX: &str = "source.";
const SINK_PREFIX: &str = "sink.";

/// Length of a window of latencies.
const WINDOW_NS: u64 = 100_000_000;

impl Namer {
    /// Returns the state of a run.
    pub(super) fn result(
        &self,
        report: &Report,
        status: &Status,
        events: &[Event],
        open: &Run,
    ) -> StreamRunResult {
        let (user, system) = user_and_system_of_this_process();
        let joined = report.joined();
        let named = || self.operators.iter().zip(&joined);
        let sources = named().filter_map(|(name, operator)| {
            let name = name.strip_prefix(SOURCE_PREFIX)?;
            let counts = open.sources().find(|(source, _)| *source == name).map(|(_, counts)| counts)?;
            Some(StreamSource {
                name: name.to_owned(),
                records: operator.tuples_out,
                bad: counts.bad(),
                first_bad: counts.first_bad(),
                late: counts.late(),
                shed: operator.shed,
            })
        });
        let operators = named().enumerate().map(|(number, (name, operator))| {
            let counts = open.steps().find(|(step, _)| step == name).map(|(_, counts)| counts);
            let failed = counts.map_or(0, |counts| counts.bad());
            StreamOperator {
                name: name.clone(),
                cpu: self.cpu_of(number, status),
                replicas: replicas_of(number, status),
                records_in: operator.tuples_in,
                records_out: operator.tuples_out,
                failed: failed + operator.dead_letters + operator.discarded,
                late: counts.map_or(0, |counts| counts.late()),
                busy_ns: operator.busy_ns,
                ring_max: operator.ring_high_water.max(operator.second_ring_high_water) as u64,
            }
        });
        StreamRunResult {
            pipeline: self.pipeline.clone(),
            elapsed_ns: nanos(self.begun.elapsed()),
            user_ns: nanos(user),
            system_ns: nanos(system),
            cores: self.topology.cores() as u64,
            sources: sources.collect(),
            operators: operators.collect(),
            sinks: named().filter_map(|(name, operator)| sink(name, operator)).collect(),
            changes: events.iter().filter_map(|event| self.change(event)).collect(),
            failures: report.failures.iter().map(failure).collect(),
            snapshots: None,
            notes: self.losses.clone(),
        }
    }

    /// Adds what is known only when all outputs are written.
    pub(super) fn add_outcome(&self, result: &mut StreamRunResult, outcome: &Outcome) {
        for (name, dropped) in &outcome.sources {
            if let Some(source) = result.sources.iter_mut().find(|source| source.name == *name) {
                (source.bad, source.late) = (dropped.bad, dropped.late);
                source.first_bad.clone_from(&dropped.first_bad);
            }
        }
    }

    fn cpu_of(&self, operator: usize, status: &Status) -> Option<u64> {
        let group = group_of(operator, status)?;
        let core = group.cores.first().filter(|_| self.is_pinned)?;
        Some(self.topology.cpu_of(*core) as u64)
    }

    /// Returns the CPU of a worker, or its number if the scheduler chooses the CPU.
    fn place(&self, worker: usize) -> String {
        if self.is_pinned {
            format!("CPU {}", self.topology.cpu_of(worker))
        } else {
            format!("the CPU of worker {worker}")
        }
    }

    fn change(&self, event: &Event) -> Option<StreamChange> {
        let change = StreamChange { at_ns: event.at_ns, ..StreamChange::default() };
        Some(match &event.kind {
            EventKind::PlanChanged { reason, rate_per_s, to, duration_ns, moves, .. } => StreamChange {
                reason: match reason {
                    Reason::LoadChanged(operator) => {
                        format!("load of {} changed", self.operators[operator.0])
                    }
                    reason => reason.to_string(),
                },
                rate_per_s: Some(*rate_per_s),
                cores: Some(to.cores_used() as u64),
                moves: moves.len() as u64,
                duration_ns: *duration_ns,
                ..change
            },
            EventKind::Shortfall { rate_per_s, held_per_s } => StreamChange {
                reason: format!(
                    "no plan sustains the rate; the best sustains {held_per_s:.0} records per second"
                ),
                rate_per_s: Some(*rate_per_s),
                ..change
            },
            EventKind::ChangeFailed { message } | EventKind::NoPlans { message, .. } => {
                StreamChange { reason: message.clone(), ..change }
            }
            EventKind::CpuShared { worker, waited_ratio } => StreamChange {
                reason: format!(
                    "other threads use {} ({:.0} % of the time): it no longer polls",
                    self.place(*worker),
                    waited_ratio * 100.0
                ),
                ..change
            },
            EventKind::CpuOwned { worker } => {
                StreamChange { reason: format!("{} polls again", self.place(*worker)), ..change }
            }
        })
    }
}

fn group_of(operator: usize, status: &Status) -> Option<&Group> {
    status.placement.groups.iter().find(|group| group.operators.contains(&operator))
}

/// Returns the number of replicas of an operator; none if it runs as one.
fn replicas_of(operator: usize, status: &Status) -> Option<u64> {
    let replicas = group_of(operator, status)?.cores.len();
    (replicas > 1).then_some(replicas as u64)
}

fn sink(name: &str, operator: &OperatorReport) -> Option<StreamSink> {
    // A sink without records has no latency yet.
    if operator.latency.is_none() && !name.starts_with(SINK_PREFIX) {
        return None;
    }
    let latency: Latency = operator.latency.clone().unwrap_or_default();
    let at = |quantile| latency.total.value_at_quantile(quantile);
    Some(StreamSink {
        name: name.to_owned(),
        records: operator.tuples_in,
        mean_ns: latency.total.mean().round() as u64,
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        p99_9_ns: at(0.999),
        max_ns: latency.total.max(),
        windows: latency.bins.iter().map(window).collect(),
    })
}

fn window(bin: &LatencyBin) -> StreamWindow {
    StreamWindow {
        start_ns: bin.start_ns,
        end_ns: bin.start_ns + WINDOW_NS,
        records: bin.tuples,
        p50_ns: bin.p50_ns,
        p99_ns: bin.p99_ns,
        max_ns: bin.latency_max_ns,
    }
}

fn failure(failure: &sakiyomi_stream::Failure) -> StreamFailure {
    StreamFailure { operator: failure.name.to_string(), message: failure.message.clone() }
}
