//! The page of an experiment in virtual time.

use maud::html;

use super::page::{self, Page};
use super::table::Table;
use crate::chart;
use crate::job;
use crate::regulation;
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

const REGULATED: [(&str, &str); 6] = [
    (
        "P, rate",
        "What a program asks for, in percent of the device: its I/Os are to take 100/P times what one takes the device.",
    ),
    ("ideal", "That time. It follows the device, not the number of those that use it."),
    (
        "accuracy",
        "Mean of actual over ideal time. 1 is exact; up to 1.1 is good (section 6.2 of the thesis).",
    ),
    ("CoV", "Standard deviation of the I/O time over its mean: 0 is constant."),
    (
        "allowance",
        "How many requests may be in the device, so that a regulated one which comes ends in time.",
    ),
    (
        "formula, thesis, ours",
        "The allowance of the formula alone (section 4.2), with the thesis's correction (5.3), and deadlines in its place.",
    ),
];

const JOBS: [(&str, &str); 5] = [
    ("part", "How much of the file a task computes on."),
    ("mmap", "The file is mapped, and who computes on a part faults it in."),
    ("read", "The whole file is read by one thread, and computed on afterwards."),
    ("blocked-any", "A task for each block of parts reads it, on any of the threads that compute."),
    ("blocked-io", "The same, on a thread that does nothing else and goes before the others."),
];

/// Every combination of values and what came of it, as a page.
#[must_use]
pub fn scenario(document: &Document<ScenarioResult>) -> String {
    let result = &document.result;
    let regulated = regulation::is_regulated(result);
    let of_jobs_alone = scenario::is_of_jobs_alone(result);
    let page = Page {
        title: &result.name,
        verdict: page::verdict(&scenario::verdict(result)),
        charts: &chart::scenario(result),
        facts: html! {
            dl.facts {
                div { dt { "Drive" } dd { (result.drive) } }
                div { dt { "Varied" } dd { @for key in &result.varied { code { (key) } " " } } }
                @if result.repetitions > 1 {
                    div { dt { "Repetitions" } dd { (result.repetitions) @if regulated { ", the figures are medians" } @else { ", of which the shortest time counts" } } }
                }
            }
        },
        details: html! {
            @if let Some(best) = regulation::best_table(result) {
                section {
                    h2 { "Best allowances" }
                    (Table::of_points("allowances", best).markup())
                }
            }
            @if let Some(jobs) = job::table(result) {
                section {
                    h2 { "Jobs" }
                    (Table::of_points("jobs", jobs).markup())
                    p.faint { (job::LEGEND) }
                }
            }
            @if !of_jobs_alone {
                section {
                    h2 { "All points" }
                    (Table::of_points("points", scenario::table(result)).markup())
                    p.faint { (scenario::legend(result)) }
                }
            }
        },
        provenance: page::provenance("", &document.run),
        words: match (regulated, of_jobs_alone) {
            (true, _) => &REGULATED,
            (false, true) => &JOBS,
            (false, false) => &WORDS,
        },
        ..Page::default()
    };
    page.into_string()
}
