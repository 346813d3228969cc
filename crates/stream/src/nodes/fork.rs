//! One input, each of whose tuples goes to two outputs.

use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::Guard;
use crate::input::Input;
use crate::item::{Mark, Run, Stamp};
use crate::operator::{Emitter, Recover};
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
    /// Copies for the left output, and the values for the right one. Kept for their capacity.
    copies: Emitter<T>,
    values: Vec<(T, u64)>,
    input: Input,
}

impl<T> Fork<T> {
    pub(crate) fn new(guard: Guard<Copies>, left: Port<T>, right: Port<T>) -> Fork<T> {
        Fork { guard, left, right, copies: Emitter::new(), values: Vec::new(), input: Input::default() }
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
    fn accept_run(&mut self, run: Run<'_, T>, cx: &mut Context) {
        let Fork { guard, left, right, copies, values, input } = self;
        let mut tuples = guard.receive(run, &mut input.expected);
        while !tuples.is_empty() {
            guard.process(&mut tuples, copies, cx, |_, value, _, out| {
                out.emit(value.clone());
                values.push((value, out.arrival_ns()));
            });
            guard.of.counters.tuples_out.add(2 * values.len() as u64);
            left.send(copies.staged(), cx);
            right.send(values, cx);
        }
    }

    fn accept_mark(&mut self, mark: Mark, cx: &mut Context) {
        match mark {
            Mark::Watermark(time_ns, Stamp { arrival_ns, sequence }) => {
                self.guard.check(sequence, &mut self.input.expected);
                self.input.watermark_ns = Some(time_ns);
                self.left.watermark(time_ns, arrival_ns, cx);
                self.right.watermark(time_ns, arrival_ns, cx);
            }
            Mark::End(Stamp { arrival_ns, sequence }) => {
                self.guard.check(sequence, &mut self.input.expected);
                self.input.has_ended = true;
                self.left.end(arrival_ns, cx);
                self.right.end(arrival_ns, cx);
            }
            Mark::Barrier(barrier, sequence) => {
                self.input.check_barrier(&barrier, sequence, &self.guard.of.counters);
                let outputs = vec![self.left.sequence(), self.right.sequence()];
                self.guard.report(&barrier, self.input.progress(outputs), cx);
                self.left.barrier(barrier.clone(), cx);
                self.right.barrier(barrier, cx);
            }
        }
    }
}
