//! Jobs of varied kinds that are predicted and run end to end, to which corrections of predictions are fitted.
//!
//! Their tables are generated; no tested table, key or limit is among them. They run several times in turns on each device,
//! the second time by another engine, in directories on devices that `probe` has measured. Corrections are fitted to the jobs
//! of each device, and to all jobs for the other devices. All files are removed at the end.

mod cases;
mod tables;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sakiyomi_io::Access;
use sakiyomi_io::file::{create_unnamed, lies_in_memory};
use sakiyomi_os::{allocator, cpu};
use sakiyomi_probe::calibration::DeviceCosts;

use self::cases::{CASES, Case, Threads};
use self::tables::Source;
use super::measure::Effort;
use crate::cost::correction::{Corrections, DeviceCorrections, ObservedJob};
use crate::cost::{Analysis, Choice, Limits, Measured, Model, OperatorCosts, Plan, Storage, Task};
use crate::output::Target;
use crate::statement::{Calibrated, Destination, Statement};
use crate::table::{OpenOptions, Table, cached_ratio};
use crate::{Error, Job, JobOptions};

/// A directory for the files of the jobs, with the costs of its device.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// The costs of its device.
    pub device: &'a DeviceCosts,
}

/// Runs of each job on each device, in turns: the second one by another engine.
const JOB_RUNS: usize = 2;
/// Memory limit of the generator of tables, in bytes.
const GENERATOR_BYTES: usize = 256 << 20;
/// Name of the step that generates the tables.
const GENERATION: &str = "tables of jobs";

/// Returns the names of the steps in the order of measurement, for a progress display.
pub(super) fn steps(sites: usize) -> Vec<&'static str> {
    let runs = (0..JOB_RUNS * sites).flat_map(|_| CASES.iter().map(|case| case.name));
    if sites == 0 { Vec::new() } else { [GENERATION].into_iter().chain(runs).collect() }
}

/// Runs the jobs, and sets the corrections of the costs that are fitted to them. Calls `begin` with each of [`steps`] before
/// it.
///
/// # Errors
/// Returns the errors of `begin`, of the files and of the jobs. A job that the devices' calibrations cannot predict is left out.
pub(super) fn measure(
    effort: Effort,
    operators: &mut OperatorCosts,
    sites: &[Site<'_>],
    begin: &mut dyn FnMut(&'static str) -> Result<(), Error>,
) -> Result<(), Error> {
    if sites.is_empty() {
        return Ok(());
    }
    begin(GENERATION)?;
    let places: Vec<Place<'_>> =
        sites.iter().map(|&site| Place::create(site, effort)).collect::<Result<_, _>>()?;
    let mut runs: Vec<Vec<Run<'_>>> = places.iter().map(|_| Vec::new()).collect();
    for round in 0..JOB_RUNS {
        for (place, runs) in places.iter().zip(&mut runs) {
            for case in &CASES {
                begin(case.name)?;
                runs.extend(place.run(case, operators, round)?);
            }
        }
    }
    let fitted = |runs: &[&Run<'_>]| {
        Corrections::fitted(|corrections| {
            let operators = OperatorCosts { corrections: corrections.clone(), ..operators.clone() };
            runs.iter().filter_map(|run| run.observed(&operators)).collect()
        })
    };
    let all = fitted(&runs.iter().flatten().collect::<Vec<_>>());
    let of_device = |(place, runs): (&Place<'_>, &Vec<Run<'_>>)| DeviceCorrections {
        device: place.site.device.device.clone(),
        corrections: fitted(&runs.iter().collect::<Vec<_>>()),
    };
    let of_devices = places.iter().zip(&runs).map(of_device).collect();
    (operators.corrections, operators.device_corrections) = (all, of_devices);
    Ok(())
}

/// The files of the jobs in a directory of their own, which is removed when it is dropped.
struct Place<'a> {
    site: Site<'a>,
    files: PathBuf,
    /// Whether the directory lies in memory (tmpfs), so that spilled rows count against the memory limit.
    is_in_memory: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

impl<'a> Place<'a> {
    fn create(site: Site<'a>, effort: Effort) -> Result<Place<'a>, Error> {
        let files = created(site.directory).map_err(|source| {
            Error::Query(format!(
                "{}: cannot make a directory for the jobs of the calibration: {source}; name another directory",
                site.directory.display()
            ))
        })?;
        let is_in_memory = create_unnamed(&files, Access::Buffered).is_ok_and(|file| lies_in_memory(&file));
        let place = Place { site, files, is_in_memory };
        let job = Job::new(place.options(GENERATOR_BYTES, 1))?;
        for source in Source::ALL {
            source.write(&job, &place.files, effort)?;
        }
        Ok(place)
    }

    fn options(&self, memory: usize, threads: usize) -> JobOptions {
        JobOptions { memory, threads, spill: vec![self.files.clone()], ..JobOptions::default() }
    }

    /// Returns the devices of a job with some tables.
    fn storage(&self, tables: usize) -> Storage<'a> {
        Storage::one(self.site.device, tables)
    }

    /// Predicts and runs a job; `None` if it cannot be predicted or run.
    fn run(&self, case: &Case, operators: &OperatorCosts, round: usize) -> Result<Option<Run<'a>>, Error> {
        let threads = JobOptions::default().threads;
        let options = self.options(case.memory, if case.threads == Threads::One { 1 } else { threads });
        let paths: Vec<PathBuf> = case.sources.iter().map(|source| source.path(&self.files)).collect();
        let result = self.files.join("result");
        let target = Target::File(result.clone());
        let destination = Destination::File { target, options: case.output_options() };
        let storage = self.storage(paths.len());
        let job = Job::new(options.clone())?;
        let buffers = job.io().pool().budget() as u64;
        let heap = (options.memory as u64).saturating_sub(buffers);
        let limits = Limits::new(buffers, heap, options.threads, threads);
        let calibrated = Calibrated {
            storage: storage.clone(),
            operators,
            cached_ratios: paths.iter().map(|path| cached_ratio(std::slice::from_ref(path))).collect(),
            limits: limits.clone(),
        };
        let statement = statement(case, &paths, &OpenOptions::default())?;
        let explained = match statement.explain(&job, &destination, calibrated) {
            Err(Error::Cost(_)) => return Ok(None),
            explained => explained?,
        };
        drop(job);
        let Some(plan) = chosen(case, &explained.choice, round) else { return Ok(None) };
        // Memory that planning has freed would be reused by the job.
        allocator::trim();
        let measured = match measured(case, &paths, &plan, &options, &destination) {
            // The plan needs more memory than predicted; rows spilled into memory are the file system's error.
            Err(Error::Memory { .. }) => return Ok(None),
            Err(Error::Io(_)) if self.is_in_memory => return Ok(None),
            measured => measured?,
        };
        let _ = fs::remove_file(&result);
        Ok(Some(Run { task: explained.task, plan, storage, limits, measured }))
    }
}

/// Makes a directory that did not exist.
fn created(parent: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let path = parent.join(format!("sakiyomi-calibrate-{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| path),
        }
    }
}

fn statement(case: &Case, paths: &[PathBuf], options: &OpenOptions) -> Result<Statement, Error> {
    let open = |path: &PathBuf| Table::open(std::slice::from_ref(path), options);
    let tables = paths.iter().map(open).collect::<Result<_, _>>()?;
    Ok(case.work.statement(tables).expect("a case has the tables of its work"))
}

/// Returns the plan of a run: the best of the case's algorithm, in later rounds by an engine of another kind.
fn chosen(case: &Case, choice: &Choice, round: usize) -> Option<Plan> {
    let rejected = || choice.rejected.iter().map(|rejected| &rejected.plan);
    let best = std::iter::once(&choice.plan).chain(rejected());
    let best = best.into_iter().find(|plan| case.work.is_done_by(plan.algorithm))?;
    let is_other = |plan: &&Plan| plan.algorithm == best.algorithm && plan.engine.kind != best.engine.kind;
    let other = rejected().find(is_other).filter(|_| !round.is_multiple_of(JOB_RUNS));
    Some(other.unwrap_or(best).clone())
}

/// Runs a plan and measures it.
fn measured(
    case: &Case,
    paths: &[PathBuf],
    plan: &Plan,
    options: &JobOptions,
    destination: &Destination,
) -> Result<Measured, Error> {
    let (begun, before) = (Instant::now(), cpu::user_and_system_of_this_process());
    let job = Job::new(plan.job_options(options))?;
    let opened = OpenOptions { access: plan.access(), ..OpenOptions::default() };
    statement(case, paths, &opened)?.run(&job, destination, Some(plan))?;
    let (elapsed, after) = (begun.elapsed(), cpu::user_and_system_of_this_process());
    let ns = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Ok(Measured {
        phases: job.phases().list(),
        elapsed_ns: ns(elapsed),
        user_ns: ns(after.0.saturating_sub(before.0)),
        system_ns: ns(after.1.saturating_sub(before.1)),
        threads: plan.threads,
    })
}

/// A job that was run.
struct Run<'a> {
    task: Task,
    plan: Plan,
    storage: Storage<'a>,
    limits: Limits,
    measured: Measured,
}

impl Run<'_> {
    /// Its times beside those that some costs predict.
    fn observed(&self, operators: &OperatorCosts) -> Option<ObservedJob> {
        let model = Model { storage: self.storage.clone(), operators, limits: self.limits.clone() };
        let prediction = model.predict(&self.task, &self.plan).ok()?;
        Some(Analysis::new(&prediction, self.measured.clone()).observed(&prediction))
    }
}

#[cfg(test)]
mod tests;
