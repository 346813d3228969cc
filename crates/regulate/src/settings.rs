//! How an owner's I/O time is kept.

use sakiyomi_model::Nanos;

/// A way of regulating, as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As the thesis has it: an allowance from the formula, lowered where the result is bad.
    Thesis,
    /// Ours: nobody is let into the device who would make a regulated request late.
    #[default]
    Deadline,
}

/// Every setting of a [`Regulator`](crate::Regulator).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The most requests in the device at once.
    pub depth: u32,
    /// Over how many I/Os the device's service time is averaged.
    pub window: Window,
    /// What one I/O of whatever kind counts for in an ideal time, where that has been found out before; none: the
    /// service time as it is measured. Fixed, an ideal time does not follow what others do to the device.
    pub service: Option<Nanos>,
    /// Who else may be in the device.
    pub gate: GateSettings,
    /// After so long without an I/O of a regulated owner less is held back for it (chapter 7); none: never so.
    pub release: Option<Nanos>,
    /// How the device works.
    pub serves: Serves,
    /// The part of an I/O's time that is spent neither waiting nor in the device: on the way from who asks to the
    /// regulator, and back. Answers are given so much earlier, and an ideal time must leave room for it.
    pub path: Nanos,
    /// An unregulated request that has waited so long goes next, one at a time.
    pub patience: Nanos,
    /// The most requests that wait; more are refused.
    pub capacity: usize,
}

/// Over how many I/Os the device's service time is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last so many, of whatever kind (section 4.3: 10).
    Last(u32),
    /// About the last so many of the same kind, or fewer where the device has changed.
    Adaptive(u32),
}

/// How a device works on what it has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// One of the others, whichever shows: it begins as `OneByOne`.
    Measured,
    /// One after another, in whatever order: a hard disk.
    OneByOne,
    /// Several beside each other: flash. What it needs for one is then the time from its issue to its end when few
    /// are beside it, not the interval between two ends (which would make the ideal time shorter than the device's).
    Several,
}

/// Who else may be in the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GateSettings {
    /// As many requests as the allowance says.
    Allowance {
        /// How the allowance follows from the formula.
        correction: Correction,
        /// Which requests count.
        counted: Counted,
    },
    /// As many unregulated requests as leave the regulated ones in time.
    Deadline {
        /// How sure.
        margin: Margin,
        /// Never more unregulated requests than this.
        most: u32,
        /// Whether room is kept for requests that have not come yet.
        look_ahead: bool,
    },
}

/// Which requests count against the allowance: the text of the thesis leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All that the device has; a regulated request waits until there is room.
    All,
    /// Those that are not regulated; a regulated request goes in at once.
    Others,
}

/// How the allowance follows from the formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Correction {
    /// It is the formula's (section 4.2).
    Off,
    /// It is this, whatever the formula says: for the search for the best one (section 6.2).
    Fixed(u32),
    /// It is lowered by one when I/Os have exceeded their ideal by `excess` together and their mean accuracy since is
    /// worse than `accuracy` (section 5.3).
    Thesis {
        /// `Tb`.
        excess: Nanos,
        /// `Rb`.
        accuracy: f64,
    },
    /// It is the largest one, up to the formula's, at which the mean accuracy is no worse than `accuracy`.
    TwoWay {
        /// `Rb`.
        accuracy: f64,
    },
}

/// How sure it must be that a regulated request ends in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Margin {
    /// So many times the mean service time for each request ahead.
    Flat(f64),
    /// The time that the device takes for so many when no more come, and so many standard deviations of it.
    Deviations(f64),
    /// The same, with as many deviations as keep this share of the I/Os late.
    Late(f64),
}

impl Correction {
    /// With `Tb` and `Rb` of section 6.3.
    pub const THESIS: Correction = Correction::Thesis { excess: Nanos(5_000_000_000), accuracy: 1.1 };
}

impl Policy {
    /// The settings that make up the policy.
    #[must_use]
    pub fn settings(self) -> Settings {
        let ours = Settings {
            depth: 32,
            window: Window::Adaptive(256),
            service: None,
            gate: GateSettings::Deadline { margin: Margin::Late(0.04), most: 32, look_ahead: true },
            release: Some(Nanos(5_000_000_000)),
            serves: Serves::Measured,
            path: Nanos::ZERO,
            patience: Nanos(2_000_000_000),
            capacity: 65_536,
        };
        match self {
            Policy::Deadline => ours,
            Policy::Thesis => Settings {
                window: Window::Last(10),
                serves: Serves::OneByOne,
                gate: GateSettings::Allowance { correction: Correction::THESIS, counted: Counted::All },
                ..ours
            },
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Policy::default().settings()
    }
}
