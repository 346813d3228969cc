//! Workers without threads: each test gives them their turns.

use super::*;
use crate::board::Board;
use crate::builder::StreamBuilder;
use crate::mailbox::{Awaited, reply};
use crate::operator::{Emitter, Next as Item, Recover, Sink, Source, each};
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
    post: Arc<Post>,
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
        let post = Arc::new(Post::new(Arc::clone(&board)));
        let mut source = stream.sources.remove(0);
        let sink = tree::cut(&mut *source, SINK, RING_SLOTS, 0);
        let install = |worker, mut segment: Box<dyn Segment>| {
            tree::set_segment_worker(&mut *segment, worker);
            post.send(worker, Mail::Install(Capsule::new(segment), None));
        };
        install(0, source);
        install(1, sink);
        let idle = Idle { spin: Duration::ZERO, yields: true };
        let worker = |index| Worker::new(Context::new(index, Arc::clone(&board)), Arc::clone(&post), idle);
        let counters = Arc::clone(&stream.shape.operators[MIDDLE.0].counters);
        let processed = Box::new(move || counters.tuples_in.get());
        Chain { workers: (0..3).map(worker).collect(), post, board, processed }
    }

    fn turn(&mut self, worker: usize) {
        self.workers[worker].read_mail();
        self.workers[worker].pass();
    }

    fn send(&self, worker: usize, mail: impl FnOnce(Reply) -> Mail) -> Awaited {
        let (reply, awaited) = reply();
        self.post.send(worker, mail(reply));
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
