//! The event loop: who is due next, what then happens, and what follows from it.
//!
//! Nothing is queued that could become out of date: whoever waits for an instant says so when asked, and the earliest is
//! next. All that becomes due at one instant is carried out in the same order each time, and then the block queue hands
//! over what has gathered.

mod build;
mod fetcher;
mod job;
mod mapped;
mod pages;
mod process;
mod xnu;

use sakiyomi_drive::spec::SpecError as DriveError;
use sakiyomi_model::{Completion, Device, Nanos, StreamId};
use sakiyomi_prefetch::Controller;
use sakiyomi_regulate::{RateError, RegulatedDevice, Regulator, Timing};

use crate::cache::PageCache;
use crate::cpu::Cpu;
use crate::layout::Layout;
use crate::measure::Measure;
use crate::outcome::{Outcome, Regulation};
use crate::queue::{Purpose, Queue};
use crate::readahead::xnu::Clusters;
use crate::spec::{Kernel, PrefetchSpec, Scenario, SpecError, Until};
use crate::storage::Storage;
use crate::writeback::WriteBack;

use fetcher::Fetcher;
use job::Job;
use process::Process;

/// Why an experiment was not run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// The experiment is not possible.
    #[error(transparent)]
    Scenario(#[from] SpecError),
    /// The drive is not possible.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// Files that the device does not hold.
    #[error(
        "the files take {files} bytes and the device holds {capacity}; make them smaller, or the device larger"
    )]
    TooSmall {
        /// All files together.
        files: u64,
        /// The device.
        capacity: u64,
    },
    /// A program cannot have the rate that it asks for.
    #[error("the rate of process {name}: {error}")]
    Rate {
        /// The program.
        name: String,
        /// Why.
        error: RateError,
    },
    /// Nothing is left to be measured.
    #[error(
        "the first program ended after {:.1} s, and nothing is left of that without run.warm_up and run.cool_down; \
         make them shorter, or the programs longer (process.*.reads)", ended.as_secs_f64()
    )]
    TooShort {
        /// When the first program ended.
        ended: Nanos,
    },
    /// A regulated program did nothing while it was measured.
    #[error(
        "process {name} has a rate and no I/O within the {:.1} s that were measured; let it begin sooner or read \
         more often, or take its rate away", measured.as_secs_f64()
    )]
    NoIo {
        /// The program.
        name: String,
        /// How long was measured.
        measured: Nanos,
    },
}

/// Runs an experiment on the drive that it names, which may come from a file and is therefore given; none for a fixed
/// device. `repetition` counts from 0, and is added to the seed.
///
/// # Errors
/// [`RunError`]: before anything is run, or where nothing was left to be measured.
pub fn run(
    scenario: &Scenario,
    drive: Option<&sakiyomi_drive::spec::DriveSpec>,
    repetition: u32,
) -> Result<Outcome, RunError> {
    let mut world = World::new(scenario, drive, repetition)?;
    while world.is_running() {
        world.step();
    }
    world.outcome()
}

/// Everything, at one instant.
struct World {
    now: Nanos,
    page_bytes: u64,
    tick: Nanos,
    /// Pages in the longest window of the kernel's read-ahead.
    window_max: u64,
    asynchronous: bool,
    kernel: Kernel,
    /// Pages that are brought in at most where one of a mapping is missing.
    fault_max: u64,
    /// Requests of a kind that may wait in the block queue.
    requests_max: usize,
    /// Pages in the longest request.
    request_pages: u64,
    prefetch: PrefetchSpec,

    device: RegulatedDevice<Box<dyn Storage>>,
    queue: Queue,
    cache: PageCache,
    write_back: WriteBack,
    cpu: Cpu,
    /// Where each file lies.
    layouts: Vec<Layout>,
    /// Whose each file is.
    owners: Vec<StreamId>,
    /// For each file, how many requests to read it are outstanding, since when, and for how long they were.
    reading: Vec<(u64, Nanos, Nanos)>,

    /// For each file, what Mac OS X remembers of it.
    clusters: Vec<Clusters>,

    processes: Vec<Process>,
    jobs: Vec<Job>,
    controller: Option<Controller>,
    /// One for each program that is followed.
    fetchers: Vec<Option<Fetcher>>,
    done: Vec<Completion>,
    until: Until,
    /// None without a regulator.
    measure: Option<Measure>,
    timings: Vec<Timing>,
}

impl World {
    fn is_running(&self) -> bool {
        let programs = self.processes.iter().map(Process::is_done);
        let mut ended = programs.chain(self.jobs.iter().map(Job::is_done));
        match self.until {
            Until::All => ended.any(|has_ended| !has_ended),
            Until::First => ended.all(|has_ended| !has_ended),
        }
    }

    /// Goes on to the next instant at which something happens.
    fn step(&mut self) {
        let sources = [
            self.device.next_event(),
            self.queue.next_event(),
            self.cpu.next_event(),
            Some(self.write_back.next_event()),
        ];
        let programs = self.processes.iter().filter_map(Process::next_event);
        let fetchers = self.fetchers.iter().flatten().filter_map(Fetcher::next_event);
        let jobs = self.jobs.iter().filter_map(Job::next_event);
        let next = sources.into_iter().flatten().chain(programs).chain(fetchers).chain(jobs).min();
        self.now = next.expect("pages are looked through for old ones for ever").max(self.now);

        self.device.advance(self.now, &mut self.done);
        self.watch();
        let mut done = std::mem::take(&mut self.done);
        done.drain(..).for_each(|completion| self.complete(&completion));
        self.done = done;
        while let Some(number) = self.cpu.ended(self.now) {
            match number.checked_sub(self.processes.len()) {
                None => self.burst_ended(number),
                Some(_) => self.thread_burst_ended(number),
            }
        }
        self.wake_jobs();
        for process in 0..self.processes.len() {
            self.wake(process);
            self.poll(process);
        }
        self.write_back.look(self.now);
        self.write_out();
        self.queue.dispatch(self.now, &mut self.device);
    }

    /// Looks at how well I/O times are kept.
    fn watch(&mut self) {
        let Some(measure) = &mut self.measure else { return };
        self.done.iter().for_each(|completion| measure.ended(completion));
        self.device.take_timings(&mut self.timings);
        if let Some(regulator) = self.device.regulator().filter(|_| !self.timings.is_empty()) {
            measure.answered(&mut self.timings, regulator.allowance());
        }
    }

    fn complete(&mut self, completion: &Completion) {
        let ended = self.queue.ended(completion.request.id);
        for purpose in &ended.purposes {
            match *purpose {
                Purpose::Pages { file, start, pages } => self.transferred(ended.op, file, start, pages),
                Purpose::Direct { process } => self.direct_ended(process),
            }
        }
        for process in 0..self.processes.len() {
            self.resume(process);
            self.resume_fetcher(process);
        }
        self.resume_jobs();
    }

    fn outcome(mut self) -> Result<Outcome, RunError> {
        let programs = self.processes.iter().map(|process| process.end(self.now));
        let ends: Vec<Nanos> = programs.chain(self.jobs.iter().map(|job| job.end(self.now))).collect();
        let first = ends.iter().copied().min().unwrap_or_default();
        let service = self.device.regulator().map_or(Nanos::ZERO, Regulator::service_time);
        let regulation = self.measure.take().map(|measure| measure.outcome(first, service));
        if let Some(regulation) = &regulation {
            is_measured(regulation, first)?;
        }
        Ok(Outcome {
            elapsed: ends.into_iter().max().unwrap_or_default(),
            processes: (0..self.processes.len()).map(|process| self.process_outcome(process)).collect(),
            jobs: self.jobs.iter().map(Job::outcome).collect(),
            usage: self.device.device().usage(self.now),
            regulation,
        })
    }
}

/// Whether there is anything to make figures of.
fn is_measured(regulation: &Regulation, first: Nanos) -> Result<(), RunError> {
    if regulation.measured.is_zero() {
        return Err(RunError::TooShort { ended: first });
    }
    match regulation.owners.iter().find(|owner| owner.ios == 0) {
        Some(owner) => Err(RunError::NoIo { name: owner.name.clone(), measured: regulation.measured }),
        None => Ok(()),
    }
}
