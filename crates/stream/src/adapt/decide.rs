//! When to change the placement, and to which: counters in, changes out. Neither clock nor thread: the caller tells
//! the time, makes plans where it likes, and carries out changes.
//!
//! ```text
//! counters ─┬─► Intake ── arrivals ──► Controller ── plan of the table ──┐
//!           │      └───── delays ────► OverloadWatch ─ slowdown ─┐       ├─► near, moves ──► Change
//!           └─► Meters ── loads ── changed? ────────────────────►├─► PlanRequest ──► table
//! ```
//!
//! - A change of the *rate* costs a look-up in the table.
//! - A change of the *load* of an operator (its service time, or the tuples that reach it) needs a new table, which is
//!   made beside the decisions. The placement changes only if that in use cannot stand in for the new plan.
//! - *Up* at once; *down* only when no source is behind, for the backlog needs what is to be given up.

#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use sakiyomi_placement::{Action, ControlSettings, Controller, Error, Pipeline, Placement, PlanTable};

use super::change::{Change, can_stand_in, steps};
use super::events::Reason;
use super::graph::Graph;
use super::intake::{Arrived, Intake};
use super::loads::Loads;
use super::meters::{Meters, Overhead};
use super::overload::{Delays, LATE_MIN_NS, OverloadWatch};
use super::pace::RequestPace;
use super::plans::{PlanInputs, PlanRequest, Plans};
use super::sample::Sample;
use crate::tuple::OperatorId;

/// Time between two counts for the controller if few tuples arrive. It follows a step within a tenth of a second then.
const COUNT_PERIOD_MAX_NS: u64 = 10_000_000;

/// Tuples with which a count need not wait: their noise is a tenth.
const COUNT_TUPLES: u64 = 100;

/// Counts that a controller learns the rate from when it begins: those of half a second, its time to settle.
const COUNTS_MAX: usize = 100;

/// Time of measuring before the first plan, at least.
const START_MIN_NS: u64 = 20_000_000;

/// Maximum time to the first plan if a source is behind: it leaves time to carry the plan out within a tenth
/// of a second.
const START_LATE_MAX_NS: u64 = 60_000_000;

/// Maximum time to the first plan if each operator has some samples.
const START_ROUGH_MAX_NS: u64 = 250_000_000;

/// Maximum time to the first plan if an operator has no samples: at such a low rate, one core holds nearly
/// any pipeline.
const START_MAX_NS: u64 = 2_000_000_000;

/// Relative deviation of an operator's work with which the first plans can be made.
const ROUGH_RATIO: f64 = 0.15;

/// The requested change.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Make these plans, and tell them by [`Decider::on_plans`].
    Plan(Box<PlanRequest>),
    /// Make this change, and tell its end by [`Decider::on_changed`].
    Change(Box<Change>),
    /// Report that no plan sustains the rate; both in tuples per second.
    Shortfall { rate_per_s: f64, held_per_s: f64 },
    /// Report that plans could not be made.
    NoPlans { reason: Reason, message: String },
}

/// The plans in use, and what they were made of.
struct Planned {
    pipeline: Pipeline,
    loads: Loads,
    controller: Controller,
    made_ns: u64,
}

/// A plan of the table that is to be in use.
#[derive(Clone, Copy)]
struct PlannedChange {
    plan: usize,
    reason: Reason,
    rate_per_s: f64,
    decided_ns: u64,
}

/// Reason to make plans again as soon as possible.
#[derive(Clone, Copy)]
enum Pending {
    FellBehind { processed_per_s: f64 },
    CaughtUp,
}

/// Decides.
pub(crate) struct Decider {
    ground: Arc<PlanInputs>,
    control: ControlSettings,
    intake: Intake,
    meters: Meters,
    overload: OverloadWatch,
    placement: Placement,
    planned: Option<Planned>,
    wanted: Option<PlannedChange>,
    /// Times and counts for a controller that begins.
    counts: VecDeque<(u64, u64)>,
    late_ns: u64,
    pace: RequestPace,
    pending: Option<Pending>,
    is_overloaded: bool,
    is_changing: bool,
}

impl Decider {
    /// Returns a stream whose operators are placed so at the start.
    ///
    /// # Errors
    /// None: half-lives are constants.
    pub(crate) fn new(
        graph: &Graph,
        ground: Arc<PlanInputs>,
        control: ControlSettings,
        overhead: Overhead,
        placement: Placement,
    ) -> Result<Decider, Error> {
        Ok(Decider {
            ground,
            control,
            intake: Intake::new(&graph.sources)?,
            meters: Meters::new(graph, overhead)?,
            overload: OverloadWatch::new(),
            placement,
            planned: None,
            wanted: None,
            counts: VecDeque::with_capacity(COUNTS_MAX),
            late_ns: 0,
            pace: RequestPace::new(START_MIN_NS),
            pending: None,
            is_overloaded: false,
            is_changing: false,
        })
    }

    /// Returns the placement in use.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the rate, in tuples per second; none before there are plans.
    pub(crate) fn rate_per_s(&self) -> Option<f64> {
        self.planned.as_ref()?.controller.rate_per_s()
    }

    /// Returns the highest rate that the plan in use is for, in tuples per second; none before there are plans.
    pub(crate) fn held_per_s(&self) -> Option<f64> {
        let controller = &self.planned.as_ref()?.controller;
        Some(controller.table().entries()[controller.plan()?].0)
    }

    /// Returns how far the source that is most behind is behind the clock, in nanoseconds.
    pub(crate) fn late_ns(&self) -> u64 {
        self.late_ns
    }

    /// Takes the counters of a moment, later than that before.
    pub(crate) fn on_sample(&mut self, sample: &Sample) -> Vec<Order> {
        let now_ns = sample.now_ns;
        let arrived = self.intake.add(sample);
        self.meters.add(sample);
        self.late_ns = arrived.late_ns;
        let mut orders = Vec::new();
        orders.extend(self.count(now_ns, arrived.tuples));
        self.watch_delays(now_ns, arrived);
        orders.extend(self.request(now_ns));
        orders.extend(self.change(now_ns));
        orders
    }

    /// Tells the controller of arrivals.
    fn count(&mut self, now_ns: u64, tuples: u64) -> Option<Order> {
        if let Some(&(last_ns, last)) = self.counts.back()
            && now_ns - last_ns < COUNT_PERIOD_MAX_NS
            && tuples - last < COUNT_TUPLES
        {
            return None;
        }
        if self.counts.len() == COUNTS_MAX {
            self.counts.pop_front();
        }
        self.counts.push_back((now_ns, tuples));
        let planned = self.planned.as_mut()?;
        let before = planned.controller.plan();
        let action = planned.controller.on_count(now_ns, tuples)?;
        let (plan, rate_per_s) = match action {
            Action::Adopt { plan, rate_per_s } => (plan, rate_per_s),
            Action::Overload { rate_per_s, .. } => {
                (planned.controller.table().entries().len() - 1, rate_per_s)
            }
        };
        self.is_overloaded = matches!(action, Action::Overload { .. });
        let reason =
            if before.is_some_and(|before| plan < before) { Reason::RateFell } else { Reason::RateRose };
        self.wanted = Some(PlannedChange { plan, reason, rate_per_s, decided_ns: now_ns });
        match action {
            Action::Adopt { .. } => None,
            Action::Overload { rate_per_s, held_per_s } => Some(Order::Shortfall { rate_per_s, held_per_s }),
        }
    }

    /// Looks for sources that are behind although the plan in use should hold the rate.
    fn watch_delays(&mut self, now_ns: u64, arrived: Arrived) {
        let Arrived { taken, shed, late_ns, .. } = arrived;
        let is_in_doubt = self.planned.is_some()
            && !self.pace.is_waiting()
            && self.wanted.is_none()
            && !self.is_changing
            && !self.is_beyond_plans();
        if let Some(processed_per_s) = self.overload.add(Delays { now_ns, late_ns, taken, shed }, is_in_doubt)
        {
            self.pending = Some(Pending::FellBehind { processed_per_s });
        } else if self.overload.retry(now_ns, late_ns) {
            self.pending = Some(Pending::CaughtUp);
        }
    }

    /// Returns the rate, in tuples per second, at which the busiest core of the placement in use has no time left.
    fn capacity_per_s(&self, loads: &Loads) -> Result<f64, Error> {
        let pipeline = loads.pipeline(1.0)?;
        let some_per_s = 1e9 / loads.all_work_ns();
        let model = self.ground.planner(&pipeline)?.model(self.ground.arrivals(some_per_s)?);
        Ok(some_per_s / model.figures(&self.placement)?.utilization_max())
    }

    /// Returns whether the rate was found to exceed what the last plan holds, and still does.
    fn is_beyond_plans(&self) -> bool {
        self.is_overloaded && self.rate_per_s() > self.held_per_s()
    }

    /// Asks for new plans if the loads have changed, or there is another reason.
    fn request(&mut self, now_ns: u64) -> Option<Order> {
        let tuples = self.counts.back().map_or(0, |&(_, tuples)| tuples);
        if !self.pace.is_due(now_ns, tuples, self.pending.is_some()) {
            return None;
        }
        let loads = self.meters.loads(&self.intake.rates_per_s());
        let reason = self.reason(&loads, now_ns)?;
        let slowdown = self.overload.slowdown();
        // Figures out of range are of a moment: there will be others.
        let pipeline = loads.pipeline(slowdown).ok()?;
        self.pace.requested(now_ns);
        let ground = Arc::clone(&self.ground);
        Some(Order::Plan(Box::new(PlanRequest { ground, pipeline, loads, slowdown, reason })))
    }

    /// Returns the reason for new plans, if there is one.
    fn reason(&mut self, loads: &Loads, now_ns: u64) -> Option<Reason> {
        let Some(planned) = &self.planned else {
            return self.is_measured(loads, now_ns).then_some(Reason::Started);
        };
        if planned.loads.is_guess() && !loads.is_guess() {
            self.overload.forget();
        }
        let changed = loads.outdates(&planned.loads, now_ns.saturating_sub(planned.made_ns));
        let changed = changed.map(OperatorId).map(Reason::LoadChanged);
        if changed.is_some() {
            self.overload.explain(now_ns);
        }
        match self.pending.take() {
            // A source that fell behind on a plan for another load says nothing about this one.
            Some(Pending::FellBehind { processed_per_s }) if changed.is_none() => {
                let capacity_per_s = self.capacity_per_s(loads).unwrap_or(processed_per_s);
                let is_corrected = self.overload.correct(capacity_per_s / processed_per_s, now_ns);
                is_corrected.then_some(Reason::FellBehind)
            }
            Some(Pending::CaughtUp) => Some(Reason::CaughtUp),
            Some(Pending::FellBehind { .. }) | None => changed,
        }
    }

    /// Returns whether enough is known for the first plans: all operators well enough, or else, after a while, what
    /// there is. A stream that falls behind cannot wait for as long as another one.
    fn is_measured(&self, loads: &Loads, now_ns: u64) -> bool {
        let latest_ns = match (self.late_ns > LATE_MIN_NS, loads.is_guess()) {
            (true, _) => START_LATE_MAX_NS,
            (false, false) => START_ROUGH_MAX_NS,
            (false, true) => START_MAX_NS,
        };
        let has_arrivals = self.counts.back().is_some_and(|&(_, tuples)| tuples > 0);
        has_arrivals && (!loads.is_rougher_than(ROUGH_RATIO) || now_ns >= latest_ns)
    }

    /// Takes the plans that were requested.
    pub(crate) fn on_plans(&mut self, plans: Plans, now_ns: u64) -> Vec<Order> {
        let requested_ns = self.pace.answered(now_ns);
        let Plans { request: PlanRequest { pipeline, loads, reason, .. }, table } = plans;
        let table = match table {
            Ok(table) => table,
            Err(message) => return vec![Order::NoPlans { reason, message }],
        };
        let mut orders = Vec::new();
        let mut controller = match self.planned.take() {
            Some(planned) => planned.controller,
            None => match self.begin(table.clone()) {
                Ok((controller, shortfall)) => {
                    orders.extend(shortfall);
                    controller
                }
                Err(error) => return vec![Order::NoPlans { reason, message: error.to_string() }],
            },
        };
        let rate_per_s = controller.rate_per_s().unwrap_or(0.0);
        let plan = self.plan_at(&table, rate_per_s);
        controller.replace_table(table, plan);
        self.planned = Some(Planned { pipeline, loads, controller, made_ns: now_ns });
        self.wanted = Some(PlannedChange { plan, reason, rate_per_s, decided_ns: requested_ns });
        orders.extend(self.change(now_ns));
        orders
    }

    /// Returns a controller that knows the arrivals until now, and whether they exceed what its plans hold.
    fn begin(&mut self, table: PlanTable) -> Result<(Controller, Option<Order>), Error> {
        let mut controller = Controller::new(table, self.control)?;
        let mut last = None;
        for &(now_ns, tuples) in &self.counts {
            last = controller.on_count(now_ns, tuples).or(last);
        }
        self.is_overloaded = matches!(last, Some(Action::Overload { .. }));
        let shortfall = last.and_then(|action| match action {
            Action::Overload { rate_per_s, held_per_s } => Some(Order::Shortfall { rate_per_s, held_per_s }),
            Action::Adopt { .. } => None,
        });
        Ok((controller, shortfall))
    }

    /// Returns the plan of a rate in a new table, by its index: one that has as many cores as are in use if it is
    /// among those between which the hysteresis leaves the choice, and the last one if none holds the rate.
    fn plan_at(&self, table: &PlanTable, rate_per_s: f64) -> usize {
        let last = table.entries().len() - 1;
        let index = |rate_per_s: f64| {
            table.entries().partition_point(|&(up_to_per_s, _)| up_to_per_s < rate_per_s).min(last)
        };
        let (least, roomy) = (index(rate_per_s), index(self.control.step_down_at_per_s(rate_per_s)));
        let cores = |plan: usize| table.entries()[plan].1.placement.cores_used();
        if self.placement.cores_used() >= cores(roomy) { roomy } else { least }
    }

    /// Returns the change to the plan wanted, if it is to be made now.
    fn change(&mut self, now_ns: u64) -> Option<Order> {
        let (Some(wanted), Some(planned), false) = (self.wanted, &self.planned, self.is_changing) else {
            return None;
        };
        let planner = self.ground.planner(&planned.pipeline).ok()?;
        let (up_to_per_s, plan) = &planned.controller.table().entries()[wanted.plan];
        let to = planner.near(&plan.placement, &self.placement).unwrap_or_else(|_| plan.placement.clone());
        let is_by_rate = matches!(wanted.reason, Reason::RateRose | Reason::RateFell);
        if to.cores_used() < self.placement.cores_used() {
            // The controller has waited for the rate to settle.
            let is_settled = is_by_rate || now_ns >= wanted.decided_ns + self.control.settle_ns;
            if !is_settled || self.late_ns > LATE_MIN_NS {
                return None;
            }
        }
        self.wanted = None;
        let rates_per_s = (wanted.rate_per_s, *up_to_per_s);
        let is_kept = to == self.placement
            || !is_by_rate
                && can_stand_in(&planner, &self.ground, &self.placement, &to, rates_per_s).unwrap_or(false);
        if is_kept {
            return None;
        }
        let steps = steps(&planner, &self.placement, &to);
        self.is_changing = true;
        let PlannedChange { reason, rate_per_s, decided_ns, .. } = wanted;
        let from = self.placement.clone();
        Some(Order::Change(Box::new(Change { reason, rate_per_s, from, to, decided_ns, steps })))
    }

    /// Told that a change has ended with this placement in use.
    pub(crate) fn on_changed(&mut self, placement: Placement) {
        self.is_changing = false;
        self.placement = placement;
        self.overload.reset();
    }
}
