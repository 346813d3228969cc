//! Jobs of tasks in an experiment in virtual time.

use serde::{Deserialize, Serialize};

use super::points::Keys;
use super::{ScenarioPoint, ScenarioResult};
use crate::number::{duration, percent};
use crate::rows::Rows;
use crate::section::Table;
use crate::value::Value;

/// The result of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioJob {
    /// Its name.
    pub name: String,
    /// The method by which the blocks of its file were read.
    pub method: String,
    /// Compute threads.
    pub threads: u64,
    /// Its runs, in their order.
    pub runs: Vec<ScenarioJobRun>,
}

/// One run of a job. Times are sums over threads: they may exceed the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioJobRun {
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of computation in nanoseconds.
    pub computing_ns: u64,
    /// CPU time of copies from the page cache in nanoseconds.
    pub copied_ns: u64,
    /// CPU time in nanoseconds of hops between cores, and of wake-ups; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops_ns: Option<u64>,
    /// Time in nanoseconds for which threads were ready to run and shared a core.
    pub queued_ns: u64,
    /// Time in nanoseconds for which threads waited for pages that they read or touched.
    pub io_wait_ns: u64,
    /// Time in nanoseconds for which compute threads had no task.
    pub idle_ns: u64,
    /// Time in nanoseconds for which reads of its file were outstanding.
    pub reading_ns: u64,
    /// Bytes read into buffers.
    pub read_bytes: u64,
    /// Bytes computed on.
    pub computed_bytes: u64,
    /// Bytes requested from the drive.
    pub fetched_bytes: u64,
}

impl ScenarioJobRun {
    /// Returns a lower bound of the elapsed time in nanoseconds: the longer of reading, and computing on `threads`
    /// threads.
    #[must_use]
    pub fn bound_ns(&self, threads: u64) -> u64 {
        self.reading_ns.max(self.computing_ns / threads.max(1))
    }
}

/// Meaning of the columns.
const LEGEND: &str = "Best: the longer of the drive's read time and the compute time over all threads; \
     no order of tasks is faster. Computes, waits: sums over all threads. Fetched: bytes requested from \
     the drive.";

/// Relative difference of two published times up to which neither method counts as faster.
const TIMES_ALIKE_RATIO: f64 = 0.05;

/// Returns whether there are any jobs.
pub(super) fn has_jobs(result: &ScenarioResult) -> bool {
    result.points.iter().any(|point| !point.jobs.is_empty())
}

/// Returns a table with one row for each run of each job at each point; `None` without jobs.
pub(super) fn table(result: &ScenarioResult) -> Option<Table> {
    if !has_jobs(result) {
        return None;
    }
    let any = |is: fn(&ScenarioPoint) -> bool| result.points.iter().any(is);
    let items = result.points.iter().flat_map(|point| {
        let runs = |job| job_runs(job).map(move |(number, run)| (job, number, run));
        let runs = point.jobs.iter().flat_map(runs).enumerate();
        runs.map(move |(row, (job, number, run))| Item {
            first: (row == 0).then_some(point),
            point,
            job,
            number,
            run,
        })
    });
    let table = Keys::of(result)
        .onto(Rows::new("jobs", "Jobs", items), |item| (item.point, item.first.is_some()))
        .when(any(|point| point.jobs.len() > 1), |rows| rows.text("job", |item| item.job.name.as_str()))
        .when(any(|point| point.jobs.iter().any(|job| job.runs.len() > 1)), |rows| {
            rows.text("run", |item| (item.number + 1).to_string())
        })
        .figure("time", |item| Value::Time(item.run.elapsed_ns))
        .figure("best", |item| Value::Time(item.run.bound_ns(item.job.threads)))
        .figure("computes", |item| Value::Time(item.run.computing_ns))
        .figure("waits", |item| Value::Time(item.run.io_wait_ns))
        .figure("fetched", |item| Value::Size(item.run.fetched_bytes))
        .when(any(|point| point.published_elapsed_ns.is_some()), |rows| {
            rows.figure("published", |item| item.first.map_or(Value::Nothing, ScenarioPoint::published))
                .figure("off by", |item| item.first.map_or(Value::Nothing, ScenarioPoint::off_by))
        })
        .legend(LEGEND)
        .table();
    Some(table)
}

fn job_runs(job: &ScenarioJob) -> impl Iterator<Item = (usize, &ScenarioJobRun)> {
    job.runs.iter().enumerate()
}

/// A run of a job at a point.
struct Item<'a> {
    point: &'a ScenarioPoint,
    /// The point; only in its first row.
    first: Option<&'a ScenarioPoint>,
    job: &'a ScenarioJob,
    number: usize,
    run: &'a ScenarioJobRun,
}

/// Returns the findings of an experiment about its jobs.
pub(super) fn verdict(result: &ScenarioResult) -> Vec<String> {
    let Some(last) = result.points.last() else { return Vec::new() };
    let mut sentences: Vec<String> = order(result).into_iter().chain(later_runs(result)).collect();
    if result.points.len() == 1 {
        sentences.extend(last.jobs.iter().map(about));
    }
    if sentences.is_empty() {
        sentences.extend(extremes(result));
    }
    sentences
}

/// Describes the gain of running a job again.
fn later_runs(result: &ScenarioResult) -> Option<String> {
    let shares = result.points.iter().flat_map(|point| {
        point.jobs.iter().filter_map(move |job| {
            let (first, last) = (job.runs.first()?, job.runs.last()?);
            (job.runs.len() > 1).then(|| (last.elapsed_ns as f64 / first.elapsed_ns.max(1) as f64, point))
        })
    });
    let shares: Vec<(f64, &ScenarioPoint)> = shares.collect();
    let best = shares.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let worst = shares.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let named = |(share, point): &(f64, &ScenarioPoint)| match point.values.join(", ") {
        values if values.is_empty() => percent(*share),
        values => format!("{} ({values})", percent(*share)),
    };
    Some(match shares.len() {
        1 => format!("The last run takes {} of the first.", named(best)),
        _ => format!("The last run takes {} of the first at best, {} at worst.", named(best), named(worst)),
    })
}

/// Describes the shortest and the longest elapsed time.
fn extremes(result: &ScenarioResult) -> Option<String> {
    let points = || result.points.iter().filter(|point| !point.jobs.is_empty());
    let best = points().min_by_key(|point| point.elapsed_ns)?;
    let worst = points().max_by_key(|point| point.elapsed_ns)?;
    let named =
        |point: &ScenarioPoint| format!("{} ({})", duration(point.elapsed_ns), point.values.join(", "));
    Some(format!("It takes {} at best, {} at worst.", named(best), named(worst)))
}

/// Describes the time of one job in a sentence.
fn about(job: &ScenarioJob) -> String {
    let runs = job.runs.iter().map(|run| {
        let bound = run.bound_ns(job.threads).max(1);
        format!("{}, {:.2} × the best", duration(run.elapsed_ns), run.elapsed_ns as f64 / bound as f64)
    });
    let runs: Vec<String> = runs.collect();
    format!("{} ({}, {} threads) takes {}.", job.name, job.method, job.threads, runs.join("; then "))
}

/// Describes how often one method is faster than another in agreement with the published times.
fn order(result: &ScenarioResult) -> Option<String> {
    let method = result.varied.iter().position(|key| key.ends_with(".method"))?;
    let rest = |point: &ScenarioPoint| {
        let values = point.values.iter().enumerate().filter(|&(index, _)| index != method);
        values.map(|(_, value)| value.clone()).collect::<Vec<String>>()
    };
    let (mut pairs, mut alike, mut wrong) = (0, 0, Vec::new());
    for (index, a) in result.points.iter().enumerate() {
        for b in result.points[index + 1..].iter().filter(|b| rest(b) == rest(a)) {
            let (Some(slow), Some(fast)) = (a.published_elapsed_ns, b.published_elapsed_ns) else { continue };
            let (a, b, slow, fast) = if slow >= fast { (a, b, slow, fast) } else { (b, a, fast, slow) };
            if slow as f64 <= fast as f64 * (1.0 + TIMES_ALIKE_RATIO) {
                alike += 1;
                continue;
            }
            pairs += 1;
            if a.elapsed_ns <= b.elapsed_ns {
                wrong.push(format!("{} before {}", b.values.join(", "), a.values.join(", ")));
            }
        }
    }
    if pairs == 0 {
        return None;
    }
    let right = pairs - wrong.len();
    let pairs_in_words = if pairs == 1 { "1 pair".to_owned() } else { format!("{pairs} pairs") };
    let mut text = format!(
        "Of {pairs_in_words} of methods whose published times differ by more than 5 %, {right} {} out in the published \
         order",
        if right == 1 { "comes" } else { "come" }
    );
    if alike > 0 {
        text.push_str(&format!(" ({alike} more are published as alike)"));
    }
    text.push('.');
    if !wrong.is_empty() && wrong.len() <= 6 {
        text.push_str(&format!(" Not: {}.", wrong.join("; ")));
    }
    Some(text)
}
