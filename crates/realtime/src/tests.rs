//! Rates on the device's thread, without files: jobs only report that they were performed.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sakiyomi_drive::fixed::Fixed;
use sakiyomi_model::{Bytes, Completion, Device, Extent, Lba, Nanos, Op, Outcome, Sectors, StreamId};
use sakiyomi_regulate::{Percent, Rate, RegulatedDevice, Settings, measure};

use super::{Access, LiveDevice, Rates, RealtimeDevice, Timeline};
use crate::backing::Backing;
use crate::backing_pool::{self, Perform};

const MS: Nanos = Nanos::MILLISECOND;

fn live(depth: u32) -> RealtimeDevice {
    let settings = Settings { depth, ..Settings::default() };
    started(|files| RegulatedDevice::new(files, settings))
}

/// Files on a disk whose random reads take 2 ms, by its profile.
fn live_by_profile() -> RealtimeDevice {
    let profile = measure(&mut Fixed::new("latency=2ms,bandwidth=100MB,size=1GB".parse().unwrap(), 1));
    started(|files| RegulatedDevice::with_profile(files, Settings::default(), Arc::new(profile), 0.0))
}

fn started(device: impl FnOnce(Box<dyn Device + Send>) -> LiveDevice) -> RealtimeDevice {
    let timeline = Timeline::new(1.0);
    let pool = Arc::new(backing_pool::start_pool(8).unwrap());
    let device = |waker| {
        let files = Backing::new(Bytes(1 << 30), timeline.clone(), pool, waker);
        let jobs = files.jobs();
        (device(Box::new(files)), jobs)
    };
    RealtimeDevice::start_with(timeline.clone(), device).unwrap()
}

fn access(owner: u32) -> Access {
    access_of(owner, Sectors(8))
}

fn access_of(owner: u32, sectors: Sectors) -> Access {
    let extents = [Extent::new(Lba(0), sectors)].into_iter().collect();
    Access { stream: StreamId(owner), process: 0, op: Op::Read, fua: false, extents }
}

/// A closure that is performed once.
struct Job<F>(Mutex<Option<F>>);

impl<F: FnOnce(bool) -> bool + Send> Perform for Job<F> {
    fn perform(&self, _: Range<u64>, durable: bool) -> bool {
        let job = self.0.lock().unwrap().take().unwrap();
        job(durable)
    }
}

/// Submits a job for an owner; returns the receiver of its completion.
fn ask(
    live: &RealtimeDevice,
    owner: u32,
    job: impl FnOnce() -> bool + Send + 'static,
) -> mpsc::Receiver<Completion> {
    let (sender, receiver) = mpsc::channel();
    let answer = move |ends: &[Completion]| sender.send(ends[0]).unwrap();
    let job = Job(Mutex::new(Some(|_| job())));
    live.submit_job(access(owner), Arc::new(job), Arc::new(Mutex::new(Some(answer)))).unwrap();
    receiver
}

fn ended(receiver: &mpsc::Receiver<Completion>) -> Completion {
    receiver.recv_timeout(Duration::from_secs(20)).unwrap()
}

/// Runs a query on the device's thread and waits for the answer.
fn question<T: Send + 'static>(
    live: &RealtimeDevice,
    question: impl FnOnce(&mut Rates<'_>, Nanos) -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    live.ask(Box::new(move |rates, now| sender.send(question(rates, now)).unwrap())).unwrap();
    receiver.recv_timeout(Duration::from_secs(20)).unwrap()
}

#[test]
fn no_more_is_done_at_a_time_than_the_device_may_have() {
    let live = live(3);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let ends: Vec<_> = (0..40)
        .map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            ask(&live, 1, move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                now.fetch_sub(1, Ordering::SeqCst);
                true
            })
        })
        .collect();
    assert!(ends.iter().all(|end| ended(end).outcome == Outcome::Done));
    assert!(most.load(Ordering::SeqCst) <= 3);
    let seen = question(&live, |rates, now| rates.snapshot(now, 0, true, 10));
    assert_eq!((seen.device.ended, seen.owners[0].0, seen.owners[0].1.ios), (40, 1, 40));
}

#[test]
fn what_was_done_early_is_answered_when_it_is_time_and_a_failure_at_once() {
    let live = live(8);
    let rate = Rate::Every(MS * 30);
    question(&live, move |rates, now| rates.set(now, 1, rate, true)).unwrap();
    let end = ended(&ask(&live, 1, || true));
    assert!(end.finish - end.submitted >= MS * 29, "{end:?}");
    let end = ended(&ask(&live, 1, || false));
    assert_eq!(end.outcome, Outcome::Error);
    let held = question(&live, |rates, now| rates.snapshot(now, 0, false, 10));
    assert_eq!((held.past.ios, held.past.given, held.owners.len()), (1, 1, 1));
}

#[test]
fn what_is_held_back_is_answered_when_the_rate_is_taken_back() {
    let live = live(8);
    question(&live, move |rates, now| rates.set(now, 1, Rate::Every(Nanos::SECOND * 600), true)).unwrap();
    let end = ask(&live, 1, || true);
    question(&live, |rates, now| rates.clear(now, 1));
    assert_eq!(ended(&end).outcome, Outcome::Done);
}

#[test]
fn what_has_not_begun_is_let_go_with_its_owner() {
    let live = live(1);
    question(&live, move |rates, now| rates.set(now, 1, Rate::Every(Nanos::SECOND), true)).unwrap();
    let (go_on, wait) = mpsc::channel::<()>();
    let first = ask(&live, 2, move || wait.recv().is_ok());
    let begun = Arc::new(AtomicUsize::new(0));
    let job = Arc::clone(&begun);
    let second = ask(&live, 1, move || job.fetch_add(1, Ordering::SeqCst) == 0);
    question(&live, |rates, now| rates.gone(now, 1));
    assert_eq!(ended(&second).outcome, Outcome::Cancelled);
    assert_eq!(Arc::strong_count(&begun), 1, "its job is forgotten");
    go_on.send(()).unwrap();
    assert_eq!(ended(&first).outcome, Outcome::Done);
    assert_eq!(begun.load(Ordering::SeqCst), 0);
}

#[test]
fn many_owners_are_looked_at_in_parts() {
    let live = live(8);
    for owner in 1..=300 {
        question(&live, move |rates, now| rates.set(now, owner, Rate::Every(Nanos::SECOND * 60), true))
            .unwrap();
    }
    let (mut after, mut parts, mut seen) = (0, 0, 0);
    loop {
        let part = question(&live, move |rates, now| rates.snapshot(now, after, false, 64));
        assert!(part.owners.iter().all(|(number, ..)| *number > after));
        (after, parts, seen) = (part.owners.last().unwrap().0, parts + 1, seen + part.owners.len());
        if !part.more {
            break;
        }
    }
    assert_eq!((parts, seen), (5, 300));
}

/// Writes complete at once, so the device has a cache; once that delays the reads of an owner, writes must reach the
/// medium.
#[test]
fn writes_are_forced_to_the_medium_where_their_being_taken_in_does_harm() {
    let live = live(8);
    question(&live, move |rates, now| rates.set(now, 1, Rate::Every(MS * 80), true)).unwrap();
    let write = || {
        let (sender, receiver) = mpsc::channel();
        let job = Arc::new(Job(Mutex::new(Some(move |durable| sender.send(durable).is_ok()))));
        let answer = Arc::new(Mutex::new(Some(|_: &[Completion]| ())));
        live.submit_job(Access { op: Op::Write, ..access(2) }, job, answer).unwrap();
        receiver.recv_timeout(Duration::from_secs(20)).unwrap()
    };
    let read = |long| {
        let slow = move || {
            std::thread::sleep(Duration::from_millis(long));
            true
        };
        ended(&ask(&live, 1, slow));
    };
    (0..4).for_each(|_| read(40));
    // At least one of them is far faster than a read, however busy the machine is.
    (0..20).for_each(|_| assert!(!write()));
    read(200);
    assert!(write());
    question(&live, |rates, now| rates.clear(now, 1));
    assert!(!write(), "no owner has a rate");
}

/// Records the parts that it is performed in, and fails at the part that begins there.
struct Parts {
    seen: Arc<Mutex<Vec<Range<u64>>>>,
    fails_at: Option<u64>,
}

impl Perform for Parts {
    fn perform(&self, part: Range<u64>, _: bool) -> bool {
        self.seen.lock().unwrap().push(part.clone());
        self.fails_at != Some(part.start)
    }
}

/// Submits a read of a megabyte beside an owner with a rate; returns its outcome and its parts.
fn parts_beside_an_owner(fails_at: Option<u64>) -> (Outcome, Vec<Range<u64>>) {
    let live = live_by_profile();
    question(&live, |rates, now| {
        rates.set(now, 1, Rate::Percent(Percent::new(30).unwrap()), false).unwrap();
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (sender, receiver) = mpsc::channel();
    let answer = move |ends: &[Completion]| sender.send(ends[0]).unwrap();
    let job = Parts { seen: Arc::clone(&seen), fails_at };
    let answer = Arc::new(Mutex::new(Some(answer)));
    live.submit_job(access_of(2, Sectors(2048)), Arc::new(job), answer).unwrap();
    let outcome = ended(&receiver).outcome;
    drop(live);
    let seen = seen.lock().unwrap().clone();
    (outcome, seen)
}

#[test]
fn a_large_request_is_performed_in_parts_beside_an_owner() {
    let (outcome, parts) = parts_beside_an_owner(None);
    assert_eq!(outcome, Outcome::Done);
    assert!(parts.len() > 1 && parts[0].start == 0 && parts[parts.len() - 1].end == 1 << 20, "{parts:?}");
    assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "{parts:?}");
}

#[test]
fn a_request_ends_with_the_first_part_that_fails() {
    let (_, parts) = parts_beside_an_owner(None);
    let second = parts[1].start;
    let (outcome, parts) = parts_beside_an_owner(Some(second));
    assert_eq!((outcome, parts.len()), (Outcome::Error, 2), "{parts:?}");
}
