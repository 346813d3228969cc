//! Typed operators in a stream whose segments move.

use std::collections::BTreeMap;

use sakiyomi_stream::operators::{
    Count, EventTime, Ranked, TimeJoin, Top, WindowResult, Windows, filter, map, side, skip_panics,
};
use sakiyomi_stream::{OperatorId, Settings, StreamBuilder};

use crate::inputs::{Collect, Numbers, below, mix, random};

/// A value of the stream: event time and key.
type View = (u64, u64);

/// The event with this number, a little out of order.
fn view(number: u64) -> View {
    (number * 10 + mix(number) % 100, mix(!number) % 20)
}

const WINDOW_NS: u64 = 1_000;

/// Number of values.
const VIEWS: u64 = 20_000;

/// Operators of the stream, its source and its sinks included.
const OPERATORS: usize = 10;

/// Counts of each window and key.
fn counts(views: impl Iterator<Item = View>) -> BTreeMap<(u64, u64), u64> {
    let mut counts = BTreeMap::new();
    views.for_each(|(time_ns, key)| *counts.entry((time_ns / WINDOW_NS, key)).or_insert(0) += 1);
    counts
}

#[test]
fn windows_and_joins_have_the_same_results_wherever_their_segments_are() {
    for seed in 0..4 {
        let mut random = random(seed);
        let numbers = Numbers { burst: 700, ..Numbers::count(VIEWS) };
        let builder = StreamBuilder::new(16);
        // Numbers, views, time, split; counts, top, flat, and rare views; join, sink.
        let views = builder.source("numbers", numbers).then("views", map(view));
        let timed = views.then("time", EventTime::new(100, |view: &View| view.0).step(50));
        let (left, right) = timed.split("split");
        let counted = left
            .then("counts", Windows::tumbling(WINDOW_NS, |view: &View| view.0, |view: &View| view.1, Count));
        let top = counted.then("top", Top::new(3, |count: &u64| *count));
        let rare = right.then("rare", filter(|view: &View| mix(view.0).is_multiple_of(50)));
        let ranked = side(|ranked: &WindowTop| ranked.0, |ranked: &WindowTop| ranked.1);
        let seen = side(|view: &View| view.0, |view: &View| view.1);
        let top = top.then("flat", map(|ranked: Ranked<u64, u64>| flat(&ranked.result, ranked.rank)));
        let join = TimeJoin::window(WINDOW_NS, ranked, seen, |top: &WindowTop, view: &View| (*top, *view));
        let (collect, collected) = Collect::new();
        top.join("join", rare, join).sink("sink", collect);
        let placement: Vec<usize> = (0..OPERATORS).map(|_| below(&mut random, 2)).collect();
        let mut running = builder.build().unwrap().start(Settings::unpinned(2), &placement).unwrap();
        for _ in 0..40 {
            let (operator, worker) = (OperatorId(below(&mut random, OPERATORS)), below(&mut random, 2));
            let is_head = running.segments().any(|(head, _)| head == operator);
            if is_head { running.relocate(operator, worker) } else { running.split(operator, worker) }
                .unwrap();
        }
        let report = running.finish().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0));
        let mut found = collected.lock().unwrap().values.clone();
        found.sort_unstable();
        assert_eq!(found, expected(report.operators[0].tuples_out));
    }
}

/// Last time of the window, key, count, place.
type WindowTop = (u64, u64, u64, u64);

fn flat(result: &WindowResult<u64, u64>, rank: usize) -> WindowTop {
    (result.window.end_ns - 1, result.key, result.value, rank as u64)
}

/// Computes the expected results with lists.
fn expected(count: u64) -> Vec<(WindowTop, View)> {
    let views: Vec<View> = crate::inputs::emitted(count)
        .filter_map(|emitted| match emitted {
            crate::inputs::Emitted::Value(number) => Some(view(number)),
            crate::inputs::Emitted::Watermark(_) => None,
        })
        .collect();
    let mut windows: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for ((window, key), count) in counts(views.iter().copied()) {
        windows.entry(window).or_default().push((u64::MAX - count, key));
    }
    let mut pairs = Vec::new();
    for (window, mut keys) in windows {
        keys.sort_unstable();
        for (rank, (inverse, key)) in (1..).zip(keys).take(3) {
            let top = (window * WINDOW_NS + WINDOW_NS - 1, key, u64::MAX - inverse, rank);
            let rare = views.iter().filter(|view| view.0 / WINDOW_NS == window && view.1 == key);
            pairs.extend(rare.filter(|view| mix(view.0).is_multiple_of(50)).map(|view| (top, *view)));
        }
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn the_watermarks_of_the_source_end_at_event_time_and_pass_it_when_it_has_stopped() {
    crate::inputs::hush_poison();
    for (poison_at, watermarks) in [(u64::MAX, 9), (0, 5)] {
        let time = move |number: &u64| {
            if *number >= poison_at {
                std::panic::panic_any(crate::inputs::POISON);
            }
            *number
        };
        let builder = StreamBuilder::new(16);
        // Five of its own; those of the values are 1,100 apart.
        let numbers = builder.source("numbers", Numbers::count(10_000));
        let (collect, collected) = Collect::new();
        numbers.then("time", EventTime::new(50, time).step(1_100)).sink("sink", collect);
        let report =
            builder.build().unwrap().start(Settings::unpinned(2), &[0, 1, 0]).unwrap().finish().unwrap();
        let collected = collected.lock().unwrap();
        let values = if poison_at == 0 { 0 } else { report.operators[0].tuples_out };
        assert_eq!((collected.watermarks, collected.values.len() as u64), (watermarks, values));
        assert_eq!(report.failures.len(), usize::from(poison_at == 0));
    }
}

#[test]
fn windows_that_skip_panics_lose_the_values_that_cause_them() {
    crate::inputs::hush_poison();
    let key = |number: &u64| {
        if number.is_multiple_of(1_000) {
            std::panic::panic_any(crate::inputs::POISON);
        }
        0_u64
    };
    let builder = StreamBuilder::new(16);
    let numbers = builder.source("numbers", Numbers::count(10_000));
    let windows = Windows::tumbling(1 << 40, |number: &u64| *number, key, Count);
    let (collect, collected) = Collect::new();
    numbers.then("windows", skip_panics(windows)).sink("sink", collect);
    let report = builder.build().unwrap().start(Settings::unpinned(1), &[0, 0, 0]).unwrap().finish().unwrap();
    let counts: Vec<u64> = collected.lock().unwrap().values.iter().map(|result| result.value).collect();
    assert_eq!(report.operators[1].dead_letters, 10);
    assert_eq!(counts, [report.operators[0].tuples_out - 10]);
}
