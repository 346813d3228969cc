//! Model checks of barriers: of the alignment at a join, and of the collection of states.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::{check, install, start};
use crate::barrier::{Barrier, PendingSnapshot, Saved};
use crate::board::Board;
use crate::builder::StreamBuilder;
use crate::error::Error;
use crate::mailbox::{Mail, Mailboxes, Reply, reply};
use crate::operator::{Emitter, Join, Next, Recover, Sink, Source};
use crate::shape::Shape;
use crate::snapshot::{Progress, Snapshot};
use crate::state::{Decode, Decoder, Encode, SaveState, StateError};
use crate::tree;
use crate::tuple::{OperatorId, Tuple};

/// Tuples of each source: as many as its ring has slots, so that a barrier finds it full.
const TUPLE_COUNT: u64 = 1;

const LEFT: OperatorId = OperatorId(0);
const RIGHT: OperatorId = OperatorId(1);
const JOIN: OperatorId = OperatorId(2);
const SINK: OperatorId = OperatorId(3);

/// Tuples of each side.
#[derive(Default)]
struct Counts {
    left: u64,
    right: u64,
}

impl SaveState for Counts {
    fn save(&self, out: &mut Vec<u8>) {
        (self.left, self.right).encode(out);
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        (self.left, self.right) = Decode::decode(&mut Decoder::new(bytes))?;
        Ok(())
    }
}

/// Counts what it emits as of the left side. Does not end by itself, so that nothing but the snapshot wakes the thread
/// that waits for it.
#[derive(Default)]
struct Numbers(Counts);

impl Source for Numbers {
    type Out = ();

    fn next(&mut self, _: u64) -> Next<()> {
        if self.0.left == TUPLE_COUNT {
            return Next::At(u64::MAX);
        }
        self.0.left += 1;
        Next::Value { value: (), arrival_ns: 0 }
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(&mut self.0)
    }
}

impl Recover for Counts {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Join for Counts {
    type Left = ();
    type Right = ();
    type Out = ();

    fn left(&mut self, (): (), out: &mut Emitter<()>) {
        self.left += 1;
        out.emit(());
    }

    fn right(&mut self, (): (), out: &mut Emitter<()>) {
        self.right += 1;
        out.emit(());
    }
}

impl Sink for Counts {
    type In = ();

    fn consume(&mut self, _: Tuple<()>) {
        self.left += 1;
    }
}

/// Two sources, a join and a sink on two workers.
struct Joined {
    board: Arc<Board>,
    mailboxes: Arc<Mailboxes>,
    shape: Shape,
    threads: Vec<JoinHandle<()>>,
}

impl Joined {
    /// Starts it with the left source on worker 0 and the right one on `right`. The join is called by the left source,
    /// or has a segment of its own on the worker `join`.
    fn start(right: usize, join: Option<usize>) -> Joined {
        let builder = StreamBuilder::new(1);
        let left = builder.source("left", Numbers::default());
        let other = builder.source("right", Numbers::default());
        left.join("join", other, Counts::default()).sink("sink", Counts::default());
        let stream = builder.build().expect("a join");
        let board = Arc::new(Board::new(2, 1));
        let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&board)));
        for mut source in stream.sources {
            if source.root().operator() == RIGHT {
                install(&mailboxes, right, source);
                continue;
            }
            if let Some(join) = join {
                let tail = tree::cut(&mut *source, JOIN, 1, 0);
                install(&mailboxes, join, tail);
            }
            install(&mailboxes, 0, source);
        }
        Joined { threads: start(&board, &mailboxes), board, mailboxes, shape: stream.shape }
    }

    /// Lets the sources emit a barrier; the right one is on this worker.
    fn begin_snapshot(&self, right: usize) -> PendingSnapshot {
        let barrier = Barrier::new(&self.shape, 1);
        // The one to the ring first: its barrier can be there long before the other one has been sent.
        for (head, worker) in [(RIGHT, right), (LEFT, 0)] {
            self.mailboxes.send(worker, Mail::Barrier { head, barrier: barrier.clone() });
        }
        PendingSnapshot { barrier, board: Arc::clone(&self.board) }
    }

    fn change(&self, worker: usize, mail: impl FnOnce(Reply) -> Mail) {
        let (reply, awaited) = reply();
        self.mailboxes.send(worker, mail(reply));
        assert!(awaited.wait());
    }

    /// Ends the sources, waits for the sink, and checks that a snapshot is a consistent cut.
    fn finish(self, snapshot: &Snapshot) {
        (0..2).for_each(|worker| self.mailboxes.send(worker, Mail::End));
        self.board.wait_for_sinks().expect("no worker is lost");
        (0..2).for_each(|worker| self.mailboxes.send(worker, Mail::Quit));
        self.threads.into_iter().for_each(|thread| thread.join().expect("a worker does not panic"));
        let counts = |operator: OperatorId| {
            let mut counts = Counts::default();
            let saved = snapshot.operators[operator.0].state.as_ref().expect("it is saved");
            counts.load(saved).expect("it was saved");
            (counts.left, counts.right)
        };
        let (left, right) = (counts(LEFT).0, counts(RIGHT).0);
        assert_eq!(counts(JOIN), (left, right));
        assert_eq!(counts(SINK), (left + right, 0));
        for operator in &self.shape.operators {
            assert_eq!(operator.counters.sequence_violations.get(), 0, "{}", operator.name);
        }
    }
}

#[test]
fn the_inputs_of_a_join_are_cut_where_their_sources_are() {
    check(1, || {
        let joined = Joined::start(1, None);
        let snapshot = joined.begin_snapshot(1).wait().expect("no worker is lost");
        joined.finish(&snapshot);
    });
}

#[test]
fn a_join_moves_while_barriers_are_in_its_rings() {
    check(1, || {
        let joined = Joined::start(0, Some(1));
        let pending = joined.begin_snapshot(0);
        joined.change(1, |reply| Mail::Move { head: JOIN, to: 0, reply });
        let snapshot = pending.wait().expect("no worker is lost");
        joined.finish(&snapshot);
    });
}

#[test]
fn the_ring_of_a_join_becomes_a_call_while_barriers_are_in_its_rings() {
    check(1, || {
        let joined = Joined::start(1, Some(1));
        let pending = joined.begin_snapshot(1);
        joined.change(1, |reply| Mail::Fuse { head: JOIN, to: 0, reply });
        let snapshot = pending.wait().expect("no worker is lost");
        joined.finish(&snapshot);
    });
}

#[test]
fn a_snapshot_is_complete_or_stopped_while_the_workers_quit() {
    check(1, || {
        let joined = Joined::start(1, None);
        let pending = joined.begin_snapshot(1);
        let waiting = thread::spawn(move || pending.wait().map(drop));
        joined.board.stop();
        (0..2).for_each(|worker| joined.mailboxes.send(worker, Mail::Quit));
        joined.threads.into_iter().for_each(|thread| thread.join().expect("a worker does not panic"));
        let waited = waiting.join().expect("the wait does not panic");
        assert!(matches!(waited, Ok(()) | Err(Error::Stopped)));
    });
}

#[test]
fn the_thread_that_waits_for_a_snapshot_is_woken_by_the_last_report() {
    check(3, || {
        let builder = StreamBuilder::new(1);
        builder.source("numbers", Numbers::default()).sink("sink", Counts::default());
        let stream = builder.build().expect("a chain");
        let (barrier, board) = (Barrier::new(&stream.shape, 1), Arc::new(Board::new(1, 1)));
        let pending = PendingSnapshot { barrier: barrier.clone(), board: Arc::clone(&board) };
        let reports = (0..2).map(|operator| {
            let (barrier, board) = (barrier.clone(), Arc::clone(&board));
            thread::spawn(move || {
                let saved = Saved { state: None, restart_state: None, progress: Progress::default() };
                barrier.report(OperatorId(operator), Ok(saved), &board);
            })
        });
        let reports: Vec<JoinHandle<()>> = reports.collect();
        assert!(pending.wait().is_ok());
        reports.into_iter().for_each(|thread| thread.join().expect("a report does not panic"));
    });
}
