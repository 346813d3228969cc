//! A host that hands requests to a drive by hand, at the instants of the load, and holds the drive to its interface.

use sakiyomi_drive::log::{CacheEvent, DiskEvent, Event};
use sakiyomi_drive::spec::{Before, DriveSpec};
use sakiyomi_drive::{Drive, Usage};
use sakiyomi_model::{Class, Completion, Device, Nanos, Op, Request};

/// The class of a command; a drive knows that of each.
pub(crate) fn class_of(completion: &Completion) -> Class {
    completion.class().expect("a drive tells how it served a command")
}

/// All that a run shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Story {
    pub(crate) accepted: Vec<Request>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) log: Vec<Event>,
    /// When nothing more was to do.
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

/// When the host looks at the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake<'a> {
    /// At every instant the drive asks for.
    Exactly,
    /// So long after it would have been due, again and again from the start of the list.
    Late(&'a [u64]),
    /// Only when it has something to submit, and at the end.
    Never,
}

/// More events than any load of the tests gives rise to: time stands still.
const EVENTS_MAX: usize = 200_000;

struct Host<'a> {
    drive: Drive,
    now: Nanos,
    wake: Wake<'a>,
    wakes: usize,
    done: Vec<Completion>,
}

/// Submits each request at its arrival, refused ones lost, and runs on until the drive has nothing left to do.
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
        let due = self.drive.next_event().expect("someone asked to be advanced");
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
        assert_eq!(self.drive.outstanding(), 0, "a command was forgotten");
        let mut log = Vec::new();
        self.drive.take_log(&mut log);
        let usage = self.drive.usage(self.now);
        Story { accepted, completions: self.done, log, end: self.now, usage }
    }
}

/// How long the link is busy with so many sectors for the host.
pub(crate) fn link_time(spec: &DriveSpec, sectors: u64) -> u64 {
    at_rate(spec, spec.interface.link_rate.0, sectors)
}

/// The same from the host.
pub(crate) fn link_time_write(spec: &DriveSpec, sectors: u64) -> u64 {
    at_rate(spec, spec.interface.link_rate_write.unwrap_or(spec.interface.link_rate).0, sectors)
}

fn at_rate(spec: &DriveSpec, rate: u64, sectors: u64) -> u64 {
    (sectors as f64 * (spec.geometry.sector.0 as f64 * 1e9 / rate as f64)) as u64
}

/// What is noted of the command before: whether it was a write, and where one of its kind would go on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Last(Option<(Op, u64)>);

impl Last {
    /// What a command finds before it; from then on it is itself the last one.
    pub(crate) fn before(&mut self, request: &Request) -> Before {
        let last = self.0.replace((request.op, request.extent.end().0));
        let Some((op, end)) = last else { return Before::default() };
        Before { write: op == Op::Write, continued: op == request.op && end == request.extent.start.0 }
    }
}

/// When a read is over: of its sectors, those from `missing` on had to be fetched and began and ended to pass as told.
/// `processed` is when its command was, `free` when the link was.
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
    // So many of the missing sectors must have begun to pass: the watermark's share, and one in any case.
    let share = (interface.read_watermark * begins.len() as f64) as usize;
    let coming = begins[share.max(1) - 1].max(processed);
    let taken = coming + reconnect;
    let at_once = missing > start && interface.immediate_partial && processed < coming;
    let from = if at_once { processed } else { taken };
    let all = from.max(free) + link(end - start);
    let fetched = taken.max(free) + link(end - missing);
    all.max(fetched).max(passed + link(1))
}
