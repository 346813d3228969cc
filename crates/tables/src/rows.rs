//! Conversion of preview rows to rows of a report.

use sakiyomi_query::preview::{Cell, Preview};
use sakiyomi_report::result::{QueryCell, QueryColumn, QueryRows};

pub(super) fn rows(preview: &Preview) -> QueryRows {
    let column = |column: &sakiyomi_query::preview::Column| QueryColumn {
        name: column.name.clone(),
        kind: column.kind.to_string(),
        is_numeric: column.is_numeric(),
    };
    QueryRows {
        columns: preview.columns.iter().map(column).collect(),
        rows: preview.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
    }
}

fn cell(cell: &Cell) -> QueryCell {
    match cell {
        Cell::Null => QueryCell::Null,
        Cell::Boolean(value) => QueryCell::Boolean(*value),
        Cell::Integer(value) => QueryCell::Integer(*value),
        Cell::Real(value) if value.is_finite() => QueryCell::Real(*value),
        // JSON has no number for these.
        Cell::Real(value) => QueryCell::Text(not_finite(*value).to_owned()),
        Cell::Text(text) => QueryCell::Text(text.clone()),
    }
}

fn not_finite(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_are_texts() {
        let texts = [(f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity"), (f64::NAN, "NaN")];
        for (value, text) in texts {
            assert_eq!(cell(&Cell::Real(value)), QueryCell::Text(text.to_owned()));
        }
        assert_eq!(cell(&Cell::Real(f64::MAX)), QueryCell::Real(f64::MAX));
    }
}
