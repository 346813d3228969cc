//! Admission by the allowance of the thesis (sections 4.2 and 5.3).

use sakiyomi_model::Nanos;

use super::{CompletedRequest, View};
use crate::settings::{Correction, Counted};

/// Largest number of unregulated requests in the device (section 3.2: the queue depth of AHCI).
pub(super) const IN_DEVICE_MAX: u32 = 32;

/// The allowance, and the measurements by which it is corrected.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    correction: Correction,
    counted: Counted,
    formula: u32,
    current: u32,
    /// Time of its last change.
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

    /// Returns the allowance; the maximum while no regulated owner is active.
    pub(super) fn now(&self, anybody: bool) -> u32 {
        if anybody { self.current } else { IN_DEVICE_MAX }
    }

    /// Restarts from the formula (section 5.3).
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

    pub(super) fn ended(&mut self, now: Nanos, ended: CompletedRequest, changes: u64) {
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

    /// Lowers the allowance if the mean accuracy is significantly too bad. Raises it if the accuracy is significantly
    /// good and the next larger allowance is not known to be too large. An allowance found too large is tried again
    /// after increasing intervals, and immediately when the device has changed.
    fn weigh(&mut self, now: Nanos, ended: CompletedRequest, border: f64, changes: u64) {
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

fn ratio(ended: CompletedRequest) -> f64 {
    ended.took.0 as f64 / ended.ideal.0 as f64
}

/// Measurements since the last decision: `Tama`, and the terms of `Reg`.
#[derive(Clone, Debug, Default)]
struct Interval {
    excess: Nanos,
    ratios: f64,
    count: u32,
}

impl Interval {
    fn add(&mut self, ended: CompletedRequest) {
        self.excess += ended.took.saturating_sub(ended.ideal);
        self.ratios += ratio(ended);
        self.count += 1;
    }

    fn accuracy(&self) -> f64 {
        self.ratios / f64::from(self.count)
    }
}

/// Accuracy of the I/Os under one allowance.
#[derive(Clone, Debug, Default)]
struct Evidence {
    count: u32,
    mean: f64,
    squares: f64,
    /// I/Os under smaller allowances until it is tried again, and the previous length of this interval.
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
