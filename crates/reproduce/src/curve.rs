//! Published figures redrawn: lines of reproduced points, with the published ones beside.

use std::collections::BTreeMap;

use crate::estimate::Estimate;
use crate::published::Published;

/// A line of a redrawn figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The redrawn figure.
    pub figure: Figure,
    /// The panel, such as a computer.
    pub panel: String,
    /// The line.
    pub label: String,
    /// Reproduced points.
    pub points: Vec<(f64, f64)>,
    /// Published points.
    pub published: Vec<(f64, f64)>,
}

/// A figure that is redrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Gain in percent over the limit of prefetching in bytes.
    GainByLimit,
    /// Elapsed time in seconds over the size of the file in GB.
    TimeBySize,
    /// Best allowance over the requested performance in percent.
    AllowanceByRate,
    /// Accuracy over the requested performance in percent.
    AccuracyByRate,
    /// Elapsed time in seconds over the number of threads.
    TimeByThreads,
}

impl Figure {
    /// Its name in results.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Figure::GainByLimit => "gain_by_limit",
            Figure::TimeBySize => "time_by_size",
            Figure::AllowanceByRate => "allowance_by_rate",
            Figure::AccuracyByRate => "accuracy_by_rate",
            Figure::TimeByThreads => "time_by_threads",
        }
    }
}

/// Places of figures on the horizontal axis, with the identifiers of published figures.
pub(crate) type Places = Vec<(f64, String)>;

impl Curve {
    /// Returns a line through figures that were published too. Figures without an estimate are left out.
    pub(crate) fn of_figures(
        (figure, panel, label): (Figure, &str, &str),
        places: &Places,
        estimates: &BTreeMap<String, Estimate>,
        published: &[Published],
    ) -> Curve {
        let value = |id: &String| published.iter().find(|figure| figure.id == *id).map(|figure| figure.value);
        Curve {
            figure,
            panel: panel.to_owned(),
            label: label.to_owned(),
            points: places.iter().filter_map(|(x, id)| Some((*x, estimates.get(id)?.median))).collect(),
            published: places.iter().filter_map(|(x, id)| Some((*x, value(id)?))).collect(),
        }
    }
}
