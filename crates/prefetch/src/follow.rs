//! Follows unmodified programs: observes what a process and its descendants read, and reads it ahead of them.
//!
//! ```text
//! /proc ──► program ──► reading ──► Controller ──► fetcher ──► page cache
//!           times,      position,   how far        threads
//!           files       files       ahead          that wait
//!                       in a row
//! ```
//!
//! Reads by `pread` or through a mapping move no file position. Large mappings are followed by the touched pages in
//! the page tables of the program (`mapped`). For other such reads, if there are signs of them (`positionless`) and it
//! is permitted, the kernel's tracepoints report touched pages (`tracer`). From these, places that advance are derived
//! (`streams`), each of which is followed like a position (`traced`).
//!
//! The programs are not modified: their positions are read from `/proc`, their files are opened a second time, and only
//! the page cache connects the two. If the follower fails, the programs continue alone.
//!
//! The follower is one thread that never waits for a file system. Its polling frequency is bounded by its cost: polls
//! take less than a fiftieth of a core, except in the first 50 ms of a program, in which it opens its files.

mod argv_files;
mod blocking_job;
mod directories;
mod discover;
mod fetch_state;
mod file_predictor;
mod file_sequence;
mod handle;
mod learned;
mod listing;
mod mapped;
mod own_bytes;
mod poll;
mod positionless;
mod program;
mod reading;
mod sampled;
mod seeking;
mod set;
mod statistics;
mod storage_rate;
mod streams;
mod summary;
mod times;
mod traced;
mod tracer;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;
use sakiyomi_os::cpu;
use sakiyomi_os::process::memory;

use crate::fetcher::Fetcher;
use crate::profile::Profile;
use crate::{Action, Controller, Event, Limit, ReadingId};
use blocking_job::{BlockingJob, JobReply, THREADS_MAX};
use learned::Learner;
use mapped::MappedFiles;
use program::Program;
use reading::Reading;
use set::Scope;
use storage_rate::Candidate;
use traced::Traced;
use tracer::Tracer;

pub(crate) use times::{CpuIoTimes as TimedTotals, Timed};

pub use learned::{Learned, Learning};
pub use set::FollowerSet;
pub use statistics::Point;
pub use summary::{Advice, ReadingSummary, Summary};

/// Options of the follower.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Limit of the distance ahead.
    pub limit: Limit,
    /// Memory budget for data ahead of all programs, in bytes; `None` for a quarter of the available memory.
    pub memory: Option<u64>,
    /// Whether to observe only.
    pub watch_only: bool,
}

/// Size below which files are not followed, unless they are part of a sequence: the kernel's own read-ahead has most of
/// such a file by its second window.
const FILE_MIN_BYTES: u64 = 256 << 10;

/// Time between two queries of the memory that may be filled.
const MEMORY_POLL_PERIOD: Nanos = Nanos(1_000_000_000);

/// The follower sleeps this many times as long as its polls take, so that it uses under 2 % of a core.
const POLL_REST_FACTOR: u64 = 60;

/// The factor while programs have just begun, because the files that they open are not known yet.
const POLL_REST_FACTOR_AT_START: u64 = 6;
/// The factor while a mapping is prefetched, because a frontier is seen only when it is scanned; and while a start is
/// recorded, because a sleep is seen only while it lasts.
const POLL_REST_FACTOR_OF_WAITS: u64 = 10;
/// If more programs than this have just begun, as in a build, the usual factor applies.
const STARTING_PROGRAMS_MAX: usize = 8;

/// Shortest sleep between two polls.
const SLEEP_MIN: Nanos = Nanos(300_000);
/// Longest sleep between two polls.
const SLEEP_MAX: Nanos = Nanos(50_000_000);

/// Follows a process and its descendants until the process has ended and `stop` is set. The thread that sets `stop`
/// must unpark this thread. If programs were traced, another process removes the trace instance.
///
/// `profile` lists the files that earlier runs of the same command have read; it may be empty.
///
/// # Errors
/// If the process does not exist.
pub fn follow(
    process: u32,
    options: Options,
    learning: Learning,
    profile: Profile,
    stop: &AtomicBool,
) -> io::Result<Summary> {
    let mut follower = Follower::new(process, options, Learner::new(learning, profile))?;
    while !stop.load(Ordering::Acquire) {
        let pause = follower.step();
        thread::park_timeout(pause);
    }
    Ok(follower.finish())
}

struct Follower {
    options: Options,
    /// The descendants that are followed; `None` for all.
    scope: Option<Scope>,
    /// Descendants that are not followed, nor theirs.
    left_alone: BTreeSet<u32>,
    controller: Controller,
    begun: Instant,
    programs: BTreeMap<u32, Program>,
    readings: BTreeMap<ReadingId, Reading>,
    /// Number of readings of a program that advanced recently; the time it spends is divided among them.
    moving: BTreeMap<u32, u64>,
    /// Last offsets of files whose sharing process has ended, by device and inode number; other processes may read on.
    left_at: BTreeMap<(u64, u64), u64>,
    fetcher: Fetcher<BlockingJob>,
    replies: Vec<(ReadingId, JobReply)>,
    todo: Vec<Action>,
    next_id: u32,
    room_at: Nanos,
    /// Moving average of the CPU time of a step, and the thread's CPU time when the last step began.
    cost: Nanos,
    cpu_time: Duration,
    /// Part of the current step's CPU time that has a budget of its own: it does not delay the other polls.
    apart: Duration,
    /// Time of the next discovery.
    discover_at: Nanos,
    learner: Learner,
    mapped: MappedFiles,
    tracer: Tracer,
    traced: Traced,
    tally: summary::SummaryBuilder,
    /// With `watch_only`: the range with which the storage's rate can be measured in the end.
    candidate: Option<Candidate>,
}

impl Follower {
    fn new(process: u32, options: Options, learner: Learner) -> io::Result<Follower> {
        let mut programs = BTreeMap::new();
        programs.insert(process, Program::open(process, Nanos::ZERO)?);
        Ok(Follower {
            options,
            scope: None,
            left_alone: BTreeSet::new(),
            controller: Controller::new(options.limit),
            begun: Instant::now(),
            programs,
            readings: BTreeMap::new(),
            moving: BTreeMap::new(),
            left_at: BTreeMap::new(),
            fetcher: Fetcher::new(THREADS_MAX),
            replies: Vec::new(),
            todo: Vec::new(),
            next_id: 0,
            room_at: Nanos::ZERO,
            cost: Nanos::ZERO,
            cpu_time: cpu::of_this_thread(),
            apart: Duration::ZERO,
            discover_at: Nanos::ZERO,
            learner,
            mapped: MappedFiles::new(),
            tracer: Tracer::new(),
            traced: Traced::default(),
            tally: summary::SummaryBuilder::default(),
            candidate: None,
        })
    }

    fn now(&self) -> Nanos {
        nanos(self.begun.elapsed())
    }

    /// Polls everything that is due; returns the pause until the next step.
    fn step(&mut self) -> Duration {
        let now = self.now();
        self.take_answers(now);
        self.ask_for_room(now);
        self.discover(now);
        self.take_touches(now);
        self.poll_due(now);
        self.carry_out();
        self.follow_mappings(now);
        self.learn(now);
        self.pause(now)
    }

    fn pause(&mut self, now: Nanos) -> Duration {
        let cpu_time = cpu::of_this_thread();
        let cost = nanos(cpu_time.saturating_sub(self.cpu_time + std::mem::take(&mut self.apart)));
        self.cpu_time = cpu_time;
        self.cost = Nanos((self.cost.0 * 7 + cost.0) / 8);
        let rest = Nanos(self.cost.0 * self.rest(now)).max(SLEEP_MIN);
        let discover = self.programs.values().map(|program| program.discover_at.max(self.discover_at)).min();
        let poll = self.readings.values().map(|reading| reading.due).min();
        let due = discover
            .into_iter()
            .chain(poll)
            .chain(self.tracer.due(now))
            .chain(self.mapped.due())
            .chain(self.sample_due())
            .chain(self.learner.due())
            .min()
            .unwrap_or(now + SLEEP_MAX);
        Duration::from_nanos(due.min(now + SLEEP_MAX).saturating_sub(self.now()).max(rest).0)
    }

    fn rest(&self, now: Nanos) -> u64 {
        let young = self
            .programs
            .values()
            .filter(|program| program.is_young(now))
            .take(STARTING_PROGRAMS_MAX + 1)
            .count();
        match () {
            () if (1..=STARTING_PROGRAMS_MAX).contains(&young) => POLL_REST_FACTOR_AT_START,
            () if self.mapped.is_fetching() || self.learner.is_recording(now) => POLL_REST_FACTOR_OF_WAITS,
            () => POLL_REST_FACTOR,
        }
    }

    fn ask_for_room(&mut self, now: Nanos) {
        if now < self.room_at {
            return;
        }
        self.room_at = now + MEMORY_POLL_PERIOD;
        let quarter = memory::available().map(|bytes| bytes / 4);
        // Data that the program has read stays cached as long as the data ahead, so only part of a group's memory can
        // lie ahead.
        let group = self.programs.keys().next().and_then(|&process| memory::left_to(process));
        // The pages count as memory of our own group, which may be another.
        let own = memory::left_to(std::process::id());
        let [half, own_half] = [group, own].map(|left| left.map(|bytes| bytes / 2));
        let bytes = [quarter, half, own_half, self.options.memory].into_iter().flatten().min();
        self.notify(now, Event::Memory { bytes: bytes.unwrap_or(64 << 20) });
    }

    /// Returns whether there is a reply for which this thread was woken.
    fn has_replies(&self) -> bool {
        self.fetcher.has_urgent() || self.mapped.has_replies() || self.learner.has_replies()
    }

    /// Returns whether all its programs have ended.
    fn has_ended(&self) -> bool {
        self.programs.is_empty()
    }

    /// Returns the time that its programs have waited for I/O.
    fn io_wait(&self) -> Nanos {
        let running = self.programs.values().map(|program| program.spent().io_wait.0).sum::<u64>();
        self.tally.io_wait() + Nanos(running)
    }

    fn name_reading(&mut self) -> ReadingId {
        let id = ReadingId(self.next_id);
        self.next_id += 1;
        id
    }

    fn notify(&mut self, now: Nanos, event: Event) {
        self.controller.on(now, event, &mut self.todo);
    }

    /// Returns the summary at the end.
    fn finish(mut self) -> Summary {
        let now = self.now();
        self.take_answers(now);
        self.take_touches(now);
        let all: Vec<ReadingId> = self.readings.keys().copied().collect();
        for id in all {
            self.poll_one(id, now);
            self.end(id, now);
        }
        let is_whole = self.programs.values_mut().all(|program| !program.process.is_alive());
        let programs: Vec<u32> = self.programs.keys().copied().collect();
        programs.into_iter().for_each(|number| self.end_program(number, now));
        let rate = self.candidate.take().and_then(Candidate::measure);
        let mut summary = self.tally.summary(now, rate, || self.tracer.refusal());
        summary.learned = self.learner.finish(summary.io_wait, is_whole);
        if let Some(hidden) = summary.learned.hidden {
            *summary.io_hidden.get_or_insert(Nanos::ZERO) += hidden;
            *summary.saved.get_or_insert(Nanos::ZERO) += hidden;
        }
        summary
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
