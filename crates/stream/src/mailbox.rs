//! Messages to workers. A segment is handed over in one: its release by one worker and its receipt by another are
//! ordered by the lock of the mailbox.

use std::mem;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::board::Board;
use crate::guard::{drop_all_quietly, drop_quietly};
use crate::run_length::RunLength;
use crate::stage::Segment;
use crate::sync::{Condvar, Mutex, Ordering, fence, lock, wait};
use crate::tuple::OperatorId;

/// A segment that has one owner: a slot of a worker, or a message.
pub(crate) struct OwnedSegment {
    pub(crate) inner: Box<dyn Segment>,
    /// When another worker released it, until it has been received.
    pub(crate) released_ns: Option<u64>,
    /// End of its last slice with tuples; none before the first.
    pub(crate) ran_ns: Option<u64>,
    /// It has gone to another worker since then.
    pub(crate) has_moved: bool,
    /// Length of its next run.
    pub(crate) run_length: RunLength,
}

impl OwnedSegment {
    pub(crate) fn new(inner: Box<dyn Segment>) -> OwnedSegment {
        OwnedSegment {
            inner,
            released_ns: None,
            ran_ns: None,
            has_moved: false,
            run_length: RunLength::new(),
        }
    }
}

/// A message to a worker. A reply is sent when the change has been made.
pub(crate) enum Mail {
    /// Run this segment.
    Receive(OwnedSegment, Option<Reply>),
    /// Give the segment that begins with `head` to another worker.
    Move { head: OperatorId, to: usize, reply: Reply },
    /// Split the segment that begins with `head` before `at`, and give the tail to a worker.
    Split { head: OperatorId, at: OperatorId, to: usize, slots: usize, reply: Reply },
    /// Hand the segment that begins with `head` to the worker of the upstream segment.
    Fuse { head: OperatorId, to: usize, reply: Reply },
    /// Fuse this segment with the upstream one.
    ReceiveFused(OwnedSegment, Reply),
    /// Have the source `head` emit this barrier.
    Barrier { head: OperatorId, barrier: Barrier },
    /// End the sources.
    End,
    /// Return, whatever is in the rings.
    Quit,
}

/// The mailboxes of all workers.
pub(crate) struct Mailboxes {
    boxes: Box<[Mutex<Mailbox>]>,
    board: Arc<Board>,
}

#[derive(Default)]
struct Mailbox {
    mail: Vec<Mail>,
    /// Its worker has ended and reads nothing more.
    is_closed: bool,
}

impl Mailboxes {
    pub(crate) fn new(board: Arc<Board>) -> Mailboxes {
        Mailboxes { boxes: board.wakers.iter().map(|_| Mutex::default()).collect(), board }
    }

    /// Sends a message and wakes the worker. A worker that was lost receives nothing: the message is dropped, and with
    /// it the reply that it owes.
    pub(crate) fn send(&self, worker: usize, mail: Mail) {
        let waker = &self.board.wakers[worker];
        let returned = {
            let mut mailbox = lock(&self.boxes[worker]);
            if mailbox.is_closed {
                Some(mail)
            } else {
                mailbox.mail.push(mail);
                waker.set_mail(true);
                None
            }
        };
        // Without the lock: segments take long to drop, and may panic.
        drop_quietly(returned);
        fence(Ordering::SeqCst);
        waker.wake();
    }

    /// Takes all messages to a worker.
    pub(crate) fn take(&self, worker: usize) -> Vec<Mail> {
        let mut mailbox = lock(&self.boxes[worker]);
        self.board.wakers[worker].set_mail(false);
        mem::take(&mut mailbox.mail)
    }

    /// Drops all messages to a worker that has ended, now and later.
    pub(crate) fn close(&self, worker: usize) {
        let mail = {
            let mut mailbox = lock(&self.boxes[worker]);
            mailbox.is_closed = true;
            mem::take(&mut mailbox.mail)
        };
        drop_all_quietly(mail);
    }
}

/// A reply that is owed; dropped without an answer, it says so.
pub(crate) struct Reply(Arc<ReplyState>);

/// A reply that is awaited.
pub(crate) struct PendingReply(Arc<ReplyState>);

struct ReplyState {
    /// Whether the change was made, once that is known.
    done: Mutex<Option<bool>>,
    known: Condvar,
}

pub(crate) fn reply() -> (Reply, PendingReply) {
    let answer = Arc::new(ReplyState { done: Mutex::new(None), known: Condvar::new() });
    (Reply(Arc::clone(&answer)), PendingReply(answer))
}

impl Reply {
    /// The change has been made.
    pub(crate) fn done(self) {
        *lock(&self.0.done) = Some(true);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        lock(&self.0.done).get_or_insert(false);
        self.0.known.notify_all();
    }
}

impl PendingReply {
    /// Waits for the reply; false if the worker was lost.
    pub(crate) fn wait(self) -> bool {
        let mut done = lock(&self.0.done);
        loop {
            if let Some(done) = *done {
                return done;
            }
            done = wait(&self.0.known, done);
        }
    }
}
