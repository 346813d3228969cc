//! The event loop: determines the next instant, and processes everything due at it.
//!
//! Nothing is queued that could become stale: every component that waits for an instant returns it when queried, and
//! the earliest is next. Everything due at one instant is processed in a fixed order: completions of requests, ends of
//! bursts, workloads in the order in which they were added, each with the fetchers of its files, write-back; then the
//! block queue dispatches. All kinds of workloads take the same path.

mod actions;
mod build;
mod experiment;
mod fetcher;
mod mapped;
mod pages;
mod thread;
mod workloads;
mod xnu;

use std::collections::BTreeSet;

use sakiyomi_drive::spec::SpecError as DriveError;
use sakiyomi_model::{Completion, Device, Nanos};
use sakiyomi_prefetch::Controller;
use sakiyomi_regulate::{RateError, RegulatedDevice, Regulator, Timing};

use crate::cache::{FileId, PageCache};
use crate::cores::Cores;
use crate::file::File;
use crate::measure::Measure;
use crate::outcome::Regulation;
use crate::queue::{Purpose, Queue};
use crate::spec::{Kernel, PrefetchSpec, SpecError, Until};
use crate::storage::Storage;
use crate::writeback::WriteBack;

pub use experiment::{run, run_with};
use fetcher::Fetcher;
use thread::Thread;
use workloads::WorkloadState;

/// Reasons why an experiment was not run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// The experiment is invalid.
    #[error(transparent)]
    Scenario(#[from] SpecError),
    /// The drive is invalid.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The files exceed the device's capacity.
    #[error(
        "the files take {files} bytes and the device holds {capacity}; make them smaller, or the device larger"
    )]
    TooSmall {
        /// Size of all files, in bytes.
        files: u64,
        /// Capacity of the device, in bytes.
        capacity: u64,
    },
    /// The rate of a program cannot be granted.
    #[error("the rate of process {name}: {error}")]
    Rate {
        /// Name of the program.
        name: String,
        /// Reason.
        error: RateError,
    },
    /// The measured interval is empty.
    #[error(
        "the first program ended after {:.1} s, and nothing is left of that without run.warm_up and run.cool_down; \
         make them shorter, or the programs longer (process.*.reads)", ended.as_secs_f64()
    )]
    TooShort {
        /// End of the first program.
        ended: Nanos,
    },
    /// A regulated program had no I/O in the measured interval.
    #[error(
        "process {name} has a rate and no I/O within the {:.1} s that were measured; let it begin sooner or read \
         more often, or take its rate away", measured.as_secs_f64()
    )]
    NoIo {
        /// Name of the program.
        name: String,
        /// Measured time.
        measured: Nanos,
    },
}

/// State of the whole simulation at one instant.
struct World<'a> {
    now: Nanos,
    page_bytes: u64,
    tick: Nanos,
    /// Maximum window of the kernel's read-ahead, in pages.
    window_max: u64,
    asynchronous: bool,
    kernel: Kernel,
    /// Maximum number of pages loaded for a missing page of a mapping.
    fault_max: u64,
    /// Maximum number of waiting requests per direction in the block queue.
    requests_max: usize,
    /// Maximum request, in pages.
    request_pages: u64,
    prefetch: PrefetchSpec,

    device: RegulatedDevice<Box<dyn Storage>>,
    queue: Queue,
    cache: PageCache,
    write_back: WriteBack,
    cores: Cores,

    /// Workloads, with the threads and files of all of them.
    workloads: Vec<WorkloadState<'a>>,
    threads: Vec<Thread>,
    files: Vec<File>,
    /// Start of the next file on the device, in sectors.
    next_place: u64,
    controller: Option<Controller>,
    /// For each file, the fetcher that follows its threads.
    fetchers: Vec<Option<Fetcher>>,
    /// Files with a fetcher, so that the others take no time at each instant.
    followed: BTreeSet<usize>,
    done: Vec<Completion>,
    until: Until,
    /// `None` without a regulator.
    measure: Option<Measure>,
    timings: Vec<Timing>,
}

impl World<'_> {
    fn is_running(&self) -> bool {
        let mut ended = self.awaited().map(WorkloadState::is_done);
        match self.until {
            Until::All => ended.any(|has_ended| !has_ended),
            Until::First => ended.all(|has_ended| !has_ended),
        }
    }

    /// Returns the workloads whose ends count.
    fn awaited(&self) -> impl Iterator<Item = &WorkloadState<'_>> {
        self.workloads.iter().filter(|state| !state.setup.is_background)
    }

    /// Advances to the next instant with an event, and processes it.
    fn step(&mut self) {
        self.now = self.next_event().max(self.now);

        self.device.advance(self.now, &mut self.done);
        self.watch();
        if !self.done.is_empty() {
            let mut done = std::mem::take(&mut self.done);
            done.drain(..).for_each(|completion| self.complete(&completion));
            self.done = done;
        }
        while let Some(thread) = self.cores.ended(self.now) {
            self.burst_ended(thread);
        }
        for workload in 0..self.workloads.len() {
            self.wake(workload);
            self.for_each_fetcher(workload, World::poll);
        }
        self.write_back.poll(self.now);
        self.write_out();
        self.queue.dispatch(self.now, &mut self.device);
    }

    /// Returns the time of the next event; the search for old dirty pages never ends. Written as loops because it is
    /// called for each instant, and a chain of iterators takes several times as many instructions.
    fn next_event(&self) -> Nanos {
        let mut next = self.write_back.next_event();
        let mut consider = |event: Option<Nanos>| {
            if let Some(event) = event {
                next = next.min(event);
            }
        };
        consider(self.device.next_event());
        consider(self.queue.next_event());
        consider(self.cores.next_event());
        for workload in &self.workloads {
            consider(workload.next_event());
        }
        for &file in &self.followed {
            consider(self.fetchers[file].as_ref().and_then(Fetcher::next_event));
        }
        next
    }

    /// Calls `each` for each file of a workload, if there is a prefetcher.
    fn for_each_fetcher(&mut self, workload: usize, each: impl Fn(&mut Self, FileId)) {
        if !self.followed.is_empty() {
            let (first, end) = self.workloads[workload].files;
            let followed = std::mem::take(&mut self.followed);
            followed.range(first..end).for_each(|&file| each(self, FileId(file)));
            self.followed = followed;
        }
    }

    /// Records the completions for the accuracy of I/O times.
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
                Purpose::Direct { thread } => self.direct_ended(thread),
            }
        }
        for workload in 0..self.workloads.len() {
            self.resume(workload);
            self.for_each_fetcher(workload, World::resume_fetcher);
        }
    }

    /// Returns the accuracy of I/O times until the first workload ended; `None` without a regulator.
    fn regulation(&mut self, first: Nanos) -> Result<Option<Regulation>, RunError> {
        let service = self.device.regulator().map_or(Nanos::ZERO, Regulator::service_time);
        let regulation = self.measure.take().map(|measure| measure.outcome(first, service));
        if let Some(regulation) = &regulation {
            is_measured(regulation, first)?;
        }
        Ok(regulation)
    }
}

/// Checks that there are measurements.
fn is_measured(regulation: &Regulation, first: Nanos) -> Result<(), RunError> {
    if regulation.measured.is_zero() {
        return Err(RunError::TooShort { ended: first });
    }
    match regulation.owners.iter().find(|owner| owner.ios == 0) {
        Some(owner) => Err(RunError::NoIo { name: owner.name.clone(), measured: regulation.measured }),
        None => Ok(()),
    }
}
