//! Hand-made events: which span is attributed to what, and what the elapsed time depends on.

use sakiyomi_explain::recording::{AccessKind, FileIndex, Pattern, Span, ThreadIndex, ThreadState, Wait};
use sakiyomi_explain::{Ledger, Recording, Term};
use sakiyomi_model::Nanos;
use sakiyomi_os::system_call::CallKind;
use sakiyomi_os::tracefs::ActivityKind;

use crate::events::{call, event, exit, interrupted, range, recorded, switch};

fn spans(recording: &Recording, thread: usize) -> Vec<(u64, u64, ThreadState)> {
    let of = |span: &Span| (span.begun_ns.0, span.ended_ns.0, span.state);
    recording.threads[thread].spans.iter().map(of).collect()
}

fn waiting(wait: Wait, woken_by: Option<usize>) -> ThreadState {
    ThreadState::Waiting { wait, woken_by: woken_by.map(ThreadIndex) }
}

fn terms(recording: &Recording) -> Vec<(Term, u64)> {
    Ledger::of(recording).entries.iter().map(|entry| (entry.term, entry.time.0)).collect()
}

#[test]
fn a_wait_in_a_read_is_of_the_file_that_the_read_names_afterwards() {
    let events = [
        switch(0, 0, false, 10),
        event(100, 10, call(CallKind::Read, Some(3))),
        event(110, 10, ActivityKind::Adds(range(100, 0, 8192))),
        switch(120, 10, true, 0),
        interrupted(500, 10),
        switch(530, 0, false, 10),
        event(540, 10, ActivityKind::Reads(range(100, 0, 4096))),
        event(600, 10, call(CallKind::Other, None)),
        exit(700, 10),
    ];
    let recording = recorded(&[10], &events, 700);
    recording.check().unwrap();
    let file = FileIndex(0);
    assert_eq!(
        spans(&recording, 0),
        [
            (0, 120, ThreadState::Computing),
            (120, 500, waiting(Wait::Read { file, pattern: Pattern::Sequential }, None)),
            (500, 530, ThreadState::AwaitingCore),
            (530, 700, ThreadState::Computing),
        ]
    );
    let access = recording.threads[0].accesses[0];
    assert_eq!(
        (access.kind, access.offset, access.length, access.loaded_bytes),
        (AccessKind::Read, 0, 4096, 8192)
    );
    assert_eq!(
        terms(&recording),
        [(Term::Read(file, Pattern::Sequential), 380), (Term::Computing, 290), (Term::AwaitingCore, 30),]
    );
}

#[test]
fn waits_are_named_by_fault_and_call_and_descriptor() {
    let file = FileIndex(0);
    let kinds = [
        (ActivityKind::Faults(range(100, 0, 4096)), Wait::Mapping { file }),
        (call(CallKind::Metadata, None), Wait::Metadata),
        (call(CallKind::Sync, Some(3)), Wait::Sync { file: Some(file) }),
        (call(CallKind::Write, Some(3)), Wait::Write { file: Some(file) }),
        (call(CallKind::Write, Some(5)), Wait::Others),
        (call(CallKind::Read, Some(5)), Wait::Others),
        // Past the page cache.
        (call(CallKind::Read, Some(3)), Wait::Read { file, pattern: Pattern::Sequential }),
        (call(CallKind::Sleep, None), Wait::Timer),
        (call(CallKind::Socket, Some(9)), Wait::Socket),
        (call(CallKind::Asynchronous, None), Wait::AsynchronousIo),
    ];
    for (kind, wait) in kinds {
        let events = [
            switch(0, 0, false, 10),
            event(10, 10, kind.clone()),
            switch(20, 10, true, 0),
            interrupted(90, 10),
            switch(95, 0, false, 10),
            event(97, 10, call(CallKind::Other, None)),
            exit(100, 10),
        ];
        let recording = recorded(&[10], &events, 100);
        assert_eq!(spans(&recording, 0)[1], (20, 90, waiting(wait, None)), "{kind:?}");
    }
}

#[test]
fn a_write_that_is_slowed_down_waits_for_write_back() {
    let events = [
        switch(0, 0, false, 10),
        event(10, 10, call(CallKind::Write, Some(3))),
        event(15, 10, ActivityKind::Throttled),
        switch(20, 10, true, 0),
        switch(90, 0, false, 10),
        exit(100, 10),
    ];
    let recording = recorded(&[10], &events, 100);
    assert_eq!(spans(&recording, 0)[1], (20, 90, waiting(Wait::WriteBack, None)));
}

#[test]
fn the_critical_path_goes_from_a_waiter_to_its_waker_and_to_the_parent_of_a_child() {
    // The parent starts a child at 100 and waits for it; the child reads from 200 to 600 and ends at 800.
    let events = [
        switch(0, 0, false, 10),
        event(100, 10, ActivityKind::Starts(11)),
        event(110, 10, call(CallKind::Await, None)),
        switch(120, 10, true, 11),
        event(190, 11, call(CallKind::Read, Some(3))),
        switch(200, 11, true, 0),
        interrupted(600, 11),
        switch(600, 0, false, 11),
        event(610, 11, ActivityKind::Reads(range(100, 1 << 20, (1 << 20) + 4096))),
        event(790, 11, ActivityKind::Wakes(10)),
        exit(800, 11),
        switch(820, 0, false, 10),
        exit(900, 10),
    ];
    let recording = recorded(&[10], &events, 900);
    recording.check().unwrap();
    assert_eq!(spans(&recording, 0)[1], (120, 790, waiting(Wait::Others, Some(1))));
    let ledger = Ledger::of(&recording);
    let of = |program: &str, term: Term| {
        ledger
            .entries
            .iter()
            .find(|entry| entry.program == program && entry.term == term)
            .map(|entry| entry.time.0)
    };
    assert_eq!(of("thread11", Term::Read(FileIndex(0), Pattern::Scattered)), Some(400));
    // From 120 to 200 and from 600 to 790; between its start and its core it waited.
    assert_eq!(of("thread11", Term::Computing), Some(270));
    assert_eq!(of("thread11", Term::AwaitingCore), Some(20));
    assert_eq!(of("thread10", Term::Computing), Some(180));
    assert_eq!(of("thread10", Term::AwaitingCore), Some(30));
    assert_eq!(ledger.sum(|_| true), Nanos(900));
}

#[test]
fn a_thread_that_computes_beside_the_critical_path_is_not_on_it() {
    let events = [
        switch(0, 0, false, 10),
        event(10, 10, ActivityKind::Starts(11)),
        switch(20, 0, false, 11),
        event(30, 10, call(CallKind::Sleep, None)),
        switch(40, 10, true, 0),
        interrupted(940, 10),
        switch(940, 0, false, 10),
        exit(1000, 10),
    ];
    let recording = recorded(&[10], &events, 1000);
    assert_eq!(terms(&recording), [(Term::Timer, 900), (Term::Computing, 100)]);
}

#[test]
fn consecutive_cached_reads_are_one_access_and_others_are_not() {
    let mut events = vec![switch(0, 0, false, 10)];
    for (index, at) in [0u64, 1, 2, 3, 10, 11].into_iter().enumerate() {
        let time = 100 * (index as u64 + 1);
        events.push(event(time, 10, call(CallKind::Read, Some(3))));
        events.push(event(time + 10, 10, ActivityKind::Reads(range(100, at * 4096, (at + 1) * 4096))));
    }
    let recording = recorded(&[10], &events, 1000);
    let accesses: Vec<(u64, u64, u64)> = recording.threads[0]
        .accesses
        .iter()
        .map(|access| (access.offset, access.length, access.calls))
        .collect();
    assert_eq!(accesses, [(0, 4 * 4096, 4), (10 * 4096, 2 * 4096, 2)]);
    // One long call is reported in parts, each with the rest of its range.
    let events = [
        switch(0, 0, false, 10),
        event(10, 10, call(CallKind::Read, Some(3))),
        event(20, 10, ActivityKind::Reads(range(100, 0, 1 << 20))),
        event(30, 10, ActivityKind::Reads(range(100, 1 << 19, 1 << 20))),
    ];
    let recording = recorded(&[10], &events, 100);
    let access = recording.threads[0].accesses[0];
    assert_eq!((recording.threads[0].accesses.len(), access.length, access.calls), (1, 1 << 20, 1));
}
