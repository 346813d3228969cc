//! The page of an experiment in virtual time.

use maud::{Markup, html};

use super::page;
use crate::chart;
use crate::scenario;
use crate::schema::{Document, ScenarioResult};

const WORDS: [(&str, &str); 4] = [
    (
        "limit",
        "How far ahead of the program the prefetcher may be; `off` is without one, `auto` finds out by itself.",
    ),
    (
        "waits",
        "The program can do nothing, because what it reads is not in memory, or too much of what it wrote is not on the drive.",
    ),
    ("hidden", "Reading that went on while the program computed, wrote or paused."),
    (
        "wasted",
        "Brought into memory by the prefetcher, and evicted before the program came to it: it has to be read again.",
    ),
];

/// Every combination of values and what came of it, as a page.
#[must_use]
pub fn scenario(document: &Document<ScenarioResult>) -> String {
    let result = &document.result;
    let body = html! {
        dl.facts {
            div { dt { "Drive" } dd { (result.drive) } }
            div { dt { "Varied" } dd { @for key in &result.varied { code { (key) } " " } } }
            @if result.repetitions > 1 {
                div { dt { "Repetitions" } dd { (result.repetitions) ", of which the shortest time counts" } }
            }
        }
        (page::charts(&chart::scenario(result)))
        section {
            h2 { "All points" }
            (table(result))
            p.faint { (scenario::LEGEND) }
        }
        footer { (page::provenance("", &document.run)) }
    };
    page::page_with_words(&result.name, page::verdict(&scenario::verdict(result)), body, "", &WORDS)
}

fn table(result: &ScenarioResult) -> Markup {
    let points = scenario::table(result);
    let is_text = |column: usize| column < points.text_columns;
    html! {
        table.points {
            thead {
                tr { @for (column, name) in points.header.iter().enumerate() { th.text[is_text(column)] scope="col" { (name) } } }
            }
            tbody {
                @for row in &points.rows {
                    tr { @for (column, cell) in row.iter().enumerate() { td.text[is_text(column)] { (cell) } } }
                }
            }
        }
    }
}
