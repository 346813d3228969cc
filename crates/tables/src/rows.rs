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
        Cell::Real(value) => QueryCell::Real(*value),
        Cell::Text(text) => QueryCell::Text(text.clone()),
    }
}
