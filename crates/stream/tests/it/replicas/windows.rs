//! Windows, keyed state and distinct values in replicas.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_stream::operators::{Count, EventTime, WindowDistinct, WindowResult, Windows, map};
use sakiyomi_stream::{Replicas, Settings, StreamBuilder};

use super::divide;
use crate::inputs::{Collect, Numbers, below, emitted, mix, random};

/// Event time and key.
type View = (u64, String);

const WINDOW_NS: u64 = 1_000;

/// The event with this number, a little out of order.
fn view(number: u64) -> View {
    (number * 10 + mix(number) % 100, format!("/page/{}", mix(!number) % 40))
}

#[test]
fn windows_in_replicas_have_the_counts_of_a_loop_and_each_key_its_order() {
    for seed in 0..if cfg!(debug_assertions) { 6 } else { 100 } {
        let mut random = random(seed);
        let builder = StreamBuilder::new(16);
        let numbers = Numbers { burst: 700, ..Numbers::count(8_000) };
        let views = builder.source("numbers", numbers).then("views", map(view));
        let timed = views.then("time", EventTime::new(100, |view: &View| view.0).step(50));
        let keyed = timed.by_key("by page", Replicas::new(3), |view: &View| view.1.clone());
        let partition = keyed.partition();
        let counts = keyed.then("counts", || {
            Windows::sliding(
                WINDOW_NS,
                WINDOW_NS / 2,
                |view: &View| view.0,
                |view: &View| view.1.clone(),
                Count,
            )
        });
        let (collect, collected) = Collect::new();
        counts.merge("merge").sink("sink", collect);
        let stream = builder.build().unwrap();
        let placing: Vec<usize> = stream.names().map(|_| below(&mut random, 3)).collect();
        let mut running = stream.start(Settings::unpinned(3), &placing).unwrap();
        (0..30).for_each(|_| divide(&mut running, partition, &mut random));
        let report = running.finish().unwrap();
        assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0));
        let collected = collected.lock().unwrap();
        assert_eq!(collected.ends, 1);
        let mut ends = BTreeMap::<&str, u64>::new();
        let mut found = BTreeMap::new();
        for WindowResult { window, key, value, .. } in &collected.values {
            let before = ends.insert(key, window.end_ns);
            assert!(before.is_none_or(|before| before < window.end_ns), "{key} is out of order");
            found.insert((window.start_ns, window.end_ns, key.clone()), *value);
        }
        assert!(found == expected(report.operators[0].tuples_out));
    }
}

/// The counts of a loop.
fn expected(count: u64) -> BTreeMap<(u64, u64, String), u64> {
    let mut counts = BTreeMap::new();
    for emitted in emitted(count) {
        let crate::inputs::Emitted::Value(number) = emitted else { continue };
        let (time_ns, page) = view(number);
        let last = time_ns / (WINDOW_NS / 2);
        for step in last.saturating_sub(1)..=last {
            let start_ns = step * WINDOW_NS / 2;
            *counts.entry((start_ns, start_ns + WINDOW_NS, page.clone())).or_insert(0) += 1;
        }
        if last == 0 {
            // The window that would begin before 0.
            *counts.entry((0, WINDOW_NS / 2, page)).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn distinct_values_in_replicas_are_those_of_a_loop() {
    let mut random = random(7);
    let builder = StreamBuilder::new(16);
    let numbers = Numbers { burst: 500, ..Numbers::count(10_000) };
    let views = builder.source("numbers", numbers).then("views", map(view));
    let keyed = views.by_key("by page", Replicas::new(4).bins(13), |view: &View| view.1.clone());
    let partition = keyed.partition();
    let distinct = keyed.then("distinct", || {
        WindowDistinct::new(20 * WINDOW_NS, |view: &View| view.0, |view: &View| view.1.clone())
    });
    let (collect, collected) = Collect::new();
    distinct.merge("merge").sink("sink", collect);
    let stream = builder.build().unwrap();
    let placing: Vec<usize> = (0..stream.names().count()).map(|operator| operator % 2).collect();
    let mut running = stream.start(Settings::unpinned(2), &placing).unwrap();
    (0..40).for_each(|_| divide(&mut running, partition, &mut random));
    let report = running.finish().unwrap();
    let windows = |views: &mut dyn Iterator<Item = View>| {
        views.map(|(time_ns, page)| (time_ns / (20 * WINDOW_NS), page)).collect::<Vec<_>>()
    };
    let found = windows(&mut collected.lock().unwrap().values.iter().cloned());
    let all = emitted(report.operators[0].tuples_out).filter_map(|emitted| match emitted {
        crate::inputs::Emitted::Value(number) => Some(view(number)),
        crate::inputs::Emitted::Watermark(_) => None,
    });
    let expected: BTreeSet<_> = windows(&mut all.into_iter()).into_iter().collect();
    assert_eq!(found.len(), expected.len(), "each once");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
}
