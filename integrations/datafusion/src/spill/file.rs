//! A spill file: chunks in order, the bytes after them that are still in memory, and whether more will come.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter};
use futures::Stream;
use sakiyomi_io::{Buffer, Error};

use super::Shared;
use super::chunk::{Chunk, add_waker};
use super::reader::Reader;
use super::writer::Writer;

/// A file of a factory. Its space is returned when it, its readers and its writer are dropped.
pub(super) struct File {
    inner: Arc<Inner>,
}

/// State shared by a file's writer and readers.
pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    chunks: Vec<Arc<Chunk>>,
    /// Bytes of the chunks before compression.
    chunk_bytes: u64,
    /// Bytes after the chunks.
    tail: Option<Buffer>,
    /// Bytes of the tail that readers see.
    flushed: usize,
    is_written: bool,
    /// The first write that failed.
    error: Option<Arc<Error>>,
    /// Readers that wait for more.
    wakers: Vec<Waker>,
}

/// The next item of a reader.
pub(super) enum Next {
    /// A chunk, in flight to the device or on it.
    Chunk(Arc<Chunk>),
    /// A copy of bytes that are in no chunk yet.
    Tail(Bytes),
    End,
}

impl File {
    pub(super) fn new(shared: &Arc<Shared>) -> File {
        shared.files.fetch_add(1, Ordering::Relaxed);
        shared.files_created.fetch_add(1, Ordering::Relaxed);
        File { inner: Arc::new(Inner { shared: Arc::clone(shared), state: Mutex::default() }) }
    }
}

impl SpillFile for File {
    fn size(&self) -> Option<u64> {
        let state = self.inner.lock();
        Some(state.chunk_bytes + state.tail.as_ref().map_or(0, |tail| tail.len() as u64))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        Ok(Box::pin(Reader::new(&self.inner)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        if std::mem::replace(&mut self.inner.lock().is_written, true) {
            return Err(DataFusionError::Internal("a spill file has one writer at a time".into()));
        }
        Ok(Box::new(Writer::new(&self.inner)))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes to the tail, as many as it has room for. Returns how many, and the tail if it is full: none are
    /// appended if there is no tail.
    pub(super) fn append_to_tail(&self, bytes: &[u8]) -> (usize, Option<Buffer>) {
        let mut state = self.lock();
        let Some(tail) = &mut state.tail else { return (0, None) };
        let taken = tail.append(bytes);
        let is_full = tail.len() == tail.capacity();
        (taken, if is_full { state.tail.take() } else { None })
    }

    /// Begins a tail.
    pub(super) fn set_tail(&self, tail: Buffer) {
        let mut state = self.lock();
        (state.tail, state.flushed) = (Some(tail), 0);
    }

    /// Takes the tail, which becomes a chunk.
    pub(super) fn take_tail(&self) -> Option<Buffer> {
        self.lock().tail.take()
    }

    /// Shows all bytes to readers.
    pub(super) fn flush(&self) {
        let mut state = self.lock();
        state.flushed = state.tail.as_ref().map_or(0, |tail| tail.len());
        wake(state);
    }

    /// Appends a chunk.
    pub(super) fn append(&self, chunk: Arc<Chunk>) {
        let mut state = self.lock();
        state.chunk_bytes += chunk.stored.raw_bytes as u64;
        state.chunks.push(chunk);
        state.flushed = 0;
        wake(state);
    }

    /// A write of the file has failed.
    pub(super) fn fail(&self, error: Arc<Error>) {
        let mut state = self.lock();
        state.error.get_or_insert(error);
        wake(state);
    }

    /// The error of the first write that failed.
    pub(super) fn check(&self) -> Result<(), Arc<Error>> {
        self.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Its writer is finished or dropped; bytes that are in no chunk are abandoned.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        (state.is_written, state.tail, state.flushed) = (false, None, 0);
        wake(state);
    }

    /// Returns whether the writes of all chunks have ended.
    pub(super) fn is_settled(&self) -> bool {
        // Only the last ones can be in flight.
        self.lock().chunks.iter().rev().all(|chunk| chunk.outcome().is_some())
    }

    /// Returns the chunk with a number, if it is there.
    pub(super) fn chunk(&self, number: usize) -> Option<Arc<Chunk>> {
        self.lock().chunks.get(number).cloned()
    }

    /// Returns the bytes after the first `number` chunks and `skip` more bytes; wakes the task when more arrive.
    pub(super) fn poll_next(&self, number: usize, skip: usize, cx: &Context<'_>) -> Poll<Result<Next>> {
        let mut state = self.lock();
        if let Some(chunk) = state.chunks.get(number) {
            return Poll::Ready(Ok(Next::Chunk(Arc::clone(chunk))));
        }
        if let Some(error) = &state.error {
            return Poll::Ready(Err(shared_error(error)));
        }
        if let Some(tail) = state.tail.as_ref().filter(|_| state.flushed > skip) {
            return Poll::Ready(Ok(Next::Tail(Bytes::copy_from_slice(&tail[skip..state.flushed]))));
        }
        if !state.is_written {
            return Poll::Ready(Ok(Next::End));
        }
        add_waker(&mut state.wakers, cx);
        Poll::Pending
    }
}

/// Wakes the readers, after the lock is released.
fn wake(mut state: MutexGuard<'_, State>) {
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns an error that several readers and the writer report.
pub(super) fn shared_error(error: &Arc<Error>) -> DataFusionError {
    DataFusionError::External(Box::new(Arc::clone(error)))
}
