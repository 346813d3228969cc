//! An input from each replica of an operator, one output. The first replica may call the merge; the others send by rings,
//! which the segment of the merge reads.
//!
//! A barrier that moves bins cuts no states after the replicas, but the order of a bin's outputs: those of the replica that
//! gets it wait until those of the replica before have come.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use crate::barrier::Barrier;
use crate::board::Context;
use crate::counters::Counters;
use crate::error::Error;
use crate::guard::Guard;
use crate::input::Input;
use crate::item::{Item, Mark, Run, Stamp};
use crate::operator::Recover;
use crate::port::Port;
use crate::replicas::Routed;
use crate::ring::{Inlet, Link};
use crate::snapshot::{InputProgress, OperatorSnapshot, Progress};
use crate::stage::{AnyPort, Part, Stage};
use crate::tree;
use crate::tuple::OperatorId;

/// State of a merge: none.
pub(crate) struct Union;

impl Recover for Union {}

pub(crate) struct MergeNode<T> {
    guard: Guard<Union>,
    port: Port<T>,
    /// The rings of the replicas after the first.
    sides: Vec<Inlet<Routed<T>>>,
    group: usize,
    inputs: Vec<MergeInput>,
    /// The latest arrival of a watermark or the end of any input.
    mark_arrival_ns: u64,
    /// The watermark that was forwarded.
    watermark_ns: Option<u64>,
    /// Inputs whose barrier that moves bins has come, while that of others has not.
    migrated: usize,
    /// Since when an input has been held back, by the stream's clock.
    held_since_ns: u64,
    /// Items that came on the first input while it was held back: what a fusion found in its ring.
    waiting: VecDeque<Item<Routed<T>>>,
    /// Kept for their capacity: tuples of a replica's ring, and those of a run without their bins.
    routed: Vec<(Routed<T>, u64)>,
    merged: Vec<(T, u64)>,
}

#[derive(Clone, Default)]
struct MergeInput {
    input: Input,
    hold: Hold,
}

/// The barrier that has come on an input, while those of others have not.
#[derive(Clone, Copy, Default, PartialEq)]
enum Hold {
    #[default]
    None,
    Snapshot,
    /// Bins come to the replica, whose outputs for them are not to overtake those of the replicas before.
    Migration,
}

impl<T: Send + 'static> MergeNode<T> {
    /// Returns the merge of a group of replicas.
    pub(crate) fn new(
        guard: Guard<Union>,
        group: usize,
        sides: Vec<Inlet<Routed<T>>>,
        port: Port<T>,
    ) -> MergeNode<T> {
        let inputs = vec![MergeInput::default(); sides.len() + 1];
        MergeNode {
            guard,
            port,
            sides,
            group,
            inputs,
            mark_arrival_ns: 0,
            watermark_ns: None,
            migrated: 0,
            held_since_ns: 0,
            waiting: VecDeque::new(),
            routed: Vec::new(),
            merged: Vec::new(),
        }
    }

    fn accept_from(&mut self, from: usize, item: Item<Routed<T>>, cx: &mut Context) {
        match item {
            Item::Tuple(tuple) => {
                let mut tuples = vec![(tuple.value, tuple.arrival_ns)];
                self.run(from, Run { first: tuple.sequence, tuples: &mut tuples }, cx);
            }
            Item::Mark(mark) => self.mark(from, mark, cx),
        }
    }

    fn run(&mut self, from: usize, run: Run<'_, Routed<T>>, cx: &mut Context) {
        let MergeNode { guard, port, inputs, merged, .. } = self;
        let (counters, expected) = (&guard.of.counters, &mut inputs[from].input.expected);
        let count = run.tuples.len() as u64;
        counters.tuples_in.add(count);
        counters.tuples_out.add(count);
        guard.check(run.first, expected);
        *expected = run.first + count;
        merged.extend(run.tuples.drain(..).map(|(routed, arrival_ns)| (routed.value, arrival_ns)));
        port.send(merged, cx);
    }

    fn mark(&mut self, from: usize, mark: Mark, cx: &mut Context) {
        match mark {
            Mark::Watermark(time_ns, stamp) => {
                self.note(from, stamp);
                self.inputs[from].input.watermark_ns = Some(time_ns);
                self.advance(cx);
            }
            Mark::End(stamp) => {
                self.note(from, stamp);
                self.inputs[from].input.has_ended = true;
                self.advance(cx);
                if self.has_ended() {
                    self.port.end(self.mark_arrival_ns, cx);
                }
            }
            Mark::Barrier(barrier, sequence) => {
                self.inputs[from].input.check_barrier(&barrier, sequence, &self.guard.of.counters);
                match barrier.migration() {
                    None => self.snapshot_barrier(from, barrier, cx),
                    Some(_) => self.migration_barrier(from, barrier, cx),
                }
            }
        }
    }

    fn note(&mut self, from: usize, stamp: Stamp) {
        self.guard.check(stamp.sequence, &mut self.inputs[from].input.expected);
        self.mark_arrival_ns = self.mark_arrival_ns.max(stamp.arrival_ns);
    }

    /// Forwards the watermark of the output if it has advanced: the earliest one of all inputs, which have the same ones.
    fn advance(&mut self, cx: &mut Context) {
        // None is less than any time.
        let earliest = self.inputs.iter().map(|one| one.input.watermark_ns).min().flatten();
        if let Some(time_ns) = earliest.filter(|_| self.watermark_ns < earliest) {
            self.watermark_ns = earliest;
            self.port.watermark(time_ns, self.mark_arrival_ns, cx);
        }
    }

    fn has_ended(&self) -> bool {
        self.inputs.iter().all(|one| one.input.has_ended)
    }

    /// The barrier of a snapshot holds its input back until those of all other inputs have come.
    fn snapshot_barrier(&mut self, from: usize, barrier: Barrier, cx: &mut Context) {
        if self.inputs.iter().all(|one| one.hold != Hold::Snapshot) {
            self.held_since_ns = cx.board.now_ns();
        }
        self.inputs[from].hold = Hold::Snapshot;
        if self.inputs.iter().any(|one| one.hold != Hold::Snapshot) {
            cx.pauses += 1;
            return;
        }
        let held_ns = cx.board.now_ns().saturating_sub(self.held_since_ns);
        self.guard.of.counters.held_ns.note(held_ns);
        // A stream that resumes numbers what comes from replicas from 0. At a cut all of them are as far.
        let input = InputProgress { sequence: 0, ..self.inputs[0].input.save() };
        let progress = Progress {
            inputs: vec![input],
            outputs: vec![self.port.sequence()],
            watermark_ns: self.watermark_ns,
            arrival_ns: self.mark_arrival_ns,
            has_ended: self.has_ended(),
            ..Progress::default()
        };
        self.guard.report(&barrier, progress, cx);
        self.port.barrier(barrier, cx);
        self.release(Hold::Snapshot, cx);
    }

    /// A barrier that moves bins holds the replicas back that get some.
    fn migration_barrier(&mut self, from: usize, barrier: Barrier, cx: &mut Context) {
        self.migrated += 1;
        if self.migrated == self.inputs.len() {
            self.migrated = 0;
            self.guard.report(&barrier, Progress::default(), cx);
            self.port.barrier(barrier, cx);
            self.release(Hold::Migration, cx);
        } else if barrier.migration().is_some_and(|bins| !bins.coming(self.group, from).is_empty()) {
            self.inputs[from].hold = Hold::Migration;
            cx.pauses += 1;
        }
    }

    /// Goes on with the inputs that were held back for this reason.
    fn release(&mut self, hold: Hold, cx: &mut Context) {
        self.inputs.iter_mut().filter(|one| one.hold == hold).for_each(|one| one.hold = Hold::None);
        // Until the next barrier among them.
        while !self.is_held()
            && let Some(item) = self.waiting.pop_front()
        {
            self.accept_from(0, item, cx);
        }
    }

    /// Takes some items from the ring of a replica.
    fn poll(&mut self, side: usize, cx: &mut Context) {
        let pauses = cx.pauses;
        let (mut left, mut tuples) = (cx.slice_tuples(), mem::take(&mut self.routed));
        while left > 0 && cx.pauses == pauses {
            let mut taken = 1;
            if let Some(run) = self.sides[side].pop_run(left.min(cx.run_length.tuples()), &mut tuples) {
                taken = run.tuples.len();
                cx.taken(taken);
                self.run(side + 1, run, cx);
            } else if let Some(item) = self.sides[side].pop() {
                cx.taken(taken);
                self.accept_from(side + 1, item, cx);
            } else {
                break;
            }
            left -= taken;
        }
        self.routed = tuples;
        self.sides[side].wake_producer(cx);
    }
}

impl<T: Send + 'static> Part for MergeNode<T> {
    fn operator(&self) -> OperatorId {
        self.guard.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.guard.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [Some(&mut self.port), None]
    }

    fn side(&self) -> Option<&Arc<Link>> {
        self.sides.first().map(Inlet::link)
    }

    fn visit_sides(&self, visit: &mut dyn FnMut(&Arc<Link>)) {
        self.sides.iter().for_each(|side| visit(side.link()));
    }

    fn poll_side(&mut self, cx: &mut Context) {
        for side in 0..self.sides.len() {
            let is_held = self.inputs[side + 1].hold != Hold::None;
            if !is_held && self.sides[side].backlog() > 0 && tree::flush_port(&mut self.port, cx) {
                self.poll(side, cx);
            }
        }
    }

    fn is_held(&self) -> bool {
        self.inputs[0].hold != Hold::None
    }

    fn load(&mut self, saved: &OperatorSnapshot, epoch: u64) -> Result<(), Error> {
        let Progress { inputs, watermark_ns, arrival_ns, .. } = &saved.progress;
        self.inputs.iter_mut().for_each(|one| one.input = Input::load(&inputs[0], epoch));
        (self.watermark_ns, self.mark_arrival_ns) = (*watermark_ns, *arrival_ns);
        self.guard.load(saved)
    }
}

impl<T: Send + 'static> Stage<Routed<T>> for MergeNode<T> {
    fn accept_run(&mut self, mut run: Run<'_, Routed<T>>, cx: &mut Context) {
        if self.is_held() {
            self.waiting.extend(run.drain().map(Item::Tuple));
        } else {
            self.run(0, run, cx);
        }
    }

    fn accept_mark(&mut self, mark: Mark, cx: &mut Context) {
        if self.is_held() {
            self.waiting.push_back(Item::Mark(mark));
        } else {
            self.mark(0, mark, cx);
        }
    }
}
