//! A chain of operators that do next to nothing.

use sakiyomi_stream::{
    Emitter, Error, Flow, Next, Recover, Sink, Source, Stream, StreamBuilder, Tuple, each,
};

/// Operators between source and sink.
pub(crate) const OPERATORS: usize = 8;

/// Slots of each ring.
pub(crate) const RING_SLOTS: usize = 1_024;

/// A chain of operators that add 1.
pub(crate) fn chain(count: u64, period_ns: u64) -> Result<Stream, Error> {
    let builder = StreamBuilder::new(RING_SLOTS);
    let mut flow: Flow<u64> = builder.source("ticks", Ticks { next: 0, count, period_ns });
    for number in 0..OPERATORS {
        flow = flow.then(&format!("add {number}"), each(|n: u64, out: &mut Emitter<u64>| out.emit(n + 1)));
    }
    flow.sink("sink", Sum(0));
    builder.build()
}

/// Numbers at a constant rate, or as fast as they are taken if the period is 0.
pub(crate) struct Ticks {
    pub(crate) next: u64,
    pub(crate) count: u64,
    pub(crate) period_ns: u64,
}

impl Source for Ticks {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        let due_ns = self.next * self.period_ns;
        if self.next == self.count {
            return Next::End;
        }
        if due_ns > now_ns {
            return Next::At(due_ns);
        }
        self.next += 1;
        Next::Value { value: self.next, arrival_ns: if self.period_ns == 0 { now_ns } else { due_ns } }
    }
}

pub(crate) struct Sum(pub(crate) u64);

impl Recover for Sum {}

impl Sink for Sum {
    type In = u64;

    fn consume(&mut self, tuple: Tuple<u64>) {
        self.0 = std::hint::black_box(self.0.wrapping_add(tuple.value));
    }
}
