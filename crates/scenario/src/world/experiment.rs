//! Execution of an experiment: its programs and jobs as workloads of a world, and the results.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;

use super::workloads::WorkloadState;
use super::{RunError, World};
use crate::cache::FileId;
use crate::job::Job;
use crate::outcome::{Distances, Outcome, ProcessOutcome, WorkloadOutcome};
use crate::program::Program;
use crate::spec::Scenario;
use crate::workload::{Setup, Workload};

/// Runs an experiment on `drive`, the drive that it names, which the caller provides because it may come from a file;
/// `None` for a fixed device. `repetition` counts from 0, and is added to the seed.
///
/// # Errors
/// [`RunError`]: before the run, or if the measured interval is empty.
pub fn run(scenario: &Scenario, drive: Option<&DriveSpec>, repetition: u32) -> Result<Outcome, RunError> {
    run_with(scenario, drive, repetition, Vec::new())
}

/// Runs an experiment with further workloads, which are added after its programs and jobs.
///
/// # Errors
/// Returns the errors of [`run`].
///
/// # Panics
/// If a workload violates the contract of [`Workload`]: an action for a thread that is busy or does not exist, a file
/// or core that does not exist, or nothing to wait for although it has not ended.
pub fn run_with(
    scenario: &Scenario,
    drive: Option<&DriveSpec>,
    repetition: u32,
    others: Vec<(Setup, Box<dyn Workload + '_>)>,
) -> Result<Outcome, RunError> {
    scenario.check_with(others.iter().filter(|(setup, _)| !setup.is_background).count())?;
    let mut random = Pcg64::seed_from_u64(scenario.run.seed.wrapping_add(u64::from(repetition)));
    let programs = scenario.process.iter().flat_map(|spec| (0..spec.count).map(move |index| (spec, index)));
    let mut setups: Vec<Setup> = programs.clone().map(|(spec, index)| Program::setup(spec, index)).collect();
    setups.extend(scenario.job.iter().map(Job::setup));
    setups.extend(others.iter().map(|(setup, _)| setup.clone()));

    let mut jobs: Vec<Job> = scenario.job.iter().map(Job::new).collect();
    let mut world = World::new(scenario, drive, &setups, &mut random)?;
    for (spec, index) in programs.clone() {
        let program = Program::new(spec, Pcg64::seed_from_u64(random.next_u64()));
        world.add(Program::setup(spec, index), Box::new(program), &mut random)?;
    }
    for (spec, job) in scenario.job.iter().zip(&mut jobs) {
        world.add(Job::setup(spec), Box::new(job), &mut random)?;
    }
    let programs_and_jobs = world.workloads.len();
    for (setup, workload) in others {
        world.add(setup, workload, &mut random)?;
    }
    while world.is_running() {
        world.step();
    }
    let (programs, others) = (programs.count(), programs_and_jobs..world.workloads.len());
    let mut outcome = Outcome {
        elapsed: Nanos::ZERO,
        processes: (0..programs).map(|index| world.process_outcome(index)).collect(),
        jobs: Vec::new(),
        workloads: others.map(|index| world.workload_outcome(index)).collect(),
        usage: world.device.device().usage(world.now),
        regulation: None,
    };
    let ends: Vec<Nanos> = world.awaited().map(|state: &WorkloadState<'_>| state.end(world.now)).collect();
    outcome.elapsed = ends.iter().copied().max().unwrap_or_default();
    outcome.regulation = world.regulation(ends.into_iter().min().unwrap_or_default())?;
    drop(world);
    outcome.jobs = jobs.iter().map(Job::outcome).collect();
    Ok(outcome)
}

impl World<'_> {
    /// Returns the result of a program: of its thread, and of the file that it reads, which is its first.
    fn process_outcome(&self, index: usize) -> ProcessOutcome {
        let file = FileId(self.workloads[index].files.0);
        let counts = self.cache.counts(file);
        let fetcher = self.fetchers[file.0].as_ref();
        let WorkloadOutcome {
            name,
            elapsed,
            ran,
            hops,
            queued,
            waited_read,
            waited_write,
            slept,
            read_bytes,
            written_bytes,
        } = self.workload_outcome(index);
        ProcessOutcome {
            name,
            elapsed,
            ran,
            hops,
            queued,
            waited_read,
            waited_write,
            slept,
            reading: self.files[file.0].reads.total(self.now),
            read_bytes,
            written_bytes,
            prefetched_bytes: counts.prefetched * self.page_bytes,
            wasted_bytes: counts.wasted * self.page_bytes,
            distances: fetcher.map_or_else(Distances::default, |fetcher| fetcher.distances.clone()),
            state: fetcher.and_then(|fetcher| fetcher.state),
        }
    }
}
