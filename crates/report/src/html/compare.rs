//! The page of two simulations side by side.

use maud::{Markup, html};

use super::page::{self, Page};
use super::sim;
use crate::chart;
use crate::schema::{Document, SimResult};
use crate::totals::{Judgement, Total, compared};
use crate::verdict;

/// What B changes against A, as a page.
#[must_use]
pub fn compare(a: &Document<SimResult>, b: &Document<SimResult>) -> String {
    let charts = chart::compare(&a.result, &b.result);
    let page = Page {
        title: &title(&a.result, &b.result),
        verdict: page::verdict(&verdict::compare(&a.result, &b.result)),
        charts: &charts,
        facts: facts(&a.result, &b.result),
        body: html! {
            section {
                h2 { "Totals" }
                (totals_table(&compared(&a.result, &b.result)))
            }
        },
        provenance: html! { (page::provenance("A", &a.run)) (page::provenance("B", &b.run)) },
        ..Page::default()
    };
    page.into_string()
}

fn title(a: &SimResult, b: &SimResult) -> String {
    if a.trace == b.trace && a.drive == b.drive {
        format!("{} on {}: A against B", a.trace, a.drive)
    } else {
        format!("A: {} on {}, B: {} on {}", a.trace, a.drive, b.trace, b.drive)
    }
}

fn facts(a: &SimResult, b: &SimResult) -> Markup {
    let sides = |of: fn(&SimResult) -> String| [of(a), of(b)];
    html! {
        table.facts {
            thead { tr { td {} th scope="col" { "A" } th scope="col" { "B" } } }
            tbody {
                @for (name, [in_a, in_b]) in [
                    ("Trace", sides(|result| result.trace.clone())),
                    ("Drive", sides(|result| result.drive.clone())),
                    ("Replay", sides(sim::replay)),
                    ("Chunks", sides(sim::chunking)),
                ] {
                    tr {
                        th scope="row" { (name) }
                        td { (marked(&in_a, in_a != in_b)) }
                        td { (marked(&in_b, in_a != in_b)) }
                    }
                }
                @if a.warm_up_ns.max(b.warm_up_ns) > 0 {
                    @let [in_a, in_b] = sides(sim::not_counted);
                    tr {
                        th scope="row" { "Not counted" }
                        td { (marked(&in_a, in_a != in_b)) }
                        td { (marked(&in_b, in_a != in_b)) }
                    }
                }
                tr { th scope="row" { "Settings" } td { (settings(a, b)) } td { (settings(b, a)) } }
            }
        }
    }
}

/// One side's settings; those that the other side does not have are marked.
fn settings(of: &SimResult, other: &SimResult) -> Markup {
    html! {
        @if of.settings.is_empty() { "the drive's own" }
        @for setting in &of.settings {
            code { (marked(setting, !other.settings.contains(setting))) } " "
        }
    }
}

fn marked(text: &str, differs: bool) -> Markup {
    html! { @if differs { mark { (text) } } @else { (text) } }
}

fn totals_table(rows: &[(Total, Total, Judgement)]) -> Markup {
    html! {
        div.totals.two {
            @for group in rows.chunk_by(|x, y| x.0.group == y.0.group) {
                table {
                    caption { (group[0].0.group) }
                    thead {
                        tr { td {} th scope="col" { "A" } th scope="col" { "B" } th scope="col" { "change" } }
                    }
                    tbody {
                        @for (a, b, judgement) in group {
                            tr {
                                th scope="row" { (a.label) }
                                td { (a.value.text()) }
                                td { (b.value.text()) }
                                td class=(judgement.word()) { (a.value.change(b.value)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
