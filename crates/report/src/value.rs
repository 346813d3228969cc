//! A figure with its unit: its formatting, sorting and comparison in all renderers.

use crate::number::{self, NONE};

/// Highest accuracy that is good (section 6.2).
pub(crate) const GOOD_ACCURACY_MAX: f64 = 1.1;

/// A figure of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Not known, or not applicable: a dash.
    #[default]
    Nothing,
    /// Text; sorted by the number that it begins with, if any.
    Text(String),
    /// Keys of settings, as they are typed.
    Keys(Vec<String>),
    /// A count.
    Count(u64),
    /// A duration in nanoseconds.
    Time(u64),
    /// A difference of times in nanoseconds.
    TimeDifference(i64),
    /// A size in bytes.
    Size(u64),
    /// A size in bytes that is a round number, such as a block size.
    RoundSize(u64),
    /// A share of a whole, 0 to 1.
    Share(f64),
    /// A share, shown without decimals.
    WholeShare(f64),
    /// A share, shown with the precision needed for comparison with another one.
    ExactShare(f64),
    /// A relative change.
    Change(f64),
    /// Bytes per second.
    Rate(f64),
    /// A number per second.
    PerSecond(f64),
    /// Seconds of CPU time per GB.
    CpuPerGb(f64),
    /// A bare number, and its number of decimals.
    Number(f64, usize),
}

impl Value {
    /// Returns the value of an option; [`Value::Nothing`] for `None`.
    pub(crate) fn known<T>(value: Option<T>, of: impl FnOnce(T) -> Value) -> Value {
        value.map_or(Value::Nothing, of)
    }

    /// Formats the value for readers.
    #[must_use]
    pub fn text(&self) -> String {
        match *self {
            Value::Nothing => NONE.to_owned(),
            Value::Text(ref text) => text.clone(),
            Value::Keys(ref keys) => keys.join(", "),
            Value::Count(count) => number::count(count),
            Value::Time(ns) => number::duration(ns),
            Value::TimeDifference(ns) => number::signed_duration(ns),
            Value::Size(bytes) => number::bytes(bytes),
            Value::RoundSize(bytes) => number::round_bytes(bytes),
            Value::Share(ratio) => number::percent(ratio),
            Value::WholeShare(ratio) => number::whole_percent(ratio),
            Value::ExactShare(ratio) => number::percent_exact(ratio),
            Value::Change(ratio) => number::signed_percent(ratio),
            Value::Rate(bytes_per_s) => number::rate(bytes_per_s),
            Value::PerSecond(rate) => number::per_second(rate),
            Value::CpuPerGb(seconds) => number::cpu_per_gb(seconds),
            Value::Number(value, places) => number::decimal(value, places),
        }
    }

    /// Returns the value in its base unit (seconds, bytes, one), by which tables are sorted; `None` without a number.
    pub(crate) fn sort_key(&self) -> Option<f64> {
        match *self {
            Value::Nothing | Value::Keys(_) => None,
            Value::Text(ref text) => number::sort_key(text),
            Value::Time(ns) => Some(ns as f64 / 1e9),
            Value::TimeDifference(ns) => Some(ns as f64 / 1e9),
            ref value => Some(value.amount()).filter(|amount| amount.is_finite()),
        }
    }

    /// Returns the bare number.
    fn amount(&self) -> f64 {
        match *self {
            Value::Nothing | Value::Text(_) | Value::Keys(_) => f64::NAN,
            Value::Count(value) | Value::Time(value) | Value::Size(value) | Value::RoundSize(value) => {
                value as f64
            }
            Value::TimeDifference(value) => value as f64,
            Value::Share(value)
            | Value::WholeShare(value)
            | Value::ExactShare(value)
            | Value::Change(value)
            | Value::Rate(value)
            | Value::PerSecond(value)
            | Value::CpuPerGb(value)
            | Value::Number(value, _) => value,
        }
    }

    /// Formats the change from `self` to `to`: in per cent, or in points if the value is itself a share.
    pub(crate) fn change(&self, to: &Value) -> String {
        let is_share = matches!(self, Value::Share(_) | Value::WholeShare(_) | Value::ExactShare(_));
        let (from, to) = (self.amount(), to.amount());
        let difference = to - from;
        if difference == 0.0 {
            return "=".to_owned();
        }
        let sign = if difference < 0.0 { "−" } else { "+" };
        if !difference.is_finite() {
            NONE.to_owned()
        } else if is_share {
            format!("{sign}{} points", number::percent(difference.abs()).trim_end_matches(" %"))
        } else if from != 0.0 && difference.abs() / from < 0.0005 {
            "≈".to_owned()
        } else if from == 0.0 {
            "from none".to_owned()
        } else if to / from >= 10.0 {
            format!("× {}", number::times(to / from))
        } else {
            format!("{sign}{}", number::percent(difference.abs() / from))
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// The direction in which a figure should go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// Higher is better.
    High,
    /// Lower is better.
    Low,
    /// It describes the workload, or has no better direction.
    #[default]
    None,
}

/// Relative change from which a value is called better or worse.
const CHANGE_MIN_RATIO: f64 = 0.005;

impl Aim {
    /// Returns whether the change between two values is an improvement; `None` if it is negligible.
    pub(crate) fn is_better(self, from: &Value, to: &Value) -> Option<bool> {
        let (from, to) = (from.amount(), to.amount());
        let is_noticeable = (to - from).abs() > from.abs().max(to.abs()) * CHANGE_MIN_RATIO;
        match self {
            Aim::High => is_noticeable.then_some(to > from),
            Aim::Low => is_noticeable.then_some(to < from),
            Aim::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_signed_and_in_the_value_s_own_terms() {
        let change = |from: Value, to: Value| from.change(&to);
        assert_eq!(change(Value::Share(0.392), Value::Share(0.724)), "+33.2 points");
        assert_eq!(change(Value::Count(6908), Value::Count(3209)), "−53.5 %");
        assert_eq!(change(Value::Time(1), Value::Time(61)), "× 61");
        assert_eq!(change(Value::Count(0), Value::Count(3)), "from none");
        assert_eq!(change(Value::Count(3), Value::Count(3)), "=");
        assert_eq!(change(Value::Count(10_000), Value::Count(10_001)), "≈");
        assert_eq!(change(Value::Share(0.1), Value::Share(f64::NAN)), NONE);
    }

    #[test]
    fn only_a_noticeable_change_is_judged() {
        let judge = |aim: Aim, to| aim.is_better(&Value::Count(1000), &Value::Count(to));
        assert_eq!(judge(Aim::Low, 500), Some(true));
        assert_eq!(judge(Aim::High, 500), Some(false));
        assert_eq!(judge(Aim::Low, 1004), None);
        assert_eq!(judge(Aim::None, 1), None);
    }

    #[test]
    fn values_sort_by_their_base_unit() {
        assert_eq!(Value::Time(14_230_000).sort_key(), Some(0.01423));
        assert_eq!(Value::Size(2048).sort_key(), Some(2048.0));
        assert_eq!(Value::from("64KiB").sort_key(), Some(65536.0));
        assert_eq!(
            [Value::Share(f64::NAN), Value::Nothing, "tar".into()].map(|value| value.sort_key()),
            [None; 3]
        );
    }
}
