//! An edge from one operator to the next: a direct call, or a ring to another segment.
//!
//! Live SPLIT and FUSE swap the two between tuples. The tuples keep their numbers, so that the receiver notices each
//! one that is lost, doubled or out of order.

use std::mem;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::board::Context;
use crate::fed::{Edges, Fed};
use crate::item::{Item, Mark, Run, Stamp};
use crate::ring::{Link, Outlet, ring};
use crate::stage::{AnyPort, Part, Segment, Stage};
use crate::tuple::OperatorId;

/// The edge.
pub(crate) struct Port<T> {
    target: Option<OperatorId>,
    /// Number of the next item.
    sequence: u64,
    /// The last watermark.
    watermark_ns: Option<u64>,
    edge: Edge<T>,
}

enum Edge<T> {
    Direct(Box<dyn Stage<T>>),
    Ring(Outlet<T>),
}

impl<T: Send + 'static> Port<T> {
    /// Returns a call of `stage`.
    pub(crate) fn direct(stage: Box<dyn Stage<T>>) -> Port<T> {
        Port { target: Some(stage.operator()), sequence: 0, watermark_ns: None, edge: Edge::Direct(stage) }
    }

    /// Returns a ring to a second input, which stays one.
    pub(crate) fn second(outlet: Outlet<T>) -> Port<T> {
        Port { target: None, sequence: 0, watermark_ns: None, edge: Edge::Ring(outlet) }
    }

    /// Sends values with their arrivals, and leaves their memory for the next ones.
    pub(crate) fn send(&mut self, tuples: &mut Vec<(T, u64)>, cx: &mut Context) {
        if tuples.is_empty() {
            return;
        }
        let run = Run { first: self.sequence, tuples };
        self.sequence += run.tuples.len() as u64;
        match &mut self.edge {
            Edge::Direct(stage) => stage.accept_run(run, cx),
            Edge::Ring(outlet) => outlet.push_run(run, cx),
        }
    }

    /// Sends a watermark.
    pub(crate) fn watermark(&mut self, time_ns: u64, arrival_ns: u64, cx: &mut Context) {
        let sequence = self.number();
        self.watermark_ns = Some(time_ns);
        self.forward(Mark::Watermark(time_ns, Stamp { arrival_ns, sequence }), cx);
    }

    /// Sends the end.
    pub(crate) fn end(&mut self, arrival_ns: u64, cx: &mut Context) {
        let sequence = self.number();
        self.forward(Mark::End(Stamp { arrival_ns, sequence }), cx);
    }

    /// Sends a barrier, which takes no number.
    pub(crate) fn barrier(&mut self, barrier: Barrier, cx: &mut Context) {
        self.forward(Mark::Barrier(barrier, self.sequence), cx);
    }

    fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    fn forward(&mut self, mark: Mark, cx: &mut Context) {
        match &mut self.edge {
            Edge::Direct(stage) => stage.accept_mark(mark, cx),
            Edge::Ring(outlet) => outlet.push(Item::Mark(mark), cx),
        }
    }
}

impl<T: Send + 'static> AnyPort for Port<T> {
    fn target(&self) -> Option<OperatorId> {
        self.target
    }

    fn next(&mut self) -> Option<&mut dyn Part> {
        match &mut self.edge {
            Edge::Direct(stage) => Some(&mut **stage),
            Edge::Ring(_) => None,
        }
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn watermark_ns(&self) -> Option<u64> {
        self.watermark_ns
    }

    fn load(&mut self, sequence: u64, watermark_ns: Option<u64>) {
        (self.sequence, self.watermark_ns) = (sequence, watermark_ns);
    }

    fn link(&self) -> Option<&Arc<Link>> {
        match &self.edge {
            Edge::Direct(_) => None,
            Edge::Ring(outlet) => Some(outlet.link()),
        }
    }

    fn flush(&mut self, cx: &mut Context) -> bool {
        match &mut self.edge {
            Edge::Direct(_) => true,
            Edge::Ring(outlet) => outlet.flush(cx),
        }
    }

    fn cut(&mut self, slots: usize, worker: usize) -> Option<Box<dyn Segment>> {
        let Edge::Direct(stage) = &self.edge else { return None };
        let (outlet, inlet) = ring(slots, worker, Arc::clone(&stage.counters().ring));
        let Edge::Direct(mut stage) = mem::replace(&mut self.edge, Edge::Ring(outlet)) else {
            unreachable!("the edge was a call a line ago")
        };
        let edges = Edges::of(&mut *stage);
        Some(Box::new(Fed { inlet, stage, edges, tuples: Vec::new() }))
    }

    fn fuse(&mut self, segment: Box<dyn Segment>, cx: &mut Context) {
        let fed = segment.into_any().downcast::<Fed<T>>();
        let Fed { mut inlet, mut stage, .. } = *fed.expect("the segment takes what this edge carries");
        while let Some(item) = inlet.pop() {
            stage.accept(item, cx);
        }
        if let Edge::Ring(outlet) = &mut self.edge {
            outlet.take_pending().into_iter().for_each(|item| stage.accept(item, cx));
        }
        self.edge = Edge::Direct(stage);
    }
}
