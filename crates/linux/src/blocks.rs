//! A file as a stream of blocks that are read while the caller works: what everything above reads through.
//!
//! ```no_run
//! # fn main() -> Result<(), sakiyomi_linux::Error> {
//! use sakiyomi_linux::{Blocks, Options};
//! let mut lines = 0;
//! for block in Blocks::open("data.csv".as_ref(), &Options::default())? {
//!     lines += block?.iter().filter(|&&byte| byte == b'\n').count();
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A bounded number of reads is in flight, into buffers that are used again; memory does not grow with the file. Blocks
//! come in the file's order or as they arrive. An error stands in the place of its block, and the blocks after it still
//! come. The size is that of the moment when the file was opened: what is added later is not read, and what is gone later
//! is an error. Dropping the stream cancels what is in flight.
//!
//! Short reads, interrupted calls, the limit of a single call and the unaligned end of a file under direct I/O are dealt
//! with here once for all methods: a read goes on behind what it has got until it is whole, or the file has no more.

mod plan;
mod progress;
mod single;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plan::Plan;
use progress::{Next, Progress, Span};
pub use single::Single;

use crate::buffer::{Granted, Memory, Pool};
use crate::engine::{self, Completion, Engine, EngineSpec, Op, Payload};
use crate::file::{Access, IoFile};
use crate::{EngineKind, Error};

/// In which order blocks are given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were asked for, however they arrive.
    #[default]
    File,
    /// As they arrive.
    Arrival,
}

/// In which order blocks are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other.
    #[default]
    Sequential,
    /// Each once, in an order that the seed decides.
    Random {
        /// The same seed gives the same order.
        seed: u64,
    },
}

/// How a file is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The method and its depth.
    pub method: EngineSpec,
    /// Through the page cache or around it.
    pub access: Access,
    /// Bytes of a block; the last one may be shorter.
    pub block: usize,
    /// The memory to read into.
    pub memory: Memory,
    /// Whether the kernel is told of the buffers beforehand, where the method can and the machine allows it.
    pub register: bool,
    /// How blocks are given out.
    pub order: Order,
    /// How blocks are asked for.
    pub pattern: Pattern,
    /// Only these bytes of the file.
    pub range: Option<Range<u64>>,
    /// Whether it begins again when all blocks were read, for ever.
    pub endless: bool,
    /// Blocks that the caller keeps at the same time. With fewer buffers than it keeps it would wait for itself.
    pub hold: usize,
}

/// Where direct transfers are fastest on most devices: large enough to be few, small enough for one request.
const USUAL_BLOCK: usize = 1 << 20;

impl Default for Options {
    /// `read` beside the caller, through the page cache, 1 MiB at a time, in the file's order.
    fn default() -> Options {
        Options {
            method: EngineSpec::usual(EngineKind::Read),
            access: Access::Buffered,
            block: USUAL_BLOCK,
            memory: Memory::Huge,
            register: true,
            order: Order::File,
            pattern: Pattern::Sequential,
            range: None,
            endless: false,
            hold: 1,
        }
    }
}

/// Properties of a file that a stream needs.
#[derive(Clone, Debug)]
pub struct FileInfo {
    /// What errors call it.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// What offsets and lengths of reads must be multiples of, in bytes.
    pub alignment: usize,
}

/// What was granted of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The memory of the buffers; none if the method has its own.
    pub memory: Option<Granted>,
    /// Whether the kernel knows them beforehand.
    pub registered: bool,
}

/// The stream. It ends after the last block, unless it is endless.
pub struct Blocks {
    file: Arc<IoFile>,
    info: Arc<FileInfo>,
    // Before the pool's handle: it may use its memory until it is dropped.
    engine: Box<dyn Engine>,
    pool: Option<Pool>,
    grant: Grant,
    plan: Plan,
    order: Order,
    /// Reads in flight, by the number that goes with them.
    flying: Vec<Option<Flying>>,
    free: Vec<usize>,
    /// The place in the order of the next read, and of the next block to give out.
    asked: u64,
    given: u64,
    ready: BinaryHeap<Reverse<Ready>>,
    /// Blocks in flight and ready at the same time, at most.
    window: usize,
    completions: Vec<Completion>,
    /// What was found out about blocks that the caller already has.
    late: Late,
    failed: bool,
}

type Late = Arc<Mutex<Option<Error>>>;

struct Flying {
    place: u64,
    progress: Progress,
    took: Duration,
}

struct Ready {
    place: u64,
    block: Result<Block, Error>,
}

impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Ready) -> bool {
        self.place == other.place
    }
}

impl Eq for Ready {}

impl Blocks {
    /// Opens a regular file or a block device.
    ///
    /// # Errors
    /// If it cannot be opened so, the block's size does not suit direct I/O, there is not enough memory, or the system
    /// does not offer the method.
    ///
    /// # Panics
    /// If the block is of no bytes.
    pub fn open(path: &Path, options: &Options) -> Result<Blocks, Error> {
        assert!(options.block > 0, "a block of no bytes");
        let file = Arc::new(IoFile::open(path, options.access)?);
        let alignment = file.alignment().offset;
        if !options.block.is_multiple_of(alignment) {
            return Err(Error::Unaligned { path: path.to_owned(), block: options.block, alignment });
        }
        let spec = options.method;
        let buffers = spec.ahead(options.block) + options.hold;
        let pool = spec.kind.uses_buffers().then(|| Pool::new(buffers, options.block, options.memory));
        let pool = pool.transpose()?;
        let opened = engine::open(spec, options.block, pool.as_ref().filter(|_| options.register))?;
        let mut blocks = Blocks::over(opened.engine, file, pool, options);
        blocks.grant.registered = opened.registered;
        Ok(blocks)
    }

    /// A stream over any engine, such as one over files in memory ([`crate::fake`]). Only those options are used that
    /// concern the order and size of blocks.
    ///
    /// # Panics
    /// If the block is of no bytes, or no multiple of the alignment.
    #[must_use]
    pub fn over(
        mut engine: Box<dyn Engine>,
        file: Arc<IoFile>,
        pool: Option<Pool>,
        options: &Options,
    ) -> Blocks {
        let info = FileInfo::of(&file);
        assert!(options.block > 0 && options.block.is_multiple_of(info.alignment), "an unaligned block");
        let ahead = engine.free_slots();
        engine.attach(&file);
        let range = options.range.clone().unwrap_or(0..u64::MAX);
        let range = range.start.min(info.size)..range.end.min(info.size);
        Blocks {
            plan: Plan::new(range, options.block as u64, options.pattern, options.endless),
            file,
            info: Arc::new(info),
            grant: Grant { memory: pool.as_ref().map(Pool::granted), registered: false },
            engine,
            pool,
            order: options.order,
            flying: (0..ahead).map(|_| None).collect(),
            free: (0..ahead).rev().collect(),
            asked: 0,
            given: 0,
            ready: BinaryHeap::new(),
            window: ahead + options.hold,
            completions: Vec::with_capacity(ahead),
            late: Late::default(),
            failed: false,
        }
    }

    /// What was granted of what was asked for.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.grant
    }

    fn in_flight(&self) -> usize {
        self.flying.len() - self.free.len()
    }

    /// Starts as many reads as there are buffers for, or may be in flight and ready.
    fn fill(&mut self) {
        while !self.free.is_empty()
            && self.engine.free_slots() > 0
            && self.in_flight() + self.ready.len() < self.window
        {
            let payload = match &self.pool {
                None => Payload::Nothing,
                Some(pool) => match pool.reserve() {
                    None => return,
                    Some(reservation) => Payload::Reserved(reservation),
                },
            };
            let Some(range) = self.plan.next() else { return };
            let span = Span::new(range, self.info.alignment as u64, self.info.size);
            let slot = self.free.pop().expect("looked at above");
            let file = Arc::clone(&self.file);
            self.engine.submit(Op::read(slot as u64, file, span.offset, span.length, payload));
            let (place, progress) = (self.asked, Progress::new(span));
            self.flying[slot] = Some(Flying { place, progress, took: Duration::ZERO });
            self.asked += 1;
        }
    }

    /// Reaps at least `at_least` completions, and sees what follows from each.
    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        let waited = self.engine.reap(at_least, &mut completions);
        completions.drain(..).for_each(|completion| self.take(completion));
        self.completions = completions;
        waited
    }

    /// A call has completed: its read continues, or its block is ready.
    fn take(&mut self, completion: Completion) {
        let Completion { mut op, result, service } = completion;
        let slot = op.tag as usize;
        let mut flying = self.flying[slot].take().expect("a read in flight");
        flying.took += service;
        let block = match flying.progress.after(&mut op, result) {
            Next::GoOn => {
                self.flying[slot] = Some(flying);
                return self.engine.submit(op);
            }
            Next::Whole => Ok(self.block(op.payload, flying.progress.span(), flying.took)),
            Next::Shrunk { at } => Err(self.info.shrunk(at)),
            Next::Failed(source) => {
                let Span { offset, length, .. } = *flying.progress.span();
                Err(Error::Read { path: self.info.path.clone(), offset, length, source })
            }
        };
        self.free.push(slot);
        self.ready.push(Reverse(Ready { place: flying.place, block }));
    }

    fn block(&self, payload: Payload, span: &Span, took: Duration) -> Block {
        let late = matches!(payload, Payload::Mapping(_)).then(|| Arc::clone(&self.late));
        Block {
            payload,
            within: span.within.clone(),
            offset: span.offset,
            took,
            late,
            info: Arc::clone(&self.info),
        }
    }

    /// The next block if it is there.
    fn give(&mut self) -> Option<Result<Block, Error>> {
        let next = self.ready.peek()?;
        if self.order == Order::File && next.0.place != self.given {
            return None;
        }
        self.given += 1;
        self.ready.pop().map(|Reverse(ready)| ready.block)
    }

    fn fail(&mut self, error: Error) -> Option<Result<Block, Error>> {
        self.failed = true;
        Some(Err(error))
    }

    fn cannot_wait(&mut self, source: io::Error) -> Option<Result<Block, Error>> {
        let what = format!("wait for reads of {}", self.info.path.display());
        self.fail(Error::System { what, source })
    }
}

impl Iterator for Blocks {
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
            self.fill();
            if let Some(block) = self.give() {
                // What was begun just now is on its way while the caller works.
                return match self.wait(0) {
                    Ok(()) => Some(block),
                    Err(error) => self.cannot_wait(error),
                };
            }
            if self.in_flight() == 0 {
                if self.plan.is_at_end() {
                    return None;
                }
                let buffers = self.pool.as_ref().map_or(0, Pool::count);
                return self.fail(Error::AllHeld { buffers });
            }
            if let Err(error) = self.wait(1) {
                return self.cannot_wait(error);
            }
        }
    }
}

impl FileInfo {
    pub(crate) fn of(file: &IoFile) -> FileInfo {
        FileInfo { path: file.path().to_owned(), size: file.size(), alignment: file.alignment().offset }
    }

    fn shrunk(&self, at: u64) -> Error {
        Error::Shrunk { path: self.path.clone(), at, expected: self.size }
    }
}

/// A block of a file. Its memory is used again when it is dropped.
#[derive(Debug)]
pub struct Block {
    payload: Payload,
    /// The part of the content that was asked for.
    within: Range<usize>,
    /// Where the content begins in the file.
    offset: u64,
    took: Duration,
    /// Where a mapping that turns out to be broken is told of.
    late: Option<Late>,
    info: Arc<FileInfo>,
}

impl Block {
    /// Where it begins in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset + self.within.start as u64
    }

    /// How long the system took for it, from the start to the end of its calls; waiting in our own queue is not in it.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Whether its bytes are the file's own pages, not a copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.payload, Payload::Mapping(_))
    }

    /// Whether its bytes are the file's. Only a mapping can lose them after it was handed out, if the file shrinks: then
    /// zeros were read, and the stream gives the error in the place of its next block as well.
    ///
    /// # Errors
    /// [`Error::Shrunk`], or [`Error::Read`] if a page could not be fetched.
    pub fn intact(&self) -> Result<(), Error> {
        let Payload::Mapping(mapping) = &self.payload else { return Ok(()) };
        let (path, offset, length) = (&self.info.path, self.offset(), self.len());
        let failed = |source| Error::Read { path: path.clone(), offset, length, source };
        let size = mapping.file_size().map_err(failed)?;
        match () {
            () if size < offset + length as u64 => Err(self.info.shrunk(size)),
            () if mapping.is_broken() => Err(failed(io::Error::from_raw_os_error(libc::EIO))),
            () => Ok(()),
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.payload.bytes()[self.within.clone()]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(late) = &self.late else { return };
        if let Err(error) = self.intact() {
            late.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}
