//! Files in blocks that are read ahead, for callers that never wait.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::channel::oneshot;
use futures::{FutureExt, Stream};
use sakiyomi_io::background::{BackgroundIo, ReadBytes, Transfer, read_bytes};
use sakiyomi_io::{EngineSpec, Error, IoFile};

use crate::memory::Buffers;

/// Options of a reader.
#[derive(Clone, Copy, Debug)]
pub struct BlockOptions {
    /// Bytes of buffers that are used again; more are taken where nothing else would continue.
    pub memory: usize,
    /// Bytes of a block of a stream.
    pub block: usize,
    /// Blocks that are read ahead of the reader of a stream.
    pub ahead: usize,
}

/// An engine and buffers, which all streams of a process may share. Clones are handles of the same.
#[derive(Clone, Debug)]
pub struct BlockReader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // First: its transfers use the memory.
    io: BackgroundIo,
    buffers: Buffers,
    options: BlockOptions,
}

/// A read in flight.
type Reading = oneshot::Receiver<Result<ReadBytes, Error>>;

impl BlockReader {
    /// Opens an engine.
    ///
    /// # Errors
    /// If the system does not offer it.
    pub fn new(engine: EngineSpec, options: BlockOptions) -> Result<BlockReader, Error> {
        BlockReader::over(BackgroundIo::open(engine)?, options)
    }

    /// Over any engine, such as one with faults.
    ///
    /// # Errors
    /// None at present.
    pub fn over(io: BackgroundIo, options: BlockOptions) -> Result<BlockReader, Error> {
        let buffers = Buffers::new(options.memory)?;
        Ok(BlockReader { shared: Arc::new(Shared { io, buffers, options }) })
    }

    /// Begins to read ranges, which the file has, in one batch; they must not be empty. The futures need not be polled for
    /// the reads to continue.
    ///
    /// # Errors
    /// If the memory is too little for them.
    pub fn read(
        &self,
        file: &Arc<IoFile>,
        ranges: &[Range<u64>],
    ) -> Result<Vec<impl Future<Output = Result<Bytes, Error>> + Send + use<>>, Error> {
        let mut transfers = Vec::with_capacity(ranges.len());
        let mut outcomes = Vec::with_capacity(ranges.len());
        for range in ranges {
            let buffer = self.shared.buffers.take_beyond(read_bytes(file, range.clone()))?;
            let (tell, told) = oneshot::channel();
            transfers.push(Transfer::read(file, range.clone(), buffer, move |outcome| {
                // A reader that is gone needs no bytes.
                let _ = tell.send(outcome);
            }));
            outcomes.push(told.map(received));
        }
        self.shared.io.submit(transfers);
        Ok(outcomes)
    }

    /// A range of a file as a stream of blocks. Its first reads begin at once.
    #[must_use]
    pub fn stream(&self, file: &Arc<IoFile>, range: Range<u64>) -> Blocks {
        let mut blocks = Blocks {
            shared: Arc::clone(&self.shared),
            file: Arc::clone(file),
            rest: range,
            reads: VecDeque::new(),
            fault: None,
        };
        blocks.fault = blocks.read_ahead().err();
        blocks
    }
}

fn received(outcome: Result<Result<ReadBytes, Error>, oneshot::Canceled>) -> Result<Bytes, Error> {
    match outcome {
        Ok(read) => read.map(Bytes::from_owner),
        Err(canceled) => Err(Error::System {
            what: "read a block, because its engine has ended".into(),
            source: std::io::Error::other(canceled),
        }),
    }
}

/// A range of a file in blocks, some of which are read ahead. The first error ends it.
#[derive(Debug)]
pub struct Blocks {
    shared: Arc<Shared>,
    file: Arc<IoFile>,
    rest: Range<u64>,
    reads: VecDeque<Reading>,
    /// Error of the reads that began with the stream.
    fault: Option<Error>,
}

impl Blocks {
    fn read_ahead(&mut self) -> Result<(), Error> {
        let mut transfers = Vec::new();
        let options = &self.shared.options;
        while self.reads.len() <= options.ahead && !self.rest.is_empty() {
            // Blocks end at multiples of their size, so that those of direct reads do not overlap.
            let block = options.block.max(1) as u64;
            let end = ((self.rest.start / block + 1) * block).min(self.rest.end);
            let range = self.rest.start..end;
            let capacity = read_bytes(&self.file, range.clone());
            let buffers = &self.shared.buffers;
            let buffer = match self.reads.is_empty() {
                true => buffers.take_beyond(capacity)?,
                false => match buffers.take(capacity)? {
                    Some(buffer) => buffer,
                    None => break,
                },
            };
            let (tell, told) = oneshot::channel();
            transfers.push(Transfer::read(&self.file, range, buffer, move |outcome| {
                let _ = tell.send(outcome);
            }));
            self.reads.push_back(told);
            self.rest.start = end;
        }
        self.shared.io.submit(transfers);
        Ok(())
    }

    fn end(&mut self) {
        self.reads.clear();
        self.rest = 0..0;
    }
}

impl Stream for Blocks {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let this = self.get_mut();
        let begun = this.fault.take().map_or_else(|| this.read_ahead(), Err);
        if let Err(error) = begun {
            this.end();
            return Poll::Ready(Some(Err(error)));
        }
        let Some(first) = this.reads.front_mut() else { return Poll::Ready(None) };
        let Poll::Ready(outcome) = first.poll_unpin(cx) else { return Poll::Pending };
        this.reads.pop_front();
        let read = received(outcome);
        if read.is_err() {
            this.end();
        }
        Poll::Ready(Some(read))
    }
}
