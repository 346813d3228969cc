//! Model checks of bins that move between replicas on different workers.

use std::sync::Arc;

use super::{Collect, Numbers, TUPLE_COUNT, check, install, start};
use crate::barrier::Barrier;
use crate::board::Board;
use crate::builder::StreamBuilder;
use crate::mailbox::{Mail, Mailboxes};
use crate::operator::{Emitter, each};
use crate::replicas::{Migration, Replicas};
use crate::sync::{Mutex, lock};
use crate::tree;
use crate::tuple::OperatorId;

const SOURCE: OperatorId = OperatorId(0);
/// The second replica, after the source, the partition and the first one.
const SECOND: OperatorId = OperatorId(3);

/// Runs a stream with a replica on each of two workers, whose bins move to these replicas while tuples flow.
fn migrate(to: [usize; 2]) {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let builder = StreamBuilder::new(1);
    let keyed =
        builder
            .source("numbers", Numbers(0))
            .by_key("by key", Replicas::new(2).bins(2), |number: &u64| *number);
    let same = keyed.then("same", || each(|number, out: &mut Emitter<u64>| out.emit(number)));
    same.merge("merge").sink("sink", Collect(Arc::clone(&collected)));
    let mut stream = builder.build().expect("a chain");
    let mut source = stream.sources.remove(0);
    let board = Arc::new(Board::new(2, 1));
    let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&board)));
    let tail = tree::cut(&mut *source, SECOND, 1, 0);
    install(&mailboxes, 1, tail);
    install(&mailboxes, 0, source);
    let from = stream.shape.groups[0].bins.replica_of();
    let barrier = Barrier::migrating(&stream.shape, 1, Migration::new(0, from, &to));
    let threads = start(&board, &mailboxes);
    mailboxes.send(0, Mail::Barrier { head: SOURCE, barrier: barrier.clone() });
    board.wait_for_snapshot(|| barrier.is_complete()).expect("no worker is lost");
    board.wait_for_sinks().expect("no worker is lost");
    (0..2).for_each(|worker| mailboxes.send(worker, Mail::Quit));
    threads.into_iter().for_each(|thread| thread.join().expect("a worker does not panic"));
    let mut found = lock(&collected).clone();
    found.sort_unstable();
    assert_eq!(found, (1..=TUPLE_COUNT).collect::<Vec<u64>>());
}

#[test]
fn bins_move_to_the_replica_on_the_other_worker() {
    check(1, || migrate([1, 1]));
}

#[test]
fn bins_come_from_the_replica_on_the_other_worker() {
    check(1, || migrate([0, 0]));
}

#[test]
fn replicas_on_two_workers_swap_their_bins() {
    check(1, || migrate([1, 0]));
}
