//! Generated columns, from seeds and schemas used only for calibration.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, Decimal128Array, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::cost::operators::ValueKind;
use crate::{Error, Job, JobOptions};

/// A seed that no test and no benchmark uses: the digits of e.
const CALIBRATION_SEED: u64 = 2_718_281_828;
/// Distinct values of a dictionary-encoded column of numbers.
const DISTINCT_VALUES: u64 = 97;
/// Distinct values of one of texts: too many for codes.
const DISTINCT_TEXTS: u64 = 5003;
/// Distinct values of codes.
const DISTINCT_CODES: u64 = 6;
/// Precision and scale of decimals.
const DECIMAL_PRECISION: u8 = 24;
const DECIMAL_SCALE: i8 = 3; // digits behind the point

/// Returns a job with a memory limit in bytes and a number of threads; it does not spill.
pub(super) fn job(memory: usize, threads: usize) -> Result<Job, Error> {
    Job::new(JobOptions { memory, threads, ..JobOptions::default() })
}

/// Returns a generator with a fixed seed for each stream.
pub(super) fn generator(stream: u64) -> Pcg64 {
    Pcg64::seed_from_u64(CALIBRATION_SEED.wrapping_add(stream))
}

/// Random values of a kind, with few distinct values for a dictionary; texts have a mean of `text_bytes`.
pub(super) fn column(kind: ValueKind, is_dictionary: bool, rows: usize, text_bytes: u64) -> ArrayRef {
    let mut random = generator(kind as u64);
    let distinct = match kind {
        _ if !is_dictionary => u64::MAX,
        ValueKind::Text => DISTINCT_TEXTS,
        _ => DISTINCT_VALUES,
    };
    let mut number = move || random.next_u64() % distinct;
    match kind {
        ValueKind::Fixed4 => Arc::new(Int32Array::from_iter_values((0..rows).map(|_| number() as i32))),
        ValueKind::Fixed8 => Arc::new(Int64Array::from_iter_values((0..rows).map(|_| number() as i64))),
        ValueKind::Fixed16 => {
            let values = (0..rows).map(|_| i128::from(number()) * 5);
            let array = Decimal128Array::from_iter_values(values);
            Arc::new(
                array.with_precision_and_scale(DECIMAL_PRECISION, DECIMAL_SCALE).expect("a valid precision"),
            )
        }
        ValueKind::Text => {
            let texts = (0..rows).map(|_| text(number(), text_bytes));
            Arc::new(StringArray::from_iter_values(texts))
        }
        ValueKind::Code => {
            let texts: Vec<String> = (0..rows).map(|_| text(number() % DISTINCT_CODES, text_bytes)).collect();
            Arc::new(texts.iter().map(String::as_str).collect::<DictionaryArray<Int32Type>>())
        }
    }
}

/// Returns a text derived from a number, with a length of 0.5 to 1.5 times the mean.
pub(super) fn text(number: u64, mean_bytes: u64) -> String {
    let length = mean_bytes / 2 + number % (mean_bytes + 1);
    let letter = |at: u64| char::from(b'a' + (number.rotate_left(at as u32 * 7) % 26) as u8);
    (0..length).map(letter).collect()
}

/// Returns a batch of one column, `c`.
pub(super) fn batch(column: ArrayRef) -> Result<RecordBatch, ArrowError> {
    let field = Field::new("c", column.data_type().clone(), false);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column])
}

/// Packed rows as a sort spills them: counters, small numbers, flags and words, with repetitions as in real rows.
pub(super) fn packed_rows(rows: usize, row_bytes: usize) -> Vec<u8> {
    let mut random = generator(100);
    let mut bytes = Vec::with_capacity(rows * row_bytes);
    for row in 0..rows as u64 {
        let end = bytes.len() + row_bytes;
        bytes.extend_from_slice(&row.to_le_bytes());
        while bytes.len() < end {
            let number = random.next_u64();
            match number % 3 {
                0 => bytes.extend_from_slice(&(number % 10_000).to_le_bytes()),
                1 => bytes.extend_from_slice(&(number as u32).to_le_bytes()),
                _ => bytes.extend_from_slice(WORDS[(number >> 8) as usize % WORDS.len()]),
            }
        }
        bytes.truncate(end);
    }
    bytes
}

const WORDS: [&[u8]; 8] =
    [b"order ", b"shipped ", b"by ", b"rail ", b"returned ", b"quickly ", b"cancelled ", b"parcel "];
