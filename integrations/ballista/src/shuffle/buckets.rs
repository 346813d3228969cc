//! The rows of one input partition by output partition, encoded as they come.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion::common::hash_utils::create_hashes;
use datafusion::common::{Result, exec_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;

use super::columns::{compact_views, rows_bytes};
use super::spilled::Spilled;
use super::{Shared, encode_error, waiting};

/// How rows are distributed and encoded.
#[derive(Clone, Debug)]
pub(super) struct BucketSpec {
    pub(super) schema: SchemaRef,
    /// Rows go to the partition of the hash of these.
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) partitions: usize,
    /// Rows of an encoded batch.
    pub(super) batch_rows: usize,
    pub(super) write: IpcWriteOptions,
    /// Bytes that this input may keep, besides the budget of all; 0 for no such limit.
    pub(super) limit_bytes: usize,
    /// Directory of spilled rows.
    pub(super) directory: PathBuf,
}

/// Rows of an input that belong to one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) batches: u64,
    pub(super) rows: u64,
    /// Bytes in memory before encoding: Ballista reports these, and plans by them.
    pub(super) bytes: u64,
}

/// Maximum bytes of rows that are not encoded yet, so that many partitions do not keep many rows.
const PENDING_MAX_BYTES: usize = 32 << 20;
/// A task spills no fewer bytes than this while others have the budget, so that transfers are not tiny.
const SPILL_MIN_BYTES: usize = 1 << 20;

/// Collects rows.
pub(super) struct Buckets {
    shared: Arc<Shared>,
    spec: BucketSpec,
    reservation: MemoryReservation,
    /// Batches whose rows are not encoded yet.
    pending: Vec<RecordBatch>,
    pending_bytes: usize,
    pending_rows: usize,
    /// For each partition the batch and the row of its rows among the pending ones.
    rows: Vec<Vec<(u32, u32)>>,
    hashes: Vec<u64>,
    /// Rows of a batch that is encoded.
    taken: Vec<(usize, usize)>,
    kept: Kept,
    spilled: Option<Spilled>,
    counts: Vec<Counts>,
    nulls: Vec<u64>,
}

/// Encoded bytes in memory by partition, which count in the budget.
struct Kept {
    shared: Arc<Shared>,
    chunks: Vec<Vec<Vec<u8>>>,
    bytes: usize,
}

/// All rows of an input, encoded.
pub(super) struct Encoded {
    kept: Kept,
    pub(super) spilled: Option<Spilled>,
    pub(super) counts: Vec<Counts>,
    /// Null values of each column.
    pub(super) nulls: Vec<u64>,
    // The pool accounts for the bytes until they are written.
    _reservation: MemoryReservation,
}

impl Encoded {
    /// Takes the bytes of a partition that are in memory; they follow those that were spilled.
    pub(super) fn take_kept(&mut self, partition: usize) -> Vec<Vec<u8>> {
        self.kept.take(partition)
    }
}

impl Kept {
    fn push(&mut self, partition: usize, mut bytes: Vec<u8>) -> bool {
        bytes.shrink_to_fit();
        self.bytes += bytes.len();
        let is_within = self.shared.keep(bytes.len());
        self.chunks[partition].push(bytes);
        is_within
    }

    fn take(&mut self, partition: usize) -> Vec<Vec<u8>> {
        let chunks = mem::take(&mut self.chunks[partition]);
        let bytes = chunks.iter().map(Vec::len).sum();
        self.bytes -= bytes;
        self.shared.release(bytes);
        chunks
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shared.release(self.bytes);
    }
}

impl Buckets {
    pub(super) fn new(shared: &Arc<Shared>, spec: BucketSpec, reservation: MemoryReservation) -> Buckets {
        let partitions = spec.partitions;
        let kept = Kept { shared: Arc::clone(shared), chunks: vec![Vec::new(); partitions], bytes: 0 };
        Buckets {
            shared: Arc::clone(shared),
            reservation,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_rows: 0,
            rows: vec![Vec::new(); partitions],
            hashes: Vec::new(),
            taken: Vec::new(),
            kept,
            spilled: None,
            counts: vec![Counts::default(); partitions],
            nulls: vec![0; spec.schema.fields().len()],
            spec,
        }
    }

    /// Adds rows. Encodes when each partition has about a batch, and spills when memory is short; only then it may wait for
    /// the device.
    ///
    /// # Errors
    /// If the keys cannot be evaluated, or rows cannot be encoded or spilled.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        for (nulls, column) in self.nulls.iter_mut().zip(batch.columns()) {
            *nulls += column.logical_null_count() as u64;
        }
        self.distribute(&batch)?;
        let bytes = rows_bytes(&batch) + batch.num_rows() * size_of::<(u32, u32)>();
        self.pending_rows += batch.num_rows();
        self.pending_bytes += bytes;
        self.pending.push(batch);
        let is_granted = self.reservation.try_grow(bytes).is_ok();
        let is_full = self.pending_rows >= self.spec.batch_rows * self.spec.partitions
            || self.pending_bytes >= PENDING_MAX_BYTES
            || self.is_over_limit();
        // Encoded rows are smaller.
        if is_full || !is_granted { self.encode_and_keep() } else { Ok(()) }
    }

    /// Whether this input has more than it may keep.
    fn is_over_limit(&self) -> bool {
        let limit = self.spec.limit_bytes;
        limit > 0 && self.kept.bytes + self.pending_bytes >= limit
    }

    /// Notes the partition of each row.
    fn distribute(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys: Vec<ArrayRef> = evaluate_expressions_to_arrays(&self.spec.keys, batch)?;
        self.hashes.clear();
        self.hashes.resize(batch.num_rows(), 0);
        create_hashes(&keys, REPARTITION_RANDOM_STATE.random_state(), &mut self.hashes)?;
        let (place, partitions) = (self.pending.len(), self.spec.partitions as u64);
        let (Ok(place), Ok(rows)) = (u32::try_from(place), u32::try_from(batch.num_rows())) else {
            return exec_err!("a batch of {} rows is too large for a shuffle", batch.num_rows());
        };
        for (row, hash) in (0..rows).zip(&self.hashes) {
            self.rows[(hash % partitions) as usize].push((place, row));
        }
        Ok(())
    }

    fn encode_and_keep(&mut self) -> Result<()> {
        let is_within = self.encode_pending()?;
        let is_granted = self.reservation.try_resize(self.kept.bytes).is_ok();
        let is_short = !is_granted || !is_within;
        if self.is_over_limit() || is_short && self.kept.bytes >= SPILL_MIN_BYTES {
            return self.spill();
        }
        Ok(())
    }

    /// Encodes all pending rows; returns whether the encoded ones of all tasks are within the budget.
    fn encode_pending(&mut self) -> Result<bool> {
        let batches = mem::take(&mut self.pending);
        (self.pending_bytes, self.pending_rows) = (0, 0);
        let sources: Vec<&RecordBatch> = batches.iter().collect();
        let mut is_within = true;
        for partition in 0..self.spec.partitions {
            let mut rows = mem::take(&mut self.rows[partition]);
            if rows.is_empty() {
                continue;
            }
            let bytes = self.encode(partition, &sources, &rows)?;
            is_within &= self.kept.push(partition, bytes);
            rows.clear();
            self.rows[partition] = rows;
        }
        Ok(is_within)
    }

    /// Some rows of a partition as a stream, which its reader finds behind those before: an encoder that lived on would keep
    /// buffers and dictionaries for each partition.
    fn encode(&mut self, partition: usize, sources: &[&RecordBatch], rows: &[(u32, u32)]) -> Result<Vec<u8>> {
        let spec = &self.spec;
        let mut encoder = StreamWriter::try_new_with_options(Vec::new(), &spec.schema, spec.write.clone())
            .map_err(encode_error)?;
        let batches = rows.len().div_ceil(spec.batch_rows.max(1));
        for rows in rows.chunks(rows.len().div_ceil(batches)) {
            self.taken.clear();
            self.taken.extend(rows.iter().map(|&(place, row)| (place as usize, row as usize)));
            let batch = compact_views(interleave_record_batch(sources, &self.taken)?)?;
            let counts = &mut self.counts[partition];
            counts.batches += 1;
            counts.rows += batch.num_rows() as u64;
            counts.bytes += batch.get_array_memory_size() as u64;
            encoder.write(&batch).map_err(encode_error)?;
        }
        encoder.into_inner().map_err(encode_error)
    }

    /// Writes the encoded rows to the device.
    fn spill(&mut self) -> Result<()> {
        if self.kept.bytes > 0 {
            let spilled = match &mut self.spilled {
                Some(spilled) => spilled,
                none => none.insert(waiting(|| Spilled::create(&self.shared, &self.spec.directory))?),
            };
            let chunks = (0..self.spec.partitions).map(|partition| self.kept.take(partition));
            waiting(|| spilled.write(chunks))?;
        }
        self.reservation.resize(self.pending_bytes);
        Ok(())
    }

    /// Encodes the rest.
    ///
    /// # Errors
    /// As [`Buckets::push`].
    pub(super) fn finish(mut self) -> Result<Encoded> {
        let is_within = self.encode_pending()?;
        // A pool that has no room for the rest: it is written first, and copied then.
        let is_granted = self.reservation.try_resize(self.kept.bytes).is_ok();
        if !is_granted || !is_within && self.kept.bytes >= SPILL_MIN_BYTES {
            self.spill()?;
        }
        Ok(Encoded {
            kept: self.kept,
            spilled: self.spilled,
            counts: self.counts,
            nulls: self.nulls,
            _reservation: self.reservation,
        })
    }
}
