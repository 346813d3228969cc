//! Walks over the stages of a segment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::board::{Board, Context};
use crate::error::Error;
use crate::snapshot::Snapshot;
use crate::stage::{AnyPort, Part, Segment};
use crate::tuple::OperatorId;

/// Sends what found its ring full, everywhere below `part`. Whether `part` may take input: all has been sent, and no
/// operator is held back by a barrier.
pub(crate) fn flush(part: &mut dyn Part, cx: &mut Context) -> bool {
    part.resume(cx);
    let mut clear = !part.is_held();
    part.visit_ports(&mut |port| clear &= flush_port(port, cx));
    clear
}

/// Like [`flush`] for one edge and all below it.
pub(crate) fn flush_port(port: &mut dyn AnyPort, cx: &mut Context) -> bool {
    let clear = port.flush(cx);
    port.next().is_none_or(|next| flush(next, cx)) && clear
}

/// Takes tuples from the rings of second inputs, and replies to requests, at `part` and below.
pub(crate) fn poll_sides(part: &mut dyn Part, cx: &mut Context) {
    part.poll_side(cx);
    visit_next(part, &mut |next| poll_sides(next, cx));
}

/// Calls `visit` with each stage that `part` calls.
fn visit_next(part: &mut dyn Part, visit: &mut dyn FnMut(&mut dyn Part)) {
    part.visit_ports(&mut |port| {
        if let Some(next) = port.next() {
            visit(next);
        }
    });
}

/// Returns whether an operator at `part` or below has a second input or requests in flight.
pub(crate) fn has_sides(part: &mut dyn Part) -> bool {
    let mut is_any = part.is_polled();
    visit_next(part, &mut |next| is_any = is_any || has_sides(next));
    is_any
}

/// Calls `found` with the edge to `target`, if the segment has it.
pub(crate) fn with_port<R>(
    part: &mut dyn Part,
    target: OperatorId,
    found: &mut dyn FnMut(&mut dyn AnyPort) -> R,
) -> Option<R> {
    let mut result = None;
    part.visit_ports(&mut |port| {
        if result.is_some() {
            return;
        }
        result = match port.target() == Some(target) {
            true => Some(found(port)),
            false => port.next().and_then(|next| with_port(next, target, found)),
        };
    });
    result
}

/// Loads a snapshot into `part` and all that it calls.
///
/// `numbers` has the number of each operator in the snapshot.
pub(crate) fn load(part: &mut dyn Part, snapshot: &Snapshot, numbers: &[usize]) -> Result<(), Error> {
    let saved = &snapshot.operators[numbers[part.operator().0]];
    part.load(saved, snapshot.epoch)?;
    // The sequences of a partition begin with 0, however many outputs it has.
    let mut sequences = saved.progress.outputs.iter().copied();
    let mut result = Ok(());
    part.visit_ports(&mut |port| {
        port.load(sequences.next().unwrap_or(0), saved.progress.watermark_ns);
        if let (Ok(()), Some(next)) = (&result, port.next()) {
            result = load(next, snapshot, numbers);
        }
    });
    result
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

/// Connects all handles of a segment by which threads that are not workers wake its worker with a board.
pub(crate) fn connect(part: &mut dyn Part, board: &Arc<Board>) {
    if let Some(wakeup) = part.wakeup() {
        wakeup.connect(board);
    }
    visit_next(part, &mut |next| connect(next, board));
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
    part.visit_sides(&mut |side| side.consumer.store(worker, Ordering::Relaxed));
    if let Some(wakeup) = part.wakeup() {
        wakeup.set_worker(worker);
    }
    part.visit_ports(&mut |port| {
        if let Some(link) = port.link() {
            link.producer.store(worker, Ordering::Relaxed);
        }
        if let Some(next) = port.next() {
            set_worker(next, worker);
        }
    });
}
