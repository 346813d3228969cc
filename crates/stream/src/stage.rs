//! Stages of a segment and the edges between them, without their types.
//!
//! A segment is a tree of stages that call each other directly. Its root is fed by a ring or is a source, and its
//! leaves are sinks or rings to other segments. What concerns the tree as a whole (`tree.rs`) needs no types of
//! values; what happens at one edge (`port.rs`) does.

use std::any::Any;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::item::{Item, Mark, Run};
use crate::ring::Link;
use crate::snapshot::OperatorSnapshot;
use crate::tuple::OperatorId;
use crate::wakeup::Wakeup;

/// An operator in its place in a segment.
pub(crate) trait Part: Send {
    fn operator(&self) -> OperatorId;

    fn counters(&self) -> &Arc<Counters>;

    /// Returns the edges to the operators that follow; none of an operator that has another number of them, which it
    /// visits.
    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2];

    /// Calls `visit` with each edge to an operator that follows, in order.
    fn visit_ports(&mut self, visit: &mut dyn FnMut(&mut dyn AnyPort)) {
        self.ports().into_iter().flatten().for_each(visit);
    }

    /// Returns the ring of the second input, or of the first of several inputs after the first.
    fn side(&self) -> Option<&Arc<Link>> {
        None
    }

    /// Calls `visit` with the ring of each input but the first.
    fn visit_sides(&self, visit: &mut dyn FnMut(&Arc<Link>)) {
        self.side().into_iter().for_each(visit);
    }

    /// Returns whether [`Part::poll_side`] is to be called although no item has come on the first input.
    fn is_polled(&self) -> bool {
        self.side().is_some()
    }

    /// Takes some tuples from the rings of the other inputs than the first, or replies to requests, unless an edge below
    /// is full.
    fn poll_side(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// Returns the handle by which threads that are not workers wake the worker.
    fn wakeup(&self) -> Option<&Wakeup> {
        None
    }

    /// Goes on with what it was held back for, if that has come.
    fn resume(&mut self, cx: &mut Context) {
        let _ = cx;
    }

    /// Returns whether the first input is held back: its barrier has come, and that of another input has not, or bins
    /// that move at the barrier have not; or as many requests are in flight as may be.
    fn is_held(&self) -> bool {
        false
    }

    /// Loads what the snapshot of an epoch has of it and of its inputs. The snapshot has as many inputs as this
    /// operator.
    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error>;
}

/// An operator that takes values of type `T` at its first input.
pub(crate) trait Stage<T>: Part {
    /// Takes all tuples of a run, and leaves its memory for the next one.
    fn accept_run(&mut self, run: Run<'_, T>, cx: &mut Context);

    fn accept_mark(&mut self, mark: Mark, cx: &mut Context);

    /// Takes a single item, as most arrive in runs.
    fn accept(&mut self, item: Item<T>, cx: &mut Context) {
        match item {
            Item::Tuple(tuple) => {
                let mut tuples = vec![(tuple.value, tuple.arrival_ns)];
                self.accept_run(Run { first: tuple.sequence, tuples: &mut tuples }, cx);
            }
            Item::Mark(mark) => self.accept_mark(mark, cx),
        }
    }
}

/// An edge: a call of the next stage, or a ring to another segment.
pub(crate) trait AnyPort: Send {
    /// Returns the operator whose first input is at its end; none if it leads to a second input.
    fn target(&self) -> Option<OperatorId>;

    /// Returns the next stage, if the edge is a call.
    fn next(&mut self) -> Option<&mut dyn Part>;

    /// Returns the number of the next item.
    fn sequence(&self) -> u64;

    /// Returns the last watermark that was sent.
    fn watermark_ns(&self) -> Option<u64>;

    /// Sets the number of the next item and the last watermark.
    fn load(&mut self, sequence: u64, watermark_ns: Option<u64>);

    /// Returns the ring, if the edge is one.
    fn link(&self) -> Option<&Arc<Link>>;

    /// Sends what found the ring full; whether all has been sent.
    fn flush(&mut self, cx: &mut Context) -> bool;

    /// Replaces a call by a ring of this number of slots, whose ends belong to `worker`. Returns the segment
    /// that the ring leads to.
    fn cut(&mut self, slots: usize, worker: usize) -> Option<Box<dyn Segment>>;

    /// Makes a ring a call: takes over the segment at its end and gives it all that is in the ring.
    fn fuse(&mut self, segment: Box<dyn Segment>, cx: &mut Context);
}

/// Operators that call each other directly, with their states and their ends of all rings.
///
/// It is owned by one thread at a time. Between two calls of `run` no tuple is in progress.
pub(crate) trait Segment: Send {
    /// Returns the first operator.
    fn root(&mut self) -> &mut dyn Part;

    /// Returns the ring that feeds it; none for a source.
    fn inlet(&self) -> Option<&Arc<Link>>;

    /// Items in that ring.
    fn backlog(&self) -> usize;

    /// Processes tuples until the input or the budget ends, a ring is full, or the worker has mail.
    fn run(&mut self, cx: &mut Context);

    /// The edges have changed.
    fn edges_changed(&mut self);

    /// A source emits its end next.
    fn end(&mut self);

    /// A source emits this barrier next.
    fn barrier(&mut self, barrier: Barrier);

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}
