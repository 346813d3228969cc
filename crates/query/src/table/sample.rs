//! Rows from places all over a table, for splitters of a sort and estimates of a plan. Few bytes are read: some row
//! groups or record batches, or some places of a text.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_csv::ReaderBuilder;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use memchr::memchr;
use rand_core::Rng;
use rand_pcg::Pcg64;

use super::content::{Content, Data};
use super::fetch::Split;
use super::options::{Representation, ScanOptions};
use super::parquet::Runs;
use super::plan::{self, Sampled};
use super::source::Source;
use super::types::with_rows;
use crate::{Error, Job};

/// Record batches that are read, at most: all of their values come.
const BATCHES_MAX: usize = 32;

/// Row groups that are read, at most: of these, few pages are decompressed.
const GROUPS_MAX: usize = 128;

/// Runs of rows that a sample has at least, where the table has so many rows: more than a sort has partitions.
const RUNS_MIN: u64 = 256;

/// Places of a text that are read, and bytes of each.
const TEXT_PLACES: u64 = 64;
const TEXT_PLACE_BYTES: u64 = 64 << 10;

/// Line ends at a place of a text that are tried as the beginning of a record.
const TEXT_TRIALS: usize = 8;

/// Rows of a place that are decoded at a time.
const TEXT_BATCH_ROWS: usize = 1024;

/// Memory of a sample's scan: a part of the least that a job can have.
const SAMPLE_BYTES: usize = 8 << 20;

/// Seed of the choice of rows: the same table gives the same sample.
const SAMPLE_SEED: u128 = 0x5a4d_1e5e_ed00;

/// Any stream of PCG-64.
const SAMPLE_STREAM: u128 = 1;

/// About `rows` rows of a table.
pub(super) fn sample(table: &Data, job: &Job, columns: &[usize], rows: usize) -> Result<RecordBatch, Error> {
    let schema = plan::scan_schema(table, columns, Representation::STORED);
    let found = match &table.content {
        Content::Parquet(..) | Content::Arrow(_) => of_splits(table, job, columns, rows)?,
        Content::Csv(files) => of_text(files, &table.schema, columns, rows)?,
        Content::Stream(_) => {
            let reason = "a stream has no sample; copy it into a file first (Table::spool)";
            return Err(Error::Query(reason.into()));
        }
    };
    if columns.is_empty() {
        let rows = found.iter().map(RecordBatch::num_rows).sum();
        return with_rows(&schema, Vec::new(), rows);
    }
    Ok(concat_batches(&schema, &found)?)
}

/// Rows of some row groups or record batches, spread over each of them.
fn of_splits(table: &Data, job: &Job, columns: &[usize], rows: usize) -> Result<Vec<RecordBatch>, Error> {
    let all: Vec<Split> =
        plan::splits(table).into_iter().filter(|&split| rows_of(table, split) > 0).collect();
    let is_parquet = matches!(table.content, Content::Parquet(..));
    let count = all.len().min(if is_parquet { GROUPS_MAX } else { BATCHES_MAX });
    // The middle one of each of `count` parts.
    let splits: Vec<Split> = (0..count).map(|at| all[(2 * at + 1) * all.len() / (2 * count)]).collect();
    let total: u64 = splits.iter().map(|&split| rows_of(table, split)).fold(0, u64::saturating_add);
    let of_group = RUNS_MIN.div_ceil(count.max(1) as u64);
    let runs = Runs { wanted: rows as u64, of: total, of_group, seed: SAMPLE_SEED };
    let memory = SAMPLE_BYTES.min(job.available());
    let options = ScanOptions { memory, ..ScanOptions::new(columns.to_vec()) };
    let runs = Some(runs).filter(|_| is_parquet && !columns.is_empty());
    let mut random = Pcg64::new(SAMPLE_SEED, SAMPLE_STREAM);
    let mut found = Vec::new();
    let (mut seen, mut taken) = (0u64, 0u64);
    for mut stream in plan::scan(table, job, &options, Some(Sampled { splits, runs }))? {
        while let Some(batch) = stream.next()? {
            if runs.is_some() {
                found.push(batch);
                continue;
            }
            seen += batch.num_rows() as u64;
            // The rows taken are the same part of those wanted as the rows seen are of all.
            let wanted = (u128::from(seen) * rows as u128).div_ceil(u128::from(total.max(1)));
            let count = (wanted as u64).saturating_sub(taken).min(batch.num_rows() as u64);
            taken += count;
            if count > 0 {
                found.push(spread(&batch, count, &mut random)?);
            }
        }
    }
    Ok(found)
}

fn rows_of(table: &Data, split: Split) -> u64 {
    match &table.content {
        Content::Parquet(files, _) => files[split.file].metadata.row_group(split.index).num_rows() as u64,
        Content::Arrow(files) => files[split.file].batch_rows(split.index),
        Content::Csv(_) | Content::Stream(_) => 0,
    }
}

/// `count` rows of a batch: one at random from each of as many equal parts.
fn spread(batch: &RecordBatch, count: u64, random: &mut Pcg64) -> Result<RecordBatch, Error> {
    let rows = batch.num_rows() as u64;
    if count == rows || batch.num_columns() == 0 {
        return Ok(batch.slice(0, count as usize));
    }
    let index = |part: u64| {
        let (from, to) = (part * rows / count, (part + 1) * rows / count);
        (from + random.next_u64() % (to - from).max(1)) as u32
    };
    let indices: UInt32Array = (0..count).map(index).collect::<Vec<_>>().into();
    Ok(take_record_batch(batch, &indices)?)
}

/// Records from some places of texts. Whether a line end there lies within quotes cannot be known without reading all
/// before it: the records after it are taken if they are of the table's types, else others are tried.
fn of_text(
    files: &[(Source, u64)],
    stored: &SchemaRef,
    columns: &[usize],
    rows: usize,
) -> Result<Vec<RecordBatch>, Error> {
    let total: u64 = files.iter().map(|(source, from)| source.size - from).sum();
    let mut random = Pcg64::new(SAMPLE_SEED, SAMPLE_STREAM);
    let mut places = Vec::new();
    for (source, from) in files {
        let size = source.size - from;
        let count = (size * TEXT_PLACES).div_ceil(total.max(1)).min(size.div_ceil(TEXT_PLACE_BYTES));
        let reader = source.reader()?;
        for at in 0..count {
            let start = from + at * size / count;
            let length = TEXT_PLACE_BYTES.min(source.size - start);
            let text = reader.read(start, length)?;
            let is_last = start + length == source.size;
            places.extend(records_at(&text, at == 0, is_last, stored, columns));
        }
    }
    let total: usize = places.iter().map(RecordBatch::num_rows).sum();
    let taken = places.iter().map(|place| {
        let count = (place.num_rows() * rows).div_ceil(total.max(1)).min(place.num_rows());
        spread(place, count as u64, &mut random)
    });
    taken.filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0)).collect()
}

/// The records of a part of a text, as far as they can be told.
fn records_at(
    text: &[u8],
    begins_with_record: bool,
    is_last: bool,
    stored: &SchemaRef,
    columns: &[usize],
) -> Option<RecordBatch> {
    let mut rest = text;
    for trial in 0..TEXT_TRIALS {
        if trial > 0 || !begins_with_record {
            rest = &rest[memchr(b'\n', rest)? + 1..];
        }
        if let Some(batch) = records(rest, is_last, stored, columns).filter(|batch| batch.num_rows() > 0) {
            return Some(batch);
        }
    }
    None
}

fn records(text: &[u8], is_last: bool, stored: &SchemaRef, columns: &[usize]) -> Option<RecordBatch> {
    let end = if is_last { text.len() } else { super::csv::last_record_end(text)? };
    let builder = ReaderBuilder::new(Arc::clone(stored))
        .with_header(false)
        .with_batch_size(end.clamp(1, TEXT_BATCH_ROWS));
    let reader = builder.with_projection(columns.to_vec()).build(&text[..end]).ok()?;
    let batches = reader.collect::<Result<Vec<_>, _>>().ok()?;
    let schema: Schema = stored.project(columns).ok()?;
    concat_batches(&Arc::new(schema), &batches).ok()
}
