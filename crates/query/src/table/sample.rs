//! Sampling of rows from a whole table, for sort splitters and cost estimates. Reads only some row groups or record
//! batches, or some sections of CSV text.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
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
use super::splits::{scan_schema, splits};
use super::types::with_rows;
use crate::batch_bytes::{bytes_without_dictionaries, compact};
use crate::{Error, Job};

/// Maximum record batches to read: each is decoded in full.
const BATCHES_MAX: usize = 32;

/// Maximum row groups to read: only a few pages of each are decompressed.
const GROUPS_MAX: usize = 128;

/// Minimum runs of rows in a sample, if the table has enough rows: more than a sort has partitions.
const RUNS_MIN: u64 = 256;

/// Sections of CSV text to read, and bytes of each.
const TEXT_PLACES: u64 = 64;
const TEXT_PLACE_BYTES: u64 = 64 << 10;

/// Line ends that are tried as the start of a record in a section.
const TEXT_TRIALS: usize = 8;

/// Memory of a sample's scan: less than the minimum budget of a job.
const SAMPLE_BYTES: usize = 8 << 20;

/// One part in this many of the free heap is for sampled rows, which are copied more than once to be joined and cast.
const SAMPLE_HEAP_PARTS: usize = 16;

/// Seed of the row choice: the same table gives the same sample.
const SAMPLE_SEED: u128 = 0x5a4d_1e5e_ed00;

/// Arbitrary stream of PCG-64.
const SAMPLE_STREAM: u128 = 1;

/// Returns about `rows` rows of a table.
pub(super) fn sample(table: &Data, job: &Job, columns: &[usize], rows: usize) -> Result<RecordBatch, Error> {
    let schema = scan_schema(table, columns, Representation::STORED);
    let found = match &table.content {
        Content::Parquet(..) | Content::Arrow(_) => of_splits(table, job, columns, rows)?,
        Content::Csv(files) => of_text(files, &table.schema, columns, rows)?,
        Content::Stream(..) => {
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

/// Samples row groups or record batches, with rows spread over each of them.
fn of_splits(table: &Data, job: &Job, columns: &[usize], rows: usize) -> Result<Vec<RecordBatch>, Error> {
    let all: Vec<Split> = splits(table).into_iter().filter(|&split| rows_of(table, split) > 0).collect();
    let is_parquet = matches!(table.content, Content::Parquet(..));
    let count = all.len().min(if is_parquet { GROUPS_MAX } else { BATCHES_MAX });
    // The middle split of each of `count` equal parts.
    let splits: Vec<Split> = (0..count).map(|at| all[(2 * at + 1) * all.len() / (2 * count)]).collect();
    let total: u64 = splits.iter().map(|&split| rows_of(table, split)).fold(0, u64::saturating_add);
    let of_group = RUNS_MIN.div_ceil(count.max(1) as u64);
    let runs = Runs { wanted: rows as u64, of: total, of_group, seed: SAMPLE_SEED };
    let memory = SAMPLE_BYTES.min(job.available());
    let mut options = ScanOptions { memory, ..ScanOptions::new(columns.to_vec()) };
    let runs = Some(runs).filter(|_| is_parquet && !columns.is_empty());
    if let Some(runs) = runs {
        // Decoders have memory for batches of this many rows, whatever is selected.
        let most = splits.iter().map(|&split| runs.wanted_of(rows_of(table, split))).max().unwrap_or(0);
        options.batch_rows = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, options.batch_rows);
    }
    let mut random = Pcg64::new(SAMPLE_SEED, SAMPLE_STREAM);
    let mut found = Kept::new(job.available() / SAMPLE_HEAP_PARTS);
    let (mut seen, mut taken) = (0u64, 0u64);
    for mut stream in plan::scan(table, job, &options, Some(Sampled { splits, runs }))? {
        while let Some(batch) = stream.next()? {
            if runs.is_some() {
                found.push(&batch)?;
                continue;
            }
            seen += batch.num_rows() as u64;
            // Keeps the ratio of taken to wanted rows equal to that of seen to all rows.
            let wanted = (u128::from(seen) * rows as u128).div_ceil(u128::from(total.max(1)));
            let count = (wanted as u64).saturating_sub(taken).min(batch.num_rows() as u64);
            taken += count;
            if count > 0 {
                found.push(&spread(&batch, count, &mut random)?)?;
            }
        }
    }
    Ok(found.batches)
}

/// Sampled rows in memory of their own. If they exceed it, every other row is dropped, as often as that is so.
struct Kept {
    batches: Vec<RecordBatch>,
    /// Bytes of the rows, and the most.
    bytes: usize,
    bytes_max: usize,
    /// One row of this many is kept.
    step: usize,
    /// Rows to drop before the next one that is kept.
    skipped: usize,
}

impl Kept {
    fn new(bytes_max: usize) -> Kept {
        Kept { batches: Vec::new(), bytes: 0, bytes_max, step: 1, skipped: 0 }
    }

    /// Adds copies of rows. Without a copy, arrays have the memory of full batches, and views that of whole pages.
    fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let copy = every(batch, self.step, &mut self.skipped)?;
        self.bytes += bytes_without_dictionaries(&copy);
        self.batches.push(copy);
        while self.bytes > self.bytes_max && self.batches.iter().map(RecordBatch::num_rows).sum::<usize>() > 1
        {
            self.step *= 2;
            let mut skipped = 0;
            for batch in &mut self.batches {
                *batch = every(batch, 2, &mut skipped)?;
            }
            self.batches.retain(|batch| batch.num_rows() > 0);
            // One in two of those that were kept before.
            self.skipped += skipped * self.step / 2;
            self.bytes = self.batches.iter().map(bytes_without_dictionaries).sum();
        }
        Ok(())
    }
}

/// Copies every `step`-th row of a batch, after the `skipped` rows that are skipped first; sets the rows to be skipped in the
/// next batch.
fn every(batch: &RecordBatch, step: usize, skipped: &mut usize) -> Result<RecordBatch, Error> {
    let rows = batch.num_rows();
    if batch.num_columns() == 0 {
        return Ok(batch.clone());
    }
    let indices = (*skipped..rows).step_by(step).map(|row| row as u32);
    let indices = UInt32Array::from(indices.collect::<Vec<_>>());
    *skipped = (*skipped + indices.len() * step) - rows;
    Ok(compact(&take_record_batch(batch, &indices)?)?)
}

fn rows_of(table: &Data, split: Split) -> u64 {
    match &table.content {
        Content::Parquet(files, _) => files[split.file].groups.rows(split.index),
        Content::Arrow(files) => files[split.file].batch_rows(split.index),
        Content::Csv(_) | Content::Stream(..) => 0,
    }
}

/// Takes `count` rows of a batch: one at random from each of `count` equal parts.
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

/// Samples records from sections of CSV files. Whether a line end lies within quotes is unknown without reading
/// everything before it. So a line end is accepted if the records after it have the table's types.
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

/// Decodes the records of a section; `None` if no tried line end starts valid records.
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
    let text = str::from_utf8(&text[..end]).ok()?;
    let mut unique = columns.to_vec();
    unique.sort_unstable();
    unique.dedup();
    let mut decoder = super::csv::Decoder::new(stored, &unique, usize::MAX);
    decoder.decode(text.as_bytes()).ok()?;
    let places: Vec<usize> = columns.iter().filter_map(|column| unique.binary_search(column).ok()).collect();
    decoder.flush().ok()??.project(&places).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn rows_beyond_the_memory_are_thinned_out_evenly() {
        for (length, bytes_max) in [(1, 8 * 100), (7, 8 * 100), (64, 8 * 100), (1000, 8 * 33), (10, 8)] {
            let mut kept = Kept::new(bytes_max);
            for start in (0..5000_i64).step_by(length) {
                let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + length as i64));
                kept.push(&RecordBatch::try_from_iter([("n", numbers)]).unwrap()).unwrap();
            }
            let numbers = kept
                .batches
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            let numbers: Vec<i64> = numbers.collect();
            let most = bytes_max / 8;
            assert!((most.div_ceil(3)..=most).contains(&numbers.len()), "{} rows", numbers.len());
            let steps: Vec<i64> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(steps.iter().all(|&step| step == kept.step as i64), "{steps:?}");
        }
    }
}
