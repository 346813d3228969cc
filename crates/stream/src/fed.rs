//! A segment that a ring feeds.

use std::any::Any;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::board::Context;
use crate::ring::{Inlet, Link};
use crate::stage::{Part, Segment, Stage};
use crate::tree;

/// A ring and the stage that takes what comes.
pub(crate) struct Fed<T> {
    pub(crate) inlet: Inlet<T>,
    pub(crate) stage: Box<dyn Stage<T>>,
    pub(crate) edges: Edges,
    /// Kept for its capacity.
    pub(crate) tuples: Vec<(T, u64)>,
}

impl<T: Send + 'static> Segment for Fed<T> {
    fn root(&mut self) -> &mut dyn Part {
        &mut *self.stage
    }

    fn inlet(&self) -> Option<&Arc<Link>> {
        Some(self.inlet.link())
    }

    fn backlog(&self) -> usize {
        self.inlet.backlog()
    }

    fn run(&mut self, cx: &mut Context) {
        if !self.edges.prepare(&mut *self.stage, cx) {
            return;
        }
        let (pauses, progress) = (cx.pauses, cx.progress);
        let mut until_half = self.inlet.backlog().saturating_sub(self.inlet.wake_up_at());
        while cx.pauses == pauses && cx.goes_on() {
            let mut taken = 1;
            if let Some(run) = self.inlet.pop_run(cx.run_tuples(), &mut self.tuples) {
                taken = run.tuples.len();
                cx.taken(taken);
                self.stage.accept_run(run, cx);
            } else if let Some(item) = self.inlet.pop() {
                cx.taken(taken);
                self.stage.accept(item, cx);
            } else {
                break;
            }
            if (1..=taken).contains(&until_half) {
                self.inlet.wake_producer(cx);
            }
            until_half = until_half.saturating_sub(taken);
        }
        if cx.progress != progress {
            self.inlet.wake_producer(cx);
        }
        self.edges.are_clear &= cx.pauses == pauses;
    }

    fn edges_changed(&mut self) {
        self.edges = Edges::of(&mut *self.stage);
    }

    fn end(&mut self) {}

    fn barrier(&mut self, _: Barrier) {}

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// State of the edges of a segment.
pub(crate) struct Edges {
    /// Nothing waits for room in a ring.
    pub(crate) are_clear: bool,
    /// An operator has a second input.
    sides: bool,
}

impl Edges {
    /// Returns the edges below `part`, of which nothing is known.
    pub(crate) fn of(part: &mut dyn Part) -> Edges {
        Edges { are_clear: false, sides: tree::has_sides(part) }
    }

    /// Serves second inputs, and sends what waits for room. Whether the first input may be read.
    pub(crate) fn prepare(&mut self, part: &mut dyn Part, cx: &mut Context) -> bool {
        // Even if an edge is full: it may be the ring of a second input in this very segment.
        if self.sides {
            let pauses = cx.pauses;
            tree::poll_sides(part, cx);
            self.are_clear &= cx.pauses == pauses;
        }
        if !self.are_clear {
            self.are_clear = tree::flush(part, cx);
        }
        self.are_clear
    }
}
