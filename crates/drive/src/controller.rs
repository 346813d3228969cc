//! The drive as a state machine: accepts commands, schedules the mechanism and the link, and reports completions.
//!
//! Three activities run in parallel: the mechanism makes one access at a time ([`Media`]), the link carries one
//! transfer at a time ([`Link`]), and commands wait (`waiting` for the mechanism, `stalled` for space in the write
//! cache, `flushes` for dirty data to be written). An [`Event`] at a known instant is in a heap; the end of the
//! mechanism's access is kept separately, because it changes when a command cuts a read-ahead short.
//!
//! | file | content |
//! |---|---|
//! | `controller.rs` | state, time, and the [`Device`] interface |
//! | `controller/command.rs` | commands in the drive, and their time breakdown |
//! | `controller/link.rs` | transfers to and from the host |
//! | `controller/read.rs` | reads: hits, misses, read-ahead |
//! | `controller/write.rs` | writes, flushes, discards |
//! | `controller/schedule.rs` | choice of the mechanism's next access |
//! | `controller/shingles.rs` | shingled tracks and large physical sectors |

mod command;
mod link;
mod read;
mod schedule;
mod shingles;
mod write;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sakiyomi_model::{Bytes, Class, Completion, Device, Extent, Full, Nanos, Op, Outcome, Request, Sectors};

use crate::cache::{Ghosts, MediaCache, Segments, WriteCache};
use crate::geometry::Geometry;
use crate::log::{CacheChange, CacheEvent, Event as LogEvent};
use crate::queue::{Chooser, CommandQueue, DestageChooser, Waiting};
use crate::servo::{Arm, Servo};
use crate::spec::{CacheSpec, DriveSpec, InterfaceSpec, PreviousCommand, QueuePolicy, SpecError};
use crate::usage::{Ledger, Usage};
use command::{Command, Commands};
use link::Link;
use read::ReadAccess;
use shingles::CleanAccess;
use write::{Flush, WriteAccess};

/// A hard disk.
#[derive(Clone, Debug)]
pub struct Drive {
    geometry: Geometry,
    servo: Servo,
    cache: CacheSpec,
    interface: InterfaceSpec,
    link: Link,
    depth: u32,

    now: Nanos,
    commands: Commands,
    events: BinaryHeap<Reverse<Event>>,
    event_count: u64,
    done: Vec<Completion>,

    chooser: Chooser,
    destage_chooser: DestageChooser,
    waiting: CommandQueue,
    scratch: Vec<Waiting>,
    stalled: VecDeque<usize>,
    flushes: VecDeque<Flush>,

    segments: Segments,
    ghosts: Ghosts,
    near_window: u64,
    writes: WriteCache,
    media_cache: Option<MediaCache>,
    /// Idle time after which bands are cleaned; zero: never.
    clean_delay: Nanos,
    /// Sectors per physical sector.
    physical_sectors: u64,

    media: Media,
    arm: Arm,
    /// Number of consecutive destages that passed over the oldest dirty range.
    passed_over: usize,
    /// Whether the last choice wrote overdue dirty data ahead of commands.
    old_went_first: bool,
    ledger: Ledger,
    /// Time of the last arrival or end of an access: start of the idle delay.
    quiet_since: Nanos,
    /// Whether dirty data is being written because the drive is idle.
    tidying: bool,

    /// Operation and end sector of the last command.
    last: Option<(Op, u64)>,
    log: Option<Vec<LogEvent>>,
}

/// Current activity of the mechanism.
#[derive(Clone, Debug)]
enum Media {
    Idle,
    Read(ReadAccess),
    Write(WriteAccess),
    Clean(CleanAccess),
}

/// A future event; events at the same instant occur in order of announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: Nanos,
    order: u64,
    what: Occurrence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Occurrence {
    /// The command's last sector has passed the head.
    Transferred(usize),
    /// The command has finished.
    Finished(usize),
    /// A waiting command has become ready.
    Ready,
}

impl Drive {
    /// Creates the drive described by `spec`: the arm on cylinder 0, the buffer empty, at time 0.
    ///
    /// # Errors
    /// [`SpecError::Impossible`] if the parameters are inconsistent, or describe an array: see [`Disk`](crate::Disk).
    pub fn new(spec: &DriveSpec) -> Result<Drive, SpecError> {
        spec.check()?;
        if spec.array.is_some() {
            return Err(SpecError::Impossible {
                drive: spec.name.clone(),
                key: "array".to_owned(),
                problem: "this needs a single drive; leave out the array".to_owned(),
            });
        }
        let geometry = Geometry::new(&spec.geometry, &spec.servo);
        let sector = spec.geometry.sector;
        let cache = spec.cache.clone();
        let segments = Segments::new(&cache, sector);
        // The window is equal for every read-ahead setting of a buffer, so that near misses can be compared.
        let near_window = cache.near_window.map_or(segments.even_share(), |window| window.0 / sector.0);
        let by_cylinder = spec.queue.policy == QueuePolicy::Sptf;
        Ok(Drive {
            servo: Servo::new(&spec.servo, geometry.cylinders()),
            segments,
            ghosts: Ghosts::new(cache.ghosts),
            writes: WriteCache::new(&cache.write, sector),
            media_cache: spec.smr.as_ref().map(|smr| MediaCache::new(smr, sector, geometry.capacity().0)),
            clean_delay: spec.smr.as_ref().map_or(Nanos::ZERO, |smr| smr.idle_delay),
            physical_sectors: spec.geometry.physical_sector.map_or(1, |physical| physical.0 / sector.0),
            near_window,
            link: Link::new(&spec.interface, sector),
            interface: spec.interface.clone(),
            depth: spec.queue.depth,
            now: Nanos::ZERO,
            commands: Commands::default(),
            events: BinaryHeap::new(),
            event_count: 0,
            done: Vec::new(),
            chooser: Chooser::new(&spec.queue),
            destage_chooser: DestageChooser::new(spec.queue.rpo_margin),
            waiting: CommandQueue::new(spec.queue.window as usize, by_cylinder),
            scratch: Vec::new(),
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            media: Media::Idle,
            arm: Arm::default(),
            passed_over: 0,
            old_went_first: false,
            ledger: Ledger::default(),
            quiet_since: Nanos::ZERO,
            tidying: false,
            last: None,
            log: None,
            cache,
            geometry,
        })
    }

    /// Returns the number of commands in the drive.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// Returns the mechanism's time and seek counts from 0 until `now`, which lies between the last call and
    /// [`next_event`](Device::next_event). The times add up to `now` exactly.
    #[must_use]
    pub fn usage(&self, now: Nanos) -> Usage {
        Usage { time: self.ledger.time(now), seeks: self.ledger.seeks }
    }

    /// Returns the time of one revolution.
    #[must_use]
    pub fn revolution(&self) -> Nanos {
        self.servo.revolution()
    }

    /// Sets the spindle's phase: at time 0 the angle under the heads was `lead` nanoseconds of a
    /// [revolution](Self::revolution); the default is 0. An access in progress continues as planned.
    pub fn turn_spindle(&mut self, lead: Nanos) {
        self.servo.turn(lead);
    }

    /// Enables logging of cache and disk events for [`take_log`](Self::take_log).
    pub fn keep_log(&mut self) {
        self.log = Some(Vec::new());
        self.ghosts.keep_log();
    }

    /// Moves the events since the last call to `events`, in order of time.
    pub fn take_log(&mut self, events: &mut Vec<LogEvent>) {
        if let Some(log) = &mut self.log {
            events.append(log);
        }
    }

    fn announce(&mut self, time: Nanos, what: Occurrence) {
        self.event_count += 1;
        self.events.push(Reverse(Event { time, order: self.event_count, what }));
    }

    fn log_cache(&mut self, change: CacheChange, extent: Extent) {
        let time = self.now;
        let Some(log) = &mut self.log else { return };
        let entry = |change, extent: Extent| {
            LogEvent::Cache(CacheEvent { time, change, start: extent.start, sectors: extent.sectors })
        };
        log.extend(self.ghosts.evicted().map(|(start, end)| {
            entry(CacheChange::Evict, Extent::new(sakiyomi_model::Lba(start), Sectors(end - start)))
        }));
        log.push(entry(change, extent));
    }

    fn run_until(&mut self, now: Nanos) {
        while let Some(time) = self.next_event_from_now() {
            if time > now {
                break;
            }
            self.now = time;
            self.step();
        }
    }

    /// Processes everything due at `self.now`, once: announced events first, then the mechanism.
    fn step(&mut self) {
        while let Some(&Reverse(event)) = self.events.peek() {
            if event.time > self.now {
                break;
            }
            self.events.pop();
            match event.what {
                Occurrence::Transferred(slot) => self.send_to_host(slot),
                Occurrence::Finished(slot) => self.finish(slot),
                Occurrence::Ready => self.work_arrived(),
            }
        }
        if self.media_end().is_some_and(|end| end <= self.now) {
            self.end_access();
        }
        self.start_next();
    }

    fn media_end(&self) -> Option<Nanos> {
        match &self.media {
            Media::Idle => None,
            Media::Read(access) => Some(access.end),
            Media::Write(access) => Some(access.end),
            Media::Clean(access) => Some(access.end),
        }
    }

    fn end_access(&mut self) {
        self.quiet_since = self.now;
        match std::mem::replace(&mut self.media, Media::Idle) {
            Media::Idle => {}
            Media::Read(access) => self.end_read(access),
            Media::Write(access) => self.end_write(access),
            Media::Clean(access) => self.end_clean(&access),
        }
    }

    fn next_event_from_now(&self) -> Option<Nanos> {
        let announced = self.events.peek().map(|Reverse(event)| event.time);
        let own = match self.media_end() {
            Some(end) => Some(end),
            None => self.destage_timer().into_iter().chain(self.clean_timer()).min(),
        };
        announced.into_iter().chain(own).min().map(|time| time.max(self.now))
    }

    fn accept(&mut self, request: Request) {
        self.quiet_since = self.now;
        self.tidying = false;
        let start = request.extent.start.0;
        let before = PreviousCommand {
            write: self.last.is_some_and(|(op, _)| op == Op::Write),
            continued: self.last == Some((request.op, start)),
        };
        let slot = self.commands.insert(Command::new(request, self.now, before, self.writes.next_sequence()));
        self.last = Some((request.op, start.saturating_add(request.extent.sectors.0)));
        let empty = request.extent.sectors.is_zero();
        let beyond = request
            .extent
            .start
            .0
            .checked_add(request.extent.sectors.0)
            .is_none_or(|end| end > self.capacity().0);
        match request.op {
            Op::Read | Op::Write if empty || beyond => self.refuse(slot),
            Op::Discard if beyond => self.refuse(slot),
            Op::Read => self.arrive_read(slot),
            Op::Write => self.arrive_write(slot),
            Op::Flush => self.arrive_flush(slot),
            Op::Discard => self.arrive_discard(slot),
        }
    }

    fn refuse(&mut self, slot: usize) {
        self.commands[slot].class = Class::Refused;
        self.finish_after_overhead(slot);
    }

    /// Finishes a command that moves no data, after its processing.
    fn finish_after_overhead(&mut self, slot: usize) {
        let overheads = &self.interface.overhead;
        let overhead = overheads.control.after(self.commands[slot].before) + overheads.completion;
        self.commands[slot].breakdown.overhead = overhead;
        self.announce(self.now + overhead, Occurrence::Finished(slot));
    }

    fn finish(&mut self, slot: usize) {
        let command = self.commands.remove(slot);
        let outcome = if command.class == Class::Refused { Outcome::Error } else { Outcome::Done };
        self.done.push(command.completion(self.now, outcome));
    }
}

impl Device for Drive {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        self.run_until(now);
        self.now = self.now.max(now);
        if self.commands.len() >= self.depth as usize {
            return Err(Full(request));
        }
        self.accept(request);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        // Completions are handed over at the next advance, whenever that is.
        if self.done.is_empty() { self.next_event_from_now() } else { Some(self.now) }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.run_until(now);
        self.now = self.now.max(now);
        done.append(&mut self.done);
    }

    fn capacity(&self) -> Sectors {
        // The media cache has no addresses.
        self.media_cache.as_ref().map_or(self.geometry.capacity(), |cache| Sectors(cache.capacity()))
    }

    fn sector(&self) -> Bytes {
        self.geometry.sector()
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn busy(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.usage(now).time.idle)
    }
}
