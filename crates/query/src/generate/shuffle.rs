//! Rows in a seeded random order, in bounded memory.
//!
//! Each row is assigned to a random bucket and spilled; each bucket is then read back and shuffled in memory
//! (Fisher-Yates). All orders are equally likely, as far as the random generator allows (Rao 1961; Sandelius 1962).
//! A bucket that is too large for memory is scattered again. The number of buckets and all random numbers depend only
//! on the seed, the table and the scale factor, and parts are scattered in order. The result is therefore independent
//! of the number of threads and the memory limit.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::columns::{code_schema, from_codes, to_codes};
use super::ordered::{Make, Ordered};
use super::plan::{GENERATOR_MEMORY, Plan};
use super::tables::GENERATED_BATCH_ROWS;
use crate::batch_spill::{BatchRun, BatchWriter};
use crate::spill::SpillFiles;
use crate::{Error, job::Reservation};

/// Target rows of a bucket: a few buckets fit into the memory of a small job.
const BUCKET_ROWS: u64 = 1 << 16;

/// Maximum rows of a bucket shuffled in memory.
const BUCKET_ROWS_MAX: u64 = 1 << 18;

/// Maximum buckets of one pass: each needs two buffers of at least 64 KiB.
const BUCKETS_MAX: u64 = 256;

/// Rows scattered at once: enough for hundreds of rows per bucket.
const SCATTERED_ROWS: usize = 1 << 17;

/// Copies of a bucket in memory while it is shuffled: its batches or the result, and the concatenated batch.
const BUCKET_COPIES: usize = 2;

/// A run of spilled rows.
struct Bucket {
    run: BatchRun,
    rows: u64,
    /// Selects the random stream of the bucket.
    number: u64,
}

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
    /// Memory of the buckets being shuffled.
    memory: Reservation,
}

impl<T: Send + 'static> Shuffle<T> {
    /// Generates and scatters all rows; calls `generated` with the number of rows so far.
    pub(super) fn start(
        plan: &Plan,
        seed: u64,
        finish: Finish<T>,
        generated: &mut dyn FnMut(u64),
    ) -> Result<Shuffle<T>, Error> {
        let bucket_rows = plan.rows().min(BUCKET_ROWS_MAX);
        let memory = plan.job().reserve(plan.bytes(bucket_rows) * BUCKET_COPIES, GENERATOR_MEMORY)?;
        let mut shuffle = Shuffle {
            plan: plan.clone(),
            seed,
            codes: code_schema(plan.schema()),
            finish,
            buckets: Vec::new(),
            rows_max: BUCKET_ROWS_MAX,
            next_number: 0,
            current: None,
            memory,
        };
        let mut scatter = Scatter::new(&shuffle, plan.rows())?;
        let mut parts = shuffle.scattered_parts(scatter.writers.len());
        while let Some(part) = parts.next() {
            scatter.write(&part?)?;
            generated(scatter.written);
        }
        shuffle.push(scatter)?;
        Ok(shuffle)
    }

    /// The parts of the table, with the rows of each ordered by bucket.
    fn scattered_parts(&self, buckets: usize) -> Ordered<Scattered> {
        let (plan, codes, seed) = (self.plan.clone(), self.codes.clone(), self.seed);
        let make: Make<Scattered> = Arc::new(move |part| {
            let batch = concat_batches(plan.schema(), &plan.part(part)?)?;
            let mut random = random(seed, Purpose::Scatter, part as u64);
            scattered(&to_codes(&batch, &codes)?, buckets, &mut random)
        });
        let window = self.plan.window(self.plan.bytes(SCATTERED_ROWS as u64) * BUCKET_COPIES);
        let threads = self.plan.job().options().threads.min(window);
        Ordered::start(threads, window, self.plan.parts, &make)
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
                self.begin_small();
            }
        }
    }

    /// Merges all buckets into one, to test buckets that are too large.
    #[cfg(test)]
    pub(super) fn merge_buckets(&mut self, rows_max: u64) -> Result<(), Error> {
        self.rows_max = rows_max;
        let spill = SpillFiles::new(self.plan.job());
        let (mut writer, mut rows) = (BatchWriter::create(&spill, &self.codes)?, 0);
        for bucket in self.buckets.drain(..) {
            let mut reader = bucket.run.drain()?;
            while let Some(batch) = reader.next()? {
                writer.write(&batch)?;
            }
            rows += bucket.rows;
        }
        self.buckets.push(Bucket { run: writer.finish()?, rows, number: 0 });
        Ok(())
    }

    /// Scatters the next bucket, which is too large for memory.
    fn scatter_again(&mut self) -> Result<(), Error> {
        let bucket = self.buckets.pop().expect("the next bucket");
        let mut scatter = Scatter::new(self, bucket.rows)?;
        let mut random = random(self.seed, Purpose::ScatterAgain, bucket.number);
        let (mut reader, mut batches, mut rows) = (bucket.run.drain()?, Vec::new(), 0);
        loop {
            self.plan.job().check()?;
            let batch = reader.next()?;
            let has_ended = batch.is_none();
            rows += batch.as_ref().map_or(0, RecordBatch::num_rows);
            batches.extend(batch);
            if rows >= SCATTERED_ROWS || has_ended && rows > 0 {
                let whole = concat_batches(&self.codes, &batches)?;
                scatter.write(&scattered(&whole, scatter.writers.len(), &mut random)?)?;
                batches.clear();
                rows = 0;
            }
            if has_ended {
                break;
            }
        }
        self.push(scatter)
    }

    /// Starts to shuffle the next buckets, up to one that is too large.
    fn begin_small(&mut self) {
        let mut small = Vec::new();
        while let Some(bucket) = self.buckets.pop_if(|bucket| bucket.rows <= self.rows_max) {
            small.push(bucket);
        }
        let rows = small.iter().map(|bucket| bucket.rows).max().unwrap_or(0);
        let bucket_bytes = self.plan.bytes(rows) * (BUCKET_COPIES + 1);
        let window = self.plan.window(bucket_bytes);
        // The reservation of the first bucket remains if encoders have taken the rest meanwhile.
        let window = match self.memory.resize(window * bucket_bytes, GENERATOR_MEMORY) {
            Ok(()) => window,
            Err(_) => 1,
        };
        let count = small.len();
        let buckets = Mutex::new(small.into_iter().map(Some).collect::<Vec<_>>());
        let (plan, seed, codes, finish) =
            (self.plan.clone(), self.seed, self.codes.clone(), Arc::clone(&self.finish));
        let make: Make<T> = Arc::new(move |place| {
            let bucket = buckets.lock().unwrap_or_else(PoisonError::into_inner)[place].take();
            let bucket = bucket.expect("each bucket is taken once");
            plan.job().check()?;
            finish(shuffled(bucket, seed, &codes, plan.schema())?)
        });
        let threads = self.plan.job().options().threads.min(window);
        self.current = Some(Ordered::start(threads, window, count, &make));
    }
}

/// The rows of a bucket in random order.
fn shuffled(
    bucket: Bucket,
    seed: u64,
    codes: &SchemaRef,
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, Error> {
    let mut random = random(seed, Purpose::Shuffle, bucket.number);
    let (mut reader, mut batches) = (bucket.run.drain()?, Vec::new());
    while let Some(batch) = reader.next()? {
        batches.push(batch);
    }
    let whole = concat_batches(codes, &batches)?;
    drop(batches);
    let mut order: Vec<u32> = (0..whole.num_rows() as u32).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, below(&mut random, last as u64 + 1) as usize);
    }
    let rows = from_codes(&take_record_batch(&whole, &UInt32Array::from(order))?, schema)?;
    let starts = (0..rows.num_rows()).step_by(GENERATED_BATCH_ROWS);
    let slice = |start: usize| rows.slice(start, GENERATED_BATCH_ROWS.min(rows.num_rows() - start));
    Ok(starts.map(slice).collect())
}

/// Rows ordered by bucket.
struct Scattered {
    batch: RecordBatch,
    /// End index of each bucket.
    ends: Vec<usize>,
}

/// Assigns rows to buckets at random.
fn scattered(batch: &RecordBatch, buckets: usize, random: &mut Pcg64) -> Result<Scattered, Error> {
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

/// Buckets being written.
struct Scatter {
    writers: Vec<(BatchWriter, u64)>,
    written: u64,
    _spill: SpillFiles,
}

impl Scatter {
    fn new<T>(shuffle: &Shuffle<T>, rows: u64) -> Result<Scatter, Error> {
        let spill = SpillFiles::new(shuffle.plan.job());
        let count = rows.div_ceil(BUCKET_ROWS).clamp(1, BUCKETS_MAX);
        let writer = |_| Ok((BatchWriter::create(&spill, &shuffle.codes)?, 0));
        Ok(Scatter {
            writers: (0..count).map(writer).collect::<Result<_, Error>>()?,
            written: 0,
            _spill: spill,
        })
    }

    fn write(&mut self, rows: &Scattered) -> Result<(), Error> {
        let mut start = 0;
        for ((writer, written), &end) in self.writers.iter_mut().zip(&rows.ends) {
            if end > start {
                writer.write(&rows.batch.slice(start, end - start))?;
                *written += (end - start) as u64;
            }
            start = end;
        }
        self.written += rows.batch.num_rows() as u64;
        Ok(())
    }

    fn finish(self, next_number: &mut u64) -> Result<Vec<Bucket>, Error> {
        let buckets = self.writers.into_iter().map(|(writer, rows)| {
            *next_number += 1;
            Ok(Bucket { run: writer.finish()?, rows, number: *next_number })
        });
        buckets.filter(|bucket| !matches!(bucket, Ok(Bucket { rows: 0, .. }))).collect()
    }
}

/// Independent uses of random numbers.
#[derive(Clone, Copy)]
enum Purpose {
    Scatter,
    ScatterAgain,
    Shuffle,
}

/// The random generator of a part or bucket.
fn random(seed: u64, purpose: Purpose, number: u64) -> Pcg64 {
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
fn below(random: &mut Pcg64, limit: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(limit)) >> 64) as u64
}
