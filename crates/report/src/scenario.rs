//! The points of an experiment in rows and columns, and in words: what the page and the terminal text have in common.

use crate::job;
use crate::number::{NONE, bytes, duration, percent, signed_percent};
use crate::points::{Keys, Points};
use crate::regulation;
use crate::schema::{ScenarioPoint, ScenarioProcess, ScenarioResult};

/// What the columns of [`Points`] mean.
const LEGEND: &str = "Waits: for what is read, and for room to write. Hidden: reading that went on while \
                                 the program did something else. Wasted: prefetched, and evicted before it was used. \
                                 Faster: the time without prefetching over that with it, less one.";

/// What the columns mean.
pub(crate) fn legend(result: &ScenarioResult) -> String {
    if regulation::is_regulated(result) { regulation::legend(result) } else { LEGEND.to_owned() }
}

/// Whether there are jobs and nothing else.
pub(crate) fn is_of_jobs_alone(result: &ScenarioResult) -> bool {
    job::has_jobs(result) && result.points.iter().all(|point| point.processes.is_empty())
}

/// One row for each point, and for each program where there are several.
pub(crate) fn table(result: &ScenarioResult) -> Points {
    if regulation::is_regulated(result) {
        return regulation::table(result);
    }
    let has_names = result.points.iter().any(|point| point.processes.len() > 1);
    let has_published = result.points.iter().any(|point| point.published_elapsed_ns.is_some());
    let has_speedup = result.points.iter().any(|point| point.limit != "off");
    let keys = Keys::of(result);
    let mut header = keys.header();
    header.extend(has_names.then(|| "program".to_owned()));
    let text_columns = header.len();
    header.extend(["time", "computes", "waits", "hidden", "wasted"].map(str::to_owned));
    header.extend(has_speedup.then(|| "faster".to_owned()));
    if has_published {
        header.extend(["published", "off by", "publ. faster"].map(str::to_owned));
    }
    let rows = result.points.iter().flat_map(|point| {
        let (names, speedup, published) = (has_names, has_speedup, has_published);
        let row = move |(index, process)| row(point, index, process, keys, (names, speedup, published));
        point.processes.iter().enumerate().map(row)
    });
    Points { rows: rows.collect(), header, text_columns }
}

fn row(
    point: &ScenarioPoint,
    index: usize,
    process: &ScenarioProcess,
    keys: Keys<'_>,
    (has_names, has_speedup, has_published): (bool, bool, bool),
) -> Vec<String> {
    let first = index == 0;
    let mut row = keys.cells(point, first);
    row.extend(has_names.then(|| process.name.clone()));
    row.extend([
        duration(process.elapsed_ns),
        duration(process.computing_ns),
        duration(process.io_wait_ns()),
        duration(process.hidden_ns),
        if process.wasted_bytes == 0 { NONE.to_owned() } else { bytes(process.wasted_bytes) },
    ]);
    let change = |ratio: Option<f64>| ratio.filter(|_| first).map_or(NONE.to_owned(), signed_percent);
    if has_speedup {
        row.push(change(Some(point.speedup_ratio).filter(|_| point.limit != "off")));
    }
    if has_published {
        let published = point.published_elapsed_ns.filter(|_| first);
        row.push(published.map_or(NONE.to_owned(), duration));
        row.push(change(published.map(|ns| point.elapsed_ns as f64 / ns.max(1) as f64 - 1.0)));
        row.push(change(point.published_speedup_ratio));
    }
    row
}

/// What an experiment says.
pub(crate) fn verdict(result: &ScenarioResult) -> Vec<String> {
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

/// `37.3 % faster`, `5.5 % slower`.
fn faster(ratio: f64) -> String {
    format!("{} {}", percent(ratio.abs()), if ratio < 0.0 { "slower" } else { "faster" })
}

/// What a program did with its time, and what the prefetcher did about it.
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

/// How far the simulated speed-ups are from the published ones.
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
