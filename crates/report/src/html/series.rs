//! The numbers behind the charts over time, for the page's script.

use serde::Serialize;

use crate::chart::{BELOW, Chart, LEFT, RIGHT, Side, TOP, TimeChart, TimeRange, WIDTH};

/// What the script is given.
#[derive(Serialize)]
struct Series<'a> {
    /// Where the plots lie in the pictures.
    width: u32,
    left: u32,
    right: u32,
    top: u32,
    below: u32,
    #[serde(flatten)]
    range: TimeRange,
    runs: Vec<Spans>,
    charts: Vec<&'a TimeChart>,
}

/// The chunks of a run.
#[derive(Serialize)]
struct Spans {
    name: &'static str,
    start_ns: Vec<u64>,
    end_ns: Vec<u64>,
}

/// The series as JSON that is safe inside a `script` element: no `<` is left that could end it.
pub(super) fn json(sides: &[Side<'_>], charts: &[Chart]) -> String {
    let series = Series {
        width: WIDTH,
        left: LEFT,
        right: RIGHT,
        top: TOP,
        below: BELOW,
        range: TimeRange::of(sides),
        runs: sides.iter().map(spans).collect(),
        charts: charts.iter().filter_map(|chart| chart.time.as_ref()).collect(),
    };
    let json = serde_json::to_string(&series).expect("numbers and strings can always be written");
    json.replace('<', "\\u003c")
}

fn spans(side: &Side<'_>) -> Spans {
    let chunks = &side.result.chunks;
    Spans {
        name: side.name,
        start_ns: chunks.iter().map(|chunk| chunk.start_ns).collect(),
        end_ns: chunks.iter().map(|chunk| chunk.end_ns).collect(),
    }
}
