//! An operator of the application with a state for each key, and timers.

use std::collections::BTreeSet;

use super::key::{Key, KeyBy, Table, Value};
use crate::operator::{Emitter, Operator, Recover};
use crate::state::{Decode, Encode, Frame, SaveState, StateError};

/// Handles the values and timers of a key for a [`Keyed`] operator.
pub trait KeyedProcess: Send + 'static {
    /// Values that it receives.
    type In: Send + 'static;
    /// Keys of the values.
    type Key: Key;
    /// State of a key.
    type State: Value;
    /// Values that it emits.
    type Out: Send + 'static;

    /// Processes a value of the key.
    fn process(
        &mut self,
        value: Self::In,
        key: &mut KeyContext<'_, Self::Key, Self::State>,
        out: &mut Emitter<Self::Out>,
    );

    /// The watermark has reached `time_ns`, for which the key has set a timer. Timers that are left at the end of the
    /// input are due then; none that is set there is.
    fn timer(
        &mut self,
        time_ns: u64,
        key: &mut KeyContext<'_, Self::Key, Self::State>,
        out: &mut Emitter<Self::Out>,
    ) {
        let _ = (time_ns, key, out);
    }
}

/// A key with its state and timers, during a call.
pub struct KeyContext<'a, K, S> {
    key: &'a K,
    state: &'a mut Option<S>,
    timers: &'a mut Timers<K>,
    watermark_ns: u64,
}

/// Timers of all keys.
struct Timers<K> {
    timers: BTreeSet<(u64, K)>,
    /// The time of the timer that is due, during its call; after a call that has panicked until the next one.
    due_ns: Option<u64>,
    /// Timers that were set in a call for one that is not earlier: they wait for the next watermark, so that each
    /// watermark ends. Empty while no timer is due.
    postponed: Vec<(u64, K)>,
}

impl<K: Key> Timers<K> {
    /// No timer is due: those that were postponed wait with the others.
    fn settle(&mut self) {
        self.due_ns = None;
        self.timers.extend(self.postponed.drain(..));
    }
}

impl<K: Key, S> KeyContext<'_, K, S> {
    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &K {
        self.key
    }

    /// Returns the state of the key; none before it is set. A key whose state is none takes no memory but for its
    /// timers.
    pub fn state(&mut self) -> &mut Option<S> {
        self.state
    }

    /// Returns the latest watermark, in nanoseconds of event time; 0 before.
    #[must_use]
    pub fn watermark_ns(&self) -> u64 {
        self.watermark_ns
    }

    /// Sets a timer for when the watermark reaches `time_ns`, or for the next one if it has. A key has one timer for a
    /// time, however often it is set.
    pub fn set_timer(&mut self, time_ns: u64) {
        let timer = (time_ns, self.key.clone());
        if self.timers.due_ns.is_some_and(|due_ns| time_ns <= due_ns) {
            self.timers.postponed.push(timer);
        } else {
            self.timers.timers.insert(timer);
        }
    }

    /// Removes the timer for `time_ns`, if there is one.
    pub fn remove_timer(&mut self, time_ns: u64) {
        let timer = (time_ns, self.key.clone());
        self.timers.timers.remove(&timer);
        self.timers.postponed.retain(|other| *other != timer);
    }
}

/// Calls a [`KeyedProcess`] with the state of the key of each value. Timers are due in the order of their times, then
/// of their keys.
pub struct Keyed<K, P: KeyedProcess> {
    key: K,
    process: P,
    states: Table<P::Key, Option<P::State>>,
    timers: Timers<P::Key>,
    watermark_ns: u64,
    /// The key of the last value, whose memory the next one takes.
    last_key: Option<P::Key>,
}

const FRAME: Frame = Frame { kind: "a keyed operator", version: 1 };

impl<P: KeyedProcess, K: KeyBy<P::In, Key = P::Key>> Keyed<K, P> {
    /// Returns the operator that calls `process`.
    pub fn new(key: K, process: P) -> Keyed<K, P> {
        let timers = Timers { timers: BTreeSet::new(), due_ns: None, postponed: Vec::new() };
        Keyed { key, process, states: Table::default(), timers, watermark_ns: 0, last_key: None }
    }

    /// Returns the number of states and timers that are kept.
    pub fn entries(&self) -> usize {
        self.states.len() + self.timers.timers.len() + self.timers.postponed.len()
    }

    /// Calls `work` with the state of a key, which is removed if it is none after that.
    fn with_state(
        states: &mut Table<P::Key, Option<P::State>>,
        key: &P::Key,
        work: impl FnOnce(&mut Option<P::State>),
    ) {
        if let Some(state) = states.get_mut(key) {
            work(state);
            if state.is_none() {
                states.remove(key);
            }
        } else {
            let mut state = None;
            work(&mut state);
            if state.is_some() {
                states.insert(key.clone(), state);
            }
        }
    }

    fn timer(&mut self, time_ns: u64, key: &P::Key, out: &mut Emitter<P::Out>) {
        let Keyed { process, states, timers, watermark_ns, .. } = self;
        Self::with_state(states, key, |state| {
            let mut context = KeyContext { key, state, timers, watermark_ns: *watermark_ns };
            process.timer(time_ns, &mut context, out);
        });
    }
}

impl<P: KeyedProcess, K: KeyBy<P::In, Key = P::Key>> Recover for Keyed<K, P> {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<P: KeyedProcess, K: KeyBy<P::In, Key = P::Key>> Operator for Keyed<K, P> {
    type In = P::In;
    type Out = P::Out;

    fn process(&mut self, value: P::In, out: &mut Emitter<P::Out>) {
        let Keyed { key, process, states, timers, watermark_ns, last_key } = self;
        if timers.due_ns.is_some() {
            // A timer has panicked.
            timers.settle();
        }
        let key = key.with_key(&value, |key| match last_key {
            Some(last) => {
                last.clone_from(key);
                last
            }
            None => last_key.insert(key.clone()),
        });
        Self::with_state(states, key, |state| {
            let mut context = KeyContext { key, state, timers, watermark_ns: *watermark_ns };
            process.process(value, &mut context, out);
        });
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<P::Out>) {
        self.timers.settle();
        self.watermark_ns = self.watermark_ns.max(time_ns);
        while let Some(first) = self.timers.timers.first()
            && first.0 <= self.watermark_ns
            && let Some((due_ns, key)) = self.timers.timers.pop_first()
        {
            self.timers.due_ns = Some(due_ns);
            self.timer(due_ns, &key, out);
        }
        self.timers.settle();
    }

    fn end(&mut self, out: &mut Emitter<P::Out>) {
        self.timers.settle();
        // All timers that are set from here on are postponed.
        self.timers.due_ns = Some(u64::MAX);
        while let Some((time_ns, key)) = self.timers.timers.pop_first() {
            self.timer(time_ns, &key, out);
        }
        self.timers.postponed.clear();
    }
}

impl<P: KeyedProcess, K: KeyBy<P::In, Key = P::Key>> SaveState for Keyed<K, P> {
    fn save(&self, out: &mut Vec<u8>) {
        FRAME.save(out, |body| {
            self.watermark_ns.encode(body);
            self.states.encode(body);
            let Timers { timers, postponed, .. } = &self.timers;
            if postponed.is_empty() {
                timers.encode(body);
            } else {
                // A call that panicked may have left postponed timers.
                timers.iter().chain(postponed).cloned().collect::<BTreeSet<_>>().encode(body);
            }
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let read = FRAME
            .load(bytes, |body| Ok((u64::decode(body)?, Table::decode(body)?, Decode::decode(body)?)))?;
        let timers;
        (self.watermark_ns, self.states, timers) = read;
        self.timers = Timers { timers, due_ns: None, postponed: Vec::new() };
        Ok(())
    }
}
