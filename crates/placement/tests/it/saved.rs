//! Values survive serialization, and damaged ones are rejected.

use std::fmt::Debug;

use sakiyomi_placement::{
    Arrivals, Bins, Constraints, Edge, Hop, Idle, Key, Operator, Pipeline, PlanTable, Planner, ServiceMeter,
    Settings, Topology,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const HOP: Hop = Hop { send_ns: 20.1, transit_ns: 150.3, receive_ns: 40.7, wake_ns: 1e4, waker_ns: 3e3 };

fn pipeline() -> Pipeline {
    let edges = [(0, 1, 0.3), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 2.5)];
    let edges = edges.map(|(from, to, selectivity)| Edge { from, to, selectivity }).to_vec();
    let operators = vec![Operator::new(1e3 / 7.0).with_scv(0.4).with_key(0); 4];
    let key = Key { max_share: vec![1.0, 0.55] };
    Pipeline::graph(operators, edges, &[(0, 0.7), (2, 0.3)], vec![key]).unwrap()
}

fn topology() -> Topology {
    let far = Hop { transit_ns: 500.0, ..HOP };
    Topology::two_level(vec![2, 2], HOP, far).unwrap().with_cpus(vec![0, 4, 1, 5]).unwrap()
}

fn table() -> PlanTable {
    let pipeline = Pipeline::chain(vec![Operator::new(500.0); 4], &[1.0; 3]).unwrap();
    let topology = topology();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    planner.table(Arrivals::poisson(1.0).unwrap(), 1e5..=9e5).unwrap()
}

/// Asserts that a value survives a round trip; returns its serialized form.
#[track_caller]
fn assert_kept<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Value {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, value);
    let written = serde_json::to_value(&read).unwrap();
    assert_units(&written, "");
    written
}

/// Asserts that keys of figures other than counts or indices end in their unit.
fn assert_units(value: &Value, key: &str) {
    match value {
        Value::Object(map) if key.is_empty() || !has_unit(key) => {
            map.iter().for_each(|(key, value)| assert_units(value, key));
        }
        Value::Array(items) => items.iter().for_each(|item| assert_units(item, key)),
        Value::Number(number) => assert!(number.is_u64() || has_unit(key), "{key} has no unit: {number}"),
        _ => {}
    }
}

fn has_unit(key: &str) -> bool {
    ["_ns", "_per_s", "_ratio"].iter().any(|unit| key.ends_with(unit))
}

#[test]
fn all_is_read_as_it_was_written() {
    assert_kept(&pipeline());
    assert_kept(&topology());
    assert_kept(&Arrivals::new(1e6 / 3.0, 0.1).unwrap());
    assert_kept(&Constraints::default().pin(3, 1).reserve(2));
    assert_kept(&Settings::default().with_idle(Idle::Park { spin_ns: 2e3 }));
    assert_kept(&Bins::divided(&[3.0, 1.0, 2.0], 2).unwrap());
    assert!(assert_kept(&table()).as_array().unwrap().len() > 1);
    let mut meter = ServiceMeter::new(1_000_000).unwrap();
    (0..20).for_each(|sample| meter.add(sample, 100.0 + sample as f64));
    assert_kept(&meter.figures().unwrap());
}

/// Returns the error of deserializing a value of which a part, found by its pointer, was replaced.
#[track_caller]
fn refused<T: Serialize + DeserializeOwned + Debug>(value: &T, pointer: &str, part: Value) -> String {
    let mut written = serde_json::to_value(value).unwrap();
    *written.pointer_mut(pointer).unwrap() = part;
    serde_json::from_value::<T>(written).unwrap_err().to_string()
}

#[test]
fn damaged_files_are_refused() {
    assert!(refused(&topology(), "/near/send_ns", Value::from(-1.0)).contains("cost of a hop in ns is -1"));
    assert!(refused(&topology(), "/cpus/1", Value::from(0)).contains("CPU number is 0"));
    assert!(
        refused(&topology(), "/domain_cores/0", Value::from(0)).contains("each domain at least one core")
    );
    assert!(refused(&pipeline(), "/edges/0/to", Value::from(9)).contains("edge from operator 0 to 9"));
    assert!(refused(&pipeline(), "/operators/0/service_ns", Value::from(0.0)).contains("service time"));
    assert!(refused(&table(), "/1/held_per_s", Value::from(1.0)).contains("highest rate of a plan"));
    assert!(refused(&table(), "", Value::Array(Vec::new())).contains("number of plans"));
    let bins = Bins::divided(&[3.0, 1.0], 2).unwrap();
    assert!(refused(&bins, "/replica_of/0", Value::from(2)).contains("replica of a bin is 2"));
    let unknown = serde_json::json!({ "operators": [], "edges": [], "entries": [], "sinks": [] });
    assert!(serde_json::from_value::<Pipeline>(unknown).unwrap_err().to_string().contains("sinks"));
}

#[test]
fn values_that_no_program_writes_are_refused() {
    let many = Value::from(u64::MAX);
    assert!(refused(&topology(), "/domain_cores/0", many.clone()).contains("number of cores is"));
    let two = serde_json::json!([40_000, 40_000]);
    assert!(refused(&topology(), "/domain_cores", two).contains("number of cores is 80000"));
    let bins = Bins::divided(&[3.0, 1.0], 2).unwrap();
    assert!(refused(&bins, "/replicas", many.clone()).contains("number of replicas is"));
    assert!(
        Bins::divided(&[3.0], usize::MAX).is_err() && bins.redivided(&[1.0; 2], usize::MAX, 0.1).is_err()
    );
    let pins = Constraints::default().pin(3, 1).pin(4, 1);
    assert!(refused(&pins, "/pinned/1/operator", Value::from(3)).contains("operator of a pin is 3"));
    let core = "/0/plan/placement/groups/0/cores";
    assert!(refused(&table(), core, Value::Array(Vec::new())).contains("group 0 needs a core"));
    assert!(refused(&table(), core, serde_json::json!([u64::MAX])).contains("must exist"));
    assert!(refused(&table(), core, serde_json::json!([1, 1])).contains("core 1"));
    let operators = "/0/plan/placement/groups/0/operators";
    assert!(refused(&table(), operators, serde_json::json!([0])).contains("operator"));
    assert!(refused(&table(), operators, serde_json::json!([0, 0, 1, 2])).contains("operator 0"));
    let groups = refused(&table(), "/0/plan/placement/groups", Value::Array(Vec::new()));
    assert!(groups.contains("number of groups"), "{groups}");
    let utilization = "/0/plan/figures/utilization_ratio";
    assert!(refused(&table(), utilization, Value::Array(Vec::new())).contains("utilizations of a plan is 0"));
    assert!(
        refused(&table(), "/0/plan/figures/latency_ns", Value::from(-1.0)).contains("figure of a plan is -1")
    );
}

#[test]
fn what_may_be_left_out_has_a_default() {
    let text = r#"{"operators": [{"service_ns": 500}], "edges": [], "entries": [{"operator": 0, "tuples_ratio": 1}]}"#;
    let pipeline: Pipeline = serde_json::from_str(text).unwrap();
    assert_eq!(pipeline, Pipeline::chain(vec![Operator::new(500.0)], &[]).unwrap());
    assert_eq!(serde_json::from_str::<Settings>("{}").unwrap(), Settings::default());
    assert_eq!(serde_json::from_str::<Constraints>("{}").unwrap(), Constraints::default());
}
