//! Spilled batches, stored as Arrow IPC in the runs of spill files.

use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};
use sakiyomi_io::buffer::Account;
use sakiyomi_io::{SharedOptions, WriteOptions};

use crate::batch_bytes::compact;
use crate::spill::{FRAME_BYTES, FrameReader, FrameRun, FrameWriter, SpillFiles};
use crate::{Error, Job};

/// Transfer size; small because many runs share the buffer budget.
pub(crate) const BATCH_BLOCK_BYTES: usize = 256 << 10;

/// Blocks in flight per run: one is transferred while another is filled or decoded.
pub(crate) const BATCH_BLOCKS_AHEAD: usize = 2;

/// Phases of spilled batches.
const WRITE_PHASE: &str = "write runs";
/// See [`WRITE_PHASE`].
const READ_PHASE: &str = "read runs";

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

/// Writer of a run of batches.
pub(crate) struct BatchWriter {
    writer: StreamWriter<Frames>,
}

/// Collects the encoded bytes of a batch into frames.
struct Frames {
    writer: FrameWriter,
    /// Bytes that are in no frame yet; none between batches.
    bytes: Vec<u8>,
    /// The error of a frame.
    error: Option<Error>,
}

impl io::Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME_BYTES - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        if self.bytes.len() == FRAME_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Not kept: hundreds of runs are written at the same time.
        let bytes = std::mem::take(&mut self.bytes);
        self.writer.write(&bytes).map_err(|error| {
            self.error = Some(error);
            io::Error::other("a frame cannot be written")
        })
    }
}

impl BatchWriter {
    /// Begins a run in the next spill file.
    ///
    /// # Errors
    /// If the budget has no room for another stream, or the schema cannot be written.
    #[cfg(test)]
    pub(crate) fn create(spill: &SpillFiles, schema: &Schema) -> Result<BatchWriter, Error> {
        BatchWriter::create_within(spill, schema, None)
    }

    /// Like [`BatchWriter::create`], with memory that was reserved before.
    ///
    /// # Errors
    /// If the schema cannot be written.
    pub(crate) fn create_within(
        spill: &SpillFiles,
        schema: &Schema,
        account: Option<&Arc<Account>>,
    ) -> Result<BatchWriter, Error> {
        let block = account.map_or(BATCH_BLOCK_BYTES, |_| RESERVED_BLOCK_BYTES);
        BatchWriter::of_blocks(spill, schema, account, block)
    }

    /// Like [`BatchWriter::create_within`], with transfers of `block` bytes, for writing many runs at the same time.
    ///
    /// # Errors
    /// If the schema cannot be written.
    pub(crate) fn create_with(
        spill: &SpillFiles,
        schema: &Schema,
        account: &Arc<Account>,
        block: usize,
    ) -> Result<BatchWriter, Error> {
        BatchWriter::of_blocks(spill, schema, Some(account), block)
    }

    fn of_blocks(
        spill: &SpillFiles,
        schema: &Schema,
        account: Option<&Arc<Account>>,
        block: usize,
    ) -> Result<BatchWriter, Error> {
        let options = WriteOptions { block, in_flight: BATCH_BLOCKS_AHEAD, ..WriteOptions::default() };
        let writer = spill.run_within(account, &options)?;
        let frames = Frames { writer, bytes: Vec::new(), error: None };
        Ok(BatchWriter { writer: StreamWriter::try_new(frames, schema)? })
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// If the batch cannot be written.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let written = self.writer.write(&compact(batch)?).and_then(|()| self.writer.flush());
        written.map_err(|error| self.failed(error))
    }

    /// Returns the error of a frame, which is more specific than the encoder's.
    fn failed(&mut self, error: ArrowError) -> Error {
        self.writer.get_mut().error.take().unwrap_or(Error::Arrow(error))
    }

    /// Finishes the run.
    ///
    /// # Errors
    /// If the remaining blocks cannot be written.
    pub(crate) fn finish(mut self) -> Result<BatchRun, Error> {
        let finished = self.writer.finish().and_then(|()| self.writer.flush());
        finished.map_err(|error| self.failed(error))?;
        let run = self.writer.into_inner()?.writer.finish(WRITE_PHASE)?;
        Ok(BatchRun { run })
    }
}

/// A run of spilled batches; its space is freed on drop.
#[derive(Debug)]
pub(crate) struct BatchRun {
    run: FrameRun,
}

impl BatchRun {
    /// Reads the batches without freeing their space, with memory that was reserved before.
    ///
    /// # Errors
    /// If the engine cannot be used.
    pub(crate) fn read_within(&self, account: &Arc<Account>) -> Result<BatchReader, Error> {
        let options = SharedOptions { block: RESERVED_BLOCK_BYTES, ahead: 1, ..read_options() };
        Ok(BatchReader::new(self.run.read_within(account, &options, READ_PHASE)?))
    }

    /// Like [`BatchRun::read_within`], with transfers of at most `block` bytes.
    ///
    /// # Errors
    /// If the engine cannot be used.
    pub(crate) fn read_blocks_within(
        &self,
        account: &Arc<Account>,
        block: usize,
    ) -> Result<BatchReader, Error> {
        let options = SharedOptions { block: block.min(BATCH_BLOCK_BYTES), ..read_options() };
        Ok(BatchReader::new(self.run.read_within(account, &options, READ_PHASE)?))
    }

    /// Like [`BatchRun::drain`], with memory that was reserved before and transfers of at most `block` bytes, for reading
    /// many runs at the same time.
    ///
    /// # Errors
    /// If the engine cannot be used.
    pub(crate) fn drain_within(self, account: &Arc<Account>, block: usize) -> Result<BatchReader, Error> {
        let options = SharedOptions { block: block.min(BATCH_BLOCK_BYTES), ..read_options() };
        Ok(BatchReader::new(self.run.drain_within(Some(account), &options, READ_PHASE)?))
    }

    /// Reads the batches and frees their space.
    ///
    /// # Errors
    /// If the budget has no room for another stream.
    #[cfg(test)]
    pub(crate) fn drain(self) -> Result<BatchReader, Error> {
        Ok(BatchReader::new(self.run.drain_within(None, &read_options(), READ_PHASE)?))
    }
}

fn read_options() -> SharedOptions {
    SharedOptions { block: BATCH_BLOCK_BYTES, ahead: BATCH_BLOCKS_AHEAD, ..SharedOptions::default() }
}

/// Reader of the batches of a run, in write order.
pub(crate) struct BatchReader {
    frames: FrameReader,
    decoder: StreamDecoder,
    /// Bytes read but not decoded yet.
    rest: Buffer,
}

impl BatchReader {
    fn new(frames: FrameReader) -> BatchReader {
        BatchReader { frames, decoder: StreamDecoder::new(), rest: Buffer::from(&[][..]) }
    }

    /// Returns the next batch, or `None` at the end.
    ///
    /// # Errors
    /// If the batch cannot be read or decoded.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if self.rest.is_empty() {
                let Some(frame) = self.frames.next()? else {
                    self.decoder.finish()?;
                    return Ok(None);
                };
                self.rest = frame;
            }
            if let Some(batch) = self.decoder.decode(&mut self.rest)? {
                return Ok(Some(batch));
            }
        }
    }
}

#[cfg(test)]
mod tests;
