//! A tuple on a core: it goes through all operators of its segment at once.

use super::{Core, Engine};
use crate::stream::ring::{Entry, Waiter};
use crate::stream::time::{NEVER_PS, ns};

impl Engine<'_> {
    /// A core has ended a tuple, or has one to take.
    pub(super) fn act(&mut self, core: usize) {
        if self.cores[core].current.is_some() {
            self.finish(core);
        }
        self.next_ps[core] = NEVER_PS;
        let Some(first) = self.takes(core) else { return };
        let Some((channel, ready_ps)) = self.pick(core, first) else { return };
        let begin_ps = self.worked_from(core, ready_ps.max(self.cores[core].awake_ps));
        if begin_ps > self.now_ps {
            self.next_ps[core] = begin_ps;
        } else if let Some(entry) = self.rings[channel][core].take(self.now_ps) {
            self.begin(core, channel, entry);
        }
    }

    /// Returns the time, from `at_ps` on, at which a core is not stalled.
    fn worked_from(&mut self, core: usize, at_ps: u64) -> u64 {
        let at_ps = at_ps.max(self.now_ps);
        let stalls = &mut self.cores[core].stalls;
        while stalls.last().is_some_and(|&(_, end_ps)| end_ps <= self.now_ps) {
            stalls.pop();
        }
        match stalls.last() {
            Some(&(from_ps, end_ps)) if from_ps <= at_ps => end_ps.max(at_ps),
            _ => at_ps,
        }
    }

    /// Returns the channel, from `first_channel` on, whose next tuple has been ready for longest, and since
    /// when.
    fn pick(&mut self, core: usize, first_channel: usize) -> Option<(usize, u64)> {
        if first_channel == 0 && !self.cores[core].drains.is_empty() {
            // Tuples nearer to the end of the segment are older.
            let left = |channel: usize| Some((channel, self.rings[channel][core].front()?.ready_ps));
            let drains = self.cores[core].drains.iter();
            let oldest = drains.filter_map(|&channel| left(channel)).max_by_key(|it| self.receiver[it.0]);
            // Later tuples must not overtake their outputs that wait for room.
            if oldest.is_some() || self.cores[core].drains.iter().any(|&it| self.orders[it].has_pending()) {
                return oldest;
            }
            self.cores[core].drains.clear();
        }
        let mut first: Option<(usize, u64)> = None;
        for &channel in &self.cores[core].inputs {
            if channel >= first_channel
                && let Some(entry) = self.rings[channel][core].front()
                && entry.ready_ps < first.map_or(NEVER_PS, |first| first.1)
            {
                first = Some((channel, entry.ready_ps));
            }
        }
        first
    }

    /// Takes a tuple, and computes all that it gives.
    fn begin(&mut self, core: usize, channel: usize, entry: Entry) {
        self.account_idle(core, self.now_ps);
        let (mut at_ps, operator) = (self.now_ps, self.receiver[channel]);
        let is_ordered = self.orders[channel].is_valid(entry.ticket);
        self.cores[core].open = is_ordered.then_some((channel, entry.ticket));
        self.cores[core].current = Some(channel);
        if channel < self.edges + self.operators {
            self.cores[core].queued -= 1;
            if channel < self.edges {
                at_ps += self.hops[usize::from(entry.is_far)].receive;
            }
            self.run(core, operator, entry.origin_ps, &mut at_ps);
        } else {
            at_ps += self.reap_ps[operator];
            self.emit(core, operator, entry.origin_ps, &mut at_ps);
        }
        self.cores[core].busy_ps += self.within_window(self.now_ps, at_ps);
        self.cores[core].busy_until_ps = at_ps;
        self.next_ps[core] = at_ps;
        self.close_ticket(core);
    }

    /// Runs an operator, and all that follows it on its core.
    fn run(&mut self, core: usize, operator: usize, origin_ps: u64, at_ps: &mut u64) {
        self.outcome.operator_steps += 1;
        *at_ps += self.services[operator].draw(&mut self.random);
        if self.look_ups[operator].is_some() {
            self.send(core, self.continuation(operator), origin_ps, at_ps);
        } else {
            self.emit(core, operator, origin_ps, at_ps);
        }
    }

    /// Sends the results of an operator.
    fn emit(&mut self, core: usize, operator: usize, origin_ps: u64, at_ps: &mut u64) {
        if self.outgoing[operator].is_empty() {
            self.cores[core].results.push((operator, origin_ps, *at_ps));
            return;
        }
        for index in 0..self.outgoing[operator].len() {
            let edge = self.outgoing[operator][index];
            let to = self.receiver[edge];
            let is_call = self.group_of[operator] == self.group_of[to];
            for _ in 0..self.random.rounded(self.selectivity[edge]) {
                if is_call {
                    self.run(core, to, origin_ps, at_ps);
                } else {
                    self.send(core, edge, origin_ps, at_ps);
                }
            }
        }
    }

    /// The tuple of a core is done.
    fn finish(&mut self, core: usize) {
        let Some(channel) = self.cores[core].current.take() else { return };
        self.cores[core].idle_since_ps = self.now_ps;
        let mut results = std::mem::take(&mut self.cores[core].results);
        results.drain(..).for_each(|(operator, origin_ps, at_ps)| self.record(operator, origin_ps, at_ps));
        self.cores[core].results = results;
        let ring = &mut self.rings[channel][core];
        ring.release(self.now_ps);
        if ring.before_marker > 0 {
            ring.before_marker -= 1;
            self.passed_marker();
        }
        if !self.rings[channel][core].waiters.is_empty() {
            self.wake_waiters(channel, core);
        }
        if self.change.is_some() {
            self.advance_change();
        }
    }

    fn record(&mut self, operator: usize, origin_ps: u64, at_ps: u64) {
        let latency_ps = at_ps - origin_ps;
        self.interval_latencies.add(latency_ps);
        let Some((latencies, last_origin_ps)) = &mut self.sinks[operator] else { return };
        self.outcome.reordered_results += u64::from(origin_ps < *last_origin_ps);
        *last_origin_ps = origin_ps.max(*last_origin_ps);
        if origin_ps >= self.window_ps.0 {
            latencies.add(latency_ps);
            self.latencies.add(latency_ps);
        }
    }

    /// A ring has room: what waits for it continues, in order.
    fn wake_waiters(&mut self, channel: usize, core: usize) {
        for waiter in std::mem::take(&mut self.rings[channel][core].waiters) {
            match waiter {
                Waiter::Core(sender) => self.flush(sender),
                Waiter::Order(channel) => self.release(channel),
                Waiter::Input(input) => {
                    self.inputs[input].is_waiting = false;
                    self.arrive(input);
                }
            }
        }
    }

    /// The tuple of an input that is next comes, or waits, or is shed; and those that are late already.
    pub(super) fn arrive(&mut self, input: usize) {
        let channel = self.inputs[input].channel;
        let core = self.core_of(self.receiver[channel]);
        while self.inputs[input].next_ps <= self.now_ps {
            let origin_ps = self.inputs[input].next_ps;
            if self.is_full(channel, core) {
                self.rings[channel][core].times_full += 1;
                if self.overload == crate::stream::OverloadPolicy::Wait {
                    self.inputs[input].is_waiting = true;
                    self.rings[channel][core].waiters.push(Waiter::Input(input));
                    return;
                }
                self.interval.shed_tuples += 1;
            } else {
                self.outcome.held_back_tuples += u64::from(origin_ps < self.now_ps);
                self.interval.arrived_tuples += 1;
                self.deliver_input(channel, core, origin_ps);
            }
            self.inputs[input].next_ps = self.inputs[input].generator.next();
        }
    }

    /// Returns whether a core sleeps at a time: it has run out of tuples for longer than it spins.
    pub(super) fn is_parked(&self, core: usize, at_ps: u64) -> bool {
        let sakiyomi_placement::Idle::Park { spin_ns } = self.idle else { return false };
        let Core { queued, busy_until_ps, idle_since_ps, awake_ps, .. } = self.cores[core];
        let since_ps = busy_until_ps.max(idle_since_ps).max(awake_ps);
        queued == 0 && self.cores[core].held.is_empty() && ns(at_ps.saturating_sub(since_ps)) > spin_ns
    }
}
