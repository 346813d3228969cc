//! Placements: which requests are accepted, and which are refused.

use std::collections::BTreeMap;

use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_os::topology::Cpus;
use sakiyomi_placement::{Group, Placement};
use sakiyomi_stream::{Emitter, Error, OperatorId, Running, Settings, Stream, StreamBuilder, each};

use crate::graph::{OPERATORS, graph};
use crate::inputs::{Collect, Numbers};

fn stream(numbers: u64) -> Stream {
    graph(Numbers::count(numbers), 8).0
}

/// A placement of the graph with these workers for its operators.
fn placement(worker_of: [usize; OPERATORS]) -> Placement {
    let mut groups = BTreeMap::<usize, Vec<usize>>::new();
    worker_of
        .iter()
        .enumerate()
        .for_each(|(operator, &worker)| groups.entry(worker).or_default().push(operator));
    let groups = groups.into_iter().map(|(core, operators)| Group { operators, cores: vec![core] });
    Placement { groups: groups.collect() }
}

fn segments(running: &Running) -> Vec<(usize, usize)> {
    running.segments().map(|(head, worker)| (head.0, worker)).collect()
}

#[test]
fn a_plan_is_applied_with_as_few_rings_as_it_needs() {
    let mut running = stream(u64::MAX).start(Settings::unpinned(3), &[0; OPERATORS]).unwrap();
    assert_eq!(segments(&running), [(0, 0)]);
    running.apply(&placement([0, 0, 1, 1, 2, 2, 1, 1, 0])).unwrap();
    assert_eq!(segments(&running), [(0, 0), (2, 1), (4, 2), (8, 0)]);
    running.apply(&placement([1, 1, 1, 0, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!(segments(&running), [(0, 1), (3, 0), (6, 0)]);
    running.apply(&placement([2; OPERATORS])).unwrap();
    assert_eq!(segments(&running), [(0, 2)]);
    running.end_sources();
    running.finish().unwrap();
}

#[test]
fn changes_that_make_no_sense_are_errors_and_change_nothing() {
    let mut running = stream(10).start(Settings::unpinned(2), &[0, 0, 0, 0, 1, 1, 0, 0, 0]).unwrap();
    let before = segments(&running);
    let segment = |result| matches!(result, Err(Error::Segment { .. }));
    assert!(segment(running.split(OperatorId(4), 0)), "it is the first already");
    assert!(segment(running.split(OperatorId(0), 0)), "it is a source");
    assert!(segment(running.split(OperatorId(99), 0)));
    assert!(segment(running.fuse(OperatorId(0))));
    assert!(segment(running.fuse(OperatorId(1))));
    assert!(segment(running.relocate(OperatorId(1), 1)));
    assert!(matches!(running.relocate(OperatorId(4), 2), Err(Error::Worker { worker: 2, workers: 2 })));
    let replicas =
        Placement { groups: vec![Group { operators: (0..OPERATORS).collect(), cores: vec![0, 1] }] };
    assert!(matches!(running.apply(&replicas), Err(Error::Replicas(OperatorId(0)))));
    let far = running.apply(&placement([0, 0, 0, 0, 0, 0, 0, 0, 2]));
    assert!(matches!(far, Err(Error::Worker { worker: 2, .. })));
    assert!(matches!(
        running.apply(&Placement { groups: Vec::new() }),
        Err(Error::Operators { given: 0, .. })
    ));
    assert_eq!(segments(&running), before);
    running.finish().unwrap();
}

#[test]
fn streams_that_cannot_start_are_errors() {
    let start = |workers, placing: &[usize]| stream(1).start(Settings::unpinned(workers), placing).map(drop);
    assert!(matches!(start(1, &[0; 3]), Err(Error::Operators { given: 3, operators: OPERATORS })));
    assert!(matches!(start(1, &[1; OPERATORS]), Err(Error::Worker { worker: 1, workers: 1 })));
    let settings = Settings { workers: vec![Some(usize::MAX)], ..Settings::unpinned(1) };
    assert!(matches!(stream(1).start(settings, &[0; OPERATORS]).map(drop), Err(Error::System(_))));

    let builder = StreamBuilder::new(1);
    let _open = builder
        .source("numbers", Numbers::count(1))
        .then("open", each(|n: u64, out: &mut Emitter<u64>| out.emit(n)));
    assert!(matches!(builder.build(), Err(Error::Open(name)) if name == "open"));
}

#[test]
fn a_pinned_worker_runs_on_its_cpu() {
    let first = Cpus::from([*usable_cpus().unwrap().first().unwrap()]);
    let builder = StreamBuilder::new(8);
    let (collect, collected) = Collect::new();
    let cpus = each(|_: u64, out: &mut Emitter<Cpus>| out.emit(usable_cpus().unwrap()));
    builder.source("numbers", Numbers::count(10)).then("CPUs", cpus).sink("sink", collect);
    builder.build().unwrap().start(Settings::pinned(&first), &[0; 3]).unwrap().finish().unwrap();
    assert_eq!(collected.lock().unwrap().values, vec![first; 10]);
}
