//! Tumbling and sliding windows.

use std::collections::BTreeMap;

use sakiyomi_stream::operators::{Aggregate, Count, Window, WindowResult, Windows, max, min, sum};
use sakiyomi_stream::{Emitter, Operator};

use super::{BEGINS, Event, Step, call, events, key, places, reloaded, run, run_with_reloads, steps, time};
use crate::inputs::{below, random};

/// Sizes and steps, with and without a common divisor.
const SIZES: [(u64, u64); 8] =
    [(10, 10), (1, 1), (60, 20), (25, 10), (7, 3), (50, 50), (1_000, 999), (64, 1)];

/// Count, sum, least and greatest amount.
type Figures = (u64, i128, Option<i64>, Option<i64>);

type Field = fn(&Event) -> u64;

fn figures() -> impl Aggregate<Event, Output = Figures> {
    let amount = |event: &Event| event.amount;
    (Count, sum(amount), min(amount), max(amount))
}

fn windows(
    (size, step): (u64, u64),
) -> Windows<Event, Field, Field, impl Aggregate<Event, Output = Figures>> {
    Windows::sliding(size, step, time as Field, key as Field, figures())
}

/// Ends of all windows with this time, as they are counted.
pub(super) fn ends((size, step): (u64, u64), time_ns: u64) -> Vec<i128> {
    let (size, step, time) = (i128::from(size), i128::from(step), i128::from(time_ns));
    let last_start = time - time % step;
    let starts = (0..).map(|index| last_start - index * step).take_while(|start| start + size > time);
    starts.map(|start| start + size).filter(|&end| end > 0).collect()
}

pub(super) fn window(size: u64, end: i128) -> Window {
    let at = |time: i128| u64::try_from(time.clamp(0, u64::MAX.into())).unwrap();
    Window { start_ns: at(end - i128::from(size)), end_ns: at(end) }
}

/// The results by sorting all values, with their arrivals.
fn expected(steps: &[Step], sizes: (u64, u64)) -> Vec<(WindowResult<u64, Figures>, u64)> {
    let mut groups: BTreeMap<(i128, u64), Vec<(Event, u64)>> = BTreeMap::new();
    for (event, arrival_ns) in events(steps) {
        for end in ends(sizes, event.time_ns) {
            groups.entry((end, event.key)).or_default().push((event, arrival_ns));
        }
    }
    let results = groups.into_iter().map(|((end, key), group)| {
        let amounts = || group.iter().map(|(event, _)| event.amount);
        let value = (group.len() as u64, amounts().map(i128::from).sum(), amounts().min(), amounts().max());
        let result = WindowResult { window: window(sizes.0, end), key, value, is_update: false };
        (result, group.iter().map(|(_, arrival_ns)| *arrival_ns).max().unwrap())
    });
    results.collect()
}

#[test]
fn windows_have_the_results_of_sorting_all_values_in_their_order() {
    let mut random = random(1);
    for begin in BEGINS {
        for sizes in SIZES {
            let steps = steps(&mut random, 600, begin);
            let mut operator = windows(sizes);
            assert_eq!(run(&mut operator, &steps), expected(&steps, sizes), "{sizes:?} from {begin}");
            assert_eq!((operator.entries(), operator.late_counter().get()), (0, 0));
        }
    }
}

#[test]
fn windows_that_are_saved_and_loaded_go_on_as_if_they_were_not() {
    let mut random = random(2);
    for begin in BEGINS {
        for sizes in SIZES {
            let steps = steps(&mut random, 400, begin);
            let at = places(&mut random, steps.len());
            assert_eq!(run_with_reloads(|| windows(sizes), &steps, &at), expected(&steps, sizes));
        }
    }
}

#[test]
fn values_after_the_first_window_of_their_pane_count_in_those_that_are_open() {
    let (mut random, (size, step)) = (random(8), (60, 20));
    let (mut operator, mut out, mut seen) = (windows((size, step)), Emitter::new(), Vec::<Event>::new());
    for end in (1..200).map(|round| round * step) {
        for _ in 0..below(&mut random, 30) {
            // From the first time that has an open window.
            let time_ns = end.saturating_sub(size) + below(&mut random, 80) as u64;
            let event = Event { time_ns, key: below(&mut random, 5) as u64, amount: 1 };
            seen.push(event);
            operator.process(event, &mut out);
        }
        if below(&mut random, 4) == 0 {
            operator = reloaded(&operator, windows((size, step)));
        }
        operator.watermark(end, &mut out);
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for event in seen.iter().filter(|event| event.time_ns < end && event.time_ns + size >= end) {
            *counts.entry(event.key).or_default() += 1;
        }
        let results: Vec<(u64, u64, u64)> =
            out.drain().map(|(result, _)| (result.window.end_ns, result.key, result.value.0)).collect();
        assert_eq!(results, counts.into_iter().map(|(key, count)| (end, key, count)).collect::<Vec<_>>());
    }
    assert_eq!(operator.late_counter().get(), 0);
}

#[test]
fn windows_of_parts_of_the_keys_have_the_same_results_together() {
    let mut random = random(3);
    for sizes in SIZES {
        let steps = steps(&mut random, 500, 77);
        let replicas = 1 + below(&mut random, 4) as u64;
        let mut all = Vec::new();
        for replica in 0..replicas {
            let is_its =
                |step: &&Step| !matches!(step, Step::Event(event, _) if event.key % replicas != replica);
            let part: Vec<Step> = steps.iter().filter(is_its).copied().collect();
            all.extend(run(&mut windows(sizes), &part));
        }
        all.sort_by_key(|(result, _)| (result.window.end_ns, result.key));
        assert_eq!(all, expected(&steps, sizes));
    }
}

#[test]
fn a_watermark_frees_what_no_later_value_can_change() {
    let mut random = random(4);
    for sizes in SIZES {
        let (mut operator, mut outputs) = (windows(sizes), Vec::new());
        let mut times = Vec::new();
        for step in steps(&mut random, 600, 5) {
            call(&mut operator, step, &mut outputs);
            match step {
                Step::Event(event, _) => times.push(event),
                Step::Watermark(time_ns) => {
                    times.retain(|event| ends(sizes, event.time_ns)[0] > i128::from(time_ns));
                    // Panes are bounded by the starts and the ends of windows.
                    let (step, rest) = (sizes.1, sizes.0 % sizes.1);
                    let panes = times
                        .iter()
                        .map(|event| (event.time_ns / step, event.time_ns % step >= rest, event.key));
                    let panes: std::collections::BTreeSet<_> = panes.collect();
                    assert_eq!(operator.entries(), panes.len(), "{sizes:?}");
                }
            }
        }
        call(&mut operator, Step::Watermark(u64::MAX), &mut outputs);
        assert_eq!(operator.entries(), 0);
    }
}

#[test]
fn a_jump_over_many_empty_windows_takes_no_time_for_them() {
    let mut operator = Windows::tumbling(1, time, key, Count);
    let mut out = Emitter::new();
    for time_ns in [0, 1 << 62, u64::MAX] {
        operator.process(Event { time_ns, key: 1, amount: 0 }, &mut out);
    }
    operator.watermark(u64::MAX, &mut out);
    let ends: Vec<u64> = out.drain().map(|(result, _)| result.window.end_ns).collect();
    assert_eq!(ends, [1, (1 << 62) + 1], "the last window ends after all times");
    operator.end(&mut out);
    let last = Window { start_ns: u64::MAX, end_ns: u64::MAX };
    assert_eq!(out.drain().map(|(result, _)| result.window).collect::<Vec<_>>(), [last]);
}

#[test]
fn a_watermark_that_goes_back_changes_nothing() {
    let mut operator = Windows::tumbling(10, time, key, Count);
    let mut outputs = Vec::new();
    let event = |time_ns| Step::Event(Event { time_ns, key: 1, amount: 0 }, 1);
    for step in [event(5), Step::Watermark(10), Step::Watermark(3), event(7), event(12)] {
        call(&mut operator, step, &mut outputs);
    }
    assert_eq!(outputs.len(), 1);
    assert_eq!((operator.entries(), operator.late_counter().get()), (1, 1));
}
