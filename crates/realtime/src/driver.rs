//! The thread that a device runs on in real time: it sleeps until an event is due or a request arrives.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_model::{Completion, Device, Extent, Nanos, Op, Outcome, Request, RequestId, StreamId};
use smallvec::SmallVec;

use super::backing::{Job, Jobs, Waker};
use super::{Schedule, Timeline};
use sakiyomi_iorate::server::{LiveDevice, OwnerTable, RateQuery, Rates, Stopped};

/// Time before an event from which on the thread polls the clock instead of sleeping: about the time that it takes to
/// wake a thread. The thread never spins for longer.
const SPIN_BEFORE_EVENT: Duration = Duration::from_micros(40);

/// Inbox capacity; a caller blocks while the inbox is full.
const INBOX_CAPACITY: usize = 1 << 16;

/// Extents of an access: almost always one, which needs no allocation.
pub type Extents = SmallVec<[Extent; 1]>;

/// Receives the completions of an access.
pub trait OnCompletion: Send + Sync {
    /// Called once, on the device's thread, with the completions of all parts in order of finish time. It must not
    /// block.
    fn on_completion(&self, completions: &[Completion]);
}

/// Requests to the device that are answered together.
#[derive(Clone, Debug)]
pub struct Access {
    /// The stream; on a regulated device, the owner.
    pub stream: StreamId,
    /// The process; 0 is the kernel and others without one.
    pub process: u32,
    /// The operation.
    pub op: Op,
    /// Force unit access: a write completes when it is on the medium.
    pub fua: bool,
    /// One extent per request; a flush has one empty extent.
    pub extents: Extents,
}

/// A device that runs in real time. It stops when dropped; outstanding accesses are then never answered.
#[derive(Debug)]
pub struct RealtimeDevice {
    shared: Arc<Shared>,
    timeline: Timeline,
    thread: Option<JoinHandle<()>>,
    is_real_time: bool,
}

#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    /// The inbox is not empty, or the device may have an event.
    nonempty: Condvar,
    /// The inbox is no longer full.
    room: Condvar,
    /// Busy time of the device, as of its last event.
    busy: AtomicU64,
}

/// Arrivals that the thread has not processed yet, in order of time.
#[derive(Default)]
struct Inbox {
    arrived: Vec<Arrived>,
    stopped: bool,
}

enum Arrived {
    Access { access: Access, arrival: Nanos, job: Option<Job>, answer: Arc<dyn OnCompletion> },
    Question { at: Nanos, question: RateQuery },
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inbox { arrived, stopped } = self;
        f.debug_struct("Inbox").field("arrived", &arrived.len()).field("stopped", stopped).finish()
    }
}

impl Shared {
    fn wake(&self) {
        // Takes the lock, so that a thread which found nothing to do is waiting already.
        drop(self.lock());
        self.nonempty.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // No operation under this lock can panic half-way.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RealtimeDevice {
    /// Starts a device with the clock `timeline`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(device: LiveDevice, timeline: Timeline) -> io::Result<RealtimeDevice> {
        RealtimeDevice::start_with(timeline, |_| (device, Jobs::default()))
    }

    /// Starts the device made by `device`. The device may wake the thread at any time; jobs of requests to backing
    /// files are inserted into the returned [`Jobs`].
    pub(crate) fn start_with(
        timeline: Timeline,
        device: impl FnOnce(Waker) -> (LiveDevice, Jobs),
    ) -> io::Result<RealtimeDevice> {
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            nonempty: Condvar::new(),
            room: Condvar::new(),
            busy: AtomicU64::new(0),
        });
        let woken = Arc::clone(&shared);
        let (mut device, jobs) = device(Box::new(move || woken.wake()));
        device.keep_timings();
        let runner = Runner {
            shared: Arc::clone(&shared),
            timeline: timeline.clone(),
            owners: device.regulator().map(OwnerTable::new),
            jobs,
            schedule: Schedule::new(device),
            accesses: BTreeMap::new(),
            next_id: 0,
        };
        let (started, start) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("device".to_owned()).spawn(move || {
            // It computes little, but at definite instants. Without the right to it, replies are late when all cores are
            // busy, which callers can tell.
            let _ = started.send(sakiyomi_os::priority::real_time().is_ok());
            runner.run();
        })?;
        let is_real_time = start.recv().unwrap_or(false);
        Ok(RealtimeDevice { shared, timeline, thread: Some(thread), is_real_time })
    }

    /// Submits an access now, and returns the time. Blocks while the inbox is full, except in an [`OnCompletion`].
    ///
    /// # Errors
    /// [`Stopped`]; `answer` is then never called.
    pub fn submit(&self, access: Access, answer: Arc<dyn OnCompletion>) -> Result<Nanos, Stopped> {
        self.enter(|timeline| {
            let arrival = timeline.begin();
            (arrival, Arrived::Access { access, arrival, job: None, answer })
        })
    }

    /// Submits a request to backing files: `job` runs when the request is issued to the device.
    pub(crate) fn submit_job(
        &self,
        access: Access,
        job: Job,
        answer: Arc<dyn OnCompletion>,
    ) -> Result<Nanos, Stopped> {
        debug_assert!(access.extents.len() == 1, "a job is one request");
        self.enter(|timeline| {
            let arrival = timeline.begin();
            (arrival, Arrived::Access { access, arrival, job: Some(job), answer })
        })
    }

    /// Queries the rates, after everything that arrived before. Without a regulator the query is dropped.
    ///
    /// # Errors
    /// [`Stopped`]; the query is then dropped.
    pub fn ask(&self, question: RateQuery) -> Result<(), Stopped> {
        self.enter(|timeline| {
            let at = timeline.now();
            (at, Arrived::Question { at, question })
        })
        .map(drop)
    }

    fn enter(&self, arrived: impl FnOnce(&Timeline) -> (Nanos, Arrived)) -> Result<Nanos, Stopped> {
        let mut inbox = self.shared.lock();
        while inbox.arrived.len() >= INBOX_CAPACITY && !inbox.stopped && !self.is_this_thread() {
            inbox = self.shared.room.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        if inbox.stopped {
            return Err(Stopped);
        }
        // The clock is read under the lock, so that arrivals are in order of time.
        let (at, arrived) = arrived(&self.timeline);
        inbox.arrived.push(arrived);
        drop(inbox);
        self.shared.nonempty.notify_one();
        Ok(at)
    }

    fn is_this_thread(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    /// Returns whether the device's thread runs before all ordinary ones; without the right to it, replies are late when
    /// all cores are busy.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.is_real_time
    }

    /// Returns the device's busy time until its last event.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        Nanos(self.shared.busy.load(Ordering::Relaxed))
    }
}

impl Drop for RealtimeDevice {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.nonempty.notify_one();
        // The last reference may be dropped in an `OnCompletion`: the thread then ends by itself.
        let is_own = self.is_this_thread();
        if let Some(thread) = self.thread.take().filter(|_| !is_own) {
            // A panic of the thread has already been reported.
            let _ = thread.join();
        }
    }
}

/// State of the device's thread.
struct Runner {
    shared: Arc<Shared>,
    timeline: Timeline,
    schedule: Schedule<LiveDevice>,
    /// `None` without a regulator.
    owners: Option<OwnerTable>,
    jobs: Jobs,
    /// Outstanding accesses by the ID of their first request; the IDs of the others follow.
    accesses: BTreeMap<u64, Outstanding>,
    next_id: u64,
}

struct Outstanding {
    parts: usize,
    ended: SmallVec<[Completion; 1]>,
    answer: Arc<dyn OnCompletion>,
}

impl Drop for Runner {
    /// Also runs when the model has panicked, so that no caller waits for a stopped device.
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
        // If refused, wake-ups are 50 us later, which the summary shows.
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

    /// Sleeps until an event is due or something arrives; moves the arrivals to `arrived` and returns the time. `None`
    /// if stopped.
    fn wait(&self, arrived: &mut Vec<Arrived>) -> Option<Nanos> {
        let mut inbox = self.shared.lock();
        loop {
            if inbox.stopped {
                return None;
            }
            let now = self.timeline.now();
            let until = self.schedule.next_event().map(|event| event.saturating_sub(now));
            if !inbox.arrived.is_empty() || until == Some(Nanos::ZERO) {
                if inbox.arrived.len() >= INBOX_CAPACITY {
                    self.shared.room.notify_all();
                }
                std::mem::swap(&mut inbox.arrived, arrived);
                return Some(now);
            }
            let condition = &self.shared.nonempty;
            inbox = match until.map(|until| self.timeline.wait(until)) {
                None => condition.wait(inbox).unwrap_or_else(PoisonError::into_inner),
                Some(long) if long > SPIN_BEFORE_EVENT => {
                    condition
                        .wait_timeout(inbox, long - SPIN_BEFORE_EVENT)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
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
        job: Option<Job>,
        answer: Arc<dyn OnCompletion>,
        done: &mut Vec<Completion>,
    ) {
        let Access { stream, process, op, fua, extents } = access;
        if let Some(job) = job {
            self.jobs.insert(RequestId(self.next_id), job, extents[0]);
        }
        let outstanding =
            Outstanding { parts: extents.len(), ended: SmallVec::with_capacity(extents.len()), answer };
        self.accesses.insert(self.next_id, outstanding);
        for extent in extents {
            let id = RequestId(self.next_id);
            self.next_id += 1;
            let request = Request { id, stream, op, fua, extent, arrival };
            if let (Some(owners), Some(regulator)) = (&mut self.owners, self.schedule.device().regulator()) {
                owners.on_arrival(&request, process, regulator);
            }
            self.schedule.arrive(request, done);
        }
    }

    fn asked(&mut self, at: Nanos, question: RateQuery, done: &mut Vec<Completion>) {
        self.schedule.run_until(at, done);
        // Completions until then are counted before the query is answered.
        self.end_all(done);
        if let Some(owners) = &mut self.owners {
            question(&mut Rates::new(self.schedule.device_mut(), owners), at);
        }
    }

    fn end_all(&mut self, done: &mut Vec<Completion>) {
        if let Some(owners) = &mut self.owners {
            let (now, device) = (self.timeline.now(), self.schedule.device_mut());
            done.iter().for_each(|completion| owners.on_completion(completion, now, device));
            owners.count(device);
        }
        for completion in done.drain(..) {
            if completion.outcome != Outcome::Done {
                self.jobs.discard(completion.request.id);
            }
            self.ended(completion);
        }
    }

    fn ended(&mut self, completion: Completion) {
        let id = completion.request.id.0;
        let (&first, access) =
            self.accesses.range_mut(..=id).next_back().expect("every request belongs to an access");
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
    use sakiyomi_drive::fixed::{Fixed, FixedSpec};
    use sakiyomi_model::{Lba, Sectors};
    use sakiyomi_regulate::RegulatedDevice;
    use std::sync::mpsc;

    fn callback<F: FnOnce(&[Completion]) + Send>(callback: F) -> Arc<Mutex<Option<F>>> {
        Arc::new(Mutex::new(Some(callback)))
    }

    fn access(parts: u64) -> Access {
        let extents = (0..parts).map(|part| Extent::new(Lba(part * 100), Sectors(8))).collect();
        Access { stream: StreamId(1), process: 0, op: Op::Read, fua: false, extents }
    }

    fn fixed(text: &str) -> LiveDevice {
        RegulatedDevice::unregulated(Box::new(Fixed::new(text.parse::<FixedSpec>().unwrap(), 0)))
    }

    #[test]
    fn an_access_is_answered_once_when_all_its_parts_have_ended() {
        let timeline = Timeline::new(1.0);
        let live = RealtimeDevice::start(fixed("latency=2ms,parallel=2"), timeline.clone()).unwrap();
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
        // Six requests, two at a time, 2 ms each: the last one completes 6 ms after the first one arrived.
        assert!(answers[2].1 >= Nanos(6_000_000));
    }

    #[test]
    fn at_twice_the_speed_time_passes_twice_as_fast() {
        let timeline = Timeline::new(1000.0);
        let live = RealtimeDevice::start(fixed("latency=5s"), timeline).unwrap();
        let (sender, receiver) = mpsc::channel();
        let answer = move |ends: &[Completion]| sender.send(ends[0].device_time()).unwrap();
        live.submit(access(1), callback(answer)).unwrap();
        // 5 ms of wall-clock time.
        assert_eq!(receiver.recv().unwrap(), Nanos::SECOND * 5);
    }

    #[test]
    fn an_answer_may_ask_for_more_than_may_wait() {
        let live =
            Arc::new(RealtimeDevice::start(fixed("latency=1us,parallel=64"), Timeline::new(1e6)).unwrap());
        let (sender, receiver) = mpsc::channel();
        let asks = Arc::clone(&live);
        let answer = move |_: &[Completion]| {
            for _ in 0..=INBOX_CAPACITY {
                let sender = sender.clone();
                asks.submit(access(1), callback(move |_| sender.send(()).unwrap())).unwrap();
            }
        };
        live.submit(access(1), callback(answer)).unwrap();
        for _ in 0..=INBOX_CAPACITY {
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        }
    }

    #[test]
    fn an_answer_may_be_the_last_that_holds_the_device() {
        let live = Arc::new(RealtimeDevice::start(fixed("latency=20ms"), Timeline::new(1.0)).unwrap());
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
        let live = RealtimeDevice::start(fixed("latency=1h"), Timeline::new(1.0)).unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        live.submit(access(1), callback(move |_| drop(sender))).unwrap();
        drop(live);
        assert!(receiver.recv().is_err());
    }
}
