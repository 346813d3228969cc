//! Event time: watermarks from the values.

use std::marker::PhantomData;

use super::late::{DropLate, LateCounter, LatePolicy};
use crate::operator::{Emitter, Operator, Recover};
use crate::state::{Decode, Encode, Frame, SaveState, StateError};

/// Takes the event time of each value by a function and emits watermarks: the latest event time less the declared
/// disorder. What is earlier than the watermark is late and treated by a [`LatePolicy`].
///
/// ```text
/// event times   3   7   5   9   2        disorder 2
/// watermarks     1   5       7           2 is late by 5
/// ```
///
/// A source that emits watermarks of its own is trusted with them when no value has come for the idle time: a stream
/// without values then still closes its windows. Such a watermark passes as it is, without the disorder: values before it
/// that come after are late. Without an idle time the watermarks of the input are dropped.
///
/// The idle time is between arrivals, not event times: which watermarks pass, and so which values are late, depends on when
/// they arrive, and may differ between two runs or after the stream has resumed.
///
/// One value with an event time in the far future makes all that follow late: filter such values before.
pub struct EventTime<T, F, P = DropLate> {
    time: F,
    policy: P,
    disorder_ns: u64,
    step_ns: u64,
    idle_ns: Option<u64>,
    state: State,
    /// Watermarks before this one are not emitted: the next multiple of the step. None if it is beyond all times.
    next_ns: Option<u64>,
    late: LateCounter,
    types: PhantomData<fn(T) -> T>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Latest event time.
    max_ns: u64,
    /// The watermark that was emitted last; 0, which says nothing, before.
    watermark_ns: u64,
    /// Arrival of the last value.
    arrival_ns: u64,
}

const FRAME: Frame = Frame { kind: "an event-time operator", version: 1 };

impl<T: Send + 'static, F: FnMut(&T) -> u64 + Send + 'static> EventTime<T, F> {
    /// The event time of a value is `time` of it, in nanoseconds. Values are out of order by `disorder_ns` at most;
    /// those that are more are dropped.
    pub fn new(disorder_ns: u64, time: F) -> EventTime<T, F> {
        EventTime {
            time,
            policy: DropLate,
            disorder_ns,
            step_ns: 1,
            idle_ns: None,
            state: State::default(),
            next_ns: Some(1),
            late: LateCounter::default(),
            types: PhantomData,
        }
    }
}

impl<T, F, P> EventTime<T, F, P> {
    /// With another treatment of late values: [`AllowLate`](super::AllowLate), [`MarkLate`](super::MarkLate).
    pub fn late<Q: LatePolicy<T>>(self, policy: Q) -> EventTime<T, F, Q> {
        let EventTime { time, disorder_ns, step_ns, idle_ns, state, next_ns, late, types, .. } = self;
        EventTime { time, policy, disorder_ns, step_ns, idle_ns, state, next_ns, late, types }
    }

    /// Emits a watermark when it has reached or passed the next multiple of `step_ns`; 1 is taken for 0. Each watermark
    /// passes all operators that follow. A step that divides the sizes and steps of the windows lets each of them end
    /// with the first value after it, as with a watermark for each value: a hundredth of the smallest window is often
    /// enough.
    #[must_use]
    pub fn step(self, step_ns: u64) -> Self {
        let mut stepped = EventTime { step_ns: step_ns.max(1), ..self };
        stepped.set_watermark(stepped.state.watermark_ns);
        stepped
    }

    /// Passes watermarks of the source on that arrive `idle_ns` after the last value or later.
    #[must_use]
    pub fn idle(self, idle_ns: u64) -> Self {
        EventTime { idle_ns: Some(idle_ns), ..self }
    }

    fn set_watermark(&mut self, watermark_ns: u64) {
        self.state.watermark_ns = watermark_ns;
        self.next_ns =
            (watermark_ns / self.step_ns).checked_add(1).and_then(|steps| steps.checked_mul(self.step_ns));
    }

    /// Returns the number of late values, with those that the policy passes on.
    pub fn late_counter(&self) -> LateCounter {
        self.late.clone()
    }
}

impl<T, F, P> Recover for EventTime<T, F, P>
where
    T: Send + 'static,
    F: FnMut(&T) -> u64 + Send + 'static,
    P: LatePolicy<T>,
{
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<T, F, P> Operator for EventTime<T, F, P>
where
    T: Send + 'static,
    F: FnMut(&T) -> u64 + Send + 'static,
    P: LatePolicy<T>,
{
    type In = T;
    type Out = P::Out;

    fn process(&mut self, value: T, out: &mut Emitter<P::Out>) {
        let time_ns = (self.time)(&value);
        self.state.arrival_ns = out.arrival_ns();
        if time_ns < self.state.watermark_ns {
            self.late.count();
            let late_ns = self.state.watermark_ns - time_ns;
            self.policy.late(value, late_ns).into_iter().for_each(|value| out.emit(value));
            return;
        }
        out.emit(self.policy.on_time(value));
        if time_ns > self.state.max_ns {
            self.state.max_ns = time_ns;
            let next_ns = time_ns.saturating_sub(self.disorder_ns);
            if self.next_ns.is_some_and(|least_ns| next_ns >= least_ns) {
                self.set_watermark(next_ns);
                out.watermark(next_ns);
            }
        }
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<P::Out>) {
        let silence_ns = out.arrival_ns().saturating_sub(self.state.arrival_ns);
        let is_idle = self.idle_ns.is_some_and(|idle_ns| silence_ns >= idle_ns);
        if is_idle && time_ns > self.state.watermark_ns {
            self.set_watermark(time_ns);
            out.watermark(time_ns);
        }
    }

    fn makes_watermarks(&self) -> bool {
        true
    }
}

impl<T, F, P> SaveState for EventTime<T, F, P> {
    fn save(&self, out: &mut Vec<u8>) {
        let State { max_ns, watermark_ns, arrival_ns } = self.state;
        FRAME.save(out, |body| (max_ns, watermark_ns, arrival_ns, self.late.get()).encode(body));
    }

    /// The disorder, the step and the idle time may be others than before.
    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let (max_ns, watermark_ns, arrival_ns, late) = FRAME.load(bytes, Decode::decode)?;
        self.state = State { max_ns, watermark_ns, arrival_ns };
        self.set_watermark(watermark_ns);
        self.late.set(late);
        Ok(())
    }
}
