//! Snapshots that are not taken or not resumed from, and the errors that say why.

use std::sync::Arc;

use sakiyomi_stream::{
    Emitter, Error, Join, Next, OnPanic, Operator, Recover, SaveState, Settings, Snapshot, Source,
    StateError, Stream, StreamBuilder, each,
};

use crate::inputs::{Collect, Numbers, POISON, hush_poison};

fn chain(names: [&str; 2], on_panic: OnPanic) -> Stream {
    let builder = StreamBuilder::new(8);
    let numbers = Numbers { is_enough: Arc::default(), ..Numbers::count(0) };
    let odd = Odd { on_panic, is_saved: true };
    builder.source(names[0], numbers).then(names[1], odd).sink("sink", Collect::new().0);
    builder.build().unwrap()
}

/// Panics when it saves its state, or at the tenth number.
struct Odd {
    on_panic: OnPanic,
    is_saved: bool,
}

impl SaveState for Odd {
    fn save(&self, _: &mut Vec<u8>) {
        if self.on_panic == OnPanic::Skip {
            std::panic::panic_any(POISON);
        }
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        if bytes.is_empty() { Ok(()) } else { Err(StateError::Checksum) }
    }
}

impl Recover for Odd {
    fn on_panic(&self) -> OnPanic {
        self.on_panic
    }

    fn snapshot(&self) -> Option<Odd> {
        Some(Odd { ..*self })
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        self.is_saved.then_some(self as &mut dyn SaveState)
    }
}

impl Operator for Odd {
    type In = u64;
    type Out = u64;

    fn process(&mut self, number: u64, out: &mut Emitter<u64>) {
        if number == 9 && self.on_panic == OnPanic::Stop {
            std::panic::panic_any(POISON);
        }
        out.emit(number);
    }
}

const RESTART: OnPanic = OnPanic::Restart { snapshot_every: 10 };

/// A snapshot of a chain, and the error of a chain that resumes from it after `change`.
fn resumed(names: [&str; 2], change: impl FnOnce(&mut Snapshot)) -> String {
    let mut running = chain(["numbers", "odd"], RESTART).start(Settings::unpinned(2), &[0, 1, 0]).unwrap();
    let mut snapshot = running.snapshot().unwrap();
    change(&mut snapshot);
    let resumed = chain(names, RESTART).start_from(Settings::unpinned(1), &[0; 3], &snapshot);
    resumed.err().map_or_else(String::new, |error| {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    })
}

#[test]
fn a_snapshot_that_does_not_fit_is_refused_in_one_sentence() {
    let names = ["numbers", "odd"];
    assert_eq!(resumed(names, |_| ()), "");
    let cannot = "cannot resume from the snapshot: ";
    let other = ": resume with the stream of the snapshot, or start from the beginning";
    let refused = |names, change: &dyn Fn(&mut Snapshot), reason: &str| {
        assert_eq!(resumed(names, change), format!("{cannot}{reason}"));
    };
    refused(
        names,
        &|it| it.version = 9,
        "it has version 9, and this program reads version 2: use the program that took it",
    );
    refused(
        ["numbers", "even"],
        &|_| (),
        &format!("operator 1 is operator odd in it, and operator even in the stream{other}"),
    );
    refused(
        names,
        &|it| it.operators.swap(1, 2),
        &format!("operator 1 is sink sink in it, and operator odd in the stream{other}"),
    );
    refused(
        names,
        &|it| drop(it.operators.pop()),
        &format!("it has 2 operators, and the stream has 3{other}"),
    );
    refused(
        names,
        &|it| it.pipeline ^= 1,
        &format!("its operators are connected in another way than those of the stream{other}"),
    );
    refused(names, &|it| it.workers.truncate(2), "its placement is damaged: resume from another one");
    refused(names, &|it| it.operators[1].state = None, &format!("it has no state of operator odd{other}"));
    refused(
        names,
        &|it| it.operators[2].state = Some(Vec::new()),
        &format!("it has a state of operator sink, which loads none{other}"),
    );
    refused(
        names,
        &|it| it.operators[1].state = Some(vec![1]),
        "operator odd cannot load its state: the saved state is damaged: its checksum does not match",
    );
    let damaged = "its progress of operator odd is damaged: resume from another one";
    refused(names, &|it| it.operators[1].progress.inputs[0].sequence = u64::MAX, damaged);
    refused(names, &|it| it.operators[1].progress.inputs.clear(), damaged);
    refused(names, &|it| it.operators[1].progress.tuples = u64::MAX, damaged);
    refused(names, &|it| it.operators[1].progress.has_ended = true, damaged);
    refused(names, &|it| it.operators[0].progress.has_ended = true, damaged);
    refused(names, &|it| it.operators[1].progress.inputs[0].watermark_ns = Some(1), damaged);
    refused(
        names,
        &|it| it.operators[0].progress.outputs = vec![u64::MAX],
        "its progress of operator numbers is damaged: resume from another one",
    );
}

#[test]
fn a_snapshot_of_a_stream_with_an_operator_that_cannot_resume_is_an_error_and_the_stream_goes_on() {
    hush_poison();
    let start =
        |on_panic| chain(["numbers", "odd"], on_panic).start(Settings::unpinned(2), &[0, 1, 0]).unwrap();
    let mut running = start(OnPanic::Skip);
    let saves = "no snapshot was taken: operator odd panicked when it saved its state: poison";
    for _ in 0..2 {
        assert_eq!(running.snapshot().unwrap_err().to_string(), saves);
    }
    running.end_sources();
    let report = running.finish().unwrap();
    assert_eq!((report.operators[1].dead_letters, report.failures.len()), (0, 0));

    let mut running = start(OnPanic::Stop);
    while running.report().failures.is_empty() {
        std::thread::yield_now();
    }
    let stopped = "no snapshot was taken: operator odd has stopped";
    assert_eq!(running.snapshot().unwrap_err().to_string(), stopped);
}

#[test]
fn a_snapshot_ends_with_the_stream_that_is_dropped() {
    for _ in 0..50 {
        let mut running =
            chain(["numbers", "odd"], RESTART).start(Settings::unpinned(2), &[0, 1, 0]).unwrap();
        let pending = running.begin_snapshot();
        drop(running);
        assert!(matches!(pending.wait(), Ok(_) | Err(Error::Stopped)));
    }
}

/// A source from which nothing comes.
struct Silent;

impl Source for Silent {
    type Out = u64;

    fn next(&mut self, _: u64) -> Next<u64> {
        Next::At(u64::MAX)
    }
}

/// Left and right, joined, with the sources in this order.
fn joined(is_swapped: bool) -> Stream {
    let builder = StreamBuilder::new(8);
    let (first, second) = (builder.source("first", Silent), builder.source("second", Silent));
    let (left, right) = if is_swapped { (second, first) } else { (first, second) };
    left.join("join", right, Nothing).sink("sink", Collect::new().0);
    builder.build().unwrap()
}

struct Nothing;

impl Recover for Nothing {}

impl Join for Nothing {
    type Left = u64;
    type Right = u64;
    type Out = u64;

    fn left(&mut self, _: u64, _: &mut Emitter<u64>) {}

    fn right(&mut self, _: u64, _: &mut Emitter<u64>) {}
}

#[test]
fn a_stream_without_input_has_snapshots_and_one_with_other_edges_takes_none_of_them() {
    for workers in [[0; 4], [0, 1, 2, 0], [1, 0, 0, 2]] {
        let mut running = joined(false).start(Settings::unpinned(3), &workers).unwrap();
        let snapshot = running.snapshot().unwrap();
        assert_eq!(running.snapshot().unwrap().epoch, snapshot.epoch + 1);
        let start = |is_swapped| joined(is_swapped).start_from(Settings::unpinned(1), &[0; 4], &snapshot);
        let mut again = start(false).unwrap();
        let later = again.snapshot().unwrap();
        assert!(later.epoch == snapshot.epoch + 1 && later.clock_ns >= snapshot.clock_ns);
        let error = start(true).err().unwrap().to_string();
        assert!(error.contains("its operators are connected in another way than those of the stream"));
    }
}

#[test]
fn operators_without_a_state_are_named() {
    let builder = StreamBuilder::new(8);
    let mut calls = 0;
    let stateless = each(|n: u64, out: &mut Emitter<u64>| out.emit(n));
    let counts = each(move |n: u64, out: &mut Emitter<u64>| {
        calls += 1;
        out.emit(n + calls);
    });
    let numbers = builder.source("numbers", Numbers::count(1));
    numbers.then("stateless", stateless).then("counts", counts).sink("sink", Collect::new().0);
    assert_eq!(builder.build().unwrap().unsaved().collect::<Vec<_>>(), ["counts", "sink"]);
}
