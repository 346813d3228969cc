//! The points of an experiment as a table and in sentences: shared by the page and the terminal text.

use super::points::Keys;
use super::{ScenarioPoint, ScenarioProcess, ScenarioResult, job, regulation};
use crate::number::{duration, percent, signed_percent};
use crate::rows::Rows;
use crate::section::Table;
use crate::value::Value;

/// Meaning of the columns.
const LEGEND: &str = "Waits: for data to read, and for space to write. Hidden: reads that proceeded \
    while the program did something else. Wasted: prefetched and evicted \
    before use. Faster: time without over time with prefetching, minus 1.";

/// Returns whether there are only jobs.
pub(super) fn is_of_jobs_alone(result: &ScenarioResult) -> bool {
    job::has_jobs(result) && result.points.iter().all(|point| point.processes.is_empty())
}

/// Returns a table with one row for each point, and for each program if there are several.
pub(super) fn table(result: &ScenarioResult) -> Table {
    if regulation::is_regulated(result) {
        return regulation::table(result);
    }
    let any = |is: fn(&ScenarioPoint) -> bool| result.points.iter().any(is);
    let items = result.points.iter().flat_map(|point| {
        let programs = point.processes.iter().enumerate();
        programs.map(move |(index, program)| Item { point, is_first: index == 0, program })
    });
    let rows = Rows::new("points", "All points", items);
    let wasted = |bytes: u64| Value::known((bytes > 0).then_some(bytes), Value::Size);
    Keys::of(result)
        .onto(rows, |item| (item.point, item.is_first))
        .when(any(|point| point.processes.len() > 1), |rows| {
            rows.text("program", |item| item.program.name.as_str())
        })
        .figure("time", |item| Value::Time(item.program.elapsed_ns))
        .figure("computes", |item| Value::Time(item.program.computing_ns))
        .figure("waits", |item| Value::Time(item.program.io_wait_ns()))
        .figure("hidden", |item| Value::Time(item.program.hidden_ns))
        .figure("wasted", |item| wasted(item.program.wasted_bytes))
        .when(any(|point| point.limit != "off"), |rows| {
            let speedup = |point: &ScenarioPoint| (point.limit != "off").then_some(point.speedup_ratio);
            rows.figure("faster", move |item| Value::known(item.first().and_then(speedup), Value::Change))
        })
        .when(any(|point| point.published_elapsed_ns.is_some()), |rows| {
            rows.figure("published", |item| item.first().map_or(Value::Nothing, ScenarioPoint::published))
                .figure("off by", |item| item.first().map_or(Value::Nothing, ScenarioPoint::off_by))
                .figure("publ. faster", |item| {
                    let published = item.first().and_then(|point| point.published_speedup_ratio);
                    Value::known(published, Value::Change)
                })
        })
        .legend(LEGEND)
        .table()
}

/// A program at a point.
struct Item<'a> {
    point: &'a ScenarioPoint,
    is_first: bool,
    program: &'a ScenarioProcess,
}

impl<'a> Item<'a> {
    /// Returns the point, only in its first row.
    fn first(&self) -> Option<&'a ScenarioPoint> {
        self.is_first.then_some(self.point)
    }
}

impl ScenarioPoint {
    /// Returns the published time.
    pub(super) fn published(&self) -> Value {
        Value::known(self.published_elapsed_ns, Value::Time)
    }

    /// Returns the relative difference of the time from the published one.
    pub(super) fn off_by(&self) -> Value {
        let off_by = |published: u64| self.elapsed_ns as f64 / published.max(1) as f64 - 1.0;
        Value::known(self.published_elapsed_ns.map(off_by), Value::Change)
    }
}

/// Returns the findings of an experiment.
pub(super) fn verdict(result: &ScenarioResult) -> Vec<String> {
    let Some(last) = result.points.last() else { return vec!["Nothing was run.".to_owned()] };
    if regulation::is_regulated(result) {
        return regulation::verdict(result);
    }
    let mut sentences = job::verdict(result);
    if result.points.len() == 1 {
        sentences.extend(last.processes.iter().map(|process| about(process, last)));
    }
    let ahead = || result.points.iter().filter(|point| point.limit != "off");
    let best = ahead().max_by(|a, b| a.speedup_ratio.total_cmp(&b.speedup_ratio));
    let worst = ahead().min_by(|a, b| a.speedup_ratio.total_cmp(&b.speedup_ratio));
    if let (Some(best), Some(worst), true) = (best, worst, result.points.len() > 1) {
        let named =
            |point: &ScenarioPoint| format!("{} ({})", faster(point.speedup_ratio), point.values.join(", "));
        sentences.push(format!(
            "With prefetching the programs are {} at best, {} at worst.",
            named(best),
            named(worst)
        ));
    }
    sentences.extend(published(result));
    sentences
}

/// Describes a ratio: `37.3 % faster`, `5.5 % slower`.
fn faster(ratio: f64) -> String {
    format!("{} {}", percent(ratio.abs()), if ratio < 0.0 { "slower" } else { "faster" })
}

/// Describes the time of a program, and the effect of prefetching, in a sentence.
fn about(process: &ScenarioProcess, point: &ScenarioPoint) -> String {
    let share = |ns: u64| percent(ns as f64 / process.elapsed_ns.max(1) as f64);
    let mut text = format!(
        "{} takes {}: it computes {} of the time and waits for I/O {}",
        process.name,
        duration(process.elapsed_ns),
        share(process.computing_ns),
        share(process.io_wait_ns())
    );
    if point.limit != "off" {
        text.push_str(&format!(
            "; the prefetcher ({}) makes it {}",
            process.prefetcher,
            faster(point.speedup_ratio)
        ));
    }
    text.push('.');
    text
}

/// Describes the difference of the simulated speed-ups from the published ones.
fn published(result: &ScenarioResult) -> Option<String> {
    let pairs: Vec<(f64, f64)> = result
        .points
        .iter()
        .filter(|point| point.limit != "off")
        .filter_map(|point| Some((point.speedup_ratio, point.published_speedup_ratio?)))
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    Some(format!(
        "Over the {} points with a published speed-up it is {} on average, and {} was published.",
        pairs.len(),
        signed_percent(mean(|pair| pair.0)),
        signed_percent(mean(|pair| pair.1))
    ))
}
