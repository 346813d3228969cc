//! Transfers that call back, for callers that never wait, such as tasks of an async runtime: a thread drives an engine.
//!
//! ```text
//! callers: submit(transfers) ─► queue ─► thread: submit, reap ─► engine
//!                                   transfer.done(outcome) ◄──────┘
//! ```
//!
//! Jobs that are handed over together are submitted together: one lock, and at most one wake-up of the thread. While
//! transfers are in flight the thread waits for the engine, and takes further transfers when one of them has completed.
//!
//! Short transfers, interruptions and the unaligned end of a file under direct I/O are handled as by the streams
//! ([`crate::read`], [`mod@crate::write`]).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::ops::{Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::buffer::Buffer;
use crate::engine::{self, Completion, Engine, EngineSpec, EngineThreads, Op, Payload};
use crate::error::same_error;
use crate::file::IoFile;
use crate::read::progress::{Next, Progress, Span};
use crate::read::shrunk;
use crate::write::progress::continues;
use crate::{EngineCpu, Error};

/// An engine with a thread that drives it. Dropped, it performs all transfers that it was given.
pub struct BackgroundIo {
    shared: Arc<Shared>,
    threads: EngineThreads,
    thread: Option<JoinHandle<()>>,
}

/// A transfer, and the function that takes its outcome.
///
/// The thread calls it, so that it must not wait. A panic in it is reported and ends nothing else.
pub struct Transfer {
    file: Arc<IoFile>,
    offset: u64,
    buffer: Buffer,
    done: TransferCallback,
}

enum TransferCallback {
    Read(usize, Box<dyn FnOnce(Result<ReadBytes, Error>) + Send>),
    Write(Box<dyn FnOnce(Result<(), Error>) + Send>),
}

impl Transfer {
    /// Reads a range into a buffer that holds [`read_bytes`] bytes. A range that the file does not have is an error.
    ///
    /// # Panics
    /// If the range is empty, or the buffer is too small.
    #[must_use]
    pub fn read(
        file: &Arc<IoFile>,
        range: Range<u64>,
        buffer: Buffer,
        done: impl FnOnce(Result<ReadBytes, Error>) + Send + 'static,
    ) -> Transfer {
        let length = range.end.saturating_sub(range.start) as usize;
        let needed = read_bytes(file, range.clone());
        assert!(length > 0 && buffer.capacity() >= needed, "{range:?} into {} bytes", buffer.capacity());
        let done = TransferCallback::Read(length, Box::new(done));
        Transfer { file: Arc::clone(file), offset: range.start, buffer, done }
    }

    /// Writes the bytes of a buffer. Its memory is released before the function is called.
    ///
    /// # Panics
    /// If the offset or the length is not a multiple of the file's alignment.
    #[must_use]
    pub fn write(
        file: &Arc<IoFile>,
        offset: u64,
        buffer: Buffer,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Transfer {
        let is_aligned = |value: u64| value.is_multiple_of(file.alignment().offset as u64);
        assert!(is_aligned(offset) && is_aligned(buffer.len() as u64), "an unaligned write at {offset}");
        Transfer { file: Arc::clone(file), offset, buffer, done: TransferCallback::Write(Box::new(done)) }
    }
}

/// Returns the bytes of the buffer that a read of a range needs: the range, widened to the file's alignment.
#[must_use]
pub fn read_bytes(file: &IoFile, range: Range<u64>) -> usize {
    let alignment = file.alignment().offset as u64;
    (range.end.next_multiple_of(alignment) - range.start / alignment * alignment) as usize
}

/// The bytes of a range that was read.
#[derive(Debug)]
pub struct ReadBytes {
    buffer: Buffer,
    within: Range<usize>,
}

impl Deref for ReadBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.within.clone()]
    }
}

impl AsRef<[u8]> for ReadBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    transfers: Vec<Transfer>,
    /// The thread sleeps because there is nothing to do.
    is_idle: bool,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackgroundIo {
    /// Opens an engine for any number of files, and starts the thread.
    ///
    /// # Errors
    /// If the system does not offer the engine, or a thread cannot be started.
    ///
    /// # Panics
    /// If the engine brings its own memory ([`EngineKind::uses_buffers`](crate::EngineKind::uses_buffers)).
    pub fn open(spec: EngineSpec) -> Result<BackgroundIo, Error> {
        assert!(spec.kind.uses_buffers(), "{spec} does not read into buffers");
        BackgroundIo::over(engine::open_shared(spec)?.engine)
    }

    /// Over any engine, such as one over files in memory ([`crate::fake`]).
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn over(engine: Box<dyn Engine>) -> Result<BackgroundIo, Error> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let (slots, threads) = (engine.free_slots(), engine.threads());
        let server = Server {
            shared: Arc::clone(&shared),
            threads: threads.clone(),
            engine,
            queued: VecDeque::new(),
            active: Vec::new(),
            free: Vec::new(),
            slots,
        };
        let thread = std::thread::Builder::new().name("sakiyomi-io".into());
        let thread = thread
            .spawn(move || server.serve())
            .map_err(|source| Error::System { what: "start a thread for I/O".into(), source })?;
        Ok(BackgroundIo { shared, threads, thread: Some(thread) })
    }

    /// CPU time so far of its thread and of the engine's.
    #[must_use]
    pub fn cpu(&self) -> EngineCpu {
        self.threads.cpu()
    }

    /// Hands transfers over, without waiting.
    pub fn submit(&self, transfers: impl IntoIterator<Item = Transfer>) {
        let mut state = self.shared.lock();
        state.transfers.extend(transfers);
        let is_idle = !state.transfers.is_empty() && mem::take(&mut state.is_idle);
        drop(state);
        if is_idle {
            self.shared.changed.notify_one();
        }
    }
}

impl fmt::Debug for BackgroundIo {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("BackgroundIo").finish_non_exhaustive()
    }
}

impl Drop for BackgroundIo {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
        // A transfer's function may own the last handle; the thread then ends by itself.
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}

/// The thread.
struct Server {
    shared: Arc<Shared>,
    threads: EngineThreads,
    engine: Box<dyn Engine>,
    queued: VecDeque<Transfer>,
    /// By the tags of the operations.
    active: Vec<Option<Active>>,
    /// Tags of no operation.
    free: Vec<usize>,
    slots: usize,
}

/// A transfer in flight.
struct Active {
    /// Progress of a read; `None` for a write.
    progress: Option<Progress>,
    offset: u64,
    length: usize,
    done: TransferCallback,
}

impl Server {
    fn serve(mut self) {
        self.threads.enlist();
        let mut completions = Vec::new();
        while self.take_transfers() {
            self.begin_queued();
            if self.in_flight() == 0 {
                continue;
            }
            if let Err(error) = self.engine.reap(1, &mut completions) {
                return self.fail_all(&error);
            }
            completions.drain(..).for_each(|completion| self.completed(completion));
        }
    }

    fn in_flight(&self) -> usize {
        self.active.len() - self.free.len()
    }

    /// Takes what was handed over, and waits for it if there is nothing else to do. Whether anything is left to do.
    fn take_transfers(&mut self) -> bool {
        let is_busy = self.in_flight() > 0 || !self.queued.is_empty();
        let mut state = self.shared.lock();
        while !is_busy && state.transfers.is_empty() && !state.is_closed {
            state.is_idle = true;
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        self.queued.extend(state.transfers.drain(..));
        is_busy || !self.queued.is_empty() || !state.is_closed
    }

    fn begin_queued(&mut self) {
        while self.in_flight() < self.slots
            && let Some(transfer) = self.queued.pop_front()
        {
            self.begin(transfer);
        }
    }

    fn begin(&mut self, transfer: Transfer) {
        let Transfer { file, offset, buffer, done } = transfer;
        let (op, progress, length) = match &done {
            TransferCallback::Write(_) => (Op::write(0, file, offset, buffer), None, 0),
            &TransferCallback::Read(length, _) => {
                let range = offset..offset.saturating_add(length as u64);
                match Span::checked(range, file.alignment().offset as u64, file.size()) {
                    Ok(span) => {
                        let payload = Payload::Buffer(buffer);
                        let mut op = Op::read(0, file, span.offset, span.length, payload);
                        op.rewind(0);
                        (op, Some(Progress::new(span)), length)
                    }
                    Err(at) => return done.fail(shrunk(&file, at)),
                }
            }
        };
        let length = if progress.is_some() { length } else { op.length };
        let active = Active { progress, offset, length, done };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.active.push(None);
            self.active.len() - 1
        });
        self.active[slot] = Some(active);
        self.engine.submit(Op { tag: slot as u64, ..op });
    }

    fn completed(&mut self, mut completion: Completion) {
        let slot = completion.op.tag as usize;
        let Some(active) = &mut self.active[slot] else { return };
        let Some(progress) = &mut active.progress else {
            return self.written(slot, completion);
        };
        let outcome = match progress.after(&mut completion.op, completion.result) {
            Next::GoOn => return self.engine.submit(completion.op),
            Next::Whole => Ok(progress.span().within.clone()),
            Next::Shrunk { at } => Err(shrunk(&completion.op.file, at)),
            Next::Failed(source) => Err(active.failed(&completion.op.file, source)),
        };
        let Some(Active { done: TransferCallback::Read(_, done), .. }) = self.release(slot) else { return };
        let outcome = match (outcome, completion.op.payload) {
            (Ok(within), Payload::Buffer(buffer)) => Ok(ReadBytes { buffer, within }),
            (Ok(_), _) => unreachable!("a read without a buffer"),
            (Err(error), _) => Err(error),
        };
        call(|| done(outcome));
    }

    fn written(&mut self, slot: usize, mut completion: Completion) {
        if continues(&mut completion) {
            return self.engine.submit(completion.op);
        }
        let Some(active) = self.release(slot) else { return };
        let outcome = match completion.result {
            Ok(_) => {
                completion.op.file.grow_to(active.offset + active.length as u64);
                Ok(())
            }
            Err(source) => Err(active.failed(&completion.op.file, source)),
        };
        if let TransferCallback::Write(done) = active.done {
            call(|| done(outcome));
        }
    }

    fn release(&mut self, slot: usize) -> Option<Active> {
        self.free.push(slot);
        self.active[slot].take()
    }

    /// The engine cannot be driven any more: all transfers fail from now on.
    fn fail_all(mut self, error: &io::Error) {
        let fail = |done: TransferCallback| {
            done.fail(Error::System { what: "wait for I/O".into(), source: same_error(error) });
        };
        for active in mem::take(&mut self.active).into_iter().flatten() {
            fail(active.done);
        }
        self.free.clear();
        while self.take_transfers() {
            mem::take(&mut self.queued).into_iter().for_each(|transfer| fail(transfer.done));
        }
    }
}

impl Active {
    fn failed(&self, file: &IoFile, source: io::Error) -> Error {
        let (path, offset, length) = (file.path().to_owned(), self.offset, self.length);
        if self.progress.is_some() {
            return Error::Read { path, offset, length, source };
        }
        if source.raw_os_error() == Some(libc::ENOSPC) {
            let free = file.free_bytes().unwrap_or(0);
            return Error::Full { path, offset, needed: length as u64, free };
        }
        Error::Write { path, offset, length, source }
    }
}

impl TransferCallback {
    fn fail(self, error: Error) {
        match self {
            TransferCallback::Read(_, done) => call(|| done(Err(error))),
            TransferCallback::Write(done) => call(|| done(Err(error))),
        }
    }
}

/// Calls a function of a caller, whose panic the hook reports.
fn call(done: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(done));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;
    use sakiyomi_testing::Scratch;

    use super::*;
    use crate::fake::{FakeDisk, Faults};
    use crate::{Access, BufferPool, EngineKind, Memory};

    /// Writes blocks in any order, reads random ranges, and compares those that are read with what was written.
    fn write_and_read(io: &BackgroundIo, file: &Arc<IoFile>, seed: u64, bad: Option<u64>) {
        const BLOCK: usize = 4096;
        const BLOCKS: usize = 24;
        let pool = BufferPool::with_budget(64 << 20, Memory::Ordinary);
        let account = pool.account(0).unwrap();
        let take = |bytes: usize| account.take(bytes).expect("enough").unwrap();
        let mut random = Pcg64::seed_from_u64(seed);
        let content: Vec<u8> = (0..BLOCKS * BLOCK).map(|_| random.next_u64() as u8).collect();
        let mut order: Vec<usize> = (0..BLOCKS).collect();
        order.sort_by_cached_key(|_| random.next_u64());
        let (tell, told) = channel();
        let transfers = order.iter().map(|&block| {
            let mut buffer = take(BLOCK);
            buffer.append(&content[block * BLOCK..][..BLOCK]);
            let tell = tell.clone();
            Transfer::write(file, (block * BLOCK) as u64, buffer, move |outcome| {
                tell.send((block, outcome)).unwrap()
            })
        });
        io.submit(transfers);
        // A block that was not written has none of its bytes.
        let is_bad = |from: usize, to: usize| {
            let blocks = from / BLOCK * BLOCK..to.next_multiple_of(BLOCK);
            bad.is_some_and(|byte| blocks.contains(&(byte as usize)))
        };
        for _ in 0..BLOCKS {
            let (block, outcome) = told.recv().unwrap();
            assert_eq!(outcome.is_err(), is_bad(block * BLOCK, (block + 1) * BLOCK), "{outcome:?}");
        }
        let (tell, told) = channel();
        for _ in 0..100 {
            let from = random.next_u64() as usize % (content.len() - 1);
            let to = (from + 1 + random.next_u64() as usize % 9000).min(content.len());
            let (range, tell) = (from as u64..to as u64, tell.clone());
            let buffer = take(read_bytes(file, range.clone()));
            let done = move |read: Result<ReadBytes, Error>| tell.send((from, to, read)).unwrap();
            io.submit([Transfer::read(file, range, buffer, done)]);
        }
        for _ in 0..100 {
            let (from, to, read) = told.recv().unwrap();
            match read {
                Ok(read) => {
                    assert!(is_bad(from, to) || read[..] == content[from..to], "seed {seed}: {from} to {to}")
                }
                Err(error) => assert!(is_bad(from, to), "seed {seed}: {error}"),
            }
        }
    }

    #[test]
    fn what_was_written_is_read_whatever_the_faults_and_the_alignment() {
        for seed in 0..20 {
            let (disk, alignment) = (FakeDisk::default(), [1, 512][seed as usize % 2]);
            let file = disk.file(vec![0; 24 * 4096], alignment).unwrap();
            let bad = Some(50_000).filter(|_| seed > 10);
            let faults = Faults {
                seed,
                short_of_256: 60,
                interrupted_of_256: 60,
                late_of_256: 100,
                errors: bad.map(|byte| (byte, libc::EIO)).into_iter().collect(),
                ..Faults::default()
            };
            let io = BackgroundIo::over(disk.engine(1 + seed as usize % 7, faults)).unwrap();
            write_and_read(&io, &file, seed, bad);
        }
    }

    #[test]
    fn all_engines_with_buffers_do_the_same() {
        let scratch = Scratch::new("background");
        for kind in
            EngineKind::ALL.into_iter().filter(|kind| kind.uses_buffers() && *kind != EngineKind::Null)
        {
            // A sandbox may not have them all.
            let Ok(io) = BackgroundIo::open(EngineSpec::usual(kind)) else { continue };
            let file = Arc::new(IoFile::create(&scratch.path(kind.name()), Access::Buffered).unwrap());
            write_and_read(&io, &file, 1, None);
        }
    }

    #[test]
    fn a_range_beyond_the_end_and_a_full_disk_are_errors_that_say_so() {
        let disk = FakeDisk::default();
        let file = disk.limited_file("small".as_ref(), 512, 4096).unwrap();
        let io = BackgroundIo::over(disk.engine(4, Faults::default())).unwrap();
        let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
        let account = pool.account(0).unwrap();
        let (tell, told) = channel();
        let mut buffer = account.take(8192).unwrap().unwrap();
        buffer.append(&[7; 8192]);
        let tell_write = tell.clone();
        io.submit([Transfer::write(&file, 0, buffer, move |outcome| tell_write.send(outcome).unwrap())]);
        assert!(matches!(told.recv().unwrap(), Err(Error::Full { .. })));
        let buffer = account.take(4096).unwrap().unwrap();
        let read = move |read: Result<ReadBytes, Error>| tell.send(read.map(drop)).unwrap();
        io.submit([Transfer::read(&file, 100..200, buffer, read)]);
        assert!(matches!(told.recv().unwrap(), Err(Error::Shrunk { .. })));
    }

    #[test]
    fn a_function_that_panics_ends_nothing_else_and_a_drop_performs_all_jobs() {
        let disk = FakeDisk::default();
        let file = disk.file(vec![5; 4096], 1).unwrap();
        let io = BackgroundIo::over(disk.engine(2, Faults::default())).unwrap();
        let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
        let account = pool.account(0).unwrap();
        let (tell, told) = channel();
        let transfers = (0..10_u64).map(|number| {
            let tell = tell.clone();
            Transfer::read(&file, number..number + 1, account.take(1).unwrap().unwrap(), move |read| {
                assert!(!number.is_multiple_of(3), "a panic that the test expects");
                tell.send(read.unwrap()[0]).unwrap();
            })
        });
        io.submit(transfers);
        drop(io);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [5; 6]);
        drop(file);
    }
}
