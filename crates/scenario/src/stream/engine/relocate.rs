//! Changes of the placement while tuples flow, by the protocol of the runtime: at the boundary of a tuple, or behind a marker.

use std::collections::VecDeque;

use sakiyomi_placement::{Move, Placement};

use super::{Core, Engine, Relocation};
use crate::stream::ring::Ring;
use crate::stream::time::{NEVER_PS, to_nanos};

/// Tuples that may be left in the rings between two segments when they are fused: what the receiver drains delays the
/// tuples behind it by less than a hand-over.
const FUSION_BACKLOG_MAX: usize = 8;

/// Tuples that a segment takes at most before it is fused. Under overload its ring stays full.
const FUSION_TUPLES_MAX: u64 = 1024;

/// A change that is on its way.
#[derive(Clone, Debug)]
pub(super) struct Change {
    change: Move,
    /// When the first of its segments stopped.
    stopped_ps: Option<u64>,
    /// Tuples that were done since it began.
    tuples: u64,
    /// Old replicas have passed no marker yet.
    is_applied: bool,
}

impl Engine<'_> {
    /// Works out what follows from the placement.
    pub(super) fn lay_out(&mut self) {
        let groups = &self.placement.groups;
        for (index, group) in groups.iter().enumerate() {
            group.operators.iter().for_each(|&operator| self.group_of[operator] = index);
        }
        let shares = |group: &sakiyomi_placement::Group| {
            let replicas = group.cores.len();
            let shares = self.shares[group.operators[0]].as_ref();
            let busiest = shares.and_then(|shares| shares.get(replicas - 1)).copied().unwrap_or(1.0);
            let rest = (1.0 - busiest) / (replicas - 1).max(1) as f64;
            (0..replicas).map(|replica| busiest + rest * replica as f64).collect()
        };
        self.share_ends = groups.iter().map(shares).collect();
        for core in 0..self.cores.len() {
            let Some(group) = self.placement.groups.iter().position(|group| group.cores.contains(&core))
            else {
                self.leave(core);
                continue;
            };
            let members = &self.placement.groups[group].operators;
            let is_internal =
                |channel: usize| channel < self.edges && self.group_of[self.sender(channel)] == group;
            let of_group = (0..self.rings.len()).filter(|&channel| members.contains(&self.receiver[channel]));
            let (drains, inputs): (Vec<usize>, Vec<usize>) =
                of_group.partition(|&channel| is_internal(channel));
            let is_used = |channel: &usize| {
                let operator = self.receiver[*channel];
                match channel.checked_sub(self.edges) {
                    None => true,
                    Some(entry) if entry < self.operators => {
                        self.inputs.iter().any(|input| input.channel == self.entry(operator))
                    }
                    Some(_) => self.look_ups[operator].is_some(),
                }
            };
            let inputs: Vec<usize> = inputs.into_iter().filter(is_used).collect();
            let is_left = |&channel: &usize| {
                !self.rings[channel][core].is_empty() || self.orders[channel].has_pending()
            };
            let drains: Vec<usize> = drains.into_iter().filter(is_left).collect();
            let queued = |channel: &usize| {
                let ring = &self.rings[*channel][core];
                let is_read = *channel >= self.edges + self.operators;
                if is_read { 0 } else { ring.len() - usize::from(self.cores[core].current == Some(*channel)) }
            };
            self.cores[core].queued = inputs.iter().chain(&drains).map(queued).sum();
            if self.cores[core].inputs.is_empty() {
                self.cores[core].idle_since_ps = self.now_ps;
            }
            (self.cores[core].inputs, self.cores[core].drains) = (inputs, drains);
        }
        self.outcome.cores_used.push((to_nanos(self.now_ps), self.placement.cores_used()));
    }

    /// Returns the operator that sends along an edge.
    fn sender(&self, edge: usize) -> usize {
        self.outgoing.iter().position(|edges| edges.contains(&edge)).unwrap_or(0)
    }

    /// A core has no segment any more, once its rings are empty.
    fn leave(&mut self, core: usize) {
        let is_done = self.cores[core].is_between_tuples() && self.cores[core].queued == 0;
        if is_done && !self.cores[core].inputs.is_empty() {
            self.account_idle(core, self.now_ps);
            self.cores[core].inputs.clear();
            self.cores[core].drains.clear();
        }
    }

    /// Begins a change of the placement.
    pub(super) fn begin_change(&mut self, change: Move) {
        self.change = Some(Change { change, stopped_ps: None, tuples: 0, is_applied: false });
        self.advance_change();
    }

    /// Goes on with the change on its way: something has been done that it may have waited for.
    pub(super) fn advance_change(&mut self) {
        let Some(mut change) = self.change.take() else { return };
        change.tuples += 1;
        if change.is_applied {
            self.change = Some(change);
            return self.passed_marker();
        }
        if let Move::Repartition { from, to } = change.change.clone() {
            self.repartition(change, &from, &to);
            return;
        }
        // A sender stops before its receiver, which has to make room for what the sender keeps.
        let concerned = match change.change {
            Move::Move { from, .. } | Move::Split { from, .. } => vec![from],
            Move::Fuse { from, into } if self.sends(into, from) => vec![into, from],
            Move::Fuse { from, into } => vec![from, into],
            Move::Repartition { .. } => Vec::new(),
        };
        if let Move::Fuse { from, into } = change.change
            && change.stopped_ps.is_none()
            && self.backlog_between(from, into) > FUSION_BACKLOG_MAX
            && change.tuples < FUSION_TUPLES_MAX
        {
            self.change = Some(change);
            return;
        }
        let is_stopped = concerned.iter().all(|&core| self.pause(core));
        if self.cores[concerned[0]].is_between_tuples() {
            change.stopped_ps.get_or_insert(self.now_ps);
        }
        if is_stopped {
            self.apply(change, &concerned);
        } else {
            self.change = Some(change);
        }
    }

    /// Keeps a core from taking a tuple; whether it is between two, and has sent all outputs of those before.
    fn pause(&mut self, core: usize) -> bool {
        self.cores[core].is_paused = true;
        let is_stopped = self.cores[core].is_between_tuples();
        if is_stopped {
            self.next_ps[core] = NEVER_PS;
        }
        let Core { inputs, drains, .. } = &self.cores[core];
        is_stopped && inputs.iter().chain(drains).all(|&channel| !self.orders[channel].has_pending())
    }

    /// Returns whether the segment of a core sends to that of another.
    fn sends(&self, from: usize, to: usize) -> bool {
        let group = |core: usize| self.placement.groups.iter().position(|group| group.cores.contains(&core));
        let (from, to) = (group(from), group(to));
        (0..self.edges).any(|edge| {
            Some(self.group_of[self.sender(edge)]) == from && Some(self.group_of[self.receiver[edge]]) == to
        })
    }

    /// Tuples in the rings between two segments.
    fn backlog_between(&self, one: usize, other: usize) -> usize {
        let group = |core: usize| self.placement.groups.iter().position(|group| group.cores.contains(&core));
        let (Some(first), Some(second)) = (group(one), group(other)) else { return 0 };
        let length = |edge: usize| {
            let (from, to) = (self.group_of[self.sender(edge)], self.group_of[self.receiver[edge]]);
            match (from, to) {
                _ if (from, to) == (first, second) => self.rings[edge][other].len(),
                _ if (from, to) == (second, first) => self.rings[edge][one].len(),
                _ => 0,
            }
        };
        (0..self.edges).map(length).sum()
    }

    /// Makes a change whose segments have stopped between two tuples.
    fn apply(&mut self, change: Change, concerned: &[usize]) {
        let Change { change, stopped_ps, .. } = change;
        let placement = self.placement.after(&change).expect("the planner's changes fit the placement");
        let (from, to, operators) = match &change {
            Move::Move { from, to } | Move::Fuse { from, into: to } => (*from, *to, self.operators_on(*from)),
            Move::Split { operators, from, to } => (*from, *to, operators.clone()),
            Move::Repartition { .. } => unreachable!("replicas change without a stop"),
        };
        for channel in 0..self.rings.len() {
            if operators.contains(&self.receiver[channel]) {
                self.rings[channel].swap(from, to);
                self.orders[channel].rename(from, to);
            }
        }
        if matches!(change, Move::Move { .. } | Move::Fuse { .. }) {
            self.cores[from].queued = 0;
        }
        self.placement = placement;
        // The new core was woken when the decision was made.
        let live_ps = self.now_ps + self.handover_ps;
        self.lay_out();
        for core in concerned.iter().copied().chain([from, to]) {
            self.cores[core].is_paused = false;
            let is_in_use = !self.cores[core].inputs.is_empty();
            self.cores[core].awake_ps = live_ps;
            self.next_ps[core] = if is_in_use { live_ps } else { NEVER_PS };
        }
        let pause = to_nanos(live_ps - stopped_ps.unwrap_or(self.now_ps));
        self.outcome.relocations.push(Relocation { at: to_nanos(live_ps), change, pause });
        self.next_change(live_ps);
    }

    fn operators_on(&self, core: usize) -> Vec<usize> {
        let group = self.placement.groups.iter().find(|group| group.cores.contains(&core));
        group.map_or_else(Vec::new, |group| group.operators.clone())
    }

    /// Replicas change: tuples are divided otherwise from now on. New replicas begin when the old ones have done with those
    /// before.
    fn repartition(&mut self, mut change: Change, from: &[usize], to: &[usize]) {
        let operators = self.operators_on(from[0]);
        let old: Vec<usize> = from.to_vec();
        for channel in (0..self.edges + self.operators).filter(|&it| operators.contains(&self.receiver[it])) {
            for &core in &old {
                self.rings[channel][core].before_marker = self.rings[channel][core].len();
            }
        }
        for &core in to.iter().filter(|core| !from.contains(core)) {
            self.cores[core] = Core {
                is_closed: true,
                stalls: std::mem::take(&mut self.cores[core].stalls),
                ..kept(&self.cores[core])
            };
        }
        self.placement =
            self.placement.after(&change.change).expect("the planner's changes fit the placement");
        self.lay_out();
        (change.is_applied, change.stopped_ps) = (true, Some(self.now_ps));
        self.change = Some(change);
        self.passed_marker();
    }

    /// A tuple before a marker is done: if it was the last one, the new replicas begin.
    pub(super) fn passed_marker(&mut self) {
        let Some(Change { change: Move::Repartition { from, to }, is_applied: true, .. }) = &self.change
        else {
            return;
        };
        let is_left = |ring: &Ring| ring.before_marker > 0;
        if from.iter().any(|&core| self.rings.iter().any(|rings| is_left(&rings[core]))) {
            return;
        }
        let (from, to) = (from.clone(), to.clone());
        // A tuple before the marker is not done while an old replica keeps outputs of it.
        if from.iter().any(|&core| !self.cores[core].held.is_empty()) {
            return;
        }
        let live_ps = self.now_ps + self.handover_ps;
        for &core in to.iter().filter(|core| !from.contains(core)) {
            self.cores[core].is_closed = false;
            self.cores[core].awake_ps = live_ps;
            self.next_ps[core] = live_ps;
        }
        from.iter().filter(|core| !to.contains(core)).for_each(|&core| self.leave(core));
        if let Some(Change { change, .. }) = self.change.take() {
            let pause = sakiyomi_model::Nanos::ZERO;
            self.outcome.relocations.push(Relocation { at: to_nanos(live_ps), change, pause });
        }
        self.next_change(live_ps);
    }
}

/// Returns the figures of a core, which stay when its segment changes.
fn kept(core: &Core) -> Core {
    let &Core { busy_ps, spin_ps, wakes, busy_until_ps, idle_since_ps, .. } = core;
    Core { busy_ps, spin_ps, wakes, busy_until_ps, idle_since_ps, held: VecDeque::new(), ..Core::default() }
}

impl Engine<'_> {
    /// Returns whether a placement is the present one.
    pub(super) fn is_placed(&self, placement: &Placement) -> bool {
        self.placement == *placement
    }
}
