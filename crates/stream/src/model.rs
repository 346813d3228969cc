//! Model checks of hand-over, splits, fusions and parking: loom runs workers with the real code, on a model of the
//! ring (`ring/model.rs`), in every order in which they can meet, up to a limit of preemptions. It reports a wake-up
//! that is lost as a deadlock.

mod outside;
mod replicas;
mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use loom::thread::{self, JoinHandle};

use crate::board::{Board, Context};
use crate::builder::StreamBuilder;
use crate::mailbox::{Mail, Mailboxes, OwnedSegment, Reply, reply};
use crate::operator::{Emitter, Next, Recover, Sink, Source, each};
use crate::stage::Segment;
use crate::sync::{Mutex, lock};
use crate::tree;
use crate::tuple::{OperatorId, Tuple};
use crate::worker::{Idle, Worker};

/// Tuples of each model: more than a ring has slots.
const TUPLE_COUNT: u64 = 2;

/// The operator in the middle of the chain, where it is cut.
const MIDDLE: OperatorId = OperatorId(1);

struct Numbers(u64);

impl Source for Numbers {
    type Out = u64;

    fn next(&mut self, _: u64) -> Next<u64> {
        self.0 += 1;
        if self.0 > TUPLE_COUNT { Next::End } else { Next::Value { value: self.0, arrival_ns: 0 } }
    }
}

struct Collect(Arc<Mutex<Vec<u64>>>);

impl Recover for Collect {}

impl Sink for Collect {
    type In = u64;

    fn consume(&mut self, tuple: Tuple<u64>) {
        lock(&self.0).push(tuple.value);
    }
}

/// Workers that run a chain of a source, an operator and a sink.
struct Chain {
    board: Arc<Board>,
    mailboxes: Arc<Mailboxes>,
    threads: Vec<JoinHandle<()>>,
    collected: Arc<Mutex<Vec<u64>>>,
}

impl Chain {
    /// Starts it on the first worker; cut before the middle, the tail is on the second one.
    fn start(workers: usize, is_cut: bool) -> Chain {
        let collected = Arc::new(Mutex::new(Vec::new()));
        let builder = StreamBuilder::new(1);
        let same = each(|number, out: &mut Emitter<u64>| out.emit(number));
        let sink = Collect(Arc::clone(&collected));
        builder.source("numbers", Numbers(0)).then("same", same).sink("sink", sink);
        let mut stream = builder.build().expect("a chain");
        let mut source = stream.sources.remove(0);
        let board = Arc::new(Board::new(workers, 1));
        let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&board)));
        if is_cut {
            let tail = tree::cut(&mut *source, MIDDLE, 1, 0);
            install(&mailboxes, 1, tail);
        }
        install(&mailboxes, 0, source);
        Chain { threads: start(&board, &mailboxes), board, mailboxes, collected }
    }

    /// Makes a change and waits until it has been made.
    fn change(&self, worker: usize, mail: impl FnOnce(Reply) -> Mail) {
        let (reply, awaited) = reply();
        self.mailboxes.send(worker, mail(reply));
        assert!(awaited.wait());
    }

    /// Waits for the end, and checks the result.
    fn finish(self) {
        self.board.wait_for_sinks().expect("no worker is lost");
        (0..self.threads.len()).for_each(|worker| self.mailboxes.send(worker, Mail::Quit));
        self.threads.into_iter().for_each(|thread| thread.join().expect("a worker does not panic"));
        assert_eq!(*lock(&self.collected), (1..=TUPLE_COUNT).collect::<Vec<u64>>());
    }
}

/// Gives a segment to a worker that has not started.
fn install(mailboxes: &Mailboxes, worker: usize, mut segment: Box<dyn Segment>) {
    tree::set_segment_worker(&mut *segment, worker);
    mailboxes.send(worker, Mail::Receive(OwnedSegment::new(segment), None));
}

/// Starts all workers.
fn start(board: &Arc<Board>, mailboxes: &Arc<Mailboxes>) -> Vec<JoinHandle<()>> {
    let threads = (0..board.wakers.len()).map(|index| {
        let idle = Idle { spin: Duration::ZERO, yields: true };
        let mut worker = Worker::new(Context::new(index, Arc::clone(board)), Arc::clone(mailboxes), idle);
        thread::spawn(move || worker.run())
    });
    threads.collect()
}

/// Runs `what` in every interleaving with at most `stops_max` preemptions.
fn check(stops_max: usize, what: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(stops_max);
    builder.max_branches = 20_000;
    builder.check(what);
}

#[test]
fn tuples_pass_a_ring_that_is_full_and_empty() {
    check(2, || Chain::start(2, true).finish());
}

#[test]
fn the_consumer_of_a_ring_moves_to_the_worker_of_the_producer() {
    check(2, || {
        let chain = Chain::start(2, true);
        chain.change(1, |reply| Mail::Move { head: MIDDLE, to: 0, reply });
        chain.finish();
    });
}

#[test]
fn the_producer_of_a_ring_moves_to_the_worker_of_the_consumer() {
    check(2, || {
        let chain = Chain::start(2, true);
        chain.change(0, |reply| Mail::Move { head: OperatorId(0), to: 1, reply });
        chain.finish();
    });
}

#[test]
fn a_consumer_moves_to_a_worker_without_any_segment() {
    check(1, || {
        let chain = Chain::start(3, true);
        chain.change(1, |reply| Mail::Move { head: MIDDLE, to: 2, reply });
        chain.finish();
    });
}

#[test]
fn a_call_becomes_a_ring_to_another_worker() {
    check(1, || {
        let chain = Chain::start(2, false);
        chain.change(0, |reply| Mail::Split { head: OperatorId(0), at: MIDDLE, to: 1, slots: 1, reply });
        chain.finish();
    });
}

#[test]
fn a_ring_becomes_a_call() {
    check(2, || {
        let chain = Chain::start(2, true);
        chain.change(1, |reply| Mail::Fuse { head: MIDDLE, to: 0, reply });
        chain.finish();
    });
}

#[test]
fn a_call_becomes_a_ring_and_a_call_again() {
    check(1, || {
        let chain = Chain::start(2, false);
        chain.change(0, |reply| Mail::Split { head: OperatorId(0), at: MIDDLE, to: 1, slots: 1, reply });
        chain.change(1, |reply| Mail::Fuse { head: MIDDLE, to: 0, reply });
        chain.finish();
    });
}
