//! The sessions of a key.

use smallvec::SmallVec;

use crate::state::{Decode, Decoder, Encode, StateError};

/// Sessions in the order of their times, at least a gap apart; mostly one, which needs no allocation.
pub(super) struct SessionList<S>(SmallVec<[Session<S>; 1]>);

pub(super) struct Session<S> {
    /// Event time of the first value.
    pub(super) first_ns: u64,
    /// Event time of the last value.
    pub(super) last_ns: u64,
    pub(super) state: S,
    /// The latest arrival of a value.
    pub(super) arrival_ns: u64,
    /// When the session is looked at next; `u64::MAX` for never.
    pub(super) timer_ns: u64,
    /// Whether a value has come since the last result.
    pub(super) is_pending: bool,
    /// Whether there was a result.
    pub(super) is_emitted: bool,
}

impl<S> Default for SessionList<S> {
    fn default() -> SessionList<S> {
        SessionList(SmallVec::new())
    }
}

impl<S> SessionList<S> {
    /// Returns the session of a value at `time_ns`, extended to it: one that is less than the gap away, two of them
    /// merged, or a new one. None if it would be new and the value is late.
    ///
    /// `add` adds the value to the state before the sessions change: if it panics, none is new, extended or merged.
    pub(super) fn session(
        &mut self,
        time_ns: u64,
        gap_ns: u64,
        is_late: bool,
        init: impl FnOnce() -> S,
        add: impl FnOnce(&mut S),
        merge: impl FnOnce(&mut S, &S),
    ) -> Option<&mut Session<S>> {
        let sessions = &mut self.0;
        let begins_near = |session: &Session<S>| session.first_ns.saturating_sub(time_ns) < gap_ns;
        let at = sessions.partition_point(|session| time_ns.saturating_sub(session.last_ns) >= gap_ns);
        if !sessions.get(at).is_some_and(begins_near) {
            if is_late {
                return None;
            }
            let mut state = init();
            add(&mut state);
            sessions.insert(at, Session::new(time_ns, state));
        } else {
            add(&mut sessions[at].state);
            if let [session, later, ..] = &mut sessions[at..]
                && begins_near(later)
            {
                session.join(later, merge);
                sessions.remove(at + 1);
            }
        }
        let session = &mut sessions[at];
        session.first_ns = session.first_ns.min(time_ns);
        session.last_ns = session.last_ns.max(time_ns);
        Some(session)
    }

    /// Returns the sessions that are to be looked at at this time.
    pub(super) fn due(&mut self, timer_ns: u64) -> impl Iterator<Item = &mut Session<S>> {
        self.0.iter_mut().filter(move |session| session.timer_ns == timer_ns)
    }

    /// Removes the sessions for which `is_kept` is false. It must not panic: the order would be lost.
    pub(super) fn retain(&mut self, is_kept: impl FnMut(&mut Session<S>) -> bool) {
        self.0.retain(is_kept);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = Session<S>> {
        self.0.into_iter()
    }

    pub(super) fn timers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|session| session.timer_ns)
    }
}

impl<S> Session<S> {
    fn new(time_ns: u64, state: S) -> Session<S> {
        Session {
            first_ns: time_ns,
            last_ns: time_ns,
            state,
            arrival_ns: 0,
            timer_ns: u64::MAX,
            is_pending: false,
            is_emitted: false,
        }
    }

    /// Takes in the session that follows. Of both timers the earlier one stays; the other one meets no session.
    fn join(&mut self, later: &Session<S>, merge: impl FnOnce(&mut S, &S)) {
        merge(&mut self.state, &later.state);
        self.last_ns = later.last_ns;
        self.arrival_ns = self.arrival_ns.max(later.arrival_ns);
        self.timer_ns = self.timer_ns.min(later.timer_ns);
        self.is_pending |= later.is_pending;
        self.is_emitted |= later.is_emitted;
    }
}

impl<S: Encode> Encode for SessionList<S> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.as_slice().encode(out);
    }
}

impl<S: Decode> Decode for SessionList<S> {
    fn decode(from: &mut Decoder<'_>) -> Result<SessionList<S>, StateError> {
        Vec::decode(from).map(|sessions| SessionList(SmallVec::from_vec(sessions)))
    }
}

impl<S: Encode> Encode for Session<S> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.first_ns, self.last_ns).encode(out);
        self.state.encode(out);
        (self.arrival_ns, self.timer_ns, self.is_pending, self.is_emitted).encode(out);
    }
}

impl<S: Decode> Decode for Session<S> {
    fn decode(from: &mut Decoder<'_>) -> Result<Session<S>, StateError> {
        let (first_ns, last_ns) = Decode::decode(from)?;
        let state = S::decode(from)?;
        let (arrival_ns, timer_ns, is_pending, is_emitted) = Decode::decode(from)?;
        Ok(Session { first_ns, last_ns, state, arrival_ns, timer_ns, is_pending, is_emitted })
    }
}
