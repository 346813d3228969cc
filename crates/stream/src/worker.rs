//! A worker: one thread, usually pinned to a core, that runs the segments in its slots in turn.
//!
//! Messages are read between runs. A worker without work polls for a while, then parks; see `waker.rs`. One that waits
//! for input from outside does so within a share of its core; see `wait_budget.rs`.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use sakiyomi_os::cpu;

use crate::board::Context;
use crate::guard::drop_all_quietly;
use crate::mailbox::{Mail, Mailboxes, OwnedSegment, Reply};
use crate::sync::{lock, thread};
use crate::tree;
use crate::tuple::OperatorId;
use crate::wait_budget::WaitBudget;
use crate::waker::{WaitState, Waker};

/// Items that may remain in the ring when a segment is handed over for fusion; draining them there takes less time than
/// the hand-over.
const FUSION_BACKLOG_MAX: usize = 8;

/// Slices in which a segment drains its ring before a fusion. Under overload a ring stays full: then the receiver drains
/// it.
const FUSION_SLICES_MAX: usize = 16;

/// Spin iterations between two polls of the rings: 16 × 19 ns, about one hop between cores.
const POLL_PAUSES: usize = 16;

/// How a worker waits.
#[derive(Clone, Copy)]
pub(crate) struct Idle {
    /// Time of polling before it parks, and before a source is due.
    pub(crate) spin: Duration,
    /// Gives the CPU to other threads while polling, because the worker does not have one for itself.
    pub(crate) yields: bool,
}

pub(crate) struct Worker {
    slots: Vec<OwnedSegment>,
    /// Fusions that wait until all outputs of their segments have been sent.
    fusions: Vec<Fusion>,
    cx: Context,
    mailboxes: Arc<Mailboxes>,
    idle_policy: Idle,
    /// Replies to changes that have been made. They are sent after the next tuples, because waking the thread that waits
    /// for one takes longer than a hand-over.
    replies: Vec<Reply>,
    /// None while it has work.
    polling: Option<Polling>,
    /// CPU time for waiting for input from outside.
    budget: WaitBudget,
    /// Clock at the end of the last slice, reused as the start of the next; none if time has passed in between.
    clock_ns: Option<u64>,
}

/// A worker without work that has not rested yet.
#[derive(Clone, Copy)]
struct Polling {
    since_ns: u64,
    /// For input from outside.
    waits_outside: bool,
}

/// A segment to be handed to the worker of the upstream segment.
struct Fusion {
    segment: OwnedSegment,
    to: usize,
    reply: Reply,
}

/// Result of reading the messages.
#[derive(PartialEq)]
enum Next {
    GoOn,
    Quit,
}

impl Worker {
    pub(crate) fn new(cx: Context, mailboxes: Arc<Mailboxes>, idle_policy: Idle) -> Worker {
        Worker {
            slots: Vec::new(),
            fusions: Vec::new(),
            cx,
            mailboxes,
            idle_policy,
            replies: Vec::new(),
            polling: None,
            budget: WaitBudget::new(),
            clock_ns: None,
        }
    }

    /// Runs until a message tells it to quit.
    pub(crate) fn run(&mut self) {
        let board = Arc::clone(&self.cx.board);
        let waker = &board.wakers[self.cx.worker];
        loop {
            if waker.has_mail() {
                self.clock_ns = None;
                if self.read_mail() == Next::Quit {
                    return;
                }
            }
            let progress = self.run_round();
            self.replies.drain(..).for_each(Reply::done);
            if progress {
                self.end_polling();
            } else {
                self.wait();
            }
        }
    }

    /// Ends the worker after its last run.
    pub(crate) fn drop_segments(self) {
        drop_all_quietly(self.slots);
        drop_all_quietly(self.fusions);
    }

    /// Runs each segment for one slice; returns whether there was progress.
    fn run_round(&mut self) -> bool {
        let before = self.cx.progress;
        self.cx.due_ns = u64::MAX;
        self.cx.waits_outside = false;
        self.release_fusions();
        for OwnedSegment { inner, ran_ns, has_moved, run_length, .. } in &mut self.slots {
            // The first slice after a move is one tuple, so that the recorded pause ends with it.
            self.cx.run_length = *run_length;
            self.cx.budget = if *has_moved { 1 } else { self.cx.slice_tuples() };
            let items = self.cx.items;
            let begin_ns = *self.clock_ns.get_or_insert_with(|| self.cx.board.now_ns());
            inner.run(&mut self.cx);
            let items = self.cx.items - items;
            if items == 0 {
                continue;
            }
            let now_ns = self.cx.board.now_ns();
            run_length.measured(items, now_ns.saturating_sub(begin_ns));
            self.clock_ns = Some(now_ns);
            let before_ns = ran_ns.replace(now_ns);
            if mem::take(has_moved)
                && let Some(before_ns) = before_ns
            {
                let pause_ns = now_ns.saturating_sub(before_ns);
                lock(&self.cx.board.relocations).pause_ns.saturating_record(pause_ns);
            }
        }
        self.cx.progress != before
    }

    /// Polls a while longer, parks, or naps.
    fn wait(&mut self) {
        let now_ns = self.cx.board.now_ns();
        // Other threads may run before it returns from a yield.
        self.clock_ns = (!self.idle_policy.yields).then_some(now_ns);
        let spin = self.spin();
        let spin_ns = u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX);
        let is_first = self.polling.is_none();
        let waits_outside = self.cx.waits_outside;
        let since_ns = self.polling.get_or_insert(Polling { since_ns: now_ns, waits_outside }).since_ns;
        let due = self.cx.until(now_ns);
        let is_due = due.is_some_and(|due| due <= spin);
        if is_first
            && waits_outside
            && !is_due
            && let Some(nap) = self.budget.nap(now_ns, spin_ns)
        {
            return self.rest(WaitState::Napping, |due| Some(due.map_or(nap, |due| nap.min(due))), spin);
        }
        if now_ns.saturating_sub(since_ns) < spin_ns || is_due {
            return self.poll_pause();
        }
        self.rest(WaitState::Parked, |due| due, spin);
    }

    /// Rests, unless something has arrived meanwhile. `time` maps the time until polling for a source must begin to the
    /// maximum rest.
    fn rest(
        &mut self,
        rest: WaitState,
        time: impl FnOnce(Option<Duration>) -> Option<Duration>,
        spin: Duration,
    ) {
        let board = Arc::clone(&self.cx.board);
        let waker = &board.wakers[self.cx.worker];
        self.end_polling();
        waker.announce(rest);
        if !self.run_round() {
            self.clock_ns = None;
            let due = self.cx.until(board.now_ns()).map(|due| due.saturating_sub(spin));
            self.park(waker, time(due));
        }
        waker.retract();
    }

    fn park(&mut self, waker: &Waker, time: Option<Duration>) {
        if !self.cx.waits_outside {
            return waker.park(time);
        }
        let before = self.budget.measures().then(cpu::of_this_thread);
        waker.park(time);
        let cpu = before.map(|before| cpu::of_this_thread().saturating_sub(before));
        self.budget.rested(cpu.map(|cpu| u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX)));
    }

    /// Ends polling, because the worker has work or is about to rest. Charges the budget if it polled for input from
    /// outside.
    fn end_polling(&mut self) {
        if let Some(Polling { since_ns, waits_outside: true }) = self.polling.take() {
            self.budget.polled(self.cx.board.now_ns().saturating_sub(since_ns));
        }
    }

    /// Time of polling: none on a CPU that other threads use as well, because it would take their time.
    fn spin(&self) -> Duration {
        if self.cx.board.is_cpu_shared(self.cx.worker) { Duration::ZERO } else { self.idle_policy.spin }
    }

    fn poll_pause(&self) {
        if self.idle_policy.yields {
            thread::yield_now();
        } else {
            (0..POLL_PAUSES).for_each(|_| std::hint::spin_loop());
        }
    }

    fn read_mail(&mut self) -> Next {
        for mail in self.mailboxes.take(self.cx.worker) {
            match mail {
                Mail::Receive(mut segment, reply) => {
                    self.note_handover(&mut segment);
                    self.slots.push(segment);
                    self.replies.extend(reply);
                }
                Mail::Move { head, to, reply } => {
                    lock(&self.cx.board.relocations).moves += 1;
                    let segment = self.take(head);
                    self.mailboxes.send(to, Mail::Receive(self.release(segment, to), Some(reply)));
                }
                Mail::Split { head, at, to, slots, reply } => {
                    lock(&self.cx.board.relocations).splits += 1;
                    let segment = self.split(head, at, slots);
                    self.mailboxes.send(to, Mail::Receive(self.release(segment, to), Some(reply)));
                }
                Mail::Fuse { head, to, reply } => {
                    let segment = self.take_drained(head);
                    self.fusions.push(Fusion { segment, to, reply });
                }
                Mail::ReceiveFused(segment, reply) => {
                    self.fuse(segment);
                    self.replies.push(reply);
                }
                Mail::Barrier { head, barrier } => {
                    let slot = self.slot(head);
                    self.slots[slot].inner.barrier(barrier);
                }
                Mail::End => self.slots.iter_mut().for_each(|segment| segment.inner.end()),
                Mail::Quit => return Next::Quit,
            }
        }
        Next::GoOn
    }

    /// Takes the segment that begins with `head` out of its slot.
    fn take(&mut self, head: OperatorId) -> OwnedSegment {
        let slot = self.slot(head);
        self.slots.remove(slot)
    }

    fn slot(&mut self, head: OperatorId) -> usize {
        let slot = self.slots.iter_mut().position(|segment| segment.inner.root().operator() == head);
        slot.expect("the runtime knows on which worker each segment is")
    }

    /// Like [`Worker::take`], after the segment has drained its ring.
    fn take_drained(&mut self, head: OperatorId) -> OwnedSegment {
        let mut segment = self.take(head);
        for _ in 0..FUSION_SLICES_MAX {
            let (progress, items) = (self.cx.progress, self.cx.items);
            if segment.inner.backlog() <= FUSION_BACKLOG_MAX {
                break;
            }
            self.cx.run_length = segment.run_length;
            self.cx.budget = self.cx.slice_tuples();
            segment.inner.run(&mut self.cx);
            if self.cx.items != items {
                segment.ran_ns = Some(self.cx.board.now_ns());
            }
            if self.cx.progress == progress {
                break;
            }
        }
        segment
    }

    /// Hands over the segments to be fused whose outputs have all been sent; the others take no input until then. This
    /// bounds the unsent output of a segment to that of one tuple and of the items that the receiver drains from its ring.
    fn release_fusions(&mut self) {
        if self.fusions.is_empty() {
            return;
        }
        // A lost worker never drains its ring: report failure and keep the segment here.
        let is_lost = self.cx.board.is_lost();
        for mut fusion in mem::take(&mut self.fusions) {
            if tree::flush(fusion.segment.inner.root(), &mut self.cx) {
                let Fusion { segment, to, reply } = fusion;
                self.mailboxes.send(to, Mail::ReceiveFused(self.release(segment, to), reply));
                self.cx.progress += 1;
            } else if is_lost {
                fusion.segment.inner.edges_changed();
                self.slots.push(fusion.segment);
                self.cx.progress += 1;
            } else {
                // One of the rings read here may be the one that is full.
                tree::poll_sides(fusion.segment.inner.root(), &mut self.cx);
                self.fusions.push(fusion);
            }
        }
    }

    fn split(&mut self, head: OperatorId, at: OperatorId, slots: usize) -> OwnedSegment {
        let (slot, worker) = (self.slot(head), self.cx.worker);
        let OwnedSegment { inner, ran_ns, has_moved, run_length, .. } = &mut self.slots[slot];
        let tail = tree::cut(&mut **inner, at, slots, worker);
        OwnedSegment {
            ran_ns: *ran_ns,
            has_moved: *has_moved,
            run_length: *run_length,
            ..OwnedSegment::new(tail)
        }
    }

    /// Prepares a segment for another worker. Whoever sends to it sees its new place from now on.
    fn release(&self, mut segment: OwnedSegment, to: usize) -> OwnedSegment {
        tree::set_segment_worker(&mut *segment.inner, to);
        segment.has_moved |= to != self.cx.worker;
        segment.released_ns = (to != self.cx.worker).then(|| self.cx.board.now_ns());
        segment
    }

    /// Makes the ring to a segment a call.
    fn fuse(&mut self, mut segment: OwnedSegment) {
        self.note_handover(&mut segment);
        let OwnedSegment { mut inner, ran_ns, has_moved, .. } = segment;
        let head = inner.root().operator();
        let mut inner = Some(inner);
        for before in self.slots.iter_mut().map(|segment| &mut segment.inner) {
            let fused = tree::with_port(before.root(), head, &mut |port| {
                inner.take().into_iter().for_each(|segment| port.fuse(segment, &mut self.cx));
            });
            if fused.is_some() {
                before.edges_changed();
                break;
            }
        }
        assert!(inner.is_none(), "the runtime knows on which worker each segment is");
        self.cx.progress += 1;
        let mut relocations = lock(&self.cx.board.relocations);
        relocations.fusions += 1;
        if let Some(ran_ns) = ran_ns.filter(|_| has_moved) {
            relocations.pause_ns.saturating_record(self.cx.board.now_ns().saturating_sub(ran_ns));
        }
    }

    fn note_handover(&self, segment: &mut OwnedSegment) {
        if let Some(released_ns) = segment.released_ns.take() {
            let handover_ns = self.cx.board.now_ns().saturating_sub(released_ns);
            lock(&self.cx.board.relocations).handover_ns.saturating_record(handover_ns);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
