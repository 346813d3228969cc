//! The page of a program that was run with reading ahead.

use maud::{Markup, html};

use super::page;
use crate::chart;
use crate::label::RUN_GLOSSARY;
use crate::number::{NONE, bytes, count, duration};
use crate::schema::{Document, RunResult};
use crate::verdict;

/// What was seen and done, as a page.
#[must_use]
pub fn run(document: &Document<RunResult>) -> String {
    let result = &document.result;
    let body = html! {
        dl.facts {
            @for (name, value) in verdict::run_figures(result) {
                div { dt { (name) } dd { (value) } }
            }
            div { dt { "distance" } dd { (result.limit) } }
        }
        (page::charts(&chart::run(result)))
        section {
            h2 { "Files" }
            (readings(result))
        }
        footer { (page::provenance("", &document.run)) }
    };
    let title = format!("{}, read ahead of", verdict::run_title(result));
    page::page_with_words(&title, page::verdict(&verdict::run(result)), body, "", &RUN_GLOSSARY)
}

fn readings(result: &RunResult) -> Markup {
    let names = ["", "files", "read", "read ahead", "wasted", "hidden"];
    html! {
        table.points {
            thead { tr {
                @for name in names { th scope="col" { (name) } }
                th.text scope="col" { "left alone, because" }
            } }
            tbody {
                @for reading in &result.readings {
                    tr {
                        th scope="row" { (reading.name) }
                        td { (count(reading.files)) }
                        td { (bytes(reading.read_bytes)) }
                        td { (bytes(reading.prefetched_bytes)) }
                        td { (bytes(reading.wasted_bytes)) }
                        td { (reading.io_hidden_ns.map_or(NONE.to_owned(), duration)) }
                        td.text { (reading.idle.map_or("", verdict::run_reason)) }
                    }
                }
            }
        }
    }
}
