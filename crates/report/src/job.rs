//! Jobs of tasks in an experiment, in rows and columns and in words.

use crate::number::{NONE, bytes, duration, percent, signed_percent};
use crate::points::{Keys, Points};
use crate::schema::{ScenarioJob, ScenarioJobRun, ScenarioPoint, ScenarioResult};

/// What the columns mean.
pub(crate) const LEGEND: &str = "Best: the longer of the time in which the drive was read and of computing on all threads; no order of tasks makes it \
     shorter. Computes, waits: of all threads together. Fetched: what was asked of the drive.";

/// Published times that are no further apart say nothing about which method is the faster.
const ALIKE: f64 = 0.05;

/// Whether there are any.
pub(crate) fn has_jobs(result: &ScenarioResult) -> bool {
    result.points.iter().any(|point| !point.jobs.is_empty())
}

/// One row for each run of each job at each point; none without jobs.
pub(crate) fn table(result: &ScenarioResult) -> Option<Points> {
    if !has_jobs(result) {
        return None;
    }
    let jobs = || result.points.iter().flat_map(|point| &point.jobs);
    let has_names = result.points.iter().any(|point| point.jobs.len() > 1);
    let has_runs = jobs().any(|job| job.runs.len() > 1);
    let has_published = result.points.iter().any(|point| point.published_elapsed_ns.is_some());
    let keys = Keys::of(result);
    let mut header = keys.header();
    header.extend(has_names.then(|| "job".to_owned()));
    header.extend(has_runs.then(|| "run".to_owned()));
    let text_columns = header.len();
    header.extend(["time", "best", "computes", "waits", "fetched"].map(str::to_owned));
    if has_published {
        header.extend(["published", "off by"].map(str::to_owned));
    }
    let rows = result.points.iter().flat_map(|point| {
        let all = point
            .jobs
            .iter()
            .flat_map(|job| job.runs.iter().enumerate().map(move |(number, run)| (job, number, run)));
        all.enumerate().map(move |(row, (job, number, run))| {
            let mut cells = keys.cells(point, row == 0);
            cells.extend(has_names.then(|| job.name.clone()));
            cells.extend(has_runs.then(|| (number + 1).to_string()));
            cells.extend(figures(job, run));
            if has_published {
                cells.extend(published(point, row == 0));
            }
            cells
        })
    });
    Some(Points { rows: rows.collect(), header, text_columns })
}

fn figures(job: &ScenarioJob, run: &ScenarioJobRun) -> [String; 5] {
    let spans = [run.elapsed_ns, run.bound_ns(job.threads), run.computing_ns, run.io_wait_ns];
    let [elapsed, bound, computed, waited] = spans.map(duration);
    [elapsed, bound, computed, waited, bytes(run.fetched_bytes)]
}

fn published(point: &ScenarioPoint, is_first: bool) -> [String; 2] {
    let Some(published) = point.published_elapsed_ns.filter(|_| is_first) else {
        return [NONE.to_owned(), NONE.to_owned()];
    };
    let off_by = point.elapsed_ns as f64 / published.max(1) as f64 - 1.0;
    [duration(published), signed_percent(off_by)]
}

/// What the experiment says about them.
pub(crate) fn verdict(result: &ScenarioResult) -> Vec<String> {
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

/// What is gained by running it again.
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

/// How long they take at best and at worst.
fn extremes(result: &ScenarioResult) -> Option<String> {
    let points = || result.points.iter().filter(|point| !point.jobs.is_empty());
    let best = points().min_by_key(|point| point.elapsed_ns)?;
    let worst = points().max_by_key(|point| point.elapsed_ns)?;
    let named =
        |point: &ScenarioPoint| format!("{} ({})", duration(point.elapsed_ns), point.values.join(", "));
    Some(format!("It takes {} at best, {} at worst.", named(best), named(worst)))
}

/// What one job did with its time.
fn about(job: &ScenarioJob) -> String {
    let runs = job.runs.iter().map(|run| {
        let bound = run.bound_ns(job.threads).max(1);
        format!("{}, {:.2} × the best", duration(run.elapsed_ns), run.elapsed_ns as f64 / bound as f64)
    });
    let runs: Vec<String> = runs.collect();
    format!("{} ({}, {} threads) takes {}.", job.name, job.method, job.threads, runs.join("; then "))
}

/// How often one method is faster than another where it was published to be.
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
            if slow as f64 <= fast as f64 * (1.0 + ALIKE) {
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
