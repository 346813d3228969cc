//! Every device honors the capacity, depth and busy time that it reports.

use crate::common::{Random, bare, with};
use proptest::prelude::*;
use sakiyomi_drive::Drive;
use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_model::{Bytes, Device, Extent, Lba, Nanos, Op, Outcome, Request, RequestId, Sectors, StreamId};

fn devices() -> [Box<dyn Device>; 4] {
    let fixed = |text: &str| Box::new(Fixed::new(text.parse::<FixedSpec>().unwrap(), 1));
    let depth_1 = with(&[("queue.depth", "1")]);
    [
        Box::new(Drive::new(&bare()).unwrap()),
        Box::new(Drive::new(&depth_1).unwrap()),
        fixed("latency=4ms,parallel=5,spread=0.5,bandwidth=1MB/s,size=1GiB"),
        fixed("latency=1ms,size=1048577B"),
    ]
}

fn read(id: u64, start: u64, sectors: u64, arrival: Nanos) -> Request {
    let extent = Extent::new(Lba(start), Sectors(sectors));
    Request { id: RequestId(id), stream: StreamId(0), op: Op::Read, fua: false, extent, arrival }
}

/// Returns the outcome of a request to an idle device.
fn outcome(device: &mut impl Device, request: Request) -> Outcome {
    let mut done = Vec::new();
    device.submit(request.arrival, request).unwrap();
    while done.is_empty() {
        let event = device.next_event().expect("a request is outstanding");
        device.advance(event, &mut done);
    }
    done[0].outcome
}

#[test]
fn the_last_sector_of_its_capacity_is_there_and_none_after_it() {
    for mut device in devices() {
        let end = device.capacity().0;
        assert!(device.sector() == Bytes(512) && end >= 2048);
        assert_eq!(outcome(&mut device, read(0, end - 1, 1, Nanos::ZERO)), Outcome::Done);
        assert_eq!(outcome(&mut device, read(1, end, 1, Nanos::SECOND)), Outcome::Error);
        assert_eq!(outcome(&mut device, read(2, end - 1, 2, Nanos::SECOND * 2)), Outcome::Error);
    }
}

#[test]
fn it_takes_as_many_requests_as_its_depth() {
    let depths = devices().map(|mut device| {
        for id in 0..u64::from(device.depth()) {
            device.submit(Nanos::ZERO, read(id, id * 64, 8, Nanos::ZERO)).unwrap();
        }
        let next = read(999, 0, 8, Nanos::ZERO);
        assert_eq!(device.submit(Nanos::ZERO, next).unwrap_err().0, next);
        device.depth()
    });
    assert_eq!(depths, [32, 1, 5, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Without read-ahead and destaging, a device is busy exactly while requests are outstanding.
    #[test]
    fn it_is_busy_while_requests_are_outstanding(seed in any::<u64>(), gap in 1u64..60_000_000) {
        for mut device in devices() {
            let (mut random, mut done) = (Random::new(seed), Vec::new());
            let (mut now, mut since, mut outstanding, mut sum) = (Nanos::ZERO, Nanos::ZERO, 0, Nanos::ZERO);
            for id in 0..40 {
                let arrival = now + Nanos(random.below(gap));
                while let Some(event) = device.next_event().filter(|&event| event <= arrival) {
                    device.advance(event, &mut done);
                    if outstanding > 0 && done.len() == outstanding {
                        (outstanding, sum) = (0, sum + (event - since));
                        done.clear();
                    }
                }
                now = arrival;
                let request = read(id, random.below(device.capacity().0 - 8), 8, now);
                if device.submit(now, request).is_ok() {
                    since = if outstanding == 0 { now } else { since };
                    outstanding += 1;
                }
                let expected = if outstanding > 0 { sum + (now - since) } else { sum };
                prop_assert_eq!(device.busy(now), expected);
            }
        }
    }
}
