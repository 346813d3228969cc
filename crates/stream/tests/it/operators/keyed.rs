//! Keyed state and timers.

use std::collections::BTreeMap;

use sakiyomi_stream::operators::{KeyContext, Keyed, KeyedProcess};
use sakiyomi_stream::{Emitter, Operator};

use super::{BEGINS, Event, Step, call, end, events, key, places, run, run_with_reloads, steps};
use crate::inputs::random;

/// Sums up a key until the watermark is `QUIET_NS` after its last value: sessions, by hand.
struct Totals;

const QUIET_NS: u64 = 15;

/// Key, end, total.
type Total = (u64, u64, i64);

impl KeyedProcess for Totals {
    type In = Event;
    type Key = u64;
    /// Total, and the timer that is set.
    type State = (i64, u64);
    type Out = Total;

    fn process(&mut self, event: Event, key: &mut KeyContext<'_, u64, (i64, u64)>, _: &mut Emitter<Total>) {
        let due_ns = event.time_ns.saturating_add(QUIET_NS);
        let (total, before) = key.state().unwrap_or((0, due_ns));
        let last = due_ns.max(before);
        key.remove_timer(before);
        key.set_timer(last);
        *key.state() = Some((total + event.amount, last));
    }

    fn timer(&mut self, at: u64, key: &mut KeyContext<'_, u64, (i64, u64)>, out: &mut Emitter<Total>) {
        let (total, last) = key.state().take().expect("a timer is set with a state");
        assert_eq!(at, last);
        out.emit((*key.key(), at, total));
    }
}

/// Totals in the order of their ends, if values of a key are in order.
fn expected(steps: &[Step]) -> Vec<Total> {
    let mut keys: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    events(steps).for_each(|(event, _)| keys.entry(event.key).or_default().push(event));
    let mut totals = Vec::new();
    for (key, mut list) in keys {
        list.sort_by_key(|event| event.time_ns);
        for session in list.chunk_by(|one, next| next.time_ns - one.time_ns < QUIET_NS) {
            let end = session.last().unwrap().time_ns.saturating_add(QUIET_NS);
            totals.push((key, end, session.iter().map(|event| event.amount).sum()));
        }
    }
    totals.sort_by_key(|&(key, end, _)| (end, key));
    totals
}

/// Steps in the order of their times, with a watermark at each: a session has then ended when the next one begins.
fn ordered(steps: &[Step]) -> Vec<Step> {
    let mut all: Vec<(Event, u64)> = events(steps).collect();
    all.sort_by_key(|(event, _)| event.time_ns);
    all.into_iter().flat_map(|(event, at)| [Step::Watermark(event.time_ns), Step::Event(event, at)]).collect()
}

#[test]
fn state_and_timers_of_keys_make_sessions() {
    let mut random = random(61);
    for begin in BEGINS {
        let steps = ordered(&steps(&mut random, 500, begin));
        let mut operator = Keyed::new(key, Totals);
        let outputs = run(&mut operator, &steps);
        let totals: Vec<Total> = outputs.iter().map(|(total, _)| *total).collect();
        assert_eq!(totals, expected(&steps), "from {begin}");
        assert_eq!(operator.entries(), 0);
        let at = places(&mut random, steps.len());
        assert_eq!(run_with_reloads(|| Keyed::new(key, Totals), &steps, &at), outputs);
    }
}

/// Sets timers when they are due.
struct Chain;

impl KeyedProcess for Chain {
    type In = Event;
    type Key = u64;
    type State = u64;
    type Out = (u64, u64);

    fn process(&mut self, event: Event, key: &mut KeyContext<'_, u64, u64>, _: &mut Emitter<(u64, u64)>) {
        *key.state() = Some(0);
        key.set_timer(event.time_ns);
        key.set_timer(event.time_ns);
    }

    /// Due again in 10, and at a time that has passed.
    fn timer(&mut self, at: u64, key: &mut KeyContext<'_, u64, u64>, out: &mut Emitter<(u64, u64)>) {
        out.emit((*key.key(), at));
        let count = key.state().get_or_insert(0);
        *count += 1;
        if *count < 4 {
            key.set_timer(at + 10);
        } else if *count == 4 {
            key.set_timer(at - 10);
        }
        assert!(key.watermark_ns() >= at || at == 500, "but at the end");
    }
}

#[test]
fn timers_that_timers_set_are_due_in_their_order_and_each_watermark_ends() {
    let (mut operator, mut outputs) = (Keyed::new(key, Chain), Vec::new());
    let event = |key, time_ns| Step::Event(Event { time_ns, key, amount: 0 }, 0);
    for step in [event(2, 10), event(1, 15), Step::Watermark(30)] {
        call(&mut operator, step, &mut outputs);
    }
    let due = |outputs: &mut Vec<((u64, u64), u64)>| {
        outputs.drain(..).map(|(output, _)| output).collect::<Vec<_>>()
    };
    assert_eq!(due(&mut outputs), [(2, 10), (1, 15), (2, 20), (1, 25), (2, 30)]);
    call(&mut operator, Step::Watermark(100), &mut outputs);
    assert_eq!(due(&mut outputs), [(1, 35), (2, 40), (1, 45)]);
    // 30 and 35 were set when 40 and 45 were due: they wait for the next watermark.
    call(&mut operator, Step::Watermark(100), &mut outputs);
    assert_eq!(due(&mut outputs), [(2, 30), (1, 35)]);
    assert_eq!(operator.entries(), 2, "two states, and no timer");
    call(&mut operator, event(3, 500), &mut outputs);
    end(&mut operator, &mut outputs);
    assert_eq!(due(&mut outputs), [(3, 500)], "timers that are left are due at the end, once");
}

/// The first of two timers of a key removes the second.
struct Either;

impl KeyedProcess for Either {
    type In = Event;
    type Key = u64;
    type State = u64;
    type Out = (u64, u64);

    fn process(&mut self, event: Event, key: &mut KeyContext<'_, u64, u64>, _: &mut Emitter<(u64, u64)>) {
        key.set_timer(event.time_ns);
        key.set_timer(event.time_ns + 10);
    }

    fn timer(&mut self, at: u64, key: &mut KeyContext<'_, u64, u64>, out: &mut Emitter<(u64, u64)>) {
        key.remove_timer(at + 10);
        out.emit((*key.key(), at));
    }
}

#[test]
fn a_timer_that_another_one_removes_is_not_due_at_the_end_either() {
    let event = |key, time_ns| Step::Event(Event { time_ns, key, amount: 0 }, 0);
    for marks in [&[][..], &[Step::Watermark(100)]] {
        let (mut operator, mut outputs) = (Keyed::new(key, Either), Vec::new());
        for &step in [event(2, 10), event(1, 15)].iter().chain(marks) {
            call(&mut operator, step, &mut outputs);
        }
        end(&mut operator, &mut outputs);
        assert_eq!(outputs, [((2, 10), 0), ((1, 15), 0)]);
        assert_eq!(operator.entries(), 0);
    }
}

#[test]
fn a_key_without_a_state_takes_no_memory() {
    struct Drops;
    impl KeyedProcess for Drops {
        type In = Event;
        type Key = u64;
        type State = u64;
        type Out = ();

        fn process(&mut self, event: Event, key: &mut KeyContext<'_, u64, u64>, _: &mut Emitter<()>) {
            *key.state() = (event.amount > 0).then_some(1);
        }
    }
    let mut operator = Keyed::new(key, Drops);
    let mut out = Emitter::new();
    for (key, amount, entries) in [(1, 1, 1), (2, 0, 1), (2, 5, 2), (1, 0, 1), (2, 0, 0)] {
        operator.process(Event { time_ns: 0, key, amount }, &mut out);
        assert_eq!(operator.entries(), entries);
    }
}
