//! The points of a sweep as a table: a row for each combination, the settings first, as numbers in their base units.

use sakiyomi_drive::spec::{DriveSpec, Setting};
use sakiyomi_report::SweepResult;
use sakiyomi_report::result::SweepPoint;
use sakiyomi_trace::table::{Column, Kind, Value};

/// The points of a sweep as a table.
#[derive(Debug)]
pub struct PointsTable<'a> {
    varied: Vec<Varied>,
    points: &'a [SweepPoint],
}

impl PointsTable<'_> {
    /// `drives` are those of the points, in their order, with the texts that were set.
    pub(super) fn new<'a>(result: &'a SweepResult, drives: &[(Vec<String>, DriveSpec)]) -> PointsTable<'a> {
        let varied = result.varied.iter().enumerate().map(|(index, key)| {
            let texts = drives.iter().map(|(texts, drive)| (texts[index].as_str(), drive));
            Varied::new(key, texts.map(|(text, drive)| (text, drive.setting(key, text))).collect())
        });
        PointsTable { varied: varied.collect(), points: &result.points }
    }

    /// Returns the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        let mut columns: Vec<Column> = self.varied.iter().map(|varied| varied.column.clone()).collect();
        columns.push(Column::new("hit_ratio", Kind::F64));
        let figures = ["response_mean_ns", "response_p99_ns", "response_max_ns", "seeks"];
        columns.extend(figures.map(|name| Column::new(name, Kind::I64)));
        columns.extend([Column::new("idle_ratio", Kind::F64), Column::new("undominated", Kind::Bool)]);
        columns.push(Column::new("same_drive_as_point", Kind::I64).nullable());
        columns
    }

    /// Returns the rows, each with a value per column.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Value<'_>>> {
        self.points.iter().enumerate().map(|(index, point)| {
            let mut row: Vec<Value<'_>> = self.varied.iter().map(|varied| varied.value(index)).collect();
            row.push(Value::F64(point.hit_ratio));
            let figures = [point.response_mean_ns, point.response_p99_ns, point.response_max_ns, point.seeks];
            // Signed, so that readers can subtract them; a simulation ends within 292 years.
            row.extend(figures.map(|figure| Value::I64(i64::try_from(figure).unwrap_or(i64::MAX))));
            row.extend([Value::F64(point.idle_ratio), Value::Bool(point.undominated)]);
            let same = point.same_drive_as_point.and_then(|number| i64::try_from(number).ok());
            row.push(same.map_or(Value::Null, Value::I64));
            row
        })
    }
}

/// A varied key as a column: of numbers if all its values are numbers of one unit, otherwise of the texts as given.
#[derive(Debug)]
struct Varied {
    column: Column,
    kind: Kind,
    /// For each point, the given text and the value that the drive stored for it.
    values: Vec<(String, Setting)>,
}

impl Varied {
    fn new(key: &str, values: Vec<(&str, Setting)>) -> Varied {
        let unit = values.first().map_or("", |(_, setting)| setting.unit_suffix());
        let kinds = values.iter().map(|(_, setting)| match setting {
            setting if setting.unit_suffix() != unit => Kind::Text,
            Setting::Flag(_) => Kind::Bool,
            Setting::Fraction(_) => Kind::F64,
            Setting::Text(_) => Kind::Text,
            _ => Kind::I64,
        });
        let kind = kinds.reduce(common_kind).unwrap_or(Kind::Text);
        let unit = if kind == Kind::Text { "" } else { unit };
        let values = values.into_iter().map(|(text, setting)| (text.to_owned(), setting)).collect();
        Varied { column: Column::new(format!("{key}{unit}"), kind), kind, values }
    }

    fn value(&self, index: usize) -> Value<'_> {
        let (text, setting) = &self.values[index];
        match (self.kind, setting) {
            (Kind::Bool, &Setting::Flag(flag)) => Value::Bool(flag),
            (Kind::F64, &Setting::Fraction(number)) => Value::F64(number),
            (Kind::F64, &Setting::Integer(number)) => Value::F64(number as f64),
            (
                Kind::I64,
                &(Setting::Integer(number)
                | Setting::Bytes(number)
                | Setting::BytesPerSecond(number)
                | Setting::Nanos(number)),
            ) => Value::I64(number),
            _ => Value::Text(text),
        }
    }
}

/// Returns the kind that holds values of both.
fn common_kind(a: Kind, b: Kind) -> Kind {
    match (a, b) {
        (a, b) if a == b => a,
        (Kind::I64, Kind::F64) | (Kind::F64, Kind::I64) => Kind::F64,
        _ => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(key: &str, texts: &[&str]) -> (Column, Vec<String>) {
        let values = texts.iter().map(|&text| {
            let mut drive = sakiyomi_drive::spec::builtin("deskstar-7k250").unwrap().spec();
            drive.set(key, text).unwrap();
            (text, drive.setting(key, text))
        });
        let varied = Varied::new(key, values.collect());
        let shown = (0..texts.len()).map(|index| format!("{:?}", varied.value(index))).collect();
        (varied.column, shown)
    }

    #[test]
    fn a_varied_key_is_a_column_of_numbers_in_its_base_unit() {
        for (key, texts, name, kind, shown) in [
            ("cache.read_ahead.max", "0 64KiB", "cache.read_ahead.max_bytes", Kind::I64, "I64(0) I64(65536)"),
            ("queue.age_limit", "0 10ms", "queue.age_limit_ns", Kind::I64, "I64(0) I64(10000000)"),
            (
                "interface.link_rate",
                "1kB 2kB",
                "interface.link_rate_bytes_per_s",
                Kind::I64,
                "I64(1000) I64(2000)",
            ),
            ("cache.segments.count", "4 16", "cache.segments.count", Kind::I64, "I64(4) I64(16)"),
            ("servo.lost_turns", "0 0.5", "servo.lost_turns", Kind::F64, "F64(0.0) F64(0.5)"),
            (
                "cache.write.enabled",
                "true false",
                "cache.write.enabled",
                Kind::Bool,
                "Bool(true) Bool(false)",
            ),
            ("queue.policy", "fcfs sptf", "queue.policy", Kind::Text, "Text(\"fcfs\") Text(\"sptf\")"),
        ] {
            let texts: Vec<&str> = texts.split(' ').collect();
            let shown: Vec<String> = shown.split(' ').map(str::to_owned).collect();
            assert_eq!(column(key, &texts), (Column::new(name, kind), shown), "{key}");
        }
    }
}
