//! Placements with replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sakiyomi_placement::{Group, Hop, Placement, Topology};
use sakiyomi_stream::adapt::AdaptSettings;
use sakiyomi_stream::{Error, OperatorId, Running, Settings};

use super::{PARTITION, expected, stream};
use crate::inputs::{Numbers, below, hush_poison, random};

/// A placement of the operators: numbers, by key, digests, numbered, merge, sink.
fn placement(groups: &[(&[usize], &[usize])]) -> Placement {
    let group = |(operators, cores): &(&[usize], &[usize])| Group {
        operators: operators.to_vec(),
        cores: cores.to_vec(),
    };
    Placement { groups: groups.iter().map(group).collect() }
}

fn replicas(running: &Running) -> usize {
    running.bins(PARTITION).unwrap().replicas()
}

/// The worker of each operator, replicas apart, by the segments.
fn workers(running: &Running) -> Vec<(usize, usize)> {
    running.segments().map(|(head, worker)| (head.0, worker)).collect()
}

#[test]
fn a_plan_with_replicas_is_carried_out() {
    hush_poison();
    let numbers = Numbers { is_enough: Arc::new(AtomicBool::new(false)), ..Numbers::count(0) };
    let is_enough = Arc::clone(&numbers.is_enough);
    let (stream, found) = stream(numbers, 16, 3);
    let one = placement(&[(&[0, 1, 2, 3, 4, 5], &[0])]);
    assert_eq!(stream.workers(&one).unwrap(), [0; 10]);
    let mut running = stream.start(Settings::unpinned(5), &[0; 10]).unwrap();
    running.apply(&one).unwrap();
    assert_eq!((workers(&running), replicas(&running)), (vec![(0, 0)], 1));
    // Both operators of the chain on the cores of their replicas.
    running.apply(&placement(&[(&[0, 1], &[0]), (&[2, 3], &[1, 2, 3]), (&[4, 5], &[4])])).unwrap();
    assert_eq!(workers(&running), [(0, 0), (2, 1), (3, 2), (4, 3), (8, 4)]);
    assert_eq!(replicas(&running), 3);
    // The second operator of the chain on a core of its own, and a replica less.
    running.apply(&placement(&[(&[0, 1], &[0]), (&[2], &[1, 2]), (&[3], &[3]), (&[4, 5], &[4])])).unwrap();
    assert_eq!(workers(&running), [(0, 0), (2, 1), (3, 2), (5, 3), (6, 3), (8, 4)]);
    assert_eq!(replicas(&running), 2);
    let refused = running.apply(&placement(&[(&[0, 1, 2, 3], &[0, 1]), (&[4, 5], &[4])]));
    assert!(matches!(refused, Err(Error::Replicas(OperatorId(0)))), "{refused:?}");
    let refused = running.apply(&placement(&[(&[0, 1], &[0]), (&[2, 3], &[1, 2]), (&[4, 5, 6], &[4])]));
    assert!(matches!(refused, Err(Error::Operators { given: 7, operators: 6 })), "{refused:?}");
    is_enough.store(true, Ordering::Relaxed);
    let report = running.finish().unwrap();
    assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
    let joined = report.joined();
    let names: Vec<&str> = joined.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!(names, ["numbers", "by key", "digests", "numbered", "merge", "sink"]);
    assert_eq!((joined[2].tuples_in, joined[3].tuples_out), (joined[1].tuples_out, joined[4].tuples_in));
    let (of, all) = found.lock().unwrap().take().unwrap();
    assert_eq!((of.digests, all.as_set()), expected(report.operators[0].tuples_out));
}

#[test]
fn random_plans_with_replicas_keep_the_result() {
    hush_poison();
    for seed in 0..if cfg!(debug_assertions) { 5 } else { 100 } {
        let mut random = random(seed);
        let numbers = Numbers { is_enough: Arc::new(AtomicBool::new(false)), ..Numbers::count(0) };
        let is_enough = Arc::clone(&numbers.is_enough);
        let (stream, found) = stream(numbers, 1 + below(&mut random, 20), 3);
        let mut running = stream.start(Settings::unpinned(5), &[0; 10]).unwrap();
        for _ in 0..12 {
            let cores: Vec<usize> = (1..=1 + below(&mut random, 3)).collect();
            let last = [0, 4][below(&mut random, 2)];
            running.apply(&placement(&[(&[0, 1], &[0]), (&[2, 3], &cores), (&[4, 5], &[last])])).unwrap();
            assert_eq!(replicas(&running), cores.len());
        }
        is_enough.store(true, Ordering::Relaxed);
        let report = running.finish().unwrap();
        assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
        let (of, all) = found.lock().unwrap().take().unwrap();
        assert_eq!((of.digests, all.as_set()), expected(report.operators[0].tuples_out));
    }
}

#[test]
fn a_stream_with_replicas_that_adapts_begins_with_one_and_has_its_result() {
    hush_poison();
    let (stream, found) = stream(Numbers { burst: 50, ..Numbers::count(20_000) }, 32, 3);
    let topology = Topology::uniform(5, Hop { transit_ns: 150.0, ..Hop::FREE }).unwrap();
    let settings = AdaptSettings { is_pinned: false, ..AdaptSettings::default() };
    let adaptive = stream.start_adaptive(topology, settings).unwrap();
    let finished = adaptive.finish().unwrap();
    let operators = finished.status.placement.groups.iter().map(|group| group.operators.len()).sum::<usize>();
    assert_eq!(operators, 6, "replicas are one operator of a plan");
    let report = finished.report;
    assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
    let (of, all) = found.lock().unwrap().take().unwrap();
    assert_eq!((of.digests, all.as_set()), expected(report.operators[0].tuples_out));
}

#[test]
fn a_stream_with_replicas_that_adapts_resumes_with_another_number_of_them() {
    hush_poison();
    let endless = Numbers { is_enough: Arc::new(AtomicBool::new(false)), ..Numbers::count(0) };
    let mut running = stream(endless, 16, 3).0.start(Settings::unpinned(5), &[0; 10]).unwrap();
    running.apply(&placement(&[(&[0, 1], &[0]), (&[2, 3], &[1, 2, 3]), (&[4, 5], &[4])])).unwrap();
    let mut snapshot = running.snapshot().unwrap();
    drop(running);
    assert_eq!(snapshot.workers, [0, 0, 1, 1, 4, 4], "all replicas are one operator, where the first one is");
    let topology = Topology::uniform(5, Hop { transit_ns: 150.0, ..Hop::FREE }).unwrap();
    let settings = AdaptSettings { is_pinned: false, ..AdaptSettings::default() };
    for replicas in [2, 4, 1] {
        let numbers = Numbers { burst: 50, is_enough: Arc::new(AtomicBool::new(false)), ..Numbers::count(0) };
        let is_enough = Arc::clone(&numbers.is_enough);
        let (stream, found) = stream(numbers, 32, replicas);
        let before = snapshot.operators[0].progress.tuples;
        let adaptive = stream.start_adaptive_from(topology.clone(), settings.clone(), &snapshot).unwrap();
        snapshot = adaptive.with_running(|running| running.snapshot()).unwrap();
        assert_eq!(snapshot.workers.len(), 6);
        is_enough.store(true, Ordering::Relaxed);
        let report = adaptive.finish().unwrap().report;
        assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
        let (of, all) = found.lock().unwrap().take().unwrap();
        assert_eq!((of.digests, all.as_set()), expected(before + report.operators[0].tuples_out));
    }
}
