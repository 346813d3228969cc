use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use sakiyomi_testing::Scratch;

use super::*;
use crate::JobOptions;
use crate::preview::Cell;
use crate::table::Format;
use crate::workers;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

fn batch(from: i64, rows: usize) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(from..from + rows as i64);
    RecordBatch::try_new(schema(), vec![Arc::new(numbers)]).unwrap()
}

fn job(threads: usize) -> Job {
    Job::new(JobOptions { threads, ..JobOptions::default() }).unwrap()
}

/// Fills a sink from several threads that take the parts in order.
fn fill(sink: &Sink, parts: &[Vec<usize>], threads: usize) -> Result<(), Error> {
    let firsts: Vec<i64> = parts
        .iter()
        .scan(0, |at, batches| {
            let first = *at;
            *at += batches.iter().sum::<usize>() as i64;
            Some(first)
        })
        .collect();
    let next = AtomicUsize::new(0);
    workers::each(&sink.job, vec![(); threads], |_, ()| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(batches) = parts.get(index) else { return Ok(()) };
            let (mut part, mut at) = (sink.part(index), firsts[index]);
            for &rows in batches {
                part.push(batch(at, rows))?;
                at += rows as i64;
            }
            part.finish()?;
        }
    })
    .map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn rows_come_in_the_order_of_their_parts_whatever_the_threads(
        parts in prop::collection::vec(prop::collection::vec(0usize..40, 0..5), 0..20),
        threads in 1usize..5,
        group_rows in 1usize..50,
    ) {
        let scratch = Scratch::new("sink");
        let all: usize = parts.iter().flatten().sum();
        let target = Target::File(scratch.path("rows.csv"));
        let options = OutputOptions { group_rows, ..OutputOptions::new(Format::Csv) };
        let file = Destination::File { target, options };
        for destination in [file, Destination::Preview { rows_max: 10 }] {
            let sink = Sink::open(&job(threads), &schema(), &destination).unwrap();
            fill(&sink, &parts, threads).unwrap();
            let received = sink.finish().unwrap();
            prop_assert_eq!(received.rows, all as u64);
            if let Some(preview) = received.preview {
                let rows: Vec<Vec<Cell>> = (0..all.min(10)).map(|n| vec![Cell::Integer(n as i64)]).collect();
                prop_assert_eq!(preview.rows, rows);
            }
        }
        let text = std::fs::read_to_string(scratch.path("rows.csv")).unwrap();
        let lines: Vec<String> = (0..all).map(|n| n.to_string()).collect();
        prop_assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), lines);
    }
}

#[test]
fn a_part_that_is_given_up_ends_the_threads_that_wait_for_it() {
    let sink = Sink::open(&job(2), &schema(), &Destination::Preview { rows_max: 1 }).unwrap();
    let sink = &sink;
    thread::scope(|scope| {
        let mut first = sink.part(0);
        first.push(batch(0, 3)).unwrap();
        let waiting = scope.spawn(move || {
            for index in 1.. {
                let mut part = sink.part(index);
                if let Err(error) = part.push(batch(0, 3)).and_then(|()| part.finish()) {
                    return error;
                }
            }
            unreachable!("parked groups are bounded")
        });
        drop(first);
        assert!(matches!(waiting.join().unwrap(), Error::Cancelled));
    });
}
