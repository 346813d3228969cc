//! How the I/O time of programs that have a rate is kept: what `[regulate]` says, and the settings that it makes.
//!
//! What a key is not given for, the policy decides.

use std::fmt;
use std::str::FromStr;

use sakiyomi_model::Nanos;
use sakiyomi_regulate::{Correction, Counted, GateSettings, Margin, Policy, Serves, Settings, Window};
use serde::{Deserialize, Serialize};

use super::SpecError;
use super::error::impossible;
use crate::outcome::Decided;

/// A way of regulating, as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// The thesis without its correction: the allowance is the formula's.
    Formula,
    /// The thesis.
    Thesis,
    /// Nobody is let into the device who would make a regulated request late.
    #[default]
    Ours,
}

/// How I/O time is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegulateSpec {
    /// `ours`, `thesis`, or `formula`.
    pub policy: PolicyName,
    /// How many may be in the device: a number, `formula`, `corrected` (downwards, as in the thesis), `both-ways`, or
    /// `off` for deadlines in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowance: Option<AllowanceChoice>,
    /// Which requests count against the allowance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<CountedChoice>,
    /// `Tb`: so much must have been exceeded before the allowance is lowered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excess: Option<Nanos>,
    /// `Rb`: the worst accuracy that is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// How sure it must be that a deadline is kept: `late=0.04`, `deviations=1.5`, `flat=1.4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<MarginChoice>,
    /// Where there are deadlines: never more unregulated requests in the device than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// Where there are deadlines: whether room is kept for requests that have not come yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look_ahead: Option<bool>,
    /// After so long without an I/O less is held back; `off` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseChoice>,
    /// Over how many I/Os the service time is averaged: `last=10`, `adaptive=256`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowChoice>,
    /// How the device works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serves: Option<ServesChoice>,
    /// The most requests in the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// An unregulated request that has waited so long goes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<Nanos>,
}

/// Which requests count against the allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountedChoice {
    /// All that the device has.
    All,
    /// Those that are not regulated.
    Others,
}

/// How a device works on what it has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServesChoice {
    /// One after another: a hard disk.
    OneByOne,
    /// Several beside each other: flash.
    Several,
}

/// How many requests may be in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub enum AllowanceChoice {
    /// There is none; deadlines decide.
    Off,
    /// What the formula says.
    Formula,
    /// From the formula down, as in the thesis.
    Corrected,
    /// Down and up.
    BothWays,
    /// So many.
    Fixed(u32),
}

/// How sure it must be that a deadline is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct MarginChoice(pub Margin);

/// After how long without an I/O less is held back; none for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct ReleaseChoice(pub Option<Nanos>);

/// Over how many I/Os the service time is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "String")]
pub struct WindowChoice(pub Window);

impl RegulateSpec {
    /// What a regulator is made with, in front of a device that takes so many requests.
    pub(crate) fn settings(&self, depth: u32) -> Settings {
        let policy = match self.policy {
            PolicyName::Formula | PolicyName::Thesis => Policy::Thesis,
            PolicyName::Ours => Policy::Deadline,
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

    /// The same in the words of the outcome.
    pub(crate) fn decided_by(&self) -> Decided {
        match self.allowance() {
            AllowanceChoice::Off => Decided::Deadlines,
            AllowanceChoice::Formula => Decided::Formula,
            AllowanceChoice::Corrected => Decided::Corrected,
            AllowanceChoice::BothWays => Decided::BothWays,
            AllowanceChoice::Fixed(_) => Decided::Fixed,
        }
    }

    /// What says how many may be in the device.
    fn allowance(&self) -> AllowanceChoice {
        self.allowance.unwrap_or(match self.policy {
            PolicyName::Formula => AllowanceChoice::Formula,
            PolicyName::Thesis => AllowanceChoice::Corrected,
            PolicyName::Ours => AllowanceChoice::Off,
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

    /// Whether it can be done.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        /// Requests in a device: AHCI's queue has 32 places.
        const DEVICE_DEPTHS: std::ops::RangeInclusive<u32> = 1..=32;
        let is_off = self.allowance() == AllowanceChoice::Off;
        let no_deadlines = "an allowance leaves no choice here; set regulate.allowance=off for deadlines";
        let no_allowance =
            "deadlines have no allowance that this could be about; set regulate.allowance, or leave it out";
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
            ("patience", self.patience.is_none_or(|time| time > Nanos::ZERO), "longer than nothing"),
            (
                "release",
                self.release.is_none_or(|release| release.0 != Some(Nanos::ZERO)),
                "longer than nothing; or write `off`",
            ),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, problem)) => Err(impossible(&format!("regulate.{key}"), problem)),
            None => Ok(()),
        }
    }
}

/// A value that TOML has as a number or as text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or text in quotes")]
enum Text {
    Number(u64),
    Text(String),
}

/// Values that are read from text and written as it.
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
            format!("`{text}` is no allowance; write `formula`, `corrected`, `both-ways`, `off`, or a number")
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
                    "`{text}` is no margin; write it like `late=0.04`, `deviations=1.5` or `flat=1.4`"
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
            _ => Err(format!("`{text}` is no window; write it like `last=10` or `adaptive=256`")),
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
            ("accuracy = 1.2", "regulate.accuracy: deadlines have no allowance"),
            ("margin = 'late=0'", "regulate.margin: late more than 0"),
            ("margin = '4'", "write it like `late=0.04`"),
            ("window = 'last=0'", "regulate.window: last 1"),
            ("release = 'soon'", "or `off`"),
            ("release = '0s'", "regulate.release: longer than nothing"),
            ("depth = 0", "regulate.depth: 1 to 32"),
            ("polisy = 'ours'", "regulate.polisy: there is no such key; did you mean regulate.policy?"),
        ] {
            let text = format!("{LEAST}[regulate]\n{keys}");
            let error = Scenario::from_toml(&text, "x.toml").unwrap_err().to_string();
            assert!(error.contains(sentence), "{keys}: {error}");
        }
    }
}
