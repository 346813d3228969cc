//! One input, one output, and requests in flight between them.
//!
//! A barrier overtakes the values in flight: they and the marks between them are in the snapshot as values that have come
//! and whose outputs have not left. Behind the end it waits for them, so that the input and the output of a snapshot have
//! ended together. That of the last snapshot waits as well: the outputs would leave before the stream is dropped, and again
//! from the stream that resumes.

use std::sync::Arc;

use super::node::Outputs;
use crate::async_operator::AsyncOperator;
use crate::barrier::Barrier;
use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::{Guard, drop_all_quietly};
use crate::input::Input;
use crate::item::{self, Run};
use crate::port::Port;
use crate::reorder::{Held, Released, Reorder};
use crate::snapshot::{OperatorSnapshot, Progress, other};
use crate::stage::{AnyPort, Part, Stage};
use crate::state::{Decode, Decoder, Encode, Frame, StateError};
use crate::tree;
use crate::tuple::{OperatorId, Tuple};
use crate::wakeup::Wakeup;

pub(crate) struct AsyncNode<O: AsyncOperator> {
    guard: Guard<O>,
    outputs: Outputs<O::Out>,
    input: Input,
    window: Reorder<Pending<O::In>, Mark, O::Reply>,
    wakeup: Wakeup,
    /// Restarts of the operator after which its requests were made.
    restarts: u64,
    /// Outputs have found no room; none is made until they have left.
    is_blocked: bool,
    /// Kept for its capacity.
    replies: Vec<(u64, O::Reply)>,
}

/// A value whose output has not left.
struct Pending<V> {
    value: V,
    arrival_ns: u64,
    sequence: u64,
}

/// Between values.
enum Mark {
    Watermark {
        time_ns: u64,
        arrival_ns: u64,
    },
    End {
        arrival_ns: u64,
    },
    /// Behind the end, or of the last snapshot.
    Barrier(Barrier),
}

/// Layout of the state: that of the operator, and the entries of the window.
const FRAME: Frame = Frame { kind: "an operator with requests in flight", version: 1 };

/// Tag of a value in the state.
const VALUE_TAG: u8 = 0;
/// Tag of a watermark.
const WATERMARK_TAG: u8 = 1;

impl<O: AsyncOperator> AsyncNode<O> {
    pub(crate) fn new(guard: Guard<O>, port: Port<O::Out>) -> AsyncNode<O> {
        let operator = &guard.of.operator;
        let (window, wakeup) = (Reorder::new(operator.in_flight_max()), operator.wakeup());
        AsyncNode {
            guard,
            outputs: Outputs::new(port),
            input: Input::default(),
            window,
            wakeup,
            restarts: 0,
            is_blocked: false,
            replies: Vec::new(),
        }
    }

    /// Makes requests for the values that wait.
    fn submit(&mut self, cx: &Context) {
        self.note_restarts();
        while let Some((ticket, pending)) = self.window.submit() {
            let mut reply = None;
            let done = self.guard.call_for_tuple(pending.sequence, cx, |operator| {
                reply = operator.submit(ticket, &pending.value);
            });
            if !done || reply.is_some() {
                self.window.complete(ticket, reply.filter(|_| done));
            }
            self.note_restarts();
        }
    }

    /// An operator that has restarted knows none of its requests.
    fn note_restarts(&mut self) {
        let restarts = self.guard.of.counters.restarts.get();
        if restarts != self.restarts {
            self.restarts = restarts;
            self.window.withdraw();
        }
    }

    /// Sends the outputs of the values that are complete, up to the first one that is not.
    fn release(&mut self, cx: &mut Context) {
        if self.guard.is_stopped() {
            self.guard.of.counters.discarded.add(self.window.abandon());
        }
        let pauses = cx.pauses;
        while !self.is_blocked
            && let Some(released) = self.window.release()
        {
            cx.progress += 1;
            match released {
                Released::Value(pending, Some(reply)) => {
                    self.complete(pending, reply, cx);
                    if self.outputs.emitter.is_full() {
                        self.send(cx);
                    }
                }
                Released::Value(_, None) => {}
                Released::Mark(mark) => {
                    self.send(cx);
                    self.mark(mark, cx);
                }
            }
            self.is_blocked = cx.pauses != pauses;
        }
        self.send(cx);
        self.is_blocked |= cx.pauses != pauses;
    }

    fn send(&mut self, cx: &mut Context) {
        self.outputs.send(&self.guard.of.counters, cx);
        // Watermarks of the input pass through.
        self.outputs.emitter.take_watermark();
    }

    /// Makes the outputs of a value, which leave with those of the values behind it.
    fn complete(&mut self, pending: Pending<O::In>, reply: O::Reply, cx: &Context) {
        let AsyncNode { guard, outputs, .. } = self;
        let Pending { value, arrival_ns, sequence } = pending;
        let staged = outputs.emitter.staged().len();
        outputs.emitter.set_arrival_ns(arrival_ns);
        let done = guard.call_for_tuple(sequence, cx, |operator| {
            operator.complete(value, reply, &mut outputs.emitter);
        });
        if !done {
            drop_all_quietly(outputs.emitter.withdraw(staged));
        }
    }

    fn mark(&mut self, mark: Mark, cx: &mut Context) {
        let AsyncNode { guard, outputs, .. } = self;
        match mark {
            Mark::Watermark { time_ns, arrival_ns } => {
                outputs.emitter.set_arrival_ns(arrival_ns);
                let call = |operator: &mut O| operator.watermark(time_ns, &mut outputs.emitter);
                let done = guard.call_for_mark(cx, call);
                outputs.release(done, &guard.of.counters, cx);
                outputs.port.watermark(time_ns, arrival_ns, cx);
            }
            Mark::End { arrival_ns } => {
                outputs.emitter.set_arrival_ns(arrival_ns);
                let done = guard.call_for_mark(cx, |operator| operator.end(&mut outputs.emitter));
                outputs.release(done, &guard.of.counters, cx);
                outputs.port.end(arrival_ns, cx);
            }
            Mark::Barrier(barrier) => self.report(barrier, cx),
        }
    }

    /// Sends what is complete, and holds the input back while the window is full.
    fn go_on(&mut self, cx: &mut Context) {
        self.release(cx);
        if self.window.is_full() {
            cx.pauses += 1;
        }
    }

    /// Returns whether a barrier waits for all that is in flight; it overtakes no other barrier either.
    fn waits(&self, barrier: &Barrier) -> bool {
        let is_barrier =
            |entry: Held<'_, Pending<O::In>, Mark>| matches!(entry, Held::Mark(Mark::Barrier(_)));
        let has_ended = self.input.has_ended || barrier.is_last();
        !self.window.is_empty() && (has_ended || self.window.entries().any(is_barrier))
    }

    /// Reports its state, of which all that is in flight is a part, and forwards the barrier.
    fn report(&mut self, barrier: Barrier, cx: &mut Context) {
        let progress = self.input.progress(vec![self.outputs.port.sequence()]);
        let progress = Progress { watermark_ns: self.outputs.port.watermark_ns(), ..progress };
        let window = &self.window;
        self.guard.report_with(&barrier, progress, cx, |state| {
            let mut bytes = Vec::new();
            FRAME.save(&mut bytes, |out| {
                state.encode(out);
                save(window, out);
            });
            Some(bytes)
        });
        self.outputs.port.barrier(barrier, cx);
    }
}

impl<O: AsyncOperator> Part for AsyncNode<O> {
    fn operator(&self) -> OperatorId {
        self.guard.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.guard.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [Some(&mut self.outputs.port), None]
    }

    fn is_polled(&self) -> bool {
        true
    }

    /// Hands requests over and takes replies.
    fn poll_side(&mut self, cx: &mut Context) {
        if self.window.is_empty() || !tree::flush_port(&mut self.outputs.port, cx) {
            return;
        }
        self.is_blocked = false;
        self.submit(cx);
        let (replies, guard) = (&mut self.replies, &mut self.guard);
        guard.call_for_replies(cx, |operator| {
            operator.poll(replies);
            replies.len()
        });
        self.note_restarts();
        for (ticket, reply) in self.replies.drain(..) {
            cx.progress += u64::from(self.window.complete(ticket, Some(reply)));
        }
        self.release(cx);
        // A full window holds tuples back: a nap would delay them all, and the threads may run out of requests.
        cx.waits_outside |= self.window.in_flight() > 0 && !self.window.is_full();
    }

    fn wakeup(&self) -> Option<&Wakeup> {
        Some(&self.wakeup)
    }

    fn is_held(&self) -> bool {
        self.window.is_full()
    }

    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error> {
        let name = &self.guard.of.name;
        let Some(bytes) = saved.state.as_deref() else {
            return other(format!("it has no state of operator {name}"));
        };
        let (state, entries) = FRAME
            .load(bytes, |from| Ok((Decode::decode(from)?, entries(from)?)))
            .map_err(|source| Error::State { name: name.clone(), source })?;
        self.guard.load(&OperatorSnapshot { state, ..saved.clone() })?;
        self.input = Input::load(&saved.progress.inputs[0], epoch);
        self.window = Reorder::new(self.guard.of.operator.in_flight_max());
        for entry in entries {
            match entry {
                Entry::Value(pending) => self.window.push(pending),
                Entry::Mark(mark) => self.window.push_mark(mark),
            }
        }
        Ok(())
    }
}

impl<O: AsyncOperator> Stage<O::In> for AsyncNode<O> {
    fn accept_run(&mut self, mut run: Run<'_, O::In>, cx: &mut Context) {
        for Tuple { value, arrival_ns, sequence } in run.drain() {
            self.guard.receive_one(sequence, &mut self.input.expected, cx);
            self.window.push(Pending { value, arrival_ns, sequence });
        }
        self.submit(cx);
        self.go_on(cx);
    }

    fn accept_mark(&mut self, mark: item::Mark, cx: &mut Context) {
        match mark {
            item::Mark::Watermark(time_ns, stamp) => {
                self.guard.check(stamp.sequence, &mut self.input.expected);
                self.input.watermark_ns = Some(time_ns);
                self.window.push_mark(Mark::Watermark { time_ns, arrival_ns: stamp.arrival_ns });
            }
            item::Mark::End(stamp) => {
                self.guard.check(stamp.sequence, &mut self.input.expected);
                self.input.has_ended = true;
                self.window.push_mark(Mark::End { arrival_ns: stamp.arrival_ns });
            }
            item::Mark::Barrier(barrier, sequence) => {
                self.input.check_barrier(&barrier, sequence, &self.guard.of.counters);
                if self.waits(&barrier) {
                    self.window.push_mark(Mark::Barrier(barrier));
                } else {
                    self.report(barrier, cx);
                }
            }
        }
        self.go_on(cx);
    }
}

/// Returns the state of the operator itself in the saved state of an asynchronous operator with inputs `V`, if it has
/// one.
///
/// # Errors
/// If the bytes are damaged, or those of another operator.
pub fn async_operator_state<V: Decode>(saved: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
    FRAME.load(saved, |from| {
        let state = Decode::decode(from)?;
        entries::<V>(from)?;
        Ok(state)
    })
}

/// An entry of a saved window.
enum Entry<V> {
    Value(Pending<V>),
    Mark(Mark),
}

/// Writes the entries of a window, in which nothing is behind the end or the last snapshot: their number and each with its tag.
fn save<V: Encode, R>(window: &Reorder<Pending<V>, Mark, R>, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    let mut count = 0_u64;
    for entry in window.entries() {
        match entry {
            Held::Value(Pending { value, arrival_ns, sequence }) => {
                (VALUE_TAG, *arrival_ns, *sequence).encode(&mut bytes);
                value.encode(&mut bytes);
            }
            Held::Mark(Mark::Watermark { time_ns, arrival_ns }) => {
                (WATERMARK_TAG, *time_ns, *arrival_ns).encode(&mut bytes);
            }
            Held::Mark(Mark::End { .. } | Mark::Barrier(_)) => continue,
        }
        count += 1;
    }
    count.encode(out);
    out.extend_from_slice(&bytes);
}

fn entries<V: Decode>(from: &mut Decoder<'_>) -> Result<Vec<Entry<V>>, StateError> {
    let count = from.length()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let (tag, first, second): (u8, u64, u64) = Decode::decode(from)?;
        entries.push(match tag {
            VALUE_TAG => {
                Entry::Value(Pending { value: V::decode(from)?, arrival_ns: first, sequence: second })
            }
            WATERMARK_TAG => Entry::Mark(Mark::Watermark { time_ns: first, arrival_ns: second }),
            _ => return Err(StateError::Value("a value in flight")),
        });
    }
    Ok(entries)
}
