//! Partitioning of rows by key hash into spill files (Grace hash join: Kitsuregawa et al. 1983).
//!
//! Equal keys of both sides have the same partition number. A partition that is too large is partitioned again by other
//! bits of the hash. Threads share the run of each partition.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use sakiyomi_io::buffer::Account;

use super::build::BuildSize;
use super::context::Context;
use super::memory::{PARTITION_BITS, SpillMemory};
use super::table::hash_all;
use crate::batch_bytes::{bytes_without_dictionaries, compact};
use crate::batch_spill::{BatchReader, BatchRun, BatchWriter};
use crate::job::Reservation;
use crate::join::keys::KeyValues;
use crate::phase::Meter;
use crate::spill::SpillFiles;
use crate::{Batches, Error, Job, workers};

/// Number of partitions of a division.
pub(crate) const PARTITION_COUNT: usize = 1 << PARTITION_BITS;

/// Hash bits of all divisions of a row at most: they suffice for 16^6 times the memory, unless many rows have equal keys
/// or hashes.
pub(super) const DIVIDED_BITS_MAX: u32 = 24;

/// A division of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// Bits of the hash by which the rows were divided before.
    pub(super) used_bits: u32,
    pub(super) bits: u32,
    /// Bytes of a block of the runs.
    pub(super) block: usize,
    /// Whether the rows are those of the build side.
    pub(super) is_build: bool,
}

/// Spilled rows of one side.
pub(super) struct Partition {
    run: BatchRun,
    schema: SchemaRef,
    /// Their size; only its number of rows on the probe side.
    pub(super) size: BuildSize,
}

impl Partition {
    /// Returns a stream of the rows, and keeps them on disk.
    pub(super) fn read(&self, account: &Arc<Account>, block: usize) -> Result<RunBatches, Error> {
        let reader = self.run.read_blocks_within(account, block)?;
        Ok(RunBatches { reader, schema: self.schema.clone() })
    }

    /// Returns a stream of the rows that frees their disk space.
    pub(super) fn drain(self, account: &Arc<Account>, block: usize) -> Result<RunBatches, Error> {
        Ok(RunBatches { reader: self.run.drain_within(account, block)?, schema: self.schema })
    }
}

/// Stream of spilled rows.
pub(super) struct RunBatches {
    reader: BatchReader,
    schema: SchemaRef,
}

impl Batches for RunBatches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            match self.reader.next()? {
                Some(batch) if batch.num_rows() == 0 => {}
                other => return Ok(other),
            }
        }
    }
}

/// Writes the rows of one side into partitions; threads share it.
struct Partitioner<'a> {
    context: &'a Context,
    division: Division,
    /// Bytes of rows that are written together.
    batch_bytes: usize,
    runs: Vec<Mutex<PartitionWriter>>,
}

/// The run of a partition.
struct PartitionWriter {
    writer: BatchWriter,
    size: BuildSize,
    is_build: bool,
    /// Rows that are not written yet.
    pending: Vec<RecordBatch>,
    pending_bytes: usize,
}

impl PartitionWriter {
    /// Appends rows, which share no memory with others but dictionaries, and writes them if they have `batch_bytes` bytes.
    fn push(&mut self, context: &Context, rows: RecordBatch, batch_bytes: usize) -> Result<(), Error> {
        self.pending_bytes += bytes_without_dictionaries(&rows);
        self.pending.push(rows);
        if self.pending_bytes >= batch_bytes { self.write(context) } else { Ok(()) }
    }

    fn write(&mut self, context: &Context) -> Result<(), Error> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let Some(first) = pending.first() else { return Ok(()) };
        match concat_batches(first.schema_ref(), &pending) {
            Ok(rows) => self.write_batch(context, &rows),
            // The values of several dictionaries may be too many for the type of their keys.
            Err(_) => pending.iter().try_for_each(|rows| self.write_batch(context, rows)),
        }
    }

    /// Writes a batch, whose dictionaries then count once.
    fn write_batch(&mut self, context: &Context, rows: &RecordBatch) -> Result<(), Error> {
        let size = match self.is_build {
            true => BuildSize::of(context, rows)?,
            false => BuildSize::of_rows(rows.num_rows()),
        };
        self.size = self.size.plus(size);
        self.writer.write(rows)
    }

    fn finish(mut self, context: &Context, schema: &SchemaRef) -> Result<Partition, Error> {
        self.write(context)?;
        Ok(Partition { run: self.writer.finish()?, schema: schema.clone(), size: self.size })
    }
}

/// The part of a thread.
struct Divider<'a> {
    partitioner: &'a Partitioner<'a>,
    /// The partition that the thread writes first, so that threads do not wait for each other.
    first: usize,
    keys: KeyValues,
    hashes: Vec<u64>,
}

/// Rows that a thread divides.
#[derive(Default)]
pub(super) struct Item {
    pub(super) batches: Vec<RecordBatch>,
    /// Memory of the batches of all items, released once all of these are written.
    pub(super) memory: Option<Arc<Reservation>>,
    /// Rows after the batches.
    pub(super) stream: Option<Box<dyn Batches>>,
}

/// Divides the rows of items, with a thread for each.
pub(super) fn divide_streams(
    context: &Context,
    job: &Job,
    spill: (&SpillFiles, &SpillMemory),
    schema: &SchemaRef,
    items: Vec<Item>,
    division: Division,
) -> Result<Vec<Partition>, Error> {
    let partitioner = Partitioner::new(context, spill, schema, division)?;
    workers::each(&context.job, items, |index, Item { batches, memory, stream }| {
        let meter = Meter::start();
        let mut divider = partitioner.divider(index);
        for batch in batches {
            context.job.check()?;
            divider.write(&batch)?;
        }
        drop(memory);
        if let Some(mut stream) = stream {
            divider.write_all(&mut *stream)?;
        }
        job.phases().add(meter.stop("partition", 0, Duration::ZERO));
        Ok(())
    })?;
    partitioner.finish(schema)
}

/// Divides a partition again, with the calling thread.
pub(super) fn divide_again(
    context: &Context,
    (files, memory): (&SpillFiles, &SpillMemory),
    partition: Partition,
    division: Division,
) -> Result<Vec<Partition>, Error> {
    let schema = partition.schema.clone();
    let partitioner = Partitioner::new(context, (files, memory), &schema, division)?;
    let mut rows = partition.drain(&memory.account, division.block)?;
    partitioner.divider(0).write_all(&mut rows)?;
    partitioner.finish(&schema)
}

impl<'a> Partitioner<'a> {
    fn new(
        context: &'a Context,
        (files, memory): (&SpillFiles, &SpillMemory),
        schema: &SchemaRef,
        division: Division,
    ) -> Result<Partitioner<'a>, Error> {
        let run = |_| {
            let writer = BatchWriter::create_with(files, schema, &memory.account, division.block)?;
            let size = BuildSize::default();
            let (pending, is_build) = (Vec::new(), division.is_build);
            Ok(Mutex::new(PartitionWriter { writer, size, is_build, pending, pending_bytes: 0 }))
        };
        let runs = (0..1_usize << division.bits).map(run).collect::<Result<_, Error>>()?;
        Ok(Partitioner { context, division, batch_bytes: memory.batch_bytes, runs })
    }

    /// Returns the part of the thread `index`.
    fn divider(&self, index: usize) -> Divider<'_> {
        let first = index * self.runs.len() / self.context.job.options().threads.max(1) % self.runs.len();
        Divider { partitioner: self, first, keys: self.context.encoder.empty(), hashes: Vec::new() }
    }

    /// Appends rows of a batch to a partition.
    fn append(&self, partition: usize, batch: &RecordBatch, rows: UInt32Array) -> Result<(), Error> {
        let rows = compact(&take_record_batch(batch, &rows)?)?;
        let mut run = self.runs[partition].lock().unwrap_or_else(PoisonError::into_inner);
        run.push(self.context, rows, self.batch_bytes)
    }

    /// Waits for all writes; returns the partitions.
    fn finish(self, schema: &SchemaRef) -> Result<Vec<Partition>, Error> {
        let finish = |run: Mutex<PartitionWriter>| {
            run.into_inner().unwrap_or_else(PoisonError::into_inner).finish(self.context, schema)
        };
        self.runs.into_iter().map(finish).collect()
    }
}

impl Divider<'_> {
    /// Writes the rows of a stream.
    fn write_all(&mut self, stream: &mut dyn Batches) -> Result<(), Error> {
        while let Some(batch) = stream.next()? {
            self.partitioner.context.job.check()?;
            self.write(&batch)?;
        }
        Ok(())
    }

    /// Writes the rows of a batch.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let Partitioner { context, division, runs, .. } = self.partitioner;
        let places = if division.is_build { &context.build_places } else { &context.probe_places };
        let nulls = context.encoder.encode(batch, places, &mut self.keys)?;
        hash_all(&self.keys, &mut self.hashes);
        let (order, ends) = self.order(nulls.as_ref());
        let order = UInt32Array::from(order);
        for turn in 0..runs.len() {
            let partition = (self.first + turn) % runs.len();
            let start = if partition == 0 { 0 } else { ends[partition - 1] };
            if ends[partition] > start {
                let rows = order.slice(start, ends[partition] - start);
                self.partitioner.append(partition, batch, rows)?;
            }
        }
        Ok(())
    }

    /// Returns the rows of the batch in partition order, and the end of each partition.
    fn order(&self, nulls: Option<&NullBuffer>) -> (Vec<u32>, Vec<usize>) {
        let Division { used_bits, bits, .. } = self.partitioner.division;
        let (shift, count) = (u64::BITS - used_bits - bits, 1 << bits);
        let partition = |row: usize| match nulls {
            // Null keys match no key: they are spread evenly.
            Some(nulls) if nulls.is_null(row) => row % count,
            _ => (self.hashes[row] >> shift) as usize % count,
        };
        let mut ends = vec![0; count];
        (0..self.hashes.len()).for_each(|row| ends[partition(row)] += 1);
        let (mut next, mut end) = (vec![0; count], 0);
        for (next, count) in next.iter_mut().zip(&mut ends) {
            *next = end;
            end += *count;
            *count = end;
        }
        let mut order = vec![0; self.hashes.len()];
        for row in 0..self.hashes.len() {
            let place = &mut next[partition(row)];
            order[*place] = row as u32;
            *place += 1;
        }
        (order, ends)
    }
}
