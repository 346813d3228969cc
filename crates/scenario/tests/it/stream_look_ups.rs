//! Look-ups in files within a stream: reads through the simulated page cache and device.

use sakiyomi_model::Nanos;
use sakiyomi_placement::{Group, Hop, Operator, Pipeline, Placement, Topology};
use sakiyomi_scenario::stream::{
    ArrivalPattern, LookUp, Spacing, StreamError, StreamOutcome, StreamSettings, StreamSpec, StreamWorkload,
    simulate,
};
use sakiyomi_scenario::{Outcome, Scenario, run_with};

const LOOK_UP: LookUp =
    LookUp { file_bytes: 16 << 20, record_bytes: 4096, depth: 8, is_direct: true, reap_ns: 500.0 };

/// Parse, look up, aggregate, all on one core, with this device and look-up.
fn looked_up(device: &str, look_up: LookUp, rate_per_s: f64, millis: u64) -> (StreamOutcome, Outcome) {
    let operators = [200.0, 1000.0, 300.0].map(Operator::new).to_vec();
    let pipeline = Pipeline::chain(operators, &[1.0, 1.0]).unwrap();
    let topology = Topology::uniform(1, Hop::FREE).unwrap();
    let placement = Placement { groups: vec![Group { operators: vec![0, 1, 2], cores: vec![0] }] };
    let settings = StreamSettings::new(Nanos::MILLISECOND * millis, 1);
    let arrivals = ArrivalPattern::steady(rate_per_s, Spacing::Constant);
    let mut spec = StreamSpec::new(&pipeline, &topology, placement, arrivals, settings);
    spec.look_ups.insert(1, look_up);
    assert_eq!(simulate(&spec).unwrap_err(), StreamError::NoDevice(1));
    let text = format!("name = 'bare'\n[drive]\nfixed = '{device}'\n[[process]]\nname = 'p'\n");
    let mut scenario = Scenario::from_toml(&text, "bare").unwrap();
    scenario.process.clear();
    let mut stream = StreamWorkload::new("stream", &spec).unwrap();
    let outcome = run_with(&scenario, None, 0, vec![(stream.setup(), Box::new(&mut stream))]).unwrap();
    (stream.outcome(), outcome)
}

#[track_caller]
fn assert_whole(stream: &StreamOutcome) {
    let results: u64 = stream.intervals.iter().map(|interval| interval.latency.results).sum();
    assert_eq!((results, stream.reordered_results), (stream.arrived_tuples, 0), "{stream:?}");
}

#[test]
fn a_look_up_delays_its_tuple_by_a_read_and_its_core_by_no_more_than_its_cpu_time() {
    let (stream, outcome) = looked_up("latency=1ms", LOOK_UP, 500.0, 200);
    assert_whole(&stream);
    assert_eq!(outcome.workloads[0].read_bytes, stream.arrived_tuples * 4096);
    // 200 + 1000, the read, 500 + 300.
    assert!((stream.latency.mean_ns - 1_002_000.0).abs() < 20_000.0, "{:?}", stream.latency);
    assert!((stream.cores[0].utilization - 500.0 * 2e-6).abs() < 1e-5, "{:?}", stream.cores);
}

#[test]
fn reads_in_flight_are_bounded_and_hold_the_input_back() {
    let deep = looked_up("latency=1ms", LookUp { depth: 16, ..LOOK_UP }, 20_000.0, 50).0;
    let flat = looked_up("latency=1ms", LookUp { depth: 1, ..LOOK_UP }, 20_000.0, 50).0;
    assert_whole(&deep);
    assert_whole(&flat);
    // One read at a time, a millisecond each, for 999 tuples.
    assert!((flat.elapsed.as_secs_f64() / 1.0 - 1.0).abs() < 0.1, "{:?}", flat.elapsed);
    assert!(deep.elapsed.0 <= flat.elapsed.0, "{:?} of {:?}", deep.elapsed, flat.elapsed);
}

#[test]
fn what_is_in_the_page_cache_is_found_at_once() {
    let small = LookUp { file_bytes: 16 * 4096, is_direct: false, ..LOOK_UP };
    let (stream, _) = looked_up("latency=1ms", small, 20_000.0, 200);
    assert_whole(&stream);
    assert_eq!(stream.latency.p50.0 / 100, 20, "2 us of CPU time and no read: {:?}", stream.latency);
}

#[test]
fn the_same_seed_gives_the_same_outcome_with_a_device() {
    let run = || looked_up("latency=1ms", LookUp { is_direct: false, ..LOOK_UP }, 5000.0, 50);
    assert_eq!(run(), run());
}
