//! Walks over the stages of a segment.

use std::sync::atomic::Ordering;

use crate::board::Context;
use crate::stage::{AnyPort, Part, Segment};
use crate::tuple::OperatorId;

/// Sends what found its ring full, everywhere below `part`; whether all has been sent.
pub(crate) fn flush(part: &mut dyn Part, cx: &mut Context) -> bool {
    let mut clear = true;
    for port in part.ports().into_iter().flatten() {
        clear &= flush_port(port, cx);
    }
    clear
}

/// As [`flush`] for one edge and all below it.
pub(crate) fn flush_port(port: &mut dyn AnyPort, cx: &mut Context) -> bool {
    let clear = port.flush(cx);
    port.next().is_none_or(|next| flush(next, cx)) && clear
}

/// Takes tuples from the rings of second inputs at `part` and below.
pub(crate) fn poll_sides(part: &mut dyn Part, cx: &mut Context) {
    part.poll_side(cx);
    for port in part.ports().into_iter().flatten() {
        if let Some(next) = port.next() {
            poll_sides(next, cx);
        }
    }
}

/// Whether an operator at `part` or below has a second input.
pub(crate) fn has_sides(part: &mut dyn Part) -> bool {
    part.side().is_some() || part.ports().into_iter().flatten().any(|port| port.next().is_some_and(has_sides))
}

/// Calls `found` with the edge to `target`, if the segment has it.
pub(crate) fn with_port<R>(
    part: &mut dyn Part,
    target: OperatorId,
    found: &mut dyn FnMut(&mut dyn AnyPort) -> R,
) -> Option<R> {
    for port in part.ports().into_iter().flatten() {
        if port.target() == Some(target) {
            return Some(found(port));
        }
        let below = port.next().and_then(|next| with_port(next, target, found));
        if below.is_some() {
            return below;
        }
    }
    None
}

/// Splits a segment before `at`; the ends of the new ring belong to `worker`.
///
/// # Panics
/// If `at` is not an operator of the segment, or its first.
pub(crate) fn cut(
    segment: &mut dyn Segment,
    at: OperatorId,
    slots: usize,
    worker: usize,
) -> Box<dyn Segment> {
    let tail = with_port(segment.root(), at, &mut |port| port.cut(slots, worker)).flatten();
    segment.edges_changed();
    tail.expect("the runtime knows the operators of each segment")
}

/// Tells all rings of a segment that their ends belong to `worker` from now on. The worker that gives a segment away
/// does so: it then never takes one of these rings for its own, and the worker that receives the segment passes a
/// fence before it parks.
pub(crate) fn set_segment_worker(segment: &mut dyn Segment, worker: usize) {
    set_worker(segment.root(), worker);
    if let Some(inlet) = segment.inlet() {
        inlet.consumer.store(worker, Ordering::Relaxed);
    }
}

fn set_worker(part: &mut dyn Part, worker: usize) {
    if let Some(side) = part.side() {
        side.consumer.store(worker, Ordering::Relaxed);
    }
    for port in part.ports().into_iter().flatten() {
        if let Some(link) = port.link() {
            link.producer.store(worker, Ordering::Relaxed);
        }
        if let Some(next) = port.next() {
            set_worker(next, worker);
        }
    }
}
