//! A stream that adapts its placement while it runs.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use sakiyomi_placement::{
    Constraints, ControlSettings, Controller, Edge, Group, Idle, Operator, Pipeline, Placement, PlanTable,
    Topology,
};

use super::control::{Control, Message, Shared, Status, lock, make_plans};
use super::cpus::Cpus;
use super::decide::Decider;
use super::events::Event;
use super::graph::Graph;
use super::meters::Overhead;
use super::plans::PlanInputs;
use super::sample::Sampler;
use crate::board::Board;
use crate::builder::Stream;
use crate::error::Error;
use crate::runtime::{Report, Running, Settings};
use crate::samples::elapsed_ns;
use crate::snapshot::Snapshot;

/// Time between two samples of the counters: 20 of them are within the tenth of a second in which a plan follows a step of
/// the rate, and each takes some 10 µs.
const SAMPLE_PERIOD: Duration = Duration::from_millis(5);

/// Time per tuple and operator outside of what is timed, in nanoseconds, an estimate: a call through a table of functions
/// was measured to take 5 ns, and numbers and counters are taken to need as much.
const CALL_NS: f64 = 10.0;

/// Readings of the clock of which the quickest counts.
const CLOCK_READINGS: u32 = 1_000;

/// Rate, in tuples per second, and service time, in nanoseconds, of the plan to begin with, which is made without
/// figures: so low that the fewest cores are best.
const START_RATE_PER_S: f64 = 1.0;
const START_SERVICE_NS: f64 = 1_000.0;

/// Behavior of a stream that adapts.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptSettings {
    /// Requirements on plans. How receivers wait is set by `spin`.
    pub planner: sakiyomi_placement::Settings,
    /// When plans change with the rate. Its index of dispersion is that of the plans as well.
    pub control: ControlSettings,
    /// Operators that stay on a core, and cores that are not used.
    pub constraints: Constraints,
    /// Time between two samples of the counters.
    pub period: Duration,
    /// Time that a worker without input polls before it parks.
    pub spin: Duration,
    /// Whether each worker is pinned to the CPU of its core.
    pub is_pinned: bool,
}

impl Default for AdaptSettings {
    /// Pinned workers, a sample every 5 ms, and all else as planner, controller and runtime have it.
    fn default() -> AdaptSettings {
        AdaptSettings {
            planner: sakiyomi_placement::Settings::default(),
            control: ControlSettings::default(),
            constraints: Constraints::default(),
            period: SAMPLE_PERIOD,
            spin: Settings::unpinned(0).spin,
            is_pinned: true,
        }
    }
}

/// A stream whose placement follows its load. It begins on as few cores as possible, measures, and continues by plans.
///
/// Dropped, it stops its threads at the next tuple; what is in the rings is lost.
pub struct Adaptive {
    shared: Arc<Shared>,
    board: Arc<Board>,
    tell: Sender<Message>,
    control: Option<JoinHandle<()>>,
}

impl Stream {
    /// Starts the stream, with a worker for each core of a topology, and adapts its placement from then on.
    ///
    /// # Errors
    /// If a setting is out of range, constraints do not fit the stream and the topology, or a thread cannot be started or
    /// pinned.
    pub fn start_adaptive(self, topology: Topology, settings: AdaptSettings) -> Result<Adaptive, Error> {
        self.adapt(topology, settings, None)
    }

    /// Like [`Stream::start_adaptive`], from a snapshot as [`Stream::start_from`]. The operators begin where they were
    /// placed when it was taken, if the topology and the constraints allow that, and else on as few cores as possible.
    ///
    /// # Errors
    /// Returns the errors of [`Stream::start_adaptive`] and [`Stream::start_from`].
    pub fn start_adaptive_from(
        self,
        topology: Topology,
        settings: AdaptSettings,
        snapshot: &Snapshot,
    ) -> Result<Adaptive, Error> {
        self.adapt(topology, settings, Some(snapshot))
    }

    fn adapt(
        self,
        topology: Topology,
        settings: AdaptSettings,
        snapshot: Option<&Snapshot>,
    ) -> Result<Adaptive, Error> {
        let AdaptSettings { planner, control, constraints, period, spin, is_pinned } = settings;
        let planner = planner.with_idle(Idle::Park { spin_ns: spin.as_nanos() as f64 });
        let cpu = |core| is_pinned.then(|| topology.cpu_of(core));
        let workers: Vec<Option<usize>> = (0..topology.cores()).map(cpu).collect();
        let ground = PlanInputs { topology, constraints, settings: planner, dispersion: control.dispersion };
        let graph = Graph::of(&self.shape);
        let placement = first_placement(&graph, &ground, control, snapshot)?;
        let overhead = Overhead { clock_ns: clock_ns(), call_ns: CALL_NS };
        let decider = Decider::new(&graph, Arc::new(ground), control, overhead, placement.clone())?;
        let begin_ns = snapshot.map_or(0, |snapshot| snapshot.clock_ns);
        let sampler = Sampler::new(&self.shape, begin_ns);
        let worker_of = self.workers(&placement)?;
        let threads = Settings { workers: workers.clone(), spin };
        let mut running = match snapshot {
            Some(snapshot) => self.start_from(threads, &worker_of, snapshot)?,
            None => self.start(threads, &worker_of)?,
        };
        // Replicas that have no core of their own yet need no bins.
        running.apply(&placement)?;
        let cpus = Cpus::new(&workers, running.take_times());
        let (rate_per_s, held_per_s, watched_workers) = (None, None, cpus.watched());
        let status = Status { rate_per_s, held_per_s, late_ns: 0, placement, watched_workers };
        Adaptive::begin(running, status, period, decider, sampler, cpus)
    }
}

impl Adaptive {
    fn begin(
        running: Running,
        status: Status,
        period: Duration,
        decider: Decider,
        sampler: Sampler,
        cpus: Cpus,
    ) -> Result<Adaptive, Error> {
        let board = Arc::clone(running.board());
        let shared = Arc::new(Shared::new(running, status));
        let (tell, messages) = channel();
        let (requests, requested) = mpsc::channel();
        let told = tell.clone();
        // Nobody waits for it: it has nothing of the stream, and ends after the plans that it is making.
        let planning = Builder::new().name("stream-plan".to_owned());
        planning.spawn(move || make_plans(&requested, &told)).map_err(Error::Thread)?;
        let control = Control {
            shared: Arc::clone(&shared),
            board: Arc::clone(&board),
            sampler,
            decider,
            cpus,
            period,
            messages,
            requests,
        };
        let thread = Builder::new().name("stream-control".to_owned());
        let control = thread.spawn(move || control.run()).map_err(Error::Thread)?;
        Ok(Adaptive { shared, board, tell, control: Some(control) })
    }

    /// Returns the counters at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.running().report()
    }

    /// Rate, plan and placement at the last sample.
    #[must_use]
    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }

    /// Returns the events from this number on, of those that are kept: the last 1,024.
    #[must_use]
    pub fn events_since(&self, number: u64) -> Vec<Event> {
        lock(&self.shared.log).since(number).cloned().collect()
    }

    /// Calls a function with the running stream, which does not adapt meanwhile. The function must not move operators,
    /// nor call this handle, which would wait for it.
    pub fn with_running<R>(&self, call: impl FnOnce(&mut Running) -> R) -> R {
        call(&mut self.shared.running())
    }

    /// Ends all sources. What they have emitted is processed.
    pub fn end_sources(&self) {
        self.shared.running().end_sources();
    }

    /// Waits until the end has reached all sinks or a worker was lost, at most this long; says whether one of them is so.
    #[must_use]
    pub fn wait_for_end(&self, time: Duration) -> bool {
        self.board.wait_for_end(time)
    }

    /// Waits until the end has reached all sinks, adapting until then, and stops the threads.
    ///
    /// # Errors
    /// If a worker was lost. An operator that stopped is in the report.
    pub fn finish(mut self) -> Result<Finished, Error> {
        let ended = self.board.wait_for_sinks();
        self.stop();
        ended?;
        Ok(Finished { report: self.report(), status: self.status(), events: self.events_since(0) })
    }

    /// Stops adapting.
    fn stop(&mut self) {
        // It has ended already if a worker was lost.
        let _ = self.tell.send(Message::Stop);
        self.control.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Adaptive {
    fn drop(&mut self) {
        // The control thread may wait for a barrier that a blocked operator holds back.
        self.board.stop();
        self.stop();
    }
}

/// A stream that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its counters and failures.
    pub report: Report,
    /// Its state at the last sample.
    pub status: Status,
    /// Its events, of those that are kept: the last 1,024.
    pub events: Vec<Event>,
}

/// Returns the placement to begin with, of a stream of whose load nothing is known: that of a snapshot if it is valid
/// here, and else one on as few cores as possible.
fn first_placement(
    graph: &Graph,
    ground: &PlanInputs,
    control: ControlSettings,
    snapshot: Option<&Snapshot>,
) -> Result<Placement, Error> {
    let operators = vec![Operator::new(START_SERVICE_NS); graph.operators];
    let edge = |edge: &super::graph::GraphEdge| Edge { from: edge.from, to: edge.to, selectivity: 1.0 };
    let entries: Vec<(usize, f64)> = graph.sources.iter().map(|&source| (source, 1.0)).collect();
    let edges = graph.edges.iter().map(edge).collect();
    let pipeline = Pipeline::graph(operators, edges, &entries, Vec::new())?;
    let arrivals = ground.arrivals(START_RATE_PER_S)?;
    let planner = ground.planner(&pipeline)?;
    let table = planner.table(arrivals, START_RATE_PER_S..=START_RATE_PER_S)?;
    let fewest = first_of(&table);
    // Refuses settings that are out of range.
    Controller::new(table, control)?;
    let saved = snapshot.map(|snapshot| placement_of(&snapshot.workers));
    let valid = saved.filter(|placement| planner.model(arrivals).check(placement).is_ok());
    Ok(valid.unwrap_or(fewest))
}

/// Returns the placement of operators that are on these workers, one a core.
fn placement_of(workers: &[usize]) -> Placement {
    let mut operators: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (operator, &worker) in workers.iter().enumerate() {
        operators.entry(worker).or_default().push(operator);
    }
    let group = |(core, operators)| Group { operators, cores: vec![core] };
    Placement { groups: operators.into_iter().map(group).collect() }
}

fn first_of(table: &PlanTable) -> Placement {
    table.entries()[0].1.placement.clone()
}

/// Returns the time that two readings of the clock one after the other take for one, in nanoseconds.
fn clock_ns() -> f64 {
    (0..CLOCK_READINGS).map(|_| elapsed_ns(Instant::now())).min().unwrap_or(0) as f64
}
