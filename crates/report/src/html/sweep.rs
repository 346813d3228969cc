//! The page of an exploration of parameters.

use maud::{Markup, html};

use super::{page, sim};
use crate::chart;
use crate::number::{count, duration, percent};
use crate::schema::{Document, SweepPoint, SweepResult};
use crate::verdict;

/// Every combination of values and what came of it, as a page.
#[must_use]
pub fn sweep(document: &Document<SweepResult>) -> String {
    let result = &document.result;
    let body = html! {
        dl.facts {
            div { dt { "Trace" } dd { (result.trace) } }
            div { dt { "Drive" } dd { (result.drive) } }
            (sim::settings(&result.settings))
            div { dt { "Varied" } dd { @for key in &result.varied { code { (key) } " " } } }
        }
        (page::charts(&chart::sweep(result)))
        section {
            h2 { "All points" }
            (table(result))
            @if !result.limits().is_empty() {
                p { "Settings that do not act as they are written:" }
                ul { @for limit in result.limits() { li { (limit.describe()) } } }
            }
        }
        footer { (page::provenance("", &document.run)) }
    };
    let title = format!("{} on {}: settings explored", result.trace, result.drive);
    page::page(&title, &verdict::sweep(result), body, "")
}

fn table(result: &SweepResult) -> Markup {
    // A point may have more or fewer values than there are keys; rows and header then still line up.
    let keys = result.points.iter().map(|point| point.values.len()).fold(result.varied.len(), usize::max);
    let repeated = result.repeated() > 0;
    html! {
        table.points {
            thead {
                tr {
                    th {}
                    @for index in 0..keys { th.text scope="col" { (result.varied.get(index).map_or("", String::as_str)) } }
                    @for name in ["hit rate", "mean", "p99", "longest", "seeks", "idle"] { th scope="col" { (name) } }
                    @if repeated { th.text scope="col" { "same drive as" } }
                }
            }
            tbody { @for point in &result.points { (row(result, point, keys, repeated)) } }
        }
    }
}

fn row(result: &SweepResult, point: &SweepPoint, keys: usize, repeated: bool) -> Markup {
    html! {
        tr.undominated[point.undominated] {
            td { @if point.undominated { span title="undominated" { "●" } } }
            @for index in 0..keys { td.text { (point.values.get(index).map_or("", String::as_str)) } }
            td { (percent(point.hit_ratio)) }
            td { (duration(point.response_mean_ns)) }
            td { (duration(point.response_p99_ns)) }
            td { (duration(point.response_max_ns)) }
            td { (count(point.seeks)) }
            td { (percent(point.idle_ratio)) }
            @if repeated { td.text { (result.same_drive(point).unwrap_or_default()) } }
        }
    }
}
