//! One input, each of whose tuples goes to two outputs.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::guard::Guard;
use crate::operator::Recover;
use crate::port::Port;
use crate::stage::{AnyPort, Part, Stage};
use crate::tuple::{Item, OperatorId, Stamp};

/// State of a fork: none.
pub(crate) struct Copies;

impl Recover for Copies {}

pub(crate) struct Fork<T> {
    guard: Guard<Copies>,
    left: Port<T>,
    right: Port<T>,
    expected: u64,
}

impl<T> Fork<T> {
    pub(crate) fn new(guard: Guard<Copies>, left: Port<T>, right: Port<T>) -> Fork<T> {
        Fork { guard, left, right, expected: 0 }
    }
}

impl<T: Send + 'static> Part for Fork<T> {
    fn operator(&self) -> OperatorId {
        self.guard.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.guard.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [Some(&mut self.left), Some(&mut self.right)]
    }
}

impl<T: Clone + Send + 'static> Stage<T> for Fork<T> {
    fn accept(&mut self, item: Item<T>, cx: &mut Context) {
        match item {
            Item::Tuple(tuple) => {
                let mut both = None;
                let copy = |_: &mut Copies| both = Some((tuple.value.clone(), tuple.value));
                self.guard.tuple(tuple.sequence, &mut self.expected, cx, copy);
                if let Some((left, right)) = both {
                    self.guard.of.counters.tuples_out.add(2);
                    self.left.send(left, tuple.arrival_ns, cx);
                    self.right.send(right, tuple.arrival_ns, cx);
                }
            }
            Item::Watermark(time_ns, Stamp { arrival_ns, sequence }) => {
                self.guard.check(sequence, &mut self.expected);
                self.left.watermark(time_ns, arrival_ns, cx);
                self.right.watermark(time_ns, arrival_ns, cx);
            }
            Item::End(Stamp { arrival_ns, sequence }) => {
                self.guard.check(sequence, &mut self.expected);
                self.left.end(arrival_ns, cx);
                self.right.end(arrival_ns, cx);
            }
        }
    }
}
