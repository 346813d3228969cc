//! The thread that a live device runs on: it sleeps until something is due or somebody comes.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_model::{Completion, Extent, Nanos, Op, Request, RequestId, StreamId};
use smallvec::SmallVec;

use super::backing::{Perform, Waker};
use super::kept::Kept;
use super::machine::Machine;
use super::{Schedule, Timeline};
use crate::device::Emulated;

/// So long before an event the thread stops sleeping and looks at the clock instead: waking a thread takes about that
/// long, and late. It is the longest that it is ever busy without having anything to do.
const AWAKE: Duration = Duration::from_micros(40);

/// Accesses that wait for the thread at most; who comes then waits with his.
const INBOX_MAX: usize = 1 << 16;

/// The places of an access: almost always one, which needs no allocation.
pub type Extents = SmallVec<[Extent; 1]>;

/// Told of the completions of an access.
pub trait OnCompletion: Send + Sync {
    /// Called once, on the device's thread, with the completions of all parts in order of their ends. It must not wait.
    fn on_completion(&self, completions: &[Completion]);
}

/// Looks at what keeps the rates, or changes something, at the instant that it came; on the device's thread. It may not
/// wait.
pub(crate) type Question = Box<dyn FnOnce(&mut Kept, Nanos) + Send>;

/// The device does not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// What is asked of the device in one go.
#[derive(Clone, Debug)]
pub struct Access {
    /// Who asks.
    pub stream: StreamId,
    /// What is asked.
    pub op: Op,
    /// A write is to be on the medium before it ends.
    pub fua: bool,
    /// Where; a flush has one empty extent.
    pub extents: Extents,
}

/// A device that runs in real time. Stops when it is dropped; what is not answered then never is.
#[derive(Debug)]
pub struct Live {
    shared: Arc<Shared>,
    timeline: Timeline,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    /// Something has come.
    come: Condvar,
    /// There is room again.
    room: Condvar,
    /// The device's account, as of its last event.
    busy: AtomicU64,
}

/// What has come, in order of time.
#[derive(Default)]
struct Inbox {
    arrived: Vec<Arrived>,
    stopped: bool,
}

enum Arrived {
    Access { access: Access, arrival: Nanos, job: Option<Arc<dyn Perform>>, answer: Arc<dyn OnCompletion> },
    Question { at: Nanos, question: Question },
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inbox { arrived, stopped } = self;
        f.debug_struct("Inbox").field("arrived", &arrived.len()).field("stopped", stopped).finish()
    }
}

impl Shared {
    fn wake(&self) {
        // Under the lock, so that a thread which has looked and found nothing sleeps already.
        drop(self.lock());
        self.come.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // Nothing that is done under the lock can panic half-way.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// Starts a device; its time 0 is that of `timeline`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(device: Box<dyn Emulated>, timeline: Timeline) -> io::Result<Live> {
        Live::start_machine(timeline, |_| Machine::Free(device))
    }

    /// Starts what `machine` gives, which may wake the thread at any time.
    pub(crate) fn start_machine(
        timeline: Timeline,
        machine: impl FnOnce(Waker) -> Machine,
    ) -> io::Result<Live> {
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            come: Condvar::new(),
            room: Condvar::new(),
            busy: AtomicU64::new(0),
        });
        let woken = Arc::clone(&shared);
        let machine = machine(Box::new(move || woken.wake()));
        let runner = Runner {
            shared: Arc::clone(&shared),
            timeline: timeline.clone(),
            schedule: Schedule::new(machine),
            accesses: BTreeMap::new(),
            next_id: 0,
        };
        let thread = thread::Builder::new().name("device".to_owned()).spawn(move || runner.run())?;
        Ok(Live { shared, timeline, thread: Some(thread) })
    }

    /// Asks for something, now; says when that was. Blocks while the inbox is full, but not on the device's own thread.
    ///
    /// # Errors
    /// [`Stopped`]; `answer` is then never called.
    pub fn submit(&self, access: Access, answer: Arc<dyn OnCompletion>) -> Result<Nanos, Stopped> {
        self.enter(|timeline| {
            let arrival = timeline.begin();
            (arrival, Arrived::Access { access, arrival, job: None, answer })
        })
    }

    /// The same for a request to backing files: `job` is done when it is its turn.
    pub(crate) fn submit_job(
        &self,
        access: Access,
        job: Arc<dyn Perform>,
        answer: Arc<dyn OnCompletion>,
    ) -> Result<Nanos, Stopped> {
        debug_assert!(access.extents.len() == 1, "a job is one request");
        self.enter(|timeline| {
            let arrival = timeline.begin();
            (arrival, Arrived::Access { access, arrival, job: Some(job), answer })
        })
    }

    /// Asks what keeps the rates, after all that has come before. Where none are kept it is dropped.
    pub(crate) fn ask(&self, question: Question) -> Result<(), Stopped> {
        self.enter(|timeline| {
            let at = timeline.now();
            (at, Arrived::Question { at, question })
        })
        .map(drop)
    }

    fn enter(&self, arrived: impl FnOnce(&Timeline) -> (Nanos, Arrived)) -> Result<Nanos, Stopped> {
        let mut inbox = self.shared.lock();
        while inbox.arrived.len() >= INBOX_MAX && !inbox.stopped && !self.is_this_thread() {
            inbox = self.shared.room.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        if inbox.stopped {
            return Err(Stopped);
        }
        // Under the lock, so that they stand in order of time.
        let (at, arrived) = arrived(&self.timeline);
        inbox.arrived.push(arrived);
        drop(inbox);
        self.shared.come.notify_one();
        Ok(at)
    }

    fn is_this_thread(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    /// How long the device was busy until its last event.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        Nanos(self.shared.busy.load(Ordering::Relaxed))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.come.notify_one();
        // An answer may have been the last to hold it: the thread ends by itself then.
        let is_own = self.is_this_thread();
        if let Some(thread) = self.thread.take().filter(|_| !is_own) {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Runner {
    shared: Arc<Shared>,
    timeline: Timeline,
    schedule: Schedule<Machine>,
    /// Accesses under way, by the number of their first request; the others follow it.
    accesses: BTreeMap<u64, UnderWay>,
    next_id: u64,
}

struct UnderWay {
    parts: usize,
    ended: SmallVec<[Completion; 1]>,
    answer: Arc<dyn OnCompletion>,
}

impl Drop for Runner {
    /// Also when the model has panicked: nobody may wait for a device that does not run.
    fn drop(&mut self) {
        let mut inbox = self.shared.lock();
        inbox.stopped = true;
        let left = std::mem::take(&mut inbox.arrived);
        drop(inbox);
        self.shared.room.notify_all();
        drop(left);
    }
}

impl Runner {
    fn run(mut self) {
        // Where it is refused, wake-ups are 50 us later, which the summary shows.
        let _ = sakiyomi_os::priority::precise_timers();
        let (mut arrived, mut done) = (Vec::new(), Vec::new());
        while let Some(now) = self.wait(&mut arrived) {
            for one in arrived.drain(..) {
                match one {
                    Arrived::Access { access, arrival, job, answer } => {
                        self.arrive(access, arrival, job, answer, &mut done);
                    }
                    Arrived::Question { at, question } => self.asked(at, question, &mut done),
                }
            }
            self.schedule.run_until(now, &mut done);
            self.end_all(&mut done);
            let busy = self.schedule.device().busy(self.schedule.now());
            self.shared.busy.store(busy.0, Ordering::Relaxed);
        }
    }

    /// Sleeps until there is something to do; takes what has come, and says what time it is. `None` is the end.
    fn wait(&self, arrived: &mut Vec<Arrived>) -> Option<Nanos> {
        let mut inbox = self.shared.lock();
        loop {
            if inbox.stopped {
                return None;
            }
            let now = self.timeline.now();
            let until = self.schedule.next_event().map(|event| event.saturating_sub(now));
            if !inbox.arrived.is_empty() || until == Some(Nanos::ZERO) {
                if inbox.arrived.len() >= INBOX_MAX {
                    self.shared.room.notify_all();
                }
                std::mem::swap(&mut inbox.arrived, arrived);
                return Some(now);
            }
            let condition = &self.shared.come;
            inbox = match until.map(|until| self.timeline.wait(until)) {
                None => condition.wait(inbox).unwrap_or_else(PoisonError::into_inner),
                Some(long) if long > AWAKE => {
                    condition.wait_timeout(inbox, long - AWAKE).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    drop(inbox);
                    std::hint::spin_loop();
                    self.shared.lock()
                }
            };
        }
    }

    fn arrive(
        &mut self,
        access: Access,
        arrival: Nanos,
        job: Option<Arc<dyn Perform>>,
        answer: Arc<dyn OnCompletion>,
        done: &mut Vec<Completion>,
    ) {
        let Access { stream, op, fua, extents } = access;
        if let Some(job) = job {
            self.schedule.device_mut().bring(RequestId(self.next_id), job);
        }
        let ended = SmallVec::with_capacity(extents.len());
        let under_way = UnderWay { parts: extents.len(), ended, answer };
        self.accesses.insert(self.next_id, under_way);
        for extent in extents {
            let id = RequestId(self.next_id);
            self.next_id += 1;
            let request = Request { id, stream, op, fua, extent, arrival };
            if let Some(kept) = self.schedule.device_mut().kept() {
                kept.arrived(&request);
            }
            self.schedule.arrive(request, done);
        }
    }

    fn asked(&mut self, at: Nanos, question: Question, done: &mut Vec<Completion>) {
        self.schedule.run_until(at, done);
        // What has ended until then is seen as ended.
        self.end_all(done);
        if let Some(kept) = self.schedule.device_mut().kept() {
            question(kept, at);
        }
    }

    fn end_all(&mut self, done: &mut Vec<Completion>) {
        if let Some(kept) = self.schedule.device_mut().kept() {
            let now = self.timeline.now();
            done.iter().for_each(|completion| kept.ended(completion, now));
            kept.account();
        }
        for completion in done.drain(..) {
            self.ended(completion);
        }
    }

    fn ended(&mut self, completion: Completion) {
        let id = completion.request.id.0;
        let (&first, access) =
            self.accesses.range_mut(..=id).next_back().expect("every request is of an access");
        access.ended.push(completion);
        if access.ended.len() == access.parts
            && let Some(access) = self.accesses.remove(&first)
        {
            access.answer.on_completion(&access.ended);
        }
    }
}

/// A closure that is called once, for tests.
#[cfg(test)]
impl<F: FnOnce(&[Completion]) + Send> OnCompletion for Mutex<Option<F>> {
    fn on_completion(&self, completions: &[Completion]) {
        let callback = self.lock().unwrap().take().unwrap();
        callback(completions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Fixed, FixedSpec};
    use sakiyomi_model::{Lba, Sectors};
    use std::sync::mpsc;

    fn callback<F: FnOnce(&[Completion]) + Send>(callback: F) -> Arc<Mutex<Option<F>>> {
        Arc::new(Mutex::new(Some(callback)))
    }

    fn access(parts: u64) -> Access {
        let extents = (0..parts).map(|part| Extent::new(Lba(part * 100), Sectors(8))).collect();
        Access { stream: StreamId(1), op: Op::Read, fua: false, extents }
    }

    fn fixed(text: &str) -> Box<dyn Emulated> {
        Box::new(Fixed::new(text.parse::<FixedSpec>().unwrap(), 0))
    }

    #[test]
    fn an_access_is_answered_once_when_all_its_parts_have_ended() {
        let timeline = Timeline::new(1.0);
        let live = Live::start(fixed("latency=2ms,parallel=2"), timeline.clone()).unwrap();
        let (sender, receiver) = mpsc::channel();
        for parts in [1, 3, 2] {
            let (sender, timeline) = (sender.clone(), timeline.clone());
            let answer = move |ends: &[Completion]| {
                let finish = ends.iter().map(|end| end.finish).max().unwrap();
                sender.send((ends.len(), finish, timeline.now())).unwrap();
            };
            live.submit(access(parts), callback(answer)).unwrap();
        }
        drop(sender);
        let answers: Vec<_> = receiver.iter().take(3).collect();
        assert_eq!(answers.iter().map(|answer| answer.0).collect::<Vec<_>>(), [1, 3, 2]);
        assert!(answers.iter().all(|&(_, finish, answered)| answered >= finish), "none too early");
        // Six requests, two at a time, 2 ms each: the last ends 6 ms after the first came.
        assert!(answers[2].1 >= Nanos(6_000_000));
    }

    #[test]
    fn at_twice_the_speed_time_passes_twice_as_fast() {
        let timeline = Timeline::new(1000.0);
        let live = Live::start(fixed("latency=5s"), timeline).unwrap();
        let (sender, receiver) = mpsc::channel();
        let answer = move |ends: &[Completion]| sender.send(ends[0].device_time()).unwrap();
        live.submit(access(1), callback(answer)).unwrap();
        // 5 ms on the wall.
        assert_eq!(receiver.recv().unwrap(), Nanos::SECOND * 5);
    }

    #[test]
    fn an_answer_may_ask_for_more_than_may_wait() {
        let live = Arc::new(Live::start(fixed("latency=1us,parallel=64"), Timeline::new(1e6)).unwrap());
        let (sender, receiver) = mpsc::channel();
        let asks = Arc::clone(&live);
        let answer = move |_: &[Completion]| {
            for _ in 0..=INBOX_MAX {
                let sender = sender.clone();
                asks.submit(access(1), callback(move |_| sender.send(()).unwrap())).unwrap();
            }
        };
        live.submit(access(1), callback(answer)).unwrap();
        for _ in 0..=INBOX_MAX {
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        }
    }

    #[test]
    fn an_answer_may_be_the_last_that_holds_the_device() {
        let live = Arc::new(Live::start(fixed("latency=20ms"), Timeline::new(1.0)).unwrap());
        let (sender, receiver) = mpsc::channel();
        let held = Arc::clone(&live);
        let answer = move |_: &[Completion]| {
            drop(held);
            sender.send(()).unwrap();
        };
        live.submit(access(1), callback(answer)).unwrap();
        drop(live);
        receiver.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn what_is_not_answered_at_the_end_is_let_go() {
        let live = Live::start(fixed("latency=1h"), Timeline::new(1.0)).unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        live.submit(access(1), callback(move |_| drop(sender))).unwrap();
        drop(live);
        assert!(receiver.recv().is_err());
    }
}
