//! Settings of a regulator.

use sakiyomi_model::Nanos;

/// A policy of regulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The policy of the thesis: an allowance from the formula, lowered when the accuracy is bad.
    Thesis,
    /// Deadline admission: a request is not admitted if it would make a regulated one late, by service times that are
    /// measured during operation.
    #[default]
    Deadline,
    /// Deadline admission by the profile of the device, which the regulator is given
    /// ([`Regulator::with_profile`](crate::Regulator::with_profile)); without one, as `Deadline`.
    Profile,
}

/// All settings of a [`Regulator`](crate::Regulator).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Maximum number of requests in the device.
    pub depth: u32,
    /// Number of I/Os over which the service time is averaged.
    pub window: Window,
    /// Service time of any I/O, from which ideal times are computed; `None`: the measured one. If fixed, ideal times do
    /// not follow the influence of other load on the device.
    pub service: Option<Nanos>,
    /// Admission of unregulated requests.
    pub gate: GateSettings,
    /// Idle time of a regulated owner after which less capacity is reserved for it (chapter 7); `None`: never.
    pub release: Option<Nanos>,
    /// Whether the device serves requests in parallel.
    pub serves: Serves,
    /// The part of an I/O's time that is spent neither in the queue nor in the device: on the path between owner and
    /// regulator. Replies are sent earlier by this time, and an ideal time must be longer.
    pub path: Nanos,
    /// Queueing time after which an unregulated request is issued next, one at a time.
    pub patience: Nanos,
    /// Maximum number of queued requests; more are refused.
    pub capacity: usize,
}

/// Number of I/Os over which the service time is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last ones of any kind (section 4.3: 10).
    Last(u32),
    /// About the last ones of the same kind; fewer after a change of the device.
    Adaptive(u32),
}

/// Whether a device serves requests in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The measured parallelism: starts as `OneByOne` and follows the measurement.
    Measured,
    /// One after another, in any order: a hard disk.
    OneByOne,
    /// Several in parallel: flash. The service time is then the time from issue to completion with few requests in the
    /// device. The interval between completions would make the ideal time shorter than the device can achieve.
    Several,
}

/// Admission of requests to the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GateSettings {
    /// Up to the allowance.
    Allowance {
        /// How the allowance is derived from the formula.
        correction: Correction,
        /// The requests that count.
        counted: Counted,
    },
    /// Unregulated requests are admitted while regulated ones complete in time.
    Deadline {
        /// The safety margin.
        margin: Margin,
        /// Maximum number of unregulated requests.
        most: u32,
        /// Whether capacity is reserved for requests that have not arrived yet.
        look_ahead: bool,
    },
}

/// Requests that count against the allowance, which the text of the thesis leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All requests in the device; a regulated request waits for a free place.
    All,
    /// Only unregulated ones; a regulated request is issued immediately.
    Others,
}

/// How the allowance is derived from the formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Correction {
    /// The value of the formula (section 4.2).
    Off,
    /// This value, independent of the formula: for the search for the best one (section 6.2).
    Fixed(u32),
    /// Lowered by one when I/Os have exceeded their ideal time by `excess` in total with a mean accuracy worse than
    /// `accuracy` (section 5.3).
    Thesis {
        /// `Tb`.
        excess: Nanos,
        /// `Rb`.
        accuracy: f64,
    },
    /// The largest value, up to that of the formula, with a mean accuracy no worse than `accuracy`.
    TwoWay {
        /// `Rb`.
        accuracy: f64,
    },
}

/// Safety margin of the completion of regulated requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Margin {
    /// This many mean service times per request ahead.
    Flat(f64),
    /// The time in which the device drains its requests, plus this many standard deviations.
    Deviations(f64),
    /// Like `Deviations`, with the number adapted so that this fraction of the I/Os is late.
    Late(f64),
}

impl Correction {
    /// The correction with `Tb` and `Rb` of section 6.3.
    pub const THESIS: Correction = Correction::Thesis { excess: Nanos(5_000_000_000), accuracy: 1.1 };
}

impl Policy {
    /// Returns the settings of the policy.
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
            Policy::Deadline | Policy::Profile => ours,
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
