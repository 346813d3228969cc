//! Measures expressions on single rows, and Arrow's kernels on batches of one row. Prints nanoseconds per row.
//!
//! ```text
//! cargo run --release -p sakiyomi-expression --example row_pieces
//! ```

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Decimal64Array, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow_array::{Decimal128Array, TimestampMicrosecondArray};
use sakiyomi_expression::row::{RowExpression, Value};
use sakiyomi_expression::{Error, Expression};

const EXPRESSIONS: [&str; 10] = [
    "path",
    "a * (1 - b) * (1 + c)",
    "w * (1 - v) * (1 + v)",
    "x * (1 - y) * (1 + z)",
    "starts_with(path, '/api') and status >= 500",
    "path like '/api/%/edit' or status between 400 and 499",
    "case when status >= 500 then 'error' when status >= 400 then 'refused' else 'ok' end",
    "extract(hour from at) * 60 + extract(minute from at)",
    "lower(path) || '?'",
    "cast(status as varchar)",
];
/// Rows between two looks at the clock: long for the clock, and short for the scheduler.
const ROWS: u32 = 1000;
/// Rounds of an expression, of which the fastest counts: the others include disturbances.
const ROUNDS: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let batch = batch()?;
    let row: Vec<Value<'_>> = batch.columns().iter().map(|column| Value::of(column, 0)).collect();
    for text in EXPRESSIONS {
        let expression = Expression::parse(text, &batch.schema())?;
        let mut compiled = RowExpression::new(&expression);
        let by_rows = measure(ROWS, || {
            black_box(compiled.evaluate(black_box(&row))?);
            Ok(())
        })?;
        let by_batches = measure(ROWS / 100, || {
            black_box(expression.evaluate(&batch)?);
            Ok(())
        })?;
        writeln!(
            std::io::stdout(),
            "{by_rows:7.1} ns by rows, {by_batches:7.0} ns by batches of one row: {text}"
        )?;
    }
    Ok(())
}

/// The least mean time of a run, in nanoseconds.
fn measure(rows: u32, mut run: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..rows {
            run()?;
        }
        least = least.min(begun.elapsed().as_nanos() as f64 / f64::from(rows));
    }
    Ok(least)
}

fn batch() -> Result<RecordBatch, Box<dyn std::error::Error>> {
    let narrow = |value| -> Result<ArrayRef, Box<dyn std::error::Error>> {
        Ok(Arc::new(Decimal64Array::from(vec![value]).with_precision_and_scale(15, 2)?))
    };
    let wide = |value| -> Result<ArrayRef, Box<dyn std::error::Error>> {
        Ok(Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(12, 2)?))
    };
    let float = |value| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
    Ok(RecordBatch::try_from_iter([
        ("a", narrow(12_345_678)?),
        ("b", narrow(6)?),
        ("c", narrow(8)?),
        ("w", wide(12_345_678)?),
        ("v", wide(7)?),
        ("x", float(123_456.78)),
        ("y", float(0.06)),
        ("z", float(0.08)),
        ("path", Arc::new(StringArray::from(vec!["/api/users/1234/Edit"]))),
        ("status", Arc::new(Int32Array::from(vec![503]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_764_000_000_000_000]))),
    ])?)
}
