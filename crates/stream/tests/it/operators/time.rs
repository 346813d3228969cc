//! Event time and watermarks.

use sakiyomi_stream::operators::{AllowLate, EventTime, Late, LatePolicy, MarkLate};
use sakiyomi_stream::{Emitter, Operator, SaveState};

use super::{BEGINS, Event, Step, events, reloaded, steps, time};
use crate::inputs::{below, random};

/// An output of an operator that makes watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output<T> {
    Value(T),
    Watermark(u64),
}

fn call<O: Operator<In = Event>>(operator: &mut O, step: Step, arrival_ns: u64) -> Vec<Output<O::Out>> {
    let mut out = Emitter::new();
    out.set_arrival_ns(arrival_ns);
    match step {
        Step::Event(event, _) => operator.process(event, &mut out),
        Step::Watermark(time_ns) => operator.watermark(time_ns, &mut out),
    }
    let mut outputs: Vec<_> = out.drain().map(|(value, _)| Output::Value(value)).collect();
    outputs.extend(out.take_watermark().map(Output::Watermark));
    outputs
}

fn all<O: Operator<In = Event> + SaveState>(make: impl Fn() -> O, events: &[Event]) -> Vec<Output<O::Out>> {
    let mut operator = make();
    assert!(operator.makes_watermarks());
    let mut outputs = Vec::new();
    for (index, &event) in events.iter().enumerate() {
        outputs.extend(call(&mut operator, Step::Event(event, 0), 0));
        if index % 50 == 7 {
            operator = reloaded(&operator, make());
        }
    }
    outputs
}

/// Computes the expected results with a list of all times so far, and the number of late values.
fn expected<P: LatePolicy<Event>>(
    events: &[Event],
    [disorder, step]: [u64; 2],
    policy: &P,
) -> (Vec<Output<P::Out>>, u64) {
    let (mut outputs, mut watermark, mut late) = (Vec::new(), 0, 0);
    for (index, &event) in events.iter().enumerate() {
        if event.time_ns < watermark {
            late += 1;
            outputs.extend(policy.late(event, watermark - event.time_ns).map(Output::Value));
        } else {
            outputs.push(Output::Value(policy.on_time(event)));
            let max = events[..=index].iter().map(time).max().unwrap();
            if max.saturating_sub(disorder) / step > watermark / step {
                watermark = max - disorder;
                outputs.push(Output::Watermark(watermark));
            }
        }
    }
    (outputs, late)
}

#[test]
fn watermarks_are_the_latest_time_less_the_disorder() {
    let mut random = random(41);
    for begin in BEGINS {
        for disorder in [0, 10, 39, 40, 1_000] {
            let events: Vec<Event> =
                events(&steps(&mut random, 400, begin)).map(|(event, _)| event).collect();
            let step = 1 + below(&mut random, 20) as u64;
            let (dropped, late) = expected(&events, [disorder, step], &sakiyomi_stream::operators::DropLate);
            assert_eq!(all(|| EventTime::new(disorder, time).step(step), &events), dropped);
            assert!(late == 0 || disorder < 40, "{disorder}");
            let (allowed, _) = expected(&events, [disorder, step], &AllowLate(3));
            assert_eq!(
                all(|| EventTime::new(disorder, time).step(step).late(AllowLate(3)), &events),
                allowed
            );
            let (marked, _) = expected(&events, [disorder, step], &MarkLate);
            assert_eq!(all(|| EventTime::new(disorder, time).late(MarkLate).step(step), &events), marked);
            let counted = marked.iter().filter(|output| matches!(output, Output::Value(Late::Late(_))));
            assert_eq!(counted.count() as u64, late);
        }
    }
}

#[test]
fn a_watermark_reaches_each_multiple_of_the_step_with_the_first_value_that_does() {
    let step = 100;
    let mut operator = EventTime::new(7, time).step(step);
    let mut watermark = 0;
    for time_ns in (0..10_000).step_by(13) {
        let event = Step::Event(Event { time_ns, key: 0, amount: 0 }, 0);
        for output in call(&mut operator, event, 0) {
            watermark = if let Output::Watermark(time_ns) = output { time_ns } else { watermark };
        }
        assert_eq!(watermark / step, time_ns.saturating_sub(7) / step, "at {time_ns}");
    }
}

#[test]
fn late_values_are_counted_and_the_count_is_saved() {
    let make = || EventTime::new(0, time);
    let mut operator = make();
    let event = |time_ns| Step::Event(Event { time_ns, key: 0, amount: 0 }, 0);
    for time_ns in [10, 3, 10, 9] {
        call(&mut operator, event(time_ns), 0);
    }
    assert_eq!(operator.late_counter().get(), 2);
    let operator = reloaded(&operator, make());
    assert_eq!(operator.late_counter().get(), 2);
}

#[test]
fn the_watermarks_of_the_source_count_when_no_value_has_come_for_the_idle_time() {
    let mut idle = EventTime::new(5, time).idle(100);
    let mut never = EventTime::new(5, time);
    let event = Step::Event(Event { time_ns: 50, key: 0, amount: 0 }, 0);
    for (step, arrival_ns, expected) in [
        (event, 1_000, Some(45)),
        (Step::Watermark(60), 1_099, None),
        (Step::Watermark(60), 1_100, Some(60)),
        (Step::Watermark(60), 1_200, None),
        (Step::Watermark(59), 1_300, None),
        // Late, and a sign of life.
        (event, 1_350, None),
        (Step::Watermark(70), 1_449, None),
        (Step::Watermark(70), 1_450, Some(70)),
    ] {
        let watermark = |outputs: Vec<Output<Event>>| {
            outputs.into_iter().find_map(|output| match output {
                Output::Watermark(time_ns) => Some(time_ns),
                Output::Value(_) => None,
            })
        };
        assert_eq!(watermark(call(&mut idle, step, arrival_ns)), expected, "at {arrival_ns}");
        idle = reloaded(&idle, EventTime::new(5, time).idle(100));
        let without = watermark(call(&mut never, step, arrival_ns));
        assert_eq!(without, expected.filter(|_| matches!(step, Step::Event(..))));
    }
}
