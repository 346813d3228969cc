//! The page of a mounted drive.

use maud::{Markup, html};

use super::page::{self, Page};
use super::table::Table;
use crate::chart;
use crate::label;
use crate::number::{count, duration, percent};
use crate::schema::{Document, MountResult, MountTimes};
use crate::verdict;

const WORDS: [(&str, &str); 4] = [
    (
        "access",
        "A read, write or flush that the kernel asked the mount for. What the page cache had is none.",
    ),
    ("response", "From an access's beginning to its answer."),
    (
        "lateness",
        "From the instant when the simulated drive has ended an access to its answer: how late the mount is, or how much \
         longer the backing directory took.",
    ),
    (
        "accuracy",
        "Mean of actual over ideal time of the I/Os of owners with a rate: 1 is exact, up to 1.1 is good.",
    ),
];

/// The page of a mount's result.
#[must_use]
pub fn mount(document: &Document<MountResult>) -> String {
    let result = &document.result;
    let page = Page {
        title: &verdict::mount_title(result),
        verdict: page::verdict(&verdict::mount(result)),
        charts: &chart::mount(result),
        facts: html! {
            dl.facts {
                div { dt { "Directory" } dd { (result.directory) } }
                div { dt { "Drive" } dd { (result.drive.as_deref().unwrap_or("none: the files' own speed")) } }
                div { dt { "Mounted for" } dd { (duration(result.elapsed_ns)) } }
                @if let Some(records) = result.recorded {
                    div { dt { "Trace" } dd { (count(records)) " records" } }
                }
            }
        },
        body: html! {
            section { h2 { "Times" } (times(result)) }
            @if !result.by_class.is_empty() {
                section { h2 { "Requests to the drive" } (classes(result)) }
            }
        },
        provenance: page::provenance("", &document.run),
        words: &WORDS,
        ..Page::default()
    };
    page.into_string()
}

fn times(result: &MountResult) -> Markup {
    let row = |name: &str, of: &MountTimes| {
        std::iter::once(name.to_owned()).chain([of.mean, of.p50, of.p99, of.max].map(duration)).collect()
    };
    let lateness = result.lateness_ns.as_ref().map(|lateness| row("lateness", lateness));
    let rows = std::iter::once(row("response", &result.response_ns)).chain(lateness);
    Table::plain("times", ["", "mean", "median", "p99", "longest"], 1, rows).markup()
}

fn classes(result: &MountResult) -> Markup {
    let all: f64 = result.by_class.iter().map(|class| class.count as f64).sum();
    let rows = result.by_class.iter().map(|class| {
        let name = label::class_named(&class.class).map_or(&*class.class, |class| label::class(class));
        vec![name.to_owned(), count(class.count), percent(class.count as f64 / all)]
    });
    Table::plain("classes", ["class", "requests", "share"], 1, rows).markup()
}
