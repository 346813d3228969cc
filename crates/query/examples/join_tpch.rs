//! Measures joins of LINEITEM and ORDERS in memory: `cargo run --release --example join_tpch -- [SF]`.
//!
//! Generates keys and some other columns in memory and joins them by each method with one thread. Prints rows, CPU
//! seconds and CPU nanoseconds per LINEITEM row.

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Duration;

use arrow_array::RecordBatch;
use sakiyomi_query::batches::InMemory;
use sakiyomi_query::generate::{ColumnTypes, GenerateOptions, Generator, TpchTable};
use sakiyomi_query::join::{Condition, HashJoin, JoinKind, JoinSide, MergeJoin};
use sakiyomi_query::{Batches, Job, JobOptions};

/// Memory of the job: several times the hash table of ORDERS at scale factor 1.
const EXAMPLE_MEMORY_BYTES: usize = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let scale = std::env::args().nth(1).map_or(Ok(1.0), |text| text.parse())?;
    let job = Job::new(JobOptions { memory: EXAMPLE_MEMORY_BYTES, ..JobOptions::default() })?;
    let generate = |table, columns: &[&str], shuffle| {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        let options = GenerateOptions { table, scale, columns, shuffle, types: ColumnTypes::Compact };
        collect(Generator::new(&job, &options)?)
    };
    let lines = ["l_orderkey", "l_extendedprice", "l_shipmode"];
    let orders = ["o_orderkey", "o_totalprice", "o_orderdate"];
    let begun = process_cpu()?;
    let left = generate(TpchTable::Lineitem, &lines, None)?;
    let right = generate(TpchTable::Orders, &orders, None)?;
    let shuffled = generate(TpchTable::Lineitem, &lines, Some(1))?;
    writeln!(stdout(), "generate: {:.3} CPU s", (process_cpu()? - begun).as_secs_f64())?;
    let rows: usize = left.iter().map(RecordBatch::num_rows).sum();
    let stream = |table: &[RecordBatch]| Box::new(InMemory::new(table[0].schema(), table.to_vec()));
    let condition = Condition::parse("l_orderkey=o_orderkey", &left[0].schema(), &right[0].schema())?;
    let order = [arrow_schema::SortOptions::default()];
    for kind in [JoinKind::Inner, JoinKind::Full, JoinKind::Semi, JoinKind::Anti] {
        for (name, table) in
            [("merge, in order", &left), ("hash, in order", &left), ("hash, shuffled", &shuffled)]
        {
            let (ours, theirs) = (stream(table), stream(&right));
            let begun = process_cpu()?;
            let found = if name.starts_with("merge") {
                count(MergeJoin::new(&job, ours, theirs, &condition, &order, kind)?)?
            } else {
                count(HashJoin::new(&job, ours, theirs, &condition, kind, JoinSide::Right)?)?
            };
            let spent = process_cpu()? - begun;
            let each = spent.as_nanos() as f64 / rows as f64;
            writeln!(
                stdout(),
                "{kind:6} {name}: {found} rows, {:.3} CPU s, {each:.1} ns/row",
                spent.as_secs_f64()
            )?;
        }
    }
    Ok(())
}

fn collect(mut batches: impl Batches) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
    let mut all = Vec::new();
    while let Some(batch) = batches.next()? {
        all.push(batch);
    }
    Ok(all)
}

fn count(mut batches: impl Batches) -> Result<usize, Box<dyn Error>> {
    let mut rows = 0;
    while let Some(batch) = batches.next()? {
        rows += batch.num_rows();
    }
    Ok(rows)
}

/// User and system time of this process so far.
fn process_cpu() -> Result<Duration, Box<dyn Error>> {
    Ok(sakiyomi_os::cpu::of_this_process())
}
