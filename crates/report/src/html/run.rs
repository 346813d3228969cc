//! The page of a program that was run with reading ahead.

use maud::{Markup, html};

use super::page::{self, Page};
use super::table::Table;
use crate::chart;
use crate::label::RUN_GLOSSARY;
use crate::number::{NONE, bytes, count, duration};
use crate::schema::{Document, RunResult};
use crate::verdict;

/// What was seen and done, as a page.
#[must_use]
pub fn run(document: &Document<RunResult>) -> String {
    let result = &document.result;
    let page = Page {
        title: &format!("{}, read ahead of", verdict::run_title(result)),
        verdict: page::verdict(&verdict::run(result)),
        charts: &chart::run(result),
        facts: html! {
            dl.facts {
                @for (name, value) in verdict::run_figures(result) {
                    div { dt { (name) } dd { (value) } }
                }
                div { dt { "distance" } dd { (result.limit) } }
            }
        },
        details: html! {
            section {
                h2 { "Files" }
                (readings(result))
            }
        },
        provenance: page::provenance("", &document.run),
        words: &RUN_GLOSSARY,
        ..Page::default()
    };
    page.into_string()
}

fn readings(result: &RunResult) -> Markup {
    let header = ["file", "left alone, because", "files", "read", "read ahead", "wasted", "hidden"];
    let rows = result.readings.iter().map(|reading| {
        vec![
            reading.name.clone(),
            reading.idle.map_or_else(String::new, |reason| verdict::run_reason(reason).to_owned()),
            count(reading.files),
            bytes(reading.read_bytes),
            bytes(reading.prefetched_bytes),
            bytes(reading.wasted_bytes),
            reading.io_hidden_ns.map_or(NONE.to_owned(), duration),
        ]
    });
    Table::plain("files", header, 2, rows).markup()
}
