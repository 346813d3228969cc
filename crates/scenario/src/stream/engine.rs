//! The state of a stream, and what happens next.
//!
//! Nothing is queued that could become out of date: each core, input and plan says when it wants to continue, and the earliest
//! is next. There are at most some tens of them.

mod burst;
mod control;
mod figures;
mod relocate;
mod send;

use std::collections::VecDeque;

use sakiyomi_model::Nanos;
use sakiyomi_placement::{Distance, Hop, Idle, Placement, Topology};

use super::arrivals::Generator;
use super::order::{Order, Output};
use super::outcome::{IntervalFigures, Latencies, Relocation, StreamOutcome};
use super::random::Random;
use super::ring::{Entry, NO_TICKET, Ring, Waiter};
use super::service::Sampler;
use super::spec::{LookUp, OverloadPolicy, StreamSpec};
use super::time::{NEVER_PS, of_nanos, ps};
use control::ControlState;
use relocate::Change;

/// Costs of a hop in picoseconds.
#[derive(Clone, Copy, Debug)]
struct HopCosts {
    send: u64,
    transit: u64,
    receive: u64,
    wake: u64,
    waker: u64,
}

impl HopCosts {
    fn new(hop: &Hop) -> HopCosts {
        HopCosts {
            send: ps(hop.send_ns),
            transit: ps(hop.transit_ns),
            receive: ps(hop.receive_ns),
            wake: ps(hop.wake_ns),
            waker: ps(hop.waker_ns),
        }
    }
}

/// A core, and its segment if it has one.
#[derive(Clone, Debug, Default)]
struct Core {
    /// Channels from which the segment takes tuples.
    inputs: Vec<usize>,
    /// Channels that were rings and have become calls: what is left in them goes first.
    drains: Vec<usize>,
    /// Tuples in its rings, apart from look-ups in flight.
    queued: usize,
    /// The channel of the tuple in progress.
    current: Option<usize>,
    /// Ordered channel and ticket of a tuple whose outputs are not all sent.
    open: Option<(usize, u64)>,
    /// Outputs without room.
    held: VecDeque<Output>,
    busy_until_ps: u64,
    /// When it ran out of tuples.
    idle_since_ps: u64,
    /// It does not begin a tuple before: a wake-up or a hand-over is on its way.
    awake_ps: u64,
    /// Takes no tuple until a change of the placement has been made.
    is_paused: bool,
    /// A new replica that waits for the old ones to pass the marker.
    is_closed: bool,
    /// Results of the tuple in progress: operator, intended arrival, emission.
    results: Vec<(usize, u64, u64)>,
    /// Times in which it does not work, the next one last.
    stalls: Vec<(u64, u64)>,
    busy_ps: u64,
    spin_ps: u64,
    wakes: u64,
}

impl Core {
    fn is_between_tuples(&self) -> bool {
        self.current.is_none() && self.held.is_empty()
    }
}

/// An input from outside.
#[derive(Clone, Debug)]
struct Input {
    channel: usize,
    generator: Generator,
    /// A second generator of these times, for the number of arrivals until now.
    meter: Generator,
    metered_ps: u64,
    /// The next tuple, which is meant to arrive then.
    next_ps: u64,
    /// Whether it waits for room.
    is_waiting: bool,
}

/// A read that a look-up wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadRequest {
    pub(super) at_ps: u64,
    pub(super) operator: usize,
    /// Its number among those of the operator.
    pub(super) number: u64,
    /// Where the record begins, in bytes.
    pub(super) offset: u64,
}

/// The next step.
#[derive(Clone, Copy, Debug)]
enum Next {
    Core(usize),
    Input(usize),
    Control,
    Selectivity,
}

/// Channels: the edges, then the entry of each operator, then the results of its look-ups.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    now_ps: u64,
    topology: &'a Topology,
    // The pipeline.
    edges: usize,
    operators: usize,
    /// The operator that takes the tuples of each channel.
    receiver: Vec<usize>,
    outgoing: Vec<Vec<usize>>,
    selectivity: Vec<f64>,
    services: Vec<Sampler>,
    look_ups: Vec<Option<LookUp>>,
    reap_ps: Vec<u64>,
    hops: [HopCosts; 2],
    /// By key and number of replicas, the share of the busiest.
    shares: Vec<Option<Vec<f64>>>,
    // The placement.
    placement: Placement,
    group_of: Vec<usize>,
    /// Upper ends of the shares of each group's replicas.
    share_ends: Vec<Vec<f64>>,
    // The state.
    cores: Vec<Core>,
    /// When each core wants to continue.
    next_ps: Vec<u64>,
    /// By channel and core.
    rings: Vec<Vec<Ring>>,
    /// By channel.
    orders: Vec<Order>,
    inputs: Vec<Input>,
    reads: Vec<ReadRequest>,
    reads_in_flight: usize,
    random: Random,
    // Changes.
    selectivities: VecDeque<(u64, usize, f64)>,
    change: Option<Change>,
    control: ControlState<'a>,
    // Settings.
    idle: Idle,
    overload: OverloadPolicy,
    ring_slots: usize,
    entry_slots: usize,
    handover_ps: u64,
    /// Arrivals and CPU time count from, until.
    window_ps: (u64, u64),
    interval_ps: u64,
    // Figures.
    interval: IntervalFigures,
    interval_latencies: Latencies,
    /// By operator that emits results: latencies, and the intended arrival of the last result.
    sinks: Vec<Option<(Latencies, u64)>>,
    latencies: Latencies,
    outcome: StreamOutcome,
}

impl<'a> Engine<'a> {
    /// Returns the engine of a checked stream.
    pub(super) fn new(spec: &StreamSpec<'a>) -> Engine<'a> {
        let StreamSpec { pipeline, topology, settings, .. } = spec;
        let (edges, operators) = (pipeline.edges().len(), pipeline.operators().len());
        let receiver = pipeline.edges().iter().map(|edge| edge.to).chain(0..operators).chain(0..operators);
        let outgoing =
            |operator| (0..edges).filter(|&edge| pipeline.edges()[edge].from == operator).collect();
        let outgoing: Vec<Vec<usize>> = (0..operators).map(outgoing).collect();
        let until_ps = of_nanos(settings.until);
        let input = |(index, (operator, pattern)): (usize, &(usize, super::ArrivalPattern))| {
            let random = Random::new(settings.seed, index as u64 + 1);
            let generator = Generator::new(pattern, until_ps, random);
            let mut meter = generator.clone();
            let metered_ps = meter.next();
            let mut generator = generator;
            let next_ps = generator.next();
            Input { channel: edges + operator, generator, meter, metered_ps, next_ps, is_waiting: false }
        };
        let service = |(operator, data): (usize, &sakiyomi_placement::Operator)| {
            let moments = super::Service::Moments { mean_ns: data.service_ns, scv: data.service_scv };
            Sampler::new(spec.services.get(&operator).unwrap_or(&moments))
        };
        let look_up = |operator| spec.look_ups.get(&operator).copied();
        let look_ups: Vec<Option<LookUp>> = (0..operators).map(look_up).collect();
        let channels = edges + 2 * operators;
        let mut selectivities: Vec<(u64, usize, f64)> =
            spec.selectivities.iter().map(|&(at, edge, mean)| (of_nanos(at), edge, mean)).collect();
        selectivities.sort_by_key(|change| change.0);
        let key_shares = |operator: &sakiyomi_placement::Operator| {
            operator.key.map(|key| pipeline.keys()[key].max_share.clone())
        };
        let sink = |operator: usize| outgoing[operator].is_empty().then(|| (Latencies::new(), 0));
        let mut engine = Engine {
            now_ps: 0,
            topology,
            edges,
            operators,
            receiver: receiver.collect(),
            selectivity: pipeline.edges().iter().map(|edge| edge.selectivity).collect(),
            services: pipeline.operators().iter().enumerate().map(service).collect(),
            reap_ps: look_ups.iter().map(|look_up| look_up.map_or(0, |it| ps(it.reap_ns))).collect(),
            look_ups,
            hops: [Distance::Near, Distance::Far].map(|distance| HopCosts::new(topology.hop(distance))),
            shares: pipeline.operators().iter().map(key_shares).collect(),
            placement: spec.placement.clone(),
            group_of: vec![0; operators],
            share_ends: Vec::new(),
            cores: (0..topology.cores())
                .map(|core| Core { stalls: stalls(spec, core), ..Core::default() })
                .collect(),
            next_ps: vec![NEVER_PS; topology.cores()],
            rings: vec![vec![Ring::default(); topology.cores()]; channels],
            orders: vec![Order::default(); channels],
            inputs: spec.inputs.iter().enumerate().map(input).collect(),
            reads: Vec::new(),
            reads_in_flight: 0,
            random: Random::new(settings.seed, 0),
            selectivities: selectivities.into(),
            change: None,
            control: ControlState::new(spec),
            idle: settings.idle,
            overload: settings.overload,
            ring_slots: settings.ring_slots,
            entry_slots: settings.entry_slots,
            handover_ps: of_nanos(settings.handover),
            window_ps: (of_nanos(settings.measure_from), until_ps),
            interval_ps: of_nanos(settings.interval),
            interval: IntervalFigures::default(),
            interval_latencies: Latencies::new(),
            sinks: (0..operators).map(sink).collect(),
            latencies: Latencies::new(),
            outcome: StreamOutcome::default(),
            outgoing,
        };
        engine.lay_out();
        engine
    }

    /// Returns when it wants to continue; [`NEVER_PS`] at the end, and while only reads are awaited.
    pub(super) fn next_event(&self) -> u64 {
        self.earliest().0
    }

    /// Returns whether nothing is left to be done.
    pub(super) fn is_done(&self) -> bool {
        self.next_event() == NEVER_PS && self.reads.is_empty() && self.reads_in_flight == 0
    }

    fn earliest(&self) -> (u64, Next) {
        let mut earliest = (NEVER_PS, Next::Control);
        let mut consider = |at_ps: u64, next: Next| {
            if at_ps < earliest.0 {
                earliest = (at_ps, next);
            }
        };
        if let Some(&(at_ps, ..)) = self.selectivities.front() {
            consider(at_ps, Next::Selectivity);
        }
        consider(self.control.next_ps(), Next::Control);
        for (index, input) in self.inputs.iter().enumerate() {
            if !input.is_waiting {
                consider(input.next_ps, Next::Input(index));
            }
        }
        for (core, &at_ps) in self.next_ps.iter().enumerate() {
            consider(at_ps, Next::Core(core));
        }
        // A change of a stream that has ended would wait for ever.
        let is_over = matches!(earliest.1, Next::Control | Next::Selectivity) && self.has_ended();
        if is_over { (NEVER_PS, Next::Control) } else { earliest }
    }

    /// Returns whether no tuple is left or will come.
    fn has_ended(&self) -> bool {
        self.inputs.iter().all(|input| input.next_ps == NEVER_PS)
            && self.reads.is_empty()
            && self.reads_in_flight == 0
            && self.cores.iter().all(|core| core.is_between_tuples() && core.queued == 0)
    }

    /// Goes on to the next event; whether there was one.
    pub(super) fn step(&mut self) -> bool {
        let (at_ps, next) = self.earliest();
        if at_ps == NEVER_PS {
            return false;
        }
        self.now_ps = self.now_ps.max(at_ps);
        self.close_intervals();
        match next {
            Next::Core(core) => self.act(core),
            Next::Input(input) => self.arrive(input),
            Next::Control => self.adapt(),
            Next::Selectivity => {
                if let Some((_, edge, mean)) = self.selectivities.pop_front() {
                    self.selectivity[edge] = mean;
                }
            }
        }
        true
    }

    /// Returns the first read that is wanted; its time may be later than now.
    pub(super) fn next_read(&self) -> Option<&ReadRequest> {
        self.reads.iter().min_by_key(|read| (read.at_ps, read.operator, read.number))
    }

    /// Takes the read that [`Engine::next_read`] has returned.
    pub(super) fn take_read(&mut self) -> Option<ReadRequest> {
        let first = self.next_read().copied()?;
        self.reads.retain(|read| *read != first);
        self.reads_in_flight += 1;
        Some(first)
    }

    /// A read that was taken is done.
    pub(super) fn complete_read(&mut self, now_ps: u64, operator: usize, number: u64) {
        self.now_ps = self.now_ps.max(now_ps);
        self.reads_in_flight -= 1;
        let (channel, core) = (self.continuation(operator), self.core_of(operator));
        if self.rings[channel][core].complete(number, self.now_ps) {
            self.poke(core, self.now_ps);
        }
    }

    fn entry(&self, operator: usize) -> usize {
        self.edges + operator
    }

    fn continuation(&self, operator: usize) -> usize {
        self.edges + self.operators + operator
    }

    /// Returns the only core of an operator without replicas.
    fn core_of(&self, operator: usize) -> usize {
        self.placement.groups[self.group_of[operator]].cores[0]
    }

    fn slots(&self, channel: usize) -> usize {
        if channel < self.edges {
            return self.ring_slots;
        }
        match channel.checked_sub(self.edges + self.operators) {
            None => self.entry_slots,
            Some(operator) => self.look_ups[operator].map_or(self.ring_slots, |look_up| look_up.depth),
        }
    }

    fn is_full(&self, channel: usize, core: usize) -> bool {
        self.rings[channel][core].len() >= self.slots(channel)
    }

    /// A core may have something to do from a time on.
    fn poke(&mut self, core: usize, at_ps: u64) {
        if self.cores[core].current.is_none() && self.takes(core).is_some() {
            self.next_ps[core] = self.next_ps[core].min(at_ps.max(self.cores[core].awake_ps));
        }
    }

    /// Returns the channels from which a core may take a tuple, the first one; none if it may from none. While a
    /// look-up waits for another one to be done, it takes the results of look-ups.
    fn takes(&self, core: usize) -> Option<usize> {
        let Core { is_paused, is_closed, .. } = self.cores[core];
        let results = self.edges + self.operators;
        match self.cores[core].held.front() {
            None => (!is_paused && !is_closed).then_some(0),
            Some(output) => (output.channel >= results).then_some(results),
        }
    }

    /// Part of a time that counts for CPU time.
    fn within_window(&self, from_ps: u64, to_ps: u64) -> u64 {
        to_ps.min(self.window_ps.1).saturating_sub(from_ps.max(self.window_ps.0))
    }
}

/// Returns the stalls of a core, the last one first.
fn stalls(spec: &StreamSpec<'_>, core: usize) -> Vec<(u64, u64)> {
    let of_core = spec.stalls.iter().filter(|stall| stall.core == core);
    let mut stalls: Vec<(u64, u64)> = of_core
        .map(|stall| (of_nanos(stall.at), of_nanos(Nanos(stall.at.0.saturating_add(stall.length.0)))))
        .collect();
    stalls.sort_unstable_by(|one, other| other.cmp(one));
    stalls
}
