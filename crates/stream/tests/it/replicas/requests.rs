//! Replicas between operators whose results come from other threads, and behind sources that other threads wake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand_pcg::Pcg64;
use sakiyomi_stream::{
    AsyncOperator, Decode, Emitter, Encode, OperatorId, PendingSnapshot, Recover, Replicas, Settings,
    Snapshot, Stream, StreamBuilder, Wakeup, each,
};

use super::{BINS, ByKey, Digest, Digests, Found, Numbered, Of, divide, expected, key};
use crate::asynchronous::Inbox;
use crate::graph::relocate;
use crate::inputs::{Collect, Numbers, below, hush_poison, random, seeds};

/// Emits its input when another thread, which replies in random order, has let it pass.
struct Passes<V> {
    requests: Sender<(u64, V)>,
    replies: Arc<Mutex<Vec<(u64, V)>>>,
    wakeup: Wakeup,
    in_flight_max: usize,
}

impl<V: Send + 'static> Passes<V> {
    fn new(random: &mut Pcg64) -> Passes<V> {
        let ((requests, asked), replies) = (channel(), Arc::<Mutex<Vec<_>>>::default());
        let (wakeup, in_flight_max) = (Wakeup::new(), 1 + below(random, 40));
        let mut order = crate::inputs::random(below(random, 1_000) as u64);
        std::thread::spawn({
            let (replies, wakeup) = (Arc::clone(&replies), wakeup.clone());
            move || {
                while let Ok(request) = asked.recv() {
                    let mut waiting = vec![request];
                    waiting.extend(asked.try_iter());
                    while !waiting.is_empty() {
                        let reply = waiting.swap_remove(below(&mut order, waiting.len()));
                        replies.lock().unwrap().push(reply);
                        wakeup.notify();
                    }
                }
            }
        });
        Passes { requests, replies, wakeup, in_flight_max }
    }
}

impl<V: Send + 'static> Recover for Passes<V> {}

impl<V: Clone + PartialEq + Encode + Decode + Send + 'static> AsyncOperator for Passes<V> {
    type In = V;
    type Out = V;
    type Reply = V;

    fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
    }

    fn submit(&mut self, ticket: u64, value: &V) -> Option<V> {
        self.requests.send((ticket, value.clone())).unwrap();
        None
    }

    fn poll(&mut self, replies: &mut Vec<(u64, V)>) {
        replies.append(&mut self.replies.lock().unwrap());
    }

    fn complete(&mut self, value: V, reply: V, out: &mut Emitter<V>) {
        assert!(value == reply, "the reply to another request");
        out.emit(value);
    }
}

/// Like [`super::stream`], with requests before the partition and after the merge.
fn stream(numbers: Numbers, replicas: usize, random: &mut Pcg64) -> (Stream, OperatorId, Found) {
    let found = Found::default();
    let sink = Digests { of: ByKey::default(), all: Digest::default(), result: Arc::clone(&found) };
    let builder = StreamBuilder::new(1 + below(random, 40));
    let before = builder.source("numbers", numbers).then_async("before", Passes::<u64>::new(random));
    let keyed = before.by_key("by key", Replicas::new(replicas).bins(BINS), |number: &u64| key(*number));
    let partition = keyed.partition();
    let merged = keyed.then("digests", ByKey::default).then("numbered", Numbered::default).merge("merge");
    merged.then_async("after", Passes::<Of>::new(random)).sink("sink", sink);
    (builder.build().unwrap(), partition, found)
}

#[test]
fn requests_in_flight_around_replicas_survive_divisions_moves_and_kills() {
    hush_poison();
    for seed in seeds(if cfg!(debug_assertions) { 15 } else { 300 }) {
        let random = &mut random(seed);
        let mut last: Option<Snapshot> = None;
        for life in (0..1 + below(random, 3)).rev() {
            let is_enough = Arc::new(AtomicBool::new(false));
            let count = Numbers::count(below(random, 3_000) as u64);
            let numbers = Numbers { is_enough: Arc::clone(&is_enough), burst: 100, ..count };
            let replicas = 1 + below(random, 4);
            let (stream, partition, found) = stream(numbers, replicas, random);
            let (operators, workers) = (stream.names().count(), 1 + below(random, 3));
            let placing: Vec<usize> = (0..operators).map(|_| below(random, workers)).collect();
            let settings = Settings::unpinned(workers);
            let mut running = match &last {
                Some(snapshot) => stream.start_from(settings, &placing, snapshot).unwrap(),
                None => stream.start(settings, &placing).unwrap(),
            };
            let before = last.as_ref().map_or(0, |last| last.operators[0].progress.tuples);
            let mut pending = Vec::<PendingSnapshot>::new();
            for _ in 0..below(random, 25) {
                match below(random, 4) {
                    0 => pending.push(running.begin_snapshot()),
                    1 => pending.drain(..).for_each(|pending| last = Some(pending.wait().unwrap())),
                    2 => relocate(&mut running, operators, workers, random),
                    _ => divide(&mut running, partition, random),
                }
            }
            if life > 0 {
                continue; // which drops the stream
            }
            is_enough.store(true, Ordering::Relaxed);
            let report = running.finish().unwrap();
            assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
            assert!(report.failures.is_empty(), "{:?}", report.failures);
            let count = before + report.operators[0].tuples_out;
            let (of, all) = found.lock().unwrap().take().expect("the end has come");
            assert_eq!((of.digests, all.as_set()), expected(count), "{count} values");
        }
    }
}

#[test]
fn each_input_from_outside_wakes_the_worker_of_a_source_that_a_partition_follows() {
    for seed in 0..8 {
        let random = &mut random(seed);
        let inbox = Inbox::new();
        let sender = inbox.handle();
        let (sink, collected) = Collect::<u64>::new();
        let builder = StreamBuilder::new(4);
        let keyed =
            builder.source("inbox", inbox).by_key("by key", Replicas::new(2).bins(4), |value: &u64| *value);
        let partition = keyed.partition();
        let same = keyed.then("same", || each(|value, out: &mut Emitter<u64>| out.emit(value)));
        same.merge("merge").then_async("after", Passes::<u64>::new(random)).sink("sink", sink);
        let stream = builder.build().unwrap();
        let (operators, workers) = (stream.names().count(), 3);
        let placing: Vec<usize> = (0..operators).map(|_| below(random, workers)).collect();
        let spin = Duration::from_micros([0, 20][below(random, 2)]);
        let settings = Settings { spin, ..Settings::unpinned(workers) };
        let mut running = stream.start(settings, &placing).unwrap();
        for value in 0..200 {
            sender.send(Some(value));
            match below(random, 5) {
                // A lost wake-up would hang here.
                0 => {
                    while collected.lock().unwrap().values.len() as u64 <= value {
                        std::thread::yield_now();
                    }
                }
                1 => relocate(&mut running, operators, workers, random),
                2 => divide(&mut running, partition, random),
                _ => {}
            }
        }
        sender.send(None);
        running.finish().unwrap();
        let mut values = std::mem::take(&mut collected.lock().unwrap().values);
        values.sort_unstable();
        assert!(values.into_iter().eq(0..200));
    }
}
