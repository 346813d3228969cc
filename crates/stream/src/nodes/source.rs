//! No input, one output: the segment of a source. It runs within the loop of the first core, which needs no thread
//! of its own for the input.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::barrier::{Barrier, Saved};
use crate::board::Context;
use crate::counters::Counters;
use crate::error::{Error, Failure};
use crate::fed::Edges;
use crate::guard::{Named, Panic, drop_quietly, load_state, message, save_state};
use crate::operator::{DueValues, Overload, Pause, Source};
use crate::port::Port;
use crate::ring::Link;
use crate::samples::{Samples, elapsed_ns};
use crate::snapshot::{OperatorSnapshot, Progress};
use crate::stage::{AnyPort, Part, Segment};
use crate::sync::lock;
use crate::tuple::OperatorId;
use crate::wakeup::Wakeup;

/// A source and all that it calls.
pub(crate) struct SourceNode<S: Source> {
    head: Head<S>,
    edges: Edges,
}

/// The source as the root of its segment.
struct Head<S: Source> {
    of: Named<S>,
    overload: Overload,
    wakeup: Option<Wakeup>,
    port: Port<S::Out>,
    samples: Samples,
    state: State,
    /// It has ended by a panic.
    has_failed: bool,
    /// It has emitted the barrier of the last snapshot, and emits nothing more unless it is ended.
    is_halted: bool,
    /// Barriers to be emitted next.
    barriers: VecDeque<Barrier>,
    /// Values of the next run. Kept for its capacity.
    due: Vec<(S::Out, u64)>,
    /// Values that it has produced, those before the snapshot included from which the stream resumed.
    tuples: u64,
}

#[derive(PartialEq)]
enum State {
    Open,
    /// The end is to be emitted next.
    Ending,
    Ended,
}

impl<S: Source> SourceNode<S> {
    pub(crate) fn new(of: Named<S>, port: Port<S::Out>) -> SourceNode<S> {
        let (overload, wakeup) = (of.operator.overload(), of.operator.wakeup());
        let samples = Samples::new(of.id.0);
        let mut head = Head {
            of,
            overload,
            wakeup,
            port,
            samples,
            state: State::Open,
            has_failed: false,
            is_halted: false,
            barriers: VecDeque::new(),
            due: Vec::new(),
            tuples: 0,
        };
        let edges = Edges::of(&mut head);
        SourceNode { head, edges }
    }
}

impl<S: Source> Segment for SourceNode<S> {
    fn root(&mut self) -> &mut dyn Part {
        &mut self.head
    }

    fn inlet(&self) -> Option<&Arc<Link>> {
        None
    }

    fn backlog(&self) -> usize {
        0
    }

    fn run(&mut self, cx: &mut Context) {
        if !self.edges.prepare(&mut self.head, cx) {
            return;
        }
        let pauses = cx.pauses;
        self.head.emit(cx);
        self.edges.are_clear &= cx.pauses == pauses;
    }

    fn edges_changed(&mut self) {
        self.edges = Edges::of(&mut self.head);
    }

    fn end(&mut self) {
        if self.head.state == State::Open {
            self.head.state = State::Ending;
        }
    }

    fn barrier(&mut self, barrier: Barrier) {
        self.head.barriers.push_back(barrier);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl<S: Source> Head<S> {
    /// Emits what is due. A source that is not due twice in a row yields, whatever time it names, so that the other
    /// segments of its worker have their turn.
    fn emit(&mut self, cx: &mut Context) {
        let pauses = cx.pauses;
        let mut now_ns = cx.board.now_ns();
        let mut is_now_read_again = false;
        while cx.pauses == pauses && cx.goes_on() {
            if let Some(barrier) = self.barriers.pop_front() {
                cx.taken(1);
                self.report(&barrier, cx);
                self.is_halted |= barrier.is_last();
                self.port.barrier(barrier, cx);
                continue;
            }
            if self.state == State::Ended || (self.is_halted && self.state == State::Open) {
                return;
            }
            let (taken, next) = self.gather(now_ns, cx);
            if taken > 0 {
                cx.taken(taken);
                is_now_read_again = false;
                self.port.send(&mut self.due, cx);
            }
            match next {
                None => {}
                Some(Pause::Watermark(time_ns)) => {
                    cx.taken(1);
                    self.port.watermark(time_ns, cx.board.now_ns(), cx);
                }
                Some(Pause::At(due_ns)) => {
                    self.of.counters.due_ns.set(due_ns);
                    cx.waits_outside |= self.wakeup.is_some();
                    now_ns = cx.board.now_ns();
                    if due_ns > now_ns || is_now_read_again {
                        cx.due_ns = cx.due_ns.min(due_ns);
                        return;
                    }
                    is_now_read_again = true;
                }
                Some(Pause::End) => {
                    cx.taken(1);
                    self.of.counters.due_ns.set(u64::MAX);
                    self.state = State::Ended;
                    self.port.end(cx.board.now_ns(), cx);
                }
            }
        }
    }

    /// Takes the values that are due, as many as a run may have, and keeps those that are not shed. Their number, and the
    /// reply that is not a value, if one came.
    fn gather(&mut self, now_ns: u64, cx: &Context) -> (usize, Option<Pause>) {
        if self.state == State::Ending {
            return (0, Some(Pause::End));
        }
        let Head { of, overload, samples, due, .. } = self;
        let Named { operator, counters, .. } = of;
        let room = cx.run_tuples();
        let (mut taken, mut kept, mut arrival_last_ns, mut start) = (0, 0, 0, None);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut pause = None;
            while taken < room && pause.is_none() {
                start = samples.start();
                // A timed value is requested alone. So is a value that may be shed, because its lateness is checked when it
                // arrives.
                let values_max = match overload {
                    Overload::Wait => {
                        usize::try_from(samples.untimed()).unwrap_or(room).clamp(1, room - taken)
                    }
                    Overload::Shed { .. } => 1,
                };
                pause = operator.fill(now_ns, &mut DueValues::new(due, kept + values_max));
                let values = due.len() - kept;
                if values == 0 && pause.is_none() {
                    // The source broke the contract of `fill`; to ask again at once might never end.
                    pause = Some(Pause::At(now_ns));
                }
                // A source that is asked whether anything is due while its worker has nothing else to do is not busy.
                let is_call = matches!(pause, Some(Pause::Watermark(_) | Pause::End));
                samples.count_all(start.take(), values as u64 + u64::from(is_call), counters);
                taken += values;
                arrival_last_ns = last_arrival_ns(&due[kept..], arrival_last_ns);
                kept = overload.kept(due, kept, counters, cx);
            }
            pause
        }));
        // Counts the values that the source returned before it panicked.
        taken += self.due.len() - kept;
        arrival_last_ns = last_arrival_ns(&self.due[kept..], arrival_last_ns);
        let pause = result.unwrap_or_else(|panic| {
            self.samples.count_all(start, 1, &self.of.counters);
            self.fail(taken, panic, cx);
            Some(Pause::End)
        });
        if taken > 0 {
            self.tuples += taken as u64;
            self.count(taken as u64, arrival_last_ns);
        }
        let is_call = matches!(pause, Some(Pause::Watermark(_) | Pause::End));
        self.of.counters.calls.add(taken as u64 + u64::from(is_call));
        (taken, pause)
    }

    /// Counts values, with the scheduled arrival of the last one.
    fn count(&self, values: u64, arrival_last_ns: u64) {
        let counters = &self.of.counters;
        counters.tuples_in.add(values);
        counters.tuples_out.add(self.due.len() as u64);
        counters.arrival_ns.set(arrival_last_ns);
        if self.wakeup.is_some() {
            // It does not name the time of what comes next.
            counters.due_ns.set(0);
        }
    }

    /// Reports a panic after `taken` values of the current run.
    fn fail(&mut self, taken: usize, panic: Panic, cx: &Context) {
        self.has_failed = true;
        lock(&cx.board.failures).push(Failure {
            operator: self.of.id,
            name: self.of.name.clone(),
            tuple: Some(self.tuples + taken as u64),
            message: message(panic),
        });
    }

    /// Reports its position and its progress for a snapshot. After its end it still does.
    fn report(&mut self, barrier: &Barrier, cx: &Context) {
        if barrier.migration().is_some() {
            return barrier.pass(&cx.board);
        }
        let start = Instant::now();
        let saved = if self.has_failed {
            Err("has stopped".to_owned())
        } else {
            save_state(&mut self.of.operator, S::state, 0)
        };
        self.of.counters.saved(elapsed_ns(start));
        let progress = Progress {
            tuples: self.tuples,
            inputs: Vec::new(),
            outputs: vec![self.port.sequence()],
            watermark_ns: self.port.watermark_ns(),
            arrival_ns: cx.board.now_ns(),
            has_ended: self.state == State::Ended,
        };
        let saved = saved.map(|state| Saved { state, restart_state: None, progress });
        barrier.report(self.of.id, saved, &cx.board);
    }
}

/// Returns the arrival of the last value, or `none_ns` if there is none.
fn last_arrival_ns<T>(values: &[(T, u64)], none_ns: u64) -> u64 {
    values.last().map_or(none_ns, |(_, arrival_ns)| *arrival_ns)
}

impl Overload {
    /// Drops the values from index `first` on that are too late now. Returns the number of remaining values, including
    /// those before `first`.
    fn kept<T>(self, values: &mut Vec<(T, u64)>, first: usize, counters: &Counters, cx: &Context) -> usize {
        if let Overload::Shed { late_max_ns } = self {
            let now_ns = cx.board.now_ns();
            let is_late = |(_, arrival_ns): &mut (T, u64)| now_ns.saturating_sub(*arrival_ns) > late_max_ns;
            let shed = values.extract_if(first.., is_late).map(drop_quietly).count();
            counters.shed.add(shed as u64);
        }
        values.len()
    }
}

impl<S: Source> Part for Head<S> {
    fn operator(&self) -> OperatorId {
        self.of.id
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.of.counters
    }

    fn ports(&mut self) -> [Option<&mut dyn AnyPort>; 2] {
        [Some(&mut self.port), None]
    }

    fn wakeup(&self) -> Option<&Wakeup> {
        self.wakeup.as_ref()
    }

    fn load(&mut self, saved: &OperatorSnapshot, _: u64) -> Result<(), Error> {
        let Progress { tuples, has_ended, .. } = saved.progress;
        self.tuples = tuples;
        self.state = if has_ended { State::Ended } else { State::Open };
        load_state(&self.of.name, self.of.operator.state(), saved.state.as_deref())
    }
}
