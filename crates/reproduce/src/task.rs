//! A simulation, and the metrics that it gives.

use sakiyomi_drive::spec::builtin;
use sakiyomi_scenario::{Outcome, Scenario, run};

use crate::metrics::{Metrics, TaskError};
use crate::paper::Paper;
use crate::stream;
use crate::workload::Workload;

/// Between a point's name and the seed, in a key.
pub(crate) const SEED_MARK: char = '#';

/// A simulation.
#[derive(Clone, Debug)]
pub struct Task {
    key: String,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Scenario(Box<Scenario>, u32),
    Cache(Workload),
    Stream(u64),
}

impl Task {
    /// Repetition number `repetition` of a scenario.
    pub(crate) fn scenario(point: &str, scenario: Scenario, repetition: u32) -> Task {
        Task { key: key(point, repetition), work: Work::Scenario(Box::new(scenario), repetition) }
    }

    /// Returns a workload on a drive with a cache.
    pub(crate) fn cache(point: &str, workload: Workload) -> Task {
        Task { key: key(point, workload.seed as u32), work: Work::Cache(workload) }
    }

    /// A stream whose rate changes.
    pub(crate) fn stream(point: &str, seed: u32) -> Task {
        Task { key: key(point, seed), work: Work::Stream(u64::from(seed)) }
    }

    /// Its name, unique among the tasks of all papers: paper, experiment, values, and the seed.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Runs the simulation. The same task gives the same metrics.
    ///
    /// # Errors
    /// [`TaskError`] if the definition is not valid.
    pub fn run(&self) -> Result<Metrics, TaskError> {
        match &self.work {
            Work::Scenario(scenario, repetition) => {
                let drive = scenario.drive.model.as_ref().map(|name| builtin(name)).transpose()?;
                let spec = drive.map(|drive| drive.spec());
                Ok(metrics(&run(scenario, spec.as_ref(), *repetition)?))
            }
            Work::Cache(workload) => workload.run(),
            Work::Stream(seed) => stream::run(*seed),
        }
    }
}

/// Returns the name of a point's task. Seeds have a fixed width, so that keys are in their order.
pub(crate) fn key(point: &str, seed: u32) -> String {
    format!("{point}{SEED_MARK}{seed:04}")
}

/// Returns the name of a point: paper, experiment, and the values of what is varied.
pub(crate) fn point<'a>(paper: Paper, experiment: &str, values: impl IntoIterator<Item = &'a str>) -> String {
    let mut name = format!("{}/{experiment}", paper.id());
    for value in values {
        name.push('/');
        name.push_str(value);
    }
    name
}

fn metrics(outcome: &Outcome) -> Metrics {
    let mut metrics = Metrics::from([("elapsed_s".to_owned(), outcome.elapsed.as_secs_f64())]);
    if let Some(process) = outcome.processes.first() {
        let elapsed_s = process.elapsed.as_secs_f64();
        let megabytes = process.read_bytes as f64 / 1e6;
        metrics.insert("megabytes_per_s".to_owned(), megabytes / elapsed_s);
        metrics.insert("cpu_percent".to_owned(), 100.0 * process.ran.as_secs_f64() / elapsed_s);
    }
    if let Some([first, second]) = outcome.jobs.first().map(|job| &job.runs[..]) {
        let ratio = second.elapsed.as_secs_f64() / first.elapsed.as_secs_f64();
        metrics.insert("second_over_first".to_owned(), ratio);
    }
    let Some(regulation) = &outcome.regulation else { return metrics };
    let figures = [
        ("ios_per_s", Some(regulation.iops)),
        ("formula", Some(f64::from(regulation.formula))),
        ("reached", Some(f64::from(regulation.allowance.reached))),
        ("settled_ios", Some(regulation.allowance.settled as f64)),
        ("accuracy", regulation.owners.first().map(|owner| owner.accuracy)),
    ];
    metrics.extend(figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    metrics
}
