//! Two inputs, one output. The second input is always a ring, which the segment of the join reads: of two inputs
//! only one can be the caller, and a ring within a core costs 11 ns.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::node::Outputs;
use crate::barrier::Barrier;
use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::Guard;
use crate::input::Input;
use crate::item::{Item, Mark, Run, Stamp};
use crate::operator::{Emitter, Join};
use crate::port::Port;
use crate::ring::{Inlet, Link};
use crate::snapshot::{OperatorSnapshot, Progress};
use crate::stage::{AnyPort, Part, Stage};
use crate::tree;
use crate::tuple::OperatorId;

pub(crate) struct JoinNode<J: Join> {
    guard: Guard<J>,
    outputs: Outputs<J::Out>,
    second: Inlet<J::Right>,
    inputs: [Input; 2],
    /// The latest arrival of a watermark or the end of either side.
    mark_arrival_ns: u64,
    /// The watermark that was forwarded.
    watermark_ns: Option<u64>,
    /// The input whose barrier has come while that of the other one has not. It is held back.
    held: Option<usize>,
    /// Since when, by the stream's clock.
    held_since_ns: u64,
    /// The barrier at which bins come to this replica that have not been handed over. Both inputs are held back.
    awaited: Option<Barrier>,
    /// Items that came on the first input while it was held back: what a fusion found in its ring.
    waiting: VecDeque<Item<J::Left>>,
    /// Tuples of the second input's ring, kept for its capacity.
    rights: Vec<(J::Right, u64)>,
}

impl<J: Join> JoinNode<J> {
    pub(crate) fn new(guard: Guard<J>, second: Inlet<J::Right>, port: Port<J::Out>) -> JoinNode<J> {
        let outputs = Outputs::new(port);
        JoinNode {
            guard,
            outputs,
            second,
            inputs: Default::default(),
            mark_arrival_ns: 0,
            watermark_ns: None,
            held: None,
            held_since_ns: 0,
            awaited: None,
            waiting: VecDeque::new(),
            rights: Vec::new(),
        }
    }

    fn run<T>(
        &mut self,
        input: usize,
        run: Run<'_, T>,
        cx: &mut Context,
        mut process: impl FnMut(&mut J, T, &mut Emitter<J::Out>),
    ) {
        let JoinNode { guard, outputs, inputs, .. } = self;
        let mut tuples = guard.receive(run, &mut inputs[input].expected);
        while !tuples.is_empty() {
            let emitter = &mut outputs.emitter;
            guard.process(&mut tuples, emitter, cx, |join, value, _, out| process(join, value, out));
            outputs.send(&guard.of.counters, cx);
            // A join makes none.
            outputs.emitter.take_watermark();
        }
    }

    fn mark(&mut self, input: usize, mark: Mark, cx: &mut Context) {
        match mark {
            Mark::Watermark(time_ns, stamp) => self.watermark(input, time_ns, stamp, cx),
            Mark::End(stamp) => self.end(input, stamp, cx),
            Mark::Barrier(barrier, sequence) => self.barrier(input, barrier, sequence, cx),
        }
    }

    /// Takes a run, or else a mark, from the ring of the second input; their number.
    fn take_second(&mut self, count: usize, cx: &mut Context) -> usize {
        let mut rights = mem::take(&mut self.rights);
        let mut taken = 0;
        if let Some(run) = self.second.pop_run(count, &mut rights) {
            taken = run.tuples.len();
            cx.taken(taken);
            self.run(1, run, cx, J::right);
        } else if let Some(item) = self.second.pop() {
            taken = 1;
            cx.taken(taken);
            match item {
                Item::Tuple(tuple) => {
                    rights.push((tuple.value, tuple.arrival_ns));
                    self.run(1, Run { first: tuple.sequence, tuples: &mut rights }, cx, J::right);
                }
                Item::Mark(mark) => self.mark(1, mark, cx),
            }
        }
        self.rights = rights;
        taken
    }

    fn note(&mut self, input: usize, stamp: Stamp) {
        self.guard.check(stamp.sequence, &mut self.inputs[input].expected);
        self.mark_arrival_ns = self.mark_arrival_ns.max(stamp.arrival_ns);
    }

    fn watermark(&mut self, input: usize, time_ns: u64, stamp: Stamp, cx: &mut Context) {
        self.note(input, stamp);
        self.inputs[input].watermark_ns = Some(time_ns);
        self.advance(cx);
    }

    /// Forwards the watermark of the output if it has advanced: the earlier one of the inputs that have not ended.
    /// After both have ended, the latest, so that the last watermark does not depend on which has ended first.
    fn advance(&mut self, cx: &mut Context) {
        let open = self.inputs.iter().filter(|input| !input.has_ended);
        // None is less than any time.
        let earliest = open.map(|input| input.watermark_ns).min();
        let latest = self.inputs.iter().map(|input| input.watermark_ns).max();
        let watermark_ns = earliest.or(latest).flatten();
        if let Some(time_ns) = watermark_ns
            && self.watermark_ns < watermark_ns
        {
            self.watermark_ns = watermark_ns;
            self.all(cx, |join, out| join.watermark(time_ns, out));
            self.outputs.port.watermark(time_ns, self.mark_arrival_ns, cx);
        }
    }

    fn end(&mut self, input: usize, stamp: Stamp, cx: &mut Context) {
        self.note(input, stamp);
        self.inputs[input].has_ended = true;
        self.advance(cx);
        if self.inputs.iter().all(|input| input.has_ended) {
            self.all(cx, |join, out| join.end(out));
            self.outputs.port.end(self.mark_arrival_ns, cx);
        }
    }

    /// A barrier has come on an input, which is held back until the barrier of the other one has come as well.
    fn barrier(&mut self, input: usize, barrier: Barrier, sequence: u64, cx: &mut Context) {
        self.inputs[input].check_barrier(&barrier, sequence, &self.guard.of.counters);
        if self.held.take().is_none() {
            (self.held, self.held_since_ns) = (Some(input), cx.board.now_ns());
            cx.pauses += 1;
            return;
        }
        let held_ns = cx.board.now_ns().saturating_sub(self.held_since_ns);
        self.guard.of.counters.held_ns.note(held_ns);
        let progress = Progress {
            inputs: self.inputs.iter().map(Input::save).collect(),
            outputs: vec![self.outputs.port.sequence()],
            watermark_ns: self.watermark_ns,
            arrival_ns: self.mark_arrival_ns,
            has_ended: self.inputs.iter().all(|input| input.has_ended),
            ..Progress::default()
        };
        let goes_on = self.guard.report(&barrier, progress, cx);
        self.outputs.port.barrier(barrier.clone(), cx);
        if goes_on {
            self.accept_waiting(cx);
        } else {
            self.awaited = Some(barrier);
            cx.pauses += 1;
        }
    }

    /// Takes the items that came while the first input was held back, until the next barrier among them.
    fn accept_waiting(&mut self, cx: &mut Context) {
        while !self.is_held()
            && let Some(item) = self.waiting.pop_front()
        {
            self.accept(item, cx);
        }
    }

    /// Calls the join for what concerns both inputs.
    fn all(&mut self, cx: &mut Context, work: impl FnOnce(&mut J, &mut Emitter<J::Out>)) {
        let JoinNode { guard, outputs, .. } = self;
        outputs.emitter.set_arrival_ns(self.mark_arrival_ns);
        let done = guard.call_for_mark(cx, |join| work(join, &mut outputs.emitter));
        outputs.release(done, &guard.of.counters, cx);
    }
}

impl<J: Join> Part for JoinNode<J> {
    fn operator(&self) -> OperatorId {
        self.guard.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.guard.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [Some(&mut self.outputs.port), None]
    }

    fn side(&self) -> Option<&Arc<Link>> {
        Some(self.second.link())
    }

    fn poll_side(&mut self, cx: &mut Context) {
        let is_held = self.held == Some(1) || self.awaited.is_some();
        if is_held || self.second.backlog() == 0 || !tree::flush_port(&mut self.outputs.port, cx) {
            return;
        }
        let pauses = cx.pauses;
        let mut left = cx.slice_tuples();
        while left > 0 && cx.pauses == pauses {
            match self.take_second(left.min(cx.run_length.tuples()), cx) {
                0 => break,
                taken => left -= taken,
            }
        }
        self.second.wake_producer(cx);
    }

    fn resume(&mut self, cx: &mut Context) {
        if let Some(barrier) = self.awaited.take_if(|barrier| self.guard.take_bins(barrier, cx)) {
            drop(barrier);
            cx.progress += 1;
            self.accept_waiting(cx);
        }
    }

    fn is_held(&self) -> bool {
        self.held == Some(0) || self.awaited.is_some()
    }

    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error> {
        let Progress { inputs, watermark_ns, arrival_ns, .. } = &saved.progress;
        self.inputs = [Input::load(&inputs[0], epoch), Input::load(&inputs[1], epoch)];
        (self.watermark_ns, self.mark_arrival_ns) = (*watermark_ns, *arrival_ns);
        self.guard.load(saved)
    }
}

impl<J: Join> Stage<J::Left> for JoinNode<J> {
    fn accept_run(&mut self, mut run: Run<'_, J::Left>, cx: &mut Context) {
        if self.is_held() {
            self.waiting.extend(run.drain().map(Item::Tuple));
        } else {
            self.run(0, run, cx, J::left);
        }
    }

    fn accept_mark(&mut self, mark: Mark, cx: &mut Context) {
        if self.is_held() {
            self.waiting.push_back(Item::Mark(mark));
        } else {
            self.mark(0, mark, cx);
        }
    }
}
