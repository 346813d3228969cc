//! Results of tasks, and figures estimated from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::metrics::Metrics;
use crate::task::SEED_MARK;

/// A reproduced figure: the median over the seeds, and their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The least of all seeds.
    pub min: f64,
    /// The greatest of all seeds.
    pub max: f64,
    /// Number of seeds.
    pub runs: usize,
}

impl Estimate {
    /// `None` without a value. Of an even number of values the median is the mean of the two in the middle.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Estimate> {
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let upper = values.len() / 2;
        let lower = (values.len() - 1) / 2;
        Some(Estimate { median: (values[lower] + values[upper]) / 2.0, min, max, runs: values.len() })
    }
}

/// Metrics of all tasks that were run, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results(BTreeMap<String, Metrics>);

impl Results {
    /// Adds the metrics of a task.
    pub fn insert(&mut self, key: String, metrics: Metrics) {
        self.0.insert(key, metrics);
    }

    /// Returns whether the task with this key has been run.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Divides the results into those of the tasks with these keys, and those of others.
    #[must_use]
    pub fn divide<'a>(self, keys: impl IntoIterator<Item = &'a str>) -> (Results, Results) {
        let keys: BTreeSet<&str> = keys.into_iter().collect();
        let (of_keys, others) = self.0.into_iter().partition(|(key, _)| keys.contains(key.as_str()));
        (Results(of_keys), Results(others))
    }

    /// Iterates over the keys and metrics of all tasks, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Metrics)> {
        self.0.iter().map(|(key, metrics)| (key.as_str(), metrics))
    }

    /// Returns the metrics of the task with this key, if it has been run.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Metrics> {
        self.0.get(key)
    }

    /// Returns a metric of a point, seed by seed; empty if the point was not run or has no such metric.
    pub(crate) fn by_seed(&self, point: &str, metric: &str) -> Vec<f64> {
        self.named_by_seed(point, metric).into_values().collect()
    }

    /// Returns a metric of a point by the seeds in the keys.
    fn named_by_seed(&self, point: &str, metric: &str) -> BTreeMap<&str, f64> {
        let prefix = format!("{point}{SEED_MARK}");
        let of_point = self.0.range(prefix.clone()..);
        let of_point = of_point.map_while(|(key, metrics)| Some((key.strip_prefix(&prefix)?, metrics)));
        of_point.filter_map(|(seed, metrics)| Some((seed, *metrics.get(metric)?))).collect()
    }

    /// Median and range of a metric of a point.
    pub(crate) fn estimate(&self, point: &str, metric: &str) -> Option<Estimate> {
        Estimate::of(self.by_seed(point, metric))
    }

    /// Median and range of a figure that `of` computes from metrics of several points, seed by seed. Seeds that lack one of them
    /// are left out.
    pub(crate) fn combined<const N: usize>(
        &self,
        metrics: [(&str, &str); N],
        of: impl Fn([f64; N]) -> f64,
    ) -> Option<Estimate> {
        let series = metrics.map(|(point, metric)| self.named_by_seed(point, metric));
        let seeds = series.iter().flat_map(BTreeMap::keys).copied().collect::<BTreeSet<&str>>();
        let complete = seeds.into_iter().filter(|seed| series.iter().all(|values| values.contains_key(seed)));
        Estimate::of(complete.map(|seed| of(series.each_ref().map(|values| values[seed]))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_median_and_range() {
        assert_eq!(Estimate::of(Vec::new()), None);
        let estimate = Estimate::of(vec![3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((estimate.median, estimate.min, estimate.max, estimate.runs), (2.5, 1.0, 10.0, 4));
    }

    #[test]
    fn results_of_other_tasks_are_divided_off() {
        let mut results = Results::default();
        for key in ["p/a#0000", "p/a#0001", "q/a#0000"] {
            results.insert(key.to_owned(), Metrics::new());
        }
        let (wanted, others) = results.divide(["p/a#0000", "p/b#0000"]);
        assert_eq!(wanted.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["p/a#0000"]);
        assert_eq!(others.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["p/a#0001", "q/a#0000"]);
    }

    #[test]
    fn figures_of_several_points_are_combined_seed_by_seed() {
        let mut results = Results::default();
        for (key, value) in
            [("p/a#00", 1.0), ("p/a#01", 3.0), ("p/ab#00", 9.0), ("p/b#00", 10.0), ("p/b#01", 10.0)]
        {
            results.insert(key.to_owned(), Metrics::from([("m".to_owned(), value)]));
        }
        assert_eq!(results.by_seed("p/a", "m"), [1.0, 3.0]);
        let difference = results.combined([("p/a", "m"), ("p/b", "m")], |[a, b]| b - a).unwrap();
        assert_eq!((difference.min, difference.max, difference.runs), (7.0, 9.0, 2));
        results.insert("p/b#00".to_owned(), Metrics::new());
        let difference = results.combined([("p/a", "m"), ("p/b", "m")], |[a, b]| b - a).unwrap();
        assert_eq!((difference.median, difference.runs), (7.0, 1), "the first seed has no second metric");
        assert_eq!(results.combined([("p/a", "m"), ("p/c", "m")], |[a, _]| a), None);
    }
}
