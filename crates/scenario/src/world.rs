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
use sakiyomi_model::{Completion, Device, Nanos};
use sakiyomi_prefetch::Controller;

use crate::cache::PageCache;
use crate::cpu::Cpu;
use crate::layout::Layout;
use crate::outcome::Outcome;
use crate::queue::{Purpose, Queue};
use crate::readahead::xnu::Clusters;
use crate::spec::{Kernel, PrefetchSpec, Scenario, SpecError};
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
}

/// Runs an experiment on the drive that it names, which may come from a file and is therefore given; none for a fixed
/// device. `repetition` counts from 0, and is added to the seed.
///
/// # Errors
/// [`RunError`], before anything is run.
pub fn run(
    scenario: &Scenario,
    drive: Option<&sakiyomi_drive::spec::DriveSpec>,
    repetition: u32,
) -> Result<Outcome, RunError> {
    let mut world = World::new(scenario, drive, repetition)?;
    while world.is_running() {
        world.step();
    }
    Ok(world.outcome())
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

    storage: Storage,
    queue: Queue,
    cache: PageCache,
    write_back: WriteBack,
    cpu: Cpu,
    /// Where each file lies.
    layouts: Vec<Layout>,
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
}

impl World {
    fn is_running(&self) -> bool {
        self.processes.iter().any(|process| !process.is_done()) || self.jobs.iter().any(|job| !job.is_done())
    }

    /// Goes on to the next instant at which something happens.
    fn step(&mut self) {
        let sources = [
            self.storage.next_event(),
            self.queue.next_event(),
            self.cpu.next_event(),
            Some(self.write_back.next_event()),
        ];
        let programs = self.processes.iter().filter_map(Process::next_event);
        let fetchers = self.fetchers.iter().flatten().filter_map(Fetcher::next_event);
        let jobs = self.jobs.iter().filter_map(Job::next_event);
        let next = sources.into_iter().flatten().chain(programs).chain(fetchers).chain(jobs).min();
        self.now = next.expect("pages are looked through for old ones for ever").max(self.now);

        self.storage.advance(self.now, &mut self.done);
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
        self.queue.dispatch(self.now, &mut self.storage);
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

    fn outcome(&self) -> Outcome {
        let ends = self.processes.iter().map(Process::end).chain(self.jobs.iter().map(Job::end));
        Outcome {
            elapsed: ends.max().unwrap_or_default(),
            processes: (0..self.processes.len()).map(|process| self.process_outcome(process)).collect(),
            jobs: self.jobs.iter().map(Job::outcome).collect(),
            usage: self.storage.usage(self.now),
        }
    }
}
