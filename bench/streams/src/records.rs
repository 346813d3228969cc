//! Compares one query as a pipeline in TOML and as a program in Rust, over the same lines of JSON.
//!
//! Both read bids from memory, on one worker, and drop their rows at the sink. The program is what its author would
//! write: a source that reads lines by `serde_json` into a struct, and typed operators. The pipeline has one thread more,
//! which copies the lines and checks that they are UTF-8; its CPU time is counted.

use std::fmt::Write;
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_stream::operators::{Count, EventTime, Ranked, Top, Windows, filter, map};
use sakiyomi_stream::{Next, Settings, Source, StreamBuilder};
use serde::Deserialize;

use crate::event::{Bid, Event, Feed};
use crate::load::{Moment, Results};
use crate::operators::Rows;
use crate::query::{Query, Row, in_euros, is_selected};

/// Queries that are compared. Of query 5, one of the auctions with the most bids is a row, that with the lowest number:
/// the step `top` breaks ties so.
pub const QUERIES: [Query; 3] = [Query::Q1, Query::Q2, Query::Q5];

/// Bids as lines of JSON.
#[derive(Clone)]
pub struct Lines {
    text: Arc<[u8]>,
    /// Number of the lines.
    pub count: u64,
}

/// A line of JSON.
#[derive(Deserialize)]
struct Line {
    auction: u64,
    bidder: u64,
    price: u64,
    time: u64,
}

/// A run over all lines.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// From the start to the last row.
    pub elapsed: Duration,
    /// CPU time of the process meanwhile.
    pub cpu: Duration,
    /// Rows of the result.
    pub rows: u64,
}

impl Lines {
    /// The bids of a feed, `{"auction":1,"bidder":2,"price":3,"time":4}` with the time in nanoseconds.
    #[must_use]
    pub fn of(feed: Feed) -> Lines {
        let (mut text, mut count) = (String::new(), 0);
        for event in feed {
            if let Event::Bid(Bid { auction, bidder, price, time_ns }) = event {
                count += 1;
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    r#"{{"auction":{auction},"bidder":{bidder},"price":{price},"time":{time_ns}}}"#
                );
            }
        }
        Lines { text: text.into_bytes().into(), count }
    }

    /// Their length.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// The pipeline of a query, with windows of a hop in nanoseconds. Rows go to `sink`: `discard`, or `stdout` as CSV
/// without a header.
#[must_use]
pub fn description(query: Query, hop_ns: u64, sink: &str) -> String {
    let steps = match query {
        Query::Q1 => {
            "[[step]]\nop = \"select\"\ncolumns = \"auction, bidder, price * 908 / 1000 AS price, time\"\n"
                .to_owned()
        }
        Query::Q2 => "[[step]]\nop = \"filter\"\nwhere = \"auction % 123 = 0\"\n\
             [[step]]\nop = \"select\"\ncolumns = \"auction, price\"\n"
            .to_owned(),
        _ => format!(
            "[[step]]\nop = \"aggregate\"\nby = \"auction\"\nwindow = \"sliding:{}ns,{hop_ns}ns\"\n\
             compute = \"count(*) AS bids\"\n[[step]]\nop = \"top\"\nk = 1\nby = \"bids\"\n\
             [[step]]\nop = \"select\"\ncolumns = \"window_end, auction, bids\"\n",
            hop_ns * SLIDING_HOPS
        ),
    };
    let event_time = if query == Query::Q5 { "event_time = \"time\"\n" } else { "" };
    format!(
        "[source.bids]\nfrom = \"stdin\"\nformat = \"json\"\n{event_time}\
         columns = {{ auction = \"int64\", bidder = \"int64\", price = \"int64\", time = \"timestamp(ns)\" }}\n\
         {steps}[sink.rows]\nto = \"{sink}\"\nformat = \"csv\"\n{}",
        if sink == "discard" { "" } else { "header = false\n" }
    )
}

/// Hops in a window of query 5, as of the typed streams.
const SLIDING_HOPS: u64 = 10;

/// Runs the pipeline on a worker.
///
/// # Errors
/// If the pipeline fails.
pub fn run_pipeline(query: Query, hop_ns: u64, lines: &Lines, settings: Settings) -> Result<Outcome> {
    let (outcome, _) = pipeline_to(query, hop_ns, lines, settings, "discard")?;
    Ok(outcome)
}

/// The rows of the pipeline as CSV.
///
/// # Errors
/// If the pipeline fails.
pub fn pipeline_rows(query: Query, hop_ns: u64, lines: &Lines) -> Result<String> {
    let (_, written) = pipeline_to(query, hop_ns, lines, Settings::unpinned(1), "stdout")?;
    String::from_utf8(written).context("rows are UTF-8")
}

fn pipeline_to(
    query: Query,
    hop_ns: u64,
    lines: &Lines,
    settings: Settings,
    sink: &str,
) -> Result<(Outcome, Vec<u8>)> {
    let pipeline = Pipeline::parse(&description(query, hop_ns, sink), &query.to_string())?;
    let written = Written::default();
    let input = Cursor::new(Arc::clone(&lines.text));
    let standard = Standard { input: Some(Box::new(input)), output: Some(Box::new(written.clone())) };
    let begin = Moment::now();
    let (stream, run) = pipeline.build(standard)?;
    let report = stream.start(settings, &vec![0; pipeline.operators().count()])?.finish()?;
    run.finish()?;
    let (elapsed, cpu) = Moment::now().since(begin);
    if let Some(failure) = report.failures.first() {
        bail!("{query}: {failure}");
    }
    let rows = report.operators.last().map_or(0, |sink| sink.tuples_in);
    let written = std::mem::take(&mut *written.0.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((Outcome { elapsed, cpu, rows }, written))
}

/// Bytes that were written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs the program on a worker.
///
/// # Errors
/// If the stream fails.
pub fn run_program(
    query: Query,
    hop_ns: u64,
    lines: &Lines,
    settings: Settings,
    keeps_rows: bool,
) -> Result<(Outcome, Results)> {
    let builder = StreamBuilder::new(RING_SLOTS);
    let source = builder.source("bids", Bids { text: Arc::clone(&lines.text), at: 0 });
    let rows = match query {
        Query::Q1 => source.then("euros", map(|bid| Row::Converted(in_euros(bid)))),
        Query::Q2 => {
            let selected = source.then("selected", filter(is_selected));
            selected.then("row", map(|bid: Bid| Row::Selected(bid.auction, bid.price)))
        }
        _ => {
            let (time, key) = (|bid: &Bid| bid.time_ns, |bid: &Bid| bid.auction);
            let timed = source.then("time", EventTime::new(0, time).step(hop_ns));
            let count = Windows::sliding(hop_ns * SLIDING_HOPS, hop_ns, time, key, Count);
            let top = timed.then("count", count).then("top", Top::new(1, |bids: &u64| *bids));
            let row = |Ranked { result, .. }| Row::Hot(result.window.end_ns, result.key, result.value);
            top.then("row", map(row))
        }
    };
    let (sink, ended) = Rows::new(keeps_rows);
    rows.sink("rows", sink);
    let stream = builder.build()?;
    let operators = stream.names().count();
    let begin = Moment::now();
    let report = stream.start(settings, &vec![0; operators])?.finish()?;
    let (elapsed, cpu) = Moment::now().since(begin);
    if let Some(failure) = report.failures.first() {
        bail!("{query}: {failure}");
    }
    let (_, results) = ended.recv().context("the sink has not ended")?;
    Ok((Outcome { elapsed, cpu, rows: results.count }, results))
}

/// Slots of a ring between two workers; all operators are on one.
const RING_SLOTS: usize = 1024;

/// Reads bids from lines of JSON.
struct Bids {
    text: Arc<[u8]>,
    at: usize,
}

impl Source for Bids {
    type Out = Bid;

    fn next(&mut self, now_ns: u64) -> Next<Bid> {
        let rest = &self.text[self.at..];
        let Some(length) = memchr::memchr(b'\n', rest) else { return Next::End };
        let line: Line = serde_json::from_slice(&rest[..length]).expect("the lines are bids");
        self.at += length + 1;
        let Line { auction, bidder, price, time } = line;
        Next::Value { value: Bid { auction, bidder, price, time_ns: time }, arrival_ns: now_ns }
    }
}
