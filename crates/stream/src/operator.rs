//! Interfaces of operators, sources and sinks.

use std::iter;
use std::marker::PhantomData;

use crate::run_length::RUN_TUPLES_MAX;
use crate::state::SaveState;
use crate::tuple::Tuple;
use crate::wakeup::Wakeup;

/// Reaction to a panic of an operator.
///
/// Outputs leave an operator only after the call that emitted them has returned, so a call that panics emits
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The operator receives no more tuples; a [`Failure`](crate::Failure) names it and the tuple. Later tuples are
    /// discarded and counted; watermarks and the end pass, so that all other operators continue.
    #[default]
    Stop,
    /// The tuple is dropped and counted as a dead letter; the operator continues with the state that the call left. A
    /// watermark or end passes and is counted.
    Skip,
    /// Like [`OnPanic::Skip`], but the operator continues from its last snapshot. Changes of the state since then are
    /// lost; outputs since then have been sent.
    Restart {
        /// Tuples between two snapshots, at least 1.
        snapshot_every: u64,
    },
}

/// Recovery of an operator: after a panic, which stops it by default, and after the end of the process.
pub trait Recover: Sized + Send + 'static {
    /// Returns the declared reaction; asked once, when the stream is built.
    fn on_panic(&self) -> OnPanic {
        OnPanic::Stop
    }

    /// Returns a copy of the state; required by [`OnPanic::Restart`].
    fn snapshot(&self) -> Option<Self> {
        None
    }

    /// Returns the state that snapshots of the stream save, and that a stream loads when it resumes; none leaves the
    /// operator as it was built. Called once when the stream is built, and at each snapshot before
    /// [`SaveState::save`], between two tuples: a sink with a buffer writes it out here or saves it, because the
    /// tuples in it are not sent again. Called when the stream resumes as well, before [`SaveState::load`]. The time
    /// of `save` is a pause of the operator.
    ///
    /// For an operator that restarts ([`OnPanic::Restart`]), the copy that it would continue from is saved
    /// and loaded too, by
    /// the same calls. The operator may since have written what the buffer of the copy has: such a sink saves its buffer,
    /// and does not write it out here.
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        None
    }
}

/// An operator with one input. Its state is the value itself, which moves between threads.
pub trait Operator: Recover {
    /// Values that it receives.
    type In: Send + 'static;
    /// Values that it emits.
    type Out: Send + 'static;

    /// Processes one value.
    fn process(&mut self, value: Self::In, out: &mut Emitter<Self::Out>);

    /// No later input has an event time before `time_ns`. The watermark is forwarded after the outputs.
    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Self::Out>) {
        let _ = (time_ns, out);
    }

    /// The input has ended.
    fn end(&mut self, out: &mut Emitter<Self::Out>) {
        let _ = out;
    }

    /// Returns whether the watermarks of the output are those of [`Emitter::watermark`]. The watermarks of the input
    /// then end here. Asked once, when the stream is built.
    fn makes_watermarks(&self) -> bool {
        false
    }
}

/// An operator with two inputs. Values of the two sides arrive in an order that depends on the placement: the
/// outputs should not depend on it but for their order, unless the application can tolerate it.
pub trait Join: Recover {
    /// Values of the first input.
    type Left: Send + 'static;
    /// Values of the second input.
    type Right: Send + 'static;
    /// Values that it emits.
    type Out: Send + 'static;

    /// Processes one value of the first input.
    fn left(&mut self, value: Self::Left, out: &mut Emitter<Self::Out>);

    /// Processes one value of the second input.
    fn right(&mut self, value: Self::Right, out: &mut Emitter<Self::Out>);

    /// No later input of either side has an event time before `time_ns`.
    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Self::Out>) {
        let _ = (time_ns, out);
    }

    /// Both inputs have ended.
    fn end(&mut self, out: &mut Emitter<Self::Out>) {
        let _ = out;
    }
}

/// The last operator of a branch.
pub trait Sink: Recover {
    /// Values that it receives.
    type In: Send + 'static;

    /// Consumes one tuple.
    fn consume(&mut self, tuple: Tuple<Self::In>);

    /// No later tuple has an event time before `time_ns`.
    fn watermark(&mut self, time_ns: u64) {
        let _ = time_ns;
    }

    /// The input has ended.
    fn end(&mut self) {}
}

/// Reaction of a source that cannot emit in time, because rings are full or its core is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// Tuples wait; their latency counts from their scheduled arrival.
    #[default]
    Wait,
    /// Tuples that are later than this when the source reaches them are dropped and counted.
    Shed {
        /// Largest accepted delay, in nanoseconds.
        late_max_ns: u64,
    },
}

/// A reply of a source.
pub enum Next<T> {
    /// A value that was due at `arrival_ns`. Time 0 is the start of the stream.
    Value {
        /// The value.
        value: T,
        /// Its scheduled arrival.
        arrival_ns: u64,
    },
    /// No later value has an event time before this one.
    Watermark(u64),
    /// Nothing is due before this time; with `u64::MAX`, before [`Source::wakeup`] is notified.
    At(u64),
    /// Nothing follows.
    End,
}

/// Reply of [`Source::fill`] if the source has no further value at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Like [`Next::Watermark`]. More values may be due.
    Watermark(u64),
    /// Like [`Next::At`].
    At(u64),
    /// Like [`Next::End`].
    End,
}

/// The batch of due values that a source fills, in order. Its size is limited, so that other operators can run.
pub struct DueValues<'a, T> {
    /// Values and their arrivals.
    values: &'a mut Vec<(T, u64)>,
    /// Maximum number of values.
    values_max: usize,
}

impl<'a, T> DueValues<'a, T> {
    /// Appends to `values`, up to `values_max` in all.
    pub fn new(values: &'a mut Vec<(T, u64)>, values_max: usize) -> DueValues<'a, T> {
        DueValues { values, values_max }
    }

    /// Appends a value that was due at `arrival_ns`. A value that is appended to a full batch is not lost, but it delays
    /// other operators.
    pub fn push(&mut self, value: T, arrival_ns: u64) {
        // Written into its place, as in `Emitter::emit_at`.
        self.values.extend(iter::once_with(|| (value, arrival_ns)));
    }

    /// Returns the number of values that may still be appended.
    #[must_use]
    pub fn room(&self) -> usize {
        self.values_max.saturating_sub(self.values.len())
    }

    /// Returns whether no more values may be appended in this call.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }
}

/// A source, called by the core that runs the first segment. A source that panics ends with a
/// [`Failure`](crate::Failure).
pub trait Source: Send + 'static {
    /// Values that it emits.
    type Out: Send + 'static;

    /// Returns the next value that is due at `now_ns`, which may lag behind the clock by a few tuples. Must not
    /// block.
    fn next(&mut self, now_ns: u64) -> Next<Self::Out>;

    /// Appends the values that are due at `now_ns`. Returns `None` if `due` is full, and otherwise the reason. Must not
    /// block. The stream calls this method only; by default it calls [`Source::next`]. A source overrides it if several
    /// values cost less together than one by one, and has the same values then. There is room for one value at least. If
    /// the source panics, the values that were appended are kept.
    fn fill(&mut self, now_ns: u64, due: &mut DueValues<'_, Self::Out>) -> Option<Pause> {
        while !due.is_full() {
            match self.next(now_ns) {
                Next::Value { value, arrival_ns } => due.push(value, arrival_ns),
                Next::Watermark(time_ns) => return Some(Pause::Watermark(time_ns)),
                Next::At(due_ns) => return Some(Pause::At(due_ns)),
                Next::End => return Some(Pause::End),
            }
        }
        None
    }

    /// Returns the position, for snapshots: a source that has loaded it returns what the one that saved it returned
    /// next. None for a source that cannot return to a position. A stream that resumes starts it as it was built, and
    /// what it had emitted since the snapshot is lost.
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        None
    }

    /// Returns the handle by which the threads of its input wake its worker; asked once, when the stream is built.
    /// Without one, the source is asked again at the times that it names only.
    fn wakeup(&self) -> Option<Wakeup> {
        None
    }

    /// Returns the declared reaction to overload; asked once, when the stream is built.
    fn overload(&self) -> Overload {
        Overload::Wait
    }
}

/// Collects the outputs of one call of an operator.
///
/// The runtime has one for each operator. Others are for calling an operator outside of a stream, as its tests do.
pub struct Emitter<T> {
    /// Values and their arrivals.
    staged: Vec<(T, u64)>,
    arrival_ns: u64,
    watermark_ns: Option<u64>,
}

impl<T> Default for Emitter<T> {
    fn default() -> Emitter<T> {
        Emitter::new()
    }
}

impl<T> Emitter<T> {
    /// Without outputs, at arrival 0.
    #[must_use]
    pub fn new() -> Emitter<T> {
        Emitter { staged: Vec::new(), arrival_ns: 0, watermark_ns: None }
    }

    /// Emits a value, which inherits [`Emitter::arrival_ns`].
    pub fn emit(&mut self, value: T) {
        self.emit_at(value, self.arrival_ns);
    }

    /// Emits a value with an arrival of its own: the latest one of the tuples that contributed to it, if the
    /// operator knows them. A window that a watermark closes has kept it with its content; a join that finds a match
    /// takes the later one of [`Emitter::arrival_ns`] and of what that was for the stored value.
    pub fn emit_at(&mut self, value: T, arrival_ns: u64) {
        // Written into its place: `push` would copy the pair once more.
        self.staged.extend(iter::once_with(|| (value, arrival_ns)));
    }

    /// Like [`Emitter::emit`] for each value.
    pub fn emit_all(&mut self, values: impl IntoIterator<Item = T>) {
        let arrival_ns = self.arrival_ns;
        self.staged.extend(values.into_iter().map(|value| (value, arrival_ns)));
    }

    /// Scheduled arrival of the current tuple, in nanoseconds of the stream's clock. In `watermark` and `end`, when
    /// the source emitted the watermark or the end; of several sources the latest.
    #[must_use]
    pub fn arrival_ns(&self) -> u64 {
        self.arrival_ns
    }

    /// Emits a watermark after the values of this call: no later value of the output has an event time before
    /// `time_ns`. Of an operator that does not declare [`Operator::makes_watermarks`], and of a join, it is ignored.
    pub fn watermark(&mut self, time_ns: u64) {
        self.watermark_ns = Some(time_ns);
    }

    /// Sets the arrival of the tuple, watermark or end that the operator is called for.
    pub fn set_arrival_ns(&mut self, arrival_ns: u64) {
        self.arrival_ns = arrival_ns;
    }

    /// Takes the values of the last call, with their arrivals.
    pub fn drain(&mut self) -> impl Iterator<Item = (T, u64)> {
        self.staged.drain(..)
    }

    /// Takes the watermark of the last call.
    pub fn take_watermark(&mut self) -> Option<u64> {
        self.watermark_ns.take()
    }

    /// Returns whether the outputs are to be sent before the next call: they are many, or a watermark is behind them.
    pub(crate) fn is_full(&self) -> bool {
        self.staged.len() >= RUN_TUPLES_MAX || self.watermark_ns.is_some()
    }

    /// Takes back the outputs of a call that has panicked: those after the first `kept`.
    pub(crate) fn withdraw(&mut self, kept: usize) -> impl Iterator<Item = (T, u64)> {
        self.watermark_ns = None;
        self.staged.drain(kept..)
    }

    pub(crate) fn staged(&mut self) -> &mut Vec<(T, u64)> {
        &mut self.staged
    }
}

/// A stateless operator made of a function.
pub struct Each<In, Out, F> {
    function: F,
    types: PhantomData<fn(In) -> Out>,
}

/// Returns an operator that calls `function` for each value and stops when it panics.
pub fn each<In, Out, F: FnMut(In, &mut Emitter<Out>)>(function: F) -> Each<In, Out, F> {
    Each { function, types: PhantomData }
}

impl<In: 'static, Out: 'static, F: Send + 'static> Recover for Each<In, Out, F> {}

impl<In, Out, F> Operator for Each<In, Out, F>
where
    In: Send + 'static,
    Out: Send + 'static,
    F: FnMut(In, &mut Emitter<Out>) + Send + 'static,
{
    type In = In;
    type Out = Out;

    fn process(&mut self, value: In, out: &mut Emitter<Out>) {
        (self.function)(value, out);
    }
}
