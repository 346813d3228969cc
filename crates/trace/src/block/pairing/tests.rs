use proptest::prelude::*;
use sakiyomi_model::Bytes;

use super::super::{BlockEvent, BlockOp, BlockStage};
use super::*;

use BlockStage::{Completed, Inserted, Issued, Queued, Requeued};

fn event(time: u64, stage: BlockStage, rwbs: &str, first: u64, length: u64) -> BlockEvent {
    let op = BlockOp::parse(rwbs.as_bytes()).unwrap();
    let (offset, length) = (Bytes(first), Bytes(length));
    BlockEvent { time: Nanos(time), device: 8, stage, op, offset, length, process: time as u32, line: time }
}

fn run(arrival: Arrival, events: &[BlockEvent]) -> (Vec<Record>, BlockCounts) {
    let mut requests = BlockRequests::new(arrival);
    events.iter().for_each(|event| requests.event(event));
    let records = std::iter::from_fn(|| requests.pop_rest()).collect();
    (records, requests.counts())
}

/// Returns arrival, start and response.
fn times(record: &Record) -> (u64, Option<u64>, Option<u64>) {
    (record.time.0, record.started.map(|time| time.0), record.response.map(|time| time.0))
}

#[test]
fn merged_requests_are_one_command_of_the_driver_and_several_bios() {
    let events = [
        event(1, Queued, "R", 8, 8),
        event(2, Inserted, "R", 8, 8),
        event(3, Queued, "R", 16, 8),
        event(4, Queued, "R", 0, 8),
        event(5, Inserted, "R", 0, 8),
        event(10, Issued, "R", 0, 24),
        event(30, Completed, "R", 0, 24),
    ];
    let (bios, counts) = run(Arrival::Queued, &events);
    assert_eq!(
        bios.iter().map(times).collect::<Vec<_>>(),
        [(1, None, Some(29)), (3, None, Some(27)), (4, None, Some(26))]
    );
    assert_eq!(counts, BlockCounts { completed: 3, ..BlockCounts::default() });
    let (requests, _) = run(Arrival::Inserted, &events);
    assert_eq!(requests.iter().map(times).collect::<Vec<_>>(), [(2, Some(10), Some(28))]);
    assert_eq!((requests[0].offset, requests[0].length, requests[0].stream.0), (Bytes(0), Bytes(24), 2));
    let (requests, _) = run(Arrival::Issued, &events);
    assert_eq!(requests.iter().map(times).collect::<Vec<_>>(), [(10, None, Some(20))]);
    assert_eq!(requests[0].stream.0, 2, "the process that asked");
}

#[test]
fn a_split_bio_is_complete_with_its_last_part() {
    let events = [
        event(1, Queued, "W", 0, 32),
        event(2, Issued, "W", 0, 24),
        event(3, Issued, "W", 24, 8),
        event(8, Completed, "W", 24, 8),
        event(9, Completed, "W", 0, 8),
        event(12, Completed, "W", 8, 16),
    ];
    assert_eq!(run(Arrival::Queued, &events).0.iter().map(times).collect::<Vec<_>>(), [(1, None, Some(11))]);
    let issued = run(Arrival::Issued, &events).0;
    assert_eq!(issued.iter().map(times).collect::<Vec<_>>(), [(2, None, Some(10)), (3, None, Some(5))]);
}

#[test]
fn a_request_that_was_returned_counts_from_its_last_issue() {
    let events = [
        event(1, Inserted, "W", 0, 8),
        event(2, Issued, "W", 0, 8),
        event(3, Requeued, "W", 0, 8),
        event(7, Issued, "W", 0, 8),
        event(9, Completed, "W", 0, 8),
    ];
    assert_eq!(
        run(Arrival::Inserted, &events).0.iter().map(times).collect::<Vec<_>>(),
        [(1, Some(7), Some(8))]
    );
    assert_eq!(run(Arrival::Issued, &events).0.iter().map(times).collect::<Vec<_>>(), [(7, None, Some(2))]);
    // Without an insertion, the first issue was the arrival.
    assert_eq!(
        run(Arrival::Inserted, &events[1..]).0.iter().map(times).collect::<Vec<_>>(),
        [(2, Some(7), Some(7))]
    );
}

#[test]
fn a_flush_of_the_driver_is_for_all_that_were_submitted_before() {
    let events = [
        event(1, Queued, "FWS", 0, 0),
        event(2, Queued, "FWFS", 0, 8),
        event(3, Issued, "FF", 0, 0),
        event(4, Queued, "FWS", 0, 0),
        event(5, Completed, "FF", 0, 0),
        event(6, Issued, "WS", 0, 8),
        event(9, Completed, "WS", 0, 8),
    ];
    let (records, counts) = run(Arrival::Queued, &events);
    let found: Vec<_> =
        records.iter().map(|record| (record.op, record.fua, record.response.map(|time| time.0))).collect();
    let wanted = [
        (Op::Flush, false, Some(4)),
        (Op::Flush, false, Some(3)),
        (Op::Write, true, Some(7)),
        (Op::Flush, false, None),
    ];
    assert_eq!(found, wanted);
    assert_eq!(counts, BlockCounts { completed: 3, unfinished: 1, unmatched: 0 });
    assert_eq!(
        run(Arrival::Issued, &events).0.iter().map(times).collect::<Vec<_>>(),
        [(3, None, Some(2)), (6, None, Some(3))]
    );
}

#[test]
fn an_event_that_was_lost_gives_no_request_the_time_of_another() {
    let mut requests = BlockRequests::new(Arrival::Issued);
    requests.event(&event(1, Issued, "R", 0, 8));
    requests.lost();
    requests.event(&event(50, Completed, "R", 0, 8));
    requests.event(&event(60, Issued, "R", 0, 8));
    requests.event(&event(61, Completed, "R", 0, 8));
    let records: Vec<Record> = std::iter::from_fn(|| requests.pop()).collect();
    assert_eq!(records.iter().map(times).collect::<Vec<_>>(), [(1, None, None), (60, None, Some(1))]);
    assert_eq!(requests.counts(), BlockCounts { completed: 1, unfinished: 1, unmatched: 1 });
}

#[test]
fn after_the_end_only_what_has_begun_is_completed() {
    let mut requests = BlockRequests::new(Arrival::Inserted);
    requests.end_at(Nanos(5));
    let events = [
        event(1, Inserted, "R", 0, 8),
        event(5, Issued, "R", 64, 8),
        event(6, Issued, "R", 0, 8),
        event(6, Inserted, "R", 8, 8),
        event(7, Issued, "R", 8, 8),
        event(8, Completed, "R", 8, 8),
        event(9, Completed, "R", 0, 8),
    ];
    events.iter().for_each(|event| requests.event(event));
    assert_eq!(requests.outstanding(), 1);
    let records: Vec<Record> = std::iter::from_fn(|| requests.pop_rest()).collect();
    assert_eq!(records.iter().map(times).collect::<Vec<_>>(), [(1, Some(6), Some(8)), (5, Some(5), None)]);
    assert_eq!(requests.counts(), BlockCounts { completed: 1, unfinished: 1, unmatched: 0 });
}

#[test]
fn a_request_without_completion_does_not_hold_others_back_for_ever() {
    let mut requests = BlockRequests::new(Arrival::Issued);
    requests.event(&event(0, Issued, "R", 0, 8));
    requests.event(&event(1, Issued, "R", 8, 8));
    requests.event(&event(2, Completed, "R", 8, 8));
    assert_eq!(requests.pop(), None);
    requests.event(&event(GIVE_UP_TIME.0 + 1, Issued, "R", 64, 8));
    assert_eq!(requests.pop().map(|record| record.response), Some(None));
    assert_eq!(requests.pop().map(|record| record.response), Some(Some(Nanos(1))));
    assert_eq!((requests.pop(), requests.outstanding()), (None, 1));
}

/// A request that the generator knows: extent, operation, and the times of its stages.
#[derive(Clone, Debug)]
struct Known {
    first: u64,
    length: u64,
    op: Op,
    inserted: u64,
    issued: u64,
    completed: u64,
    parts: u64,
    returned: bool,
}

fn known() -> impl Strategy<Value = Vec<Known>> {
    let request = (0u64..6, 1u64..5, 0u8..3, 0u64..40, 0u64..40, 1u64..60, 1u64..3, any::<bool>());
    prop::collection::vec(request, 0..60).prop_map(|all| {
        let mut inserted = 0;
        let mut known: Vec<Known> = Vec::new();
        for (number, (gap, length, op, wait, service, spare, parts, returned)) in all.into_iter().enumerate()
        {
            inserted += gap * 10 + 1;
            let issued = inserted + wait * 10 + 3;
            known.push(Known {
                // Requests do not overlap, so that there is one way to pair their events.
                first: number as u64 * 100 + spare,
                length: length * parts,
                op: [Op::Read, Op::Write, Op::Discard][usize::from(op)],
                inserted,
                issued,
                completed: issued + service * 10 + 4,
                parts,
                returned,
            });
        }
        known
    })
}

fn events_of(known: &[Known]) -> Vec<BlockEvent> {
    let mut events = Vec::new();
    for request in known {
        let rwbs = match request.op {
            Op::Read => "RA",
            Op::Write => "WS",
            _ => "D",
        };
        let whole = |time, stage| event(time, stage, rwbs, request.first, request.length);
        events.push(whole(request.inserted, Inserted));
        if request.returned {
            events.extend([whole(request.issued - 2, Issued), whole(request.issued - 1, Requeued)]);
        }
        events.push(whole(request.issued, Issued));
        let part = request.length / request.parts;
        for index in 0..request.parts {
            let time = request.completed - (request.parts - 1 - index);
            events.push(event(time, Completed, rwbs, request.first + index * part, part));
        }
    }
    events.sort_by_key(|event| event.time);
    events
}

proptest! {
    #[test]
    fn requests_have_the_times_that_their_events_were_made_from(known in known()) {
        let mut requests = BlockRequests::new(Arrival::Inserted);
        let mut found = Vec::new();
        for event in events_of(&known) {
            requests.event(&event);
            found.extend(std::iter::from_fn(|| requests.pop()));
        }
        prop_assert_eq!(requests.pop_rest(), None, "all are complete");
        prop_assert!(found.is_sorted_by_key(|record| record.time));
        let found: Vec<_> = found.iter().map(|record| (record.op, record.offset.0, record.length.0, times(record))).collect();
        let wanted: Vec<_> = known
            .iter()
            .map(|of| {
                let times = (of.inserted, Some(of.issued), Some(of.completed - of.inserted));
                (of.op, of.first, of.length, times)
            })
            .collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn any_events_leave_each_command_once_and_in_order(
        all in prop::collection::vec((0u64..50, 0u8..5, 0u8..6, 0u64..6, 0u64..4), 0..80),
        arrival in 0u8..3,
    ) {
        let arrival = [Arrival::Queued, Arrival::Inserted, Arrival::Issued][usize::from(arrival)];
        let mut requests = BlockRequests::new(arrival);
        let (mut time, mut records) = (0, Vec::new());
        let mut begun = 0u64;
        for (gap, stage, rwbs, first, length) in all {
            time += gap;
            let stage = [Queued, Inserted, Issued, Requeued, Completed][usize::from(stage)];
            let rwbs = ["R", "W", "D", "FF", "FWFS", "N"][usize::from(rwbs)];
            begun += u64::from(stage != Completed) * 2;
            requests.event(&event(time, stage, rwbs, first, length));
            if gap == 7 {
                requests.lost();
            }
            records.extend(std::iter::from_fn(|| requests.pop()));
        }
        records.extend(std::iter::from_fn(|| requests.pop_rest()));
        prop_assert_eq!(requests.outstanding(), 0);
        prop_assert!(records.is_sorted_by_key(|record| record.time));
        prop_assert!(records.len() as u64 <= begun);
        let counts = requests.counts();
        prop_assert_eq!(counts.completed, records.iter().filter(|record| record.response.is_some()).count() as u64);
        prop_assert_eq!(counts.completed + counts.unfinished, records.len() as u64);
    }
}
