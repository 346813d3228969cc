//! Spilled batches, stored as Arrow IPC in the runs of a spill file.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};
use sakiyomi_io::buffer::Account;
use sakiyomi_io::{
    Block, IoStats, ReadStream, Run, RunReader, RunWriter, SharedOptions, Spill, WriteOptions,
};

use crate::batch_bytes::compact;
use crate::{Error, Job};

/// Transfer size; small because many runs share the buffer budget.
pub(crate) const BATCH_BLOCK_BYTES: usize = 256 << 10;

/// Blocks in flight per run: one is transferred while another is filled or decoded.
pub(crate) const BATCH_BLOCKS_AHEAD: usize = 2;

/// Transfer size with reserved memory.
const RESERVED_BLOCK_BYTES: usize = 64 << 10;

/// Blocks of one run: being filled or decoded, and in flight.
const RESERVED_BLOCKS: usize = BATCH_BLOCKS_AHEAD + 2;

/// Reserves memory to write a run, and then to read it, so that an operator can spill whatever others use.
///
/// # Errors
/// [`Error::Memory`], with `what` as the operation, if there is not that much.
pub(crate) fn reserve_spill(job: &Job, what: &str) -> Result<Arc<Account>, Error> {
    Ok(Arc::new(job.account(RESERVED_BLOCKS * RESERVED_BLOCK_BYTES, what)?))
}

/// Creates a spill file in the job's first spill directory.
///
/// # Errors
/// If the job has no spill directory, or the file cannot be created.
pub(crate) fn create_spill(job: &Job) -> Result<Spill, Error> {
    let directory = job.options().spill.first();
    let directory = directory.ok_or_else(|| {
        Error::Query("the data does not fit into memory, and there is no directory to spill to".to_owned())
    })?;
    job.spill_file(directory)
}

/// Writer of a run of batches.
pub(crate) struct BatchWriter {
    writer: StreamWriter<RunWriter>,
}

impl BatchWriter {
    /// Begins a run.
    ///
    /// # Errors
    /// If the budget has no room for another stream, or the schema cannot be written.
    pub(crate) fn create(spill: &Spill, schema: &Schema) -> Result<BatchWriter, Error> {
        BatchWriter::create_within(spill, schema, None)
    }

    /// As [`BatchWriter::create`], with memory that was reserved before.
    ///
    /// # Errors
    /// If the schema cannot be written.
    pub(crate) fn create_within(
        spill: &Spill,
        schema: &Schema,
        account: Option<&Arc<Account>>,
    ) -> Result<BatchWriter, Error> {
        let block = account.map_or(BATCH_BLOCK_BYTES, |_| RESERVED_BLOCK_BYTES);
        let options = WriteOptions { block, in_flight: BATCH_BLOCKS_AHEAD, ..WriteOptions::default() };
        let run = spill.run_within(account, &options)?;
        let writer = StreamWriter::try_new(run, schema).map_err(write_error)?;
        Ok(BatchWriter { writer })
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// If the batch cannot be written.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.writer.write(&compact(batch)?).map_err(write_error)
    }

    /// Finishes the run.
    ///
    /// # Errors
    /// If the remaining blocks cannot be written.
    pub(crate) fn finish(self) -> Result<BatchRun, Error> {
        let run = self.writer.into_inner().map_err(write_error)?.finish()?;
        Ok(BatchRun { run })
    }
}

/// Unwraps the error of the underlying stream, which is more specific than the encoder's.
fn write_error(error: ArrowError) -> Error {
    let ArrowError::IoError(text, source) = error else { return Error::Arrow(error) };
    match source.downcast::<sakiyomi_io::Error>() {
        Ok(error) => Error::Io(error),
        Err(source) => Error::Arrow(ArrowError::IoError(text, source)),
    }
}

/// A run of spilled batches; its space is freed on drop.
#[derive(Debug)]
pub(crate) struct BatchRun {
    run: Run,
}

impl BatchRun {
    /// Counters of the writes.
    pub(crate) fn write_stats(&self) -> IoStats {
        self.run.write_stats()
    }

    /// Reads the batches without freeing their space.
    ///
    /// # Errors
    /// If the budget has no room for another stream.
    pub(crate) fn read(&self) -> Result<BatchReader, Error> {
        Ok(BatchReader::new(Blocks::Read(self.run.read(&read_options())?)))
    }

    /// As [`BatchRun::read`], with memory that was reserved before.
    ///
    /// # Errors
    /// If the engine cannot be used.
    pub(crate) fn read_within(&self, account: &Arc<Account>) -> Result<BatchReader, Error> {
        let options = SharedOptions { block: RESERVED_BLOCK_BYTES, ahead: 1, ..read_options() };
        Ok(BatchReader::new(Blocks::Read(self.run.read_within(Some(account), &options)?)))
    }

    /// As [`BatchRun::drain`], with transfers of at most `block` bytes, for reading many runs at the same time.
    ///
    /// # Errors
    /// If the budget has no room for another stream.
    pub(crate) fn drain_in(self, block: usize) -> Result<BatchReader, Error> {
        let options = SharedOptions { block: block.min(BATCH_BLOCK_BYTES), ..read_options() };
        Ok(BatchReader::new(Blocks::Drain(self.run.drain(&options)?)))
    }

    /// Reads the batches and frees their space.
    ///
    /// # Errors
    /// If the budget has no room for another stream.
    pub(crate) fn drain(self) -> Result<BatchReader, Error> {
        Ok(BatchReader::new(Blocks::Drain(self.run.drain(&read_options())?)))
    }
}

fn read_options() -> SharedOptions {
    SharedOptions { block: BATCH_BLOCK_BYTES, ahead: BATCH_BLOCKS_AHEAD, ..SharedOptions::default() }
}

/// Reader of the batches of a run, in write order.
pub(crate) struct BatchReader {
    blocks: Blocks,
    decoder: StreamDecoder,
    /// Bytes read but not decoded yet.
    rest: Buffer,
}

enum Blocks {
    Read(ReadStream),
    Drain(RunReader),
}

impl Blocks {
    fn next(&mut self) -> Option<Result<Block, sakiyomi_io::Error>> {
        match self {
            Blocks::Read(stream) => stream.next(),
            Blocks::Drain(stream) => stream.next(),
        }
    }
}

impl BatchReader {
    fn new(blocks: Blocks) -> BatchReader {
        BatchReader { blocks, decoder: StreamDecoder::new(), rest: Buffer::from(&[][..]) }
    }

    /// Returns the next batch, or `None` at the end.
    ///
    /// # Errors
    /// If the batch cannot be read or decoded.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if self.rest.is_empty() {
                let Some(block) = self.blocks.next() else {
                    self.decoder.finish()?;
                    return Ok(None);
                };
                // Copied, because a batch that referenced the block would keep its buffer reserved.
                self.rest = Buffer::from(&block?[..]);
            }
            if let Some(batch) = self.decoder.decode(&mut self.rest)? {
                return Ok(Some(batch));
            }
        }
    }
}

#[cfg(test)]
mod tests;
