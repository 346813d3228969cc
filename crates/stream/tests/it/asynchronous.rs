//! Operators whose results come from other threads, and inputs that wake their workers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand_pcg::Pcg64;
use sakiyomi_stream::{
    AsyncOperator, Emitter, Next, OnPanic, OperatorId, PendingSnapshot, Recover, Running, SaveState,
    Settings, Snapshot, Source, StreamBuilder, Wakeup, each,
};

use crate::inputs::{
    Collect, Digest, Digests, Emitted, Numbers, POISON, below, emitted, hush_poison, mix, random, saves,
    seeds,
};

const WORKERS: usize = 2;

/// One of this many values is answered at once.
const KNOWN_OF: u64 = 5;

/// Doubles numbers, by another thread that replies in random order.
struct Doubles {
    requests: Sender<(u64, u64)>,
    replies: Arc<Mutex<Vec<(u64, u64)>>>,
    wakeup: Wakeup,
    in_flight_max: usize,
    /// Requests that have no reply yet; and the most of them at once.
    open: Arc<AtomicUsize>,
    open_max: Arc<AtomicUsize>,
    completed: u64,
    on_panic: OnPanic,
}

saves!(Doubles: completed);

impl Doubles {
    fn new(in_flight_max: usize, on_panic: OnPanic, seed: u64) -> Doubles {
        Doubles::waking(Wakeup::new(), in_flight_max, on_panic, seed)
    }

    fn waking(wakeup: Wakeup, in_flight_max: usize, on_panic: OnPanic, seed: u64) -> Doubles {
        let ((requests, asked), replies) = (channel(), Arc::<Mutex<_>>::default());
        let open = Arc::<AtomicUsize>::default();
        std::thread::spawn({
            let (replies, wakeup, open) = (Arc::clone(&replies), wakeup.clone(), Arc::clone(&open));
            move || reply_in_random_order(&asked, &replies, &wakeup, &open, &mut random(seed))
        });
        let (open_max, completed) = (Arc::default(), 0);
        Doubles { requests, replies, wakeup, in_flight_max, open, open_max, completed, on_panic }
    }
}

/// The thread: takes what is there, and replies to some of it.
fn reply_in_random_order(
    asked: &Receiver<(u64, u64)>,
    replies: &Mutex<Vec<(u64, u64)>>,
    wakeup: &Wakeup,
    open: &AtomicUsize,
    random: &mut Pcg64,
) {
    let mut waiting: Vec<(u64, u64)> = Vec::new();
    while let Ok(request) = asked.recv() {
        waiting.push(request);
        waiting.extend(asked.try_iter());
        // All, sooner or later: nothing else may come.
        while !waiting.is_empty() {
            let (ticket, value) = waiting.swap_remove(below(random, waiting.len()));
            open.fetch_sub(1, Ordering::Relaxed);
            replies.lock().unwrap().push((ticket, 2 * value));
            if below(random, 3) == 0 || waiting.is_empty() {
                wakeup.notify();
            }
            waiting.extend(asked.try_iter());
        }
    }
}

impl Recover for Doubles {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }

    fn on_panic(&self) -> OnPanic {
        self.on_panic
    }

    /// With a thread of its own, which knows none of the requests of this one.
    fn snapshot(&self) -> Option<Doubles> {
        let copy = Doubles::waking(self.wakeup.clone(), self.in_flight_max, self.on_panic, 0);
        Some(Doubles { completed: self.completed, open_max: Arc::clone(&self.open_max), ..copy })
    }
}

/// Whether the operator panics when a value is submitted, or is completed.
fn is_poison(value: u64, on_panic: OnPanic) -> [bool; 2] {
    let drawn = mix(value ^ 77) % 500;
    if on_panic == OnPanic::Stop { [false; 2] } else { [drawn == 0, drawn == 1] }
}

impl AsyncOperator for Doubles {
    type In = u64;
    type Out = u64;
    type Reply = u64;

    fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
    }

    fn submit(&mut self, ticket: u64, &value: &u64) -> Option<u64> {
        if is_poison(value, self.on_panic)[0] {
            std::panic::panic_any(POISON);
        }
        if value.is_multiple_of(KNOWN_OF) {
            return Some(2 * value);
        }
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.open_max.fetch_max(open, Ordering::Relaxed);
        self.requests.send((ticket, value)).unwrap();
        None
    }

    fn poll(&mut self, replies: &mut Vec<(u64, u64)>) {
        replies.append(&mut self.replies.lock().unwrap());
    }

    fn complete(&mut self, value: u64, reply: u64, out: &mut Emitter<u64>) {
        assert_eq!(reply, 2 * value);
        if is_poison(value, self.on_panic)[1] {
            std::panic::panic_any(POISON);
        }
        self.completed += 1;
        (0..value % 3).for_each(|copy| out.emit(reply + copy));
    }
}

/// The digest that the sink has of the outputs of [`Numbers`].
fn expected(values: u64, on_panic: OnPanic) -> Digest {
    let mut digest = Digest::default();
    for emitted in emitted(values) {
        match emitted {
            Emitted::Watermark(time_ns) => digest.add_watermark(time_ns),
            Emitted::Value(value) if is_poison(value, on_panic).contains(&true) => {}
            // The operator before repeats it.
            Emitted::Value(value) => (0..2).for_each(|_| {
                (0..value % 3).for_each(|copy| digest.add(2 * value + copy));
            }),
        }
    }
    digest
}

const OPERATORS: usize = 4;
const ASYNC: OperatorId = OperatorId(2);

/// Numbers, an operator that emits each twice, the asynchronous one, and the sink.
fn start(
    numbers: Numbers,
    operator: Doubles,
    from: Option<&Snapshot>,
    random: &mut Pcg64,
) -> (Running, Arc<Mutex<Option<Digest>>>) {
    let builder = StreamBuilder::new(1 + below(random, 20));
    let (sink, result) = Digests::new();
    let twice = each(|value, out: &mut Emitter<u64>| (0..2).for_each(|_| out.emit(value)));
    let flow = builder.source("numbers", numbers).then("twice", twice);
    flow.then_async("doubles", operator).sink("sink", sink);
    let workers: Vec<usize> = (0..OPERATORS).map(|_| below(random, WORKERS)).collect();
    let (stream, settings) = (builder.build().unwrap(), Settings::unpinned(WORKERS));
    let running = match from {
        Some(snapshot) => stream.start_from(settings, &workers, snapshot).unwrap(),
        None => stream.start(settings, &workers).unwrap(),
    };
    (running, result)
}

/// Splits, fuses or moves at random.
fn relocate(running: &mut Running, random: &mut Pcg64) {
    let operator = OperatorId(below(random, OPERATORS));
    let is_head = running.segments().any(|(head, _)| head == operator);
    match (is_head, below(random, 2)) {
        (false, _) => running.split(operator, below(random, WORKERS)).unwrap(),
        (true, 0) if operator.0 > 0 => running.fuse(operator).unwrap(),
        (true, _) => running.relocate(operator, below(random, WORKERS)).unwrap(),
    }
}

#[test]
fn results_are_those_of_a_loop_whatever_the_order_of_replies_and_the_placement() {
    hush_poison();
    for seed in 0..12 {
        let mut random = random(seed);
        let in_flight_max = 1 + below(&mut random, 20);
        let restart = OnPanic::Restart { snapshot_every: 1 + below(&mut random, 2_000) as u64 };
        let on_panic = [OnPanic::Stop, OnPanic::Skip, restart][below(&mut random, 3)];
        let operator = Doubles::new(in_flight_max, on_panic, seed);
        let open_max = Arc::clone(&operator.open_max);
        let values = 3_000 + below(&mut random, 3_000) as u64;
        let burst = [0, 10][below(&mut random, 2)];
        let numbers = Numbers { burst, ..Numbers::count(values) };
        let (mut running, result) = start(numbers, operator, None, &mut random);
        (0..below(&mut random, 30)).for_each(|_| relocate(&mut running, &mut random));
        let report = running.finish().unwrap();
        let emitted = report.operators[0].tuples_out;
        assert_eq!(result.lock().unwrap().unwrap(), expected(emitted, on_panic), "seed {seed}");
        let violations: u64 = report.operators.iter().map(|operator| operator.sequence_violations).sum();
        assert_eq!((violations, report.failures.len()), (0, 0));
        let counts = &report.operators[ASYNC.0];
        let dead = counts.dead_letters;
        assert_eq!(dead > 0, on_panic != OnPanic::Stop, "seed {seed}");
        assert_eq!(counts.restarts, if on_panic == restart { dead } else { 0 });
        // Requests of an operator that was restarted may still be open.
        assert!(on_panic == restart || open_max.load(Ordering::Relaxed) <= in_flight_max);
    }
}

#[test]
fn a_stream_that_resumes_with_requests_in_flight_ends_as_one_that_was_not_killed() {
    for seed in seeds(12) {
        let mut random = random(seed);
        let in_flight_max = 1 + below(&mut random, 40);
        let (mut last, kills): (Option<Snapshot>, _) = (None, 1 + below(&mut random, 3));
        for life in 0..=kills {
            let operator = Doubles::new(in_flight_max, OnPanic::Stop, seed);
            let numbers = Numbers::count(4_000);
            let (mut running, result) = start(numbers, operator, last.as_ref(), &mut random);
            let mut pending: Vec<PendingSnapshot> = Vec::new();
            for _ in 0..below(&mut random, 10) {
                relocate(&mut running, &mut random);
                if below(&mut random, 2) == 0 {
                    pending.push(running.begin_snapshot());
                }
                std::thread::sleep(Duration::from_micros(below(&mut random, 500) as u64));
            }
            if life < kills {
                let taken = pending.into_iter().map(|pending| pending.wait().unwrap());
                // A sink that had ended is not ended again.
                let going_on =
                    taken.filter(|snapshot| !snapshot.operators.iter().any(|saved| saved.progress.has_ended));
                last = going_on.last().or(last);
                continue;
            }
            let before = last.as_ref().map_or(0, |last| last.operators[0].progress.tuples);
            let report = running.finish().unwrap();
            let violations: u64 = report.operators.iter().map(|operator| operator.sequence_violations).sum();
            assert_eq!(violations, 0);
            let values = before + report.operators[0].tuples_out;
            assert_eq!(result.lock().unwrap().unwrap(), expected(values, OnPanic::Stop), "seed {seed}");
        }
    }
}

/// The numbers up to 20, and the end if it ends.
struct Few {
    next: u64,
    ends: bool,
}

saves!(Few: next);

impl Source for Few {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        match self.next {
            20 if self.ends => Next::End,
            20 => Next::At(now_ns + 1_000_000),
            value => {
                self.next += 1;
                Next::Value { value, arrival_ns: now_ns }
            }
        }
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

#[test]
fn the_last_snapshot_waits_for_the_requests_in_flight_and_its_sources_emit_nothing_more() {
    let build = |operator: Doubles| {
        let (sink, collected) = Collect::<u64>::new();
        let builder = StreamBuilder::new(4);
        let endless = Numbers::count(u64::MAX);
        builder.source("numbers", endless).then_async("doubles", operator).sink("sink", sink);
        (builder.build().unwrap(), collected)
    };
    let mut operator = Doubles::new(16, OnPanic::Stop, 0);
    // The thread has no requests until the barrier is behind them.
    let (requests, held) = channel();
    let asked = std::mem::replace(&mut operator.requests, requests);
    let (stream, collected) = build(operator);
    let mut running = stream.start(Settings::unpinned(2), &[0, 1, 1]).unwrap();
    while running.report().operators[1].tuples_in < 16 {
        std::thread::yield_now();
    }
    let pending = running.begin_last_snapshot();
    assert!(!pending.is_complete());
    std::thread::spawn(move || held.into_iter().all(|request| asked.send(request).is_ok()));
    let snapshot = pending.wait().unwrap();
    let report = running.report();
    drop(running);
    let emitted = snapshot.operators[0].progress.tuples;
    assert!(emitted >= 16 && report.operators[0].tuples_out == emitted, "{report:?}");
    let results: Vec<u64> =
        (0..emitted).flat_map(|value| (0..value % 3).map(move |copy| 2 * value + copy)).collect();
    assert_eq!(collected.lock().unwrap().values, results);
    assert_eq!(
        [1, 2].map(|at: usize| snapshot.operators[at].progress.tuples),
        [emitted, results.len() as u64]
    );
}

#[test]
fn requests_in_flight_are_in_a_snapshot_that_does_not_wait_for_their_replies() {
    let build = |ends, operator: Doubles| {
        let (sink, collected) = Collect::<u64>::new();
        let builder = StreamBuilder::new(4);
        builder.source("few", Few { next: 0, ends }).then_async("doubles", operator).sink("sink", sink);
        (builder.build().unwrap(), collected)
    };
    let mut silent = Doubles::new(64, OnPanic::Stop, 0);
    // No thread replies.
    let (requests, _asked) = channel();
    silent.requests = requests;
    let (stream, collected) = build(false, silent);
    let mut running = stream.start(Settings::unpinned(1), &[0, 0, 0]).unwrap();
    while running.report().operators[1].tuples_in < 20 {
        std::thread::yield_now();
    }
    let snapshot = running.snapshot().unwrap();
    assert_eq!([1, 2].map(|operator: usize| snapshot.operators[operator].progress.tuples), [20, 0]);
    drop(running);
    assert!(collected.lock().unwrap().values.is_empty());

    let start_from = |snapshot: &Snapshot| {
        let (stream, collected) = build(true, Doubles::new(8, OnPanic::Stop, 0));
        (stream.start_from(Settings::unpinned(1), &[0, 0, 0], snapshot), collected)
    };
    let (running, collected) = start_from(&snapshot);
    running.unwrap().finish().unwrap();
    let results = (0..20).flat_map(|value: u64| (0..value % 3).map(move |copy| 2 * value + copy));
    assert!(collected.lock().unwrap().values.iter().copied().eq(results));

    // The state of an operator of another kind, and damaged ones.
    let state = snapshot.operators[1].state.clone().unwrap();
    for damaged in [vec![0; 8], Vec::new(), state[..state.len() - 1].to_vec()] {
        let mut other = snapshot.clone();
        other.operators[1].state = Some(damaged);
        assert!(start_from(&other).0.is_err());
    }
    let mut none = snapshot;
    none.operators[1].state = None;
    let error = start_from(&none).0.map(drop).unwrap_err().to_string();
    assert!(error.contains("it has no state of operator doubles"), "{error}");
}

#[test]
fn an_operator_that_stops_lets_watermarks_and_the_end_pass_without_its_replies() {
    hush_poison();
    let mut silent = Doubles::new(8, OnPanic::Stop, 0);
    let (requests, asked) = channel();
    silent.requests = requests;
    // The next submission panics, because its receiver is gone.
    drop(asked);
    let (sink, collected) = Collect::<u64>::new();
    let builder = StreamBuilder::new(4);
    builder.source("numbers", Numbers::count(1_500)).then_async("doubles", silent).sink("sink", sink);
    let report = builder.build().unwrap().start(Settings::unpinned(1), &[0, 0, 0]).unwrap().finish().unwrap();
    assert_eq!(report.failures.len(), 1);
    let collected = collected.lock().unwrap();
    assert_eq!((collected.watermarks, collected.ends), (1, 1));
    let counts = &report.operators[1];
    assert_eq!(counts.tuples_in, counts.dead_letters + counts.discarded + 1, "value 0 was known");
}

/// Values from another thread, which wakes the worker.
pub(crate) struct Inbox {
    values: Arc<Mutex<VecDeque<Option<u64>>>>,
    wakeup: Wakeup,
    asked: Arc<AtomicU64>,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { values: Arc::default(), wakeup: Wakeup::new(), asked: Arc::default() }
    }

    pub(crate) fn handle(&self) -> Inbox {
        let (values, wakeup) = (Arc::clone(&self.values), self.wakeup.clone());
        Inbox { values, wakeup, asked: Arc::clone(&self.asked) }
    }

    /// Sends a value, or the end.
    pub(crate) fn send(&self, value: Option<u64>) {
        self.values.lock().unwrap().push_back(value);
        self.wakeup.notify();
    }
}

impl Source for Inbox {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.values.lock().unwrap().pop_front() {
            Some(Some(value)) => Next::Value { value, arrival_ns: now_ns },
            Some(None) => Next::End,
            None => Next::At(u64::MAX),
        }
    }

    fn wakeup(&self) -> Option<Wakeup> {
        Some(self.wakeup.clone())
    }
}

#[test]
fn each_input_from_outside_wakes_a_worker_that_is_parked_wherever_its_source_is() {
    for seed in 0..8 {
        let mut random = random(seed);
        let inbox = Inbox::new();
        let sender = inbox.handle();
        let (sink, collected) = Collect::<u64>::new();
        let builder = StreamBuilder::new(4);
        let same = each(|value, out: &mut Emitter<u64>| out.emit(value));
        builder.source("inbox", inbox).then("same", same).sink("sink", sink);
        let spin = Duration::from_micros([0, 20][below(&mut random, 2)]);
        let settings = Settings { spin, ..Settings::unpinned(WORKERS) };
        let mut running = builder.build().unwrap().start(settings, &[0, 0, 0]).unwrap();
        let received = || collected.lock().unwrap().values.len() as u64;
        for value in 0..300 {
            sender.send(Some(value));
            match below(&mut random, 4) {
                // A lost wake-up would hang here.
                0 => {
                    while received() <= value {
                        std::thread::yield_now();
                    }
                }
                1 => running.relocate(OperatorId(0), below(&mut random, WORKERS)).unwrap(),
                _ => {}
            }
        }
        sender.send(None);
        running.finish().unwrap();
        assert!(collected.lock().unwrap().values.iter().copied().eq(0..300));
    }
}

#[test]
fn a_source_without_input_is_not_asked_again_before_it_is_notified() {
    let inbox = Inbox::new();
    let sender = inbox.handle();
    let (sink, _collected) = Collect::<u64>::new();
    let builder = StreamBuilder::new(4);
    builder.source("inbox", inbox).sink("sink", sink);
    let running = builder.build().unwrap().start(Settings::unpinned(1), &[0, 0]).unwrap();
    for round in 0..3 {
        // Until the worker has parked, whenever it has its turn on the core.
        let mut asked = sender.asked.load(Ordering::Relaxed);
        let is_parked = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let before = std::mem::replace(&mut asked, sender.asked.load(Ordering::Relaxed));
            before == asked && asked > 0
        });
        assert!(is_parked, "the source is asked although it has said that nothing will come by itself");
        sender.send(Some(round));
    }
    sender.send(None);
    assert_eq!(running.finish().unwrap().operators[1].tuples_in, 3);
}
