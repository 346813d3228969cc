//! Files as streams of blocks that are read while the caller computes; the read path of all crates above.
//!
//! ```no_run
//! # fn main() -> Result<(), sakiyomi_io::Error> {
//! use sakiyomi_io::{ReadOptions, ReadStream};
//! let mut lines = 0;
//! for block in ReadStream::open("data.csv".as_ref(), &ReadOptions::default())? {
//!     lines += block?.iter().filter(|&&byte| byte == b'\n').count();
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A stream reads one file sequentially, or any ranges of any files, each of which is returned as one contiguous
//! block; ranges that are close together are read in one operation. A stream has an engine of its own, or shares an
//! engine and a memory budget with other streams ([`Io`]).
//!
//! A bounded number of reads is in flight; memory does not grow with the file. Blocks are returned in the order of
//! the requests, or of completion. An error takes the place of its block, and the blocks after it are still returned.
//! The size is that of the file when it was opened: bytes appended later are not read, and bytes truncated later are
//! an error.
//!
//! Short reads, interrupted calls, the limit of a single call and the unaligned end of a file under direct I/O are
//! handled here once for all engines: a read is continued after the bytes received until it is complete, or the file
//! ends.

mod block;
mod options;
mod plan;
pub(crate) mod progress;
mod random;
mod ready;
mod single;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use block::shrunk;
use block::{Held, Late};
use plan::{Plan, Planned};
use progress::{Next, Progress, Span};
use ready::ReadyBlocks;

pub use block::Block;
pub use options::{Order, ReadOptions, SharedOptions};
pub use plan::FileRange;
pub use random::{RandomRead, RandomReader};
pub use single::Single;

pub use crate::shared::Grant;

use crate::buffer::{Account, BufferPool, Released, StreamAccount};
use crate::engine::{self, Completion, Engine, Op, Payload};
use crate::error::same_error;
use crate::file::IoFile;
use crate::shared::{Io, Stream, Traits};
use crate::{EngineCpu, Error, IoStats};

/// Smallest block of a stream, in bytes, when memory is short. Each stream is guaranteed one.
pub const BLOCK_MIN: usize = 64 << 10;

/// An iterator over the blocks of a file or of ranges. It ends after the last block.
pub struct ReadStream {
    // Dropped before the account: operations in flight hold memory claimed from it.
    stream: Stream,
    account: StreamAccount,
    plan: Plan,
    block: usize,
    /// Size of the smallest block, and guarantee of the account, in bytes.
    block_min: usize,
    /// Reads in flight, by tag.
    flying: Vec<Option<InFlightRead>>,
    free: Vec<usize>,
    /// Sequence number of the next range to read.
    planned: u64,
    ready: ReadyBlocks,
    /// Maximum blocks in flight and ready at the same time.
    window: usize,
    /// Reused to avoid allocation.
    completions: Vec<Completion>,
    stats: IoStats,
    /// Errors found in blocks that the caller already has.
    late: Late,
    failed: bool,
}

struct InFlightRead {
    /// Sequence number of its first range.
    place: u64,
    first: Range<u64>,
    others: Vec<Range<u64>>,
    progress: Progress,
    service: Duration,
}

/// Why no further read was submitted.
enum Full {
    /// The window is full, or nothing is left to read.
    Window,
    /// No memory is available now.
    Memory(Released),
}

impl ReadStream {
    /// Opens a regular file or a block device, with an engine and memory of its own.
    ///
    /// # Errors
    /// If it cannot be opened with this access, the block size does not suit direct I/O, there is not enough memory,
    /// or the system does not support the engine.
    ///
    /// # Panics
    /// If the block size is 0.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<ReadStream, Error> {
        assert!(options.block > 0, "a block of no bytes");
        let file = Arc::new(IoFile::open(path, options.access)?);
        let alignment = file.alignment().offset;
        if !options.block.is_multiple_of(alignment) {
            return Err(Error::Unaligned { path: path.to_owned(), block: options.block, alignment });
        }
        let spec = options.engine;
        let buffers = if spec.kind.uses_buffers() { spec.ahead(options.block) + options.hold } else { 0 };
        let pool = match buffers {
            0 => BufferPool::with_budget(0, options.memory),
            _ => BufferPool::fixed(buffers, options.block, options.memory)?,
        };
        let opened = engine::open(spec, options.block, Some(&pool).filter(|_| options.register))?;
        let stream = Stream::alone(opened.engine, pool, Traits::of(spec, opened.registered));
        ReadStream::alone(stream, spec.ahead(options.block), &file, options)
    }

    /// Creates a stream as the only user of any engine, such as one over files in memory ([`crate::fake`]). Ignores
    /// the options of the engine and of memory.
    ///
    /// # Errors
    /// If the pool does not have a block.
    ///
    /// # Panics
    /// If the block size is 0, or not a multiple of the alignment.
    pub fn over(
        engine: Box<dyn Engine>,
        pool: BufferPool,
        file: &Arc<IoFile>,
        options: &ReadOptions,
    ) -> Result<ReadStream, Error> {
        let ahead = engine.free_slots();
        ReadStream::alone(Stream::alone(engine, pool, Traits::UNKNOWN), ahead, file, options)
    }

    fn alone(
        mut stream: Stream,
        ahead: usize,
        file: &Arc<IoFile>,
        options: &ReadOptions,
    ) -> Result<ReadStream, Error> {
        let alignment = file.alignment().offset;
        assert!(options.block > 0 && options.block.is_multiple_of(alignment), "an unaligned block");
        stream.attach(file);
        let size = file.size();
        let range = options.range.clone().unwrap_or(0..u64::MAX);
        let range = range.start.min(size)..range.end.min(size);
        let plan = Plan::Blocks { file: Arc::clone(file), rest: [range].into() };
        ReadStream::new(stream, None, plan, options.order, options.block..options.block, ahead, options.hold)
    }

    /// Reads a range of a file with an engine and a budget shared with other streams. The range is cut at the file's
    /// end.
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget has no room for another stream.
    ///
    /// # Panics
    /// If the block size is 0.
    pub fn shared(
        io: &Io,
        file: &Arc<IoFile>,
        range: Range<u64>,
        options: &SharedOptions,
    ) -> Result<ReadStream, Error> {
        ReadStream::shared_within(io, None, file, range, options)
    }

    /// Like [`ReadStream::shared`], with the memory of an account that was opened before. The stream never waits for
    /// other users of the account: if no memory is left, that is an error ([`Error::AllHeld`]), after which the
    /// stream can continue.
    ///
    /// # Errors
    /// Returns the errors of [`ReadStream::shared`]; not [`Error::Budget`] if an account is given.
    ///
    /// # Panics
    /// Like [`ReadStream::shared`].
    pub fn shared_within(
        io: &Io,
        account: Option<&Arc<Account>>,
        file: &Arc<IoFile>,
        range: Range<u64>,
        options: &SharedOptions,
    ) -> Result<ReadStream, Error> {
        let size = file.size();
        let range = range.start.min(size)..range.end.min(size);
        ReadStream::extents(io, account, file, vec![range], options)
    }

    /// Reads some ranges of a file one after the other, in blocks, as [`ReadStream::shared_within`] reads one.
    ///
    /// # Errors
    /// Returns the errors of [`ReadStream::shared`]; not [`Error::Budget`] if an account is given.
    ///
    /// # Panics
    /// Like [`ReadStream::shared`].
    pub fn extents(
        io: &Io,
        account: Option<&Arc<Account>>,
        file: &Arc<IoFile>,
        extents: Vec<Range<u64>>,
        options: &SharedOptions,
    ) -> Result<ReadStream, Error> {
        assert!(options.block > 0, "a block of no bytes");
        let alignment = file.alignment().offset;
        let block = options.block.next_multiple_of(alignment);
        let least = BLOCK_MIN.next_multiple_of(alignment).min(block);
        let plan = Plan::Blocks { file: Arc::clone(file), rest: extents.into() };
        let mut stream = io.stream();
        stream.attach(file);
        ReadStream::new(stream, account, plan, options.order, least..block, options.ahead, 1)
    }

    /// Reads ranges of files with an engine and a budget shared with other streams. Each range is one block, even an
    /// empty one; a range beyond its file's end gives an error in its place.
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget has no room for another stream.
    pub fn ranges(
        io: &Io,
        ranges: impl IntoIterator<Item = FileRange, IntoIter: Send + 'static>,
        options: &SharedOptions,
    ) -> Result<ReadStream, Error> {
        ReadStream::ranges_within(io, None, ranges, options)
    }

    /// Like [`ReadStream::ranges`], with the memory of an account that was opened before: see
    /// [`ReadStream::shared_within`].
    ///
    /// # Errors
    /// Returns the errors of [`ReadStream::ranges`]; not [`Error::Budget`] if an account is given.
    pub fn ranges_within(
        io: &Io,
        account: Option<&Arc<Account>>,
        ranges: impl IntoIterator<Item = FileRange, IntoIter: Send + 'static>,
        options: &SharedOptions,
    ) -> Result<ReadStream, Error> {
        let ranges = Box::new(ranges.into_iter());
        let plan = Plan::Ranges { ranges, next: Default::default(), gap: options.gap };
        let least = BLOCK_MIN.min(options.block);
        ReadStream::new(io.stream(), account, plan, options.order, least..options.block, options.ahead, 1)
    }

    fn new(
        stream: Stream,
        account: Option<&Arc<Account>>,
        plan: Plan,
        order: Order,
        block: Range<usize>,
        ahead: usize,
        hold: usize,
    ) -> Result<ReadStream, Error> {
        let ahead = ahead.max(1);
        // Neighboring ranges are not joined beyond the available memory.
        let maps = stream.traits().maps;
        let most = if maps { usize::MAX } else { stream.pool().budget().max(1) };
        let block = block.start.min(most)..block.end.min(most);
        let account = match account {
            Some(account) => StreamAccount::Shared(Arc::clone(account)),
            None => StreamAccount::Own(stream.pool().account(if maps { 0 } else { block.start })?),
        };
        Ok(ReadStream {
            stream,
            account,
            plan,
            block: block.end,
            block_min: block.start,
            flying: (0..ahead).map(|_| None).collect(),
            free: (0..ahead).rev().collect(),
            planned: 0,
            ready: ReadyBlocks::new(order),
            window: ahead + hold,
            completions: Vec::with_capacity(ahead),
            stats: IoStats::default(),
            late: Late::default(),
            failed: false,
        })
    }

    /// Returns which part of the requested memory and registration was granted.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.stream.grant()
    }

    /// Submits the first reads without waiting for them, for a caller that takes blocks later.
    ///
    /// # Errors
    /// If the engine cannot be driven.
    pub fn start(&mut self) -> Result<(), Error> {
        self.fill();
        self.reap(false).map(drop)
    }

    /// Returns counters of its reads so far.
    #[must_use]
    pub fn stats(&self) -> IoStats {
        self.stats
    }

    /// Returns the CPU time so far of the threads of its engine, which other streams may share.
    #[must_use]
    pub fn engine_cpu(&self) -> EngineCpu {
        self.stream.engine_cpu()
    }

    fn in_flight(&self) -> usize {
        self.flying.len() - self.free.len()
    }

    /// Returns the size of the next block in bytes: smaller while many streams share the budget, so that each can
    /// have one block with its caller and one in flight.
    fn block_now(&self) -> usize {
        if self.block_min == self.block {
            return self.block;
        }
        let share = self.stream.pool().budget() / (2 * self.stream.sharing());
        // A power of two, so that streams can reuse each other's memory.
        let share = (share + 1).next_power_of_two() / 2;
        share.clamp(self.block_min, self.block)
    }

    /// Submits reads until the window or the memory is full.
    fn fill(&mut self) -> Full {
        let mut block = self.block_now();
        while !self.free.is_empty() && self.in_flight() + self.ready.count < self.window {
            let Some(planned) = self.plan.next(block) else { return Full::Window };
            if planned.span().is_empty() {
                self.give_empty(&planned);
                continue;
            }
            let alignment = planned.file.alignment().offset as u64;
            let span = match Span::checked(planned.span(), alignment, planned.file.size()) {
                Ok(span) => span,
                Err(at) => {
                    self.refuse(planned, at);
                    continue;
                }
            };
            let (wanted, budget) = (span.length as u64, self.stream.pool().budget() as u64);
            if wanted > budget && !self.stream.traits().maps {
                let place = self.planned;
                self.planned += 1 + planned.others.len() as u64;
                self.give_errors(place, planned.others.len(), || Error::Budget {
                    wanted,
                    left: budget,
                    budget,
                });
                continue;
            }
            let payload = match self.payload(span.length) {
                Ok(payload) => payload,
                Err(released) => {
                    self.plan.put_back(planned);
                    let is_idle = self.in_flight() == 0 && self.ready.count == 0;
                    if block > self.block_min && is_idle {
                        // A block of this size is guaranteed, unless the caller holds it.
                        block = self.block_min;
                        continue;
                    }
                    return Full::Memory(released);
                }
            };
            self.submit(planned, span, payload);
        }
        Full::Window
    }

    /// Allocates memory for a read; the inner error is the system's. `Err` with the state of releases if the budget
    /// is exhausted.
    fn payload(&self, length: usize) -> Result<io::Result<Payload>, Released> {
        let traits = self.stream.traits();
        if traits.maps {
            return Ok(Ok(Payload::Nothing));
        }
        if traits.takes_late {
            return self.account.get().reserve(length).map(|reserved| Ok(Payload::Reserved(reserved)));
        }
        self.account.get().take(length).map(|taken| taken.map(Payload::Buffer))
    }

    fn submit(&mut self, planned: Planned, span: Span, payload: io::Result<Payload>) {
        let place = self.planned;
        self.planned += 1 + planned.others.len() as u64;
        let payload = match payload {
            Ok(payload) => payload,
            Err(source) => {
                return self.fail_all(place, planned.others.len(), &planned.file, &span, &source);
            }
        };
        let slot = self.free.pop().expect("looked at by the caller");
        let Planned { file, first, others } = planned;
        let op = Op::read(slot as u64, file, span.offset, span.length, payload);
        let progress = Progress::new(span);
        self.flying[slot] = Some(InFlightRead { place, first, others, progress, service: Duration::ZERO });
        self.stream.submit(op);
    }

    /// Adds the block of an empty range, which needs no read.
    fn give_empty(&mut self, planned: &Planned) {
        let block = Block {
            held: Held::One(Payload::Nothing),
            within: 0..0,
            offset: planned.first.start,
            service: Duration::ZERO,
            late: None,
            file: Arc::clone(&planned.file),
        };
        self.ready.insert(self.planned, Ok(block));
        self.planned += 1;
    }

    /// Adds an error for a range that the file did not have when it was opened.
    fn refuse(&mut self, planned: Planned, at: u64) {
        let place = self.planned;
        self.planned += 1 + planned.others.len() as u64;
        for (index, part) in std::iter::once(&planned.first).chain(&planned.others).enumerate() {
            let (path, offset) = (planned.file.path().to_owned(), part.start);
            let length = usize::try_from(part.end.saturating_sub(offset)).unwrap_or(usize::MAX);
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, format!("the file ends at {at}"));
            let block = Err(Error::Read { path, offset, length, source });
            self.ready.insert(place + index as u64, block);
        }
    }

    /// Fails a read and all of its ranges.
    fn fail_all(&mut self, place: u64, others: usize, file: &IoFile, span: &Span, source: &io::Error) {
        self.give_errors(place, others, || Error::Read {
            path: file.path().to_owned(),
            offset: span.offset,
            length: span.length,
            source: same_error(source),
        });
    }

    /// Adds the same error in the place of a range and of the `others` after it.
    fn give_errors(&mut self, place: u64, others: usize, error: impl Fn() -> Error) {
        for index in 0..=others as u64 {
            self.ready.insert(place + index, Err(error()));
        }
    }

    /// Drives the engine and processes completions; with `waits`, blocks until an operation completes. Returns false
    /// if nothing was in flight.
    fn reap(&mut self, waits: bool) -> Result<bool, Error> {
        let mut completions = std::mem::take(&mut self.completions);
        let outcome = if waits {
            let begun = Instant::now();
            let outcome = self.stream.wait(&mut completions);
            self.stats.waiting += begun.elapsed();
            outcome
        } else {
            self.stream.poll(&mut completions).map(|()| true)
        };
        self.take_all(completions);
        outcome
    }

    fn take_all(&mut self, mut completions: Vec<Completion>) {
        completions.drain(..).for_each(|completion| self.take(completion));
        self.completions = completions;
    }

    /// Processes the completion of a call: continues the read, or makes its blocks ready.
    fn take(&mut self, completion: Completion) {
        let Completion { mut op, result, service } = completion;
        let slot = op.tag as usize;
        let mut flying = self.flying[slot].take().expect("a read in flight");
        flying.service += service;
        self.stats.calls += 1;
        self.stats.service += service;
        match flying.progress.after(&mut op, result) {
            Next::GoOn => {
                self.flying[slot] = Some(flying);
                return self.stream.submit(op);
            }
            Next::Whole => self.give(flying, op),
            Next::Shrunk { at } => {
                self.give_errors(flying.place, flying.others.len(), || shrunk(&op.file, at));
            }
            Next::Failed(source) => {
                let span = flying.progress.span();
                self.fail_all(flying.place, flying.others.len(), &op.file, span, &source);
            }
        }
        self.free.push(slot);
    }

    /// Makes the blocks of a completed read ready.
    fn give(&mut self, flying: InFlightRead, op: Op) {
        let InFlightRead { place, first, others, progress, service } = flying;
        let Op { payload, file, .. } = op;
        let span = progress.span();
        self.stats.bytes += span.within.len() as u64;
        let late = matches!(payload, Payload::Mapping(_)).then(|| Arc::clone(&self.late));
        let block = |held, part: &Range<u64>, file| Block {
            held,
            within: (part.start - span.offset) as usize..(part.end - span.offset) as usize,
            offset: span.offset,
            service,
            late: late.clone(),
            file,
        };
        if others.is_empty() {
            let block = Ok(block(Held::One(payload), &first, file));
            return self.ready.insert(place, block);
        }
        let payload = Arc::new(payload);
        for (index, part) in std::iter::once(&first).chain(&others).enumerate() {
            let block = Ok(block(Held::Shared(Arc::clone(&payload)), part, Arc::clone(&file)));
            self.ready.insert(place + index as u64, block);
        }
    }

    fn cannot_wait(&mut self, error: Error) -> Option<Result<Block, Error>> {
        self.failed = true;
        Some(Err(error))
    }

    /// Waits for memory when the budget is exhausted and this stream has nothing in flight.
    fn wait_for_memory(&mut self, since: Released) -> Result<(), Error> {
        let mut completions = std::mem::take(&mut self.completions);
        let begun = Instant::now();
        let outcome = self.stream.wait_for_memory(since, self.account.own(), &mut completions);
        self.stats.waiting += begun.elapsed();
        self.take_all(completions);
        outcome
    }
}

impl Iterator for ReadStream {
    type Item = Result<Block, Error>;

    fn next(&mut self) -> Option<Result<Block, Error>> {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(error) = late {
            return Some(Err(error));
        }
        if self.failed {
            return None;
        }
        loop {
            let full = self.fill();
            if let Some(block) = self.ready.pop() {
                // Starts the submitted operations, so that they are in flight while the caller computes.
                return match self.reap(false) {
                    Ok(_) => Some(block),
                    Err(error) => self.cannot_wait(error),
                };
            }
            if self.in_flight() > 0 {
                if let Err(error) = self.reap(true) {
                    return self.cannot_wait(error);
                }
                continue;
            }
            match full {
                Full::Memory(since) => {
                    if let Err(error) = self.wait_for_memory(since) {
                        return Some(Err(error));
                    }
                }
                Full::Window if self.plan.is_at_end() && self.ready.count == 0 => return None,
                Full::Window => {}
            }
        }
    }
}
