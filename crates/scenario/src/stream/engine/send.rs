//! A tuple on its way to another core: order, room, wake-ups.

use super::{Engine, Entry, NO_TICKET, Output, ReadRequest, Waiter};
use crate::stream::time::NEVER_PS;

impl Engine<'_> {
    /// A core sends a tuple along a channel, at the time until which it has come; this takes CPU time.
    pub(super) fn send(&mut self, core: usize, channel: usize, origin_ps: u64, at_ps: &mut u64) {
        let is_replicated = self.placement.groups[self.group_of[self.receiver[channel]]].cores.len() > 1;
        let key = if is_replicated { self.random.unit() } else { 0.0 };
        let is_hop = channel < self.edges;
        let to = self.route(channel, key);
        let hop = self.hops[usize::from(self.is_far(core, to))];
        if is_hop {
            *at_ps += hop.send;
            self.interval.hops += 1;
        }
        let output = Output { channel, key, core, origin_ps, sent_ps: *at_ps };
        if is_hop && self.is_parked(to, *at_ps) {
            *at_ps += hop.waker;
        }
        if !self.cores[core].held.is_empty() || !self.offer(core, output) {
            self.cores[core].held.push_back(output);
        }
    }

    /// Returns the core that takes the tuples of a key.
    fn route(&self, channel: usize, key: f64) -> usize {
        let group = self.group_of[self.receiver[channel]];
        let replica = self.share_ends[group].partition_point(|&end| end <= key);
        let cores = &self.placement.groups[group].cores;
        cores[replica.min(cores.len() - 1)]
    }

    fn is_far(&self, from: usize, to: usize) -> bool {
        self.topology.domain_of(from) != self.topology.domain_of(to)
    }

    /// Sends an output, or puts it in order with those of other replicas; whether there was room.
    fn offer(&mut self, core: usize, output: Output) -> bool {
        if let Some((channel, ticket)) = self.cores[core].open
            && self.orders[channel].is_valid(ticket)
        {
            let order = &mut self.orders[channel];
            if order.pending(core) >= self.ring_slots {
                order.blocked.push(core);
                return false;
            }
            order.push(ticket, output);
            return true;
        }
        let to = self.route(output.channel, output.key);
        if self.is_full(output.channel, to) {
            self.rings[output.channel][to].times_full += 1;
            self.rings[output.channel][to].waiters.push(Waiter::Core(core));
            return false;
        }
        self.deliver(to, output);
        true
    }

    /// A core continues with its outputs that had no room.
    pub(super) fn flush(&mut self, core: usize) {
        while let Some(&output) = self.cores[core].held.front() {
            let output = Output { sent_ps: output.sent_ps.max(self.now_ps), ..output };
            if !self.offer(core, output) {
                return;
            }
            self.cores[core].held.pop_front();
        }
        self.close_ticket(core);
        if self.cores[core].current.is_none() {
            // Nothing was done meanwhile: the wait is not idleness.
            self.cores[core].idle_since_ps = self.now_ps;
            self.poke(core, self.now_ps);
            if self.change.is_some() {
                self.advance_change();
            }
        }
    }

    /// If all outputs of a core's ordered tuple are sent, those behind it may continue.
    pub(super) fn close_ticket(&mut self, core: usize) {
        if !self.cores[core].held.is_empty() {
            if let Some((channel, _)) = self.cores[core].open {
                self.release(channel);
            }
            return;
        }
        if let Some((channel, ticket)) = self.cores[core].open.take() {
            self.orders[channel].complete(ticket);
            self.release(channel);
        }
    }

    /// Sends the outputs of an ordered channel that are next.
    pub(super) fn release(&mut self, channel: usize) {
        if self.orders[channel].is_releasing {
            return;
        }
        self.orders[channel].is_releasing = true;
        while let Some(output) = self.orders[channel].next() {
            let to = self.route(output.channel, output.key);
            if self.is_full(output.channel, to) {
                let ring = &mut self.rings[output.channel][to];
                ring.times_full += 1;
                if !ring.waiters.contains(&Waiter::Order(channel)) {
                    ring.waiters.push(Waiter::Order(channel));
                }
                break;
            }
            self.orders[channel].pop();
            self.deliver(to, Output { sent_ps: output.sent_ps.max(self.now_ps), ..output });
            for core in std::mem::take(&mut self.orders[channel].blocked) {
                self.flush(core);
            }
        }
        self.orders[channel].is_releasing = false;
        let core = self.core_of(self.receiver[channel]);
        if !self.cores[core].drains.is_empty() {
            self.poke(core, self.now_ps);
        }
        if self.change.is_some() {
            self.advance_change();
        }
    }

    /// Puts an output into the ring of a core.
    fn deliver(&mut self, to: usize, output: Output) {
        let Output { channel, core, origin_ps, sent_ps, .. } = output;
        let sent_ps = sent_ps.max(self.rings[channel][to].last_sent_ps);
        if let Some(operator) = channel.checked_sub(self.edges + self.operators) {
            return self.deliver_read(
                operator,
                to,
                Entry { origin_ps, sent_ps, ready_ps: NEVER_PS, ticket: NO_TICKET, is_far: false },
            );
        }
        let is_far = self.is_far(core, to);
        let hop = self.hops[usize::from(is_far)];
        let mut ready_ps = sent_ps + hop.transit;
        if self.is_parked(to, sent_ps) {
            ready_ps += hop.wake;
            self.cores[to].awake_ps = ready_ps;
            self.cores[to].wakes += 1;
        }
        let ticket = self.ticket(channel, to);
        self.rings[channel][to].push(Entry { origin_ps, sent_ps, ready_ps, ticket, is_far });
        self.cores[to].queued += 1;
        self.poke(to, ready_ps);
    }

    /// A tuple from outside comes. Its source runs on the core of the operator that takes it, so it has no hop.
    pub(super) fn deliver_input(&mut self, channel: usize, core: usize, origin_ps: u64) {
        let now_ps = self.now_ps;
        let ticket = self.ticket(channel, core);
        let entry = Entry { origin_ps, sent_ps: now_ps, ready_ps: now_ps, ticket, is_far: false };
        self.rings[channel][core].push(entry);
        self.cores[core].queued += 1;
        self.poke(core, now_ps);
    }

    /// A look-up is issued.
    fn deliver_read(&mut self, operator: usize, core: usize, entry: Entry) {
        let Some(look_up) = self.look_ups[operator] else { return };
        let record = self.random.below((look_up.file_bytes / look_up.record_bytes).max(1));
        let channel = self.continuation(operator);
        let number = self.rings[channel][core].push(entry);
        let offset = record * look_up.record_bytes;
        self.reads.push(ReadRequest { at_ps: entry.sent_ps, operator, number, offset });
    }

    /// Returns the ticket of a tuple to a core; none if a single core takes all tuples of the channel.
    fn ticket(&mut self, channel: usize, core: usize) -> u64 {
        let group = self.group_of[self.receiver[channel]];
        let is_replicated = self.placement.groups[group].cores.len() > 1;
        if is_replicated || !self.orders[channel].is_empty() {
            self.orders[channel].issue(core)
        } else {
            NO_TICKET
        }
    }
}
