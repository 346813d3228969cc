//! When to change the plan: counts of arrivals in, plans of the table out.
//!
//! The rate and its slope are fitted to the samples of a window (least squares, weighted by their length), with
//! the deviations that counts of this dispersion have, as declared or as neighbouring samples show it. Three
//! samples in a row that deviate from the fit to the same side begin a new window, so a step of the rate is
//! not averaged with what was before it, while a burst ends nothing.
//!
//! - *Up* as soon as the rate is sure to exceed what the plan holds, or will by the time a move takes effect:
//!   [`crate::certificate::move_up_at_per_s`] with the slope, if there is one for sure.
//! - *Down* when the rate was surely below what fewer cores hold, by the hysteresis, for the time to settle.
//!
//! A constant rate near the limit of a plan so changes it once at most. A decision is a look-up in the table.

mod noise;
mod rate;
mod sample;

use crate::certificate::move_up_at_per_s;
use crate::{Error, PlanTable};
use rate::RateWindow;

/// Behaviour of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ControlSettings {
    /// Index of dispersion of the arrivals in a sample that is taken for granted; samples that show twice as much
    /// or more count by what they show.
    pub dispersion: f64,
    /// Share of the rate that a plan on fewer cores holds by which the rate must be below it.
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
    /// The same with another index of dispersion, 0 or more.
    #[must_use]
    pub fn with_dispersion(self, dispersion: f64) -> ControlSettings {
        ControlSettings { dispersion, ..self }
    }

    /// The same with another hysteresis, 0 or more and below 1.
    #[must_use]
    pub fn with_hysteresis_ratio(self, hysteresis_ratio: f64) -> ControlSettings {
        ControlSettings { hysteresis_ratio, ..self }
    }

    /// The same with another time to settle, in nanoseconds, above 0.
    #[must_use]
    pub fn with_settle_ns(self, settle_ns: u64) -> ControlSettings {
        ControlSettings { settle_ns, ..self }
    }

    /// The same with another time from a decision until the plan is live, in nanoseconds.
    #[must_use]
    pub fn with_reaction_ns(self, reaction_ns: u64) -> ControlSettings {
        ControlSettings { reaction_ns, ..self }
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

/// A request of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The plan of this index in [`PlanTable::entries`].
    Adopt {
        /// Index of the plan.
        plan: usize,
        /// The rate that it is to hold, in tuples per second.
        rate_per_s: f64,
    },
    /// The rate exceeds what the last plan of the table holds. The last plan is in use, or is to be adopted;
    /// the input needs back-pressure, or tuples are dropped and counted.
    Overload {
        /// The rate, in tuples per second.
        rate_per_s: f64,
        /// Tuples per second that the last plan holds.
        held_per_s: f64,
    },
}

/// Standard deviations beyond which a difference is not taken for noise: one in 30,000 of normal noise on
/// either side, while some 100 decisions are made per second.
const DEVIATIONS_MAX: f64 = 4.0;

/// Samples that a decision needs: of fewer, one that a pause of the sampling thread has distorted would be most.
const SAMPLES_MIN: usize = 3;

/// Chooses the plan of a table by counts of arrivals.
#[derive(Clone, Debug)]
pub struct Controller {
    table: PlanTable,
    settings: ControlSettings,
    window: RateWindow,
    /// The plan in use, by index.
    plan: Option<usize>,
    is_overloaded: bool,
}

impl Controller {
    /// A controller that has no plan in use yet.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(table: PlanTable, settings: ControlSettings) -> Result<Controller, Error> {
        settings.check()?;
        let window = RateWindow::new(settings.settle_ns, settings.dispersion);
        Ok(Controller { table, settings, window, plan: None, is_overloaded: false })
    }

    /// The plan in use, by its index in the table.
    #[must_use]
    pub fn plan(&self) -> Option<usize> {
        self.plan
    }

    /// The table of plans.
    #[must_use]
    pub fn table(&self) -> &PlanTable {
        &self.table
    }

    /// Goes on with other plans, for instance after figures of operators have changed; what is known of the rate stays.
    /// `plan` is the plan in use, by its index in `table`.
    ///
    /// # Panics
    /// If `table` has no such plan.
    pub fn replace_table(&mut self, table: PlanTable, plan: usize) {
        assert!(plan < table.entries().len(), "the table has plan {plan}");
        (self.table, self.plan) = (table, Some(plan));
    }

    /// The rate in tuples per second at the last sample, or before the last few if they deviate from it;
    /// `None` before there is a sample.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        self.window.fit(DEVIATIONS_MAX).map(|fit| fit.rate_per_s)
    }

    /// Told that `arrived_tuples` have arrived until `now_ns`, in all. Samples every 10 ms let it follow a
    /// step within 100 ms, where each sample has 100 tuples or more and they do not come in bursts. A count that is smaller than the last one,
    /// of a source that has begun again, starts the rate anew; a time that is not later is passed over.
    pub fn on_count(&mut self, now_ns: u64, arrived_tuples: u64) -> Option<Action> {
        if !self.window.add(now_ns, arrived_tuples, DEVIATIONS_MAX) || self.window.samples() < SAMPLES_MIN {
            return None;
        }
        let fit = self.window.fit(DEVIATIONS_MAX)?;
        // The next decision is a sample later.
        let reaction_ns = self.settings.reaction_ns as f64 + self.window.sample_ns() as f64;
        let slope_per_s2 = fit.slope_per_s2.max(0.0);
        let ahead_per_s = fit.rate_per_s + slope_per_s2 * reaction_ns * 1e-9;
        let doubt_per_s = DEVIATIONS_MAX * fit.deviation_per_s;
        let Some(plan) = self.plan else { return self.adopt(ahead_per_s) };
        let held_per_s = self.held_per_s(plan);
        let up_at_per_s = move_up_at_per_s(held_per_s, slope_per_s2, reaction_ns);
        // A rate that rises for sure will be there if it is not yet, so its doubt is a reason to be early.
        let doubt_up_per_s = if slope_per_s2 > 0.0 { -fit.deviation_per_s } else { doubt_per_s };
        if fit.rate_per_s - doubt_up_per_s > up_at_per_s {
            return self.adopt(ahead_per_s);
        }
        self.is_overloaded &= fit.rate_per_s + doubt_per_s > held_per_s;
        let lower = self.index((ahead_per_s + doubt_per_s) / (1.0 - self.settings.hysteresis_ratio))?;
        let is_settled = self.window.span_ns() >= self.settings.settle_ns;
        (lower < plan && is_settled).then(|| {
            self.plan = Some(lower);
            Action::Adopt { plan: lower, rate_per_s: fit.rate_per_s }
        })
    }

    /// The plan of a rate at least as high as what the present one holds.
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
