//! The certificate of a placement of any graph, with joins and replicas.
//!
//! A *flow* is the tuples that enter a group along a cut edge, or at an entry. Flow `i` is bounded by a burst and a
//! rate, `s_i + p_i t`, and each of its tuples costs its group at most `B_i` of CPU time. The bounds of a flow follow
//! from those of the group that sends it (Le Boudec and Thiran, *Network Calculus*, 2001, sections 1.4 and 6.2),
//! group by group:
//!
//! ```text
//! one flow on one core       ring  <=  s + p (T + B)                          output burst  g (s + p (T + B))
//! several flows, replicas    delay <=  (S + max B + sum B r(s)) / (1 - sum over others of x p B)  + transit
//!                            ring  <=  r(s + p delay)                         output burst  g (s + p delay)
//! ```
//!
//! Several flows may be served in any order, as long as the core does not idle while it has a tuple. Of `n`
//! consecutive tuples a replica takes at most `r(n) = c + x n`, as declared by [`super::ReplicaBounds`], or all of
//! them; results are put in order again, so a tuple may wait as long as the slowest replica takes. A flow through
//! groups without other inputs pays for its burst once, at the slowest of them, as in a tandem of stages.

use super::ArrivalBounds;
use super::work::{ReplicaBounds, WorkBounds};
use crate::{Error, Hop, Idle, Model, Placement, Topology};

/// Required capacity of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingBound {
    /// The edge that passes through the ring; `None` for the queue of tuples from outside.
    pub edge: Option<usize>,
    /// The operator that takes the tuples.
    pub operator: usize,
    /// Required capacity in tuples, including the one in progress. Between replicas each ring of the edge needs this
    /// capacity.
    pub tuples: u64,
}

/// Ring sizes of a placement with which no ring overflows, and a bound of the delay.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementCertificate {
    /// The rings, in the order of the operators that take from them.
    pub rings: Vec<RingBound>,
    /// Longest time from the arrival of a tuple until all tuples that stem from it are finished, in nanoseconds.
    pub delay_max_ns: f64,
    /// Share of the guaranteed time of each group's core that the declared rate can take, at most 1.
    pub load_max: Vec<f64>,
}

impl Model<'_> {
    /// Returns the certificate of a placement, valid while the input stays within `arrivals`, and operators and cores
    /// within `work`. The rate of this model is ignored, and the costs of hops count as upper bounds.
    ///
    /// # Errors
    /// Returns the errors of [`Model::check`]; an error if a bound is out of range; an error if a group is slower than its input.
    pub fn certificate(
        &self,
        placement: &Placement,
        arrivals: ArrivalBounds,
        work: &WorkBounds,
    ) -> Result<PlacementCertificate, Error> {
        self.check(placement)?;
        arrivals.check()?;
        work.check(self.pipeline)?;
        let propagation = Propagation::new(self, placement, work);
        propagation.certificate(arrivals)
    }
}

/// A path through groups without other inputs, over which a burst is paid for once: the tandem of stages of
/// [`super::Certificate`].
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Delay before the tandem, in nanoseconds.
    before_ns: f64,
    burst_tuples: f64,
    /// Tuples per tuple at the beginning of the tandem: `G`.
    amplification: f64,
    /// Sum of `T + G B`.
    latency_ns: f64,
    /// Largest `G B`.
    slowest_ns: f64,
}

impl Row {
    fn new(before_ns: f64, burst_tuples: f64) -> Row {
        Row { before_ns, burst_tuples, amplification: 1.0, latency_ns: 0.0, slowest_ns: 0.0 }
    }

    /// Returns the state after a further stage.
    fn pass(self, pause_ns: f64, tuple_ns: f64) -> Row {
        let service_ns = self.amplification * tuple_ns;
        let latency_ns = self.latency_ns + pause_ns + service_ns;
        Row { latency_ns, slowest_ns: self.slowest_ns.max(service_ns), ..self }
    }

    fn delay_ns(&self) -> f64 {
        self.before_ns + self.latency_ns + self.burst_tuples * self.slowest_ns
    }
}

/// Tuples that enter a group at an operator.
#[derive(Clone, Debug)]
struct Flow {
    edge: Option<usize>,
    operator: usize,
    burst_tuples: f64,
    per_ns: f64,
    row: Row,
}

/// Bounds of a flow in its group.
struct Passed {
    ring_tuples: f64,
    /// Burst of the output, per tuple sent for each taken.
    burst_tuples: f64,
    /// Delay until the group has finished a tuple, in nanoseconds.
    delay_ns: f64,
    /// The tandem, if it continues.
    row: Option<Row>,
}

/// Computes the bounds of all flows in the order of the graph, from the entries on.
struct Propagation<'a> {
    model: &'a Model<'a>,
    placement: &'a Placement,
    work: &'a WorkBounds,
    group_of: Vec<usize>,
    /// For each operator the longest CPU time of it and of its successors in its group, per tuple taken.
    work_ns: Vec<f64>,
}

impl<'a> Propagation<'a> {
    fn new(model: &'a Model<'a>, placement: &'a Placement, work: &'a WorkBounds) -> Propagation<'a> {
        let group_of = placement.group_of(model.pipeline.operators().len());
        let propagation = Propagation { model, placement, work, group_of, work_ns: Vec::new() };
        Propagation { work_ns: propagation.all_work_ns(), ..propagation }
    }

    fn certificate(&self, arrivals: ArrivalBounds) -> Result<PlacementCertificate, Error> {
        let mut flows_to = self.entries(arrivals);
        let mut rings = Vec::new();
        let mut load_max = vec![0.0; self.placement.groups.len()];
        let mut delay_max_ns: f64 = 0.0;
        for group in self.model.sending_order(self.placement) {
            let flows = std::mem::take(&mut flows_to[group]);
            load_max[group] = self.load(group, &flows)?;
            let passed: Vec<Passed> = (0..flows.len()).map(|flow| self.pass(group, &flows, flow)).collect();
            for (flow, passed) in flows.iter().zip(&passed) {
                delay_max_ns = delay_max_ns.max(passed.delay_ns);
                let tuples = finite_tuples(passed.ring_tuples)?;
                rings.push(RingBound { edge: flow.edge, operator: flow.operator, tuples });
            }
            for edge in self.cut_edges(group) {
                let to = self.model.pipeline.edges()[edge].to;
                flows_to[self.group_of[to]].push(self.output(edge, &flows, &passed));
            }
        }
        rings.sort_by_key(|ring| (ring.operator, ring.edge));
        Ok(PlacementCertificate { rings, delay_max_ns, load_max })
    }

    fn entries(&self, arrivals: ArrivalBounds) -> Vec<Vec<Flow>> {
        let mut flows = vec![Vec::new(); self.placement.groups.len()];
        for (operator, &group) in self.group_of.iter().enumerate() {
            let tuples = self.model.pipeline.entry(operator);
            if tuples > 0.0 {
                let ArrivalBounds { burst_tuples, rate_per_s } =
                    self.work.of_entry(operator, tuples, arrivals);
                let per_ns = rate_per_s * 1e-9;
                let row = Row::new(0.0, burst_tuples);
                flows[group].push(Flow { edge: None, operator, burst_tuples, per_ns, row });
            }
        }
        flows
    }

    /// Returns the edges from a group to others.
    fn cut_edges(&self, group: usize) -> impl Iterator<Item = usize> {
        let edges = self.model.pipeline.edges().iter().enumerate();
        edges
            .filter(move |(_, edge)| self.group_of[edge.from] == group && self.group_of[edge.to] != group)
            .map(|(index, _)| index)
    }

    /// Returns the division of the tuples among the replicas of a group.
    fn replicas(&self, group: usize) -> ReplicaBounds {
        self.work.of_replicas(self.model.pipeline, &self.placement.groups[group])
    }

    /// Returns the load of a group's core, or an error if it exceeds the core's time.
    fn load(&self, group: usize, flows: &[Flow]) -> Result<f64, Error> {
        let share = self.replicas(group).share;
        let share_min = 1.0 / self.placement.groups[group].cores.len() as f64;
        // Tolerates the rounding of shares such as 1/3.
        if !(share_min * (1.0 - 1e-9)..=1.0).contains(&share) {
            let (what, range) = ("share of a replica", "from 1/r to 1 for r replicas");
            return Err(Error::Value { what, value: share, range });
        }
        let load: f64 = flows.iter().map(|flow| flow.per_ns * share * self.tuple_ns(flow)).sum();
        if load <= 1.0 {
            return Ok(load);
        }
        let arriving_per_s = flows.iter().map(|flow| flow.per_ns * share).sum::<f64>() * 1e9;
        Err(Error::Overflow { stage: group, served_per_s: arriving_per_s / load, arriving_per_s })
    }

    fn pass(&self, group: usize, flows: &[Flow], index: usize) -> Passed {
        let flow = &flows[index];
        let tuple_ns = self.tuple_ns(flow);
        let stall_ns = self.stall_ns(flow);
        if flows.len() == 1 && self.placement.groups[group].cores.len() == 1 {
            let pause_ns = self.transit_ns(flow) + stall_ns;
            let ring_tuples = flow.burst_tuples + flow.per_ns * (pause_ns + tuple_ns);
            let row = flow.row.pass(pause_ns, tuple_ns);
            return Passed {
                ring_tuples,
                burst_tuples: ring_tuples,
                delay_ns: row.delay_ns(),
                row: Some(row),
            };
        }
        let ReplicaBounds { share, burst_tuples } = self.replicas(group);
        let of_replica = |tuples: f64| tuples.min(burst_tuples + share * tuples);
        // A varying transit lets tuples meet that were sent apart.
        let queued =
            |flow: &Flow| burst_tuples + share * (flow.burst_tuples + flow.per_ns * self.transit_ns(flow));
        let work_ns: f64 = flows.iter().map(|flow| self.tuple_ns(flow) * queued(flow)).sum();
        let longest = |of: &dyn Fn(&Flow) -> f64| flows.iter().map(of).fold(0.0, f64::max);
        let others = flows.iter().enumerate().filter(|&(other, _)| other != index);
        let others: f64 = others.map(|(_, flow)| flow.per_ns * share * self.tuple_ns(flow)).sum();
        let stalls_ns = longest(&|flow| self.stall_ns(flow));
        let tuple_max_ns = longest(&|flow| self.tuple_ns(flow));
        let delay_ns = (stalls_ns + tuple_max_ns + work_ns) / (1.0 - others) + self.transit_ns(flow);
        let tuples = flow.burst_tuples + flow.per_ns * delay_ns;
        let delay_ns = flow.row.delay_ns() + delay_ns;
        Passed { ring_tuples: of_replica(tuples), burst_tuples: tuples, delay_ns, row: None }
    }

    /// Returns the flow that leaves along an edge.
    fn output(&self, edge: usize, flows: &[Flow], passed: &[Passed]) -> Flow {
        let sent: Vec<f64> = flows.iter().map(|flow| self.sent(flow.operator, edge)).collect();
        let sum = |of: &dyn Fn(usize) -> f64| (0..flows.len()).map(|flow| sent[flow] * of(flow)).sum::<f64>();
        let burst_tuples = sum(&|flow| passed[flow].burst_tuples);
        let per_ns = sum(&|flow| flows[flow].per_ns);
        let row = match passed {
            [Passed { row: Some(row), .. }] => Row { amplification: row.amplification * sent[0], ..*row },
            _ => Row::new(passed.iter().map(|passed| passed.delay_ns).fold(0.0, f64::max), burst_tuples),
        };
        Flow { edge: Some(edge), operator: self.model.pipeline.edges()[edge].to, burst_tuples, per_ns, row }
    }

    /// Returns the maximum number of tuples sent along an edge from a group per tuple that enters it at an operator.
    fn sent(&self, operator: usize, edge: usize) -> f64 {
        let pipeline = self.model.pipeline;
        let group = self.group_of[operator];
        let mut taken = vec![0.0; pipeline.operators().len()];
        taken[operator] = 1.0;
        for from in operator..taken.len() {
            for &inner in pipeline.outgoing(from) {
                let to = pipeline.edges()[inner].to;
                if self.group_of[from] == group && self.group_of[to] == group {
                    taken[to] += taken[from] * f64::from(self.work.outputs_max[inner]);
                }
            }
        }
        taken[pipeline.edges()[edge].from] * f64::from(self.work.outputs_max[edge])
    }

    /// Returns `B`: the longest time per tuple of a flow, in nanoseconds, including its share of the stalls.
    fn tuple_ns(&self, flow: &Flow) -> f64 {
        let receive_ns = flow.edge.map_or(0.0, |edge| self.hop(edge).receive_ns);
        (receive_ns + self.work_ns[flow.operator]) / (1.0 - self.work.stall_ratio)
    }

    fn all_work_ns(&self) -> Vec<f64> {
        let pipeline = self.model.pipeline;
        let mut work_ns = self.work.service_max_ns.clone();
        for operator in (0..work_ns.len()).rev() {
            // Edges lead to later operators, whose work is known.
            for &edge in pipeline.outgoing(operator) {
                let to = pipeline.edges()[edge].to;
                let is_inside = self.group_of[operator] == self.group_of[to];
                let each_ns = if is_inside { work_ns[to] } else { self.send_ns(edge) };
                work_ns[operator] += f64::from(self.work.outputs_max[edge]) * each_ns;
            }
        }
        work_ns
    }

    fn send_ns(&self, edge: usize) -> f64 {
        let hop = self.hop(edge);
        hop.send_ns + if self.is_parking() { hop.waker_ns } else { 0.0 }
    }

    /// Returns the longest time for which tuples of a flow accumulate while the core is stalled.
    fn stall_ns(&self, flow: &Flow) -> f64 {
        let wake_ns = flow.edge.filter(|_| self.is_parking()).map_or(0.0, |edge| self.hop(edge).wake_ns);
        (self.work.stall_max_ns + wake_ns) / (1.0 - self.work.stall_ratio)
    }

    fn transit_ns(&self, flow: &Flow) -> f64 {
        flow.edge.map_or(0.0, |edge| self.hop(edge).transit_ns)
    }

    fn is_parking(&self) -> bool {
        matches!(self.model.idle, Idle::Park { .. })
    }

    /// Returns the hop of a cut edge.
    fn hop(&self, edge: usize) -> &Hop {
        let topology: &Topology = self.model.topology;
        let edge = &self.model.pipeline.edges()[edge];
        let core = |operator: usize| self.placement.groups[self.group_of[operator]].cores[0];
        topology.hop(topology.distance(core(edge.from), core(edge.to)))
    }
}

fn finite_tuples(tuples: f64) -> Result<u64, Error> {
    if tuples.is_finite() {
        return Ok(tuples.ceil() as u64);
    }
    Err(Error::Value { what: "tuples in a ring", value: tuples, range: "finite" })
}
