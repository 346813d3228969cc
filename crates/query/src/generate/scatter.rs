//! Rows scattered to random buckets, which are spilled.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_io::buffer::Account;

use super::plan::{GENERATOR_MEMORY, Plan};
use crate::batch_bytes::batch_bytes;
use crate::batch_spill::{BATCH_BLOCK_BYTES, BATCH_BLOCKS_AHEAD, BatchReader, BatchRun, BatchWriter};
use crate::spill::SpillFiles;
use crate::{Error, Job};

/// Target rows of a bucket: a few buckets fit into the memory of a small job.
const BUCKET_ROWS: u64 = 1 << 16;

/// Maximum buckets of one pass: each needs a block, and those of 16 KiB are still written with few calls.
const BUCKETS_MAX: u64 = 256;

/// Rows scattered at once: more than a hundred for each of the most buckets, and a fraction of a part.
const SCATTERED_ROWS: usize = 1 << 15;

/// Blocks of a run that is read, and of all writes in flight.
const RUN_BLOCKS: usize = BATCH_BLOCKS_AHEAD + 2;

/// Smallest blocks, if memory is short: the alignment of direct transfers, and few enough calls.
const BLOCK_MIN_BYTES: usize = 16 << 10;

/// One part in this many of the buffer budget is for blocks: text and rows need most of it.
const BLOCKS_BUDGET_PARTS: usize = 8;

/// A run of spilled rows.
pub(super) struct Bucket {
    pub(super) run: BatchRun,
    pub(super) rows: u64,
    /// Selects the random stream of the bucket.
    pub(super) number: u64,
}

/// Memory of the spilled buckets.
#[derive(Clone)]
pub(super) struct Blocks {
    account: Arc<Account>,
    /// Bytes of a block.
    bytes: usize,
}

impl Blocks {
    /// Reserves the blocks to scatter `rows` rows, and to read buckets on all threads.
    ///
    /// # Errors
    /// [`Error::Memory`] if the buffer budget does not have that much.
    pub(super) fn new(job: &Job, rows: u64) -> Result<Blocks, Error> {
        let threads = job.options().threads.max(1);
        let count = buckets(rows) as usize + (threads + 1) * RUN_BLOCKS;
        let most = job.io().pool().budget() / BLOCKS_BUDGET_PARTS / count;
        let bytes = ((most + 1).next_power_of_two() / 2).clamp(BLOCK_MIN_BYTES, BATCH_BLOCK_BYTES);
        let account = Arc::new(job.account(count * bytes, GENERATOR_MEMORY)?);
        Ok(Blocks { account, bytes })
    }

    /// Begins a run.
    ///
    /// # Errors
    /// If the spill files cannot be written.
    pub(super) fn writer(&self, spill: &SpillFiles, schema: &SchemaRef) -> Result<BatchWriter, Error> {
        BatchWriter::create_with(spill, schema, &self.account, self.bytes)
    }
}

impl Bucket {
    /// Reads the rows, and frees their space.
    ///
    /// # Errors
    /// If the spill files cannot be read.
    pub(super) fn drain(self, blocks: &Blocks) -> Result<BatchReader, Error> {
        self.run.drain_within(&blocks.account, blocks.bytes)
    }
}

/// Returns the number of buckets of a pass over some rows.
pub(super) fn buckets(rows: u64) -> u64 {
    rows.div_ceil(BUCKET_ROWS).clamp(1, BUCKETS_MAX)
}

/// Returns the bytes of a part while its rows are scattered: all of them, and a copy of a piece.
pub(super) fn scattered_bytes(plan: &Plan) -> usize {
    let part_bytes = plan.part_bytes();
    part_bytes + plan.bytes(SCATTERED_ROWS as u64).min(part_bytes)
}

/// Batches that are put together to pieces of [`SCATTERED_ROWS`] rows.
pub(super) struct Pieces<T> {
    batches: Vec<RecordBatch>,
    rows: usize,
    done: Vec<T>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces { batches: Vec::new(), rows: 0, done: Vec::new() }
    }
}

impl<T> Pieces<T> {
    /// Adds rows, and passes a piece to `take` when it is full.
    pub(super) fn push(
        &mut self,
        batch: RecordBatch,
        take: impl FnMut(&RecordBatch) -> Result<T, Error>,
    ) -> Result<(), Error> {
        self.rows += batch.num_rows();
        self.batches.push(batch);
        if self.rows >= SCATTERED_ROWS { self.flush(take) } else { Ok(()) }
    }

    fn flush(&mut self, mut take: impl FnMut(&RecordBatch) -> Result<T, Error>) -> Result<(), Error> {
        let batches = std::mem::take(&mut self.batches);
        self.rows = 0;
        let Some(first) = batches.first() else { return Ok(()) };
        let piece = concat_batches(first.schema_ref(), &batches)?;
        drop(batches);
        self.done.push(take(&piece)?);
        Ok(())
    }

    /// Passes the rest to `take`; returns what that returned for each piece.
    pub(super) fn finish(
        mut self,
        take: impl FnMut(&RecordBatch) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.flush(take)?;
        Ok(self.done)
    }
}

/// Rows ordered by bucket.
pub(super) struct Scattered {
    batch: RecordBatch,
    /// End index of each bucket.
    ends: Vec<usize>,
}

/// Assigns rows to buckets at random.
pub(super) fn scattered(batch: &RecordBatch, buckets: usize, random: &mut Pcg64) -> Result<Scattered, Error> {
    let chosen: Vec<u32> = (0..batch.num_rows()).map(|_| below(random, buckets as u64) as u32).collect();
    let mut ends = vec![0; buckets];
    chosen.iter().for_each(|&bucket| ends[bucket as usize] += 1);
    let mut next = Vec::with_capacity(buckets);
    let mut end = 0;
    for count in &mut ends {
        next.push(end);
        end += *count;
        *count = end;
    }
    let mut order = vec![0_u32; batch.num_rows()];
    for (row, &bucket) in chosen.iter().enumerate() {
        let place = &mut next[bucket as usize];
        order[*place] = row as u32;
        *place += 1;
    }
    Ok(Scattered { batch: take_record_batch(batch, &UInt32Array::from(order))?, ends })
}

/// Buckets being written in a pass over the rows.
pub(super) struct Scatter {
    writers: Vec<(BatchWriter, u64)>,
    written: u64,
    /// Bytes of these rows.
    bytes: usize,
    _spill: SpillFiles,
}

impl Scatter {
    /// Begins a pass over about `rows` rows.
    pub(super) fn new(job: &Job, blocks: &Blocks, codes: &SchemaRef, rows: u64) -> Result<Scatter, Error> {
        let spill = SpillFiles::new(job);
        let writer = |_| Ok((blocks.writer(&spill, codes)?, 0));
        Ok(Scatter {
            writers: (0..buckets(rows)).map(writer).collect::<Result<_, Error>>()?,
            written: 0,
            bytes: 0,
            _spill: spill,
        })
    }

    /// Returns the number of buckets.
    pub(super) fn buckets(&self) -> usize {
        self.writers.len()
    }

    /// Returns the number of rows so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn write(&mut self, rows: &Scattered) -> Result<(), Error> {
        let mut start = 0;
        for ((writer, written), &end) in self.writers.iter_mut().zip(&rows.ends) {
            if end > start {
                writer.write(&rows.batch.slice(start, end - start))?;
                *written += (end - start) as u64;
            }
            start = end;
        }
        self.written += rows.batch.num_rows() as u64;
        self.bytes += batch_bytes(&rows.batch);
        Ok(())
    }

    /// Mean bytes of a row in memory; `None` without rows.
    pub(super) fn row_bytes(&self) -> Option<usize> {
        (self.written > 0).then(|| self.bytes.div_ceil(self.written as usize))
    }

    /// Ends the pass; returns the buckets that have rows, and counts all.
    pub(super) fn finish(self, next_number: &mut u64) -> Result<Vec<Bucket>, Error> {
        let buckets = self.writers.into_iter().map(|(writer, rows)| {
            *next_number += 1;
            Ok(Bucket { run: writer.finish()?, rows, number: *next_number })
        });
        buckets.filter(|bucket| !matches!(bucket, Ok(Bucket { rows: 0, .. }))).collect()
    }
}

/// Independent uses of random numbers.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Scatter,
    ScatterAgain,
    Shuffle,
}

/// Returns the random generator of a part or bucket.
pub(super) fn random(seed: u64, purpose: Purpose, number: u64) -> Pcg64 {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16] = purpose as u8;
    // Adjacent seeds give correlated states, so the state is drawn from a first generator.
    let mut first = Pcg64::from_seed(bytes);
    let _ = first.next_u64();
    Pcg64::seed_from_u64(first.next_u64())
}

/// Returns a random number below `limit`, with a bias of less than `limit / 2^64`.
pub(super) fn below(random: &mut Pcg64, limit: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(limit)) >> 64) as u64
}
