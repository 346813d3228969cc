//! One input, one output.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::{Guard, drop_all_quietly};
use crate::input::Input;
use crate::item::{Item, Mark, Run};
use crate::operator::{Emitter, Operator};
use crate::port::Port;
use crate::snapshot::{OperatorSnapshot, Progress};
use crate::stage::{AnyPort, Part, Stage};
use crate::tuple::OperatorId;

pub(crate) struct Node<O: Operator> {
    guard: Guard<O>,
    outputs: Outputs<O::Out>,
    input: Input,
    makes_watermarks: bool,
    /// The barrier at which bins come to this replica that have not been handed over.
    awaited: Option<Barrier>,
    /// Items that have come since then.
    waiting: VecDeque<Item<O::In>>,
}

impl<O: Operator> Node<O> {
    pub(crate) fn new(guard: Guard<O>, port: Port<O::Out>) -> Node<O> {
        let makes_watermarks = guard.of.operator.makes_watermarks();
        Node {
            guard,
            outputs: Outputs::new(port),
            input: Input::default(),
            makes_watermarks,
            awaited: None,
            waiting: VecDeque::new(),
        }
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

    fn resume(&mut self, cx: &mut Context) {
        if let Some(barrier) = self.awaited.take_if(|barrier| self.guard.take_bins(barrier, cx)) {
            drop(barrier);
            cx.progress += 1;
            // Until the next barrier with bins that have not come.
            while self.awaited.is_none()
                && let Some(item) = self.waiting.pop_front()
            {
                self.accept(item, cx);
            }
        }
    }

    fn is_held(&self) -> bool {
        self.awaited.is_some()
    }

    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error> {
        self.input = Input::load(&saved.progress.inputs[0], epoch);
        self.guard.load(saved)
    }
}

impl<O: Operator> Stage<O::In> for Node<O> {
    fn accept_run(&mut self, mut run: Run<'_, O::In>, cx: &mut Context) {
        if self.awaited.is_some() {
            return self.waiting.extend(run.drain().map(Item::Tuple));
        }
        let Node { guard, outputs, input, makes_watermarks, .. } = self;
        let mut tuples = guard.receive(run, &mut input.expected);
        while !tuples.is_empty() {
            let emitter = &mut outputs.emitter;
            guard.process(&mut tuples, emitter, cx, |operator, value, _, out| operator.process(value, out));
            outputs.send(&guard.of.counters, cx);
            outputs.send_watermark(*makes_watermarks, cx);
        }
    }

    fn accept_mark(&mut self, mark: Mark, cx: &mut Context) {
        if self.awaited.is_some() {
            return self.waiting.push_back(Item::Mark(mark));
        }
        let Node { guard, outputs, input, makes_watermarks, awaited, .. } = self;
        match mark {
            Mark::Watermark(time_ns, stamp) => {
                input.watermark_ns = Some(time_ns);
                outputs.emitter.set_arrival_ns(stamp.arrival_ns);
                let done = guard.mark(stamp, &mut input.expected, cx, |operator| {
                    operator.watermark(time_ns, &mut outputs.emitter);
                });
                outputs.release(done, &guard.of.counters, cx);
                let makes_watermark = *makes_watermarks && !guard.is_stopped();
                outputs.send_watermark(makes_watermark, cx);
                if !makes_watermark && (!*makes_watermarks || outputs.is_beyond_watermark(time_ns)) {
                    // A stopped operator makes none: those of its input then let the operators after it continue, from the
                    // last one that it has made.
                    outputs.port.watermark(time_ns, stamp.arrival_ns, cx);
                }
            }
            Mark::End(stamp) => {
                input.has_ended = true;
                outputs.emitter.set_arrival_ns(stamp.arrival_ns);
                let done =
                    guard.mark(stamp, &mut input.expected, cx, |operator| operator.end(&mut outputs.emitter));
                outputs.release(done, &guard.of.counters, cx);
                outputs.port.end(stamp.arrival_ns, cx);
            }
            Mark::Barrier(barrier, sequence) => {
                input.check_barrier(&barrier, sequence, &guard.of.counters);
                let progress = input.progress(vec![outputs.port.sequence()]);
                // Not that of the input: the operator may make its own.
                let watermark_ns = outputs.port.watermark_ns();
                let goes_on = guard.report(&barrier, Progress { watermark_ns, ..progress }, cx);
                outputs.port.barrier(barrier.clone(), cx);
                if !goes_on {
                    *awaited = Some(barrier);
                    cx.pauses += 1;
                }
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
        if !done {
            drop_all_quietly(self.emitter.withdraw(0));
        }
        self.send(counters, cx);
    }

    /// Sends the outputs of calls that have succeeded.
    pub(crate) fn send(&mut self, counters: &Counters, cx: &mut Context) {
        let staged = self.emitter.staged();
        counters.tuples_out.add(staged.len() as u64);
        self.port.send(staged, cx);
    }

    /// Returns whether a time is after the last watermark.
    fn is_beyond_watermark(&self, time_ns: u64) -> bool {
        self.port.watermark_ns().is_none_or(|last_ns| last_ns < time_ns)
    }

    /// Sends the watermark of the last call, if the operator makes them.
    fn send_watermark(&mut self, makes_watermarks: bool, cx: &mut Context) {
        if let Some(time_ns) = self.emitter.take_watermark()
            && makes_watermarks
        {
            self.port.watermark(time_ns, self.emitter.arrival_ns(), cx);
        }
    }
}
