//! Operators whose results come from other threads.

use crate::operator::{Emitter, Recover};
use crate::state::{Decode, Encode};
use crate::wakeup::Wakeup;

/// An operator with one input that asks another thread for what it needs, such as a read of a file, and never blocks its
/// core. The runtime keeps the values whose replies are awaited, and calls [`AsyncOperator::complete`] in their order,
/// whatever the order of the replies; watermarks and the end keep their places among them.
///
/// ```text
/// value ─► submit ─► … other threads … ─► poll ─► complete ─► outputs
///             └───── in flight, in order ──────────┘
/// ```
///
/// While [`AsyncOperator::in_flight_max`] values are in flight, the operator takes no more, which holds the segment before
/// it back. Values in flight are part of snapshots: a stream that resumes submits them again.
pub trait AsyncOperator: Recover {
    /// Values that it receives.
    type In: Encode + Decode + Send + 'static;
    /// Values that it emits.
    type Out: Send + 'static;
    /// Replies to its requests.
    type Reply: Send + 'static;

    /// Largest number of values that are submitted and not yet completed, at least 1; asked once, when the stream is
    /// built.
    fn in_flight_max(&self) -> usize;

    /// Returns the handle that the other threads notify after each reply, or some of them; asked once, when the
    /// stream is built.
    fn wakeup(&self) -> Wakeup;

    /// Makes the request for a value. Returns the reply if it is known at once; otherwise [`AsyncOperator::poll`] has to
    /// return one for this ticket. Need not start the request before the next call of `poll`, so that requests can be handed
    /// over together. Must not block.
    ///
    /// A ticket is submitted again after the operator was restarted by [`OnPanic::Restart`](crate::OnPanic::Restart). If
    /// the call panics, the value is dropped.
    fn submit(&mut self, ticket: u64, value: &Self::In) -> Option<Self::Reply>;

    /// Starts the requests that `submit` has made, and appends the replies that have come since the last call, with their
    /// tickets. Called after each slice of input, and when the worker was woken. Must not block.
    fn poll(&mut self, replies: &mut Vec<(u64, Self::Reply)>);

    /// Processes a value and its reply, in the order of the values.
    fn complete(&mut self, value: Self::In, reply: Self::Reply, out: &mut Emitter<Self::Out>);

    /// No later value has an event time before `time_ns`, and all before have been completed. The watermark is forwarded
    /// after the outputs.
    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Self::Out>) {
        let _ = (time_ns, out);
    }

    /// The input has ended, and all values have been completed.
    fn end(&mut self, out: &mut Emitter<Self::Out>) {
        let _ = out;
    }
}
