//! The event loop: what is due next, what then happens, and what follows from it.
//!
//! Nothing is queued that could become out of date: whatever waits for an instant says so when asked, and the earliest is
//! next. All that becomes due at one instant is carried out in the same order each time: ends of requests, ends of bursts,
//! workloads in the order in which they were added, each with the fetchers of its files, write-back; and then the block
//! queue hands over what has gathered. There is one path for all workloads, whatever they are.

mod actions;
mod build;
mod experiment;
mod fetcher;
mod mapped;
mod pages;
mod thread;
mod workloads;
mod xnu;

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

/// Everything, at one instant.
struct World<'a> {
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
    cores: Cores,

    /// The workloads, and the threads and files of all of them.
    workloads: Vec<WorkloadState<'a>>,
    threads: Vec<Thread>,
    files: Vec<File>,
    /// Where the next file may lie on the device, in sectors.
    next_place: u64,
    controller: Option<Controller>,
    /// For each file, the fetcher that follows its threads.
    fetchers: Vec<Option<Fetcher>>,
    done: Vec<Completion>,
    until: Until,
    /// None without a regulator.
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

    /// The workloads whose ends count.
    fn awaited(&self) -> impl Iterator<Item = &WorkloadState<'_>> {
        self.workloads.iter().filter(|state| !state.setup.is_background)
    }

    /// Goes on to the next instant at which something happens.
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
        self.write_back.look(self.now);
        self.write_out();
        self.queue.dispatch(self.now, &mut self.device);
    }

    /// When the next thing happens: pages are looked through for old ones for ever. Written as loops because it is called
    /// for each instant, and a chain of iterators takes several times as many instructions.
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
        for fetcher in self.fetchers.iter().flatten() {
            consider(fetcher.next_event());
        }
        next
    }

    /// For each file of a workload, if there is a prefetcher.
    fn for_each_fetcher(&mut self, workload: usize, each: impl Fn(&mut Self, FileId)) {
        if self.controller.is_some() {
            let (first, end) = self.workloads[workload].files;
            (first..end).for_each(|file| each(self, FileId(file)));
        }
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
                Purpose::Direct { thread } => self.direct_ended(thread),
            }
        }
        for workload in 0..self.workloads.len() {
            self.resume(workload);
            self.for_each_fetcher(workload, World::resume_fetcher);
        }
    }

    /// How well I/O times were kept until the first workload ended; none without a regulator.
    fn regulation(&mut self, first: Nanos) -> Result<Option<Regulation>, RunError> {
        let service = self.device.regulator().map_or(Nanos::ZERO, Regulator::service_time);
        let regulation = self.measure.take().map(|measure| measure.outcome(first, service));
        if let Some(regulation) = &regulation {
            is_measured(regulation, first)?;
        }
        Ok(regulation)
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
