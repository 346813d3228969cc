//! Replicas that stop, restart, or are refused.

use std::sync::Arc;

use sakiyomi_placement::Bins;
use sakiyomi_stream::{
    Emitter, Error, OnPanic, Operator, OperatorId, Recover, Replicas, SaveState, Settings, StreamBuilder,
    each,
};

use super::{PARTITION, divide};
use crate::inputs::{Collect, Numbers, POISON, hush_poison, random, saves};

/// Counts its values, and returns to its copy after a panic.
#[derive(Clone)]
struct Restarting {
    count: u64,
    _held: Arc<()>,
}

saves!(Restarting: count);

impl Recover for Restarting {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Restart { snapshot_every: 1 }
    }

    fn snapshot(&self) -> Option<Restarting> {
        Some(self.clone())
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Operator for Restarting {
    type In = u64;
    type Out = (u64, u64);

    fn process(&mut self, number: u64, out: &mut Emitter<(u64, u64)>) {
        // The copy lacks this change if the call panics.
        self.count += 1;
        if number.is_multiple_of(97) {
            std::panic::panic_any(POISON);
        }
        out.emit((number % 8, self.count));
    }
}

/// Tokens left after a run that is finished, or else dropped while bins may be on their way.
fn tokens_left(finish: bool, seed: u64) -> usize {
    hush_poison();
    let (mut random, token) = (random(seed), Arc::new(()));
    let builder = StreamBuilder::new(4);
    let keyed = builder.source("numbers", Numbers::count(3_000)).by_key(
        "by key",
        Replicas::new(3).bins(8),
        |number: &u64| number % 8,
    );
    let held = Arc::clone(&token);
    let counted = keyed.then("count", move || Restarting { count: 0, _held: Arc::clone(&held) });
    let (collect, collected) = Collect::new();
    counted.merge("merge").sink("sink", collect);
    let stream = builder.build().unwrap();
    let mut running = stream.start(Settings::unpinned(3), &[0, 0, 0, 1, 2, 0, 0]).unwrap();
    (0..20).for_each(|_| divide(&mut running, PARTITION, &mut random));
    if !finish {
        drop(running.begin_snapshot());
        drop(running);
        return Arc::strong_count(&token) - 1;
    }
    let report = running.finish().unwrap();
    let restarts: u64 = report.operators[2..5].iter().map(|replica| replica.restarts).sum();
    // A copy is taken before each tuple, so that all that a restart loses is the tuple that panicked.
    let mut counts = [0; 8];
    for &(key, count) in &collected.lock().unwrap().values {
        let before: &mut u64 = &mut counts[key as usize];
        assert!(count > *before, "a bin has lost tuples: {count} after {before} of key {key}");
        *before = count;
    }
    assert_eq!(restarts, report.operators[0].tuples_out.div_ceil(97), "{report:?}");
    Arc::strong_count(&token) - 1
}

#[test]
fn bins_move_with_the_copies_to_which_they_return_and_nothing_is_left_of_them() {
    (0..6).for_each(|seed| assert_eq!(tokens_left(true, seed), 0));
    (0..6).for_each(|seed| assert_eq!(tokens_left(false, seed), 0));
}

#[test]
fn a_replica_that_stops_discards_its_tuples_and_the_others_go_on() {
    hush_poison();
    let builder = StreamBuilder::new(8);
    let keyed = builder.source("numbers", Numbers::count(900)).by_key(
        "by key",
        Replicas::new(2).bins(2),
        |number: &u64| number % 50,
    );
    let stopping = keyed.then("stops", || {
        each(|number: u64, out: &mut Emitter<u64>| {
            if number == 100 {
                std::panic::panic_any(POISON);
            }
            out.emit(number);
        })
    });
    let (collect, collected) = Collect::new();
    stopping.merge("merge").sink("sink", collect);
    let mut running = builder.build().unwrap().start(Settings::unpinned(2), &[0, 0, 0, 1, 0, 0]).unwrap();
    while running.report().failures.is_empty() || running.report().operators[4].tuples_in < 400 {
        std::thread::yield_now();
    }
    let refused = running.divide(PARTITION, &Bins::divided(&[1.0, 1.0], 1).unwrap());
    assert!(matches!(&refused, Err(Error::ReplicaStopped(name)) if name.starts_with("stops")), "{refused:?}");
    let report = running.finish().unwrap();
    let [one, other] = &report.operators[2..4] else { panic!("{report:?}") };
    let (stopped, going) = if one.discarded > 0 { (one, other) } else { (other, one) };
    assert_eq!((stopped.dead_letters, going.discarded), (1, 0));
    assert_eq!(one.tuples_in + other.tuples_in, 900);
    assert_eq!(going.tuples_out, going.tuples_in);
    let collected = collected.lock().unwrap();
    assert_eq!(collected.values.len() as u64, one.tuples_out + other.tuples_out);
    assert_eq!(collected.ends, 1, "the end passes a replica that has stopped");
}

#[test]
fn divisions_that_do_not_fit_are_refused_and_change_nothing() {
    let (stream, _) = super::stream(Numbers::count(100), 8, 2);
    let mut running = stream.start(Settings::unpinned(1), &[0; 8]).unwrap();
    let mut divide = |operator: usize, bins: usize, replicas: usize| {
        let bins = Bins::divided(&vec![1.0; bins], replicas).unwrap();
        running.divide(OperatorId(operator), &bins).map_err(|error| error.to_string())
    };
    assert_eq!(
        divide(1, 15, 2),
        Err("15 bins were given, and the operators after operator 1 have 16".to_owned())
    );
    assert_eq!(
        divide(1, 16, 3),
        Err("replica 2 does not exist: the operators after operator 1 have 2".to_owned())
    );
    assert_eq!(divide(2, 16, 2), Err("operator 2 is not a partition".to_owned()));
    assert_eq!(divide(1, 16, 1), Ok(()));
    assert_eq!(running.bins(PARTITION).unwrap().replicas(), 1);
    running.finish().unwrap();
}

#[test]
fn a_replica_without_bins_takes_no_tuples() {
    let (stream, _) = super::stream(Numbers { burst: 5, ..Numbers::count(3_000) }, 8, 3);
    let mut running = stream.start(Settings::unpinned(2), &[0, 0, 0, 1, 1, 0, 1, 1, 0, 0]).unwrap();
    running.divide(PARTITION, &Bins::divided(&[1.0; 16], 1).unwrap()).unwrap();
    let before = running.report();
    let report = running.finish().unwrap();
    for replica in [3, 4] {
        assert_eq!(report.operators[replica].tuples_in, before.operators[replica].tuples_in);
    }
    let taken: u64 = report.operators[2..5].iter().map(|replica| replica.tuples_in).sum();
    assert_eq!(taken, report.operators[1].tuples_out);
}
