//! The most frequent keys of windows.

use std::collections::BTreeMap;

use sakiyomi_stream::operators::{MostFrequent, WindowResult};
use sakiyomi_stream::{Emitter, Operator};

use super::windows::{ends, window};
use super::{BEGINS, Event, Step, call, events, key, places, reloaded, run, run_with_reloads, steps, time};
use crate::inputs::{below, random};

const SIZES: [(u64, u64); 7] = [(10, 10), (1, 1), (60, 20), (25, 10), (7, 3), (1_000, 999), (64, 1)];

type Field = fn(&Event) -> u64;
type Most = WindowResult<(), (u64, Vec<u64>)>;

fn frequent((size, step): (u64, u64)) -> MostFrequent<Event, Field, Field> {
    MostFrequent::sliding(size, step, time as Field, key as Field)
}

/// The largest count of a window, and the keys that have it.
fn most(counts: &BTreeMap<u64, u64>) -> (u64, Vec<u64>) {
    let most = counts.values().copied().max().unwrap_or(0);
    (most, counts.iter().filter(|(_, count)| **count == most).map(|(key, _)| *key).collect())
}

/// The results by counting the values of each window, with their arrivals.
fn expected(steps: &[Step], sizes: (u64, u64)) -> Vec<(Most, u64)> {
    let mut windows: BTreeMap<i128, (BTreeMap<u64, u64>, u64)> = BTreeMap::new();
    for (event, arrival_ns) in events(steps) {
        for end in ends(sizes, event.time_ns) {
            let (counts, latest_ns) = windows.entry(end).or_default();
            *counts.entry(event.key).or_default() += 1;
            *latest_ns = arrival_ns.max(*latest_ns);
        }
    }
    let result = |(end, (counts, arrival_ns)): (i128, (BTreeMap<u64, u64>, u64))| {
        let window = window(sizes.0, end);
        (WindowResult { window, key: (), value: most(&counts), is_update: false }, arrival_ns)
    };
    windows.into_iter().map(result).collect()
}

#[test]
fn the_most_frequent_keys_are_those_that_are_counted_also_after_a_reload() {
    let mut random = random(21);
    for begin in BEGINS {
        for sizes in SIZES {
            let steps = steps(&mut random, 500, begin);
            let mut operator = frequent(sizes);
            assert_eq!(run(&mut operator, &steps), expected(&steps, sizes), "{sizes:?} from {begin}");
            assert_eq!((operator.entries(), operator.late_counter().get()), (0, 0));
            let at = places(&mut random, steps.len());
            assert_eq!(run_with_reloads(|| frequent(sizes), &steps, &at), expected(&steps, sizes));
        }
    }
}

#[test]
fn values_of_a_pane_that_is_already_counted_count_in_the_windows_that_are_open() {
    let (mut random, (size, step)) = (random(22), (60, 20));
    let (mut operator, mut out, mut seen) = (frequent((size, step)), Emitter::new(), Vec::<Event>::new());
    for end in (1..200).map(|round| round * step) {
        for _ in 0..below(&mut random, 30) {
            // From the first time that has an open window.
            let time_ns = end.saturating_sub(size) + below(&mut random, 80) as u64;
            let event = Event { time_ns, key: below(&mut random, 5) as u64, amount: 1 };
            seen.push(event);
            operator.process(event, &mut out);
        }
        if below(&mut random, 4) == 0 {
            operator = reloaded(&operator, frequent((size, step)));
        }
        operator.watermark(end, &mut out);
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for event in seen.iter().filter(|event| event.time_ns < end && event.time_ns + size >= end) {
            *counts.entry(event.key).or_default() += 1;
        }
        let results: Vec<_> = out.drain().map(|(result, _)| (result.window.end_ns, result.value)).collect();
        let expected = if counts.is_empty() { Vec::new() } else { vec![(end, most(&counts))] };
        assert_eq!(results, expected);
    }
    assert_eq!(operator.late_counter().get(), 0);
}

#[test]
fn a_watermark_frees_the_counts_of_windows_that_have_ended_and_later_values_are_late() {
    let mut operator = frequent((60, 20));
    let mut outputs = Vec::new();
    let event = |time_ns| Step::Event(Event { time_ns, key: time_ns, amount: 0 }, 1);
    for step in [event(5), event(25), Step::Watermark(80), event(7), event(41), Step::Watermark(1_000)] {
        call(&mut operator, step, &mut outputs);
    }
    let ends: Vec<u64> = outputs.iter().map(|(most, _)| most.window.end_ns).collect();
    assert_eq!(ends, [20, 40, 60, 80, 100]);
    assert_eq!((operator.entries(), operator.late_counter().get()), (0, 1));
}
