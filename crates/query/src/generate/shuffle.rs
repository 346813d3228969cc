//! Rows in a seeded random order, in bounded memory.
//!
//! Each row is assigned to a random bucket and spilled; each bucket is then read back and shuffled in memory
//! (Fisher-Yates). All orders are equally likely, as far as the random generator allows (Rao 1961; Sandelius 1962).
//! A bucket that is too large for memory is scattered again. The number of buckets and all random numbers depend only
//! on the seed, the table and the scale factor, and parts are scattered in order. The result is therefore independent
//! of the number of threads and the memory limit.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;
use arrow_select::take::take;
use sakiyomi_os::allocator;

use super::columns::{code_schema, from_codes, to_codes};
use super::memory::Held;
use super::ordered::{Make, Ordered};
use super::plan::{GENERATOR_MEMORY, Plan};
use super::scatter::{
    Blocks, Bucket, Pieces, Purpose, Scatter, Scattered, below, buckets, random, scattered, scattered_bytes,
};
use super::tables::GENERATED_BATCH_ROWS;
use crate::Error;

/// Maximum rows of a bucket shuffled in memory.
const BUCKET_ROWS_MAX: u64 = 1 << 18;

/// Copies of a bucket in memory while it is shuffled: its batches, and the result.
const BUCKET_COPIES: usize = 2;

/// Copies of a bucket including the encoded result, whose memory the encoder reserves.
const ENCODED_BUCKET_COPIES: usize = BUCKET_COPIES + 1;

/// Converts shuffled rows into an item, on any thread.
pub(super) type Finish<T> = Arc<dyn Fn(Vec<RecordBatch>) -> Result<T, Error> + Send + Sync>;

/// The shuffled rows of a table, an item at a time.
pub(super) struct Shuffle<T> {
    plan: Plan,
    seed: u64,
    codes: SchemaRef,
    finish: Finish<T>,
    /// Remaining buckets; the next one is last.
    buckets: Vec<Bucket>,
    /// Maximum rows of a bucket shuffled in memory.
    rows_max: u64,
    /// Number of the last created bucket.
    next_number: u64,
    /// Buckets being shuffled.
    current: Option<Ordered<T>>,
    /// Mean bytes of a row in memory.
    row_bytes: usize,
    /// Memory of the parts being scattered, then of the buckets being shuffled.
    memory: Held,
    blocks: Blocks,
    _text: Held,
}

impl<T: Send + 'static> Shuffle<T> {
    /// Generates and scatters all rows; calls `generated` with the number of rows so far.
    pub(super) fn start(
        plan: &Plan,
        seed: u64,
        finish: Finish<T>,
        generated: &mut dyn FnMut(u64),
    ) -> Result<Shuffle<T>, Error> {
        let blocks = Blocks::new(plan.job(), plan.rows())?;
        let _text = plan.text_memory()?;
        // Random buckets of a mean size are rarely larger by an eighth.
        let bucket_rows = plan.rows().div_ceil(buckets(plan.rows())) / 8 * 9;
        let bucket_bytes = plan.bytes(bucket_rows.min(BUCKET_ROWS_MAX)) * BUCKET_COPIES;
        let memory = Held::new(plan.job(), scattered_bytes(plan).max(bucket_bytes), GENERATOR_MEMORY)?;
        let mut shuffle = Shuffle {
            plan: plan.clone(),
            seed,
            codes: code_schema(plan.schema()),
            finish,
            buckets: Vec::new(),
            rows_max: BUCKET_ROWS_MAX,
            next_number: 0,
            current: None,
            row_bytes: plan.bytes(1),
            memory,
            blocks,
            _text,
        };
        let mut scatter = Scatter::new(plan.job(), &shuffle.blocks, &shuffle.codes, plan.rows())?;
        let mut parts = shuffle.scattered_parts(scatter.buckets())?;
        while let Some(part) = parts.next() {
            part?.iter().try_for_each(|rows| scatter.write(rows))?;
            generated(scatter.written());
        }
        drop(parts);
        shuffle.row_bytes = scatter.row_bytes().unwrap_or(shuffle.row_bytes);
        shuffle.push(scatter)?;
        // The pieces that the batches of parts leave free are too small for buckets.
        allocator::trim();
        Ok(shuffle)
    }

    /// Returns the parts of the table in pieces, with the rows of each ordered by bucket.
    fn scattered_parts(&mut self, buckets: usize) -> Result<Ordered<Vec<Scattered>>, Error> {
        let (plan, codes, seed) = (self.plan.clone(), self.codes.clone(), self.seed);
        let make: Make<Vec<Scattered>> = Arc::new(move |part| {
            let mut random = random(seed, Purpose::Scatter, part as u64);
            let mut pieces = Pieces::default();
            for batch in plan.part(part) {
                pieces.push(to_codes(&batch?, &codes)?, |rows| scattered(rows, buckets, &mut random))?;
            }
            pieces.finish(|rows| scattered(rows, buckets, &mut random))
        });
        let part_bytes = scattered_bytes(&self.plan);
        let window = self.window(part_bytes, part_bytes)?;
        let threads = self.plan.job().options().threads.min(window);
        Ok(Ordered::start(threads, window, self.plan.parts, &make))
    }

    /// Takes the memory of as many items as fit, of one at least. An item needs `item_bytes`, and `all_bytes` with what
    /// others reserve for it.
    fn window(&mut self, item_bytes: usize, all_bytes: usize) -> Result<usize, Error> {
        self.memory.resize(item_bytes)?;
        let most = self.plan.window(all_bytes, item_bytes);
        let found = (2..=most).rev().find(|&window| self.memory.resize(window * item_bytes).is_ok());
        Ok(found.unwrap_or(1))
    }

    /// Puts scattered buckets before the remaining ones.
    fn push(&mut self, scatter: Scatter) -> Result<(), Error> {
        let buckets = scatter.finish(&mut self.next_number)?;
        self.buckets.extend(buckets.into_iter().rev());
        Ok(())
    }

    /// Returns the next item, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(item) = current.next() {
                    return item.map(Some);
                }
                self.current = None;
            }
            let Some(next) = self.buckets.last() else { return Ok(None) };
            if next.rows > self.rows_max {
                self.scatter_again()?;
            } else {
                self.begin_small()?;
            }
        }
    }

    /// Merges all buckets into one, to test buckets that are too large.
    #[cfg(test)]
    pub(super) fn merge_buckets(&mut self, rows_max: u64) -> Result<(), Error> {
        self.rows_max = rows_max;
        let spill = crate::spill::SpillFiles::new(self.plan.job());
        let (mut writer, mut rows) = (self.blocks.writer(&spill, &self.codes)?, 0);
        for bucket in self.buckets.drain(..) {
            rows += bucket.rows;
            let mut reader = bucket.drain(&self.blocks)?;
            while let Some(batch) = reader.next()? {
                writer.write(&batch)?;
            }
        }
        self.buckets.push(Bucket { run: writer.finish()?, rows, number: 0 });
        Ok(())
    }

    /// Scatters the next bucket, which is too large for memory.
    fn scatter_again(&mut self) -> Result<(), Error> {
        let bucket = self.buckets.pop().expect("the next bucket");
        let mut scatter = Scatter::new(self.plan.job(), &self.blocks, &self.codes, bucket.rows)?;
        let mut random = random(self.seed, Purpose::ScatterAgain, bucket.number);
        let mut reader = bucket.drain(&self.blocks)?;
        let (buckets, mut pieces) = (scatter.buckets(), Pieces::default());
        let mut scatter_rows = |rows: &RecordBatch| scatter.write(&scattered(rows, buckets, &mut random)?);
        while let Some(batch) = reader.next()? {
            self.plan.job().check()?;
            pieces.push(batch, &mut scatter_rows)?;
        }
        pieces.finish(&mut scatter_rows)?;
        self.push(scatter)
    }

    /// Starts to shuffle the next buckets, up to one that is too large.
    fn begin_small(&mut self) -> Result<(), Error> {
        let mut small = Vec::new();
        while let Some(bucket) = self.buckets.pop_if(|bucket| bucket.rows <= self.rows_max) {
            small.push(bucket);
        }
        let rows = small.iter().map(|bucket| bucket.rows).max().unwrap_or(0);
        let bucket_bytes = self.row_bytes * rows as usize;
        let window = self.window(bucket_bytes * BUCKET_COPIES, bucket_bytes * ENCODED_BUCKET_COPIES)?;
        let (count, blocks) = (small.len(), self.blocks.clone());
        let buckets = Mutex::new(small.into_iter().map(Some).collect::<Vec<_>>());
        let (plan, seed, codes, finish) =
            (self.plan.clone(), self.seed, self.codes.clone(), Arc::clone(&self.finish));
        let make: Make<T> = Arc::new(move |place| {
            let bucket = buckets.lock().unwrap_or_else(PoisonError::into_inner)[place].take();
            let bucket = bucket.expect("each bucket is taken once");
            plan.job().check()?;
            finish(shuffled(bucket, &blocks, seed, &codes, plan.schema())?)
        });
        let threads = self.plan.job().options().threads.min(window);
        self.current = Some(Ordered::start(threads, window, count, &make));
        Ok(())
    }
}

/// Returns the rows of a bucket in random order.
fn shuffled(
    bucket: Bucket,
    blocks: &Blocks,
    seed: u64,
    codes: &SchemaRef,
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, Error> {
    let mut random = random(seed, Purpose::Shuffle, bucket.number);
    let (mut reader, mut batches) = (bucket.drain(blocks)?, Vec::<RecordBatch>::new());
    while let Some(batch) = reader.next()? {
        batches.push(batch);
    }
    drop(reader);
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut order: Vec<u32> = (0..count as u32).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, below(&mut random, last as u64 + 1) as usize);
    }
    let order = UInt32Array::from(order);
    // Column by column, so that only one of them is in memory once more.
    let columns = (0..codes.fields().len()).map(|column| -> Result<ArrayRef, Error> {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        Ok(take(&concat(&parts)?, &order, None)?)
    });
    let rows = RecordBatch::try_new(codes.clone(), columns.collect::<Result<_, Error>>()?)?;
    drop(batches);
    let rows = from_codes(&rows, schema)?;
    let starts = (0..rows.num_rows()).step_by(GENERATED_BATCH_ROWS);
    let slice = |start: usize| rows.slice(start, GENERATED_BATCH_ROWS.min(rows.num_rows() - start));
    Ok(starts.map(slice).collect())
}
