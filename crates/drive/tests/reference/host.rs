//! A host that submits the requests of a load at their times, and checks the drive's interface contract.

use sakiyomi_drive::log::{CacheEvent, DiskEvent, Event};
use sakiyomi_drive::spec::{DriveSpec, PreviousCommand};
use sakiyomi_drive::{Drive, Usage};
use sakiyomi_model::{Class, Completion, Device, Nanos, Op, Request};

/// Returns the class of a command, which a drive always knows.
pub(crate) fn class_of(completion: &Completion) -> Class {
    completion.class().expect("a drive tells how it served a command")
}

/// The complete record of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Story {
    pub(crate) accepted: Vec<Request>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) log: Vec<Event>,
    /// Time at which the drive became idle.
    pub(crate) end: Nanos,
    pub(crate) usage: Usage,
}

impl Story {
    pub(crate) fn disk(&self) -> impl Iterator<Item = &DiskEvent> {
        self.log.iter().filter_map(|event| if let Event::Disk(disk) = event { Some(disk) } else { None })
    }

    pub(crate) fn cache(&self) -> impl Iterator<Item = &CacheEvent> {
        self.log.iter().filter_map(|event| if let Event::Cache(cache) = event { Some(cache) } else { None })
    }
}

/// Times at which the host advances the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake<'a> {
    /// At every event of the drive.
    Exactly,
    /// Late by the delays of the list, cyclically.
    Late(&'a [u64]),
    /// Only to submit a request, and at the end.
    Never,
}

/// Exceeds the events of any load of the tests; more indicate that time does not advance.
const EVENTS_MAX: usize = 200_000;

struct Host<'a> {
    drive: Drive,
    now: Nanos,
    wake: Wake<'a>,
    wakes: usize,
    done: Vec<Completion>,
}

/// Submits each request at its arrival, drops refused ones, and runs until the drive is idle.
pub(crate) fn run(spec: &DriveSpec, requests: &[Request], wake: Wake<'_>) -> Story {
    let mut drive = Drive::new(spec).expect("a drive of the tests");
    drive.keep_log();
    let mut host = Host { drive, now: Nanos::ZERO, wake, wakes: 0, done: Vec::new() };
    let mut accepted = Vec::new();
    for request in requests {
        host.run_until(request.arrival);
        host.now = request.arrival;
        let full = host.drive.outstanding() >= host.drive.depth() as usize;
        match host.drive.submit(request.arrival, *request) {
            Ok(()) => accepted.push(*request),
            Err(back) => {
                assert_eq!(back.0, *request, "a refused request comes back as it was");
                assert!(full || wake != Wake::Exactly, "refused although there was room");
            }
        }
    }
    host.run_until(Nanos::MAX);
    host.story(accepted)
}

impl Host<'_> {
    fn run_until(&mut self, limit: Nanos) {
        if self.wake == Wake::Never && limit != Nanos::MAX {
            return;
        }
        while let Some(due) = self.drive.next_event() {
            let late = match self.wake {
                Wake::Late(delays) => delays[self.wakes % delays.len()],
                Wake::Exactly | Wake::Never => 0,
            };
            let at = due + Nanos(late);
            if at > limit {
                return;
            }
            self.advance(at);
        }
    }

    fn advance(&mut self, at: Nanos) {
        let due = self.drive.next_event().expect("an event was pending");
        assert!(due >= self.now || self.wake != Wake::Exactly, "asked for {due}, and it is {}", self.now);
        assert_eq!(self.drive.usage(at.min(due.max(self.now))).time.total(), at.min(due.max(self.now)));
        self.wakes += 1;
        assert!(self.wakes < EVENTS_MAX, "no end of events, at {at}");
        let ended = self.done.len();
        self.drive.advance(at, &mut self.done);
        self.now = at;
        assert_eq!(self.drive.usage(at).time.total(), at, "five activities make up the elapsed time");
        for completion in &self.done[ended..] {
            assert!(completion.finish <= at && completion.finish >= completion.submitted);
            assert!(self.wake != Wake::Exactly || completion.finish == at, "ended when it was due");
        }
    }

    fn story(mut self, accepted: Vec<Request>) -> Story {
        assert_eq!(self.drive.outstanding(), 0, "a command was lost");
        let mut log = Vec::new();
        self.drive.take_log(&mut log);
        let usage = self.drive.usage(self.now);
        Story { accepted, completions: self.done, log, end: self.now, usage }
    }
}

/// Returns the transfer time of `sectors` to the host.
pub(crate) fn link_time(spec: &DriveSpec, sectors: u64) -> u64 {
    at_rate(spec, spec.interface.link_rate.0, sectors)
}

/// Returns the transfer time of `sectors` from the host.
pub(crate) fn link_time_write(spec: &DriveSpec, sectors: u64) -> u64 {
    at_rate(spec, spec.interface.link_rate_write.unwrap_or(spec.interface.link_rate).0, sectors)
}

fn at_rate(spec: &DriveSpec, rate: u64, sectors: u64) -> u64 {
    (sectors as f64 * (spec.geometry.sector.0 as f64 * 1e9 / rate as f64)) as u64
}

/// Operation and end of the previous command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Last(Option<(Op, u64)>);

impl Last {
    /// Returns the relation of a command to the previous one, and records the command.
    pub(crate) fn before(&mut self, request: &Request) -> PreviousCommand {
        let last = self.0.replace((request.op, request.extent.end().0));
        let Some((op, end)) = last else { return PreviousCommand::default() };
        PreviousCommand {
            write: op == Op::Write,
            continued: op == request.op && end == request.extent.start.0,
        }
    }
}

/// Returns when a read finishes whose sectors from `missing` on were fetched, beginning at `begins` and ending at
/// `ends`. `processed` is the end of its command processing, `free` the time from which the link is idle.
pub(crate) fn read_over(
    spec: &DriveSpec,
    request: &Request,
    missing: u64,
    (begins, ends): (&[u64], u64),
    (processed, free): (u64, u64),
) -> u64 {
    let (start, end) = (request.extent.start.0, request.extent.end().0);
    let (interface, link) = (&spec.interface, |sectors| link_time(spec, sectors));
    let reconnect = interface.overhead.reconnect.0;
    let passed = ends.max(processed);
    if !interface.overlap {
        return (passed + reconnect).max(free) + link(end - start);
    }
    // Number of missing sectors that must have begun to pass: the watermark's share, at least one.
    let share = (interface.read_watermark * begins.len() as f64) as usize;
    let coming = begins[share.max(1) - 1].max(processed);
    let taken = coming + reconnect;
    let at_once = missing > start && interface.immediate_partial && processed < coming;
    let from = if at_once { processed } else { taken };
    let all = from.max(free) + link(end - start);
    let fetched = taken.max(free) + link(end - missing);
    all.max(fetched).max(passed + link(1))
}
