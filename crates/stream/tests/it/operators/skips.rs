//! Windows, sessions and keyed operators that continue after a panic of the application's functions.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

use sakiyomi_stream::operators::{Aggregate, KeyContext, Keyed, KeyedProcess, Sessions, Windows};
use sakiyomi_stream::{Emitter, Operator, SaveState};

use super::late::late_steps;
use super::{Event, Step, call, end, key, reloaded, time};
use crate::inputs::{POISON, hush_poison, random};

/// Whether adding a value panics.
fn is_poison(event: &Event) -> bool {
    event.amount % 5 == 0
}

/// A value whose result panics.
const POISONED_RESULT: i64 = 777;

/// All amounts.
struct Amounts;

impl Aggregate<Event> for Amounts {
    type State = Vec<i64>;
    type Output = Vec<i64>;

    fn init(&self) -> Vec<i64> {
        Vec::new()
    }

    fn add(&self, state: &mut Vec<i64>, event: &Event) {
        if is_poison(event) {
            panic_any(POISON);
        }
        state.push(event.amount);
    }

    fn merge(&self, state: &mut Vec<i64>, later: &Vec<i64>) {
        state.extend(later);
    }

    fn output(&self, state: &Vec<i64>) -> Vec<i64> {
        if state.contains(&POISONED_RESULT) {
            panic_any(POISON);
        }
        state.clone()
    }
}

/// Like [`call`], without the outputs of a call that panics. Whether it does not.
fn call_or_skip<O: Operator<In = Event>>(
    operator: &mut O,
    step: Step,
    outputs: &mut Vec<(O::Out, u64)>,
) -> bool {
    hush_poison();
    let mut its = Vec::new();
    let done = catch_unwind(AssertUnwindSafe(|| call(operator, step, &mut its))).is_ok();
    if done {
        outputs.append(&mut its);
    }
    done
}

/// Checks that an operator which skips values that panic has the results and the memory of one which never sees them.
fn check_skips<O>(make: impl Fn() -> O, entries: impl Fn(&O) -> usize, steps: &[Step])
where
    O: Operator<In = Event> + SaveState,
    O::Out: PartialEq + std::fmt::Debug,
{
    let (mut operator, mut outputs) = (make(), Vec::new());
    let (mut other, mut expected) = (make(), Vec::new());
    let mut skipped = 0;
    for (index, &step) in steps.iter().enumerate() {
        if call_or_skip(&mut operator, step, &mut outputs) {
            call(&mut other, step, &mut expected);
        } else {
            skipped += 1;
        }
        assert_eq!(entries(&operator), entries(&other), "after step {index}");
        if index % 97 == 5 {
            operator = reloaded(&operator, make());
        }
    }
    end(&mut operator, &mut outputs);
    end(&mut other, &mut expected);
    assert_eq!(outputs, expected);
    assert!(skipped > 20, "{skipped}");
}

#[test]
fn windows_have_nothing_of_values_that_panic_when_they_are_added() {
    let mut random = random(101);
    for (size, step) in [(10, 10), (60, 20), (25, 10)] {
        for lateness in [0, 40] {
            let make = || Windows::sliding(size, step, time, key, Amounts).allow_late(lateness);
            check_skips(make, Windows::entries, &late_steps(&mut random, 600));
        }
    }
}

#[test]
fn sessions_have_nothing_of_values_that_panic_when_they_are_added() {
    let mut random = random(102);
    for gap in [1, 4, 15, 100] {
        for lateness in [0, 40] {
            let make = || Sessions::new(gap, time, key, Amounts).allow_late(lateness);
            check_skips(make, Sessions::entries, &late_steps(&mut random, 600));
        }
    }
}

fn event(time_ns: u64, key: u64, amount: i64) -> Step {
    Step::Event(Event { time_ns, key, amount }, 0)
}

#[test]
fn sessions_that_a_watermark_which_panics_has_not_come_to_are_emitted_at_the_next_one() {
    for is_reloaded in [false, true] {
        for lateness in [0, 50] {
            let make = || Sessions::new(10, time, key, Amounts).allow_late(lateness);
            let (mut operator, mut outputs) = (make(), Vec::new());
            let begins = [event(0, 1, 1), event(0, 2, POISONED_RESULT), event(0, 3, 3), event(40, 2, 4)];
            for step in begins {
                assert!(call_or_skip(&mut operator, step, &mut outputs));
            }
            assert!(!call_or_skip(&mut operator, Step::Watermark(20), &mut outputs));
            if is_reloaded {
                operator = reloaded(&operator, make());
            }
            for time_ns in [21, 50, 100] {
                assert!(call_or_skip(&mut operator, Step::Watermark(time_ns), &mut outputs));
            }
            let found: Vec<_> = outputs.into_iter().map(|(result, _)| (result.key, result.value)).collect();
            assert_eq!(found, [(3, vec![3]), (2, vec![4])]);
            assert_eq!(operator.entries(), 0);
        }
    }
}

#[test]
fn windows_whose_results_panic_are_not_tried_again() {
    for (size, step) in [(20, 20), (20, 10)] {
        for lateness in [0, 100] {
            let (mut operator, mut outputs) =
                (Windows::sliding(size, step, time, key, Amounts).allow_late(lateness), Vec::new());
            for step in [event(5, 1, POISONED_RESULT), event(5, 2, 2), event(41, 2, 3)] {
                assert!(call_or_skip(&mut operator, step, &mut outputs));
            }
            assert!(!call_or_skip(&mut operator, Step::Watermark(41), &mut outputs));
            assert!(call_or_skip(&mut operator, Step::Watermark(60), &mut outputs));
            assert_eq!(outputs[0].0.value, [3]);
            assert!(outputs.iter().all(|(result, _)| result.window.end_ns > 41));
            assert!(call_or_skip(&mut operator, Step::Watermark(1_000), &mut outputs));
            assert_eq!(operator.entries(), 0);
        }
    }
}

#[test]
fn an_update_that_panics_is_not_tried_again_and_later_ones_are_emitted() {
    let mut operator = Windows::tumbling(10, time, key, Amounts).allow_late(100);
    let mut outputs = Vec::new();
    for step in [event(5, 1, 1), event(5, 2, 2), Step::Watermark(10), event(6, 1, POISONED_RESULT)] {
        assert!(call_or_skip(&mut operator, step, &mut outputs));
    }
    assert!(!call_or_skip(&mut operator, Step::Watermark(11), &mut outputs));
    outputs.clear();
    assert!(call_or_skip(&mut operator, event(7, 2, 3), &mut outputs));
    assert!(call_or_skip(&mut operator, Step::Watermark(12), &mut outputs));
    let found: Vec<_> = outputs.iter().map(|(result, _)| (result.key, result.value.clone())).collect();
    assert_eq!(found, [(2, vec![2, 3])]);
    assert!(outputs[0].0.is_update);
}

/// A timer that sets itself again, and panics at its first call.
struct Again;

impl KeyedProcess for Again {
    type In = Event;
    type Key = u64;
    type State = u64;
    type Out = u64;

    fn process(&mut self, event: Event, key: &mut KeyContext<'_, u64, u64>, _: &mut Emitter<u64>) {
        *key.state() = Some(0);
        key.set_timer(event.time_ns);
    }

    fn timer(&mut self, at: u64, key: &mut KeyContext<'_, u64, u64>, out: &mut Emitter<u64>) {
        let count = key.state().get_or_insert(0);
        *count += 1;
        if *count == 1 {
            key.set_timer(at);
            panic_any(POISON);
        }
        *key.state() = None;
        out.emit(at);
    }
}

#[test]
fn timers_that_wait_for_the_next_watermark_after_a_panic_are_saved() {
    for is_reloaded in [false, true] {
        let (mut operator, mut outputs) = (Keyed::new(key, Again), Vec::new());
        assert!(call_or_skip(&mut operator, event(10, 1, 0), &mut outputs));
        assert!(!call_or_skip(&mut operator, Step::Watermark(10), &mut outputs));
        assert_eq!(operator.entries(), 2, "a state and a timer");
        if is_reloaded {
            operator = reloaded(&operator, Keyed::new(key, Again));
        }
        assert!(call_or_skip(&mut operator, Step::Watermark(11), &mut outputs));
        assert_eq!(outputs, [(10, 0)]);
        assert_eq!(operator.entries(), 0);
    }
}

#[test]
fn timers_that_wait_for_the_next_watermark_after_a_panic_are_due_at_the_end() {
    let (mut operator, mut outputs) = (Keyed::new(key, Again), Vec::new());
    assert!(call_or_skip(&mut operator, event(10, 1, 0), &mut outputs));
    assert!(!call_or_skip(&mut operator, Step::Watermark(10), &mut outputs));
    end(&mut operator, &mut outputs);
    assert_eq!(outputs, [(10, 0)]);
}
