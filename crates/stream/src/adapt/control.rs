//! The threads that adapt a stream: one samples, decides and makes changes; another one makes plans, which may take long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sakiyomi_os::priority::background;
use sakiyomi_placement::Placement;

use super::change::Change;
use super::cpus::Cpus;
use super::decide::{Decider, Order};
use super::events::{EventKind, EventLog, TimedMove};
use super::ownership::Ownership;
use super::plans::{PlanRequest, Plans};
use super::sample::{Sample, Sampler};
use crate::board::Board;
use crate::error::Error;
use crate::runtime::Running;

/// Nice value of both threads: a tenth of the weight of a worker.
const THREAD_NICE: i32 = 10;

/// Time slice of both threads. A worker on the same CPU is not kept waiting for longer at a time.
const TIME_SLICE: Duration = Duration::from_micros(100);

/// Samples without a tuple after which the time between samples is longer.
const IDLE_SAMPLES_MIN: u32 = 100;

/// Times that it is longer: at the default period a step is seen 20 ms later at most, and an idle stream takes a fourth of
/// the wake-ups.
const IDLE_PERIOD_RATIO: u32 = 4;

/// State that both threads and the owner of the stream share.
pub(super) struct Shared {
    running: Mutex<Running>,
    pub(super) log: Mutex<EventLog>,
    pub(super) status: Mutex<Status>,
}

/// State of a stream that adapts.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Rate of arrivals, in tuples per second; none before the first plan.
    pub rate_per_s: Option<f64>,
    /// The highest rate that the plan in use is for, in tuples per second; none before the first plan.
    pub held_per_s: Option<f64>,
    /// How far the source that is most behind is behind the clock, in nanoseconds.
    pub late_ns: u64,
    /// The placement in use.
    pub placement: Placement,
    /// Number of workers whose waiting time for a CPU is read from the kernel. The others poll as if theirs
    /// belonged to them.
    pub watched_workers: usize,
}

impl Shared {
    pub(super) fn new(running: Running, status: Status) -> Shared {
        Shared { running: Mutex::new(running), log: Mutex::default(), status: Mutex::new(status) }
    }

    pub(super) fn running(&self) -> MutexGuard<'_, Running> {
        lock(&self.running)
    }
}

/// Locks data that is consistent even if a thread panics under the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message to the thread that decides.
pub(super) enum Message {
    Plans(Box<Plans>),
    Stop,
}

/// The thread that decides.
pub(super) struct Control {
    pub(super) shared: Arc<Shared>,
    pub(super) board: Arc<Board>,
    pub(super) sampler: Sampler,
    pub(super) decider: Decider,
    pub(super) cpus: Cpus,
    pub(super) period: Duration,
    pub(super) messages: Receiver<Message>,
    pub(super) requests: Sender<Box<PlanRequest>>,
}

/// Consequences of a change.
#[derive(PartialEq)]
enum Next {
    GoOn,
    /// The stream cannot be changed any more.
    Stop,
}

impl Control {
    /// Adapts the stream until it is told to stop, or a worker is lost.
    pub(super) fn run(mut self) {
        // A thread that may not lower its priority keeps it.
        let _ = background(THREAD_NICE, TIME_SLICE);
        let (mut taken, mut idle_samples) = (0, 0);
        let mut next_ns = self.now_ns();
        loop {
            let left_ns = next_ns.saturating_sub(self.now_ns());
            let orders = match self.messages.recv_timeout(Duration::from_nanos(left_ns)) {
                Ok(Message::Plans(plans)) => self.decider.on_plans(*plans, self.now_ns()),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let now_ns = self.now_ns();
                    let sample = self.sampler.sample(now_ns);
                    let before = std::mem::replace(&mut taken, tuples_in(&sample));
                    idle_samples = if before == taken { idle_samples + 1 } else { 0 };
                    let ratio = if idle_samples < IDLE_SAMPLES_MIN { 1 } else { IDLE_PERIOD_RATIO };
                    next_ns = sample.now_ns + period_ns(self.period * ratio);
                    self.watch_cpus(sample.now_ns);
                    self.decider.on_sample(&sample)
                }
            };
            if orders.into_iter().any(|order| self.execute(order) == Next::Stop) {
                return;
            }
            self.tell_status();
        }
    }

    fn execute(&mut self, order: Order) -> Next {
        match order {
            Order::Plan(request) => {
                // Fails if the other thread has panicked: then the plans stay as they are.
                let _ = self.requests.send(request);
            }
            Order::Change(change) => return self.carry_out(*change),
            Order::Shortfall { rate_per_s, held_per_s } => {
                self.log(EventKind::Shortfall { rate_per_s, held_per_s });
            }
            Order::NoPlans { reason, message } => self.log(EventKind::NoPlans { reason, message }),
        }
        Next::GoOn
    }

    fn carry_out(&mut self, change: Change) -> Next {
        let Change { reason, rate_per_s, from, to, decided_ns, steps } = change;
        let (mut placement, mut moves) = (from.clone(), Vec::with_capacity(steps.len()));
        for step in steps {
            let start_ns = self.now_ns();
            let result = self.shared.running().apply(&step.after);
            let duration_ns = self.now_ns() - start_ns;
            if let Err(error) = result {
                self.log(EventKind::ChangeFailed { message: error.to_string() });
                self.decider.on_changed(placement);
                let is_over = matches!(error, Error::WorkerLost { .. } | Error::Stopped);
                return if is_over { Next::Stop } else { Next::GoOn };
            }
            moves.push(TimedMove { change: step.change, duration_ns });
            placement = step.after;
        }
        self.decider.on_changed(placement);
        let duration_ns = self.now_ns().saturating_sub(decided_ns);
        self.log(EventKind::PlanChanged { reason, rate_per_s, from, to, duration_ns, moves });
        Next::GoOn
    }

    fn watch_cpus(&mut self, now_ns: u64) {
        for (worker, ownership) in self.cpus.sample(now_ns) {
            self.board.set_cpu_shared(worker, ownership != Ownership::Owned);
            self.log(match ownership {
                Ownership::Shared(waited_ratio) => EventKind::CpuShared { worker, waited_ratio },
                Ownership::Owned => EventKind::CpuOwned { worker },
            });
        }
    }

    /// Returns the time since the stream was started or resumed, in nanoseconds: that of all decisions.
    fn now_ns(&self) -> u64 {
        self.sampler.since_begin(self.board.now_ns())
    }

    fn log(&self, kind: EventKind) {
        lock(&self.shared.log).add(self.board.now_ns(), kind);
    }

    fn tell_status(&self) {
        let mut status = lock(&self.shared.status);
        status.rate_per_s = self.decider.rate_per_s();
        status.held_per_s = self.decider.held_per_s();
        status.late_ns = self.decider.late_ns();
        if status.placement != *self.decider.placement() {
            status.placement = self.decider.placement().clone();
        }
    }
}

fn tuples_in(sample: &Sample) -> u64 {
    sample.operators.iter().map(|operator| operator.tuples_in).sum()
}

fn period_ns(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes plans until the channel of requests is closed.
pub(super) fn make_plans(requests: &Receiver<Box<PlanRequest>>, tell: &Sender<Message>) {
    let _ = background(THREAD_NICE, TIME_SLICE);
    while let Ok(request) = requests.recv() {
        if tell.send(Message::Plans(Box::new(request.make()))).is_err() {
            return;
        }
    }
}
