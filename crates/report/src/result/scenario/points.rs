//! Rows and columns of the points of an experiment: shared by the tables of programs, of jobs and of rates.

use super::{ScenarioPoint, ScenarioResult};
use crate::rows::Rows;

/// The first columns: one for each varied key. A point may have more or fewer values than there are keys; rows and
/// header are still aligned.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    varied: &'a [String],
    columns: usize,
}

impl<'a> Keys<'a> {
    pub(crate) fn of(result: &'a ScenarioResult) -> Keys<'a> {
        let columns = result.points.iter().map(|point| point.values.len());
        Keys { varied: &result.varied, columns: columns.fold(result.varied.len(), usize::max) }
    }

    /// Adds the columns to rows; the values are only in the first row of a point.
    pub(crate) fn onto<T>(
        self,
        mut rows: Rows<T>,
        point: impl Fn(&T) -> (&'a ScenarioPoint, bool),
    ) -> Rows<T> {
        for index in 0..self.columns {
            let name = self.varied.get(index).map_or("", |key: &String| last_word(key));
            rows = rows.text(name, |row| match point(row) {
                (point, true) => point.values.get(index).map_or("", String::as_str),
                (_, false) => "",
            });
        }
        rows
    }
}

/// Prefixes a value that is a bare number with its key: `rate 10`.
pub(crate) fn named(key: Option<&String>, value: &str) -> String {
    match key.filter(|_| value.parse::<f64>().is_ok()) {
        Some(key) => format!("{} {value}", last_word(key)),
        None => value.to_owned(),
    }
}

/// Returns the last word of a key, for column headers: `size` of `process.gzip.size`.
pub(crate) fn last_word(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_are_named_after_their_key() {
        let key = "process.target.rate".to_owned();
        assert_eq!(named(Some(&key), "10"), "rate 10");
        assert_eq!(named(Some(&key), "64MiB"), "64MiB");
        assert_eq!(named(None, "10"), "10");
    }
}
