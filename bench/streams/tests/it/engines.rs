//! The queries on both engines, beside the plain loops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sakiyomi_bench_streams::compare::Engine;
use sakiyomi_bench_streams::event::{Event, Pool};
use sakiyomi_bench_streams::load::{Load, Pace};
use sakiyomi_bench_streams::query::{Query, Windows};
use sakiyomi_bench_streams::reference;

use super::{HOP_NS, POOL_EVENTS, feed, schedule};

/// A complete end of the windows, within the run.
const UNTIL_NS: u64 = 250 * HOP_NS;

fn load(query: Query, pool: &Arc<Pool>, pace: Pace, workers: usize, until_ns: u64) -> Load {
    Load {
        query,
        windows: Windows { hop_ns: HOP_NS, until_ns },
        pool: Arc::clone(pool),
        schedule: schedule(),
        pace,
        workers: vec![None; workers],
        spin: Duration::from_micros(20),
        keeps_rows: true,
    }
}

#[test]
fn both_engines_have_the_rows_of_the_plain_loops() {
    for seed in [0, 7] {
        let pool = Arc::new(Pool::generate(seed, POOL_EVENTS));
        let events: Vec<Event> = feed(&pool).collect();
        for query in Query::ALL {
            let has_windows = matches!(query, Query::Q5 | Query::Q7);
            for until_ns in [u64::MAX, UNTIL_NS].into_iter().take(1 + usize::from(has_windows)) {
                let expected = reference::rows(query, Windows { hop_ns: HOP_NS, until_ns }, &events);
                assert!(!expected.is_empty(), "{query} has no rows");
                for (engine, workers) in Engine::ALL.into_iter().flat_map(|engine| [(engine, 1), (engine, 2)])
                {
                    let outcome =
                        engine.run(&load(query, &pool, Pace::Unlimited, workers, until_ns)).unwrap();
                    let mut rows = outcome.results.rows;
                    rows.sort_unstable();
                    assert_eq!(
                        outcome.results.count,
                        expected.len() as u64,
                        "{query} {engine:?} {workers} {seed}"
                    );
                    let differs = rows.iter().zip(&expected).find(|(row, expected)| row != expected);
                    assert_eq!(differs, None, "{query} {engine:?} {workers} {seed}");
                }
            }
        }
    }
}

#[test]
fn events_at_their_times_have_the_same_rows_and_a_latency_for_each() {
    let pool = Arc::new(Pool::generate(3, POOL_EVENTS));
    for query in Query::ALL {
        let loads = [Pace::Unlimited, Pace::Scheduled].map(|pace| load(query, &pool, pace, 1, UNTIL_NS));
        for engine in Engine::ALL {
            let [fast, scheduled] = loads.each_ref().map(|load| engine.run(load).unwrap());
            assert!(scheduled.results.agrees(&fast.results), "{query} {engine:?}");
            assert_eq!(scheduled.latency.len(), scheduled.results.count, "{query} {engine:?}");
            // No row leaves before its last event is due, or its window ends.
            assert!(scheduled.latency.min() > 0, "{query} {engine:?}");
            assert!(scheduled.elapsed >= Duration::from_nanos(schedule().time_ns(schedule().events - 1)));
        }
    }
}

#[test]
fn a_pool_is_repeated_with_new_identities_and_the_same_seed_gives_the_same_events() {
    let [pool, again, other] = [5, 5, 6].map(|seed| Arc::new(Pool::generate(seed, POOL_EVENTS)));
    let text = |pool: &Arc<Pool>| format!("{:?}", feed(pool).collect::<Vec<_>>());
    assert!(text(&pool) == text(&again) && text(&pool) != text(&other));
    let (mut persons, mut auctions, mut last_ns) = (BTreeSet::new(), BTreeSet::new(), 0);
    for event in feed(&pool) {
        let (is_new, time_ns) = match event {
            Event::Person(person) => (persons.insert(person.id), person.time_ns),
            Event::Auction(auction) => (auctions.insert(auction.id), auction.time_ns),
            Event::Bid(bid) => (true, bid.time_ns),
        };
        assert!(is_new && time_ns >= last_ns);
        last_ns = time_ns;
    }
}
