//! Parameters of regulation (`[regulate]`), and their conversion to the regulator's settings.
//!
//! Keys that are not given have the policy's defaults.

use std::fmt;
use std::str::FromStr;

use sakiyomi_model::Nanos;
use sakiyomi_regulate::{Correction, Counted, GateSettings, Margin, Policy, Serves, Settings, Window};
use serde::{Deserialize, Serialize};

use super::SpecError;
use super::error::impossible;
use crate::outcome::AllowanceSource;

/// Regulation policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// The thesis without its correction: the allowance of the formula.
    Formula,
    /// The thesis.
    Thesis,
    /// Deadline admission by service times that are measured during operation: no request is admitted to the device that
    /// would make a regulated request late.
    #[serde(alias = "ours")]
    Deadline,
    /// Deadline admission by the profile of the device, measured before: ideal times are constant, and what cannot be
    /// kept is refused.
    #[default]
    Profile,
}

/// Parameters of regulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegulateSpec {
    /// Policy: `profile`, `deadline`, `thesis`, or `formula`.
    pub policy: PolicyName,
    /// Allowance of requests in the device: a number, `formula`, `corrected` (downwards, as in the thesis),
    /// `both-ways`, or `off` to use deadlines instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowance: Option<AllowanceChoice>,
    /// Requests that count against the allowance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<CountedChoice>,
    /// `Tb`: excess time after which the allowance is lowered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excess: Option<Nanos>,
    /// `Rb`: worst accuracy that counts as good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Safety margin of deadlines: `late=0.04`, `deviations=1.5`, `flat=1.4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<MarginChoice>,
    /// With deadlines: maximum number of unregulated requests in the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// With deadlines: whether to reserve time for requests that have not arrived yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look_ahead: Option<bool>,
    /// Time without an I/O after which the restriction of other requests is relaxed; `off` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseChoice>,
    /// Number of I/Os over which the service time is averaged: `last=10`, `adaptive=256`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowChoice>,
    /// Parallelism of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serves: Option<ServesChoice>,
    /// Maximum number of requests in the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Waiting time after which an unregulated request goes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<Nanos>,
}

/// Requests that count against the allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountedChoice {
    /// All requests in the device.
    All,
    /// Unregulated requests.
    Others,
}

/// Parallelism of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServesChoice {
    /// One request after another: a hard disk.
    OneByOne,
    /// Several in parallel: flash.
    Several,
}

/// Allowance of requests in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub enum AllowanceChoice {
    /// No allowance; deadlines decide.
    Off,
    /// The formula.
    Formula,
    /// The formula, corrected downwards, as in the thesis.
    Corrected,
    /// The formula, corrected in both directions.
    BothWays,
    /// A fixed number.
    Fixed(u32),
}

/// Safety margin of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct MarginChoice(pub Margin);

/// Time without an I/O after which the restriction is relaxed; `None` for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct ReleaseChoice(pub Option<Nanos>);

/// Number of I/Os over which the service time is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct WindowChoice(pub Window);

impl RegulateSpec {
    /// Returns the settings of a regulator, for a device with the given depth.
    pub(crate) fn settings(&self, depth: u32) -> Settings {
        let policy = match self.policy {
            PolicyName::Formula | PolicyName::Thesis => Policy::Thesis,
            PolicyName::Deadline => Policy::Deadline,
            PolicyName::Profile => Policy::Profile,
        };
        let base = policy.settings();
        let serves = self.serves.map(|serves| match serves {
            ServesChoice::OneByOne => Serves::OneByOne,
            ServesChoice::Several => Serves::Several,
        });
        Settings {
            depth: self.depth.unwrap_or(base.depth.min(depth)),
            window: self.window.map_or(base.window, |window| window.0),
            gate: self.gate(base.gate),
            release: self.release.map_or(base.release, |release| release.0),
            serves: serves.unwrap_or(base.serves),
            patience: self.patience.unwrap_or(base.patience),
            ..base
        }
    }

    /// Returns the mechanism that determines the allowance, for the results.
    pub(crate) fn decided_by(&self) -> AllowanceSource {
        match self.allowance() {
            AllowanceChoice::Off if self.has_profile() => AllowanceSource::Profile,
            AllowanceChoice::Off => AllowanceSource::Deadlines,
            AllowanceChoice::Formula => AllowanceSource::Formula,
            AllowanceChoice::Corrected => AllowanceSource::Corrected,
            AllowanceChoice::BothWays => AllowanceSource::BothWays,
            AllowanceChoice::Fixed(_) => AllowanceSource::Fixed,
        }
    }

    /// Returns whether the device is regulated by its profile: by the default policy unless a key is given that it does
    /// not have.
    pub(crate) fn has_profile(&self) -> bool {
        self.policy == PolicyName::Profile && self.has_no_measured_key()
    }

    /// Returns whether no key is given that is for service times measured during operation.
    fn has_no_measured_key(&self) -> bool {
        let RegulateSpec {
            allowance,
            counted,
            excess,
            accuracy,
            margin,
            most,
            look_ahead,
            window,
            serves,
            ..
        } = self;
        allowance.is_none()
            && counted.is_none()
            && excess.is_none()
            && accuracy.is_none()
            && margin.is_none()
            && most.is_none()
            && look_ahead.is_none()
            && window.is_none()
            && serves.is_none()
    }

    /// Returns the allowance, given or by the policy.
    fn allowance(&self) -> AllowanceChoice {
        self.allowance.unwrap_or(match self.policy {
            PolicyName::Formula => AllowanceChoice::Formula,
            PolicyName::Thesis => AllowanceChoice::Corrected,
            PolicyName::Deadline | PolicyName::Profile => AllowanceChoice::Off,
        })
    }

    fn gate(&self, base: GateSettings) -> GateSettings {
        let accuracy = self.accuracy.unwrap_or(1.1);
        let correction = match self.allowance() {
            AllowanceChoice::Off => return self.deadlines(base),
            AllowanceChoice::Formula => Correction::Off,
            AllowanceChoice::Fixed(allowance) => Correction::Fixed(allowance),
            AllowanceChoice::BothWays => Correction::TwoWay { accuracy },
            AllowanceChoice::Corrected => {
                Correction::Thesis { excess: self.excess.unwrap_or(Nanos::SECOND * 5), accuracy }
            }
        };
        let counted = match self.counted {
            Some(CountedChoice::Others) => Counted::Others,
            Some(CountedChoice::All) | None => Counted::All,
        };
        GateSettings::Allowance { correction, counted }
    }

    fn deadlines(&self, base: GateSettings) -> GateSettings {
        let base = match base {
            GateSettings::Deadline { .. } => base,
            GateSettings::Allowance { .. } => Policy::Deadline.settings().gate,
        };
        let GateSettings::Deadline { margin, most, look_ahead } = base else {
            unreachable!("our policy has deadlines")
        };
        GateSettings::Deadline {
            margin: self.margin.map_or(margin, |margin| margin.0),
            most: self.most.unwrap_or(most),
            look_ahead: self.look_ahead.unwrap_or(look_ahead),
        }
    }

    /// Checks the parameters.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        /// Range of queue depths: AHCI has 32 command slots.
        const DEVICE_DEPTHS: std::ops::RangeInclusive<u32> = 1..=32;
        let is_off = self.allowance() == AllowanceChoice::Off;
        let no_deadlines = "an allowance excludes deadlines; set regulate.allowance=off for deadlines";
        let no_allowance = "this key applies to an allowance, and deadlines have none; set regulate.allowance, or remove the key";
        let is_unused = |is_given: bool, is_used: bool| is_used || !is_given;
        let fits = |margin: MarginChoice| match margin.0 {
            Margin::Late(share) => share > 0.0 && share <= 0.5,
            Margin::Deviations(factor) => (0.0..=10.0).contains(&factor),
            Margin::Flat(factor) => (1.0..=10.0).contains(&factor),
        };
        let rules = [
            ("margin", is_unused(self.margin.is_some(), is_off), no_deadlines),
            ("most", is_unused(self.most.is_some(), is_off), no_deadlines),
            ("look_ahead", is_unused(self.look_ahead.is_some(), is_off), no_deadlines),
            ("counted", is_unused(self.counted.is_some(), !is_off), no_allowance),
            ("accuracy", is_unused(self.accuracy.is_some(), !is_off), no_allowance),
            ("excess", is_unused(self.excess.is_some(), !is_off), no_allowance),
            ("depth", self.depth.is_none_or(|depth| DEVICE_DEPTHS.contains(&depth)), "1 to 32 requests"),
            ("most", self.most.is_none_or(|most| DEVICE_DEPTHS.contains(&most)), "1 to 32 requests"),
            (
                "allowance",
                !matches!(self.allowance, Some(AllowanceChoice::Fixed(fixed)) if !DEVICE_DEPTHS.contains(&fixed)),
                "1 to 32 requests",
            ),
            (
                "accuracy",
                self.accuracy.is_none_or(|ratio| (1.0..=10.0).contains(&ratio)),
                "1 to 10 times the ideal time",
            ),
            (
                "margin",
                self.margin.is_none_or(fits),
                "late more than 0 and up to 0.5, deviations 0 to 10, flat 1 to 10",
            ),
            (
                "window",
                self.window.is_none_or(|window| match window.0 {
                    Window::Last(ios) => (1..=65_536).contains(&ios),
                    Window::Adaptive(ios) => (32..=65_536).contains(&ios),
                }),
                "last 1 to 65536, adaptive 32 to 65536 I/Os",
            ),
            ("patience", self.patience.is_none_or(|time| time > Nanos::ZERO), "more than 0"),
            (
                "release",
                self.release.is_none_or(|release| release.0 != Some(Nanos::ZERO)),
                "more than 0, or `off`",
            ),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, problem)) => Err(impossible(&format!("regulate.{key}"), problem)),
            None => Ok(()),
        }
    }
}

/// A value that is a number or a string in TOML.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an integer, or text in quotes")]
enum Text {
    Number(u64),
    Text(String),
}

/// Implements conversion from and to strings.
macro_rules! as_text {
    ($($name:ident)*) => {$(
        impl TryFrom<Text> for $name {
            type Error = String;

            fn try_from(text: Text) -> Result<$name, String> {
                match text {
                    Text::Number(number) => number.to_string().parse(),
                    Text::Text(text) => text.parse(),
                }
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )*};
}

as_text!(AllowanceChoice MarginChoice ReleaseChoice WindowChoice);

const ALLOWANCES: [(&str, AllowanceChoice); 4] = [
    ("off", AllowanceChoice::Off),
    ("formula", AllowanceChoice::Formula),
    ("corrected", AllowanceChoice::Corrected),
    ("both-ways", AllowanceChoice::BothWays),
];

impl FromStr for AllowanceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowanceChoice, String> {
        let named = ALLOWANCES.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        let fixed = || text.parse().map(AllowanceChoice::Fixed);
        named.map_or_else(fixed, Ok).map_err(|_| {
            format!(
                "`{text}` is not an allowance; write `formula`, `corrected`, `both-ways`, `off`, or a number"
            )
        })
    }
}

impl fmt::Display for AllowanceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let AllowanceChoice::Fixed(fixed) = self {
            return write!(f, "{fixed}");
        }
        let named = ALLOWANCES.iter().find(|(_, choice)| choice == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for MarginChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<MarginChoice, String> {
        let parts = text.split_once('=').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
        let margin = match parts {
            Some(("late", share)) => Margin::Late(share),
            Some(("deviations", factor)) => Margin::Deviations(factor),
            Some(("flat", factor)) => Margin::Flat(factor),
            _ => {
                return Err(format!(
                    "`{text}` is not a margin; write it like `late=0.04`, `deviations=1.5` or `flat=1.4`"
                ));
            }
        };
        Ok(MarginChoice(margin))
    }
}

impl fmt::Display for MarginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Margin::Late(share) => write!(f, "late={share}"),
            Margin::Deviations(factor) => write!(f, "deviations={factor}"),
            Margin::Flat(factor) => write!(f, "flat={factor}"),
        }
    }
}

impl FromStr for ReleaseChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<ReleaseChoice, String> {
        if text == "off" {
            return Ok(ReleaseChoice(None));
        }
        let time = text.parse::<Nanos>().map_err(|error| format!("{error}; or `off`"))?;
        Ok(ReleaseChoice(Some(time)))
    }
}

impl fmt::Display for ReleaseChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(time) => write!(f, "{time}"),
        }
    }
}

impl FromStr for WindowChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<WindowChoice, String> {
        let parts = text.split_once('=').and_then(|(name, value)| Some((name, value.parse::<u32>().ok()?)));
        match parts {
            Some(("last", ios)) => Ok(WindowChoice(Window::Last(ios))),
            Some(("adaptive", ios)) => Ok(WindowChoice(Window::Adaptive(ios))),
            _ => Err(format!("`{text}` is not a window; write it like `last=10` or `adaptive=256`")),
        }
    }
}

impl fmt::Display for WindowChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Window::Last(ios) => write!(f, "last={ios}"),
            Window::Adaptive(ios) => write!(f, "adaptive={ios}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Scenario;

    const LEAST: &str = "name = 'x'\n[drive]\nfixed = 'latency=1ms'\n[[process]]\nname = 'p'\nrate = 20\n";

    fn regulate(keys: &str) -> RegulateSpec {
        let text = format!("{LEAST}[regulate]\n{keys}");
        Scenario::from_toml(&text, "x.toml").unwrap_or_else(|error| panic!("{error}")).regulate.unwrap()
    }

    #[test]
    fn without_keys_the_settings_are_those_of_the_policy() {
        assert_eq!(regulate("").settings(32), Policy::Deadline.settings());
        assert_eq!(regulate("policy = 'thesis'").settings(32), Policy::Thesis.settings());
        let formula = GateSettings::Allowance { correction: Correction::Off, counted: Counted::All };
        assert_eq!(regulate("policy = 'formula'").settings(32).gate, formula);
        assert_eq!(regulate("policy = 'thesis'").settings(4).depth, 4);
    }

    #[test]
    fn every_key_reaches_its_setting_and_reads_back() {
        let deadlines = "margin = 'deviations=1.5'\nmost = 7\nlook_ahead = false\nrelease = 'off'\n\
                         window = 'adaptive=512'\nserves = 'several'\ndepth = 9\npatience = '3s'\n";
        let settings = Settings {
            depth: 9,
            window: Window::Adaptive(512),
            gate: GateSettings::Deadline { margin: Margin::Deviations(1.5), most: 7, look_ahead: false },
            release: None,
            serves: Serves::Several,
            patience: Nanos::SECOND * 3,
            ..Settings::default()
        };
        assert_eq!(regulate(deadlines).settings(32), settings);
        let allowance = "policy = 'thesis'\nallowance = 'corrected'\ncounted = 'others'\nexcess = '2s'\n\
                         accuracy = 1.05\nrelease = '4s'\nwindow = 'last=5'\n";
        let correction = Correction::Thesis { excess: Nanos::SECOND * 2, accuracy: 1.05 };
        let settings = Settings {
            window: Window::Last(5),
            gate: GateSettings::Allowance { correction, counted: Counted::Others },
            release: Some(Nanos::SECOND * 4),
            ..Policy::Thesis.settings()
        };
        assert_eq!(regulate(allowance).settings(32), settings);
        for (choice, correction) in
            [("5", Correction::Fixed(5)), ("'both-ways'", Correction::TwoWay { accuracy: 1.1 })]
        {
            let gate = GateSettings::Allowance { correction, counted: Counted::All };
            assert_eq!(regulate(&format!("allowance = {choice}")).settings(32).gate, gate);
        }
        for keys in [deadlines, allowance, "allowance = 3"] {
            let scenario = Scenario::from_toml(&format!("{LEAST}[regulate]\n{keys}"), "x.toml").unwrap();
            assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again").unwrap(), scenario);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_do() {
        for (keys, sentence) in [
            ("allowance = 'much'", "write `formula`, `corrected`, `both-ways`, `off`, or a number"),
            ("allowance = 33", "regulate.allowance: 1 to 32 requests"),
            ("policy = 'thesis'\nmargin = 'late=0.1'", "set regulate.allowance=off for deadlines"),
            ("accuracy = 1.2", "regulate.accuracy: this key applies to an allowance"),
            ("margin = 'late=0'", "regulate.margin: late more than 0"),
            ("margin = '4'", "write it like `late=0.04`"),
            ("window = 'last=0'", "regulate.window: last 1"),
            ("release = 'soon'", "or `off`"),
            ("release = '0s'", "regulate.release: more than 0"),
            ("depth = 0", "regulate.depth: 1 to 32"),
            ("polisy = 'deadline'", "regulate.polisy: unknown key; did you mean regulate.policy?"),
        ] {
            let text = format!("{LEAST}[regulate]\n{keys}");
            let error = Scenario::from_toml(&text, "x.toml").unwrap_err().to_string();
            assert!(error.contains(sentence), "{keys}: {error}");
        }
    }
}
