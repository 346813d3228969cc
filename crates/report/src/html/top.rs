//! The page of a regulated device that was watched.

use maud::{Markup, html};

use super::page::{self, Page};
use super::table::Table;
use crate::chart;
use crate::number::{NONE, count, duration, percent};
use crate::schema::{Document, IorateOwner, TopResult};
use crate::text::owner_name;
use crate::verdict;

const WORDS: [(&str, &str); 5] = [
    (
        "rate",
        "Percent of the device: an I/O is to take 100/rate times what one takes the device alone; or a time for each I/O.",
    ),
    ("ideal", "The time that an I/O is to take."),
    ("accuracy", "Mean of actual over ideal time of the last I/Os: 1 is exact, and up to 1.1 is good."),
    ("CoV", "Standard deviation of the I/O time over its mean: 0 is constant."),
    ("late", "I/Os that the device had not done in time."),
];

/// The page of `iorate top`'s result.
#[must_use]
pub fn top(document: &Document<TopResult>) -> String {
    let result = &document.result;
    let device = &result.device;
    let page = Page {
        title: &format!("{} under {}", device.name, result.mount),
        verdict: page::verdict(&verdict::top(result)),
        charts: &chart::top(result),
        facts: html! {
            dl.facts {
                div { dt { "Device" } dd { (device.name) } }
                div { dt { "One I/O takes it" } dd { (duration(device.service_ns)) } }
                div { dt { "Policy" } dd { (device.policy) ", allowance " (device.allowance) } }
                @if let Some(bypass) = &device.bypass {
                    div { dt { "Past the mount" } dd { (bypass.device) ", " (percent(bypass.share_ratio)) " of all requests" } }
                }
            }
        },
        body: html! { section { h2 { "Who uses it" } (owners(result)) } },
        provenance: page::provenance("", &document.run),
        words: &WORDS,
        ..Page::default()
    };
    page.into_string()
}

fn owners(result: &TopResult) -> Markup {
    let header = ["who", "rate", "ideal", "mean", "accuracy", "CoV", "I/Os", "late", "unanswered"];
    Table::plain("owners", header, 1, result.owners.iter().map(row)).markup()
}

fn row(owner: &IorateOwner) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let ratio = |ratio: Option<f64>| or_none(ratio.map(|ratio| format!("{ratio:.3}")));
    let rate = owner.rate_percent.map(|percent| format!("{percent} %"));
    vec![
        owner_name(owner),
        or_none(rate.or_else(|| owner.every_ns.map(duration))),
        or_none(owner.ideal_ns.map(duration)),
        or_none(owner.mean_ns.map(duration)),
        ratio(owner.accuracy_ratio),
        ratio(owner.cov_ratio),
        count(owner.ios),
        count(owner.late),
        count(owner.unanswered),
    ]
}
