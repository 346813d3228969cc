//! The page of an exploration of parameters.

use maud::{Markup, html};

use super::page::{self, Page};
use super::sim;
use super::table::{Cell, Row, Table};
use crate::chart;
use crate::number::{count, duration, percent};
use crate::schema::{Document, SweepPoint, SweepResult};
use crate::verdict;

/// Every combination of values and what came of it, as a page.
#[must_use]
pub fn sweep(document: &Document<SweepResult>) -> String {
    let result = &document.result;
    let page = Page {
        title: &format!("{} on {}: settings explored", result.trace, result.drive),
        verdict: page::verdict(&verdict::sweep(result)),
        charts: &chart::sweep(result),
        facts: html! {
            dl.facts {
                div { dt { "Trace" } dd { (result.trace) } }
                div { dt { "Drive" } dd { (result.drive) } }
                (sim::settings(&result.settings))
                div { dt { "Varied" } dd { @for key in &result.varied { code { (key) } " " } } }
            }
        },
        details: html! {
            section {
                h2 { "All points" }
                p.faint { "The undominated ones first." }
                (table(result))
                @if !result.limits().is_empty() {
                    p { "Settings that do not act as they are written:" }
                    ul { @for limit in result.limits() { li { (limit.describe()) } } }
                }
            }
        },
        provenance: page::provenance("", &document.run),
        ..Page::default()
    };
    page.into_string()
}

fn table(result: &SweepResult) -> Markup {
    // A point may have more or fewer values than there are keys; rows and header then still line up.
    let keys = result.points.iter().map(|point| point.values.len()).fold(result.varied.len(), usize::max);
    let key = |index| result.varied.get(index).cloned().unwrap_or_default();
    let repeated = result.repeated() > 0;
    let figures = ["hit rate", "mean", "p99", "longest", "seeks", "idle"].map(str::to_owned).into_iter();
    let figures = figures.chain(repeated.then(|| "same drive as".to_owned()));
    let mut points: Vec<&SweepPoint> = result.points.iter().collect();
    points.sort_by_key(|point| !point.undominated);
    let table = Table {
        name: "points",
        caption: html! {},
        header: ["".to_owned()].into_iter().chain((0..keys).map(key)).chain(figures).collect(),
        text_columns: 1 + keys,
        rows: points.into_iter().map(|point| row(result, point, keys, repeated)).collect(),
    };
    table.markup()
}

fn row(result: &SweepResult, point: &SweepPoint, keys: usize, repeated: bool) -> Row {
    let mark = if point.undominated { Cell::from("●").title("undominated") } else { Cell::default() };
    let value = |index| Cell::from(point.values.get(index).map_or("", String::as_str));
    let same = repeated.then(|| Cell::from(result.same_drive(point).unwrap_or_default()));
    let figures = [
        percent(point.hit_ratio),
        duration(point.response_mean_ns),
        duration(point.response_p99_ns),
        duration(point.response_max_ns),
        count(point.seeks),
        percent(point.idle_ratio),
    ];
    Row {
        cells: [mark]
            .into_iter()
            .chain((0..keys).map(value))
            .chain(figures.map(Cell::from))
            .chain(same)
            .collect(),
        is_marked: point.undominated,
    }
}
