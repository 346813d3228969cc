//! No input, one output: the segment of a source. It runs within the loop of the first core, which needs no thread
//! of its own for the input.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::error::Failure;
use crate::fed::Edges;
use crate::guard::{Named, drop_quietly, message};
use crate::operator::{Next, Overload, Source};
use crate::port::Port;
use crate::ring::Link;
use crate::samples::Samples;
use crate::stage::{AnyPort, Part, Segment};
use crate::sync::lock;
use crate::tuple::OperatorId;

/// A source and all that it calls.
pub(crate) struct SourceNode<S: Source> {
    head: Head<S>,
    edges: Edges,
}

/// The source as the root of its segment.
struct Head<S: Source> {
    of: Named<S>,
    overload: Overload,
    port: Port<S::Out>,
    samples: Samples,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Open,
    /// The end is to be emitted next.
    Ending,
    Ended,
}

impl<S: Source> SourceNode<S> {
    pub(crate) fn new(of: Named<S>, port: Port<S::Out>) -> SourceNode<S> {
        let overload = of.operator.overload();
        let samples = Samples::new(of.id.0);
        let mut head = Head { of, overload, port, samples, state: State::Open };
        let edges = Edges::of(&mut head);
        SourceNode { head, edges }
    }
}

impl<S: Source> Segment for SourceNode<S> {
    fn root(&mut self) -> &mut dyn Part {
        &mut self.head
    }

    fn inlet(&self) -> Option<&Arc<Link>> {
        None
    }

    fn backlog(&self) -> usize {
        0
    }

    fn run(&mut self, cx: &mut Context) {
        if !self.edges.prepare(&mut self.head, cx) {
            return;
        }
        let overflows = cx.overflows;
        self.head.emit(cx);
        self.edges.are_clear &= cx.overflows == overflows;
    }

    fn edges_changed(&mut self) {
        self.edges = Edges::of(&mut self.head);
    }

    fn end(&mut self) {
        if self.head.state == State::Open {
            self.head.state = State::Ending;
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl<S: Source> Head<S> {
    /// Emits what is due. A source that is not due twice in a row yields, whatever time it names, so that the other
    /// segments of its worker have their turn.
    fn emit(&mut self, cx: &mut Context) {
        let overflows = cx.overflows;
        let mut now_ns = cx.board.now_ns();
        let mut is_now_read_again = false;
        while cx.overflows == overflows && cx.goes_on() && self.state != State::Ended {
            match self.next(now_ns, cx) {
                Next::Value { value, arrival_ns } => {
                    cx.taken();
                    is_now_read_again = false;
                    self.of.counters.tuples_in.add(1);
                    if self.is_late(arrival_ns, cx) {
                        self.of.counters.shed.add(1);
                        drop_quietly(value);
                    } else {
                        self.of.counters.tuples_out.add(1);
                        self.port.send(value, arrival_ns, cx);
                    }
                }
                Next::Watermark(time_ns) => {
                    cx.taken();
                    self.port.watermark(time_ns, cx.board.now_ns(), cx);
                }
                Next::At(due_ns) => {
                    now_ns = cx.board.now_ns();
                    if due_ns > now_ns || is_now_read_again {
                        cx.due_ns = cx.due_ns.min(due_ns);
                        return;
                    }
                    is_now_read_again = true;
                }
                Next::End => {
                    cx.taken();
                    self.state = State::Ended;
                    self.port.end(cx.board.now_ns(), cx);
                }
            }
        }
    }

    /// Whether to shed a value, by the clock of this moment: the values before it may have taken long.
    fn is_late(&self, arrival_ns: u64, cx: &Context) -> bool {
        match self.overload {
            Overload::Wait => false,
            Overload::Shed { late_max_ns } => cx.board.now_ns().saturating_sub(arrival_ns) > late_max_ns,
        }
    }

    fn next(&mut self, now_ns: u64, cx: &Context) -> Next<S::Out> {
        if self.state == State::Ending {
            return Next::End;
        }
        let start = self.samples.start();
        let next = catch_unwind(AssertUnwindSafe(|| self.of.operator.next(now_ns)));
        // A source that is asked whether anything is due while its worker has nothing else to do is not busy.
        if !matches!(next, Ok(Next::At(_))) {
            self.samples.count(start, &self.of.counters);
        }
        next.unwrap_or_else(|panic| {
            lock(&cx.board.failures).push(Failure {
                operator: self.of.id,
                name: self.of.name.clone(),
                tuple: Some(self.of.counters.tuples_in.get()),
                message: message(panic),
            });
            Next::End
        })
    }
}

impl<S: Source> Part for Head<S> {
    fn operator(&self) -> OperatorId {
        self.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [Some(&mut self.port), None]
    }
}
