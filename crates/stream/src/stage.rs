//! Stages of a segment and the edges between them, without their types.
//!
//! A segment is a tree of stages that call each other directly. Its root is fed by a ring or is a source, and its
//! leaves are sinks or rings to other segments. What concerns the tree as a whole (`tree.rs`) needs no types of
//! values; what happens at one edge (`port.rs`) does.

use std::any::Any;
use std::sync::Arc;

use crate::board::Context;
use crate::counters::Counters;
use crate::ring::Link;
use crate::tuple::{Item, OperatorId};

/// An operator in its place in a segment.
pub(crate) trait Part: Send {
    fn operator(&self) -> OperatorId;

    fn counters(&self) -> &Arc<Counters>;

    /// The edges to the operators that follow.
    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2];

    /// The ring of the second input.
    fn side(&self) -> Option<&Arc<Link>> {
        None
    }

    /// Takes some tuples from the ring of the second input, unless an edge below is full.
    fn poll_side(&mut self, cx: &mut Context) {
        let _ = cx;
    }
}

/// An operator that takes values of type `T` at its first input.
pub(crate) trait Stage<T>: Part {
    fn accept(&mut self, item: Item<T>, cx: &mut Context);
}

/// An edge: a call of the next stage, or a ring to another segment.
pub(crate) trait AnyPort: Send {
    /// The operator whose first input is at its end; none if it leads to a second input.
    fn target(&self) -> Option<OperatorId>;

    /// The next stage, if the edge is a call.
    fn next(&mut self) -> Option<&mut dyn Part>;

    /// The ring, if the edge is one.
    fn link(&self) -> Option<&Arc<Link>>;

    /// Sends what found the ring full; whether all has been sent.
    fn flush(&mut self, cx: &mut Context) -> bool;

    /// Makes a call a ring of so many slots, whose ends belong to `worker`. Returns the segment that it leads to.
    fn cut(&mut self, slots: usize, worker: usize) -> Option<Box<dyn Segment>>;

    /// Makes a ring a call: takes over the segment at its end and gives it all that is in the ring.
    fn fuse(&mut self, segment: Box<dyn Segment>, cx: &mut Context);
}

/// Operators that call each other directly, with their states and their ends of all rings.
///
/// It is owned by one thread at a time. Between two calls of `run` no tuple is in progress.
pub(crate) trait Segment: Send {
    /// The first operator.
    fn root(&mut self) -> &mut dyn Part;

    /// The ring that feeds it; none for a source.
    fn inlet(&self) -> Option<&Arc<Link>>;

    /// Items in that ring.
    fn backlog(&self) -> usize;

    /// Processes tuples until the input or the budget ends, a ring is full, or the worker has mail.
    fn run(&mut self, cx: &mut Context);

    /// The edges have changed.
    fn edges_changed(&mut self);

    /// A source emits its end next.
    fn end(&mut self);

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}
