//! Late values of windows and sessions.

use std::collections::BTreeMap;

use rand_pcg::Pcg64;
use sakiyomi_stream::operators::{Count, Sessions, WindowResult, Windows};

use super::windows::{ends, window};
use super::{Event, Step, call, end, key, places, reloaded, run, run_with_reloads, steps, time};
use crate::inputs::{below, random};

/// Values and watermarks that make some of them late.
pub(super) fn late_steps(random: &mut Pcg64, count: usize) -> Vec<Step> {
    let mut steps = steps(random, count, 100);
    for step in &mut steps {
        if let Step::Watermark(time_ns) = step {
            *time_ns += below(random, 30) as u64;
        }
    }
    steps
}

/// A window of a key: number of values, latest arrival, and whether it has changed since it was emitted.
#[derive(Default)]
struct Entry {
    count: u64,
    arrival_ns: u64,
    is_changed: bool,
}

/// A result and its arrival.
type Arrived = (WindowResult<u64, u64>, u64);

/// The results of windows that are all kept apart, and the number of values that were dropped.
fn expected(steps: &[Step], sizes: (u64, u64), lateness: u64) -> (Vec<Arrived>, u64) {
    let mut open: BTreeMap<(i128, u64), Entry> = BTreeMap::new();
    let (mut outputs, mut dropped, mut watermark) = (Vec::new(), 0, 0);
    let emit = |end, key, entry: &mut Entry, is_update, outputs: &mut Vec<_>| {
        entry.is_changed = false;
        let result = WindowResult { window: window(sizes.0, end), key, value: entry.count, is_update };
        outputs.push((result, entry.arrival_ns));
    };
    for &step in steps.iter().chain([&Step::Watermark(u64::MAX)]) {
        match step {
            Step::Event(event, arrival_ns) => {
                let mut ends = ends(sizes, event.time_ns);
                ends.retain(|end| end + i128::from(lateness) > i128::from(watermark));
                dropped += u64::from(ends.is_empty());
                for end in ends {
                    let entry = open.entry((end, event.key)).or_default();
                    entry.count += 1;
                    entry.arrival_ns = entry.arrival_ns.max(arrival_ns);
                    entry.is_changed = true;
                }
            }
            Step::Watermark(time_ns) if time_ns > watermark => {
                let (before, now) = (i128::from(watermark), i128::from(time_ns));
                for (&(end, key), entry) in &mut open {
                    if end <= before && entry.is_changed {
                        emit(end, key, entry, true, &mut outputs);
                    }
                }
                for (&(end, key), entry) in &mut open {
                    if before < end && end <= now {
                        emit(end, key, entry, false, &mut outputs);
                    }
                }
                open.retain(|&(end, _), _| end + i128::from(lateness) > now);
                watermark = time_ns;
            }
            Step::Watermark(_) => {}
        }
    }
    (outputs, dropped)
}

#[test]
fn late_values_within_the_allowed_lateness_give_updates_and_others_are_counted() {
    let mut random = random(11);
    let (mut updates, mut all_dropped) = (0, 0);
    for sizes in [(10, 10), (60, 20), (25, 10), (7, 3)] {
        for lateness in [0, 5, 40, 1_000] {
            let steps = late_steps(&mut random, 600);
            let make = || Windows::sliding(sizes.0, sizes.1, time, key, Count).allow_late(lateness);
            let mut operator = make();
            let outputs = run(&mut operator, &steps);
            let (expected, dropped) = expected(&steps, sizes, lateness);
            assert_eq!(outputs, expected, "{sizes:?}, lateness {lateness}");
            assert_eq!(operator.late_counter().get(), dropped);
            all_dropped += dropped;
            updates += outputs.iter().filter(|(result, _)| result.is_update).count();
            let at = places(&mut random, steps.len());
            assert_eq!(run_with_reloads(make, &steps, &at), outputs);
        }
    }
    assert!(updates > 0 && all_dropped > 0);
}

#[test]
fn the_last_result_of_each_window_has_all_values_if_any_lateness_is_allowed() {
    let mut random = random(12);
    let steps = late_steps(&mut random, 500);
    let mut operator = Windows::tumbling(10, time, key, Count).allow_late(u64::MAX);
    let mut last = BTreeMap::new();
    for (result, _) in run(&mut operator, &steps) {
        last.insert((result.window, result.key), result.value);
    }
    let mut all = BTreeMap::new();
    for (Event { time_ns, key, .. }, _) in super::events(&steps) {
        *all.entry((window(10, ends((10, 10), time_ns)[0]), key)).or_insert(0) += 1;
    }
    assert_eq!(last, all);
    assert_eq!(operator.late_counter().get(), 0);
}

#[test]
fn sessions_that_late_values_extend_or_join_are_emitted_again() {
    let event = |time_ns| Step::Event(Event { time_ns, key: 1, amount: 0 }, time_ns);
    let make = || Sessions::new(10, time, key, Count).allow_late(100);
    let (mut operator, mut outputs) = (make(), Vec::new());
    // 0…15 and 40…50 end; 22 begins a session of its own; 14 and 31 join all of them.
    let steps = [
        event(0),
        event(5),
        event(40),
        Step::Watermark(60),
        event(22),
        Step::Watermark(61),
        event(14),
        event(31),
    ];
    for step in steps {
        call(&mut operator, step, &mut outputs);
        operator = reloaded(&operator, make());
    }
    call(&mut operator, Step::Watermark(62), &mut outputs);
    let found: Vec<_> = outputs
        .iter()
        .map(|(result, at)| {
            (result.window.start_ns, result.window.end_ns, result.value, result.is_update, *at)
        })
        .collect();
    let expected =
        [(0, 15, 2, false, 5), (40, 50, 1, false, 40), (22, 32, 1, false, 22), (0, 50, 6, true, 40)];
    assert_eq!(found, expected);
    // Kept to its end and the lateness, and then freed.
    call(&mut operator, Step::Watermark(149), &mut outputs);
    assert_eq!(operator.entries(), 1);
    call(&mut operator, Step::Watermark(150), &mut outputs);
    assert_eq!(operator.entries(), 0);
    call(&mut operator, event(30), &mut outputs);
    assert_eq!(operator.late_counter().get(), 1);
    end(&mut operator, &mut outputs);
    assert_eq!(outputs.len(), 4);
}

#[test]
fn the_sessions_that_are_left_have_all_values_if_any_lateness_is_allowed() {
    let mut random = random(13);
    for gap in [5, 20] {
        let steps = late_steps(&mut random, 400);
        let make = || Sessions::new(gap, time, key, Count).allow_late(u64::MAX);
        let mut operator = make();
        let outputs = run(&mut operator, &steps);
        assert_eq!(operator.late_counter().get(), 0);
        let at = places(&mut random, steps.len());
        assert_eq!(run_with_reloads(make, &steps, &at), outputs);
        for (session, count) in super::sessions::sessions(&steps, gap) {
            let last = outputs.iter().rev().find(|(result, _)| {
                result.key == session.1
                    && (result.window.start_ns, result.window.end_ns) == (session.2, session.0)
            });
            assert_eq!(last.map(|(result, _)| result.value), Some(count), "{session:?}");
        }
    }
}
