//! Loading of the build side.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;

use super::context::Context;
use super::table::TABLE_ROW_BYTES;
use crate::batch_bytes::{batch_bytes, compact};
use crate::job::Reservation;
use crate::phase::Meter;
use crate::{Batches, Error, Job, workers};

/// Name of the hash table's memory in errors.
const TABLE_MEMORY: &str = "the hash table of a join";

/// Bytes of a key of at most two 64-bit columns; longer keys are counted exactly.
const KEY_BYTES: usize = 16;

/// Bytes of the table of a hash join for each build row, besides the row itself and what a long key has more.
pub(crate) const ENTRY_BYTES: usize = TABLE_ROW_BYTES + KEY_BYTES + size_of::<u64>();

/// Copies of the build side while its batches are concatenated.
pub(crate) const BUILD_COPIES: usize = 2;

/// Size of build rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BuildSize {
    pub(super) rows: u64,
    /// Bytes of the values.
    bytes: usize,
    /// Bytes of the hash table with its rows, while it is built.
    pub(super) table_bytes: usize,
}

impl BuildSize {
    /// Returns the size of a batch of the build side.
    pub(super) fn of(context: &Context, batch: &RecordBatch) -> Result<BuildSize, Error> {
        let (rows, bytes) = (batch.num_rows(), batch_bytes(batch));
        let key_bytes = context.encoder.bytes(batch, &context.build_places)?;
        let entries = ENTRY_BYTES * rows + key_bytes.saturating_sub(KEY_BYTES * rows);
        Ok(BuildSize { rows: rows as u64, bytes, table_bytes: BUILD_COPIES * bytes + entries })
    }

    /// Returns the size of rows that no table holds.
    pub(super) fn of_rows(rows: usize) -> BuildSize {
        BuildSize { rows: rows as u64, ..BuildSize::default() }
    }

    pub(super) fn plus(self, other: BuildSize) -> BuildSize {
        BuildSize {
            rows: self.rows + other.rows,
            bytes: self.bytes.saturating_add(other.bytes),
            table_bytes: self.table_bytes.saturating_add(other.table_bytes),
        }
    }

    /// Returns the size of rows that were counted in pieces: merged, a column with nulls in one of them has a bitmap
    /// for all.
    pub(super) fn merged(&self) -> BuildSize {
        BuildSize { bytes: self.bytes + self.bytes / 8, ..*self }
    }

    /// Returns whether a table of the rows takes at most `bytes` bytes.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        // Row numbers have 32 bits with one value reserved for the chain end; string offsets have 31 bits.
        let is_within_offsets = self.rows < u64::from(u32::MAX) && self.bytes <= i32::MAX as usize;
        is_within_offsets && self.table_bytes <= bytes
    }
}

/// Build rows in memory.
pub(super) struct Loaded {
    pub(super) batches: Vec<RecordBatch>,
    size: BuildSize,
    pub(super) memory: Reservation,
    /// Maximum bytes of the table.
    bytes_max: usize,
    /// Whether the rows exceed the memory; up to one batch of each thread is beyond it.
    pub(super) is_too_large: bool,
}

impl Loaded {
    fn push(&mut self, batch: RecordBatch, size: BuildSize) {
        self.size = self.size.plus(size);
        let fits =
            self.size.fits(self.bytes_max) && self.memory.resize(self.size.table_bytes, TABLE_MEMORY).is_ok();
        self.is_too_large |= !fits;
        self.batches.push(batch);
    }
}

/// Loads the build side, with a thread for each stream, until its table exceeds `bytes_max` bytes or the memory. Returns
/// the streams that have not ended.
///
/// # Errors
/// If a stream fails.
pub(super) fn load_streams(
    context: &Context,
    job: &Job,
    streams: Vec<Box<dyn Batches>>,
    bytes_max: usize,
) -> Result<(Loaded, Vec<Box<dyn Batches>>), Error> {
    let memory = context.job.reserve(0, TABLE_MEMORY)?;
    let (batches, size) = (Vec::new(), BuildSize::default());
    let loaded = Mutex::new(Loaded { batches, size, memory, bytes_max, is_too_large: false });
    let lock = || loaded.lock().unwrap_or_else(PoisonError::into_inner);
    let rest = workers::each(&context.job, streams, |_, mut stream| {
        let meter = Meter::start();
        let mut has_more = true;
        while has_more && !lock().is_too_large {
            context.job.check()?;
            match stream.next()? {
                Some(batch) => {
                    let batch = compact(&batch)?;
                    let size = BuildSize::of(context, &batch)?;
                    lock().push(batch, size);
                }
                None => has_more = false,
            }
        }
        job.phases().add(meter.stop("build", 0, Duration::ZERO));
        Ok(has_more.then_some(stream))
    })?;
    let loaded = loaded.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((loaded, rest.into_iter().flatten().collect()))
}

/// Loads at least one batch, and more while a table of the rows takes at most `bytes` bytes; none at the end of the
/// stream. A batch that does not fit is left in `pending`, from which the next call continues.
pub(super) fn load_block(
    context: &Context,
    stream: &mut dyn Batches,
    pending: &mut Option<RecordBatch>,
    bytes: usize,
) -> Result<Vec<RecordBatch>, Error> {
    let (mut batches, mut size) = (Vec::new(), BuildSize::default());
    loop {
        context.job.check()?;
        let batch = match pending.take() {
            Some(batch) => batch,
            None => match stream.next()? {
                Some(batch) => compact(&batch)?,
                None => return Ok(batches),
            },
        };
        size = size.plus(BuildSize::of(context, &batch)?);
        if !batches.is_empty() && !size.fits(bytes) {
            *pending = Some(batch);
            return Ok(batches);
        }
        batches.push(batch);
    }
}
