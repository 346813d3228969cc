//! Replicas of joins, whose inputs have a partition each.

use sakiyomi_stream::operators::{EventTime, TimeJoin, map, side};
use sakiyomi_stream::{OperatorId, Replicas, Settings, StreamBuilder};

use super::divide;
use crate::graph::relocate;
use crate::inputs::{Collect, Numbers, below, mix, random};

/// Event time, key and number.
type Click = (u64, u64, u64);

const WINDOW_NS: u64 = 500;

/// The click with this number, of one of two sources.
fn click(number: u64, source: u64) -> Click {
    (number * 10, mix(number ^ mix(source)) % 50, number)
}

/// The pairs of a loop.
fn expected(count: [u64; 2]) -> Vec<(Click, Click)> {
    // No number in place of which `Numbers` emits a watermark.
    let clicks = |source: usize| {
        crate::inputs::emitted(count[source]).filter_map(move |emitted| match emitted {
            crate::inputs::Emitted::Value(number) => Some(click(number, source as u64)),
            crate::inputs::Emitted::Watermark(_) => None,
        })
    };
    let mut pairs = Vec::new();
    let rights: Vec<Click> = clicks(1).collect();
    for left in clicks(0) {
        let matches = |right: &&Click| right.1 == left.1 && right.0 / WINDOW_NS == left.0 / WINDOW_NS;
        pairs.extend(rights.iter().filter(matches).map(|right| (left, *right)));
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn joins_that_run_as_replicas_have_the_pairs_of_a_loop() {
    for seed in 0..if cfg!(debug_assertions) { 8 } else { 100 } {
        let mut random = random(seed);
        let count = [2_000 + below(&mut random, 1_000) as u64, 2_000];
        let builder = StreamBuilder::new(1 + below(&mut random, 30));
        let source = |index: usize, name: &str| {
            let numbers = Numbers { burst: 300, ..Numbers::count(count[index]) };
            let clicks = builder.source(name, numbers).then("clicks", map(move |n| click(n, index as u64)));
            clicks.then("time", EventTime::new(0, |click: &Click| click.0).step(100))
        };
        let (left, right) = (source(0, "left"), source(1, "right"));
        let join = || {
            let one = || side(|click: &Click| click.0, |click: &Click| click.1);
            TimeJoin::window(WINDOW_NS, one(), one(), |left: &Click, right: &Click| (*left, *right))
        };
        let replicas = Replicas::new(1 + below(&mut random, 3)).bins(8);
        let keyed = left.by_key("left by key", replicas, |click: &Click| click.1);
        let partition = keyed.partition();
        let pairs = keyed.join("join", ("right by key", right, |click: &Click| click.1), join);
        let (collect, collected) = Collect::new();
        pairs.merge("merge").sink("sink", collect);
        let stream = builder.build().unwrap();
        let (operators, workers) = (stream.names().count(), 1 + below(&mut random, 3));
        let placing: Vec<usize> = (0..operators).map(|_| below(&mut random, workers)).collect();
        let mut running = stream.start(Settings::unpinned(workers), &placing).unwrap();
        let mut pending = Vec::new();
        for _ in 0..30 {
            match below(&mut random, 4) {
                0 => relocate(&mut running, operators, workers, &mut random),
                1 => pending.push(running.begin_snapshot()),
                // The partition of either input names the replicas.
                2 => divide(&mut running, OperatorId(partition.0 + 1), &mut random),
                _ => divide(&mut running, partition, &mut random),
            }
        }
        pending.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
        let report = running.finish().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0));
        let mut found = collected.lock().unwrap().values.clone();
        found.sort_unstable();
        assert!(found == expected([report.operators[0].tuples_out, report.operators[3].tuples_out]));
    }
}
