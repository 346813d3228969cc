//! The chain as a stream: a source that follows a schedule, operators that compute for their service times, and a sink.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sakiyomi_placement::{Group, Placement};
use sakiyomi_stream::{
    Each, Emitter, Error, Flow, Next, Recover, Sink, Source, Stream, StreamBuilder, Tuple, each,
};

use super::load::{FILTER, Item, OPERATORS, Pattern, Schedule};

/// The sink's number among the operators of the stream, of which the source is the first.
pub(crate) const SINK: usize = OPERATORS + 1;

/// Slots of a ring, and places of a channel.
pub(crate) const RING_SLOTS: usize = 1_024;

/// The chain under a load.
///
/// # Errors
/// None: each output has a consumer.
pub(crate) fn chain(pattern: &Arc<Pattern>, seed: u64) -> Result<Stream, Error> {
    let builder = StreamBuilder::new(RING_SLOTS);
    let mut flow: Flow<Item> = builder.source("arrivals", Arrivals(Schedule::new(pattern, seed)));
    for operator in 0..OPERATORS {
        flow = flow.then(&format!("operator {}", operator + 1), burning(pattern, operator));
    }
    flow.sink("sink", Last);
    builder.build()
}

fn burning(
    pattern: &Arc<Pattern>,
    operator: usize,
) -> Each<Item, Item, impl FnMut(Item, &mut Emitter<Item>) + Send + 'static> {
    let pattern = Arc::clone(pattern);
    each(move |item: Item, out: &mut Emitter<Item>| {
        if serve(&pattern, operator, item) {
            out.emit(item);
        }
    })
}

/// Computes for the service time of an operator. Whether the tuple continues.
pub(crate) fn serve(pattern: &Pattern, operator: usize, item: Item) -> bool {
    let (start, time) =
        (Instant::now(), Duration::from_nanos(pattern.phases[item.phase].services_ns[operator]));
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
    operator != FILTER || item.passes(pattern)
}

/// The placement whose second core has the operators of the stream from `cut` on; all are on one core if it is 0.
pub(crate) fn placement(cut: usize) -> Placement {
    let group = |operators: std::ops::RangeInclusive<usize>, core| Group {
        operators: operators.collect(),
        cores: vec![core],
    };
    match cut {
        0 => Placement { groups: vec![group(0..=SINK, 0)] },
        _ => Placement { groups: vec![group(0..=cut - 1, 0), group(cut..=SINK, 1)] },
    }
}

/// The worker of each operator of the stream under that placement.
pub(crate) fn workers(cut: usize) -> Vec<usize> {
    (0..=SINK).map(|operator| usize::from(cut > 0 && operator >= cut)).collect()
}

struct Arrivals(Schedule);

impl Source for Arrivals {
    type Out = Item;

    fn next(&mut self, now_ns: u64) -> Next<Item> {
        match self.0.due_ns() {
            Some(due_ns) if due_ns > now_ns => Next::At(due_ns),
            Some(arrival_ns) if now_ns < self.0.end_ns() => Next::Value { value: self.0.take(), arrival_ns },
            _ => Next::End,
        }
    }
}

/// The runtime checks the numbers of its tuples and records their latencies.
struct Last;

impl Recover for Last {}

impl Sink for Last {
    type In = Item;

    fn consume(&mut self, tuple: Tuple<Item>) {
        std::hint::black_box(tuple.value.number);
    }
}
