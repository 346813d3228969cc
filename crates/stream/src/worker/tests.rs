//! Workers without threads: each test gives them their turns.

use super::*;
use crate::barrier::{Barrier, PendingSnapshot};
use crate::board::Board;
use crate::builder::StreamBuilder;
use crate::mailbox::{PendingReply, reply};
use crate::operator::{Emitter, Join, Next as Item, Recover, Sink, Source, each};
use crate::shape::Shape;
use crate::stage::Segment;
use crate::tuple::Tuple;

const RING_SLOTS: usize = 4;

/// Outputs of the operator in the middle per tuple.
const COPIES: u64 = 3;

const MIDDLE: OperatorId = OperatorId(1);
const SINK: OperatorId = OperatorId(2);

struct Endless;

impl Source for Endless {
    type Out = ();

    fn next(&mut self, arrival_ns: u64) -> Item<()> {
        Item::Value { value: (), arrival_ns }
    }
}

struct Nowhere;

impl Recover for Nowhere {}

impl Sink for Nowhere {
    type In = ();

    fn consume(&mut self, _: Tuple<()>) {}
}

/// A chain of a source and an operator on worker 0, and a sink on worker 1, which has no turn.
struct Chain {
    workers: Vec<Worker>,
    mailboxes: Arc<Mailboxes>,
    board: Arc<Board>,
    /// Tuples that the operator in the middle has processed.
    processed: Box<dyn Fn() -> u64>,
}

impl Chain {
    fn new() -> Chain {
        let builder = StreamBuilder::new(RING_SLOTS);
        let copies = each(|(), out: &mut Emitter<()>| (0..COPIES).for_each(|_| out.emit(())));
        builder.source("endless", Endless).then("copies", copies).sink("nowhere", Nowhere);
        let mut stream = builder.build().unwrap();
        let board = Arc::new(Board::new(3, 1));
        let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&board)));
        let mut source = stream.sources.remove(0);
        let sink = tree::cut(&mut *source, SINK, RING_SLOTS, 0);
        let install = |worker, mut segment: Box<dyn Segment>| {
            tree::set_segment_worker(&mut *segment, worker);
            mailboxes.send(worker, Mail::Receive(OwnedSegment::new(segment), None));
        };
        install(0, source);
        install(1, sink);
        let idle = Idle { spin: Duration::ZERO, yields: true };
        let worker =
            |index| Worker::new(Context::new(index, Arc::clone(&board)), Arc::clone(&mailboxes), idle);
        let counters = Arc::clone(&stream.shape.operators[MIDDLE.0].counters);
        let processed = Box::new(move || counters.tuples_in.get());
        Chain { workers: (0..3).map(worker).collect(), mailboxes, board, processed }
    }

    fn turn(&mut self, worker: usize) {
        self.workers[worker].read_mail();
        self.workers[worker].run_round();
    }

    fn send(&self, worker: usize, mail: impl FnOnce(Reply) -> Mail) -> PendingReply {
        let (reply, awaited) = reply();
        self.mailboxes.send(worker, mail(reply));
        awaited
    }

    fn fusions(&self) -> u64 {
        lock(&self.board.relocations).fusions
    }
}

#[test]
fn splits_and_fusions_while_the_output_is_blocked_let_no_outputs_pile_up() {
    let mut chain = Chain::new();
    (0..4).for_each(|_| chain.turn(0));
    for round in 0..20 {
        if chain.fusions() == round {
            let (head, at) = (OperatorId(0), MIDDLE);
            chain.send(0, |reply| Mail::Split { head, at, to: 0, slots: RING_SLOTS, reply });
            (0..4).for_each(|_| chain.turn(0));
            chain.send(0, |reply| Mail::Fuse { head: MIDDLE, to: 0, reply });
        }
        (0..4).for_each(|_| chain.turn(0));
    }
    let processed = (chain.processed)();
    assert!(processed <= 2 * RING_SLOTS as u64, "{processed} tuples of which none can leave");
    for _ in 0..100 {
        chain.turn(1);
        chain.turn(0);
    }
    assert!(chain.fusions() > 0, "there is room");
}

#[test]
fn a_pause_begins_with_the_last_tuple_though_the_segment_moves_twice() {
    let mut chain = Chain::new();
    chain.turn(0);
    chain.turn(1);
    let start_ns = chain.board.now_ns();
    while chain.board.now_ns() < start_ns + 1_000_000 {}
    // Worker 2 has no turn between its messages: it only passes the segment on.
    chain.send(1, |reply| Mail::Move { head: SINK, to: 2, reply });
    chain.workers[1].read_mail();
    chain.workers[2].read_mail();
    chain.send(2, |reply| Mail::Move { head: SINK, to: 1, reply });
    chain.workers[2].read_mail();
    let end_ns = chain.board.now_ns();
    chain.turn(0);
    chain.turn(1);
    let relocations = lock(&chain.board.relocations);
    assert_eq!((relocations.pause_ns.len(), relocations.handover_ns.len()), (1, 2));
    assert!(relocations.pause_ns.max() >= end_ns - start_ns);
}

/// A source that never emits a tuple.
struct Silent;

impl Source for Silent {
    type Out = ();

    fn next(&mut self, _: u64) -> Item<()> {
        Item::At(u64::MAX)
    }
}

struct Both;

impl Recover for Both {}

impl Join for Both {
    type Left = ();
    type Right = ();
    type Out = ();

    fn left(&mut self, (): (), _: &mut Emitter<()>) {}

    fn right(&mut self, (): (), _: &mut Emitter<()>) {}
}

/// A source on worker 0; a join and its right source on worker 1.
struct Joined {
    workers: Vec<Worker>,
    mailboxes: Arc<Mailboxes>,
    board: Arc<Board>,
    shape: Shape,
    barrier: Barrier,
}

impl Joined {
    const LEFT: OperatorId = OperatorId(0);
    const RIGHT: OperatorId = OperatorId(1);
    const JOIN: OperatorId = OperatorId(2);

    fn new(left: impl Source<Out = ()>, right: impl Source<Out = ()>) -> Joined {
        let builder = StreamBuilder::new(RING_SLOTS);
        let (left, right) = (builder.source("left", left), builder.source("right", right));
        left.join("join", right, Both).sink("nowhere", Nowhere);
        let stream = builder.build().unwrap();
        let board = Arc::new(Board::new(2, 1));
        let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&board)));
        let install = |worker, mut segment: Box<dyn Segment>| {
            tree::set_segment_worker(&mut *segment, worker);
            mailboxes.send(worker, Mail::Receive(OwnedSegment::new(segment), None));
        };
        for mut source in stream.sources {
            if source.root().operator() == Joined::RIGHT {
                install(1, source);
                continue;
            }
            install(1, tree::cut(&mut *source, Joined::JOIN, RING_SLOTS, 0));
            install(0, source);
        }
        let idle = Idle { spin: Duration::ZERO, yields: true };
        let worker =
            |index| Worker::new(Context::new(index, Arc::clone(&board)), Arc::clone(&mailboxes), idle);
        let barrier = Barrier::new(&stream.shape, 1);
        Joined { workers: (0..2).map(worker).collect(), mailboxes, board, shape: stream.shape, barrier }
    }

    fn turn(&mut self, worker: usize) {
        self.workers[worker].read_mail();
        self.workers[worker].run_round();
    }

    fn send_barrier(&self, worker: usize, head: OperatorId) {
        self.mailboxes.send(worker, Mail::Barrier { head, barrier: self.barrier.clone() });
    }

    /// Tuples that an operator has received or, as a source, produced.
    fn tuples(&self, operator: OperatorId) -> u64 {
        self.shape.operators[operator.0].counters.tuples_in.get()
    }

    /// Numbers of the next items of the join's inputs in the snapshot, which is complete.
    fn cut(self) -> Vec<u64> {
        let violations = self.shape.operators.iter().map(|it| it.counters.sequence_violations.get());
        assert_eq!(violations.sum::<u64>(), 0);
        let snapshot = PendingSnapshot { barrier: self.barrier, board: self.board }.wait().unwrap();
        snapshot.operators[Joined::JOIN.0].progress.inputs.iter().map(|input| input.sequence).collect()
    }
}

#[test]
fn what_a_fusion_finds_behind_a_barrier_waits_for_the_barrier_of_the_other_input() {
    let mut joined = Joined::new(Endless, Silent);
    joined.send_barrier(0, Joined::LEFT);
    joined.turn(0);
    let emitted = joined.tuples(Joined::LEFT);
    let (reply, _awaited) = reply();
    joined.mailboxes.send(1, Mail::Fuse { head: Joined::JOIN, to: 0, reply });
    joined.turn(1);
    (0..3).for_each(|_| joined.turn(0));
    assert_eq!(lock(&joined.board.relocations).fusions, 1);
    let tuples = [Joined::LEFT, Joined::JOIN].map(|operator| joined.tuples(operator));
    assert_eq!(tuples, [emitted, 0], "the source is held back");

    joined.send_barrier(1, Joined::RIGHT);
    joined.turn(1);
    joined.turn(0);
    assert!(joined.tuples(Joined::JOIN) >= RING_SLOTS as u64);
    assert_eq!(joined.cut(), [0, 0]);
}

#[test]
fn each_input_of_a_join_is_held_back_at_its_barrier_whichever_comes_first() {
    let mut joined = Joined::new(Silent, Endless);
    joined.send_barrier(1, Joined::RIGHT);
    (0..5).for_each(|_| joined.turn(1));
    assert_eq!(joined.tuples(Joined::JOIN), 0);
    joined.send_barrier(0, Joined::LEFT);
    joined.turn(0);
    (0..2).for_each(|_| joined.turn(1));
    assert!(joined.tuples(Joined::JOIN) >= RING_SLOTS as u64);
    assert_eq!(joined.cut(), [0, 0]);

    let mut joined = Joined::new(Endless, Silent);
    joined.send_barrier(0, Joined::LEFT);
    (0..5).for_each(|turn| joined.turn(turn % 2));
    assert_eq!(joined.tuples(Joined::JOIN), 0);
    joined.send_barrier(1, Joined::RIGHT);
    (0..2).for_each(|_| joined.turn(1));
    assert!(joined.tuples(Joined::JOIN) >= RING_SLOTS as u64);
    assert_eq!(joined.cut(), [0, 0]);
}
