//! The controller: decides from counts of arrivals when to adopt another plan of the table.
//!
//! The rate and its slope are fitted to the samples of a window (least squares, weighted by their length), with a
//! standard deviation from the index of dispersion that is declared or that neighboring samples show. Three
//! consecutive samples that deviate from the fit to the same side begin a new window, so a step of the rate is not
//! averaged with the samples before it, while a burst does not end a window.
//!
//! - *Up* as soon as the rate significantly exceeds the plan's limit, or will when a change takes effect:
//!   [`crate::certificate::move_up_at_per_s`] with the slope, if that is significant.
//! - *Down* when the rate was significantly below the limit of a plan on fewer cores, by the hysteresis, for the time
//!   to settle.
//!
//! A constant rate near the limit of a plan thus changes it at most once. A decision is a look-up in the table.

mod noise;
mod rate;
mod sample;

use crate::certificate::move_up_at_per_s;
use crate::{Error, PlanTable};
use rate::RateWindow;

/// Behavior of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ControlSettings {
    /// Assumed index of dispersion of the arrivals in a sample; the measured one is used instead if it is at least
    /// twice as large.
    pub dispersion: f64,
    /// Hysteresis: share of the limit of a plan on fewer cores by which the rate must be below that limit.
    pub hysteresis_ratio: f64,
    /// Time for which the rate must be lower before fewer cores are used, in nanoseconds.
    pub settle_ns: u64,
    /// Time from a decision until the plan is live, in nanoseconds.
    pub reaction_ns: u64,
}

impl Default for ControlSettings {
    /// Poisson arrivals, 10 %, half a second, and 10 ms.
    fn default() -> ControlSettings {
        ControlSettings {
            dispersion: 1.0,
            hysteresis_ratio: 0.1,
            settle_ns: 500_000_000,
            reaction_ns: 10_000_000,
        }
    }
}

impl ControlSettings {
    /// Sets the index of dispersion, 0 or more.
    #[must_use]
    pub fn with_dispersion(self, dispersion: f64) -> ControlSettings {
        ControlSettings { dispersion, ..self }
    }

    /// Sets the hysteresis, 0 or more and below 1.
    #[must_use]
    pub fn with_hysteresis_ratio(self, hysteresis_ratio: f64) -> ControlSettings {
        ControlSettings { hysteresis_ratio, ..self }
    }

    /// Sets the time to settle, in nanoseconds, above 0.
    #[must_use]
    pub fn with_settle_ns(self, settle_ns: u64) -> ControlSettings {
        ControlSettings { settle_ns, ..self }
    }

    /// Sets the time from a decision until the plan is live, in nanoseconds.
    #[must_use]
    pub fn with_reaction_ns(self, reaction_ns: u64) -> ControlSettings {
        ControlSettings { reaction_ns, ..self }
    }

    /// Returns the rate that a smaller plan must sustain to be adopted: the present rate increased by the hysteresis.
    #[must_use]
    pub fn step_down_at_per_s(&self, rate_per_s: f64) -> f64 {
        rate_per_s / (1.0 - self.hysteresis_ratio)
    }

    fn check(&self) -> Result<(), Error> {
        let (what, range) = ("index of dispersion of arrivals", "0 or more");
        if !(self.dispersion.is_finite() && self.dispersion >= 0.0) {
            return Err(Error::Value { what, value: self.dispersion, range });
        }
        if !(0.0..1.0).contains(&self.hysteresis_ratio) {
            let (what, range) = ("hysteresis ratio", "0 or more and below 1");
            return Err(Error::Value { what, value: self.hysteresis_ratio, range });
        }
        if self.settle_ns == 0 {
            return Err(Error::Value { what: "time to settle in ns", value: 0.0, range: "more than 0" });
        }
        Ok(())
    }
}

/// An action that the controller requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Adopt the plan of this index in [`PlanTable::entries`].
    Adopt {
        /// Index of the plan.
        plan: usize,
        /// The rate that it is to sustain, in tuples per second.
        rate_per_s: f64,
    },
    /// The rate exceeds the limit of the table's last plan. The last plan is in use, or is to be adopted; the input
    /// needs back-pressure, or tuples are dropped and counted.
    Overload {
        /// The rate, in tuples per second.
        rate_per_s: f64,
        /// Limit of the last plan in tuples per second.
        held_per_s: f64,
    },
}

/// Standard deviations beyond which a difference is significant: one in 30,000 of normal noise on either side, while
/// some 100 decisions are made per second.
const DEVIATIONS_MAX: f64 = 4.0;

/// Minimum samples of a decision: with fewer, a sample distorted by a pause of the sampling thread would dominate.
const SAMPLES_MIN: usize = 3;

/// Chooses the plan of a table from counts of arrivals.
#[derive(Clone, Debug)]
pub struct Controller {
    table: PlanTable,
    settings: ControlSettings,
    window: RateWindow,
    /// Index of the plan in use.
    plan: Option<usize>,
    is_overloaded: bool,
}

impl Controller {
    /// Creates a controller without a plan in use.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(table: PlanTable, settings: ControlSettings) -> Result<Controller, Error> {
        settings.check()?;
        let window = RateWindow::new(settings.settle_ns, settings.dispersion);
        Ok(Controller { table, settings, window, plan: None, is_overloaded: false })
    }

    /// Returns the index of the plan in use.
    #[must_use]
    pub fn plan(&self) -> Option<usize> {
        self.plan
    }

    /// Returns the table of plans.
    #[must_use]
    pub fn table(&self) -> &PlanTable {
        &self.table
    }

    /// Continues with other plans, for example after the figures of operators have changed; the estimate of the rate
    /// is kept. `plan` is the plan in use, by its index in `table`.
    ///
    /// # Panics
    /// If `table` does not have the plan.
    pub fn replace_table(&mut self, table: PlanTable, plan: usize) {
        assert!(plan < table.entries().len(), "the table has plan {plan}");
        (self.table, self.plan) = (table, Some(plan));
    }

    /// Returns the rate in tuples per second at the last sample, or before the last few if they deviate from the fit;
    /// `None` before the first sample.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        self.window.fit(DEVIATIONS_MAX).map(|fit| fit.rate_per_s)
    }

    /// Records that `arrived_tuples` have arrived in total until `now_ns`. Samples every 10 ms let it follow a step
    /// within 100 ms, if each sample has 100 tuples or more and they do not come in bursts. A count smaller than the
    /// last one, of a restarted source, restarts the estimate; a time that is not later is ignored.
    pub fn on_count(&mut self, now_ns: u64, arrived_tuples: u64) -> Option<Action> {
        if !self.window.add(now_ns, arrived_tuples, DEVIATIONS_MAX) || self.window.samples() < SAMPLES_MIN {
            return None;
        }
        let fit = self.window.fit(DEVIATIONS_MAX)?;
        // The next decision is one sample later.
        let reaction_ns = self.settings.reaction_ns as f64 + self.window.sample_ns() as f64;
        let slope_per_s2 = fit.slope_per_s2.max(0.0);
        let ahead_per_s = fit.rate_per_s + slope_per_s2 * reaction_ns * 1e-9;
        let doubt_per_s = DEVIATIONS_MAX * fit.deviation_per_s;
        let Some(plan) = self.plan else { return self.adopt(ahead_per_s) };
        let held_per_s = self.held_per_s(plan);
        let up_at_per_s = move_up_at_per_s(held_per_s, slope_per_s2, reaction_ns);
        // A significantly rising rate will be reached soon, so uncertainty is a reason to act early.
        let doubt_up_per_s = if slope_per_s2 > 0.0 { -fit.deviation_per_s } else { doubt_per_s };
        if fit.rate_per_s - doubt_up_per_s > up_at_per_s {
            return self.adopt(ahead_per_s);
        }
        self.is_overloaded &= fit.rate_per_s + doubt_per_s > held_per_s;
        let lower = self.index(self.settings.step_down_at_per_s(ahead_per_s + doubt_per_s))?;
        let is_settled = self.window.span_ns() >= self.settings.settle_ns;
        (lower < plan && is_settled).then(|| {
            self.plan = Some(lower);
            Action::Adopt { plan: lower, rate_per_s: fit.rate_per_s }
        })
    }

    /// Adopts the plan of a rate that is at least the limit of the present one.
    fn adopt(&mut self, rate_per_s: f64) -> Option<Action> {
        let last = self.table.entries().len() - 1;
        let Some(plan) = self.index(rate_per_s) else {
            let held_per_s = self.held_per_s(last);
            let is_new = !self.is_overloaded;
            (self.plan, self.is_overloaded) = (Some(last), true);
            return is_new.then_some(Action::Overload { rate_per_s, held_per_s });
        };
        if self.plan.is_some_and(|present| present >= plan) {
            return None;
        }
        self.plan = Some(plan);
        Some(Action::Adopt { plan, rate_per_s })
    }

    fn index(&self, rate_per_s: f64) -> Option<usize> {
        let index = self.table.entries().partition_point(|&(up_to, _)| up_to < rate_per_s);
        (index < self.table.entries().len()).then_some(index)
    }

    fn held_per_s(&self, plan: usize) -> f64 {
        self.table.entries()[plan].0
    }
}
