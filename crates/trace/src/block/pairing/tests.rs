use proptest::prelude::*;
use sakiyomi_model::Bytes;

use super::super::{BlockEvent, BlockOp, BlockStage};
use super::*;

use BlockStage::{Completed, Inserted, Issued, Queued, Requeued};

fn event(time: u64, stage: BlockStage, rwbs: &str, first: u64, length: u64) -> BlockEvent {
    let op = BlockOp::parse(rwbs.as_bytes()).unwrap();
    let (offset, length) = (Bytes(first), Bytes(length));
    let (process, line) = (time as u32, time);
    BlockEvent { time: Nanos(time), device: 8, stage, op, offset, length, is_failed: false, process, line }
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
fn a_request_that_failed_in_any_part_has_no_response_time() {
    let failed = |event: BlockEvent| BlockEvent { is_failed: true, ..event };
    let events = [
        event(1, Queued, "R", 0, 16),
        event(1, Queued, "FWS", 0, 0),
        event(2, Issued, "R", 0, 16),
        event(2, Issued, "FF", 0, 0),
        event(3, Issued, "R", 64, 8),
        failed(event(4, Completed, "R", 0, 8)),
        event(5, Completed, "R", 8, 8),
        event(6, Completed, "R", 64, 8),
        failed(event(7, Completed, "FF", 0, 0)),
    ];
    let (records, counts) = run(Arrival::Issued, &events);
    let wanted = [(2, None, None), (2, None, None), (3, None, Some(3))];
    assert_eq!(records.iter().map(times).collect::<Vec<_>>(), wanted);
    assert_eq!(counts, BlockCounts { completed: 1, failed: 2, ..BlockCounts::default() });
    let (bios, counts) = run(Arrival::Queued, &events);
    assert_eq!(bios.iter().map(times).collect::<Vec<_>>(), [(1, None, None); 2]);
    assert_eq!((counts.failed, counts.completed), (2, 0));
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
fn a_request_that_is_inserted_again_after_its_return_is_the_same() {
    for (rwbs, length) in [("W", 8), ("FF", 0)] {
        let events = [
            event(1, Inserted, rwbs, 0, length),
            event(2, Issued, rwbs, 0, length),
            event(3, Requeued, rwbs, 0, length),
            event(4, Inserted, rwbs, 0, length),
            // Another one of the same extent.
            event(5, Inserted, rwbs, 0, length),
            event(7, Issued, rwbs, 0, length),
            event(9, Completed, rwbs, 0, length),
        ];
        let (records, counts) = run(Arrival::Inserted, &events);
        let found: Vec<_> = records.iter().map(times).collect();
        assert_eq!(found, [(1, Some(7), Some(8)), (5, None, None)], "{rwbs}");
        assert_eq!(counts, BlockCounts { completed: 1, unfinished: 1, ..BlockCounts::default() });
        let (records, counts) = run(Arrival::Issued, &events);
        assert_eq!(records.iter().map(times).collect::<Vec<_>>(), [(7, None, Some(2))], "{rwbs}");
        assert_eq!(counts, BlockCounts { completed: 1, ..BlockCounts::default() });
    }
}

#[test]
fn a_request_that_was_returned_in_part_stays_whole() {
    let events = [
        event(1, Inserted, "R", 0, 24),
        event(2, Issued, "R", 0, 24),
        event(4, Completed, "R", 0, 8),
        event(5, Requeued, "R", 8, 16),
        event(6, Inserted, "R", 8, 16),
        event(7, Issued, "R", 8, 16),
        event(9, Completed, "R", 8, 16),
    ];
    for (arrival, wanted) in
        [(Arrival::Inserted, (1, Some(7), Some(8))), (Arrival::Issued, (2, None, Some(7)))]
    {
        let (records, counts) = run(arrival, &events);
        assert_eq!(records.iter().map(times).collect::<Vec<_>>(), [wanted]);
        assert_eq!((records[0].offset, records[0].length), (Bytes(0), Bytes(24)));
        assert_eq!(counts, BlockCounts { completed: 1, ..BlockCounts::default() });
    }
}

#[test]
fn requests_in_flight_that_overlap_keep_their_own_times() {
    let events = [
        event(1, Inserted, "R", 0, 32),
        event(2, Inserted, "R", 8, 8),
        event(3, Inserted, "R", 0, 8),
        event(4, Issued, "R", 8, 8),
        event(5, Issued, "R", 0, 32),
        event(6, Issued, "R", 0, 8),
        event(7, Completed, "R", 8, 8),
        event(8, Completed, "R", 0, 8),
        event(9, Completed, "R", 0, 32),
    ];
    let (records, _) = run(Arrival::Inserted, &events);
    let found: Vec<_> = records.iter().map(times).collect();
    assert_eq!(found, [(1, Some(5), Some(8)), (2, Some(4), Some(5)), (3, Some(6), Some(5))]);
    let (bios, _) = run(
        Arrival::Queued,
        &[
            event(1, Queued, "R", 0, 32),
            event(2, Queued, "R", 8, 8),
            event(5, Completed, "R", 8, 8),
            event(7, Completed, "R", 0, 32),
        ],
    );
    assert_eq!(bios.iter().map(times).collect::<Vec<_>>(), [(1, None, Some(6)), (2, None, Some(3))]);
    // A request of exactly the extent is it, though an older one lies inside.
    let events = [
        event(1, Inserted, "R", 0, 8),
        event(2, Inserted, "R", 0, 32),
        event(3, Issued, "R", 0, 32),
        event(4, Issued, "R", 0, 8),
        event(5, Completed, "R", 0, 8),
        event(6, Completed, "R", 0, 32),
    ];
    let (records, _) = run(Arrival::Inserted, &events);
    let found: Vec<_> = records.iter().map(times).collect();
    assert_eq!(found, [(1, Some(4), Some(4)), (2, Some(3), Some(4))]);
    // A merged request consists of parts that do not overlap, whichever came first.
    let events = [
        event(1, Inserted, "W", 4, 8),
        event(2, Inserted, "W", 0, 8),
        event(3, Inserted, "W", 8, 8),
        event(4, Issued, "W", 0, 16),
        event(5, Completed, "W", 0, 16),
    ];
    let (records, _) = run(Arrival::Inserted, &events);
    assert_eq!(records.iter().map(times).collect::<Vec<_>>(), [(1, None, None), (2, Some(4), Some(3))]);
}

#[test]
fn a_request_is_given_up_only_after_a_million_others_and_one_that_waits_comes_once() {
    let mut requests = BlockRequests::new(Arrival::Inserted);
    requests.event(&event(0, Inserted, "W", 0, 8));
    requests.event(&event(1, Issued, "R", 0, 8));
    let mut records = Vec::new();
    let others = 1 << 20;
    for time in 2..others {
        requests.event(&event(time, Issued, "R", 64, 8));
        requests.event(&event(time, Completed, "R", 64, 8));
        records.extend(std::iter::from_fn(|| requests.pop()));
    }
    assert_eq!(records, [], "the first two are waited for");
    for time in others..others + 2 {
        requests.event(&event(time, Issued, "R", 64, 8));
        requests.event(&event(time, Completed, "R", 64, 8));
        records.extend(std::iter::from_fn(|| requests.pop()));
    }
    assert_eq!(records.first().map(times), Some((1, Some(1), None)));
    assert_eq!(requests.counts().given_up, 1);
    requests.event(&event(others + 2, Issued, "W", 0, 8));
    requests.event(&event(others + 3, Completed, "W", 0, 8));
    records.extend(std::iter::from_fn(|| requests.pop()));
    let writes: Vec<_> = records.iter().filter(|record| record.op == Op::Write).map(times).collect();
    assert_eq!(writes, [(others + 2, Some(others + 2), Some(1))], "it is not in the trace twice");
    assert_eq!(
        requests.counts(),
        BlockCounts { completed: others + 1, given_up: 1, ..BlockCounts::default() }
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
    assert_eq!(counts, BlockCounts { completed: 3, unfinished: 1, ..BlockCounts::default() });
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
    let wanted = BlockCounts { completed: 1, unfinished: 1, unmatched: 1, ..BlockCounts::default() };
    assert_eq!(requests.counts(), wanted);
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
    assert_eq!(requests.counts(), BlockCounts { completed: 1, unfinished: 1, ..BlockCounts::default() });
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
    assert_eq!(requests.counts(), BlockCounts { completed: 1, given_up: 1, ..BlockCounts::default() });
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
    /// Whether the driver returns it once, before or after the first part is complete.
    is_returned: bool,
    /// Whether the returned request is inserted again.
    is_reinserted: bool,
    /// Whether the first part is complete before its return.
    is_returned_in_part: bool,
}

/// Requests that overlap each other have no boundary in common, so that there is one way to pair their events: those of
/// each are congruent to its number modulo this.
const BOUNDARY_MODULUS: u64 = 64;

fn known() -> impl Strategy<Value = Vec<Known>> {
    let request = (
        (0u64..6, 0u64..8, 1u64..5, 0u8..3),
        (0u64..40, 0u64..40, 1u64..4),
        (any::<bool>(), any::<bool>(), any::<bool>()),
    );
    prop::collection::vec(request, 0..BOUNDARY_MODULUS as usize).prop_map(|all| {
        let mut inserted = 0;
        let mut known: Vec<Known> = Vec::new();
        for (number, ((gap, first, length, op), (wait, service, parts), (returned, again, in_part))) in
            all.into_iter().enumerate()
        {
            inserted += gap * 10 + 1;
            let issued = inserted + wait * 10 + 5;
            known.push(Known {
                first: first * BOUNDARY_MODULUS + number as u64,
                length: length * parts * BOUNDARY_MODULUS,
                op: [Op::Read, Op::Write, Op::Discard][usize::from(op)],
                inserted,
                issued,
                completed: issued + service * 10 + 4,
                parts,
                is_returned: returned,
                is_reinserted: again,
                is_returned_in_part: in_part && parts > 1,
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
        let end = request.first + request.length;
        let mut first = request.first;
        let part = request.length / request.parts;
        events.push(event(request.inserted, Inserted, rwbs, first, request.length));
        if request.is_returned {
            events.push(event(request.issued - 4, Issued, rwbs, first, request.length));
            if request.is_returned_in_part {
                events.push(event(request.issued - 3, Completed, rwbs, first, part));
                first += part;
            }
            events.push(event(request.issued - 2, Requeued, rwbs, first, end - first));
            if request.is_reinserted {
                events.push(event(request.issued - 1, Inserted, rwbs, first, end - first));
            }
        }
        events.push(event(request.issued, Issued, rwbs, first, end - first));
        while first < end {
            let after = (end - first) / part - 1;
            events.push(event(request.completed - after, Completed, rwbs, first, part));
            first += part;
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
        prop_assert_eq!(counts.completed + counts.unfinished + counts.given_up, records.len() as u64);
    }
}
