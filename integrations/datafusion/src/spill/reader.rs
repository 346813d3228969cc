//! A reader of a spill file.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use futures::Stream;
use sakiyomi_io::background::{ReadBytes, Transfer, read_bytes};
use sakiyomi_io::{Buffer, Error};
use sakiyomi_query::spill::Level;

use super::Shared;
use super::chunk::Chunk;
use super::external;
use super::file::{Inner, Next, shared_error};

/// Chunks that are read ahead of the operator, if the budget has their memory.
const AHEAD: usize = 2;

/// Bytes given out at a time. Each batch that lies in them is accounted with all of them, so that they are not more than
/// those of DataFusion's own readers.
const SLICE_BYTES: usize = 128 << 10;

/// The bytes of a file in order, each reader from its beginning.
pub(super) struct Reader {
    file: Arc<Inner>,
    /// The next chunk to read.
    number: usize,
    /// Bytes of the next chunk to give out that were given out before it was one.
    skip: usize,
    reads: VecDeque<Arc<Read>>,
    ready: Bytes,
    is_done: bool,
}

/// A chunk that is being read.
struct Read {
    chunk: Arc<Chunk>,
    state: Mutex<ReadState>,
}

#[derive(Default)]
struct ReadState {
    outcome: Option<Result<ReadBytes, Error>>,
    waker: Option<Waker>,
}

impl Reader {
    pub(super) fn new(file: &Arc<Inner>) -> Reader {
        Reader {
            file: Arc::clone(file),
            number: 0,
            skip: 0,
            reads: VecDeque::new(),
            ready: Bytes::new(),
            is_done: false,
        }
    }

    fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>>> {
        while self.ready.is_empty() {
            self.read_ahead()?;
            if let Some(read) = self.reads.front() {
                let Poll::Ready(outcome) = read.poll(cx) else { return Poll::Pending };
                let chunk = Arc::clone(&read.chunk);
                self.reads.pop_front();
                let mut bytes = restore(&self.file.shared, &chunk, outcome.map_err(external)?)?;
                self.ready = bytes.split_off(std::mem::take(&mut self.skip));
                continue;
            }
            let Poll::Ready(next) = self.file.poll_next(self.number, self.skip, cx) else {
                return Poll::Pending;
            };
            match next? {
                Next::End => return Poll::Ready(Ok(None)),
                Next::Tail(bytes) => {
                    self.skip += bytes.len();
                    self.ready = bytes;
                }
                Next::Chunk(chunk) => {
                    let Poll::Ready(written) = chunk.poll_written(cx) else { return Poll::Pending };
                    written.map_err(|error| shared_error(&error))?;
                }
            }
        }
        let slice = self.ready.split_to(self.ready.len().min(SLICE_BYTES));
        Poll::Ready(Ok(Some(slice)))
    }

    /// Begins to read the next chunks that are on the device.
    fn read_ahead(&mut self) -> Result<()> {
        let shared = &self.file.shared;
        while self.reads.len() < AHEAD
            && let Some(chunk) = self.file.chunk(self.number)
        {
            if self.reads.is_empty() && self.skip > 0 && self.skip == chunk.stored.raw_bytes {
                (self.number, self.skip) = (self.number + 1, 0);
                continue;
            }
            if !matches!(chunk.outcome(), Some(Ok(()))) {
                return Ok(());
            }
            let (file, start) = (chunk.extent.file(), chunk.extent.range().start);
            let range = start..start + chunk.stored.stored_bytes as u64;
            let capacity = read_bytes(file, range.clone());
            let buffer = match self.reads.is_empty() {
                // The budget may be in batches that operators have.
                true => shared.read_buffers.take_beyond(capacity).map_err(external)?,
                false => match shared.read_buffers.take(capacity).map_err(external)? {
                    Some(buffer) => buffer,
                    None => return Ok(()),
                },
            };
            shared.read_bytes.fetch_add(capacity as u64, Ordering::Relaxed);
            let read = Arc::new(Read { chunk: Arc::clone(&chunk), state: Mutex::default() });
            let reading = Arc::clone(&read);
            shared.io.submit([Transfer::read(file, range, buffer, move |outcome| reading.ended(outcome))]);
            self.reads.push_back(read);
            self.number += 1;
        }
        Ok(())
    }
}

/// Returns the data of a chunk, whose stored bytes were read.
fn restore(shared: &Shared, chunk: &Chunk, read: ReadBytes) -> Result<Bytes> {
    let failed = |error| DataFusionError::External(Box::new(error));
    let stored = &chunk.stored;
    if stored.level == Level::None {
        let is_intact = shared.compressor.restore(stored, &read, &mut []).map_err(failed)?;
        return if is_intact { Ok(Bytes::from_owner(read)) } else { Err(damaged(chunk)) };
    }
    let mut buffer = shared.read_buffers.take_beyond(stored.raw_bytes).map_err(external)?;
    let raw = &mut buffer.space()[..stored.raw_bytes];
    if !shared.compressor.restore(stored, &read, raw).map_err(failed)? {
        return Err(damaged(chunk));
    }
    buffer.set_len(stored.raw_bytes);
    Ok(Bytes::from_owner(Owned(buffer)))
}

fn damaged(chunk: &Chunk) -> DataFusionError {
    let (path, at) = (chunk.extent.file().path().display(), chunk.extent.range().start);
    DataFusionError::Execution(format!(
        "the spilled data at {at} of {path} was not read back as it was written; check the disk and the memory of the machine"
    ))
}

/// A buffer as the owner of shared bytes.
struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Read {
    fn lock(&self) -> MutexGuard<'_, ReadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, outcome: Result<ReadBytes, Error>) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Result<ReadBytes, Error>> {
        let mut state = self.lock();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Stream for Reader {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        let this = self.get_mut();
        if this.is_done {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = this.poll_ready(cx) else { return Poll::Pending };
        this.is_done = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.transpose())
    }
}
