//! The frame of every page, and the parts that pages share.
//!
//! The first screen holds the result in words and the first chart. Provenance and the glossary come at the end.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::series;
use crate::chart::Chart;
use crate::label::GLOSSARY;
use crate::number;
use crate::schema::Run;
use crate::verdict;

/// Content of the generator tag, by which a page of sakiyomi is recognised.
const GENERATOR: &str = concat!("sakiyomi ", env!("CARGO_PKG_VERSION"));
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Parts of a page, in reading order.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The verdict on the result.
    pub(super) verdict: Markup,
    /// The first is shown at once, the others after the tables that matter most.
    pub(super) charts: &'a [Chart],
    /// Subject and method of the measurement or simulation.
    pub(super) facts: Markup,
    /// Content before the other charts.
    pub(super) body: Markup,
    /// Content after them.
    pub(super) details: Markup,
    /// How, when and where it was made.
    pub(super) provenance: Markup,
    /// Words and their meanings.
    pub(super) words: &'a [(&'a str, &'a str)],
}

impl Default for Page<'_> {
    fn default() -> Self {
        let empty = || html! {};
        Page {
            title: "",
            verdict: empty(),
            charts: &[],
            facts: empty(),
            body: empty(),
            details: empty(),
            provenance: empty(),
            words: &GLOSSARY,
        }
    }
}

impl Page<'_> {
    /// The whole page.
    pub(super) fn into_string(self) -> String {
        let series = series::json(self.charts);
        let (lead, others) = self.charts.split_at(self.charts.len().min(1));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content=(GENERATOR);
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        h1 { (self.title) }
                        (self.verdict)
                        @for chart in lead { (figure(chart)) }
                        (self.facts)
                        (self.body)
                        @if !others.is_empty() {
                            section {
                                h2 { "Charts" }
                                @for chart in others { (figure(chart)) }
                            }
                        }
                        (self.details)
                        footer { (self.provenance) }
                        (glossary(self.words))
                    }
                    @if !series.is_empty() {
                        script type="application/json" id="series" { (PreEscaped(series)) }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }
}

/// The verdict on the result, in one paragraph.
pub(super) fn verdict(sentences: &[String]) -> Markup {
    html! { p.verdict { (verdict::paragraph(sentences)) } }
}

/// A chart in both widths; the script fills in the read-out.
fn figure(chart: &Chart) -> Markup {
    html! {
        figure id=(chart.name) {
            (PreEscaped(&chart.svg))
            (PreEscaped(&chart.narrow_svg))
            figcaption { (chart.caption) }
        }
    }
}

/// How, when and where a result was made. `name` is `A` or `B`, or empty.
pub(super) fn provenance(name: &str, run: &Run) -> Markup {
    const LONGEST: usize = 300;
    let machine = &run.machine;
    let (command, whole) = (verdict::command_line(&run.command, LONGEST), run.command.join(" "));
    html! {
        p.provenance {
            @if !name.is_empty() { b { (name) } " " }
            code title=[(command != whole).then_some(&whole)] { (command) }
            br;
            "took " (number::duration(run.wall_ns))
            @if let Some(ratio) = run.simulated_per_wall_ratio { ", " (number::times(ratio)) " × real time" }
            @if let Some(rate) = run.commands_per_s { ", " (number::round_count(rate.round())) " commands/s" }
            " · " (machine.cpu) ", " (machine.cores) " cores, " (number::bytes(machine.memory_bytes))
            " · " (machine.kernel) " · sakiyomi " (run.build())
        }
    }
}

fn glossary(words: &[(&str, &str)]) -> Markup {
    html! {
        section.glossary {
            h2 { "What the words mean" }
            dl {
                @for (word, meaning) in words {
                    div { dt { (word) } dd { (meaning) } }
                }
            }
        }
    }
}
