//! When the placement changes: as planned beforehand, or as the controller decides.

use std::collections::VecDeque;

use sakiyomi_placement::{Action, Move, Placement, Planner, Settings};

use super::{Engine, NEVER_PS, StreamSpec, of_nanos};
use crate::stream::spec::Control;

/// A change, and its time.
#[derive(Debug)]
pub(super) struct ControlState<'a> {
    planner: Option<Planner<'a>>,
    control: Option<Control<'a>>,
    /// When the controller looks next.
    sample_ps: u64,
    arrived_tuples: u64,
    /// Placements, each with the time at which the first change to it begins, in order.
    wanted: VecDeque<(u64, Placement)>,
    /// Changes to the last of them that has begun, and when the next one begins.
    changes: VecDeque<Move>,
    change_ps: u64,
}

impl<'a> ControlState<'a> {
    pub(super) fn new(spec: &StreamSpec<'a>) -> ControlState<'a> {
        let planner = match &spec.control {
            Some(control) => Some(control.planner),
            None => Planner::new(spec.pipeline, spec.topology, Settings::default()).ok(),
        };
        let wanted = spec.relocations.iter().map(|(at, placement)| (of_nanos(*at), placement.clone()));
        ControlState {
            planner,
            control: spec.control.clone(),
            sample_ps: if spec.control.is_some() { 0 } else { NEVER_PS },
            arrived_tuples: 0,
            wanted: wanted.collect(),
            changes: VecDeque::new(),
            change_ps: NEVER_PS,
        }
    }

    pub(super) fn next_ps(&self) -> u64 {
        let wanted_ps = self.wanted.front().map_or(NEVER_PS, |wanted| wanted.0);
        self.sample_ps.min(wanted_ps).min(self.change_ps)
    }
}

impl Engine<'_> {
    /// Something of the above is due.
    pub(super) fn adapt(&mut self) {
        if self.control.sample_ps <= self.now_ps {
            self.sample();
        }
        if self.control.wanted.front().is_some_and(|wanted| wanted.0 <= self.now_ps) {
            self.plan_changes();
        }
        if self.control.change_ps <= self.now_ps {
            self.control.change_ps = NEVER_PS;
            if let Some(change) = self.control.changes.pop_front() {
                self.begin_change(change);
            }
        }
    }

    /// Tells the controller the number of arrivals.
    fn sample(&mut self) {
        for input in &mut self.inputs {
            while input.metered_ps <= self.now_ps {
                self.control.arrived_tuples += 1;
                input.metered_ps = input.meter.next();
            }
        }
        let Some(control) = &mut self.control.control else { return };
        self.control.sample_ps = self.now_ps + of_nanos(control.sample);
        let now_ns = self.now_ps / 1000;
        let plan = match control.controller.on_count(now_ns, self.control.arrived_tuples) {
            Some(Action::Adopt { plan, .. }) => plan,
            Some(Action::Overload { .. }) => control.controller.table().entries().len() - 1,
            None => return,
        };
        let placement = control.controller.table().entries()[plan].1.placement.clone();
        let at_ps = self.now_ps + of_nanos(control.reaction);
        // A plan that was wanted before and has not begun is out of date.
        self.control.wanted.clear();
        self.control.wanted.push_back((at_ps, placement));
    }

    /// Works out the changes to the placement that is wanted now; after the change on its way, if there is one.
    fn plan_changes(&mut self) {
        self.control.changes.clear();
        self.control.change_ps = NEVER_PS;
        if self.change.is_some() {
            // `next_change` comes back to it.
            if let Some(wanted) = self.control.wanted.front_mut() {
                wanted.0 = NEVER_PS;
            }
            return;
        }
        let (Some((_, placement)), Some(planner)) = (self.control.wanted.pop_front(), self.control.planner)
        else {
            return;
        };
        let wanted = planner.near(&placement, &self.placement);
        let changes = wanted.and_then(|wanted| {
            let changes =
                if self.is_placed(&wanted) { Vec::new() } else { planner.moves(&self.placement, &wanted)? };
            Ok(changes)
        });
        match changes {
            Ok(changes) => self.control.changes = changes.into(),
            Err(_) => self.outcome.unreachable_placements += 1,
        }
        if !self.control.changes.is_empty() {
            self.control.change_ps = self.now_ps;
        }
    }

    /// A change is live from a time on: the next one follows it.
    pub(super) fn next_change(&mut self, live_ps: u64) {
        if let Some(wanted) = self.control.wanted.front_mut().filter(|wanted| wanted.0 == NEVER_PS) {
            wanted.0 = live_ps;
        }
        self.control.change_ps = if self.control.changes.is_empty() { NEVER_PS } else { live_ps };
    }
}
