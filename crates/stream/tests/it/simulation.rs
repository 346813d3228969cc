//! A chain on cores, tuple by tuple: what the model predicts by formulas.

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_stream::{Arrivals, Idle, Pipeline, Placement, Topology};

/// A seeded source of figures.
pub(crate) struct Random(Pcg64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Pcg64::new(u128::from(seed), 2))
    }

    /// From 0 up to 1, exclusive.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// From 0 up to `bound`, exclusive.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A chain that is placed on cores. Operators have constant (squared variation 0) or exponential (1) service
/// times.
pub(crate) struct Simulation<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) topology: &'a Topology,
    pub(crate) placement: &'a Placement,
    pub(crate) idle: Idle,
}

/// A tuple in a ring.
#[derive(Clone, Copy)]
struct Tuple {
    /// When the tuple of the input arrived that it stems from.
    origin: f64,
    /// When it can be taken.
    ready: f64,
}

impl Simulation<'_> {
    /// Mean latency of the results of so many tuples, in nanoseconds. Arrivals are constant or Poisson.
    pub(crate) fn mean_latency_ns(&self, arrivals: Arrivals, tuples: usize, random: &mut Random) -> f64 {
        let interval = 1e9 / arrivals.rate_per_s();
        let mut now = 0.0;
        let mut stream = Vec::with_capacity(tuples);
        for _ in 0..tuples {
            now += if arrivals.dispersion() == 0.0 { interval } else { random.exponential(interval) };
            stream.push(Tuple { origin: now, ready: now });
        }
        for group in 0..self.placement.groups.len() {
            stream = self.pass(group, &stream, random);
        }
        stream.iter().map(|tuple| tuple.ready - tuple.origin).sum::<f64>() / stream.len() as f64
    }

    /// The output of a group; replicas restore the order.
    fn pass(&self, group: usize, input: &[Tuple], random: &mut Random) -> Vec<Tuple> {
        let replicas = self.placement.groups[group].cores.len();
        let shares = self.shares(group);
        let hop = group.checked_sub(1).map(|before| *self.hop(before));
        let mut free = vec![0.0_f64; replicas];
        let (mut output, mut latest) = (Vec::new(), 0.0_f64);
        for tuple in input {
            let replica = pick(&shares, random);
            let mut begin = free[replica].max(tuple.ready);
            if let (Idle::Park { spin_ns }, Some(hop)) = (self.idle, hop)
                && tuple.ready > free[replica] + spin_ns
            {
                begin += hop.wake_ns;
            }
            let mut now = begin + hop.map_or(0.0, |hop| hop.receive_ns);
            let first = output.len();
            self.run(
                group,
                self.placement.groups[group].operators[0],
                tuple.origin,
                &mut now,
                &mut output,
                random,
            );
            free[replica] = now;
            for sent in &mut output[first..] {
                latest = latest.max(sent.ready);
                sent.ready = latest;
            }
        }
        let transit_ns =
            if group + 1 < self.placement.groups.len() { self.hop(group).transit_ns } else { 0.0 };
        output.iter_mut().for_each(|tuple| tuple.ready += transit_ns);
        output
    }

    /// Runs an operator and all that follows it in its group.
    fn run(
        &self,
        group: usize,
        operator: usize,
        origin: f64,
        now: &mut f64,
        output: &mut Vec<Tuple>,
        random: &mut Random,
    ) {
        let data = &self.pipeline.operators()[operator];
        let is_constant = data.service_scv == 0.0;
        *now += if is_constant { data.service_ns } else { random.exponential(data.service_ns) };
        let Some(edge) = self.pipeline.edges().get(operator) else {
            return output.push(Tuple { origin, ready: *now });
        };
        let sent = edge.selectivity.floor() + f64::from(random.unit() < edge.selectivity.fract());
        for _ in 0..sent as usize {
            if self.placement.groups[group].operators.contains(&edge.to) {
                self.run(group, edge.to, origin, now, output, random);
            } else {
                *now += self.hop(group).send_ns;
                output.push(Tuple { origin, ready: *now });
            }
        }
    }

    /// The hop from a group to the next one.
    fn hop(&self, group: usize) -> &sakiyomi_stream::Hop {
        let core = |index: usize| self.placement.groups[index].cores[0];
        self.topology.hop(self.topology.distance(core(group), core(group + 1)))
    }

    /// Shares of the replicas of a group: the busiest first, the others alike.
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
