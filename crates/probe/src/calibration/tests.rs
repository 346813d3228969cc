use std::collections::HashMap;
use std::path::Path;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use sakiyomi_io::EngineSpec;
use sakiyomi_os::topology::Distance;
use sakiyomi_testing::Scratch;

use super::*;

fn any_figure() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..1.0f64, 1.0..1e6f64, 1e6..1e12f64]
}

fn any_point(block_bytes: u64) -> impl Strategy<Value = Point> {
    let latency = option::of(0..u64::MAX);
    (1e3..1e12f64, any_figure(), any_figure(), latency.clone(), latency).prop_map(
        move |(
            throughput_bytes_per_s,
            cpu_ns_per_op,
            kernel_threads_cpu_ns_per_op,
            latency_p50_ns,
            latency_p99_ns,
        )| {
            Point {
                block_bytes,
                throughput_bytes_per_s,
                cpu_ns_per_op,
                kernel_threads_cpu_ns_per_op,
                latency_p50_ns,
                latency_p99_ns,
                measured_unix_s: 0,
            }
        },
    )
}

fn any_depth(depth: usize) -> impl Strategy<Value = DepthCost> {
    let points = btree_set(1u64..1 << 31, 1..5)
        .prop_flat_map(|blocks| blocks.into_iter().map(any_point).collect::<Vec<_>>());
    (any_figure(), any_figure(), points).prop_map(move |(cpu_ns_per_op, cpu_ns_per_byte, points)| DepthCost {
        depth,
        cpu_ns_per_op,
        cpu_ns_per_byte,
        points,
    })
}

type Key = (usize, Operation, CacheState, bool, Buffers);

fn any_key() -> impl Strategy<Value = Key> {
    let op = prop_oneof![
        Just(Operation::Read),
        Just(Operation::Write),
        (1u8..100).prop_map(|reads_percent| Operation::Mix { reads_percent })
    ];
    let buffers =
        select(vec![Buffers::Ordinary, Buffers::Registered, Buffers::Huge, Buffers::HugeRegistered]);
    let cache = select(vec![CacheState::Direct, CacheState::Cold, CacheState::Cached]);
    (0..EngineKind::ALL.len(), op, cache, any::<bool>(), buffers)
}

fn any_costs() -> impl Strategy<Value = Vec<Cost>> {
    let depths = btree_set(1usize..=1024, 1..4)
        .prop_flat_map(|depths| depths.into_iter().map(any_depth).collect::<Vec<_>>());
    btree_map(any_key(), depths, 0..5).prop_map(|costs| {
        let cost = |((engine, op, cache, random, buffers), depths)| Cost {
            engine: EngineKind::ALL[engine],
            op,
            cache,
            random,
            buffers,
            depths,
        };
        costs.into_iter().map(cost).collect()
    })
}

fn any_calibration() -> impl Strategy<Value = Calibration> {
    let device = ("[a-z0-9]{0,8}", "[0-9]{1,3}:[0-9]{1,3}", "\\PC{0,8}", "\\PC{0,20}")
        .prop_map(|(file_system, number, name, model)| Device { file_system, number, name, model });
    let devices = vec(("[a-z]{1,8}", device, any_costs()), 0..3).prop_map(|devices| {
        let costs = |(target, device, costs)| DeviceCosts { target, device, costs };
        devices.into_iter().map(costs).collect()
    });
    let figure = || option::of(any_figure());
    let core = (select(Distance::ALL.to_vec()), any::<[u16; 2]>(), figure(), figure(), figure()).prop_map(
        |(distance, cpus, hop_ns, wake_ns, waker_ns)| CoreCost {
            distance,
            cpus: cpus.map(usize::from),
            hop_ns,
            hop_min_ns: hop_ns,
            wake_ns,
            wake_min_ns: wake_ns,
            waker_ns,
        },
    );
    let machine = ("\\PC{0,20}", "\\PC{0,20}", 1usize..500).prop_map(|(kernel, cpu, cores)| Machine {
        kernel,
        cpu,
        cores,
    });
    (any::<u64>(), machine, devices, vec(core, 0..5)).prop_map(
        |(measured_unix_s, machine, devices, cores)| Calibration {
            schema: SCHEMA.to_owned(),
            measured_unix_s,
            machine,
            devices,
            cores,
        },
    )
}

/// Returns queries around the measured points.
fn queries(costs: &DeviceCosts, factor: f64, depth_factor: f64) -> Vec<Query> {
    let mut queries = Vec::new();
    for cost in &costs.costs {
        for at in &cost.depths {
            for point in &at.points {
                let Cost { op, cache, random, buffers, .. } = *cost;
                let depth = (at.depth as f64 * depth_factor) as usize;
                let engine = EngineSpec { kind: cost.engine, depth };
                let block_bytes = (point.block_bytes as f64 * factor) as u64;
                queries.push(Query { engine, op, cache, random, buffers, block_bytes });
            }
        }
    }
    queries
}

fn parse(text: &[u8]) -> Result<Calibration, LoadError> {
    Calibration::parse(text, Path::new("file.json"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_saved_is_loaded_again(calibration in any_calibration()) {
        prop_assert_eq!(parse(calibration.to_json().as_bytes()).unwrap(), calibration);
    }

    #[test]
    fn a_measured_point_is_its_own_estimate(calibration in any_calibration()) {
        for costs in &calibration.devices {
            for query in queries(costs, 1.0, 1.0) {
                let found = costs.estimate(&query).unwrap();
                let cost = costs.costs.iter().find(|cost| {
                    (cost.engine, cost.op, cost.cache, cost.random, cost.buffers)
                        == (query.engine.kind, query.op, query.cache, query.random, query.buffers)
                });
                let depth = cost.unwrap().depths.iter().find(|at| at.depth == query.engine.depth).unwrap();
                let point = depth.points.iter().find(|point| point.block_bytes == query.block_bytes).unwrap();
                prop_assert_eq!(found.throughput_bytes_per_s, point.throughput_bytes_per_s);
                prop_assert_eq!(found.cpu_ns_per_op, point.cpu_ns_per_op);
                prop_assert_eq!(found.latency_ns, point.latency_p50_ns.map(|latency| latency as f64));
                prop_assert!(!found.is_extrapolated);
            }
        }
    }

    #[test]
    fn no_estimate_is_below_zero_or_infinite(
        calibration in any_calibration(), factor in 0.0..8.0f64, depth_factor in 0.0..8.0f64,
    ) {
        for costs in &calibration.devices {
            for query in queries(costs, factor, depth_factor) {
                let Ok(found) = costs.estimate(&query) else { continue };
                let figures = [found.throughput_bytes_per_s, found.cpu_ns_per_op, found.kernel_threads_cpu_ns_per_op];
                prop_assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{found:?}");
                prop_assert!(found.latency_ns.is_none_or(|latency| latency.is_finite() && latency >= 0.0));
            }
        }
    }

    #[test]
    fn a_damaged_file_is_one_sentence_and_never_a_panic(
        calibration in any_calibration(), damage in vec((any::<Index>(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let mut text = calibration.to_json().into_bytes();
        for (at, byte, kind) in damage {
            if text.is_empty() {
                break;
            }
            let at = at.index(text.len());
            match kind {
                0 => text[at] = byte,
                1 => text.truncate(at),
                _ => text[at] = b"0123456789eE-+.\"{}[],:"[usize::from(byte) % 22],
            }
        }
        match parse(&text) {
            // Some damage only changes figures: the result is still a usable calibration.
            Ok(found) => {
                for costs in &found.devices {
                    queries(costs, 1.5, 1.0).iter().for_each(|query| drop(costs.estimate(query)));
                }
            }
            Err(error) => {
                let said = error.to_string();
                prop_assert!(said.contains("file.json") && said.contains("sakiyomi") && !said.contains('\n'), "{said}");
            }
        }
    }
}

fn point(block_bytes: u64, throughput_bytes_per_s: f64, cpu_ns_per_op: f64) -> Point {
    Point {
        block_bytes,
        throughput_bytes_per_s,
        cpu_ns_per_op,
        kernel_threads_cpu_ns_per_op: 0.0,
        latency_p50_ns: Some(block_bytes),
        latency_p99_ns: None,
        measured_unix_s: 0,
    }
}

fn example() -> DeviceCosts {
    let depth = |depth, factor: f64| DepthCost {
        depth,
        cpu_ns_per_op: 1000.0,
        cpu_ns_per_byte: 0.01,
        points: vec![point(4096, 1e8 * factor, 1041.0), point(65_536, 4e8 * factor, 1655.0)],
    };
    let cost = Cost {
        engine: EngineKind::Uring,
        op: Operation::Read,
        cache: CacheState::Direct,
        random: false,
        buffers: Buffers::Huge,
        depths: vec![depth(2, 1.0), depth(8, 4.0)],
    };
    DeviceCosts { target: "path".to_owned(), device: Device::default(), costs: vec![cost] }
}

fn query(depth: usize, block_bytes: u64) -> Query {
    let engine = EngineSpec { kind: EngineKind::Uring, depth };
    let (op, cache, buffers) = (Operation::Read, CacheState::Direct, Buffers::Huge);
    Query { engine, op, cache, random: false, buffers, block_bytes }
}

#[test]
fn estimates_lie_between_the_measured_neighbors() {
    let found = example().estimate(&query(4, 16_384)).unwrap();
    // Half-way on both logarithmic scales.
    assert!((found.throughput_bytes_per_s / 4e8 - 1.0).abs() < 1e-9, "{found:?}");
    assert!((found.cpu_ns_per_op - (1041.0 + 614.0 / 5.0)).abs() < 1e-9, "{found:?}");
    assert_eq!((found.latency_ns, found.is_extrapolated), (Some(16_384.0), false));
}

#[test]
fn beyond_what_was_measured_an_estimate_says_so_and_soon_there_is_none() {
    let costs = example();
    let larger = costs.estimate(&query(8, 131_072)).unwrap();
    assert!(larger.is_extrapolated && larger.throughput_bytes_per_s == 16e8, "larger is not faster");
    assert!((larger.cpu_ns_per_op - (1655.0 + 655.36)).abs() < 1e-6);
    let smaller = costs.estimate(&query(8, 2048)).unwrap();
    assert!(smaller.is_extrapolated && smaller.throughput_bytes_per_s == 2e8, "as many operations a second");
    assert!(costs.estimate(&query(16, 4096)).unwrap().is_extrapolated);
    assert_eq!(costs.estimate(&query(1, 4096)).unwrap().throughput_bytes_per_s, 5e7);
    for (depth, block) in [(8, 131_073), (8, 2047), (17, 4096), (8, 0), (0, 4096)] {
        let refused = costs.estimate(&query(depth, block)).unwrap_err();
        assert!(matches!(refused, EstimateError::TooFar { .. }), "{depth} {block}");
    }
}

#[test]
fn what_was_never_measured_has_no_estimate() {
    let costs = example();
    let query = query(8, 4096);
    for other in [
        Query { op: Operation::Write, ..query },
        Query { random: true, ..query },
        Query { cache: CacheState::Cold, ..query },
        Query { buffers: Buffers::Ordinary, ..query },
        Query { engine: EngineSpec { kind: EngineKind::Aio, depth: 8 }, ..query },
    ] {
        let refused = costs.estimate(&other).unwrap_err();
        assert!(matches!(refused, EstimateError::NotMeasured { .. }));
        assert!(refused.to_string().contains("was not measured on path"), "{refused}");
    }
}

#[test]
fn files_of_other_versions_and_other_files_are_told_apart() {
    let old = br#"{"schema": "sakiyomi.calibration/1", "machine": "x"}"#;
    assert!(matches!(parse(old), Err(LoadError::Version { found, .. }) if found == "sakiyomi.calibration/1"));
    for other in [&b""[..], b"[]", b"{}", b"schema = 1", b"\xff", &b"[".repeat(100_000)] {
        assert!(matches!(parse(other), Err(LoadError::Damaged { .. })));
    }
    let missing = Calibration::load(Path::new("/nowhere/file")).unwrap_err();
    assert!(missing.to_string().contains("/nowhere/file"), "{missing}");
}

#[test]
fn the_calibrations_of_a_directory_come_the_last_first() {
    let scratch = Scratch::new("calibrations");
    let empty = |measured_unix_s| Calibration {
        schema: SCHEMA.to_owned(),
        measured_unix_s,
        machine: Machine::current(),
        devices: Vec::new(),
        cores: Vec::new(),
    };
    for (name, content) in [
        ("a.json", empty(5).to_json()),
        ("b.json", empty(9).to_json()),
        ("c.json", "{".into()),
        ("d", "x".into()),
    ] {
        std::fs::write(scratch.root().join(name), content).unwrap();
    }
    let found = saved(scratch.root());
    let names: Vec<_> = found.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["b.json", "a.json", "c.json"]);
    assert!(found[2].1.is_err() && saved(Path::new("/nowhere")).is_empty());
    assert!(found[0].1.as_ref().unwrap().machine.differences(&Machine::current()).is_empty());
}

#[test]
fn a_file_is_named_after_its_device() {
    let mut costs = example();
    let name = |costs: &DeviceCosts| {
        let devices = vec![costs.clone()];
        Calibration {
            devices,
            schema: String::new(),
            measured_unix_s: 0,
            machine: Machine::default(),
            cores: vec![],
        }
        .file_name()
    };
    costs.device = Device { file_system: "ext4".into(), number: "254:0".into(), ..Device::default() };
    assert_eq!(name(&costs), "ext4-254-0.json");
    costs.device = Device { name: "loop".into(), ..Device::default() };
    costs.target = "../loop".into();
    assert_eq!(name(&costs), "..-loop.json");
}

/// Returns all points of a calibration with their keys.
fn points(calibration: &Calibration) -> Vec<(Device, Place, Point)> {
    let mut all = Vec::new();
    for costs in &calibration.devices {
        for cost in &costs.costs {
            for depth in &cost.depths {
                let place = |point: &Point| (cost.key(), depth.depth, point.block_bytes);
                all.extend(depth.points.iter().map(|point| (costs.device.clone(), place(point), *point)));
            }
        }
    }
    all
}

type Place = ((EngineKind, Operation, CacheState, bool, Buffers), usize, u64);

proptest! {
    /// No measurement is lost or duplicated, and the newer of two measurements stays.
    #[test]
    fn an_older_calibration_completes_a_newer_one(newer in any_costs(), older in any_costs()) {
        let with = |costs| Calibration {
            schema: SCHEMA.to_owned(),
            measured_unix_s: 7,
            machine: Machine::default(),
            devices: vec![DeviceCosts { target: "path".to_owned(), device: Device::default(), costs }],
            cores: Vec::new(),
        };
        let (newer, older) = (with(newer), with(older));
        let mut merged = newer.clone();
        merged.complete_with(&older);
        prop_assert_eq!(merged.fault(), None);
        let found: HashMap<_, _> = points(&merged).into_iter().map(|(_, place, point)| (place, point)).collect();
        let mut expected: HashMap<_, _> =
            points(&older).into_iter().map(|(_, place, point)| (place, point)).collect();
        expected.extend(points(&newer).into_iter().map(|(_, place, point)| (place, point)));
        prop_assert_eq!(found, expected);
        let mut foreign = newer.clone();
        let elsewhere = Machine { cores: 5, ..Machine::default() };
        foreign.complete_with(&Calibration { machine: elsewhere, ..older });
        prop_assert_eq!(foreign, newer);
    }
}
