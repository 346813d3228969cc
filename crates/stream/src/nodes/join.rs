//! Two inputs, one output. The second input is always a ring, which the segment of the join reads: of two inputs
//! only one can be the caller, and a ring within a core costs 11 ns.

use std::sync::Arc;

use super::node::Outputs;
use crate::board::{Context, SLICE_TUPLES};
use crate::counters::Counters;
use crate::guard::Guard;
use crate::operator::{Emitter, Join};
use crate::port::Port;
use crate::ring::{Inlet, Link};
use crate::stage::{AnyPort, Part, Stage};
use crate::tree;
use crate::tuple::{Item, OperatorId, Stamp, Tuple};

pub(crate) struct JoinNode<J: Join> {
    guard: Guard<J>,
    outputs: Outputs<J::Out>,
    second: Inlet<J::Right>,
    inputs: [Input; 2],
    /// The latest arrival of a watermark or the end of either side.
    mark_arrival_ns: u64,
    /// The watermark that was forwarded.
    watermark_ns: Option<u64>,
}

/// State of an input.
#[derive(Clone, Copy, Default)]
struct Input {
    expected: u64,
    watermark_ns: Option<u64>,
    ended: bool,
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
        }
    }

    fn accept_second(&mut self, item: Item<J::Right>, cx: &mut Context) {
        match item {
            Item::Tuple(tuple) => self.tuple(1, tuple, cx, J::right),
            Item::Watermark(time_ns, stamp) => self.watermark(1, time_ns, stamp, cx),
            Item::End(stamp) => self.end(1, stamp, cx),
        }
    }

    fn tuple<T>(
        &mut self,
        input: usize,
        tuple: Tuple<T>,
        cx: &mut Context,
        process: impl FnOnce(&mut J, T, &mut Emitter<J::Out>),
    ) {
        let JoinNode { guard, outputs, inputs, .. } = self;
        outputs.emitter.set_arrival_ns(tuple.arrival_ns);
        let done = guard.tuple(tuple.sequence, &mut inputs[input].expected, cx, |join| {
            process(join, tuple.value, &mut outputs.emitter);
        });
        outputs.release(done, &guard.of.counters, cx);
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
        let open = self.inputs.iter().filter(|input| !input.ended);
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
        self.inputs[input].ended = true;
        self.advance(cx);
        if self.inputs.iter().all(|input| input.ended) {
            self.all(cx, |join, out| join.end(out));
            self.outputs.port.end(self.mark_arrival_ns, cx);
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
        if self.second.backlog() == 0 || !tree::flush_port(&mut self.outputs.port, cx) {
            return;
        }
        let overflows = cx.overflows;
        for _ in 0..SLICE_TUPLES {
            let Some(item) = self.second.pop() else { break };
            cx.taken();
            self.accept_second(item, cx);
            if cx.overflows != overflows {
                break;
            }
        }
        self.second.wake_producer(cx);
    }
}

impl<J: Join> Stage<J::Left> for JoinNode<J> {
    fn accept(&mut self, item: Item<J::Left>, cx: &mut Context) {
        match item {
            Item::Tuple(tuple) => self.tuple(0, tuple, cx, J::left),
            Item::Watermark(time_ns, stamp) => self.watermark(0, time_ns, stamp, cx),
            Item::End(stamp) => self.end(0, stamp, cx),
        }
    }
}
