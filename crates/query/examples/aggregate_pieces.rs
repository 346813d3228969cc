//! Measures aggregation of TPC-H LINEITEM in memory: query 1, groups by order, expressions. Prints CPU time per row.
//!
//! ```text
//! cargo run --release -p sakiyomi-query --example aggregate_pieces -- SCALE_FACTOR SPILL_DIRECTORY
//! ```

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use sakiyomi_expression::{Expression, Projection};
use sakiyomi_os::cpu;
use sakiyomi_query::aggregate::{Aggregate, Aggregation, Function, aggregate, q1};
use sakiyomi_query::batches::InMemory;
use sakiyomi_query::transform::Transform;
use sakiyomi_query::{Batches, Error, Job, JobOptions};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let mut arguments = std::env::args().skip(1);
    let scale_factor: f64 = arguments.next().map_or(Ok(0.1), |text| text.parse())?;
    let spill = arguments.next().unwrap_or_else(|| "/var/tmp".into());
    let source = LineItemArrow::new(LineItemGenerator::new(scale_factor, 1, 1)).with_batch_size(8192);
    let mut batches = Vec::new();
    for batch in source {
        batches.push(small(&batch?)?);
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    writeln!(std::io::stdout(), "{rows} rows")?;
    let options = |memory| JobOptions {
        memory,
        threads: 1,
        spill: vec![spill.clone().into()],
        ..JobOptions::default()
    };
    let schema = batches[0].schema();
    let big = Job::new(options(512 << 20))?;
    for _ in 0..3 {
        let batches = batches.clone();
        report("query 1", rows, || run(&big, q1::aggregation(&schema)?, &schema, batches))?;
    }
    let expression = "l_extendedprice * (1 - l_discount) * (1 + l_tax) as charge";
    report("charge as a column", rows, || {
        let projection = Projection::parse(expression, &schema)?;
        drain(&mut Transform::new(InMemory::new(schema.clone(), batches.clone()), None, Some(projection)))
    })?;
    report("filter of 98 %", rows, || {
        let condition = Expression::condition("l_shipdate <= date '1998-09-02'", &schema)?;
        drain(&mut Transform::new(InMemory::new(schema.clone(), batches.clone()), Some(condition), None))
    })?;
    for (name, job) in [("by order, 512 MiB", big), ("by order, 64 MiB", Job::new(options(64 << 20))?)] {
        report(name, rows, || run(&job, by_order(&schema)?, &schema, batches.clone()))?;
    }
    let shuffled = shuffled(&batches)?;
    for (name, memory) in [("shuffled by order, 512 MiB", 512), ("shuffled by order, 64 MiB", 64)] {
        let job = Job::new(options(memory << 20))?;
        report(name, rows, || run(&job, by_order(&schema)?, &schema, shuffled.clone()))?;
    }
    Ok(())
}

/// Converts to 64-bit decimals and dictionary-encoded flags.
fn small(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let flag = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
    let names = [
        ("l_orderkey", DataType::Int64),
        ("l_quantity", DataType::Decimal64(15, 2)),
        ("l_extendedprice", DataType::Decimal64(15, 2)),
        ("l_discount", DataType::Decimal64(15, 2)),
        ("l_tax", DataType::Decimal64(15, 2)),
        ("l_returnflag", flag.clone()),
        ("l_linestatus", flag),
        ("l_shipdate", DataType::Date32),
    ];
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (name, data_type) in names {
        let column = batch.column_by_name(name).ok_or_else(|| Error::Query(format!("{name} is missing")))?;
        let column = match &data_type {
            DataType::Dictionary(..) => cast(&cast(column, &DataType::Utf8)?, &data_type)?,
            other => cast(column, other)?,
        };
        columns.push(column);
        fields.push(Field::new(name, data_type, false));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Permutes the rows of all batches so that the rows of an order are far apart.
fn shuffled(batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, Error> {
    let all = arrow_select::concat::concat_batches(&batches[0].schema(), batches)?;
    let rows = all.num_rows() as u64;
    // A prime that does not divide the number of rows visits every row once.
    let place = |row: u64| (row * 15_485_863 % rows) as u32;
    let mut result = Vec::new();
    for start in (0..rows).step_by(8192) {
        let places: arrow_array::UInt32Array = (start..rows.min(start + 8192)).map(place).collect();
        result.push(arrow_select::take::take_record_batch(&all, &places)?);
    }
    Ok(result)
}

fn by_order(schema: &SchemaRef) -> Result<Aggregation, Error> {
    let sum = Aggregate::parse(Function::Sum, "l_quantity", schema)?;
    Aggregation::new(
        Aggregation::parse_keys("l_orderkey", schema)?,
        vec![sum, Aggregate::rows()],
        None,
        schema,
    )
}

fn run(
    job: &Job,
    aggregation: Aggregation,
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
) -> Result<usize, Error> {
    let input: Box<dyn Batches> = Box::new(InMemory::new(schema.clone(), batches));
    drain(&mut aggregate(job, aggregation, vec![input])?.into_stream())
}

fn drain(stream: &mut dyn Batches) -> Result<usize, Error> {
    let mut rows = 0;
    while let Some(batch) = stream.next()? {
        rows += batch.num_rows();
    }
    Ok(rows)
}

fn report(name: &str, rows: usize, work: impl FnOnce() -> Result<usize, Error>) -> Done {
    let (begun, before) = (Instant::now(), cpu::of_this_process());
    let results = work()?;
    let per_row = |time: Duration| time.as_nanos() as f64 / rows as f64;
    let (cpu, wall) = (per_row(cpu::of_this_process() - before), per_row(begun.elapsed()));
    writeln!(std::io::stdout(), "{name}: {cpu:.1} ns of CPU a row, {wall:.1} of time; {results} results")?;
    Ok(())
}
