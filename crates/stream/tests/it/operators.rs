//! Typed operators beside plain computations of the same results.

mod aggregates;
mod distinct;
mod frequent;
mod joins;
mod keyed;
mod late;
mod placements;
mod sessions;
mod skips;
mod state;
mod time;
mod top;
mod windows;

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_stream::{Emitter, Operator, SaveState};

use crate::inputs::below;

/// A value of tests: event time, key and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time_ns: u64,
    key: u64,
    amount: i64,
}

fn time(event: &Event) -> u64 {
    event.time_ns
}

fn key(event: &Event) -> u64 {
    event.key
}

/// The reason of a call of an operator.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A value and its arrival.
    Event(Event, u64),
    Watermark(u64),
}

/// Where the event times begin: at 0, in the middle, and so that the last are at the end of all times.
const BEGINS: [u64; 4] = [0, 1_000_003, i64::MAX as u64 - 2_000, u64::MAX - 4_000];

/// Values whose times advance from `begin` by 3 on average, with jumps, repetitions, and disorder; and watermarks, none of
/// which makes a value late. A key is active for a while.
fn steps(random: &mut Pcg64, count: usize, begin: u64) -> Vec<Step> {
    let mut base = begin;
    let mut events: Vec<Event> = Vec::new();
    for index in 0..count {
        base = base.saturating_add(match below(random, 50) {
            0 => below(random, 200) as u64,
            1..20 => 0,
            _ => below(random, 6) as u64,
        });
        let time_ns = base.saturating_add(below(random, 40) as u64);
        let key = (index / 200 + below(random, 4)) as u64;
        events.push(Event { time_ns, key, amount: below(random, 1_000) as i64 - 500 });
    }
    let mut latest_ns = vec![u64::MAX; count + 1];
    for index in (0..count).rev() {
        latest_ns[index] = latest_ns[index + 1].min(events[index].time_ns);
    }
    let mut steps = Vec::new();
    for (index, &event) in events.iter().enumerate() {
        steps.push(Step::Event(event, arrival_ns(random, index)));
        if below(random, 10) == 0 && index + 1 < count {
            let time_ns = latest_ns[index + 1];
            steps.push(Step::Watermark(time_ns.saturating_sub(below(random, 3) as u64 * 7)));
        }
    }
    steps
}

/// An arrival that is not always later than the previous one, as those of several sources are.
fn arrival_ns(random: &mut Pcg64, index: usize) -> u64 {
    1 + 10 * index as u64 + random.next_u64() % 25
}

fn events(steps: &[Step]) -> impl Iterator<Item = (Event, u64)> {
    steps.iter().filter_map(|step| match *step {
        Step::Event(event, arrival_ns) => Some((event, arrival_ns)),
        Step::Watermark(_) => None,
    })
}

/// Calls the operator for a step and appends what it emits.
fn call<O: Operator<In = Event>>(operator: &mut O, step: Step, outputs: &mut Vec<(O::Out, u64)>) {
    let mut out = Emitter::new();
    match step {
        Step::Event(event, arrival_ns) => {
            out.set_arrival_ns(arrival_ns);
            operator.process(event, &mut out);
        }
        Step::Watermark(time_ns) => operator.watermark(time_ns, &mut out),
    }
    outputs.extend(out.drain());
}

/// The outputs of an operator for all steps and the end.
fn run<O: Operator<In = Event>>(operator: &mut O, steps: &[Step]) -> Vec<(O::Out, u64)> {
    let mut outputs = Vec::new();
    steps.iter().for_each(|&step| call(operator, step, &mut outputs));
    end(operator, &mut outputs);
    outputs
}

fn end<O: Operator>(operator: &mut O, outputs: &mut Vec<(O::Out, u64)>) {
    let mut out = Emitter::new();
    operator.end(&mut out);
    outputs.extend(out.drain());
}

/// Like [`run`], with an operator that takes over from another one, by its saved state, before each of these steps.
fn run_with_reloads<O: Operator<In = Event> + SaveState>(
    make: impl Fn() -> O,
    steps: &[Step],
    at: &[usize],
) -> Vec<(O::Out, u64)> {
    let (mut operator, mut outputs) = (make(), Vec::new());
    for (index, &step) in steps.iter().enumerate() {
        if at.contains(&index) {
            operator = reloaded(&operator, make());
        }
        call(&mut operator, step, &mut outputs);
    }
    operator = reloaded(&operator, make());
    end(&mut operator, &mut outputs);
    outputs
}

/// An operator with the state of another one.
fn reloaded<O: SaveState>(from: &O, mut to: O) -> O {
    let mut bytes = Vec::new();
    from.save(&mut bytes);
    assert_eq!(to.load(&bytes), Ok(()));
    let mut again = Vec::new();
    to.save(&mut again);
    assert!(bytes == again, "equal states have equal bytes");
    to
}

/// Some places of a list.
fn places(random: &mut Pcg64, length: usize) -> [usize; 3] {
    std::array::from_fn(|_| below(random, length))
}
