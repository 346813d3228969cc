//! Times of drives and rates, the trace, and the end of a server.

use std::time::{Duration, Instant};

use sakiyomi_model::{Nanos, Op};
use sakiyomi_nbd::{ExportOptions, Options};
use sakiyomi_realtime::{EmulatedStorage, Regulate};
use sakiyomi_regulate::{Percent, Rate};
use sakiyomi_trace::{ReadOptions, Record, Trace};

use crate::client::{Client, FLUSH, READ, TRIM, WRITE, served};

fn fixed(text: &str) -> Option<EmulatedStorage> {
    Some(EmulatedStorage::Fixed(text.parse().unwrap()))
}

fn every(milliseconds: u64) -> Option<Rate> {
    Some(Rate::Every(Nanos(milliseconds * 1_000_000)))
}

#[test]
fn each_request_takes_the_time_of_the_drive_and_those_in_flight_overlap() {
    let served =
        served("nbd_times", 1 << 20, |_, options| options.storage = fixed("latency=30ms,parallel=8"));
    let mut client = served.client();
    let begun = Instant::now();
    assert_eq!(client.read(0, 4096), [0; 4096]);
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let begun = Instant::now();
    for _ in 0..8 {
        client.send(READ, 0, 0, 4096, &[]);
    }
    (0..8).for_each(|_| drop(client.receive().unwrap()));
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let seen = served.server.finish(Duration::from_secs(5)).unwrap().seen;
    assert_eq!((seen.totals.accesses, seen.totals.read_bytes), (9, 9 * 4096));
    assert!(seen.totals.response.quantile(0.0) >= Nanos(29_000_000), "{seen:?}");
    assert_eq!(seen.totals.lateness.count(), 9);
    assert!(seen.busy.unwrap() >= Nanos(59_000_000));
}

#[test]
fn a_connection_with_a_rate_takes_its_time_whatever_the_others_do() {
    for storage in [None, fixed("latency=1ms")] {
        let served = served("nbd_connection_rate", 1 << 20, |_, options| {
            options.storage = storage;
            options.regulate = Some(Regulate::default());
            options.connection_rate = every(25);
            options.best_effort = true;
        });
        let mut clients = [served.client(), served.client()];
        let begun = Instant::now();
        for client in &mut clients {
            for _ in 0..3 {
                client.send(READ, 0, 0, 512, &[]);
            }
        }
        clients.iter_mut().for_each(|client| (0..3).for_each(|_| drop(client.receive().unwrap())));
        // Each has its own rate: both take three times 25 ms, at the same time.
        assert!(begun.elapsed() >= Duration::from_millis(70), "{:?}", begun.elapsed());
        let (owners, past) = served.server.seen().rates.unwrap();
        assert_eq!((owners, past.given, past.ios), (2, 2, 6));
        drop(clients);
        sakiyomi_testing::wait_until("rates are left", || served.server.seen().rates.unwrap().0 == 0);
    }
}

#[test]
fn connections_to_an_export_share_its_rate_and_those_to_another_have_none() {
    let served = served("nbd_export_rate", 1 << 20, |_, options: &mut Options| {
        options.storage = fixed("latency=1ms");
        options.regulate = Some(Regulate::default());
        let named = |name: &str, rate| ExportOptions { name: name.to_owned(), rate };
        options.exports = vec![named("slow", every(20)), named("", None)];
        options.best_effort = true;
    });
    let mut slow = [0; 2].map(|_| Client::connect(&served.socket(), "slow", true).unwrap());
    let begun = Instant::now();
    for client in &mut slow {
        for _ in 0..2 {
            client.send(READ, 0, 0, 512, &[]);
        }
    }
    slow.iter_mut().for_each(|client| (0..2).for_each(|_| drop(client.receive().unwrap())));
    assert!(begun.elapsed() >= Duration::from_millis(75), "four in turn");
    served.client().read(0, 512);
    assert_eq!(served.server.seen().rates.unwrap().1.ios, 4);
}

#[test]
fn a_rate_that_cannot_be_kept_is_refused_at_the_start_or_to_the_client() {
    let rate = Some(Rate::Percent(Percent::new(100).unwrap()));
    let scratch = sakiyomi_testing::Scratch::new("nbd_no_room");
    let mut options = Options::new(sakiyomi_nbd::Address::Unix(scratch.path("socket")));
    options.temporary = scratch.root().to_owned();
    options.storage = fixed("latency=1ms");
    options.regulate = Some(Regulate::default());
    options.exports = vec![ExportOptions { name: "all".to_owned(), rate }];
    let error = sakiyomi_nbd::serve(&options).unwrap_err().to_string();
    assert!(error.contains("the rate of the export \"all\": 100 % cannot be kept"), "{error}");
    options.exports.clear();
    options.connection_rate = rate;
    let server = sakiyomi_nbd::serve(&options).unwrap();
    let refused = Client::connect(&scratch.path("socket"), "", true).map(drop).unwrap_err();
    assert!(refused.to_string().contains("100 % cannot be kept"), "{refused}");
    drop(server);
}

#[test]
fn the_trace_has_each_request_with_its_connection_place_and_time() {
    for storage in [None, fixed("latency=2ms")] {
        let is_emulated = storage.is_some();
        let served = served("nbd_trace", 8 << 20, |scratch, options| {
            options.storage = storage;
            options.record = Some(scratch.path("trace.csv"));
        });
        let (mut first, mut second) = (served.client(), served.client());
        first.write(4096, &[1; 1024]);
        second.read(3 << 20, 1 << 20);
        second.read(1, 1);
        first.ask(FLUSH, 0, 0, 0, &[]).unwrap();
        first.ask(TRIM, 0, 8192, 4096, &[]).unwrap();
        first.ask(READ, 0, 1 << 40, 1, &[]).unwrap_err();
        let finished = served.server.finish(Duration::from_secs(5)).unwrap();
        assert_eq!((finished.recorded, finished.seen.refused), (Some(5), 1));
        let trace = Trace::open(served.scratch.path("trace.csv"), &ReadOptions::default()).unwrap();
        let records: Vec<Record> = trace.collect::<Result<_, _>>().unwrap();
        let seen: Vec<_> = records
            .iter()
            .map(|record| (record.stream.0, record.op, record.offset.0, record.length.0))
            .collect();
        assert_eq!(
            seen,
            [
                (1, Op::Write, 4096, 1024),
                (2, Op::Read, 3 << 20, 1 << 20),
                (2, Op::Read, 0, 512),
                (1, Op::Flush, 0, 0),
                (1, Op::Discard, 8192, 4096),
            ]
        );
        assert!(records.iter().all(|record| record.response.is_some()));
        let second = records[1].response.unwrap();
        assert!(!is_emulated || second >= Nanos(2_000_000), "{second:?}");
    }
}

#[test]
fn a_server_that_is_stopped_answers_what_it_has_and_refuses_the_rest() {
    let served = served("nbd_stopped", 1 << 20, |_, options| options.storage = fixed("latency=300ms"));
    let mut client = served.client();
    let before = client.send(WRITE, 0, 0, 512, &[9; 512]);
    sakiyomi_testing::wait_until("it has not arrived", || served.server.seen().totals.in_flight == 1);
    let server = served.server;
    let ending = std::thread::spawn(move || server.finish(Duration::from_secs(10)).unwrap());
    let scratch = served.scratch;
    sakiyomi_testing::wait_until("it still listens", || !scratch.path("socket").exists());
    let after = client.send(READ, 0, 0, 512, &[]);
    assert_eq!(client.receive().unwrap(), (after, Err(108)));
    assert_eq!(client.receive().unwrap(), (before, Ok(Vec::new())));
    let finished = ending.join().unwrap();
    assert!(!finished.cut_off && finished.seen.refused == 1);
    assert!(client.receive().is_err());
}

#[test]
fn what_takes_too_long_is_cut_off_at_the_end() {
    let served = served("nbd_cut_off", 1 << 20, |_, options| options.storage = fixed("latency=1h"));
    let mut client = served.client();
    client.send(READ, 0, 0, 512, &[]);
    sakiyomi_testing::wait_until("it has not arrived", || served.server.seen().totals.in_flight == 1);
    let begun = Instant::now();
    assert!(served.server.finish(Duration::from_millis(50)).unwrap().cut_off);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(client.receive().is_err());
}
