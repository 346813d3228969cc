//! The writer of a spill file.

use std::io;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::execution::spill_file::SpillWriter;
use sakiyomi_io::background::Transfer;
use sakiyomi_io::{Buffer, Error};

use super::chunk::Chunk;
use super::file::{Inner, shared_error};
use super::{CHUNK_MIN_BYTES, Shared};

/// Appends to a file. Dropped, it abandons bytes that were not flushed.
pub(super) struct Writer {
    file: Arc<Inner>,
    /// Time that it has waited for the memory of the chunk.
    waited: Duration,
    is_closed: bool,
}

impl Writer {
    pub(super) fn new(file: &Arc<Inner>) -> Writer {
        Writer { file: Arc::clone(file), waited: Duration::ZERO, is_closed: false }
    }

    /// Returns a buffer for the next chunk. Blocks while all memory is in use, until a write in flight releases some.
    fn buffer(&mut self) -> Result<Buffer, Error> {
        let shared = &self.file.shared;
        let buffers = &shared.write_buffers;
        if let Some(buffer) = buffers.take(shared.chunk)? {
            return Ok(buffer);
        }
        let begun = Instant::now();
        let mut writes = shared.lock_writes();
        let buffer = loop {
            // With the lock: no write ends between a look at the memory and the wait.
            if let Some(buffer) = buffers.take(shared.chunk)? {
                break buffer;
            }
            if *writes == 0 {
                // Only other writers have memory, and they may be waiting for this one.
                break buffers.take_beyond(CHUNK_MIN_BYTES)?;
            }
            writes = shared.written.wait(writes).unwrap_or_else(PoisonError::into_inner);
        };
        drop(writes);
        self.waited += begun.elapsed();
        Ok(buffer)
    }

    /// Hands a full or last tail to the device.
    fn submit(&mut self, mut buffer: Buffer) -> io::Result<()> {
        let shared = &self.file.shared;
        let length = buffer.len();
        let compressed =
            shared.compressor.compress(&mut buffer.space()[..length]).map_err(io::Error::other)?;
        let stored = compressed.chunk.stored_bytes;
        let extent = shared.next_spill(stored).allocate(stored)?;
        let (file, range) = (Arc::clone(extent.file()), extent.range());
        shared.take_space(range.end - range.start)?;
        let padded = (range.end - range.start) as usize;
        buffer.space()[stored..padded].fill(0);
        buffer.set_len(padded);
        let chunk = Arc::new(Chunk::new(compressed.chunk, extent, shared));
        *shared.lock_writes() += 1;
        self.file.append(Arc::clone(&chunk));
        let spilled = Arc::clone(&self.file);
        shared.io.submit([Transfer::write(&file, range.start, buffer, move |outcome| {
            ended(&spilled, &chunk, outcome);
        })]);
        let waited = mem::take(&mut self.waited);
        shared.compressor.handed_over(&compressed, waited);
        shared.waited_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn finish_file(&mut self) -> Result<()> {
        if self.is_closed {
            return Ok(());
        }
        if let Some(rest) = self.file.take_tail().filter(|rest| !rest.is_empty()) {
            self.submit(rest)?;
        }
        self.close();
        settle(&self.file);
        self.file.check().map_err(|error| shared_error(&error))
    }

    fn close(&mut self) {
        if !mem::replace(&mut self.is_closed, true) {
            self.file.close();
        }
    }
}

/// Waits until the writes of a file have ended.
fn settle(file: &Inner) {
    let shared: &Shared = &file.shared;
    let mut writes = shared.lock_writes();
    while !file.is_settled() {
        writes = shared.written.wait(writes).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The write of a chunk has ended.
fn ended(file: &Inner, chunk: &Chunk, outcome: Result<(), Error>) {
    let outcome = outcome.map_err(Arc::new);
    if let Err(error) = &outcome {
        file.fail(Arc::clone(error));
    }
    chunk.written(outcome);
    *file.shared.lock_writes() -= 1;
    file.shared.written.notify_all();
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.check().map_err(io::Error::other)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.append_to_tail(rest) {
                (0, None) => {
                    let buffer = self.buffer()?;
                    self.file.set_tail(buffer);
                }
                (taken, full) => {
                    rest = &rest[taken..];
                    full.map_or(Ok(()), |full| self.submit(full))?;
                }
            }
        }
        self.file.shared.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    /// Shows all bytes to readers; those that are in no full chunk stay in memory.
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush();
        self.file.check().map_err(io::Error::other)
    }
}

impl SpillWriter for Writer {
    /// Writes the rest, and waits for all writes.
    fn finish(&mut self) -> Result<()> {
        self.finish_file()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}
