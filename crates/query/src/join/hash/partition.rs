//! Partitioning of rows by key hash into spill files (Grace hash join: Kitsuregawa et al. 1983).
//!
//! Equal keys of both sides have the same partition number. A partition that is too large is partitioned again by other
//! bits of the hash.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take_record_batch;

use super::table::hash_all;
use crate::batch_spill::{BatchReader, BatchRun, BatchWriter};
use crate::join::keys::{KeyEncoder, KeyValues};
use crate::spill::SpillFiles;
use crate::{Batches, Error};

/// Hash bits of one level: 16 partitions have 16 open runs.
const PARTITION_BITS: u32 = 4;

/// Number of partitions of a level.
pub(crate) const PARTITION_COUNT: usize = 1 << PARTITION_BITS;

/// Maximum levels: suffices for 16^6 times the memory, unless many rows have equal keys or hashes.
pub(super) const PARTITION_LEVELS_MAX: u32 = 6;

/// Spilled rows of one side.
pub(super) struct Partition {
    pub(super) run: BatchRun,
    pub(super) schema: SchemaRef,
    pub(super) rows: u64,
}

impl Partition {
    /// Returns a stream of the rows, and keeps them on disk.
    pub(super) fn read(&self) -> Result<RunBatches, Error> {
        Ok(RunBatches { reader: self.run.read()?, schema: self.schema.clone() })
    }

    /// Returns a stream of the rows that frees their disk space.
    pub(super) fn drain(self) -> Result<RunBatches, Error> {
        Ok(RunBatches { reader: self.run.drain()?, schema: self.schema })
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

/// Writes the rows of one side into partitions.
pub(super) struct Partitioner<'a> {
    encoder: &'a KeyEncoder,
    places: &'a [usize],
    level: u32,
    writers: Vec<(BatchWriter, u64)>,
    keys: KeyValues,
    hashes: Vec<u64>,
}

impl<'a> Partitioner<'a> {
    pub(super) fn new(
        spill: &SpillFiles,
        schema: &Schema,
        encoder: &'a KeyEncoder,
        places: &'a [usize],
        level: u32,
    ) -> Result<Partitioner<'a>, Error> {
        let writers = (0..PARTITION_COUNT).map(|_| Ok((BatchWriter::create(spill, schema)?, 0)));
        let writers = writers.collect::<Result<_, Error>>()?;
        Ok(Partitioner { encoder, places, level, writers, keys: encoder.empty(), hashes: Vec::new() })
    }

    /// Writes the rows of a batch.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let nulls = self.encoder.encode(batch, self.places, &mut self.keys)?;
        hash_all(&self.keys, &mut self.hashes);
        let (order, ends) = self.order(nulls.as_ref());
        let rows = take_record_batch(batch, &UInt32Array::from(order))?;
        let mut start = 0;
        for ((writer, written), end) in self.writers.iter_mut().zip(ends) {
            if end > start {
                writer.write(&rows.slice(start, end - start))?;
                *written += (end - start) as u64;
            }
            start = end;
        }
        Ok(())
    }

    /// Returns the rows of the batch in partition order, and the end of each partition.
    fn order(&self, nulls: Option<&NullBuffer>) -> (Vec<u32>, [usize; PARTITION_COUNT]) {
        let shift = u64::BITS - PARTITION_BITS * (self.level + 1);
        let partition = |row: usize| match nulls {
            // Null keys match no key: they are spread evenly.
            Some(nulls) if nulls.is_null(row) => row % PARTITION_COUNT,
            _ => (self.hashes[row] >> shift) as usize % PARTITION_COUNT,
        };
        let mut ends = [0; PARTITION_COUNT];
        (0..self.hashes.len()).for_each(|row| ends[partition(row)] += 1);
        let (mut next, mut end) = ([0; PARTITION_COUNT], 0);
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

    /// Waits for all writes; returns the partitions.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(super) fn finish(self, schema: &SchemaRef) -> Result<Vec<Partition>, Error> {
        let finish = |(writer, rows): (BatchWriter, u64)| {
            Ok(Partition { run: writer.finish()?, schema: schema.clone(), rows })
        };
        self.writers.into_iter().map(finish).collect()
    }
}
