//! Streams in virtual time against queues that are known by formulas.

use sakiyomi_model::Nanos;
use sakiyomi_placement::{Group, Hop, Idle, Operator, Pipeline, Placement, Topology};
use sakiyomi_scenario::stream::{
    ArrivalPattern, Service, Spacing, StreamOutcome, StreamSettings, StreamSpec, simulate,
};

/// Tuples of a run whose mean is compared with a formula: waits at a utilization of 0.8 are then known to some percent.
const MEAN_TUPLES: f64 = 150_000.0;

/// Tuples of a run whose times are known exactly.
const EXACT_TUPLES: f64 = 20_000.0;

pub(crate) fn each_on_its_core(operators: usize) -> Placement {
    let group = |operator| Group { operators: vec![operator], cores: vec![operator] };
    Placement { groups: (0..operators).map(group).collect() }
}

/// A row of operators, each on a core of its own, without costs of hops but those given.
fn row(
    services: &[Service],
    tuples: f64,
    (rate_per_s, spacing): (f64, Spacing),
    hop: Hop,
    idle: Idle,
) -> StreamOutcome {
    let operators = services.iter().map(|service| Operator::new(service.mean_ns())).collect();
    let pipeline = Pipeline::chain(operators, &vec![1.0; services.len() - 1]).unwrap();
    let topology = Topology::uniform(services.len(), hop).unwrap();
    let until = Nanos::from_secs_f64(tuples / rate_per_s);
    let settings = StreamSettings { ring_slots: 1 << 20, idle, ..StreamSettings::new(until, 7) };
    let arrivals = ArrivalPattern::steady(rate_per_s, spacing);
    let placement = each_on_its_core(services.len());
    let mut spec = StreamSpec::new(&pipeline, &topology, placement, arrivals, settings);
    spec.settings.entry_slots = 1 << 20;
    spec.services = services.iter().cloned().enumerate().collect();
    let outcome = simulate(&spec).unwrap();
    assert_eq!((outcome.reordered_results, outcome.shed_tuples), (0, 0));
    outcome
}

fn spinning(services: &[Service], tuples: f64, rate_per_s: f64, spacing: Spacing) -> StreamOutcome {
    row(services, tuples, (rate_per_s, spacing), Hop::FREE, Idle::Spin)
}

#[track_caller]
fn assert_near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() < share, "{value} instead of {expected}");
}

#[test]
fn constant_arrivals_and_service_never_wait() {
    let service = |ns: f64| Service::Constant { ns };
    let hop = Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 40.0, wake_ns: 0.0, waker_ns: 0.0 };
    for rate_per_s in [1e5, 1e6, 1.6e6] {
        let services = [service(300.0), service(500.0), service(100.0)];
        let outcome = row(&services, EXACT_TUPLES, (rate_per_s, Spacing::Constant), hop, Idle::Spin);
        let expected_ns = 900.0 + 2.0 * 210.0;
        assert!((outcome.latency.mean_ns - expected_ns).abs() < 1e-6, "{outcome:?}");
        assert_eq!((outcome.latency.max, outcome.held_back_tuples), (Nanos(1320), 0));
        let arrived = outcome.arrived_tuples;
        assert_eq!((outcome.hops, outcome.operator_steps), (2 * arrived, 3 * arrived));
        // One may be on the way while another is in progress.
        assert!(outcome.rings.iter().all(|ring| ring.high_water_tuples <= 2), "{outcome:?}");
        let expected = [320.0, 560.0, 140.0].map(|busy_ns| busy_ns * rate_per_s * 1e-9);
        for (core, expected) in outcome.cores.iter().zip(expected) {
            assert!((core.utilization - expected).abs() < 0.001, "{outcome:?}");
            let all = core.busy + core.spin;
            assert_near(all.as_secs_f64(), EXACT_TUPLES * 0.9 / rate_per_s, 0.001);
        }
    }
}

#[test]
fn a_single_core_waits_by_pollaczek_and_khinchine() {
    let measured = Service::Measured { bins: vec![(400.0, 80), (1400.0, 15), (5400.0, 5)] };
    let cases = [
        (Service::Constant { ns: 800.0 }, 0.0, 0.04),
        (Service::Moments { mean_ns: 800.0, scv: 0.5 }, 0.5, 0.05),
        (Service::exponential(800.0), 1.0, 0.07),
        (Service::Moments { mean_ns: 800.0, scv: 4.0 }, 4.0, 0.14),
        // Mean 800, second moment 0.8 * 400^2 + 0.15 * 1400^2 + 0.05 * 5400^2.
        (measured, 1_880_000.0 / 640_000.0 - 1.0, 0.11),
    ];
    for (service, scv, error) in cases {
        for rho in [0.3, 0.6, 0.8] {
            let outcome =
                spinning(std::slice::from_ref(&service), MEAN_TUPLES, rho / 800e-9, Spacing::Poisson);
            let wait_ns = rho / (1.0 - rho) * (1.0 + scv) / 2.0 * 800.0;
            assert_near(outcome.latency.mean_ns - 800.0, wait_ns, error);
            assert_near(outcome.cores[0].utilization, rho, 0.02);
            if scv == 1.0 {
                // The time in a queue with exponential times is exponential as well.
                let decades = [(outcome.latency.p50, 2.0_f64), (outcome.latency.p99, 100.0)];
                for (quantile, odds) in decades {
                    assert_near(quantile.0 as f64, 800.0 / (1.0 - rho) * odds.ln(), 0.12);
                }
            }
        }
    }
}

/// Friedman, Operations Research 13, 1965: `W = W_{G/D/1}(rate, B_max)`.
#[test]
fn a_row_of_constant_services_waits_as_its_slowest_core_alone() {
    for spacing in [Spacing::Poisson, Spacing::Bursts { tuples: 10.0, peak_ratio: 4.0 }] {
        for services in [[1000.0, 600.0, 300.0], [300.0, 1000.0, 600.0], [500.0, 500.0, 500.0]] {
            let slowest = services.iter().copied().fold(0.0, f64::max);
            let rate_per_s = 0.7 / slowest * 1e9;
            let row =
                spinning(&services.map(|ns| Service::Constant { ns }), EXACT_TUPLES, rate_per_s, spacing);
            let alone = spinning(&[Service::Constant { ns: slowest }], EXACT_TUPLES, rate_per_s, spacing);
            let sum: f64 = services.iter().sum();
            // Arrivals are equal, and so are the waits, tuple by tuple.
            assert_near(row.latency.mean_ns - sum, alone.latency.mean_ns - slowest, 1e-6);
        }
    }
}

/// The queue with set-up times of facts/streams.md: `W + (2D + r D2) / (2 (1 + r D))`.
#[test]
fn a_receiver_that_parks_waits_as_a_queue_with_set_up_times() {
    let (wake_ns, service_ns): (f64, f64) = (20_000.0, 1000.0);
    for (rate_per_s, spin_ns) in [(2e4, 0.0), (2e4, 30_000.0), (2e5, 5000.0), (6e5, 1000.0)] {
        let hop = Hop { wake_ns, ..Hop::FREE };
        let services = [Service::Constant { ns: 0.001 }, Service::exponential(service_ns)];
        let outcome =
            row(&services, MEAN_TUPLES, (rate_per_s, Spacing::Poisson), hop, Idle::Park { spin_ns });
        let rate = rate_per_s * 1e-9;
        let parked = (-rate * spin_ns).exp();
        let (first, second) = (wake_ns * parked, wake_ns * wake_ns * parked);
        let rho = rate * service_ns;
        let wait_ns =
            rho / (1.0 - rho) * service_ns + (2.0 * first + rate * second) / (2.0 * (1.0 + rate * first));
        assert_near(outcome.latency.mean_ns - service_ns, wait_ns, 0.04);
        let spun = outcome.cores[1].spin.as_secs_f64() / (MEAN_TUPLES * 0.9 / rate_per_s);
        assert!(spun < 1.0 - rho && outcome.cores[1].wakes > 100, "{outcome:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let services = [Service::exponential(700.0), Service::Moments { mean_ns: 300.0, scv: 3.0 }];
    let run = || spinning(&services, EXACT_TUPLES, 1e6, Spacing::Bursts { tuples: 5.0, peak_ratio: 3.0 });
    assert_eq!(run(), run());
}
