//! Figures of the papers, from `published.toml`.

use serde::{Deserialize, Serialize};

use crate::paper::Paper;

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The paper.
    pub paper: Paper,
    /// Its identifier within the paper, such as `a.1.standard`.
    pub id: String,
    /// The table, figure or section.
    pub place: String,
    /// The measured quantity.
    pub what: String,
    /// The value, in `unit`; the lower end of a range.
    pub value: f64,
    /// The upper end of a range.
    #[serde(default)]
    pub to: Option<f64>,
    /// The unit, such as `s`, `%` or `IOPS`.
    pub unit: String,
    /// How a reproduced figure should relate to it.
    #[serde(default)]
    pub relation: Relation,
    /// Whether a parameter of the reproduction was chosen so that it has this figure.
    #[serde(default, rename = "calibrated")]
    pub is_calibrated: bool,
    /// Which parameter is calibrated to the figure, which assumption it depends on, or why it differs.
    #[serde(default)]
    pub note: Option<String>,
    /// Whether a live figure is one of this machine, such as the speed of its storage, which nothing is held against.
    #[serde(default, rename = "of_machine")]
    pub is_of_machine: bool,
    /// Why a live figure may differ from the published one.
    #[serde(default)]
    pub live_note: Option<String>,
}

/// How a reproduced figure should relate to the published one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// It is the same, or within the range.
    #[default]
    Exactly,
    /// The published figure is rounded. It is printed as such, and judged as [`Relation::Exactly`]: how far a figure is from
    /// a rounded one is shown, not hidden by a tolerance.
    About,
    /// No less.
    #[serde(rename = "at least")]
    AtLeast,
    /// No more.
    #[serde(rename = "at most")]
    AtMost,
    /// More.
    #[serde(rename = "more than")]
    MoreThan,
}

/// Returns the published figures of all papers, in the order of the file.
///
/// # Panics
/// If `published.toml`, which is part of the program, is malformed.
#[must_use]
pub fn published() -> Vec<Published> {
    #[derive(Deserialize)]
    struct File {
        figure: Vec<Published>,
    }
    let file: File =
        toml::from_str(include_str!("../published.toml")).expect("published.toml is well formed");
    file.figure
}

/// End of the identifiers of gains in percent.
const GAIN_SUFFIX: &str = ".speedup";

impl Published {
    /// Relative deviation of `value` from the published figure, 0 within a range or beyond a bound; `None` from a
    /// published 0.
    #[must_use]
    pub fn deviation(&self, value: f64) -> Option<f64> {
        if self.is_met_by(value) {
            return Some(0.0);
        }
        let nearest = if value > self.value { self.to.unwrap_or(self.value) } else { self.value };
        (nearest != 0.0).then(|| value / nearest - 1.0)
    }

    /// Relative deviation of a live figure from that in virtual time, under the same conditions. A gain in percent is judged
    /// by the ratio of times that it stands for: of a small one, hundredths of the time would be most.
    #[must_use]
    pub fn live_deviation(&self, live: f64, simulated: f64) -> Option<f64> {
        let base = if self.id.ends_with(GAIN_SUFFIX) { 100.0 } else { 0.0 };
        (base + simulated != 0.0).then(|| (base + live) / (base + simulated) - 1.0)
    }

    /// Returns whether `value` is in the published range, or on the right side of a published bound.
    #[must_use]
    pub fn is_met_by(&self, value: f64) -> bool {
        match self.relation {
            Relation::Exactly | Relation::About => {
                value >= self.value && value <= self.to.unwrap_or(self.value)
            }
            Relation::AtLeast => value >= self.value,
            Relation::AtMost => value <= self.value,
            Relation::MoreThan => value > self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn identifiers_are_unique_within_a_paper_and_ranges_ascend() {
        let all = published();
        let names: BTreeSet<_> = all.iter().map(|figure| (figure.paper, &figure.id)).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|figure| figure.to.is_none_or(|to| to > figure.value)));
        assert!(Paper::ALL.iter().all(|paper| all.iter().any(|figure| figure.paper == *paper)));
    }

    #[test]
    fn published_speed_ups_follow_from_the_published_times() {
        let all = published();
        let value = |id: &str| all.iter().find(|figure| figure.id == id).unwrap().value;
        for (machine, file) in
            ["a", "b"].into_iter().flat_map(|machine| (1..=8).map(move |file| (machine, file)))
        {
            let [standard, prefetch, faster] =
                ["standard", "prefetch", "speedup"].map(|what| value(&format!("{machine}.{file}.{what}")));
            let derived = 100.0 * (standard / prefetch - 1.0);
            assert!((derived - faster).abs() < 0.15, "{machine} {file}: {derived}");
        }
    }

    #[test]
    fn a_live_gain_is_held_against_a_simulated_one_by_their_times() {
        let all = published();
        let figure = |id: &str| all.iter().find(|figure| figure.id == id).unwrap();
        let gain = figure("a.mean.speedup").live_deviation(21.0, 10.0).unwrap();
        assert!((gain - 0.1).abs() < 1e-9, "{gain}");
        let time = figure("128KiB.mmap.1").live_deviation(12.0, 10.0).unwrap();
        assert!((time - 0.2).abs() < 1e-9, "{time}");
        assert_eq!(figure("128KiB.mmap.1").live_deviation(1.0, 0.0), None);
    }

    #[test]
    fn a_figure_is_held_against_its_range_or_bound() {
        let figure = |to, relation| Published { to, relation, value: 10.0, ..published()[0].clone() };
        assert_eq!(figure(None, Relation::Exactly).deviation(12.5), Some(0.25));
        assert_eq!(figure(Some(12.0), Relation::Exactly).deviation(11.0), Some(0.0));
        assert_eq!(figure(Some(12.0), Relation::Exactly).deviation(15.0), Some(0.25));
        assert_eq!(figure(None, Relation::AtMost).deviation(9.0), Some(0.0));
        assert_eq!(figure(None, Relation::MoreThan).deviation(10.0), Some(0.0));
        assert!(!figure(None, Relation::MoreThan).is_met_by(10.0));
        let zero = Published { value: 0.0, ..figure(None, Relation::Exactly) };
        assert_eq!((zero.deviation(1.0), zero.deviation(0.0)), (None, Some(0.0)));
    }
}
