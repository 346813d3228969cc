//! The data of the charts over time, for the page's script.

use serde::Serialize;

use crate::chart::{Chart, Panel, TimeChart};

/// The input of the script.
#[derive(Serialize)]
struct Series<'a> {
    /// The distinct lists of spans.
    spans: Vec<Spans>,
    charts: Vec<OverSpans<'a>>,
}

/// Start and end, value by value.
#[derive(PartialEq, Eq, Serialize)]
struct Spans {
    start_ns: Vec<u64>,
    end_ns: Vec<u64>,
}

impl Spans {
    fn of(panel: &Panel) -> Spans {
        let (start_ns, end_ns) = panel.spans().iter().copied().unzip();
        Spans { start_ns, end_ns }
    }
}

/// A chart, and for each of its panels the index of its spans.
#[derive(Serialize)]
struct OverSpans<'a> {
    #[serde(flatten)]
    chart: &'a TimeChart,
    spans: Vec<usize>,
}

/// Returns the series as JSON that is safe inside a `script` element: it contains no `<` that could end the element.
/// Empty without charts over time.
pub(super) fn json(charts: &[Chart]) -> String {
    let mut spans: Vec<Spans> = Vec::new();
    let mut number = |panel: &Panel| {
        let wanted = Spans::of(panel);
        spans.iter().position(|known| *known == wanted).unwrap_or_else(|| {
            spans.push(wanted);
            spans.len() - 1
        })
    };
    let charts: Vec<OverSpans<'_>> = charts
        .iter()
        .filter_map(|chart| chart.time.as_ref())
        .map(|chart| OverSpans { chart, spans: chart.panels().iter().map(&mut number).collect() })
        .collect();
    if charts.is_empty() {
        return String::new();
    }
    let json = serde_json::to_string(&Series { spans, charts });
    json.expect("numbers and strings can always be written").replace('<', "\\u003c")
}
