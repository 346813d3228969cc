//! Steps that run as replicas.

use std::io::Cursor;

use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_placement::{Arrivals, Hop, Planner, Settings as Plans, Topology};
use sakiyomi_stream::{Settings, Snapshot};
use sakiyomi_testing::Scratch;

use crate::harness::{Written, lines, refused};

/// Records of the input.
const RECORDS: u64 = 3_000;

/// Numbers that are spread over all bits (SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number ^ (number >> 31)
}

/// Time, key and value.
fn input() -> String {
    let record = |n: u64| format!("{},k{},{}\n", n * 10 + mix(n) % 50, mix(!n) % 23, mix(n ^ 5) % 100);
    (0..RECORDS).map(record).collect()
}

/// The keyed steps, of which the sink takes the last one.
const STEPS: [&str; 4] = [
    "[[step]]\nop = \"aggregate\"\nby = \"k\"\nwindow = \"sliding:2s,1s\"\n\
     compute = \"count(*) AS n, sum(v + 1) AS s, count(distinct v) AS d\"\n",
    "[[step]]\nop = \"top\"\nk = 2\nby = \"v + 1\"\nper = \"k\"\nwindow = \"tumbling:5s\"\n",
    "[[step]]\nop = \"aggregate\"\nby = \"k\"\nwindow = \"session:30ms\"\ncompute = \"max(v) AS m\"\n",
    "[[step]]\nname = \"first\"\nop = \"distinct\"\nby = \"k, v\"\nwindow = \"tumbling:4s\"\n\
     [[step]]\nop = \"join\"\ninput = \"first\"\nwith = \"in\"\non = \"k = k, v = v\"\nwithin = \"2s\"\n",
];

/// A pipeline with these steps, each of which has `replicas` after it.
fn description(steps: &str, replicas: &str) -> String {
    let steps = steps.replace("[[step]]\n", &format!("[[step]]\n{replicas}"));
    format!(
        "[source.in]\nfrom = \"stdin\"\nformat = \"csv\"\nfields = [\"t\", \"k\", \"v\"]\n\
         columns = {{ t = \"timestamp(ms)\", v = \"int64\" }}\nevent_time = \"t\"\nout_of_order = \"50ms\"\n\
         {steps}[sink.out]\nto = \"stdout\"\nformat = \"csv\"\nheader = false\n"
    )
}

/// The lines of a text in their order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// The lines that a pipeline writes on three workers.
fn on_three_workers(description: &str) -> String {
    let pipeline = Pipeline::parse(description, "test.toml").unwrap();
    let written = Written::default();
    let input = Cursor::new(input().into_bytes());
    let standard = Standard { input: Some(Box::new(input)), output: Some(Box::new(written.clone())) };
    let (stream, run) = pipeline.build(standard).unwrap();
    assert!(stream.unsaved().eq(["source.in"]), "all but the standard input");
    let workers: Vec<usize> = (0..stream.names().count()).map(|operator| operator % 3).collect();
    let report = stream.start(Settings::unpinned(3), &workers).unwrap().finish().unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.joined().iter().map(|operator| operator.name.as_str()).eq(pipeline.operators()));
    run.finish().unwrap();
    written.text()
}

#[test]
fn steps_that_run_as_replicas_write_the_rows_of_those_that_do_not() {
    for steps in STEPS {
        let one = lines(&description(steps, ""), &input());
        assert!(one.lines().count() > 100, "{steps}");
        for replicas in [1, 3] {
            let many = on_three_workers(&description(steps, &format!("replicas = {replicas}\n")));
            assert!(sorted(&many) == sorted(&one), "{replicas} replicas of {steps}");
        }
    }
}

#[test]
fn a_plan_gives_a_keyed_step_as_many_cores_as_it_needs() {
    let description = "[source.in]\nfrom = \"generator\"\ncost = \"100ns\"\n\
        [[step]]\nname = \"counts\"\nop = \"aggregate\"\nby = \"key\"\ncompute = \"count(*) AS n\"\ncost = \"4us\"\n\
        replicas = 6\n[sink.out]\nto = \"discard\"\n";
    let pipeline = Pipeline::parse(description, "test.toml").unwrap();
    let names: Vec<&str> = pipeline.operators().collect();
    assert_eq!(names, ["source.in", "counts.partition", "counts", "counts.merge", "sink.out"]);
    let graph = pipeline.planner().unwrap();
    let topology = Topology::uniform(8, Hop { transit_ns: 150.0, ..Hop::FREE }).unwrap();
    let planner = Planner::new(&graph, &topology, Plans::default()).unwrap();
    let cores_of_counts = |rate_per_s: f64| {
        let plan = planner.plan(Arrivals::constant(rate_per_s).unwrap()).unwrap();
        let group = plan.placement.groups.iter().find(|group| group.operators.contains(&2)).unwrap();
        group.cores.len()
    };
    assert_eq!(cores_of_counts(10_000.0), 1);
    assert!((3..=6).contains(&cores_of_counts(500_000.0)));
}

#[test]
fn replicas_of_steps_without_a_key_are_refused() {
    let with = |step: &str| {
        refused(&format!(
            "[source.in]\nfrom = \"generator\"\n[[step]]\n{step}\n[sink.out]\nto = \"discard\"\n"
        ))
    };
    for step in [
        "op = \"aggregate\"\ncompute = \"count(*) AS n\"\nreplicas = 2",
        "op = \"top\"\nk = 3\nby = \"value\"\nreplicas = 2",
    ] {
        let error = with(step);
        assert!(error.contains("replicas") && error.contains("this step has none"), "{error}");
    }
    let filter = with("op = \"filter\"\nwhere = \"key = 1\"\nreplicas = 2");
    assert!(filter.contains("replicas: unknown key"), "{filter}");
    let computed = with("op = \"aggregate\"\nby = \"key % 7\"\ncompute = \"count(*) AS n\"\nreplicas = 2");
    assert!(computed.contains("compute it in an earlier select"), "{computed}");
    let many = with("op = \"distinct\"\nby = \"key\"\nreplicas = 65");
    assert!(many.contains("65 is more than 64"), "{many}");
}

#[test]
fn a_pipeline_resumes_with_another_number_of_replicas() {
    let scratch = Scratch::new("pipeline_replicas");
    let path = scratch.path("in.csv");
    std::fs::write(&path, input()).unwrap();
    let description = |replicas: usize| {
        format!(
            "[source.in]\nfrom = \"file:{}\"\nformat = \"csv\"\nheader = false\nfields = [\"t\", \"k\", \"v\"]\n\
             columns = {{ t = \"timestamp(ms)\", v = \"int64\" }}\nevent_time = \"t\"\nout_of_order = \"50ms\"\n\
             [[step]]\nname = \"counts\"\nop = \"aggregate\"\nby = \"k\"\ncompute = \"count(*) AS n, sum(v) AS s\"\n\
             replicas = {replicas}\n[sink.out]\nto = \"stdout\"\nformat = \"csv\"\nheader = false\n",
            path.display()
        )
    };
    let start = |replicas: usize, from: Option<&Snapshot>| {
        let pipeline = Pipeline::parse(&description(replicas), "test.toml").unwrap();
        let written = Written::default();
        let standard = Standard { input: None, output: Some(Box::new(written.clone())) };
        let (stream, run) = pipeline.build(standard).unwrap();
        let workers: Vec<usize> = (0..stream.names().count()).map(|operator| operator % 2).collect();
        let running = match from {
            Some(snapshot) => stream.start_from(Settings::unpinned(2), &workers, snapshot).unwrap(),
            None => stream.start(Settings::unpinned(2), &workers).unwrap(),
        };
        (running, run, written)
    };
    let (running, run, whole) = start(1, None);
    running.finish().unwrap();
    run.finish().unwrap();
    let (mut running, run, _) = start(4, None);
    let file = scratch.path("snapshot.arrow");
    let described = |replicas: usize| Pipeline::parse(&description(replicas), "test.toml").unwrap();
    described(4).write_snapshot(&file, &running.snapshot().unwrap()).unwrap();
    // The crash.
    drop(running);
    let _ = run.finish();
    for replicas in [1, 3, 7] {
        let snapshot = described(replicas).read_snapshot(&file).unwrap();
        let (running, run, written) = start(replicas, Some(&snapshot));
        running.finish().unwrap();
        run.finish().unwrap();
        assert!(sorted(&written.text()) == sorted(&whole.text()), "{replicas} replicas");
    }
}
