//! The frame of every page, and the parts that pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::Chart;
use crate::label::GLOSSARY;
use crate::number;
use crate::schema::Run;
use crate::verdict;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A whole page. `series` is JSON for the script, already safe inside a `script` element; empty for none.
pub(super) fn page(title: &str, verdict: &[String], body: Markup, series: &str) -> String {
    page_with_words(title, self::verdict(verdict), body, series, &GLOSSARY)
}

/// What the result says, in one paragraph.
pub(super) fn verdict(sentences: &[String]) -> Markup {
    html! { p.verdict { (verdict::paragraph(sentences)) } }
}

/// A whole page that explains words of its own.
pub(super) fn page_with_words(
    title: &str,
    verdict: Markup,
    body: Markup,
    series: &str,
    words: &[(&str, &str)],
) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (verdict)
                    (body)
                    (glossary(words))
                }
                @if !series.is_empty() {
                    script type="application/json" id="series" { (PreEscaped(series)) }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
    };
    page.into_string()
}

/// The charts, one under the other; the script fills in the read-outs.
pub(super) fn charts(charts: &[Chart]) -> Markup {
    html! {
        @if !charts.is_empty() {
            section.charts {
                h2 { "Charts" }
                @for chart in charts {
                    figure id=(chart.name) {
                        (PreEscaped(&chart.svg))
                        @if chart.time.is_some() { div.readout {} }
                        figcaption { (chart.caption) }
                    }
                }
            }
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
