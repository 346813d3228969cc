//! Any events, also impossible ones as after lost records: the recording is consistent, the ledger adds up, and a
//! replay ends.

use proptest::prelude::*;
use sakiyomi_explain::critical_path::critical_path;
use sakiyomi_explain::recording::Method;
use sakiyomi_explain::summary::{intervals, summary};
use sakiyomi_explain::{Change, Ledger, Prefetching, Present, Recording};
use sakiyomi_model::Nanos;
use sakiyomi_os::system_call::CallKind;
use sakiyomi_os::tracefs::{Activity, ActivityKind};

use crate::events::{call, event, exit, interrupted, range, recorded, switch};

fn any_event() -> impl Strategy<Value = (u64, Activity)> {
    let thread = 10..16u32;
    let kinds = prop::sample::select(vec![
        CallKind::Read,
        CallKind::Write,
        CallKind::Metadata,
        CallKind::Sync,
        CallKind::Await,
        CallKind::Sleep,
        CallKind::Close,
        CallKind::Other,
    ]);
    let range = (100..104u64, 0..64u64, 1..32u64)
        .prop_map(|(inode, page, pages)| range(inode, page * 4096, (page + pages) * 4096));
    let kind = prop_oneof![
        4 => (kinds, prop::option::of(0..7u32)).prop_map(|(kind, descriptor)| call(kind, descriptor)),
        2 => range.clone().prop_map(ActivityKind::Reads),
        1 => range.clone().prop_map(ActivityKind::Faults),
        1 => range.prop_map(ActivityKind::Adds),
        1 => Just(ActivityKind::Throttled),
        2 => thread.clone().prop_map(ActivityKind::Wakes),
        1 => thread.clone().prop_map(ActivityKind::Starts),
    ];
    let activity = prop_oneof![
        6 => (thread.clone(), kind).prop_map(|(thread, kind)| event(0, thread, kind)),
        4 => (thread.clone(), any::<bool>(), 9..16u32)
            .prop_map(|(thread, is_asleep, next)| switch(0, thread, is_asleep, next)),
        2 => thread.clone().prop_map(|thread| interrupted(0, thread)),
        1 => thread.prop_map(|thread| exit(0, thread)),
    ];
    (0..100_000u64, activity)
}

fn any_recording() -> impl Strategy<Value = Recording> {
    (prop::collection::vec(any_event(), 0..120), 0..1_000_000u64, any::<bool>()).prop_map(
        |(events, rest, sampled)| {
            let mut time = 0;
            let events: Vec<Activity> = events
                .into_iter()
                .map(|(delay, event)| {
                    time += delay;
                    Activity { time, ..event }
                })
                .collect();
            let recording = recorded(&[10, 11], &events, time + rest + 1);
            let method = if sampled { Method::Sampled } else { Method::Traced };
            Recording { method, ..recording }
        },
    )
}

proptest! {
    #[test]
    fn the_critical_path_covers_the_elapsed_time_without_gaps(recording in any_recording()) {
        recording.check().map_err(TestCaseError::fail)?;
        let mut at = Nanos::ZERO;
        for step in critical_path(&recording) {
            prop_assert_eq!(step.begun, at);
            prop_assert!(step.ended > step.begun);
            at = step.ended;
        }
        prop_assert_eq!(at, recording.elapsed_ns);
        let ledger = Ledger::of(&recording);
        prop_assert_eq!(ledger.sum(|_| true), recording.elapsed_ns);
        let rows = summary(&recording, &ledger);
        prop_assert_eq!(rows.iter().map(|row| row.time.0).sum::<u64>(), recording.elapsed_ns.0);
        let spans = intervals(&recording);
        prop_assert_eq!(spans.last().map(|interval| interval.until), Some(recording.elapsed_ns));
    }

    #[test]
    fn a_recording_is_read_back_as_it_was_saved(recording in any_recording()) {
        let text = serde_json::to_string(&recording).unwrap();
        prop_assert_eq!(serde_json::from_str::<Recording>(&text).unwrap(), recording);
    }

    #[test]
    fn a_replay_of_anything_ends_and_is_the_same_each_time(recording in any_recording()) {
        if let Ok(present) = Present::fit(&recording) {
            for prefetching in [Prefetching::Followed, Prefetching::Learned] {
            let change = Change { prefetching, ..Change::NONE };
            let prediction = present.predict(&change).unwrap();
            prop_assert!(prediction.low <= prediction.elapsed && prediction.elapsed <= prediction.high);
            prop_assert_eq!(present.predict(&change).unwrap(), prediction);
            }
        }
    }
}
