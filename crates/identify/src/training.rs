//! The requests that a drive is identified from, and replays of them.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Class, Device, Nanos, Op, ReadClass, WriteClass};
use sakiyomi_validate::{Measured, Pace, Simulated, free_while};

use crate::groups::groups;

/// Angles of the platters from which a trace of measured times is replayed. The angle at its start, and after a pause,
/// is not known; all angles together are compared with the measurement.
const START_ANGLES: u64 = 8;
/// Range of residuals on each side of zero, in revolutions. A request hardly loses more; larger residuals count as the
/// largest.
const RESIDUAL_MAX_REVOLUTIONS: f64 = 4.0;
/// Number of contexts.
pub(crate) const CONTEXT_COUNT: usize = 20;

/// Times of each request, by replay.
pub(crate) type Replays = Vec<Vec<Simulated>>;

/// Requests with measured times, how they are replayed, and a count of replays.
pub(crate) struct Training<'a> {
    pub(crate) measured: &'a [Measured],
    pub(crate) pace: Pace,
    /// Requests that are alike, by their place.
    pub(crate) groups: Vec<Vec<usize>>,
    /// Nominal revolution, in nanoseconds.
    pub(crate) revolution: f64,
    /// Properties of each request that need no model: see [`Training::context`].
    covariates: Vec<usize>,
    budget: &'a Budget<'a>,
}

/// Count of replays, and whether to go on; shared by the parts of a trace.
pub(crate) struct Budget<'a> {
    progress: RefCell<&'a mut dyn FnMut(u64) -> bool>,
    replays: Cell<u64>,
    stopped: Cell<bool>,
}

impl<'a> Budget<'a> {
    /// `progress` is called after each replay, and often during them, with the number of replays that are done; after it
    /// has returned false, it is not called again, and no further replay is made.
    pub(crate) fn new(progress: &'a mut dyn FnMut(u64) -> bool) -> Budget<'a> {
        Budget { progress: RefCell::new(progress), replays: Cell::new(0), stopped: Cell::new(false) }
    }

    pub(crate) fn replays(&self) -> u64 {
        self.replays.get()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    fn spend(&self, replays: u64) {
        self.replays.set(self.replays.get() + replays);
        self.goes_on();
    }

    /// Asks whether to go on.
    fn goes_on(&self) -> bool {
        if !self.is_stopped() {
            self.stopped.set(!(self.progress.borrow_mut())(self.replays.get()));
        }
        !self.is_stopped()
    }
}

impl<'a> Training<'a> {
    pub(crate) fn new(
        measured: &'a [Measured],
        pace: Pace,
        rpm: f64,
        budget: &'a Budget<'a>,
    ) -> Training<'a> {
        let covariate = |place: usize| {
            let Some(before) = place.checked_sub(1).map(|before| measured[before]) else { return 0 };
            let request = measured[place];
            let in_sequence = before.op == request.op && before.extent.end() == request.extent.start;
            usize::from(before.op == Op::Write) * 2 + usize::from(in_sequence)
        };
        Training {
            measured,
            pace,
            groups: groups(measured),
            revolution: 60e9 / rpm,
            covariates: (0..measured.len()).map(covariate).collect(),
            budget,
        }
    }

    /// Returns a part of the requests.
    pub(crate) fn part(&self, part: Range<usize>) -> Training<'a> {
        Training::new(&self.measured[part], self.pace, 60e9 / self.revolution, self.budget)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.budget.is_stopped()
    }

    /// Asks whether to go on, during work on the replays; `None` if the search is stopped.
    pub(crate) fn check(&self) -> Option<()> {
        self.budget.goes_on().then_some(())
    }

    /// Range of residuals on each side of zero, in nanoseconds.
    pub(crate) fn residual_max(&self) -> f64 {
        RESIDUAL_MAX_REVOLUTIONS * self.revolution
    }

    /// Replays the requests; `None` if the drive is impossible or too small, or the search was stopped.
    pub(crate) fn replay(&self, spec: &DriveSpec) -> Option<Replays> {
        if self.budget.is_stopped() {
            return None;
        }
        let drive = Drive::new(spec).ok()?;
        let end = self.measured.iter().map(|request| request.extent.end().0).max().unwrap_or(0);
        if end > drive.capacity().0 {
            return None;
        }
        // In a closed loop the angle follows from the requests alone.
        let angles = if self.pace == Pace::Closed { 1 } else { START_ANGLES };
        let replays = (0..angles).map(|angle| {
            let mut drive = drive.clone();
            drive.turn_spindle(Nanos(drive.revolution().0 * angle / angles));
            free_while(drive, self.measured, self.pace, &mut || self.budget.goes_on())
        });
        let replays = replays.collect::<Option<Replays>>()?;
        self.budget.spend(angles);
        Some(replays)
    }

    /// Measured less simulated time, in nanoseconds.
    pub(crate) fn residual(&self, place: usize, own: &Simulated) -> f64 {
        self.measured[place].response.0 as f64 - own.response.0 as f64
    }

    /// Returns the kind of a request whose residuals have a distribution of their own: by the part of the drive that
    /// serves it according to the simulation, by the operation before it, and by whether it continues that.
    pub(crate) fn context(&self, place: usize, own: &Simulated) -> usize {
        let part = match own.class {
            Class::Read(ReadClass::FullHit) => 0,
            Class::Read(ReadClass::ActiveHit) => 1,
            Class::Read(_) => 2,
            Class::Write(WriteClass::Absorbed) => 3,
            _ => 4,
        };
        part * 4 + self.covariates[place]
    }
}
