//! Values in flight, whose results leave in the order in which they came, whatever the order of the replies. Pure.
//!
//! A ticket is the place of an entry in the sequence of all, so that a reply finds its value at once. Values beyond those
//! that may be in flight wait unsubmitted: the outputs of one call of the operator before.

use std::collections::VecDeque;

/// Values (`V`) with the replies (`R`) that are awaited for them, and marks (`M`) that keep their places between them.
pub(crate) struct Reorder<V, M, R> {
    entries: VecDeque<Entry<V, M, R>>,
    /// Ticket of the first entry.
    first: u64,
    /// Ticket from which on values wait to be submitted.
    next: u64,
    /// Values.
    values: usize,
    /// Values that were submitted.
    submitted: usize,
    in_flight: usize,
    submitted_max: usize,
}

enum Entry<V, M, R> {
    Value(V, Progress<R>),
    Mark(M),
}

/// Progress of a value.
enum Progress<R> {
    Waiting,
    InFlight,
    /// With its reply; none if there will not be any.
    Done(Option<R>),
}

/// An entry that leaves.
#[derive(Debug, PartialEq)]
pub(crate) enum Released<V, M, R> {
    /// A value with its reply; none if there is none.
    Value(V, Option<R>),
    Mark(M),
}

/// An entry that has not left.
pub(crate) enum Held<'a, V, M> {
    Value(&'a V),
    Mark(&'a M),
}

impl<V, M, R> Reorder<V, M, R> {
    /// Without entries; at most `submitted_max` values, and at least one, are submitted and have not left.
    pub(crate) fn new(submitted_max: usize) -> Reorder<V, M, R> {
        Reorder {
            entries: VecDeque::new(),
            first: 0,
            next: 0,
            values: 0,
            submitted: 0,
            in_flight: 0,
            submitted_max: submitted_max.max(1),
        }
    }

    /// Adds a value, which waits to be submitted.
    pub(crate) fn push(&mut self, value: V) {
        self.values += 1;
        self.entries.push_back(Entry::Value(value, Progress::Waiting));
    }

    /// Adds a mark.
    pub(crate) fn push_mark(&mut self, mark: M) {
        self.entries.push_back(Entry::Mark(mark));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether no further value could be submitted at once.
    pub(crate) fn is_full(&self) -> bool {
        self.values >= self.submitted_max
    }

    /// Returns the values whose replies are awaited.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the next value to be submitted, with its ticket; it is in flight from now on.
    pub(crate) fn submit(&mut self) -> Option<(u64, &V)> {
        if self.submitted >= self.submitted_max {
            return None;
        }
        while !self.is_waiting(self.next)? {
            self.next += 1;
        }
        let ticket = self.next;
        self.next += 1;
        let entry = self.entries.get_mut(index(self.first, ticket)?)?;
        let Entry::Value(value, progress) = entry else { return None };
        *progress = Progress::InFlight;
        self.submitted += 1;
        self.in_flight += 1;
        Some((ticket, value))
    }

    /// Returns whether a value of this ticket waits to be submitted; none behind the last entry.
    fn is_waiting(&self, ticket: u64) -> Option<bool> {
        let entry = self.entries.get(index(self.first, ticket)?)?;
        Some(matches!(entry, Entry::Value(_, Progress::Waiting)))
    }

    /// Takes the reply to a value in flight, or that there will be none. Whether a value of this ticket is in flight.
    pub(crate) fn complete(&mut self, ticket: u64, reply: Option<R>) -> bool {
        let entry = index(self.first, ticket).and_then(|index| self.entries.get_mut(index));
        if let Some(Entry::Value(_, progress @ Progress::InFlight)) = entry {
            *progress = Progress::Done(reply);
            self.in_flight -= 1;
            return true;
        }
        false
    }

    /// Returns the first entry, if nothing is awaited for it any more.
    pub(crate) fn release(&mut self) -> Option<Released<V, M, R>> {
        if let Entry::Value(_, Progress::Waiting | Progress::InFlight) = self.entries.front()? {
            return None;
        }
        self.first += 1;
        self.next = self.next.max(self.first);
        match self.entries.pop_front()? {
            Entry::Mark(mark) => Some(Released::Mark(mark)),
            Entry::Value(value, progress) => {
                self.values -= 1;
                self.submitted -= 1;
                let reply = if let Progress::Done(reply) = progress { reply } else { None };
                Some(Released::Value(value, reply))
            }
        }
    }

    /// All values in flight wait to be submitted again.
    pub(crate) fn withdraw(&mut self) {
        for entry in &mut self.entries {
            if let Entry::Value(_, progress @ Progress::InFlight) = entry {
                *progress = Progress::Waiting;
                self.submitted -= 1;
            }
        }
        self.in_flight = 0;
        self.next = self.first;
    }

    /// No reply is awaited any more. Returns the number of values that have none.
    pub(crate) fn abandon(&mut self) -> u64 {
        let mut abandoned = 0;
        for entry in &mut self.entries {
            if let Entry::Value(_, progress @ (Progress::Waiting | Progress::InFlight)) = entry {
                self.submitted += usize::from(matches!(progress, Progress::Waiting));
                *progress = Progress::Done(None);
                abandoned += 1;
            }
        }
        self.in_flight = 0;
        abandoned
    }

    /// Returns the entries, in their order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Held<'_, V, M>> {
        self.entries.iter().map(|entry| match entry {
            Entry::Value(value, _) => Held::Value(value),
            Entry::Mark(mark) => Held::Mark(mark),
        })
    }
}

/// Returns the index of a ticket among entries from `first` on; none if it has left.
fn index(first: u64, ticket: u64) -> Option<usize> {
    usize::try_from(ticket.checked_sub(first)?).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn below(random: &mut Pcg64, bound: usize) -> usize {
        (random.next_u64() % bound as u64) as usize
    }

    #[test]
    fn entries_leave_in_their_order_whatever_the_order_of_replies() {
        for seed in 0..300 {
            let mut random = Pcg64::seed_from_u64(seed);
            let (count, limit) = (below(&mut random, 200), 1 + below(&mut random, 9));
            let mut window = Reorder::new(limit);
            let (mut pushed, mut in_flight, mut left) = (0, Vec::new(), Vec::new());
            let mut refused = Vec::new();
            while pushed < count || !window.is_empty() {
                match below(&mut random, 5) {
                    0 if pushed < count => {
                        if pushed % 7 == 3 {
                            window.push_mark(pushed)
                        } else {
                            window.push(pushed)
                        }
                        pushed += 1;
                    }
                    1 => in_flight.extend(window.submit().map(|(ticket, &value)| (ticket, value))),
                    2 if !in_flight.is_empty() => {
                        let at = below(&mut random, in_flight.len());
                        let (ticket, value): (u64, usize) = in_flight.swap_remove(at);
                        // A reply that comes twice is not taken twice.
                        let reply = (!value.is_multiple_of(11)).then_some(value * 2);
                        assert!(window.complete(ticket, reply));
                        assert!(!window.complete(ticket, Some(0)));
                        refused.extend(reply.is_none().then_some(value));
                    }
                    3 => left.extend(window.release()),
                    4 if below(&mut random, 20) == 0 => {
                        window.withdraw();
                        in_flight.clear();
                    }
                    _ => {}
                }
                assert!(in_flight.len() <= limit && window.in_flight() == in_flight.len(), "seed {seed}");
            }
            assert!(!window.is_full());
            let expected: Vec<_> = (0..count)
                .map(|number| match number {
                    _ if number % 7 == 3 => Released::Mark(number),
                    _ if refused.contains(&number) => Released::Value(number, None),
                    _ => Released::Value(number, Some(number * 2)),
                })
                .collect();
            assert_eq!(left, expected, "seed {seed}");
        }
    }

    #[test]
    fn a_value_that_is_not_first_holds_its_place_among_those_submitted() {
        let mut window = Reorder::<_, (), _>::new(2);
        (0..3).for_each(|value| window.push(value));
        assert_eq!(window.submit(), Some((0, &0)));
        assert_eq!(window.submit(), Some((1, &1)));
        assert!(window.complete(1, Some('b')));
        assert!(window.submit().is_none() && window.release().is_none());
        assert!(window.complete(0, Some('a')));
        assert_eq!(window.release(), Some(Released::Value(0, Some('a'))));
        assert_eq!(window.submit(), Some((2, &2)));
    }

    #[test]
    fn values_that_are_abandoned_leave_without_replies() {
        let mut window = Reorder::<_, _, ()>::new(1);
        window.push(0);
        window.push_mark('m');
        window.push(1);
        assert_eq!(window.submit(), Some((0, &0)));
        assert_eq!(window.abandon(), 2);
        let left: Vec<_> = std::iter::from_fn(|| window.release()).collect();
        assert_eq!(left, [Released::Value(0, None), Released::Mark('m'), Released::Value(1, None)]);
        window.push(2);
        assert_eq!(window.submit(), Some((3, &2)));
    }
}
