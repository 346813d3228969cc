//! A tuple-by-tuple simulation of a placed pipeline, the oracle of the model's formulas.

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_placement::{Arrivals, Edge, Hop, Idle, Pipeline, Placement, Topology};

/// A seeded source of figures.
pub(crate) struct Random(Pcg64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Pcg64::new(u128::from(seed), 2))
    }

    /// Returns a number from 0 up to 1, exclusive.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns a number from 0 up to `bound`, exclusive.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A placed pipeline; tuples enter at operator 0. Operators have constant (squared variation 0) or exponential (1)
/// service times. Groups receive only from earlier ones.
pub(crate) struct Simulation<'a> {
    pipeline: &'a Pipeline,
    placement: &'a Placement,
    idle: Idle,
    /// The group of each operator.
    group_of: Vec<usize>,
    /// The edges from each operator.
    outgoing: Vec<Vec<usize>>,
    /// The hop of each edge.
    hops: Vec<Option<&'a Hop>>,
}

/// A tuple in a ring.
#[derive(Clone, Copy)]
struct Tuple {
    /// Arrival time of the tuple of the input that it stems from.
    origin: f64,
    /// Time from which it can be taken.
    ready: f64,
    /// Its edge; `None` for an input or a result.
    edge: Option<usize>,
    /// The operator that takes it, or that has emitted the result.
    operator: usize,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(
        pipeline: &'a Pipeline,
        topology: &'a Topology,
        placement: &'a Placement,
        idle: Idle,
    ) -> Simulation<'a> {
        let (groups, edges) = (&placement.groups, pipeline.edges());
        let group = |operator| groups.iter().position(|group| group.operators.contains(&operator)).unwrap();
        let group_of: Vec<usize> = (0..pipeline.operators().len()).map(group).collect();
        let of = |operator| (0..edges.len()).filter(|&edge| edges[edge].from == operator).collect();
        let outgoing = (0..pipeline.operators().len()).map(of).collect();
        let core = |operator: usize| groups[group_of[operator]].cores[0];
        let hop = |edge: &Edge| {
            (group_of[edge.from] != group_of[edge.to])
                .then(|| topology.hop(topology.distance(core(edge.from), core(edge.to))))
        };
        let hops = edges.iter().map(hop).collect();
        Simulation { pipeline, placement, idle, group_of, outgoing, hops }
    }

    /// Returns the mean latency of the results of `tuples` tuples, in nanoseconds, of the operator with the longest.
    /// Arrivals are constant or Poisson.
    pub(crate) fn mean_latency_ns(&self, arrivals: Arrivals, tuples: usize, random: &mut Random) -> f64 {
        self.observe(arrivals, tuples, random).0
    }

    /// Returns the mean latency as above, and for each group the share of its tuples that wake it.
    pub(crate) fn observe(&self, arrivals: Arrivals, tuples: usize, random: &mut Random) -> (f64, Vec<f64>) {
        let interval = 1e9 / arrivals.rate_per_s();
        let mut now = 0.0;
        let mut tuples: Vec<Tuple> = (0..tuples)
            .map(|_| {
                now += if arrivals.dispersion() == 0.0 { interval } else { random.exponential(interval) };
                Tuple { origin: now, ready: now, edge: None, operator: 0 }
            })
            .collect();
        let (mut results, mut woken) = (Vec::new(), Vec::new());
        for group in 0..self.placement.groups.len() {
            let (mut input, rest): (Vec<Tuple>, Vec<Tuple>) =
                tuples.into_iter().partition(|tuple| self.group_of[tuple.operator] == group);
            input.sort_by(|one, other| one.ready.total_cmp(&other.ready));
            let (output, wake_ups) = self.pass(group, &input, random);
            woken.push(wake_ups as f64 / input.len() as f64);
            let (emitted, sent): (Vec<Tuple>, Vec<Tuple>) =
                output.into_iter().partition(|tuple| tuple.edge.is_none());
            results.extend(emitted);
            tuples = [rest, sent].concat();
        }
        let latency = |operator: usize| {
            let results = results.iter().filter(|tuple| tuple.operator == operator);
            let count = results.clone().count();
            results.map(|tuple| tuple.ready - tuple.origin).sum::<f64>() / count as f64
        };
        // Operators without results give NaN, which the maximum ignores.
        ((0..self.pipeline.operators().len()).map(latency).fold(0.0, f64::max), woken)
    }

    /// Returns the output of a group, and the number of its wake-ups; replicas restore the order.
    fn pass(&self, group: usize, input: &[Tuple], random: &mut Random) -> (Vec<Tuple>, usize) {
        let shares = self.shares(group);
        let mut free = vec![0.0_f64; shares.len()];
        let (mut output, mut latest, mut wake_ups) = (Vec::new(), 0.0_f64, 0);
        for tuple in input {
            let replica = pick(&shares, random);
            let hop = tuple.edge.and_then(|edge| self.hops[edge]);
            let mut begin = free[replica].max(tuple.ready);
            if let (Idle::Park { spin_ns }, Some(hop)) = (self.idle, hop)
                && tuple.ready > free[replica] + spin_ns
            {
                begin += hop.wake_ns;
                wake_ups += 1;
            }
            let mut now = begin + hop.map_or(0.0, |hop| hop.receive_ns);
            let first = output.len();
            self.run(tuple.operator, tuple.origin, &mut now, &mut output, random);
            free[replica] = now;
            for sent in &mut output[first..] {
                latest = latest.max(sent.ready);
                sent.ready = latest;
            }
        }
        for tuple in &mut output {
            let hop = tuple.edge.and_then(|edge| self.hops[edge]);
            tuple.ready += hop.map_or(0.0, |hop| hop.transit_ns);
        }
        (output, wake_ups)
    }

    /// Runs an operator and its successors in its group.
    fn run(&self, operator: usize, origin: f64, now: &mut f64, output: &mut Vec<Tuple>, random: &mut Random) {
        let data = &self.pipeline.operators()[operator];
        let is_constant = data.service_scv == 0.0;
        *now += if is_constant { data.service_ns } else { random.exponential(data.service_ns) };
        for &index in &self.outgoing[operator] {
            let edge = &self.pipeline.edges()[index];
            let sent = edge.selectivity.floor() + f64::from(random.unit() < edge.selectivity.fract());
            for _ in 0..sent as usize {
                match self.hops[index] {
                    None => self.run(edge.to, origin, now, output, random),
                    Some(hop) => {
                        *now += hop.send_ns;
                        output.push(Tuple { origin, ready: *now, edge: Some(index), operator: edge.to });
                    }
                }
            }
        }
        if self.outgoing[operator].is_empty() {
            output.push(Tuple { origin, ready: *now, edge: None, operator });
        }
    }

    /// Returns the shares of the replicas of a group: the busiest first, the others equal.
    fn shares(&self, group: usize) -> Vec<f64> {
        let group = &self.placement.groups[group];
        let replicas = group.cores.len();
        if replicas == 1 {
            return vec![1.0];
        }
        let key = self.pipeline.operators()[group.operators[0]].key.unwrap();
        let busiest = self.pipeline.keys()[key].max_share[replicas - 1];
        let mut shares = vec![(1.0 - busiest) / (replicas - 1) as f64; replicas];
        shares[0] = busiest;
        shares
    }
}

fn pick(shares: &[f64], random: &mut Random) -> usize {
    let mut left = random.unit();
    let found = shares.iter().position(|share| {
        left -= share;
        left < 0.0
    });
    found.unwrap_or(shares.len() - 1)
}

/// Returns a Poisson-distributed number of tuples; by the normal approximation if the mean is large.
pub(crate) fn count(mean: f64, random: &mut Random) -> u64 {
    if mean < 50.0 {
        let mut left = mean;
        return (0..)
            .take_while(|_| {
                left -= random.exponential(1.0);
                left >= 0.0
            })
            .count() as u64;
    }
    let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    (mean + normal * mean.sqrt()).round().max(0.0) as u64
}
