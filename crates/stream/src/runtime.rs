//! A stream that runs, and changes of its placement.
//!
//! Changes are made one at a time: a call returns when the segment is where it was sent to. The threads that process
//! tuples never wait for a change.

mod placing;
mod replicas;
mod snapshots;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sakiyomi_os::affinity::{pin, usable_cpus};
use sakiyomi_os::process::Thread;
use sakiyomi_os::topology::Cpus;

use crate::board::{Board, Context};
use crate::builder::Stream;
use crate::counters::OperatorReport;
use crate::error::{Error, Failure};
use crate::guard::message;
use crate::mailbox::{Mail, Mailboxes, OwnedSegment, PendingReply, Reply, reply};
use crate::relocations::Relocations;
use crate::shape::{Outline, Shape};
use crate::stage::Segment;
use crate::sync::lock;
use crate::tree;
use crate::tuple::OperatorId;
use crate::worker::{Idle, Worker};

/// Time that [`Settings::pinned`] and [`Settings::unpinned`] poll before they park: about a wake-up by the kernel, so
/// that waiting costs at most twice the better choice.
const SPIN_US: u64 = 20;

/// Threads of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For each worker the CPU that it is pinned to; none leaves it to the kernel.
    pub workers: Vec<Option<usize>>,
    /// Time that a worker without input polls before it parks, and that it polls before a source is due.
    pub spin: Duration,
}

impl Settings {
    /// Returns a worker on each of these CPUs.
    #[must_use]
    pub fn pinned(cpus: &Cpus) -> Settings {
        let workers = cpus.iter().map(|&cpu| Some(cpu)).collect();
        Settings { workers, spin: Duration::from_micros(SPIN_US) }
    }

    /// This number of workers, on any CPUs.
    #[must_use]
    pub fn unpinned(workers: usize) -> Settings {
        Settings { workers: vec![None; workers], spin: Duration::from_micros(SPIN_US) }
    }
}

/// A running stream. Dropped, it stops its threads at the next tuple; what is in the rings is lost.
pub struct Running {
    board: Arc<Board>,
    mailboxes: Arc<Mailboxes>,
    shape: Shape,
    ring_slots: usize,
    /// The worker of each segment, by its first operator.
    segments: BTreeMap<OperatorId, usize>,
    /// Epoch of the last snapshot.
    epoch: u64,
    threads: Vec<std::thread::JoinHandle<()>>,
    /// Times of each worker's thread, if the kernel tells them.
    times: Vec<Option<Thread>>,
}

/// Counters and failures of a stream.
#[derive(Clone, Debug)]
pub struct Report {
    /// Counters of each operator, in the order of their numbers, replicas apart.
    pub operators: Vec<OperatorReport>,
    /// Operators that stopped.
    pub failures: Vec<Failure>,
    /// Changes of the placement.
    pub relocations: Relocations,
}

impl Report {
    /// Counters of each operator, all replicas of one as one: numbered as in a placement.
    #[must_use]
    pub fn joined(&self) -> Vec<OperatorReport> {
        let mut joined: Vec<OperatorReport> = Vec::new();
        for operator in &self.operators {
            match (operator.replica, joined.last_mut()) {
                // The replicas of an operator follow each other.
                (Some(1..), Some(first)) => first.add_replica(operator),
                _ => joined.push(operator.clone()),
            }
        }
        joined
    }
}

impl Stream {
    /// Returns the names of the operators, in the order of their numbers, replicas apart.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shape.operators.iter().map(|operator| operator.name.as_str())
    }

    /// Starts the stream with each operator on the worker that `worker_of` names.
    ///
    /// # Errors
    /// If there are not as many entries as operators, a worker does not exist, or a thread cannot be started or
    /// pinned.
    pub fn start(self, settings: Settings, worker_of: &[usize]) -> Result<Running, Error> {
        let board = Board::new(settings.workers.len(), self.shape.sinks);
        self.launch(settings, worker_of, board, 0)
    }

    /// Starts the stream on a board, after the snapshot of an epoch.
    fn launch(
        self,
        settings: Settings,
        worker_of: &[usize],
        board: Board,
        epoch: u64,
    ) -> Result<Running, Error> {
        let (operators, workers) = (self.shape.operators.len(), settings.workers.len());
        if worker_of.len() != operators {
            return Err(Error::Operators { given: worker_of.len(), operators });
        }
        if let Some(&worker) = worker_of.iter().find(|&&worker| worker >= workers) {
            return Err(Error::Worker { worker, workers });
        }
        let board = Arc::new(board);
        let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&board)));
        let (segments, shape, ring_slots) = self.cut(worker_of);
        let mut running = Running {
            board,
            mailboxes,
            shape,
            ring_slots,
            segments: BTreeMap::new(),
            epoch,
            threads: Vec::new(),
            times: Vec::new(),
        };
        for (head, mut segment) in segments {
            let worker = worker_of[head.0];
            tree::set_segment_worker(&mut *segment, worker);
            tree::connect(segment.root(), &running.board);
            running.segments.insert(head, worker);
            running.mailboxes.send(worker, Mail::Receive(OwnedSegment::new(segment), None));
        }
        running.start_threads(&settings)?;
        Ok(running)
    }

    /// Returns the segments of a placement, by their first operators.
    fn cut(self, worker_of: &[usize]) -> (Segments, Shape, usize) {
        let Stream { ring_slots, shape, sources } = self;
        let mut segments: Segments =
            sources.into_iter().map(|mut source| (source.root().operator(), source)).collect();
        // An operator has a higher number than the previous one, so that heads are found.
        for at in (0..worker_of.len()).map(OperatorId) {
            if segments.contains_key(&at) || !shape.is_cut(at, worker_of) {
                continue;
            }
            let head = shape.head(at, |head| segments.contains_key(&head));
            let segment = segments.get_mut(&head).expect("each operator follows a source");
            let tail = tree::cut(&mut **segment, at, ring_slots, worker_of[head.0]);
            segments.insert(at, tail);
        }
        (segments, shape, ring_slots)
    }
}

/// Segments by their first operators.
type Segments = BTreeMap<OperatorId, Box<dyn Segment>>;

impl Running {
    fn start_threads(&mut self, settings: &Settings) -> Result<(), Error> {
        // The thread that makes changes needs a CPU as well.
        let yields = usable_cpus()?.len() <= settings.workers.len();
        let (tell, started) = mpsc::channel();
        for (index, &cpu) in settings.workers.iter().enumerate() {
            let idle = Idle { spin: settings.spin, yields };
            let (board, mailboxes) = (Arc::clone(&self.board), Arc::clone(&self.mailboxes));
            let worker = Worker::new(Context::new(index, Arc::clone(&board)), Arc::clone(&mailboxes), idle);
            let tell = tell.clone();
            let thread = std::thread::Builder::new().name(format!("stream-{index}"));
            let thread = thread.spawn(move || {
                match cpu.map(|cpu| pin(&Cpus::from([cpu]))).transpose() {
                    // The starter waits for each worker, so that it hears this.
                    Err(error) => drop(tell.send(Err(error))),
                    Ok(_pinned) => {
                        let _ = tell.send(Ok((index, Thread::current().ok())));
                        drop(tell);
                        run(worker, index, &board, &mailboxes);
                    }
                }
            });
            self.threads.push(thread.map_err(Error::Thread)?);
        }
        drop(tell);
        let mut times = started.into_iter().collect::<Result<Vec<_>, _>>().map_err(Error::System)?;
        times.sort_by_key(|&(index, _)| index);
        self.times = times.into_iter().map(|(_, times)| times).collect();
        Ok(())
    }

    /// State that the workers share.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Takes the times of the workers' threads, each if the kernel tells them.
    pub(crate) fn take_times(&mut self) -> Vec<Option<Thread>> {
        std::mem::take(&mut self.times)
    }

    /// Returns the first operator of each segment and its worker.
    pub fn segments(&self) -> impl Iterator<Item = (OperatorId, usize)> + '_ {
        self.segments.iter().map(|(&head, &worker)| (head, worker))
    }

    /// Gives the segment that begins with `head` to another worker. Upstream continues to push into the same ring.
    ///
    /// # Errors
    /// If no segment begins there, the worker does not exist, or a worker was lost.
    pub fn relocate(&mut self, head: OperatorId, worker: usize) -> Result<(), Error> {
        let from = self.worker_of_segment(head)?;
        self.check_worker(worker)?;
        if from != worker {
            self.board.wakers[worker].wake();
            self.change(from, |reply| Mail::Move { head, to: worker, reply })?;
            self.segments.insert(head, worker);
        }
        Ok(())
    }

    /// Splits a segment before `at`, which becomes the first operator of a segment on `worker`.
    ///
    /// # Errors
    /// If a segment begins there, the operator or worker does not exist, or a worker was lost.
    pub fn split(&mut self, at: OperatorId, worker: usize) -> Result<(), Error> {
        self.check_worker(worker)?;
        if at.0 >= self.shape.operators.len() {
            return Err(Error::Segment { operator: at, reason: "does not exist" });
        }
        if self.segments.contains_key(&at) {
            return Err(Error::Segment { operator: at, reason: "is already the first of a segment" });
        }
        let (head, slots) = (self.segment_of(at), self.ring_slots);
        self.board.wakers[worker].wake();
        self.change(self.segments[&head], |reply| Mail::Split { head, at, to: worker, slots, reply })?;
        self.segments.insert(at, worker);
        Ok(())
    }

    /// Fuses the segment that begins with `head` with the previous one, on the worker of that one.
    ///
    /// # Errors
    /// If no segment begins there, it is a source, or a worker was lost.
    pub fn fuse(&mut self, head: OperatorId) -> Result<(), Error> {
        let from = self.worker_of_segment(head)?;
        let Some(before) = self.shape.parent(head) else {
            return Err(Error::Segment { operator: head, reason: "is a source, and follows no segment" });
        };
        let to = self.segments[&self.segment_of(before)];
        self.board.wakers[to].wake();
        self.change(from, |reply| Mail::Fuse { head, to, reply })?;
        self.segments.remove(&head);
        Ok(())
    }

    /// Returns the counters at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        let report = |operator: &Outline| OperatorReport {
            replica: operator.replica.map(|place| place.replica),
            ..operator.counters.report(&operator.name)
        };
        Report {
            operators: self.shape.operators.iter().map(report).collect(),
            failures: lock(&self.board.failures).clone(),
            relocations: lock(&self.board.relocations).clone(),
        }
    }

    /// Ends all sources. What they have emitted is processed.
    pub fn end_sources(&self) {
        (0..self.threads.len()).for_each(|worker| self.mailboxes.send(worker, Mail::End));
    }

    /// Waits until the end has reached all sinks, in the order of the operators, and stops the threads.
    ///
    /// # Errors
    /// If a worker was lost. An operator that stopped is in the report.
    pub fn finish(self) -> Result<Report, Error> {
        self.board.wait_for_sinks()?;
        Ok(self.report())
    }

    /// Sends a worker a change and waits until it has been made.
    fn change(&self, worker: usize, mail: impl FnOnce(Reply) -> Mail) -> Result<(), Error> {
        let (reply, awaited): (Reply, PendingReply) = reply();
        self.mailboxes.send(worker, mail(reply));
        if awaited.wait() { Ok(()) } else { Err(self.board.wait_for_loss()) }
    }

    fn segment_of(&self, operator: OperatorId) -> OperatorId {
        self.shape.head(operator, |head| self.segments.contains_key(&head))
    }

    fn worker_of_segment(&self, head: OperatorId) -> Result<usize, Error> {
        let worker = self.segments.get(&head).copied();
        worker.ok_or(Error::Segment { operator: head, reason: "is not the first of a segment" })
    }

    fn check_worker(&self, worker: usize) -> Result<(), Error> {
        let workers = self.board.wakers.len();
        if worker < workers { Ok(()) } else { Err(Error::Worker { worker, workers }) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.board.stop();
        (0..self.threads.len()).for_each(|worker| self.mailboxes.send(worker, Mail::Quit));
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        // Segments on their way to a worker that has quit.
        (0..self.board.wakers.len()).for_each(|worker| self.mailboxes.close(worker));
    }
}

/// Runs a worker. If it panics, reports that to the board and closes its mailbox, so that no caller waits for
/// a reply.
fn run(mut worker: Worker, index: usize, board: &Board, mailboxes: &Mailboxes) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| worker.run())) {
        board.worker_lost(index, message(panic));
        mailboxes.close(index);
    }
    worker.drop_segments();
}

#[cfg(all(test, not(loom)))]
mod tests;
