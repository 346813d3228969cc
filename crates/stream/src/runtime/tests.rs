//! Workers that are lost.

use super::*;
use crate::{Next, Recover, Sink, Source, StreamBuilder, Tuple};

struct Endless;

impl Source for Endless {
    type Out = ();

    fn next(&mut self, arrival_ns: u64) -> Next<()> {
        Next::Value { value: (), arrival_ns }
    }
}

struct Nowhere;

impl Recover for Nowhere {}

impl Sink for Nowhere {
    type In = ();

    fn consume(&mut self, _: Tuple<()>) {}
}

#[test]
fn a_worker_that_is_lost_is_an_error_and_no_wait() {
    let builder = StreamBuilder::new(4);
    builder.source("endless", Endless).sink("nowhere", Nowhere);
    let running = builder.build().unwrap().start(Settings::unpinned(2), &[0, 1]).unwrap();
    // The runtime never asks for a segment that does not exist.
    let unknown = |reply| Mail::Move { head: OperatorId(99), to: 1, reply };
    for _ in 0..2 {
        assert!(matches!(running.change(0, unknown), Err(Error::WorkerLost { worker: 0, .. })));
    }
    let error = running.finish().map(drop).unwrap_err().to_string();
    assert!(error.ends_with("the runtime knows on which worker each segment is"), "{error}");
}

#[test]
fn a_snapshot_of_a_stream_whose_worker_is_lost_is_an_error_and_no_wait() {
    let builder = StreamBuilder::new(4);
    builder.source("endless", Endless).sink("nowhere", Nowhere);
    let mut running = builder.build().unwrap().start(Settings::unpinned(2), &[0, 1]).unwrap();
    let unknown = |reply| Mail::Move { head: OperatorId(99), to: 1, reply };
    assert!(running.change(1, unknown).is_err());
    for _ in 0..2 {
        assert!(matches!(running.snapshot(), Err(Error::WorkerLost { worker: 1, .. })));
    }
}

#[test]
fn a_change_that_needs_a_worker_that_is_lost_is_an_error_and_no_wait() {
    for change in [
        |running: &mut Running| running.relocate(OperatorId(1), 2),
        |running: &mut Running| running.split(OperatorId(2), 2),
        |running: &mut Running| running.fuse(OperatorId(1)),
    ] {
        let builder = StreamBuilder::new(4);
        let same = crate::each(|(), out: &mut crate::Emitter<()>| out.emit(()));
        builder.source("endless", Endless).then("same", same).sink("nowhere", Nowhere);
        let mut running = builder.build().unwrap().start(Settings::unpinned(3), &[2, 0, 0]).unwrap();
        let unknown = |reply| Mail::Move { head: OperatorId(99), to: 1, reply };
        assert!(running.change(2, unknown).is_err());
        assert!(matches!(change(&mut running), Err(Error::WorkerLost { worker: 2, .. })));
    }
}
