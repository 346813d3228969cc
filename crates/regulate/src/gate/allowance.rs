//! So many unregulated requests as the allowance says (sections 4.2 and 5.3).

use sakiyomi_model::Nanos;

use super::{Ended, View};
use crate::settings::{Correction, Counted};

/// Unregulated requests that a device is given at a time (section 3.2: the depth of AHCI's queue).
pub(super) const IN_DEVICE_MAX: u32 = 32;

/// The allowance, and what is known of how it does.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    correction: Correction,
    counted: Counted,
    formula: u32,
    current: u32,
    /// When it was last changed.
    since: Nanos,
    interval: Interval,
    evidence: Vec<Evidence>,
    changes: u64,
}

impl Allowance {
    pub(super) fn new(correction: Correction, counted: Counted) -> Allowance {
        Allowance {
            correction,
            counted,
            formula: IN_DEVICE_MAX,
            current: IN_DEVICE_MAX,
            since: Nanos::ZERO,
            interval: Interval::default(),
            evidence: vec![Evidence::default(); IN_DEVICE_MAX as usize + 2],
            changes: 0,
        }
    }

    pub(super) fn admits(&self, view: &View<'_>) -> bool {
        let counted = match self.counted {
            Counted::All => view.in_device,
            Counted::Others => view.others_in_device,
        };
        counted < self.now(view.presence.anybody()) as usize
    }

    pub(super) fn admits_regulated(&self, view: &View<'_>) -> bool {
        self.counted == Counted::Others || self.admits(view)
    }

    /// The allowance; all that the device takes while no regulated owner is about.
    pub(super) fn now(&self, anybody: bool) -> u32 {
        if anybody { self.current } else { IN_DEVICE_MAX }
    }

    /// Begins anew from the formula: section 5.3.
    pub(super) fn owners_changed(&mut self, formula: Option<i64>) {
        self.formula =
            formula.map_or(IN_DEVICE_MAX, |formula| formula.clamp(1, i64::from(IN_DEVICE_MAX)) as u32);
        self.current = match self.correction {
            Correction::Fixed(allowance) => allowance.clamp(1, IN_DEVICE_MAX),
            _ => self.formula,
        };
        self.interval = Interval::default();
        self.evidence.fill(Evidence::default());
    }

    pub(super) fn ended(&mut self, now: Nanos, ended: Ended, changes: u64) {
        if ended.ideal.is_zero() {
            return;
        }
        match self.correction {
            Correction::Off | Correction::Fixed(_) => {}
            Correction::Thesis { excess, accuracy } => {
                self.interval.add(ended);
                if self.interval.excess > excess {
                    if self.interval.accuracy() > accuracy {
                        self.current = (self.current - 1).max(1);
                    }
                    self.interval = Interval::default();
                }
            }
            Correction::TwoWay { accuracy } => self.weigh(now, ended, accuracy, changes),
        }
    }

    /// Goes down where the mean accuracy is surely too bad, and up where it is surely good and the next one is not
    /// known to be too much. What was found too much is tried again later and later, and at once when the device has
    /// changed.
    fn weigh(&mut self, now: Nanos, ended: Ended, border: f64, changes: u64) {
        if changes != self.changes {
            self.changes = changes;
            self.evidence.fill(Evidence::default());
        }
        if ended.arrived < self.since {
            return;
        }
        let here = &mut self.evidence[self.current as usize];
        here.add(ratio(ended));
        let to = match here.verdict(border) {
            Verdict::Open => return,
            Verdict::TooMuch => {
                here.bar();
                (self.current - 1).max(1)
            }
            Verdict::Good => {
                let above = &mut self.evidence[self.current as usize + 1];
                if self.current >= self.formula || above.is_barred() {
                    return;
                }
                self.current + 1
            }
        };
        if to != self.current {
            (self.current, self.since) = (to, now);
        }
    }
}

fn ratio(ended: Ended) -> f64 {
    ended.took.0 as f64 / ended.ideal.0 as f64
}

/// What has been measured since the last decision: `Tama`, and what makes up `Reg`.
#[derive(Clone, Debug, Default)]
struct Interval {
    excess: Nanos,
    ratios: f64,
    count: u32,
}

impl Interval {
    fn add(&mut self, ended: Ended) {
        self.excess += ended.took.saturating_sub(ended.ideal);
        self.ratios += ratio(ended);
        self.count += 1;
    }

    fn accuracy(&self) -> f64 {
        self.ratios / f64::from(self.count)
    }
}

/// What I/Os under one allowance have shown.
#[derive(Clone, Debug, Default)]
struct Evidence {
    count: u32,
    mean: f64,
    squares: f64,
    /// For how many more looks from below it is not tried again, and how long the next bar is.
    barred: u32,
    bar: u32,
}

enum Verdict {
    Open,
    Good,
    TooMuch,
}

/// I/Os under an allowance before it may be judged.
const VERDICT_MIN_IOS: u32 = 48;
/// I/Os after which an allowance is judged even if the mean is close to the border.
const VERDICT_MAX_IOS: u32 = 1500;
/// Standard errors between the mean and the border for an earlier verdict.
const VERDICT_STANDARD_ERRORS: f64 = 3.0;
/// I/Os for which an allowance that was too large is not tried again; the number doubles each time.
const BARRED_MIN_IOS: u32 = 4000;

impl Evidence {
    fn add(&mut self, ratio: f64) {
        self.count += 1;
        let off = ratio - self.mean;
        self.mean += off / f64::from(self.count);
        self.squares += off * (ratio - self.mean);
    }

    fn verdict(&self, border: f64) -> Verdict {
        if self.count < VERDICT_MIN_IOS {
            return Verdict::Open;
        }
        let error = (self.squares / f64::from(self.count)).sqrt() / f64::from(self.count).sqrt();
        let sure =
            self.count >= VERDICT_MAX_IOS || (self.mean - border).abs() > VERDICT_STANDARD_ERRORS * error;
        match (sure, self.mean > border) {
            (false, _) => Verdict::Open,
            (true, true) => Verdict::TooMuch,
            (true, false) => Verdict::Good,
        }
    }

    fn bar(&mut self) {
        let bar = (2 * self.bar).clamp(BARRED_MIN_IOS, 64 * BARRED_MIN_IOS);
        *self = Evidence { barred: bar, bar, ..Evidence::default() };
    }

    fn is_barred(&mut self) -> bool {
        self.barred = self.barred.saturating_sub(1);
        self.barred > 0
    }
}
