//! Placements in simulation: the certificate's rings, the model's latency, the planner's choice.

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_model::Nanos;
use sakiyomi_placement::{
    ArrivalBounds, Arrivals, Edge, Group, Hop, Idle, Model, Operator, Pipeline, Placement, Planner, Settings,
    Topology, WorkBounds,
};
use sakiyomi_scenario::stream::{
    ArrivalPattern, Service, Spacing, Stall, StreamOutcome, StreamSettings, StreamSpec, simulate,
};

use crate::stream_queues::each_on_its_core;

const HOP: Hop = Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 60.0, wake_ns: 0.0, waker_ns: 0.0 };

/// Transit between domains in certified runs.
const FAR_TRANSIT_NS: f64 = 2000.0;

/// Arrivals of certified runs.
const CERTIFIED_TUPLES: usize = 600;

struct Random(Pcg64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Pcg64::new(u128::from(seed), 5))
    }

    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
}

/// A random row with whole selectivities, in segments on cores of two domains, each with a core of its own.
struct Instance {
    pipeline: Pipeline,
    topology: Topology,
    placement: Placement,
    arrivals: ArrivalBounds,
    work: WorkBounds,
}

impl Instance {
    fn new(random: &mut Random, hop: Hop) -> Instance {
        let count = 2 + random.below(5);
        let operators = (0..count).map(|_| Operator::new(random.between(100.0, 2000.0))).collect();
        let selectivities: Vec<f64> = (1..count).map(|_| [1.0, 1.0, 1.0, 2.0][random.below(4)]).collect();
        let pipeline = Pipeline::chain(operators, &selectivities).unwrap();
        let topology =
            Topology::two_level(vec![4, 4], hop, Hop { transit_ns: FAR_TRANSIT_NS, ..hop }).unwrap();
        let mut groups: Vec<Group> = Vec::new();
        for operator in 0..count {
            if operator > 0 && random.below(2) == 0 {
                groups.last_mut().unwrap().operators.push(operator);
            } else {
                // Neighbors are in different domains.
                let core = groups.len() / 2 + groups.len() % 2 * 4;
                groups.push(Group { operators: vec![operator], cores: vec![core] });
            }
        }
        let work = WorkBounds::of_means(&pipeline, 1.0).with_stalls(random.between(0.0, 50_000.0), 0.0);
        let arrivals = ArrivalBounds { burst_tuples: 20.0 + random.below(50) as f64, rate_per_s: 1.0 };
        let mut instance = Instance { pipeline, topology, placement: Placement { groups }, arrivals, work };
        let load_max = instance.certificate().load_max.into_iter().fold(0.0, f64::max);
        instance.arrivals.rate_per_s = random.between(0.3, 0.95) / load_max;
        instance
    }

    fn certificate(&self) -> sakiyomi_placement::PlacementCertificate {
        let any_rate = Arrivals::constant(1.0).unwrap();
        let model = Model::new(&self.pipeline, &self.topology, Idle::Spin, any_rate);
        model.certificate(&self.placement, self.arrivals, &self.work).unwrap()
    }

    /// Times of the input within its bounds: as early as they allow, or after pauses.
    fn input(&self, random: Option<&mut Random>) -> Vec<Nanos> {
        let ArrivalBounds { burst_tuples, rate_per_s } = self.arrivals;
        let interval_ns = 1e9 / rate_per_s;
        let (mut now_ns, mut tokens) = (0.0, burst_tuples);
        let mut random = random;
        let mut pause_ns = || match &mut random {
            Some(random) => {
                let is_pause = random.below(20) == 0;
                let pause_ns = random.unit() * burst_tuples * interval_ns;
                if is_pause { pause_ns } else { 0.0 }
            }
            None => 0.0,
        };
        let next = |_| {
            let wait_ns = pause_ns().max((1.0 - tokens) * interval_ns).max(0.0);
            tokens = (tokens + wait_ns / interval_ns).min(burst_tuples) - 1.0;
            now_ns += wait_ns;
            // Rounding up keeps to the bounds.
            Nanos((now_ns + 1.0).ceil() as u64)
        };
        (0..CERTIFIED_TUPLES).map(next).collect()
    }

    fn run(&self, input: Vec<Nanos>, change: impl Fn(&mut StreamSpec<'_>)) -> StreamOutcome {
        let until = Nanos(input.last().unwrap().0 + 1);
        let settings =
            StreamSettings { ring_slots: 1 << 16, entry_slots: 1 << 16, ..StreamSettings::new(until, 1) };
        let arrivals = ArrivalPattern::Times(input.into());
        let placement = self.placement.clone();
        let mut spec = StreamSpec::new(&self.pipeline, &self.topology, placement, arrivals, settings);
        change(&mut spec);
        simulate(&spec).unwrap()
    }

    /// For each certified ring the share of it that was filled.
    fn filled(&self, outcome: &StreamOutcome) -> Vec<f64> {
        let ring = |bound: &sakiyomi_placement::RingBound| {
            let ring =
                outcome.rings.iter().find(|ring| (ring.edge, ring.operator) == (bound.edge, bound.operator));
            ring.map_or(0.0, |ring| ring.high_water_tuples as f64) / bound.tuples as f64
        };
        self.certificate().rings.iter().map(ring).collect()
    }
}

#[test]
fn no_ring_exceeds_its_certificate_while_input_work_and_stalls_keep_to_the_bounds() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let instance = Instance::new(&mut random, HOP);
        let input = instance.input(Some(&mut random).filter(|_| seed % 2 == 0));
        let end_ns = input.last().unwrap().0;
        let stalls: Vec<Stall> = (0..8)
            // One stall at most in each busy period would be more than these bounds allow for: one in all.
            .map(|core| {
                let length = Nanos((instance.work.stall_max_ns * random.unit()) as u64);
                Stall { core, at: Nanos((end_ns as f64 * random.unit()) as u64), length }
            })
            .collect();
        let share = random.unit();
        let outcome = instance.run(input, |spec| {
            spec.stalls = stalls.clone();
            for (operator, data) in instance.pipeline.operators().iter().enumerate() {
                let bins = vec![(data.service_ns, 2), (data.service_ns * share, 1)];
                spec.services.insert(operator, Service::Measured { bins });
            }
        });
        let filled = instance.filled(&outcome);
        assert!(filled.iter().all(|&share| share <= 1.0), "seed {seed}: {filled:?}");
        let delay_max_ns = instance.certificate().delay_max_ns;
        // A result is a tuple of the last group; it is done with it when the result is emitted or later.
        assert!(outcome.latency.max.0 as f64 <= delay_max_ns + 1.0, "seed {seed}: {:?}", outcome.latency);
    }
}

#[test]
fn the_worst_input_fills_each_ring_to_four_fifths_of_its_certificate() {
    let mut rings = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let instance = Instance::new(&mut random, Hop { send_ns: 0.0, receive_ns: 0.0, ..HOP });
        let input = instance.input(None);
        let groups = &instance.placement.groups;
        // Each group up to the worst stalls when its first tuple comes, and then passes on at once all that has piled up.
        let share_of = |worst: usize| {
            let length = Nanos(instance.work.stall_max_ns as u64);
            let stall = |(index, group): (usize, &Group)| {
                let at = (length + Nanos(FAR_TRANSIT_NS as u64)) * index as u64;
                Stall { core: group.cores[0], at, length }
            };
            let stalls: Vec<Stall> = groups[..=worst].iter().enumerate().map(stall).collect();
            let outcome = instance.run(input.clone(), |spec| {
                spec.stalls = stalls.clone();
                // The stage before the ring is quick once it has begun; the stage after it is slow.
                for operator in groups[..worst].iter().flat_map(|group| group.operators.iter().copied()) {
                    spec.services.insert(operator, Service::Constant { ns: 0.0 });
                }
            });
            instance.filled(&outcome)[worst]
        };
        let best: Vec<f64> = (0..groups.len()).map(share_of).collect();
        assert!(best.iter().all(|share| (0.8..=1.0).contains(share)), "seed {seed}: {best:?}");
        rings += best.len();
    }
    assert!(rings > 120, "{rings}");
}

/// The latency model over random rows and trees at utilizations of 0.3 and 0.7: share by which it is off.
fn model_errors(scv: f64) -> Vec<f64> {
    let error = |seed: u64| {
        let mut random = Random::new(seed);
        let count = 1 + random.below(6);
        let operators =
            (0..count).map(|_| Operator::new(random.between(100.0, 2000.0)).with_scv(scv)).collect();
        let selectivities: Vec<f64> = (1..count).map(|_| [1.0, 1.0, 2.0, 0.5][random.below(4)]).collect();
        let pipeline = Pipeline::chain(operators, &selectivities).unwrap();
        let topology = Topology::two_level(vec![3, 3], HOP, Hop { transit_ns: 400.0, ..HOP }).unwrap();
        let mut placement = each_on_its_core(count);
        for operator in (1..count).rev().filter(|_| random.below(2) == 0) {
            let operators = placement.groups.remove(operator).operators;
            placement.groups[operator - 1].operators.extend(operators);
        }
        let figures = |rate_per_s| {
            let arrivals = Arrivals::poisson(rate_per_s).unwrap();
            Model::new(&pipeline, &topology, Idle::Spin, arrivals).figures(&placement).unwrap()
        };
        let rate_per_s = [0.3, 0.7][random.below(2)] / figures(1.0).utilization_max();
        let until = Nanos::from_secs_f64(30_000.0 / rate_per_s);
        let arrivals = ArrivalPattern::steady(rate_per_s, Spacing::Poisson);
        let settings = StreamSettings { ring_slots: 1 << 16, ..StreamSettings::new(until, seed) };
        let outcome =
            simulate(&StreamSpec::new(&pipeline, &topology, placement.clone(), arrivals, settings)).unwrap();
        figures(rate_per_s).latency_ns / outcome.latency.mean_ns - 1.0
    };
    let mut errors: Vec<f64> = (0..40).map(error).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

#[test]
fn the_latency_model_is_near_the_simulation() {
    for (scv, median_max, worst_max) in [(0.0, 0.02, 0.12), (1.0, 0.06, 0.30)] {
        let errors = model_errors(scv);
        let (least, median, most) = (errors[0], errors[errors.len() / 2], errors[errors.len() - 1]);
        assert!(median.abs() < median_max, "scv {scv}: {errors:?}");
        assert!(least > -worst_max && most < worst_max, "scv {scv}: {errors:?}");
    }
}

/// All divisions of a row into segments, on the first cores.
fn divisions(operators: usize) -> Vec<Placement> {
    let division = |cuts: u32| {
        let mut groups = vec![Group { operators: vec![0], cores: vec![0] }];
        for operator in 1..operators {
            if cuts & 1 << (operator - 1) != 0 {
                groups.push(Group { operators: Vec::new(), cores: vec![groups.len()] });
            }
            groups.last_mut().unwrap().operators.push(operator);
        }
        Placement { groups }
    };
    (0..1 << (operators - 1)).map(division).collect()
}

#[test]
fn the_plan_is_within_its_slack_of_the_best_division_in_simulation() {
    let services = [300.0, 600.0, 200.0, 500.0, 400.0];
    let pipeline = Pipeline::chain(services.map(Operator::new).to_vec(), &[1.0; 4]).unwrap();
    let topology = Topology::uniform(5, HOP).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let mut used = Vec::new();
    for rate_per_s in [1e5, 3.5e5, 6e5, 9e5, 1.2e6] {
        let latency_ns = |placement: &Placement| {
            let until = Nanos::from_secs_f64(8000.0 / rate_per_s);
            let arrivals = ArrivalPattern::steady(rate_per_s, Spacing::Poisson);
            let settings = StreamSettings { ring_slots: 1 << 16, ..StreamSettings::new(until, 1) };
            let spec = StreamSpec::new(&pipeline, &topology, placement.clone(), arrivals, settings);
            simulate(&spec).unwrap().latency.mean_ns
        };
        let plan = planner.plan(Arrivals::poisson(rate_per_s).unwrap()).unwrap();
        let planned = latency_ns(&plan.placement);
        let mut least = [f64::INFINITY; 6];
        for division in divisions(5) {
            let least = &mut least[division.cores_used()];
            *least = least.min(latency_ns(&division));
        }
        let best = least.iter().copied().fold(f64::INFINITY, f64::min);
        // 5 % of slack for fewer cores, and as much for the error of a mean of 8000 tuples.
        assert!(planned <= best * 1.10, "{rate_per_s}: {planned} of {best}, {plan:?}");
        used.push(plan.placement.cores_used());
        if rate_per_s == 6e5 {
            // One core overflows; a core for each operator pays for hops that it need not.
            assert!(least[1] > 10.0 * best && least[5] > 1.02 * best, "{least:?}");
        }
    }
    assert!(used.is_sorted() && used[0] == 1 && used[4] >= 3, "{used:?}");
}

#[test]
fn branches_that_split_and_join_have_each_tuple_twice() {
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(from, to)| Edge { from, to, selectivity: 1.0 });
    let operators = [200.0, 300.0, 700.0, 100.0].map(Operator::new).to_vec();
    let pipeline = Pipeline::graph(operators, edges.to_vec(), &[(0, 1.0)], Vec::new()).unwrap();
    let topology = Topology::uniform(4, HOP).unwrap();
    let settings = StreamSettings::new(Nanos::MILLISECOND * 10, 1);
    let arrivals = ArrivalPattern::steady(1e6, Spacing::Constant);
    let spec = StreamSpec::new(&pipeline, &topology, each_on_its_core(4), arrivals, settings);
    let outcome = simulate(&spec).unwrap();
    let results: u64 = outcome.intervals.iter().map(|interval| interval.latency.results).sum();
    assert_eq!((results, outcome.hops), (2 * outcome.arrived_tuples, 4 * outcome.arrived_tuples));
    // 200, a push and a hop, 300, a hop, 100; and 200, two pushes, a hop, 700, a hop, 100.
    let [short, long] = [220.0 + 210.0 + 320.0 + 210.0 + 100.0, 240.0 + 210.0 + 720.0 + 210.0 + 100.0];
    assert!((outcome.latency.mean_ns - (short + long) / 2.0).abs() < 1e-6, "{:?}", outcome.latency);
    assert_eq!(outcome.latency.max, Nanos(long as u64));
}
