//! Tables of results: the script makes columns sortable, folds long tables, and exports each as CSV.
//!
//! Without a script, and on paper, a page shows all rows in the order of the result.

use std::mem::discriminant;

use maud::{Markup, html};

use crate::section::{Cell, Column, Emphasis, Table, Tone};
use crate::value::Value;

/// Minimum number of rows of a sortable table.
const SORTED_FROM: usize = 4;

/// Length from which a text may be broken into lines.
const BREAKABLE_MIN_CHARS: usize = 16;

/// Renders the table.
pub(super) fn markup(table: &Table) -> Markup {
    let is_sorted = table.rows.len() >= SORTED_FROM && is_comparable(table);
    let (name, shared) = &table.caption;
    html! {
        div.wide {
            table.points data-name=(table.name) data-sorted[is_sorted] {
                @if !name.is_empty() { caption { b { (name) } @if !shared.is_empty() { ", " (shared) } } }
                thead {
                    tr {
                        @for column in &table.columns {
                            @if column.name.is_empty() { td {} }
                            @else { th class=[column.is_text.then_some("text")] scope="col" { (breakable(&column.name)) } }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr class=[(row.emphasis == Emphasis::Best).then_some("undominated")] {
                            @for (index, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
                                (markup_of(cell, column, index == 0, is_sorted))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns whether each column holds values of one kind, so that they can be sorted.
fn is_comparable(table: &Table) -> bool {
    (0..table.columns.len()).all(|column| {
        let values = table.rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| &cell.value);
        let mut kinds =
            values.filter(|value| !matches!(value, Value::Nothing | Value::Text(_))).map(discriminant);
        kinds.next().is_none_or(|first| kinds.all(|kind| kind == first))
    })
}

/// Renders a key so that it can break after its dots if the column is narrow.
pub(super) fn breakable(name: &str) -> Markup {
    html! {
        @for (index, part) in name.split_inclusive('.').enumerate() { @if index > 0 { wbr; } (part) }
    }
}

fn markup_of(cell: &Cell, column: &Column, is_first: bool, is_sorted: bool) -> Markup {
    let text = cell.value.text();
    // A cell with only a mark does not name its row.
    let is_heading = is_first && column.is_text && text.chars().any(char::is_alphanumeric);
    let is_long = text.chars().count() > BREAKABLE_MIN_CHARS;
    let classes = [column.is_text.then_some("text"), is_long.then_some("long"), class(cell.tone)];
    let classes: Vec<&str> = classes.into_iter().flatten().collect();
    let class = (!classes.is_empty()).then(|| classes.join(" "));
    let key = is_sorted.then(|| cell.value.sort_key()).flatten();
    let title = (!cell.note.is_empty()).then_some(&cell.note);
    html! {
        @if is_heading { th class=[class] title=[title] data-v=[key] scope="row" { (text) } }
        @else { td class=[class] title=[title] data-v=[key] { (text) } }
    }
}

/// Returns the CSS class, which puts a mark before a value.
pub(super) fn class(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Plain | Tone::Differs => None,
        Tone::Better => Some("better"),
        Tone::Worse => Some("worse"),
        Tone::StorageBound => Some("bound storage"),
        Tone::CpuBound => Some("bound cpu"),
        Tone::LatencyBound => Some("bound latency"),
        Tone::Undecided => Some("bound"),
    }
}
