//! Relocation as in the paper's program (QueueLinker, 2013): an operator that moves leaves a stub on its old core, which
//! forwards each later tuple. Order is kept because all of them still pass through the old core. Then the sender's route
//! changes: a marker follows the last tuple on the old way, and new tuples wait for it.
//!
//! ```text
//! core 0: 1 2 3 ──ring──► core 1: 4 5 6        4 moves to core 0:
//! core 0: 1 2 3 ──ring──► stub of 4 ──ring──► core 0: 4 ──ring──► core 1: 5 6
//! core 0: 1 2 3 4 ──ring──► core 1: 5 6        after the marker has come back
//! ```
//!
//! All else is as in the other arms: pinned workers that poll, rings of the same kind, operators in a call of each other.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use sakiyomi_os::affinity::pin;
use sakiyomi_os::topology::Cpus;

use crate::arms::{cores, follow, nanos, two_cpus};
use crate::driver::chain::{RING_SLOTS, serve};
use crate::driver::figures::Recorder;
use crate::driver::load::{Item, OPERATORS, Pattern, Schedule};
use crate::run::{Change, Run};

/// Operators that move, the sink included, which is the last one.
const MOVABLE: usize = OPERATORS + 1;

/// Tuples that a worker takes from its ring before it looks at the source again.
const SLICE_TUPLES: usize = 64;

/// A tuple and when it was due.
type Due = (Item, u64);

enum Message {
    Tuple {
        operator: usize,
        due: Due,
    },
    /// An operator that moves here; the sink has state.
    Operator {
        operator: usize,
        sink: Option<Box<Sink>>,
    },
    /// Follows the last tuple on the way through a stub.
    Marker {
        operator: usize,
    },
    End,
}

/// Way of tuples from an operator on a worker to the next operator.
enum Route {
    Here,
    There,
    /// Held back until the marker has come.
    Held(VecDeque<Due>),
}

struct Sink {
    recorder: Recorder,
    last: Option<u64>,
    violations: u64,
}

struct Worker {
    pattern: Arc<Pattern>,
    start: Instant,
    /// Only the first worker has it.
    source: Option<Schedule>,
    owned: [bool; MOVABLE],
    routes: [Route; MOVABLE],
    sink: Option<Box<Sink>>,
    from: Consumer<Message>,
    to: Producer<Message>,
    /// Messages for which the ring has had no room.
    unsent: VecDeque<Message>,
    /// The operator to be given away, if it is one of them.
    order: Arc<AtomicUsize>,
    moved: Sender<()>,
}

/// Order to give nothing away.
const STAY: usize = usize::MAX;

/// Runs the chain through all phases, cut in each where this says.
///
/// # Errors
/// If a thread cannot be started or pinned.
pub(crate) fn run(pattern: &Arc<Pattern>, seed: u64, cuts: &[usize]) -> Result<Run, Box<dyn Error>> {
    let (start, split) = (Instant::now(), first_of_second(cuts[0]));
    let (to_second, from_first) = RingBuffer::new(RING_SLOTS);
    let (to_first, from_second) = RingBuffer::new(RING_SLOTS);
    let (moved, answers) = channel();
    let worker = |index: usize, from, to| {
        let owned = std::array::from_fn(|operator| (operator >= split) == (index == 1));
        let sink = Sink { recorder: Recorder::new(), last: None, violations: 0 };
        Worker {
            pattern: Arc::clone(pattern),
            start,
            source: (index == 0).then(|| Schedule::new(pattern, seed)),
            owned,
            routes: owned.map(|is_here| if is_here { Route::Here } else { Route::There }),
            sink: owned[OPERATORS].then(|| Box::new(sink)),
            from,
            to,
            unsent: VecDeque::new(),
            order: Arc::new(AtomicUsize::new(STAY)),
            moved: moved.clone(),
        }
    };
    let workers = [worker(0, from_second, to_second), worker(1, from_first, to_first)];
    drop(moved);
    let orders = [0, 1].map(|index| Arc::clone(&workers[index].order));
    let mut threads = Vec::new();
    for (worker, cpu) in workers.into_iter().zip(two_cpus()?) {
        threads.push(spawn(worker, cpu)?);
    }
    let (mut changes, mut present) = (Vec::new(), cuts[0]);
    let others_ratio = follow(pattern, start, |phase| {
        let cut = cuts[phase];
        if cut != present {
            let before = start.elapsed();
            relocate(first_of_second(present), first_of_second(cut), &orders, &answers);
            let (at, reason) = (start.elapsed(), format!("cut {cut}"));
            let duration_ns = nanos(at - before);
            changes.push(Change { at_ns: nanos(at), duration_ns, cores: cores(cut), reason });
            present = cut;
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    let mut run = Run { cores: cores(cuts[0]), changes, others_ratio, ..Run::default() };
    for thread in threads {
        if let Some(sink) = thread.join().map_err(|_| "a worker panicked")?? {
            (run.bins, run.violations) = (sink.recorder.finish(), sink.violations);
        }
    }
    Ok(run)
}

fn spawn(
    worker: Worker,
    cpu: usize,
) -> std::io::Result<JoinHandle<Result<Option<Box<Sink>>, sakiyomi_os::Error>>> {
    Builder::new().name("stub".to_owned()).spawn(move || {
        let _pinned = pin(&Cpus::from([cpu]))?;
        Ok(worker.run())
    })
}

/// The first operator, without the source, on the second core.
fn first_of_second(cut: usize) -> usize {
    if cut == 0 { MOVABLE } else { cut - 1 }
}

/// Moves operators one after the other, so that those of each core stay neighbors.
fn relocate(from: usize, to: usize, orders: &[Arc<AtomicUsize>; 2], answers: &Receiver<()>) {
    let give = |worker: usize, operator: usize| {
        orders[worker].store(operator, Ordering::Release);
        // Fails if the workers have ended.
        let _ = answers.recv();
    };
    (from..to).for_each(|operator| give(1, operator));
    (to..from).rev().for_each(|operator| give(0, operator));
}

impl Worker {
    /// Runs until the end has come; returns the sink if it is here.
    fn run(mut self) -> Option<Box<Sink>> {
        let is_first = self.source.is_some();
        loop {
            let operator = self.order.swap(STAY, Ordering::Acquire);
            if operator != STAY {
                self.give_away(operator);
            }
            let has_ended = self.receive();
            let is_busy = self.emit();
            let is_sent = self.flush();
            match is_first {
                true if self.source.is_none() && is_sent && self.from.is_empty() => {
                    self.send(Message::End);
                    while !self.flush() {
                        std::thread::yield_now();
                    }
                    return self.sink;
                }
                false if has_ended => return self.sink,
                _ if !is_busy && self.from.is_empty() => std::thread::yield_now(),
                _ => {}
            }
        }
    }

    /// Emits what is due. Whether there was anything.
    fn emit(&mut self) -> bool {
        let Some(mut source) = self.source.take() else { return false };
        for taken in 0..SLICE_TUPLES {
            let now_ns = nanos(self.start.elapsed());
            let Some(due_ns) = source.due_ns().filter(|_| now_ns < source.end_ns()) else { return true };
            if due_ns > now_ns || self.unsent.len() >= RING_SLOTS {
                self.source = Some(source);
                return taken > 0;
            }
            let item = source.take();
            self.deliver(0, (item, due_ns));
        }
        self.source = Some(source);
        true
    }

    /// Takes messages. Whether the end was among them.
    fn receive(&mut self) -> bool {
        for _ in 0..SLICE_TUPLES {
            match self.from.pop() {
                Ok(Message::Tuple { operator, due }) if self.owned[operator] => self.process(operator, due),
                // The stub.
                Ok(Message::Tuple { operator, due }) => self.send(Message::Tuple { operator, due }),
                Ok(Message::Operator { operator, sink }) => {
                    self.owned[operator] = true;
                    self.sink = sink.or(self.sink.take());
                    self.routes[operator] = Route::Held(VecDeque::new());
                    self.send(Message::Marker { operator });
                }
                Ok(Message::Marker { operator }) if self.owned[operator] => self.end_detour(operator),
                Ok(Message::Marker { operator }) => self.send(Message::Marker { operator }),
                Ok(Message::End) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    fn give_away(&mut self, operator: usize) {
        self.owned[operator] = false;
        self.routes[operator] = Route::There;
        let sink = if operator == OPERATORS { self.sink.take() } else { None };
        self.send(Message::Operator { operator, sink });
    }

    /// Sends directly from now on, first what was held back.
    fn end_detour(&mut self, operator: usize) {
        if let Route::Held(held) = std::mem::replace(&mut self.routes[operator], Route::Here) {
            held.into_iter().for_each(|due| self.process(operator, due));
        }
        // Fails if the receiver has stopped waiting.
        let _ = self.moved.send(());
    }

    fn process(&mut self, operator: usize, due: Due) {
        if self.serve(operator, due) {
            self.deliver(operator + 1, due);
        }
    }

    fn deliver(&mut self, mut operator: usize, due: Due) {
        loop {
            match &mut self.routes[operator] {
                Route::Here => {}
                Route::There => return self.send(Message::Tuple { operator, due }),
                Route::Held(held) => return held.push_back(due),
            }
            if !self.serve(operator, due) {
                return;
            }
            operator += 1;
        }
    }

    /// Whether the tuple continues.
    fn serve(&mut self, operator: usize, (item, due_ns): Due) -> bool {
        if operator < OPERATORS {
            return serve(&self.pattern, operator, item);
        }
        let now_ns = nanos(self.start.elapsed());
        if let Some(sink) = &mut self.sink {
            sink.recorder.record(due_ns, now_ns);
            sink.violations += u64::from(sink.last >= Some(item.number));
            sink.last = Some(item.number);
        }
        false
    }

    fn send(&mut self, message: Message) {
        if !self.unsent.is_empty() {
            return self.unsent.push_back(message);
        }
        if let Err(PushError::Full(message)) = self.to.push(message) {
            self.unsent.push_back(message);
        }
    }

    /// Sends what was kept. Whether nothing is left.
    fn flush(&mut self) -> bool {
        while let Some(message) = self.unsent.pop_front() {
            if let Err(PushError::Full(message)) = self.to.push(message) {
                self.unsent.push_front(message);
                return false;
            }
        }
        true
    }
}
