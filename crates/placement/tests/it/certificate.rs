//! Rings and delays compared with the bounds of the certificate.

use std::ops::Range;

use sakiyomi_placement::certificate::move_up_at_per_s;
use sakiyomi_placement::{ArrivalBounds, Certificate, Error, StageBounds};

use crate::simulation::Random;

/// Random tandems of stages.
const ROWS: u64 = 400;

/// Tuples of the input of each.
const TUPLES: usize = 2000;

/// A tandem of stages with its declared bounds.
struct Row {
    arrivals: ArrivalBounds,
    stages: Vec<StageBounds>,
}

/// Processing of a tuple by a stage.
struct Action {
    /// Stall before the tuple, which the bounds limit.
    stall_ns: f64,
    service_ns: f64,
    outputs: u32,
    /// Whether all outputs are sent at the end, instead of one by one.
    is_sent_last: bool,
}

/// A tuple of a ring.
#[derive(Clone, Copy)]
struct Tuple {
    sent_ns: f64,
    /// Its tuple of the input, by index.
    origin: usize,
}

/// Results of the simulation of a tandem.
struct Observed {
    /// Maximum number of tuples in each ring.
    ring_tuples: Vec<u64>,
    delay_max_ns: f64,
}

impl Row {
    /// Returns a tandem whose slowest stage has a utilization of up to 95 %.
    fn random(random: &mut Random) -> Row {
        let mut amplification = 1.0;
        let mut slowest_ns: f64 = 0.0;
        let stages: Vec<StageBounds> = (0..1 + random.below(5))
            .map(|_| {
                let service_max_ns = random.between(100.0, 2000.0);
                let stall_ratio = if random.below(2) == 0 { 0.0 } else { random.between(0.0, 0.4) };
                slowest_ns = slowest_ns.max(service_max_ns * amplification / (1.0 - stall_ratio));
                let outputs_max = [1, 1, 1, 2, 3][random.below(5)];
                amplification *= f64::from(outputs_max);
                StageBounds::new(service_max_ns, random.between(0.0, 50_000.0))
                    .with_outputs(outputs_max)
                    .with_stall_ratio(stall_ratio)
                    .with_transit(random.between(0.0, 5000.0))
            })
            .collect();
        let rate_per_s = random.between(0.3, 0.95) / slowest_ns * 1e9;
        let arrivals = ArrivalBounds { burst_tuples: 1.0 + random.below(50) as f64, rate_per_s };
        Row { arrivals, stages }
    }

    /// Returns a tandem with bursts of more than 10 tuples, so that fractions of a tuple matter little.
    fn with_bursts(seed: u64) -> Row {
        let mut row = Row::random(&mut Random::new(seed));
        row.arrivals.burst_tuples += 10.0;
        row
    }

    /// Runs the input through all stages; `act` gets the stage, the tuple's number there, and the remaining stall.
    fn run(&self, input: &[f64], mut act: impl FnMut(usize, usize, f64) -> Action) -> Observed {
        self.run_timed(input, |stage, index, stall_left, _| act(stage, index, stall_left))
    }

    /// Like `run`; `act` also gets the time.
    fn run_timed(&self, input: &[f64], mut act: impl FnMut(usize, usize, f64, f64) -> Action) -> Observed {
        let source = |(origin, &sent_ns): (usize, &f64)| Tuple { sent_ns, origin };
        let mut ring: Vec<Tuple> = input.iter().enumerate().map(source).collect();
        let (mut ring_tuples, mut done_ns) = (Vec::new(), Vec::new());
        for (stage, bounds) in self.stages.iter().enumerate() {
            let (mut now, mut stalled_ns, mut busy_since) = (0.0_f64, 0.0, 0.0);
            let mut sent = Vec::new();
            done_ns = Vec::new();
            for (index, tuple) in ring.iter().enumerate() {
                let arrival_ns = tuple.sent_ns + bounds.transit_ns;
                if arrival_ns > now {
                    // The stage had no tuple to take.
                    (now, stalled_ns, busy_since) = (arrival_ns, 0.0, arrival_ns);
                }
                let earned_ns = bounds.stall_max_ns + bounds.stall_ratio * (now - busy_since);
                // A stall earns its share of itself.
                let stall_left = (earned_ns - stalled_ns).max(0.0) / (1.0 - bounds.stall_ratio);
                let action = act(stage, index, stall_left, now);
                assert!(action.stall_ns <= stall_left && action.service_ns <= bounds.service_max_ns);
                stalled_ns += action.stall_ns;
                let begin = now + action.stall_ns;
                now = begin + action.service_ns;
                done_ns.push(now);
                sent.extend((1..=action.outputs).map(|output| {
                    let part =
                        if action.is_sent_last { 1.0 } else { f64::from(output) / f64::from(action.outputs) };
                    Tuple { sent_ns: begin + action.service_ns * part, origin: tuple.origin }
                }));
            }
            ring_tuples.push(most_in_ring(&ring, &done_ns));
            if stage + 1 < self.stages.len() {
                ring = sent;
            }
        }
        let delay = |(tuple, done): (&Tuple, &f64)| done - input[tuple.origin];
        let delay_max_ns = ring.iter().zip(&done_ns).map(delay).fold(0.0, f64::max);
        Observed { ring_tuples, delay_max_ns }
    }

    /// Returns the certificate, and the ratio of the observed values to its bounds: the largest ring ratio of each
    /// stage, then the delay's.
    fn ratios(&self, observed: &Observed) -> (Vec<f64>, f64) {
        let certificate = Certificate::new(self.arrivals, &self.stages).unwrap();
        let ratio = |(seen, size): (&u64, &u64)| *seen as f64 / *size as f64;
        let rings = observed.ring_tuples.iter().zip(&certificate.ring_tuples).map(ratio).collect();
        (rings, observed.delay_max_ns / certificate.delay_max_ns)
    }

    /// Returns the earliest input that the bounds permit.
    fn greedy_input(&self) -> Vec<f64> {
        let ArrivalBounds { burst_tuples, rate_per_s } = self.arrivals;
        (0..TUPLES).map(|index| ((index as f64 + 1.0 - burst_tuples) / rate_per_s * 1e9).max(0.0)).collect()
    }

    /// Returns the worst action: slow for the tuples of these numbers, with a stall as early as permitted.
    fn worst(&self, stage: usize, index: usize, stall_left: f64, slow: Range<usize>) -> Action {
        let bounds = &self.stages[stage];
        Action {
            stall_ns: if slow.contains(&index) { stall_left } else { 0.0 },
            service_ns: if slow.contains(&index) { bounds.service_max_ns } else { 0.0 },
            outputs: bounds.outputs_max,
            is_sent_last: true,
        }
    }

    /// Returns the maximum time of a stage per tuple, including its share of the stalls.
    fn tuple_ns(&self, stage: usize) -> f64 {
        self.stages[stage].service_max_ns / (1.0 - self.stages[stage].stall_ratio)
    }

    /// Returns the tuples per tuple of the input in the ring of each stage.
    fn amplification(&self, stage: usize) -> usize {
        self.stages[..stage].iter().map(|bounds| bounds.outputs_max as usize).product()
    }
}

/// Returns the maximum tuples in a ring; a tuple is in its ring until it is finished.
fn most_in_ring(ring: &[Tuple], done_ns: &[f64]) -> u64 {
    let mut done = 0;
    let mut most = 0;
    for (index, tuple) in ring.iter().enumerate() {
        while done_ns[done] <= tuple.sent_ns && done < index {
            done += 1;
        }
        most = most.max(index + 1 - done);
    }
    most as u64
}

/// Returns an input within the bounds: bursts, pauses and the long-run rate.
fn random_input(row: &Row, random: &mut Random) -> Vec<f64> {
    let ArrivalBounds { burst_tuples, rate_per_s } = row.arrivals;
    let (mut now, mut tokens) = (0.0, burst_tuples);
    let mut input = Vec::new();
    for _ in 0..TUPLES {
        let pause =
            if random.below(20) == 0 { random.exponential(burst_tuples / rate_per_s * 1e9) } else { 0.0 };
        let wanting = ((1.0 - tokens) / rate_per_s * 1e9).max(0.0);
        let gap = pause.max(wanting);
        now += gap;
        tokens = (tokens + gap * rate_per_s * 1e-9).min(burst_tuples) - 1.0;
        input.push(now);
    }
    input
}

#[test]
fn no_ring_and_no_delay_exceeds_the_certificate_within_the_bounds() {
    for seed in 0..ROWS {
        let mut random = Random::new(seed);
        let row = Row::random(&mut random);
        let input = if seed % 2 == 0 { row.greedy_input() } else { random_input(&row, &mut random) };
        let stall_odds = 1 + random.below(30);
        let observed = row.run(&input, |stage, _, stall_left| {
            let bounds = &row.stages[stage];
            let is_stalled = random.below(stall_odds) == 0;
            let stall_ns = if is_stalled { stall_left * random.unit() } else { 0.0 };
            let is_slow = random.below(2) == 0;
            let service_ns = bounds.service_max_ns * if is_slow { 1.0 } else { random.unit() };
            let outputs = random.below(bounds.outputs_max as usize + 1) as u32;
            Action { stall_ns, service_ns, outputs, is_sent_last: random.below(2) == 0 }
        });
        let (rings, delay) = row.ratios(&observed);
        assert!(rings.iter().all(|&ratio| ratio <= 1.0) && delay <= 1.0, "seed {seed}: {rings:?}, {delay}");
    }
}

#[test]
fn the_worst_input_fills_each_ring_to_four_fifths() {
    for seed in 0..ROWS {
        let row = Row::with_bursts(seed);
        // Each stage stalls at its first tuple, and then passes on all accumulated tuples at once.
        let observed = row.run(&row.greedy_input(), |stage, index, stall_left| {
            row.worst(stage, index, stall_left, 0..row.amplification(stage))
        });
        let certificate = Certificate::new(row.arrivals, &row.stages).unwrap();
        for (&seen, &size) in observed.ring_tuples.iter().zip(&certificate.ring_tuples) {
            assert!(seen as f64 >= 0.8 * size as f64 && seen <= size, "seed {seed}: {seen} of {size}");
        }
    }
}

#[test]
fn the_worst_input_is_delayed_by_four_fifths_of_the_bound() {
    for seed in 0..ROWS {
        let row = Row::with_bursts(seed);
        let work_ns = |stage: usize| row.tuple_ns(stage) * row.amplification(stage) as f64;
        let stages = 0..row.stages.len();
        let slowest = stages.max_by(|&one, &other| work_ns(one).total_cmp(&work_ns(other))).unwrap();
        let last_of_burst = row.arrivals.burst_tuples as usize - 1;
        // The slowest always takes its time. Stages after it stall when the last tuple of the burst comes.
        let observed = row.run(&row.greedy_input(), |stage, index, stall_left| {
            let siblings = row.amplification(stage);
            let first = if stage <= slowest { 0 } else { last_of_burst * siblings };
            let end = if stage == slowest { usize::MAX } else { first + siblings };
            row.worst(stage, index, stall_left, first..end)
        });
        let (_, delay) = row.ratios(&observed);
        assert!((0.8..=1.0).contains(&delay), "seed {seed}: {delay}");
    }
}

fn stage(service_max_ns: f64) -> StageBounds {
    StageBounds::new(service_max_ns, 10_000.0)
}

#[test]
fn a_stage_slower_than_its_input_is_refused() {
    let arrivals = ArrivalBounds { burst_tuples: 10.0, rate_per_s: 1e6 };
    let refused = Certificate::new(arrivals, &[stage(500.0), stage(1250.0)]);
    let expected = Error::Overflow { stage: 1, served_per_s: 8e5, arriving_per_s: 1e6 };
    assert_eq!(refused, Err(expected));
    // Half of the time is too little for 800 ns, and a stall ratio of 1 is rejected.
    assert!(Certificate::new(arrivals, &[stage(800.0).with_stall_ratio(0.5)]).is_err());
    assert!(Certificate::new(arrivals, &[stage(100.0).with_stall_ratio(1.0)]).is_err());
}

/// A tandem whose last stage is the slowest, and a step of its input.
struct Step {
    row: Row,
    rate_per_s: f64,
    reaction_ns: f64,
    /// Capacity of the new plan over that of the old one.
    speed_up: f64,
}

impl Step {
    fn random(random: &mut Random) -> Step {
        let mut row = Row::random(random);
        row.arrivals.burst_tuples += 10.0;
        let certificate = Certificate::new(row.arrivals, &row.stages).unwrap();
        let work_ns = |stage: usize| row.tuple_ns(stage) * row.amplification(stage) as f64;
        let slowest =
            (0..row.stages.len()).find(|&stage| work_ns(stage) * certificate.capacity_per_s > 0.999e9);
        row.stages.truncate(slowest.unwrap() + 1);
        let rate_per_s = row.arrivals.rate_per_s * random.between(1.0, 3.0);
        let speed_up = (rate_per_s / certificate.capacity_per_s).max(1.0) * random.between(1.05, 2.0);
        Step { row, rate_per_s, reaction_ns: random.between(0.0, 500_000.0), speed_up }
    }

    /// Returns the burst at the step, then the higher rate: as many tuples as arrive while the old plan works and the
    /// stalls last, and some more.
    fn input(&self, certificate: &Certificate) -> Vec<f64> {
        let span_ns = self.reaction_ns + 2.0 * certificate.latency_ns;
        let burst = self.row.arrivals.burst_tuples;
        let tuples = burst + span_ns * self.rate_per_s * 1e-9;
        let arrival = |index: usize| ((index as f64 + 1.0 - burst) / self.rate_per_s * 1e9).max(0.0);
        (0..tuples as usize).map(arrival).collect()
    }

    /// Returns the fill of the rings as a share of size plus surge, by stage.
    fn ratios(&self, mut act: impl FnMut(usize, usize, f64) -> Action) -> Vec<f64> {
        let certificate = Certificate::new(self.row.arrivals, &self.row.stages).unwrap();
        let capacity_per_s = certificate.capacity_per_s * self.speed_up;
        let surge = certificate.surge(self.rate_per_s, self.reaction_ns, capacity_per_s).unwrap();
        let observed = self.row.run_timed(&self.input(&certificate), |stage, index, stall_left, now| {
            let mut action = act(stage, index, stall_left);
            if now + action.stall_ns >= self.reaction_ns {
                action.service_ns /= self.speed_up;
            }
            action
        });
        let size = |stage: usize| {
            certificate.ring_tuples[stage] + surge.tuples * self.row.amplification(stage) as u64
        };
        let seen = observed.ring_tuples.iter().enumerate();
        seen.map(|(stage, &seen)| seen as f64 / size(stage) as f64).collect()
    }
}

#[test]
fn no_ring_exceeds_its_certificate_and_the_surge_after_a_step_of_the_rate() {
    for seed in 0..ROWS {
        let mut random = Random::new(seed);
        let step = Step::random(&mut random);
        let stall_odds = 1 + random.below(30);
        let ratios = step.ratios(|stage, _, stall_left| {
            let bounds = &step.row.stages[stage];
            let stall_ns = if random.below(stall_odds) == 0 { stall_left } else { 0.0 };
            let service_ns = bounds.service_max_ns * if random.below(4) > 0 { 1.0 } else { random.unit() };
            Action { stall_ns, service_ns, outputs: bounds.outputs_max, is_sent_last: random.below(2) == 0 }
        });
        assert!(ratios.iter().all(|&ratio| ratio <= 1.0), "seed {seed}: {ratios:?}");
    }
}

#[test]
fn the_worst_step_of_the_rate_fills_the_last_ring_to_three_fifths() {
    for seed in 0..ROWS {
        let step = Step::random(&mut Random::new(seed));
        let last = step.row.stages.len() - 1;
        // All stages stall at the first tuple; the last one is slow after that.
        let ratios = step.ratios(|stage, index, stall_left| {
            let end = if stage == last { usize::MAX } else { step.row.amplification(stage) };
            step.row.worst(stage, index, stall_left, 0..end)
        });
        assert!((0.6..=1.0).contains(&ratios[last]), "seed {seed}: {ratios:?}");
    }
}

#[test]
fn a_step_of_the_rate_adds_what_piles_up_in_stalls_and_by_overload() {
    let arrivals = ArrivalBounds { burst_tuples: 1.0, rate_per_s: 1e6 };
    let certificate = Certificate::new(arrivals, &[stage(800.0)]).unwrap();
    // An excess of 0.5e6/s during 10.8 us of stall and service is 5.4 tuples. The old plan sustains 1.25e6/s: 10 ms
    // at 1.5e6/s leave 2500, and the new one drains 0.5e6/s.
    let surge = certificate.surge(1.5e6, 10e6, 2e6).unwrap();
    assert_eq!(surge.tuples, 2506);
    assert!((surge.drain_ns - 5.0108e6).abs() < 1.0, "{surge:?}");
    assert!(certificate.surge(1.5e6, 10e6, 1.5e6).is_err());
    assert_eq!(certificate.surge(1.2e6, 10e6, 2e6).unwrap().tuples, 3);
    assert_eq!(certificate.surge(0.9e6, 10e6, 2e6).unwrap().tuples, 0);
}

#[test]
fn a_backlog_that_is_not_finite_is_refused() {
    let stages = vec![stage(1e-300).with_outputs(u32::MAX); 40];
    let arrivals = ArrivalBounds { burst_tuples: 1e300, rate_per_s: 0.0 };
    assert!(matches!(Certificate::new(arrivals, &stages), Err(Error::Value { .. })));
}

#[test]
fn a_rising_rate_needs_a_move_before_it_is_too_high() {
    // A growth of 1e7 tuples/s each second is 1e5 in 10 ms.
    assert!((move_up_at_per_s(1e6, 1e7, 10e6) - 9e5).abs() < 1e-6);
    assert_eq!(move_up_at_per_s(1e6, 1e9, 10e6), 0.0);
}
