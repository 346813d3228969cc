//! A host that replays a trace: open loop (each request at its time) or closed loop (each after another has finished).
//!
//! The host has a queue of its own, because a drive refuses commands beyond its depth. The queue is bounded: while it
//! is full, no request is taken from the trace, and late ones are counted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use sakiyomi_model::{Completion, Extent, Nanos, Op, Request, RequestId, StreamId};

use crate::controller::Drive;
use crate::disk::Simulated;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Issue time, in an open loop.
    pub at: Nanos,
    /// Think time between its end and the next request, in a closed loop.
    pub think: Nanos,
    /// Origin of the request.
    pub stream: StreamId,
    /// Operation.
    pub op: Op,
    /// Force unit access.
    pub fua: bool,
    /// Sectors.
    pub extent: Extent,
}

/// Timing of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At the times of the trace, independently of completions.
    Open,
    /// A fixed number at first, then one after the think time of each finished request.
    Closed {
        /// Requests outstanding, at least 1.
        outstanding: usize,
    },
}

/// Receives the events of a replay.
pub trait ReplayObserver<D = Drive> {
    /// Called before time advances to `now`; the drive is still in its previous state.
    fn before(&mut self, drive: &D, now: Nanos);

    /// Called when a command has finished; `backlog` requests wait in the host.
    fn completed(&mut self, drive: &mut D, completion: &Completion, backlog: usize);
}

/// Statistics of the host's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSide {
    /// End of the last command.
    pub end: Nanos,
    /// Maximum number of requests in the host's queue.
    pub backlog_max: usize,
    /// Requests taken from the trace late because the host's queue was full.
    pub held_back: u64,
}

/// Settings of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Timing of the requests.
    pub pace: Pace,
    /// Capacity of the host's queue, at least 1.
    pub host_queue: usize,
}

impl Replay {
    /// Replays `arrivals`, in ascending order of time, until all have finished.
    ///
    /// # Errors
    /// The first error among the arrivals; requests before it were replayed.
    pub fn run<D: Simulated, E>(
        &self,
        drive: &mut D,
        arrivals: impl Iterator<Item = Result<Arrival, E>>,
        watcher: &mut impl ReplayObserver<D>,
    ) -> Result<HostSide, E> {
        match self.pace {
            Pace::Open => self.open(drive, arrivals, watcher),
            Pace::Closed { outstanding } => closed(drive, arrivals, watcher, outstanding.max(1)),
        }
    }

    fn open<D: Simulated, E>(
        &self,
        drive: &mut D,
        mut arrivals: impl Iterator<Item = Result<Arrival, E>>,
        watcher: &mut impl ReplayObserver<D>,
    ) -> Result<HostSide, E> {
        let mut host = Host::default();
        let mut next = arrivals.next().transpose()?;
        loop {
            host.hand_over(drive);
            let room = host.queue.len() < self.host_queue.max(1);
            let arrival = next.filter(|_| room).map(|arrival| arrival.at);
            let finished = next.is_none() && host.queue.is_empty() && drive.outstanding() == 0;
            let Some(time) = arrival.into_iter().chain(drive.next_event()).min().filter(|_| !finished) else {
                return Ok(host.side);
            };
            host.advance(drive, watcher, time.max(host.now));
            while let Some(arrival) = next.filter(|arrival| arrival.at <= host.now) {
                if host.queue.len() >= self.host_queue.max(1) {
                    break;
                }
                host.side.held_back += u64::from(arrival.at < host.now);
                host.enqueue(arrival, arrival.at);
                next = arrivals.next().transpose()?;
            }
        }
    }
}

fn closed<D: Simulated, E>(
    drive: &mut D,
    arrivals: impl Iterator<Item = Result<Arrival, E>>,
    watcher: &mut impl ReplayObserver<D>,
    outstanding: usize,
) -> Result<HostSide, E> {
    let mut host = Host { thinking: Some(ThinkTimes::default()), ..Host::default() };
    let mut starts: BinaryHeap<Reverse<Nanos>> = (0..outstanding).map(|_| Reverse(Nanos::ZERO)).collect();
    // Peekable, so that the end of the trace is known when the last request finishes, not after its think time.
    let mut arrivals = arrivals.fuse().peekable();
    loop {
        while starts.peek().is_some_and(|start| start.0 <= host.now)
            && let Some(arrival) = arrivals.next().transpose()?
        {
            let Reverse(start) = starts.pop().expect("just seen");
            host.enqueue(arrival, start.max(host.now));
        }
        host.hand_over(drive);
        let over = arrivals.peek().is_none();
        let start = starts.peek().filter(|_| !over).map(|start| start.0);
        let finished = over && host.queue.is_empty() && drive.outstanding() == 0;
        let Some(time) = start.into_iter().chain(drive.next_event()).min().filter(|_| !finished) else {
            return Ok(host.side);
        };
        host.advance(drive, watcher, time.max(host.now));
        starts.extend(host.thought().map(Reverse));
    }
}

/// The host's queue and clock.
#[derive(Default)]
struct Host {
    now: Nanos,
    queue: VecDeque<Request>,
    /// In a closed loop, the think times of the outstanding requests.
    thinking: Option<ThinkTimes>,
    done: Vec<Completion>,
    next_id: u64,
    side: HostSide,
}

impl Host {
    fn enqueue(&mut self, arrival: Arrival, at: Nanos) {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let Arrival { think, stream, op, fua, extent, .. } = arrival;
        self.queue.push_back(Request { id, stream, op, fua, extent, arrival: at });
        if let Some(thinking) = &mut self.thinking {
            thinking.push(think);
        }
    }

    /// Submits as many requests as the drive accepts.
    fn hand_over(&mut self, drive: &mut impl Simulated) {
        while drive.outstanding() < drive.depth() as usize {
            let Some(request) = self.queue.pop_front() else { break };
            if let Err(full) = drive.submit(self.now, request) {
                self.queue.push_front(full.0);
                break;
            }
        }
        self.side.backlog_max = self.side.backlog_max.max(self.queue.len());
    }

    fn advance<D: Simulated>(&mut self, drive: &mut D, watcher: &mut impl ReplayObserver<D>, now: Nanos) {
        watcher.before(drive, now);
        self.now = now;
        self.done.clear();
        drive.advance(now, &mut self.done);
        for completion in &self.done {
            self.side.end = completion.finish;
            watcher.completed(drive, completion, self.queue.len());
        }
    }

    /// Returns the start times of the requests that follow those just finished.
    fn thought(&mut self) -> impl Iterator<Item = Nanos> {
        let thinking = self.thinking.get_or_insert_default();
        self.done.drain(..).map(|completion| completion.finish + thinking.take(completion.request.id))
    }
}

/// Think times by request: those from the oldest outstanding request on, whose ids are consecutive.
#[derive(Default)]
struct ThinkTimes {
    oldest: u64,
    /// `None` for a request that has finished.
    times: VecDeque<Option<Nanos>>,
}

impl ThinkTimes {
    /// Adds the next request's.
    fn push(&mut self, think: Nanos) {
        self.times.push_back(Some(think));
    }

    /// Takes the think time of a request that has finished.
    fn take(&mut self, id: RequestId) -> Nanos {
        let place = id.0.checked_sub(self.oldest);
        let time = place.and_then(|place| self.times.get_mut(place as usize)).and_then(Option::take);
        while let Some(None) = self.times.front() {
            self.times.pop_front();
            self.oldest += 1;
        }
        time.unwrap_or_default()
    }
}
