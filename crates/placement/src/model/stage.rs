//! One group of operators that share a core: its occupancy, its utilization, and the delays of tuples in it.

use super::counts::Stream;
use super::{Edge, Model, waiting};
use crate::Distance;

/// Distance of each edge; `None` inside a group.
pub(crate) type HopOf<'h> = &'h dyn Fn(usize) -> Option<Distance>;

/// A group under load.
pub(crate) struct Stage {
    /// Utilization of its core, of the busiest replica.
    pub(crate) utilization: f64,
    /// Mean wait due to irregular arrivals and for siblings: only the maximum over the groups of a path counts.
    pub(crate) arrival_wait_ns: f64,
    /// Mean wait due to the variation of the occupancy.
    service_wait_ns: f64,
    /// Tuples per nanosecond that the busiest replica takes.
    rate: f64,
    work: Work,
}

impl Stage {
    /// Creates a group of operators, in ascending order, on one core or on one per replica; `None` if they cannot
    /// have this number of replicas.
    pub(crate) fn new(
        model: &Model<'_>,
        operators: &[usize],
        replicas: usize,
        hop_of: HopOf<'_>,
    ) -> Option<Stage> {
        let share = model.pipeline.max_share(operators, replicas)?;
        let work = Work::new(model, operators, hop_of);
        let rate = model.arrivals.per_ns() * work.input.flow * share;
        let utilization = rate * work.occupancy_ns;
        let resequencing = waiting::resequencing(utilization, share, replicas);
        // Tuples are divided among replicas as by a filter for each.
        let dispersion = work.input.dispersion * share + (1.0 - share);
        let wait = |scv| waiting::queueing(utilization, scv, work.occupancy_ns) * resequencing;
        let siblings_ns = (work.input.batch - 1.0) / 2.0 * share * work.occupancy_ns + work.siblings_ns;
        Some(Stage {
            utilization,
            arrival_wait_ns: wait(dispersion) + siblings_ns,
            service_wait_ns: wait(work.occupancy_scv),
            rate,
            work,
        })
    }

    /// Returns the mean time from the arrival of a tuple from outside until its first operator begins.
    pub(crate) fn entry_ns(&self) -> f64 {
        self.service_wait_ns
    }

    /// Returns the mean time from the moment when a tuple was sent along an edge, over this distance, until its first
    /// operator begins.
    pub(crate) fn hop_ns(&self, model: &Model<'_>, edge: usize, distance: Distance) -> f64 {
        let hop = model.topology.hop(distance);
        let to = model.pipeline.edges()[edge].to;
        let set_up = waiting::set_up(self.rate, hop.wake_ns, model.parked[to].typical);
        hop.transit_ns + hop.receive_ns + set_up + self.service_wait_ns
    }

    /// Returns the mean time from the beginning of the operator that sends along an edge until it has sent the first
    /// tuple.
    pub(crate) fn service_ns(&self, model: &Model<'_>, edge: usize, distance: Option<Distance>) -> f64 {
        let pipeline = model.pipeline;
        let data = &pipeline.edges()[edge];
        let before = pipeline.outgoing(data.from).iter().take_while(|&&other| other != edge);
        let before: f64 =
            before.map(|&other| pipeline.edges()[other].selectivity * self.work.along_ns[other]).sum();
        let send = distance.map_or(0.0, |_| self.work.along_ns[edge]);
        pipeline.operators()[data.from].service_ns + before + send
    }
}

/// CPU time from the beginning of an operator until all its results have left the group.
#[derive(Clone, Copy, Default)]
struct ToGo {
    mean_ns: f64,
    variance_ns2: f64,
    /// Wait for siblings that arise on the way.
    siblings_ns: f64,
}

impl ToGo {
    /// Adds the tuples sent along an edge: a random number of them, each of which takes `along`.
    fn add(&mut self, edge: &Edge, along: ToGo) {
        self.mean_ns += edge.selectivity * along.mean_ns;
        self.variance_ns2 +=
            edge.selectivity * along.variance_ns2 + edge.count_variance() * along.mean_ns.powi(2);
        let siblings_ns = edge.earlier_siblings() * along.mean_ns + along.siblings_ns;
        self.siblings_ns = self.siblings_ns.max(siblings_ns);
    }
}

/// CPU time of a group.
struct Work {
    /// Mean per tuple that enters, in nanoseconds.
    occupancy_ns: f64,
    /// Squared coefficient of variation of the occupancy.
    occupancy_scv: f64,
    /// Tuples that enter.
    input: Stream,
    /// Mean wait for siblings that arise in the group, on the path with the longest.
    siblings_ns: f64,
    /// For each edge from the group the CPU time per tuple sent: that of its receiver in the group, or of sending.
    along_ns: Vec<f64>,
}

impl Work {
    fn new(model: &Model<'_>, operators: &[usize], hop_of: HopOf<'_>) -> Work {
        let pipeline = model.pipeline;
        let count = pipeline.operators().len();
        let mut to_go = vec![ToGo::default(); count];
        let mut along_ns = vec![f64::NAN; pipeline.edges().len()];
        for &operator in operators.iter().rev() {
            let data = &pipeline.operators()[operator];
            let mut sum = ToGo {
                mean_ns: data.service_ns,
                variance_ns2: data.service_scv * data.service_ns.powi(2),
                siblings_ns: 0.0,
            };
            for &edge in pipeline.outgoing(operator) {
                let along = match hop_of(edge) {
                    None => to_go[pipeline.edges()[edge].to],
                    Some(distance) => ToGo { mean_ns: model.send_ns(edge, distance), ..ToGo::default() },
                };
                along_ns[edge] = along.mean_ns;
                sum.add(&pipeline.edges()[edge], along);
            }
            to_go[operator] = sum;
        }
        let siblings_ns = to_go.iter().map(|to_go| to_go.siblings_ns).fold(0.0, f64::max);
        let (links, occupancy) = mixed(model, operators, &to_go, hop_of);
        let input = model.counts.stream(&links, model.arrivals.dispersion());
        Work { occupancy_ns: occupancy.mean_ns, occupancy_scv: occupancy.scv, input, siblings_ns, along_ns }
    }
}

/// Moments of a time.
struct Occupancy {
    mean_ns: f64,
    scv: f64,
}

/// Returns the links by which tuples enter a group, and its occupancy averaged over all entering tuples.
fn mixed(
    model: &Model<'_>,
    operators: &[usize],
    to_go: &[ToGo],
    hop_of: HopOf<'_>,
) -> (Vec<usize>, Occupancy) {
    let mut links = Vec::new();
    let (mut flow, mut sum_ns, mut squares_ns2) = (0.0, 0.0, 0.0);
    let mut enter = |link: usize, operator: usize, receive_ns: f64| {
        let occupancy_ns = to_go[operator].mean_ns + receive_ns;
        flow += model.counts.flow(link);
        sum_ns += model.counts.flow(link) * occupancy_ns;
        squares_ns2 += model.counts.flow(link) * (occupancy_ns.powi(2) + to_go[operator].variance_ns2);
        links.push(link);
    };
    for &operator in operators {
        if model.pipeline.entry(operator) > 0.0 {
            enter(model.counts.entry(operator), operator, 0.0);
        }
        for &edge in model.pipeline.incoming(operator) {
            if let Some(distance) = hop_of(edge) {
                enter(edge, operator, model.topology.hop(distance).receive_ns);
            }
        }
    }
    let mean_ns = sum_ns / flow;
    // Rounding may make a variance of zero negative.
    (links, Occupancy { mean_ns, scv: (squares_ns2 / flow / mean_ns.powi(2) - 1.0).max(0.0) })
}

impl Model<'_> {
    /// Returns an upper bound of the CPU time of sending a tuple along an edge, including waking a parked receiver.
    fn send_ns(&self, edge: usize, distance: Distance) -> f64 {
        let hop = self.topology.hop(distance);
        hop.send_ns + hop.waker_ns * self.parked[self.pipeline.edges()[edge].to].most
    }
}
