//! Distinct values.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use sakiyomi_stream::operators::{Distinct, KeysFull, WindowDistinct};
use sakiyomi_stream::{Emitter, Operator};

use super::{BEGINS, Event, Step, call, events, key, places, run, run_with_reloads, steps, time};
use crate::inputs::random;

#[test]
fn the_first_value_of_each_key_and_window_is_emitted_at_once() {
    let mut random = random(71);
    for begin in BEGINS {
        for size in [1, 10, 1_000] {
            let steps = steps(&mut random, 500, begin);
            let mut seen = BTreeSet::new();
            let expected: Vec<(Event, u64)> =
                events(&steps).filter(|(event, _)| seen.insert((event.time_ns / size, event.key))).collect();
            let make = || WindowDistinct::new(size, time, key);
            assert_eq!(run(&mut make(), &steps), expected);
            let at = places(&mut random, steps.len());
            assert_eq!(run_with_reloads(make, &steps, &at), expected);
        }
    }
}

#[test]
fn a_watermark_frees_the_keys_of_windows_that_have_ended() {
    let mut operator = WindowDistinct::new(10, time, key);
    let mut outputs = Vec::new();
    let event = |time_ns, key| Step::Event(Event { time_ns, key, amount: 0 }, 0);
    for step in [event(5, 1), event(15, 1), event(25, 1), event(25, 2), Step::Watermark(20)] {
        call(&mut operator, step, &mut outputs);
    }
    assert_eq!((outputs.len(), operator.entries()), (4, 2));
    call(&mut operator, event(19, 3), &mut outputs);
    assert_eq!((outputs.len(), operator.late_counter().get()), (4, 1));
    call(&mut operator, Step::Watermark(30), &mut outputs);
    assert_eq!(operator.entries(), 0);
}

#[test]
fn keys_over_all_time_are_bounded_by_the_declared_policy() {
    let mut random = random(72);
    for keys_max in [1, 2, 5, 1_000] {
        let steps = steps(&mut random, 600, 0);
        let (mut order, mut kept) = (VecDeque::new(), BTreeSet::new());
        let (mut forgotten, mut dropped) = (Vec::new(), Vec::new());
        for (event, at) in events(&steps) {
            if !order.contains(&event.key) {
                order.push_back(event.key);
                if order.len() > keys_max {
                    order.pop_front();
                }
                forgotten.push((event, at));
            }
            if kept.len() < keys_max && kept.insert(event.key) {
                dropped.push((event, at));
            }
        }
        for (when_full, expected) in [(KeysFull::Forget, forgotten), (KeysFull::Drop, dropped)] {
            let make = || Distinct::new(keys_max, when_full, key);
            let mut operator = make();
            assert_eq!(run(&mut operator, &steps), expected);
            assert!(operator.entries() <= keys_max);
            assert_eq!(operator.beyond_counter().get() == 0, keys_max == 1_000);
            let at = places(&mut random, steps.len());
            assert_eq!(run_with_reloads(make, &steps, &at), expected);
        }
    }
}

#[test]
fn keys_beyond_the_bound_stop_the_operator_if_they_are_declared_to() {
    let mut operator = Distinct::new(2, KeysFull::Stop, key);
    let mut out = Emitter::new();
    let event = |key| Event { time_ns: 0, key, amount: 0 };
    [1, 2, 1, 2].into_iter().for_each(|key| operator.process(event(key), &mut out));
    assert_eq!(out.drain().count(), 2);
    let panic = catch_unwind(AssertUnwindSafe(|| operator.process(event(3), &mut Emitter::new())));
    let text = panic.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(
        *text,
        "distinct values have reached their 2 keys: allow more, or let the oldest be forgotten"
    );
}
