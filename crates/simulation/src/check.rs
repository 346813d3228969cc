//! Checks of how figures change from one result to another, for use in scripts.

use std::str::FromStr;

use serde_json::Value;

use crate::Error;

/// Fails if a figure changes too much from A to B: `response_ns.p99>+5%`, `hit_ratio<-1%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The figure's path in the result.
    key: String,
    /// Whether it fails if the change is more than `percent`, or if it is less.
    more: bool,
    /// Relative change from A to B.
    percent: f64,
}

impl FromStr for Check {
    type Err = Error;

    fn from_str(text: &str) -> Result<Check, Error> {
        let wrong = |problem: &str| {
            let example = "write it like response_ns.p99>+5% or hit_ratio<-1%";
            Error::Option(if problem.is_empty() {
                example.to_owned()
            } else {
                format!("{problem}; {example}")
            })
        };
        let at = text.find(['>', '<']).ok_or_else(|| wrong("there is no `>` or `<`"))?;
        let (key, limit) = (text[..at].trim(), text[at + 1..].trim());
        let percent =
            limit.strip_suffix('%').ok_or_else(|| wrong(&format!("the change `{limit}` has no `%`")))?;
        let percent: f64 =
            (percent.trim().parse()).map_err(|_| wrong(&format!("the change `{limit}` is not a number")))?;
        if !percent.is_finite() || key.is_empty() {
            return Err(wrong(""));
        }
        Ok(Check { key: key.to_owned(), more: text[at..].starts_with('>'), percent })
    }
}

impl Check {
    /// Describes the failure in a sentence; `None` if the check passes. `a` and `b` are results.
    pub(crate) fn failure(&self, a: &Value, b: &Value) -> Result<Option<String>, Error> {
        let (before, after) = (self.figure(a)?, self.figure(b)?);
        let change = match before {
            0.0 if after == 0.0 => 0.0,
            0.0 => f64::INFINITY.copysign(after),
            _ => (after - before) / before.abs() * 100.0,
        };
        let failed = if self.more { change > self.percent } else { change < self.percent };
        let sign = if self.more { ">" } else { "<" };
        Ok(failed
            .then(|| format!("{}: {before} → {after}, {change:+.2} % {sign} {:+} %", self.key, self.percent)))
    }

    fn figure(&self, result: &Value) -> Result<f64, Error> {
        let figure = self.key.split('.').try_fold(result, |at, part| at.get(part));
        figure.and_then(Value::as_f64).ok_or_else(|| {
            Error::Option(match figure {
                Some(_) => format!("--fail-if: {} is not a single figure", self.key),
                None => format!("--fail-if: the results have no figure {}; result.json lists them", self.key),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failure(check: &str, a: Value, b: Value) -> Option<String> {
        check
            .parse::<Check>()
            .unwrap()
            .failure(&json!({ "x": { "y": a } }), &json!({ "x": { "y": b } }))
            .unwrap()
    }

    #[test]
    fn a_change_beyond_the_limit_fails_and_one_within_does_not() {
        assert_eq!(failure("x.y>+5%", json!(100), json!(105)), None);
        assert_eq!(failure("x.y>+5%", json!(100), json!(106)).unwrap(), "x.y: 100 → 106, +6.00 % > +5 %");
        assert_eq!(failure("x.y > -5 %", json!(100), json!(90)), None);
        assert!(failure("x.y<-1%", json!(0.5), json!(0.4)).is_some());
    }

    #[test]
    fn something_out_of_nothing_is_beyond_every_limit() {
        assert!(failure("x.y>1000000%", json!(0), json!(1)).is_some());
        assert_eq!(failure("x.y>0%", json!(0), json!(0)), None);
    }

    #[test]
    fn what_is_no_check_or_no_figure_is_refused() {
        for text in ["", "x.y", "x.y>5", "x.y>five%", ">5%", "x.y>NaN%"] {
            assert!(text.parse::<Check>().is_err(), "{text}");
        }
        let check: Check = "x>1%".parse().unwrap();
        assert!(check.failure(&json!({ "x": {} }), &json!({ "x": {} })).is_err());
        assert!(check.failure(&json!({}), &json!({})).is_err());
    }
}
