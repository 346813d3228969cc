//! Measures the phases of an external sort of LINEITEM by (l_partkey, l_suppkey), from memory to batches.
//!
//! ```sh
//! cargo run --release -p sakiyomi-query --example sort_pieces -- [SCALE [MEMORY_MIB [partition|runs [THREADS]]]]
//! ```
//!
//! The input rows are generated in memory beforehand; the output batches are dropped. `SPILL` is the spill directory,
//! `COMPRESSION` the compression of spilled data (auto, none, lz4, zstd, zstd3).

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sakiyomi_os::cpu::user_and_system_of_this_process;
use sakiyomi_query::batches::InMemory;
use sakiyomi_query::generate::{ColumnTypes, GenerateOptions, Generator, TpchTable};
use sakiyomi_query::order::SortKey;
use sakiyomi_query::sort::{SAMPLE_ROWS, SortOptions, Sorted, sort};
use sakiyomi_query::spill::{Level, SpillCompression};
use sakiyomi_query::{Batches, Error, Job, JobOptions};

use arrow_array::RecordBatch;
use arrow_schema::{SchemaRef, SortOptions as Direction};

/// Approximate size in bytes of a packed row of LINEITEM.
const ROW_BYTES: u64 = 110;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |place: usize, default: &str| arguments.get(place).map_or(default, String::as_str).to_owned();
    let (scale, memory) = (argument(0, "0.2").parse()?, argument(1, "512").parse::<usize>()? << 20);
    let (by_partition, threads) = (argument(2, "partition") == "partition", argument(3, "2").parse()?);
    let spill = vec![std::env::var_os("SPILL").map_or_else(std::env::temp_dir, PathBuf::from)];
    let (schema, batches) = lineitem(scale)?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let level = std::env::var("COMPRESSION").unwrap_or_default();
    let level = Level::ALL.into_iter().find(|found| found.name() == level);
    let spill_compression = level.map_or(SpillCompression::Adaptive, SpillCompression::Fixed);
    let job = Job::new(JobOptions { memory, threads, spill, spill_compression, ..JobOptions::default() })?;
    let sample = by_partition.then(|| sample(&batches));
    let expected_bytes = Some(rows as u64 * ROW_BYTES);
    let expected_rows = Some(rows as u64);
    let options = SortOptions { sample, expected_bytes, expected_rows, ..SortOptions::default() };
    let key = |column| SortKey { column, options: Direction { descending: false, nulls_first: false } };
    let mut out = std::io::stdout().lock();
    let mut before = (Instant::now(), user_and_system_of_this_process());
    let mut line = |name: &str, rows: u64| {
        let (user, system) = user_and_system_of_this_process();
        let (wall, user, system) = (before.0.elapsed(), user - before.1.0, system - before.1.1);
        before = (Instant::now(), user_and_system_of_this_process());
        let seconds = |time: Duration| time.as_secs_f64();
        let (wall, user, system) = (seconds(wall), seconds(user), seconds(system));
        writeln!(out, "{name:12} {rows:9} rows  wall {wall:.3}  user {user:.3}  system {system:.3}")
    };
    let sorted = sort(&job, streams(&schema, batches, threads), &[key(1), key(2)], &options)?;
    line("scatter", sorted.rows())?;
    let taken = take_all(&sorted, threads)?;
    line("give out", taken)?;
    for phase in job.phases().list() {
        let (user, system) = (phase.user_ns as f64 / 1e9, phase.system_ns as f64 / 1e9);
        let (waited, megabytes) = (phase.waited_ns as f64 / 1e9, phase.bytes / 1_000_000);
        let (name, stored) = (phase.name, phase.stored_bytes / 1_000_000);
        writeln!(
            out,
            "  {name:12} user {user:.3}  system {system:.3}  waited {waited:.3}  {megabytes} MB, {stored} MB stored"
        )?;
    }
    for bytes in job.spill_bytes() {
        let (raw, stored) = (bytes.raw_bytes / 1_000_000, bytes.stored_bytes / 1_000_000);
        writeln!(out, "  {:12} {raw} MB, {stored} MB stored", bytes.level.name())?;
    }
    Ok(())
}

fn lineitem(scale: f64) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
    let job = Job::new(JobOptions { memory: 1 << 30, ..JobOptions::default() })?;
    let options = GenerateOptions {
        table: TpchTable::Lineitem,
        scale,
        columns: Vec::new(),
        shuffle: None,
        types: ColumnTypes::Compact,
    };
    let mut generator = Generator::new(&job, &options)?;
    let mut batches = Vec::new();
    while let Some(batch) = generator.next()? {
        batches.push(batch);
    }
    Ok((generator.schema(), batches))
}

/// Sample of keys, from the start of each batch.
fn sample(batches: &[RecordBatch]) -> RecordBatch {
    let each = SAMPLE_ROWS.div_ceil(batches.len());
    let rows = batches.iter().map(|batch| {
        let keys = batch.project(&[1, 2]).expect("two columns");
        keys.slice(0, each.min(keys.num_rows()))
    });
    let rows: Vec<RecordBatch> = rows.collect();
    arrow_select::concat::concat_batches(&rows[0].schema(), &rows).expect("batches of one schema")
}

fn streams(schema: &SchemaRef, batches: Vec<RecordBatch>, threads: usize) -> Vec<Box<dyn Batches>> {
    let mut parts: Vec<Vec<RecordBatch>> = vec![Vec::new(); threads];
    batches.into_iter().enumerate().for_each(|(index, batch)| parts[index % threads].push(batch));
    let stream = |part| Box::new(InMemory::new(schema.clone(), part)) as Box<dyn Batches>;
    parts.into_iter().map(stream).collect()
}

fn take_all(sorted: &Sorted, threads: usize) -> Result<u64, Error> {
    let take = || {
        let mut rows = 0;
        while let Some((_, mut partition)) = sorted.next_partition()? {
            while let Some(batch) = partition.next()? {
                rows += batch.num_rows() as u64;
            }
        }
        Ok(rows)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that ends")).sum()
    })
}
