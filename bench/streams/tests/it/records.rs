//! Pipelines in TOML beside programs in Rust.

use std::sync::Arc;

use sakiyomi_bench_streams::event::{Bid, Pool};
use sakiyomi_bench_streams::query::Row;
use sakiyomi_bench_streams::records::{self, Lines, pipeline_rows, run_pipeline, run_program};
use sakiyomi_stream::Settings;

use super::{HOP_NS, POOL_EVENTS, feed};

/// A time within the first minute of 1970 as the pipeline writes it, in nanoseconds.
fn time_text(time_ns: u64) -> String {
    format!("1970-01-01T00:00:{:02}.{:09}Z", time_ns / 1_000_000_000, time_ns % 1_000_000_000)
}

/// The end of a window as the pipeline writes it, in milliseconds.
fn end_text(end_ns: u64) -> String {
    format!("1970-01-01T00:00:{:02}.{:03}Z", end_ns / 1_000_000_000, end_ns / 1_000_000 % 1000)
}

fn line(row: &Row) -> String {
    match row {
        Row::Converted(Bid { auction, bidder, price, time_ns }) => {
            format!("{auction},{bidder},{price},{}", time_text(*time_ns))
        }
        Row::Selected(auction, price) => format!("{auction},{price}"),
        Row::Hot(end_ns, auction, bids) => format!("{},{auction},{bids}", end_text(*end_ns)),
        other => panic!("no pipeline has the row {other:?}"),
    }
}

#[test]
fn pipelines_have_the_rows_of_programs() {
    let pool = Arc::new(Pool::generate(9, POOL_EVENTS));
    let lines = Lines::of(feed(&pool));
    for query in records::QUERIES {
        let written = pipeline_rows(query, HOP_NS, &lines).unwrap();
        let (outcome, results) = run_program(query, HOP_NS, &lines, Settings::unpinned(1), true).unwrap();
        let expected: Vec<String> = results.rows.iter().map(line).collect();
        assert!(!expected.is_empty());
        let differs = written.lines().zip(&expected).find(|(line, row)| line != row);
        assert_eq!((differs, written.lines().count()), (None, expected.len()), "{query}");
        let piped = run_pipeline(query, HOP_NS, &lines, Settings::unpinned(1)).unwrap();
        assert_eq!((piped.rows, outcome.rows), (expected.len() as u64, expected.len() as u64));
    }
}
