//! Replicas of operators beside a loop without any.

mod failures;
mod joins;
mod placements;
mod requests;
mod windows;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rand_pcg::Pcg64;
use sakiyomi_placement::Bins;
use sakiyomi_stream::{
    Emitter, OnPanic, Operator, OperatorId, PendingSnapshot, Recover, Replicas, Running, SaveState, Settings,
    Sink, Snapshot, Stream, StreamBuilder, Tuple,
};

use crate::graph::relocate;
use crate::inputs::{
    Digest, Emitted, Numbers, POISON, below, emitted, hush_poison, mix, random, saves, seeds,
};

/// Keys of a stream.
const KEYS: u64 = 97;

/// Bins of its replicas.
const BINS: usize = 16;

/// The partition.
const PARTITION: OperatorId = OperatorId(1);

/// Values between two panics, about.
const POISON_EVERY: u64 = 211;

fn key(number: u64) -> u64 {
    mix(number) % KEYS
}

fn is_poison(number: u64) -> bool {
    mix(!number).is_multiple_of(POISON_EVERY)
}

/// A key and a value.
type Of = (u64, u64);

/// A digest of the values of each key, in their order.
#[derive(Clone, Default)]
struct ByKey {
    digests: BTreeMap<u64, u64>,
}

saves!(ByKey: digests);

impl ByKey {
    fn add(&mut self, key: u64, value: u64) -> u64 {
        let digest = self.digests.entry(key).or_default();
        *digest = mix(*digest ^ value);
        *digest
    }
}

impl Recover for ByKey {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Skip
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

/// Emits the digest of the key with each value, and once more for each key at each watermark.
impl Operator for ByKey {
    type In = u64;
    type Out = Of;

    fn process(&mut self, number: u64, out: &mut Emitter<Of>) {
        if is_poison(number) {
            std::panic::panic_any(POISON);
        }
        out.emit((key(number), self.add(key(number), number)));
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Of>) {
        let keys: Vec<u64> = self.digests.keys().copied().collect();
        keys.into_iter().for_each(|key| out.emit((key, self.add(key, time_ns))));
    }
}

/// The second operator of a replica: numbers the values of each key.
#[derive(Clone, Default)]
struct Numbered {
    counts: BTreeMap<u64, u64>,
}

saves!(Numbered: counts);

impl Recover for Numbered {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Operator for Numbered {
    type In = Of;
    type Out = Of;

    fn process(&mut self, (key, value): Of, out: &mut Emitter<Of>) {
        let count = self.counts.entry(key).or_default();
        *count += 1;
        out.emit((key, mix(value ^ *count)));
    }

    fn end(&mut self, out: &mut Emitter<Of>) {
        std::mem::take(&mut self.counts).into_iter().for_each(|of| out.emit(of));
    }
}

/// A sink that digests the values of each key in their order, and counts watermarks.
struct Digests {
    of: ByKey,
    all: Digest,
    result: Arc<Mutex<Option<(ByKey, Digest)>>>,
}

saves!(Digests: of.digests, all.count, all.unordered);

impl Recover for Digests {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Sink for Digests {
    type In = Of;

    fn consume(&mut self, tuple: Tuple<Of>) {
        let (key, value) = tuple.value;
        self.of.add(key, value);
        self.all.add(value);
    }

    fn watermark(&mut self, time_ns: u64) {
        self.all.add_watermark(time_ns);
    }

    fn end(&mut self) {
        *self.result.lock().unwrap() = Some((self.of.clone(), self.all));
    }
}

type Found = Arc<Mutex<Option<(ByKey, Digest)>>>;

/// Numbers, by key, digests and numbered in each replica, merge, sink.
fn stream(numbers: Numbers, ring_slots: usize, replicas: usize) -> (Stream, Found) {
    let found = Found::default();
    let sink = Digests { of: ByKey::default(), all: Digest::default(), result: Arc::clone(&found) };
    let builder = StreamBuilder::new(ring_slots);
    let keyed = builder.source("numbers", numbers).by_key(
        "by key",
        Replicas::new(replicas).bins(BINS),
        |number: &u64| key(*number),
    );
    assert_eq!(keyed.partition(), PARTITION);
    keyed
        .then("digests", ByKey::default)
        .then("numbered", Numbered::default)
        .merge("merge")
        .sink("sink", sink);
    (builder.build().unwrap(), found)
}

/// Returns the result of a loop for this number of values.
fn expected(values: u64) -> (BTreeMap<u64, u64>, Digest) {
    let (mut digests, mut numbered, mut sink, mut all) =
        (ByKey::default(), Numbered::default(), ByKey::default(), Digest::default());
    let mut out = Emitter::new();
    let mut next = |outputs: Vec<Of>, all: &mut Digest| {
        for of in outputs {
            numbered.process(of, &mut out);
            for ((key, value), _) in out.drain() {
                sink.add(key, value);
                all.add(value);
            }
        }
    };
    for emitted in emitted(values) {
        let mut out = Emitter::new();
        match emitted {
            Emitted::Value(number) if is_poison(number) => {}
            Emitted::Value(number) => digests.process(number, &mut out),
            Emitted::Watermark(time_ns) => digests.watermark(time_ns, &mut out),
        }
        next(out.drain().map(|(of, _)| of).collect(), &mut all);
        if let Emitted::Watermark(time_ns) = emitted {
            all.add_watermark(time_ns);
        }
    }
    numbered.end(&mut out);
    for ((key, value), _) in out.drain() {
        sink.add(key, value);
        all.add(value);
    }
    (sink.digests, all.as_set())
}

/// Gives the bins of a partition to other replicas, at random or as a planner would.
fn divide(running: &mut Running, partition: OperatorId, random: &mut Pcg64) {
    let replicas = 1 + below(random, running.replicas_max(partition).unwrap());
    let loads = running.bin_loads(partition).unwrap();
    let bins = match below(random, 3) {
        0 => Bins::divided(&loads, replicas),
        1 => running.bins(partition).unwrap().redivided(&loads, replicas, 0.1),
        _ => {
            let loads: Vec<f64> = loads.iter().map(|_| below(random, 100) as f64).collect();
            Bins::divided(&loads, replicas)
        }
    };
    running.divide(partition, &bins.unwrap()).unwrap();
}

/// Kills the stream at random tuples, resumes it with another number of replicas, and checks the result.
fn check_lives(random: &mut Pcg64) {
    hush_poison();
    let mut last: Option<Snapshot> = None;
    let (lives, burst) = (1 + below(random, 3), [0, 10, 100][below(random, 3)]);
    for life in (0..lives).rev() {
        let is_enough = Arc::new(AtomicBool::new(false));
        let count_min = below(random, 5_000) as u64;
        let numbers =
            Numbers { next: 0, count_min, is_enough: Arc::clone(&is_enough), burst, is_pausing: false };
        let replicas = 1 + below(random, 4);
        let (stream, found) = stream(numbers, 1 + below(random, 40), replicas);
        let (operators, workers) = (stream.names().count(), 1 + below(random, 4));
        let placing: Vec<usize> = (0..operators).map(|_| below(random, workers)).collect();
        let settings = Settings::unpinned(workers);
        let mut running = match &last {
            Some(snapshot) => stream.start_from(settings, &placing, snapshot).unwrap(),
            None => stream.start(settings, &placing).unwrap(),
        };
        let mut pending = Vec::<PendingSnapshot>::new();
        let before = last.as_ref().map_or(0, |last| last.operators[0].progress.tuples);
        for _ in 0..below(random, 25) {
            match below(random, 4) {
                0 => pending.push(running.begin_snapshot()),
                1 => pending.drain(..).for_each(|pending| last = Some(pending.wait().unwrap())),
                2 => relocate(&mut running, operators, workers, random),
                _ => divide(&mut running, PARTITION, random),
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

#[test]
fn replicas_that_change_and_resume_have_the_results_of_a_loop_for_each_key_in_order() {
    for seed in seeds(if cfg!(debug_assertions) { 25 } else { 500 }) {
        check_lives(&mut random(seed));
    }
}

#[test]
fn a_snapshot_has_the_states_of_all_bins_whatever_the_replicas() {
    let snapshot = |replicas: usize, workers: usize| {
        let (stream, _) = stream(Numbers::count(4_000), 8, replicas);
        let placing: Vec<usize> = (0..stream.names().count()).map(|operator| operator % workers).collect();
        let fingerprint = stream.fingerprint();
        let mut running = stream.start(Settings::unpinned(workers), &placing).unwrap();
        let mut snapshot = running.snapshot().unwrap();
        while !snapshot.operators.iter().all(|operator| operator.progress.has_ended) {
            snapshot = running.snapshot().unwrap();
        }
        assert_eq!(snapshot.pipeline, fingerprint);
        snapshot.operators.into_iter().map(|operator| (operator.name, operator.state)).collect::<Vec<_>>()
    };
    hush_poison();
    let one = snapshot(1, 1);
    assert_eq!(one.len(), 6);
    // The sink has seen the keys in another order.
    assert_eq!(snapshot(4, 3)[..5], one[..5]);
}
