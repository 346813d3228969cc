//! The queued commands, in order of arrival, and indices by address and by cylinder, so that neither a choice nor a read
//! that passes commands on its way looks at all of them.

use std::collections::VecDeque;
use std::ops::Range;

use sakiyomi_model::Nanos;

use super::Waiting;
use crate::servo::Target;

/// Order of arrival of a queued command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Commands that wait for the mechanism.
#[derive(Clone, Debug)]
pub(crate) struct CommandQueue {
    /// Number of the oldest commands that the policies consider.
    window: usize,
    slots: Vec<Waiting>,
    free: Vec<usize>,
    /// Tickets and slots, in order of arrival.
    order: VecDeque<(Ticket, usize)>,
    next_ticket: u64,
    /// First sectors and slots of all commands, ascending.
    by_address: Vec<(u64, usize)>,
    /// Cylinders, tickets and slots of the commands in the window, ascending; kept only if [`Self::new`] is told so.
    by_cylinder: Option<Vec<(u32, Ticket, usize)>>,
    /// Sectors of the longest command since the queue was empty.
    longest: u64,
}

impl CommandQueue {
    /// Creates an empty queue. `by_cylinder` tells whether [`Self::outward`] is used.
    pub(crate) fn new(window: usize, by_cylinder: bool) -> CommandQueue {
        CommandQueue {
            window: window.max(1),
            slots: Vec::new(),
            free: Vec::new(),
            order: VecDeque::new(),
            next_ticket: 0,
            by_address: Vec::new(),
            by_cylinder: by_cylinder.then(Vec::new),
            longest: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Appends a command, which arrived no earlier than the others.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        debug_assert!(
            self.order.back().is_none_or(|(_, last)| self.slots[*last].since <= waiting.since),
            "commands are appended as they arrive"
        );
        self.put(self.order.len(), ticket, waiting);
    }

    /// Removes a command.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Waiting {
        let place = self.place(ticket);
        let (_, slot) = self.order.remove(place).expect("a place in the queue");
        let waiting = self.slots[slot];
        self.free.push(slot);
        let at = self.place_by_address(waiting.lba, slot);
        self.by_address.remove(at);
        if place < self.window {
            self.leave_window(ticket, slot);
            if let Some(&(ticket, slot)) = self.order.get(self.window - 1) {
                self.enter_window(ticket, slot);
            }
        }
        if self.order.is_empty() {
            self.longest = 0;
        }
        waiting
    }

    /// Puts a removed command back into its place.
    pub(crate) fn restore(&mut self, ticket: Ticket, waiting: Waiting) {
        let place = self.order.partition_point(|(other, _)| *other < ticket);
        self.put(place, ticket, waiting);
    }

    /// Moves the start of a command.
    pub(crate) fn set_start(&mut self, ticket: Ticket, lba: u64, target: Target) {
        let waiting = Waiting { lba, target, ..self.remove(ticket) };
        self.restore(ticket, waiting);
    }

    /// Returns the time since which the oldest command waits.
    pub(crate) fn oldest_since(&self) -> Option<Nanos> {
        self.order.front().map(|(_, slot)| self.slots[*slot].since)
    }

    /// Returns the commands in the window, in order of arrival.
    pub(crate) fn window(&self) -> impl Iterator<Item = (Ticket, &Waiting)> {
        self.order.iter().take(self.window).map(|(ticket, slot)| (*ticket, &self.slots[*slot]))
    }

    /// Returns the commands in the window that arrived before `ticket`, in order of arrival; all if it is `None`.
    pub(crate) fn older(&self, ticket: Option<Ticket>) -> impl Iterator<Item = &Waiting> {
        let older = move |other: &Ticket| ticket.is_none_or(|ticket| *other < ticket);
        self.window().take_while(move |(other, _)| older(other)).map(|(_, waiting)| waiting)
    }

    /// Returns whether a write waits.
    pub(crate) fn any_write(&self) -> bool {
        self.order.iter().any(|(_, slot)| self.slots[*slot].write)
    }

    /// Returns whether a command is ready at `now`.
    pub(crate) fn any_ready(&self, now: Nanos) -> bool {
        self.order.iter().any(|(_, slot)| self.slots[*slot].ready <= now)
    }

    /// Returns the first read from `from` on, in order of arrival, that satisfies `counts` and whose first sector is in
    /// `sectors`.
    pub(crate) fn first_read(
        &self,
        from: Option<Ticket>,
        sectors: Range<u64>,
        counts: impl Fn(&Waiting) -> bool,
    ) -> Option<(Ticket, Waiting)> {
        let begin = self.by_address.partition_point(|(lba, _)| *lba < sectors.start);
        let within = self.by_address[begin..].iter().take_while(|(lba, _)| *lba < sectors.end);
        let reads = within.map(|(_, slot)| &self.slots[*slot]).filter(|waiting| !waiting.write);
        let reads = reads.filter(|waiting| counts(waiting)).map(|waiting| (waiting.ticket, *waiting));
        reads.filter(|(ticket, _)| from.is_none_or(|from| *ticket >= from)).min_by_key(|(ticket, _)| *ticket)
    }

    /// Returns whether a command continues one in the window that is ready at `now`: the head reaches its first sector
    /// after the other's, without a gap.
    pub(crate) fn continues(&self, candidate: &Waiting, now: Nanos) -> bool {
        let after = self.by_address.partition_point(|(lba, _)| *lba < candidate.lba);
        let near = self.by_address[..after].iter().rev();
        let mut near = near.take_while(|(lba, _)| candidate.lba - lba <= self.longest);
        let beyond = self.order.get(self.window).map(|(ticket, _)| *ticket);
        near.any(|(_, slot)| {
            let before = &self.slots[*slot];
            candidate.lba <= before.end
                && before.write == candidate.write
                && before.ready <= now
                && beyond.is_none_or(|beyond| before.ticket < beyond)
        })
    }

    /// Returns the commands in the window from a cylinder outwards: distances in cylinders, which do not fall.
    pub(crate) fn outward(&self, cylinder: u32) -> impl Iterator<Item = (u32, &Waiting)> {
        let all = self.by_cylinder.as_deref().unwrap_or_default();
        let middle = all.partition_point(|(other, ..)| *other < cylinder);
        let (mut below, mut above) = (middle, middle);
        std::iter::from_fn(move || {
            let inner = below.checked_sub(1).map(|at| cylinder - all[at].0);
            let outer = all.get(above).map(|other| other.0 - cylinder);
            let (distance, at) = match (inner, outer) {
                (Some(inner), outer) if outer.is_none_or(|outer| inner < outer) => {
                    below -= 1;
                    (inner, below)
                }
                (_, Some(outer)) => {
                    above += 1;
                    (outer, above - 1)
                }
                _ => return None,
            };
            Some((distance, &self.slots[all[at].2]))
        })
    }

    fn place(&self, ticket: Ticket) -> usize {
        self.order.binary_search_by_key(&ticket, |(ticket, _)| *ticket).expect("a queued command")
    }

    fn place_by_address(&self, lba: u64, slot: usize) -> usize {
        self.by_address.binary_search(&(lba, slot)).expect("a queued command")
    }

    fn put(&mut self, place: usize, ticket: Ticket, waiting: Waiting) {
        let waiting = Waiting { ticket, ..waiting };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = waiting;
                slot
            }
            None => {
                self.slots.push(waiting);
                self.slots.len() - 1
            }
        };
        self.order.insert(place, (ticket, slot));
        let at = self.by_address.partition_point(|other| *other < (waiting.lba, slot));
        self.by_address.insert(at, (waiting.lba, slot));
        self.longest = self.longest.max(waiting.end - waiting.lba);
        if place < self.window {
            if let Some(&(ticket, slot)) = self.order.get(self.window) {
                self.leave_window(ticket, slot);
            }
            self.enter_window(ticket, slot);
        }
    }

    fn enter_window(&mut self, ticket: Ticket, slot: usize) {
        let key = (self.slots[slot].target.cylinder, ticket, slot);
        if let Some(all) = &mut self.by_cylinder {
            all.insert(all.partition_point(|other| *other < key), key);
        }
    }

    fn leave_window(&mut self, ticket: Ticket, slot: usize) {
        let key = (self.slots[slot].target.cylinder, ticket, slot);
        if let Some(all) = &mut self.by_cylinder {
            all.remove(all.binary_search(&key).expect("a command in the window"));
        }
    }
}

impl Ticket {
    /// A command that is not queued: after all others.
    pub(crate) const NONE: Ticket = Ticket(u64::MAX);

    /// Returns the ticket of the next command.
    pub(crate) fn next(self) -> Ticket {
        Ticket(self.0 + 1)
    }
}
