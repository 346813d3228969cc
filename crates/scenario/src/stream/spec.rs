//! A stream to be simulated: operators, their placement, the input, and the behavior of the runtime.

use std::collections::BTreeMap;

use sakiyomi_model::Nanos;
use sakiyomi_placement::{Arrivals, Controller, Idle, Model, Pipeline, Placement, Planner, Topology};

use super::StreamError;
use super::arrivals::ArrivalPattern;
use super::service::Service;

/// Treatment of tuples for which the first ring has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverloadPolicy {
    /// The source waits. Latencies count from the time at which it was to send.
    #[default]
    Wait,
    /// They are dropped and counted.
    Shed,
}

/// An operator that looks each tuple up in a file, without waiting: the core continues with other tuples, and results keep
/// the order of the tuples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookUp {
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Size of a record in bytes. Records are looked up at random, all alike.
    pub record_bytes: u64,
    /// Reads that are in flight at a time.
    pub depth: usize,
    /// Whether it reads past the page cache.
    pub is_direct: bool,
    /// CPU time to take the result of a read, in nanoseconds. That of issuing it is the service time of the operator.
    pub reap_ns: f64,
}

/// A time in which a core does not work, as when another program has it. It begins between two tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The core.
    pub core: usize,
    /// When it begins.
    pub at: Nanos,
    /// How long it takes.
    pub length: Nanos,
}

/// Behavior of the runtime, and what is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamSettings {
    /// Seed of all that is random.
    pub seed: u64,
    /// Tuples arrive before this time; those that have arrived are processed to the end.
    pub until: Nanos,
    /// Tuples that arrive before this time do not count for latencies, nor does CPU time.
    pub measure_from: Nanos,
    /// Length of the parts of the run for which there are figures.
    pub interval: Nanos,
    /// Slots of each ring.
    pub ring_slots: usize,
    /// Tuples that may wait before an operator that receives from outside.
    pub entry_slots: usize,
    /// Treatment of tuples beyond that.
    pub overload: OverloadPolicy,
    /// Behavior of cores without tuples.
    pub idle: Idle,
    /// Time from the last tuple on the old core until the new one begins, of a move, split or fusion.
    pub handover: Nanos,
}

/// Slots of a ring if nothing is said: as many as the runtime has.
const RING_SLOTS: usize = 1024;

impl StreamSettings {
    /// Returns a run that measures from a tenth of its length on, of cores that spin.
    #[must_use]
    pub fn new(until: Nanos, seed: u64) -> StreamSettings {
        StreamSettings {
            seed,
            until,
            measure_from: Nanos(until.0 / 10),
            interval: Nanos::MILLISECOND * 100,
            ring_slots: RING_SLOTS,
            entry_slots: RING_SLOTS,
            overload: OverloadPolicy::Wait,
            idle: Idle::Spin,
            handover: Nanos::MICROSECOND,
        }
    }
}

/// The controller that changes the placement by the rate, as in real time.
#[derive(Clone, Debug)]
pub struct Control<'a> {
    /// Chooses plans.
    pub controller: Controller,
    /// Finds the changes that lead to them.
    pub planner: Planner<'a>,
    /// Time between two samples of the number of arrivals.
    pub sample: Nanos,
    /// Time from a decision until the first change begins.
    pub reaction: Nanos,
}

/// A stream to be simulated.
#[derive(Clone, Debug)]
pub struct StreamSpec<'a> {
    /// The operators.
    pub pipeline: &'a Pipeline,
    /// The cores.
    pub topology: &'a Topology,
    /// Where operators run at the beginning.
    pub placement: Placement,
    /// Operators that receive tuples from outside, each with their times.
    pub inputs: Vec<(usize, ArrivalPattern)>,
    /// Service times by operator; others have the moments of the pipeline.
    pub services: BTreeMap<usize, Service>,
    /// Operators that read a file.
    pub look_ups: BTreeMap<usize, LookUp>,
    /// Changes of the selectivity of edges: when, which, and the mean number of tuples from then on.
    pub selectivities: Vec<(Nanos, usize, f64)>,
    /// Times in which cores do not work.
    pub stalls: Vec<Stall>,
    /// Placements that are to be adopted at given times, in order.
    pub relocations: Vec<(Nanos, Placement)>,
    /// Changes the placement by the rate.
    pub control: Option<Control<'a>>,
    /// The rest.
    pub settings: StreamSettings,
}

impl<'a> StreamSpec<'a> {
    /// Returns a stream whose tuples enter at operator 0, on a placement that does not change.
    #[must_use]
    pub fn new(
        pipeline: &'a Pipeline,
        topology: &'a Topology,
        placement: Placement,
        arrivals: ArrivalPattern,
        settings: StreamSettings,
    ) -> StreamSpec<'a> {
        StreamSpec {
            pipeline,
            topology,
            placement,
            inputs: vec![(0, arrivals)],
            services: BTreeMap::new(),
            look_ups: BTreeMap::new(),
            selectivities: Vec::new(),
            stalls: Vec::new(),
            relocations: Vec::new(),
            control: None,
            settings,
        }
    }

    /// # Errors
    /// If a figure is out of range, or the placement does not fit.
    pub(super) fn check(&self) -> Result<(), StreamError> {
        let any_rate = Arrivals::constant(1.0)?;
        Model::new(self.pipeline, self.topology, self.settings.idle, any_rate).check(&self.placement)?;
        let operators = self.pipeline.operators().len();
        let named = self.inputs.iter().map(|input| input.0).chain(self.services.keys().copied());
        let mut named = named.chain(self.look_ups.keys().copied());
        if let Some(operator) = named.find(|&operator| operator >= operators) {
            return Err(StreamError::Operator { operator, operators });
        }
        self.inputs.iter().try_for_each(|(_, pattern)| pattern.check())?;
        self.services.values().try_for_each(Service::check)?;
        self.look_ups.iter().try_for_each(|(&operator, look_up)| self.check_look_up(operator, look_up))?;
        self.check_changes()?;
        self.check_settings()
    }

    fn check_look_up(&self, operator: usize, look_up: &LookUp) -> Result<(), StreamError> {
        if self.pipeline.operators()[operator].key.is_some() {
            return Err(StreamError::KeyedLookUp(operator));
        }
        let LookUp { file_bytes, record_bytes, depth, reap_ns, .. } = *look_up;
        let rules = [
            ("record of a look-up in bytes", record_bytes as f64, record_bytes > 0, "1 or more"),
            ("file of a look-up in bytes", file_bytes as f64, file_bytes >= record_bytes, "a record or more"),
            (
                "reads of a look-up at a time",
                depth as f64,
                (1..=DEPTH_MAX).contains(&depth),
                "from 1 to 4096",
            ),
            ("time to take a read in ns", reap_ns, reap_ns.is_finite() && reap_ns >= 0.0, "0 or more"),
        ];
        check_rules(&rules)
    }

    fn check_changes(&self) -> Result<(), StreamError> {
        for &(_, edge, selectivity) in &self.selectivities {
            let edges = self.pipeline.edges().len();
            let is_known = edge < edges;
            let is_possible = selectivity.is_finite() && selectivity >= 0.0;
            check_rules(&[
                ("edge whose selectivity changes", edge as f64, is_known, "an edge of the pipeline"),
                ("selectivity", selectivity, is_possible, "0 or more"),
            ])?;
        }
        for stall in &self.stalls {
            let is_known = stall.core < self.topology.cores();
            check_rules(&[("core that stalls", stall.core as f64, is_known, "a core of the topology")])?;
        }
        Ok(())
    }

    fn check_settings(&self) -> Result<(), StreamError> {
        let StreamSettings { until, measure_from, interval, ring_slots, entry_slots, .. } = self.settings;
        let sample = self.control.as_ref().map_or(Nanos::SECOND, |control| control.sample);
        let rules = [
            ("end of the input in s", until.as_secs_f64(), until <= UNTIL_MAX, "a week or less"),
            (
                "begin of measurement in s",
                measure_from.as_secs_f64(),
                measure_from < until,
                "before the input ends",
            ),
            ("length of an interval in s", interval.as_secs_f64(), !interval.is_zero(), "more than 0"),
            ("slots of a ring", ring_slots as f64, ring_slots > 0, "1 or more"),
            ("slots of an entry", entry_slots as f64, entry_slots > 0, "1 or more"),
            ("time between samples in s", sample.as_secs_f64(), !sample.is_zero(), "more than 0"),
        ];
        check_rules(&rules)
    }
}

/// Reads in flight of a look-up: io_uring has as many entries at most in a queue of usual size.
const DEPTH_MAX: usize = 4096;

/// Length of a run: far below the range of the clock.
const UNTIL_MAX: Nanos = Nanos(7 * 86_400 * 1_000_000_000);

fn check_rules(rules: &[(&'static str, f64, bool, &'static str)]) -> Result<(), StreamError> {
    match rules.iter().find(|rule| !rule.2) {
        Some(&(what, value, _, range)) => Err(StreamError::Value { what, value, range }),
        None => Ok(()),
    }
}
