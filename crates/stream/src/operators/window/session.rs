//! Session windows: spans of activity of a key, between gaps without.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::marker::PhantomData;

use super::list::{Session, SessionList};
use super::{Window, WindowResult, has_passed};
use crate::operator::{Emitter, Operator, Recover};
use crate::operators::aggregate::Aggregate;
use crate::operators::key::{Key, KeyBy, Table, Value};
use crate::operators::late::LateCounter;
use crate::state::{Decode, Encode, Frame, SaveState, StateError};

/// Sessions of each key: values whose event times are less than the gap apart belong to one. A session is from its
/// first value to the gap after its last one; a value between two sessions joins them.
///
/// A value is late if no session is left that it belongs to, and one of its own would have ended, allowed lateness
/// included: it is dropped and counted.
pub struct Sessions<T, F, K: KeyBy<T>, A: Aggregate<T>> {
    gap_ns: u64,
    lateness_ns: u64,
    time: F,
    key: K,
    aggregate: A,
    keys: Table<K::Key, SessionList<A::State>>,
    /// When to look at a session next. A value that extends a session leaves its timer as it is: there is about one
    /// timer for each gap of time in which a key is active, and not one for each value.
    timers: BinaryHeap<Reverse<(u64, K::Key)>>,
    /// The timer whose sessions are being looked at. It stays if that panics, so that the next watermark continues with it.
    due: Option<(u64, K::Key)>,
    watermark_ns: u64,
    late: LateCounter,
    types: PhantomData<fn(T)>,
}

const FRAME: Frame = Frame { kind: "session windows", version: 1 };

/// A result with its arrival.
type Arrived<K, V> = (WindowResult<K, V>, u64);

/// Returns the sessions in the saved state of a [`Sessions`] that are to be emitted: key, event times of the first
/// and the last value, state.
///
/// # Errors
/// If the bytes are damaged.
pub fn saved_sessions<K: Key, S: Value>(bytes: &[u8]) -> Result<Vec<(K, [u64; 2], S)>, StateError> {
    FRAME.load(bytes, |body| {
        let _gap_and_lateness = <(u64, u64)>::decode(body)?;
        let _watermark_and_late = <(u64, u64)>::decode(body)?;
        let keys = BTreeMap::<K, SessionList<S>>::decode(body)?;
        let sessions = keys.into_iter().flat_map(|(key, list)| {
            let pending = list.into_iter().filter(|session| session.is_pending);
            pending.map(move |session| (key.clone(), [session.first_ns, session.last_ns], session.state))
        });
        Ok(sessions.collect())
    })
}

impl<T, F, K, A> Sessions<T, F, K, A>
where
    F: FnMut(&T) -> u64,
    K: KeyBy<T>,
    A: Aggregate<T>,
{
    /// Sessions that end `gap_ns` after their last value.
    ///
    /// # Panics
    /// If the gap is 0.
    pub fn new(gap_ns: u64, time: F, key: K, aggregate: A) -> Sessions<T, F, K, A> {
        assert!(gap_ns > 0, "a session without a gap never begins");
        Sessions {
            gap_ns,
            lateness_ns: 0,
            time,
            key,
            aggregate,
            keys: Table::default(),
            timers: BinaryHeap::new(),
            due: None,
            watermark_ns: 0,
            late: LateCounter::default(),
            types: PhantomData,
        }
    }
}

impl<T, F, K: KeyBy<T>, A: Aggregate<T>> Sessions<T, F, K, A> {
    /// Keeps each session for this time after its end, in nanoseconds. A session that late values extend or join is
    /// emitted again as an update; those that were joined are part of it and are not taken back.
    #[must_use]
    pub fn allow_late(self, lateness_ns: u64) -> Self {
        Sessions { lateness_ns, ..self }
    }

    /// Returns the number of values that were dropped.
    pub fn late_counter(&self) -> LateCounter {
        self.late.clone()
    }

    /// Returns the number of sessions that are kept.
    pub fn entries(&self) -> usize {
        self.keys.values().map(SessionList::len).sum()
    }

    /// Emits and frees the sessions whose timer is due.
    fn visit_due(&mut self, results: &mut Vec<Arrived<K::Key, A::Output>>) {
        let Sessions { gap_ns, lateness_ns, aggregate, keys, timers, watermark_ns, .. } = self;
        let (gap_ns, watermark_ns) = (*gap_ns, *watermark_ns);
        let Some((timer_ns, key)) = &self.due else { return };
        let Some(list) = keys.get_mut(key) else { return };
        for session in list.due(*timer_ns) {
            if session.is_pending && has_passed(session.last_ns, gap_ns, watermark_ns) {
                results.push(session.emit(gap_ns, key, |state| aggregate.output(state)));
            }
        }
        let keep_ns = gap_ns.saturating_add(*lateness_ns);
        list.retain(|session| {
            if session.timer_ns != *timer_ns {
                return true;
            }
            if !session.is_pending && has_passed(session.last_ns, keep_ns, watermark_ns) {
                return false;
            }
            let wait_ns = if session.is_pending { gap_ns } else { keep_ns };
            session.timer_ns = session.last_ns.saturating_add(wait_ns);
            set_timer(timers, session.timer_ns, key);
            true
        });
        if list.len() == 0 {
            keys.remove(key);
        }
    }
}

/// Sets a timer, unless it is never.
fn set_timer<K: Clone + Ord>(timers: &mut BinaryHeap<Reverse<(u64, K)>>, timer_ns: u64, key: &K) {
    if timer_ns < u64::MAX {
        timers.push(Reverse((timer_ns, key.clone())));
    }
}

impl<S> Session<S> {
    /// Returns the result, which is no longer pending even if `output` panics: it would panic again.
    fn emit<K: Clone, V>(&mut self, gap_ns: u64, key: &K, output: impl FnOnce(&S) -> V) -> Arrived<K, V> {
        let window = Window { start_ns: self.first_ns, end_ns: self.last_ns.saturating_add(gap_ns) };
        let is_update = self.is_emitted;
        (self.is_pending, self.is_emitted) = (false, true);
        let value = output(&self.state);
        (WindowResult { window, key: key.clone(), value, is_update }, self.arrival_ns)
    }
}

fn emit_sorted<K: Ord, V>(mut results: Vec<Arrived<K, V>>, out: &mut Emitter<WindowResult<K, V>>) {
    results.sort_unstable_by(|(one, _), (other, _)| {
        let order = one.window.end_ns.cmp(&other.window.end_ns).then_with(|| one.key.cmp(&other.key));
        order.then_with(|| one.window.start_ns.cmp(&other.window.start_ns))
    });
    results.into_iter().for_each(|(result, arrival_ns)| out.emit_at(result, arrival_ns));
}

impl<T, F, K, A> Recover for Sessions<T, F, K, A>
where
    T: 'static,
    F: FnMut(&T) -> u64 + Send + 'static,
    K: KeyBy<T>,
    A: Aggregate<T>,
{
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<T, F, K, A> Operator for Sessions<T, F, K, A>
where
    T: Send + 'static,
    F: FnMut(&T) -> u64 + Send + 'static,
    K: KeyBy<T>,
    A: Aggregate<T>,
{
    type In = T;
    type Out = WindowResult<K::Key, A::Output>;

    fn process(&mut self, value: T, out: &mut Emitter<Self::Out>) {
        let time_ns = (self.time)(&value);
        let Sessions { gap_ns, lateness_ns, key, aggregate, keys, timers, watermark_ns, late, .. } = self;
        let is_late = has_passed(time_ns, gap_ns.saturating_add(*lateness_ns), *watermark_ns);
        let mut add_to = |list: &mut SessionList<A::State>, key: &K::Key| {
            let add = |state: &mut A::State| aggregate.add(state, &value);
            let merge = |state: &mut A::State, later: &A::State| aggregate.merge(state, later);
            let Some(session) = list.session(time_ns, *gap_ns, is_late, || aggregate.init(), add, merge)
            else {
                return late.count();
            };
            session.arrival_ns = session.arrival_ns.max(out.arrival_ns());
            session.is_pending = true;
            let end_ns = session.last_ns.saturating_add(*gap_ns);
            if end_ns < session.timer_ns {
                session.timer_ns = end_ns;
                set_timer(timers, end_ns, key);
            }
        };
        key.with_key(&value, |key| match keys.get_mut(key) {
            Some(list) => add_to(list, key),
            None if is_late => late.count(),
            None => {
                // If adding the value panics, nothing of it remains.
                let mut list = SessionList::default();
                add_to(&mut list, key);
                keys.insert(key.clone(), list);
            }
        });
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Self::Out>) {
        if time_ns <= self.watermark_ns {
            return;
        }
        self.watermark_ns = time_ns;
        let mut results = Vec::new();
        // A call that panicked may have left due sessions.
        self.visit_due(&mut results);
        // Timers that are set on the way are later than the watermark.
        while let Some(timer) = self.timers.peek()
            && timer.0.0 <= time_ns
        {
            self.due = self.timers.pop().map(|Reverse(timer)| timer);
            self.visit_due(&mut results);
        }
        self.due = None;
        emit_sorted(results, out);
    }

    fn end(&mut self, out: &mut Emitter<Self::Out>) {
        let mut results = Vec::new();
        for (key, mut list) in self.keys.drain() {
            list.retain(|session| {
                if session.is_pending {
                    results.push(session.emit(self.gap_ns, &key, |state| self.aggregate.output(state)));
                }
                false
            });
        }
        self.timers.clear();
        self.due = None;
        emit_sorted(results, out);
    }
}

impl<T, F, K: KeyBy<T>, A: Aggregate<T>> SaveState for Sessions<T, F, K, A> {
    fn save(&self, out: &mut Vec<u8>) {
        FRAME.save(out, |body| {
            (self.gap_ns, self.lateness_ns).encode(body);
            (self.watermark_ns, self.late.get()).encode(body);
            self.keys.encode(body);
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let (watermark_ns, late, keys) = FRAME.load(bytes, |body| {
            body.setting("a session gap in ns of", &self.gap_ns)?;
            body.setting("an allowed lateness in ns of", &self.lateness_ns)?;
            Ok((u64::decode(body)?, u64::decode(body)?, Table::<K::Key, SessionList<_>>::decode(body)?))
        })?;
        self.timers.clear();
        self.due = None;
        for (key, list) in &keys {
            list.timers().for_each(|timer_ns| set_timer(&mut self.timers, timer_ns, key));
        }
        self.keys = keys;
        self.watermark_ns = watermark_ns;
        self.late.set(late);
        Ok(())
    }
}
