//! The order of tuples of a replicated group: outputs continue in the order in which their inputs came, whichever replica was
//! the first to be done.

use std::collections::{BTreeMap, VecDeque};

use super::ring::NO_TICKET;

/// A tuple on its way from a core to the ring of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    /// The channel that it goes along.
    pub(super) channel: usize,
    /// Place of its key among all, from 0 to 1: it decides which replica takes it.
    pub(super) key: f64,
    /// The core that sends it.
    pub(super) core: usize,
    /// When the tuple of the input that it stems from was meant to arrive.
    pub(super) origin_ps: u64,
    /// When it was sent.
    pub(super) sent_ps: u64,
}

/// The tuples of a channel that are with the replicas of its receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// The ticket of the first one.
    first: u64,
    /// The core of each, and whether it is done.
    tickets: VecDeque<(usize, bool)>,
    /// For each core, outputs of tuples that are done after others that are not.
    pending: BTreeMap<usize, VecDeque<(u64, Output)>>,
    /// Cores with outputs for which there is no room.
    pub(super) blocked: Vec<usize>,
    pub(super) is_releasing: bool,
}

impl Order {
    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// A tuple has gone to a core. Returns its ticket.
    pub(super) fn issue(&mut self, core: usize) -> u64 {
        self.tickets.push_back((core, false));
        self.first + self.tickets.len() as u64 - 1
    }

    /// Returns whether outputs of a ticket have to wait for others.
    pub(super) fn is_valid(&self, ticket: u64) -> bool {
        ticket != NO_TICKET && ticket >= self.first
    }

    /// Returns the number of outputs of a core that wait.
    pub(super) fn pending(&self, core: usize) -> usize {
        self.pending.get(&core).map_or(0, VecDeque::len)
    }

    /// Returns whether outputs of any core wait.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.values().any(|outputs| !outputs.is_empty())
    }

    pub(super) fn push(&mut self, ticket: u64, output: Output) {
        self.pending.entry(output.core).or_default().push_back((ticket, output));
    }

    /// All outputs of a ticket have been pushed.
    pub(super) fn complete(&mut self, ticket: u64) {
        if let Some(index) = ticket.checked_sub(self.first)
            && let Some((_, is_done)) = self.tickets.get_mut(index as usize)
        {
            *is_done = true;
        }
    }

    /// Returns the next output in order, unless its tuple is not done; tickets without outputs are dropped.
    pub(super) fn next(&mut self) -> Option<Output> {
        while let Some(&(core, is_done)) = self.tickets.front() {
            let front = self.pending.get(&core).and_then(|outputs| outputs.front());
            // A tuple's outputs need not wait until all of them are known, once it is the first.
            if let Some(&(_, output)) = front.filter(|(ticket, _)| *ticket == self.first) {
                return Some(output);
            }
            if !is_done {
                return None;
            }
            self.tickets.pop_front();
            self.first += 1;
        }
        None
    }

    /// Takes the output that [`Order::next`] has returned.
    pub(super) fn pop(&mut self) -> Option<Output> {
        let core = self.tickets.front()?.0;
        self.pending.get_mut(&core)?.pop_front().map(|(_, output)| output)
    }

    /// The operators of one core are on another one.
    pub(super) fn rename(&mut self, from: usize, to: usize) {
        self.tickets.iter_mut().filter(|ticket| ticket.0 == from).for_each(|ticket| ticket.0 = to);
        if let Some(moved) = self.pending.remove(&from) {
            let outputs = self.pending.entry(to).or_default();
            outputs.extend(moved.into_iter().map(|(ticket, output)| (ticket, Output { core: to, ..output })));
            outputs.make_contiguous().sort_by_key(|output| output.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_leave_in_the_order_of_their_inputs() {
        let mut order = Order::default();
        let [first, second, third] = [0, 1, 0].map(|core| order.issue(core));
        let output = |core, origin_ps| Output { channel: 0, key: 0.0, core, origin_ps, sent_ps: 0 };
        order.push(second, output(1, 20));
        order.complete(second);
        assert!(order.next().is_none());
        order.push(first, output(0, 10));
        order.push(first, output(0, 11));
        order.complete(first);
        order.push(third, output(0, 30));
        let left: Vec<u64> = std::iter::from_fn(|| {
            order.next()?;
            order.pop().map(|output| output.origin_ps)
        })
        .collect();
        assert_eq!(left, [10, 11, 20, 30]);
        assert!(!order.is_empty());
        order.complete(third);
        assert!(order.next().is_none() && order.is_empty());
    }
}
