//! One input, each of whose tuples goes to two outputs.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::Guard;
use crate::input::Input;
use crate::item::{Item, Stamp};
use crate::operator::Recover;
use crate::port::Port;
use crate::snapshot::OperatorSnapshot;
use crate::stage::{AnyPort, Part, Stage};
use crate::tuple::OperatorId;

/// State of a fork: none.
pub(crate) struct Copies;

impl Recover for Copies {}

pub(crate) struct Fork<T> {
    guard: Guard<Copies>,
    left: Port<T>,
    right: Port<T>,
    input: Input,
}

impl<T> Fork<T> {
    pub(crate) fn new(guard: Guard<Copies>, left: Port<T>, right: Port<T>) -> Fork<T> {
        Fork { guard, left, right, input: Input::default() }
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

    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error> {
        self.input = Input::load(&saved.progress.inputs[0], epoch);
        self.guard.load(saved)
    }
}

impl<T: Clone + Send + 'static> Stage<T> for Fork<T> {
    fn accept(&mut self, item: Item<T>, cx: &mut Context) {
        match item {
            Item::Tuple(tuple) => {
                let mut both = None;
                let copy = |_: &mut Copies| both = Some((tuple.value.clone(), tuple.value));
                self.guard.tuple(tuple.sequence, &mut self.input.expected, cx, copy);
                if let Some((left, right)) = both {
                    self.guard.of.counters.tuples_out.add(2);
                    self.left.send(left, tuple.arrival_ns, cx);
                    self.right.send(right, tuple.arrival_ns, cx);
                }
            }
            Item::Watermark(time_ns, Stamp { arrival_ns, sequence }) => {
                self.guard.check(sequence, &mut self.input.expected);
                self.input.watermark_ns = Some(time_ns);
                self.left.watermark(time_ns, arrival_ns, cx);
                self.right.watermark(time_ns, arrival_ns, cx);
            }
            Item::End(Stamp { arrival_ns, sequence }) => {
                self.guard.check(sequence, &mut self.input.expected);
                self.input.has_ended = true;
                self.left.end(arrival_ns, cx);
                self.right.end(arrival_ns, cx);
            }
            Item::Barrier(barrier, sequence) => {
                self.input.check_barrier(&barrier, sequence, &self.guard.of.counters);
                let outputs = vec![self.left.sequence(), self.right.sequence()];
                self.guard.report(&barrier, self.input.progress(outputs), cx);
                self.left.barrier(barrier.clone(), cx);
                self.right.barrier(barrier, cx);
            }
        }
    }
}
