//! One input, one output.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::guard::{Guard, drop_all_quietly};
use crate::operator::{Emitter, Operator};
use crate::port::Port;
use crate::stage::{AnyPort, Part, Stage};
use crate::tuple::{Item, OperatorId};

pub(crate) struct Node<O: Operator> {
    guard: Guard<O>,
    outputs: Outputs<O::Out>,
    expected: u64,
}

impl<O: Operator> Node<O> {
    pub(crate) fn new(guard: Guard<O>, port: Port<O::Out>) -> Node<O> {
        Node { guard, outputs: Outputs::new(port), expected: 0 }
    }
}

impl<O: Operator> Part for Node<O> {
    fn operator(&self) -> OperatorId {
        self.guard.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.guard.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [Some(&mut self.outputs.port), None]
    }
}

impl<O: Operator> Stage<O::In> for Node<O> {
    fn accept(&mut self, item: Item<O::In>, cx: &mut Context) {
        let Node { guard, outputs, expected } = self;
        match item {
            Item::Tuple(tuple) => {
                outputs.emitter.set_arrival_ns(tuple.arrival_ns);
                let done = guard.tuple(tuple.sequence, expected, cx, |operator| {
                    operator.process(tuple.value, &mut outputs.emitter);
                });
                outputs.release(done, &guard.of.counters, cx);
            }
            Item::Watermark(time_ns, stamp) => {
                outputs.emitter.set_arrival_ns(stamp.arrival_ns);
                let done = guard.mark(stamp, expected, cx, |operator| {
                    operator.watermark(time_ns, &mut outputs.emitter);
                });
                outputs.release(done, &guard.of.counters, cx);
                outputs.port.watermark(time_ns, stamp.arrival_ns, cx);
            }
            Item::End(stamp) => {
                outputs.emitter.set_arrival_ns(stamp.arrival_ns);
                let done = guard.mark(stamp, expected, cx, |operator| operator.end(&mut outputs.emitter));
                outputs.release(done, &guard.of.counters, cx);
                outputs.port.end(stamp.arrival_ns, cx);
            }
        }
    }
}

/// Outputs of a call, which leave when it has succeeded.
pub(crate) struct Outputs<T> {
    pub(crate) emitter: Emitter<T>,
    pub(crate) port: Port<T>,
}

impl<T: Send + 'static> Outputs<T> {
    pub(crate) fn new(port: Port<T>) -> Outputs<T> {
        Outputs { emitter: Emitter::new(), port }
    }

    /// Sends the outputs of a call, or drops them if it panicked.
    pub(crate) fn release(&mut self, done: bool, counters: &Counters, cx: &mut Context) {
        let staged = self.emitter.staged();
        if done {
            counters.tuples_out.add(staged.len() as u64);
            staged.drain(..).for_each(|(value, arrival_ns)| self.port.send(value, arrival_ns, cx));
        } else {
            drop_all_quietly(staged.drain(..));
        }
    }
}
