//! Reads at random offsets for a caller that never waits: a thread of the reader drives an engine.
//!
//! ```text
//! caller: request, request, …, exchange ─► requests ─► thread: submit, reap ─► engine
//!                             exchange ◄─ results ◄──────────┘ ready()
//! ```
//!
//! Requests are handed over in batches, so that the caller pays for one lock, and at most one wake-up of the thread,
//! per batch. The thread waits for the engine while reads are in flight, and takes further requests when one of them
//! has completed. It also returns results in batches while more requests are pending than the engine has slots.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::block::shrunk;
use super::progress::{Next, Progress, Span};
use crate::Error;
use crate::buffer::{BufferPool, Memory};
use crate::engine::{self, Completion, Engine, EngineSpec, Op, Payload};
use crate::error::same_error;
use crate::file::IoFile;

/// Reads ranges of one file in any order while the caller continues. Dropping it waits for the reads in flight.
pub struct RandomReader {
    shared: Arc<Shared>,
    /// Requests that have not been handed over.
    staged: Vec<Request>,
    length_max: usize,
    thread: Option<JoinHandle<()>>,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct RandomRead {
    /// The tag of the request.
    pub tag: u64,
    /// The bytes of the range.
    pub result: Result<Vec<u8>, Error>,
}

/// A requested range.
#[derive(Clone, Copy)]
struct Request {
    tag: u64,
    offset: u64,
    length: usize,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    done: Vec<RandomRead>,
    /// Whether the thread sleeps because nothing is to be read.
    is_idle: bool,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RandomReader {
    /// Opens an engine that reads into buffers, for ranges of at most `length_max` bytes, and starts the thread,
    /// which calls `ready` when results are available.
    ///
    /// # Errors
    /// If the system does not support the engine, or does not have the memory for its buffers.
    ///
    /// # Panics
    /// If the engine has its own memory ([`EngineKind::uses_buffers`](crate::EngineKind::uses_buffers)).
    pub fn open(
        file: Arc<IoFile>,
        spec: EngineSpec,
        length_max: usize,
        ready: impl Fn() + Send + 'static,
    ) -> Result<RandomReader, Error> {
        assert!(spec.kind.uses_buffers(), "{spec} has no buffers to be copied from");
        let engine = engine::open(spec, span_max(&file, length_max), None)?.engine;
        RandomReader::over(engine, file, length_max, ready)
    }

    /// Like [`RandomReader::open`], over any engine, such as one over files in memory ([`crate::fake`]).
    ///
    /// # Errors
    /// If there is not enough memory, or a thread cannot be started.
    pub fn over(
        engine: Box<dyn Engine>,
        file: Arc<IoFile>,
        length_max: usize,
        ready: impl Fn() + Send + 'static,
    ) -> Result<RandomReader, Error> {
        let slots = engine.free_slots();
        let pool = BufferPool::fixed(slots, span_max(&file, length_max), Memory::Ordinary)?;
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let server = Server {
            shared: Arc::clone(&shared),
            engine,
            pool,
            file,
            ready,
            queued: VecDeque::new(),
            reading: (0..slots).map(|_| None).collect(),
            free: (0..slots).collect(),
            done: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("sakiyomi-random".into());
        let thread = thread
            .spawn(move || server.serve())
            .map_err(|source| Error::System { what: "start a thread for reads".into(), source })?;
        Ok(RandomReader { shared, staged: Vec::new(), length_max, thread: Some(thread) })
    }

    /// Stages a request for a range, which the next call of [`RandomReader::exchange`] submits.
    ///
    /// # Panics
    /// If it is longer than `length_max`.
    pub fn request(&mut self, tag: u64, offset: u64, length: usize) {
        assert!(length <= self.length_max, "{length} bytes of a reader of {}", self.length_max);
        self.staged.push(Request { tag, offset, length });
    }

    /// Submits the staged requests, and appends the available results in the order of completion. Does not wait.
    pub fn exchange(&mut self, results: &mut Vec<RandomRead>) {
        let mut state = self.shared.lock();
        results.append(&mut state.done);
        if self.staged.is_empty() {
            return;
        }
        state.requests.append(&mut self.staged);
        let is_idle = mem::take(&mut state.is_idle);
        drop(state);
        if is_idle {
            self.shared.changed.notify_one();
        }
    }
}

impl fmt::Debug for RandomReader {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RandomReader").field("length_max", &self.length_max).finish_non_exhaustive()
    }
}

impl Drop for RandomReader {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, that has been reported.
            let _ = thread.join();
        }
    }
}

/// Returns the largest number of bytes that a read of a range of `length_max` bytes takes, at any offset.
fn span_max(file: &IoFile, length_max: usize) -> usize {
    let alignment = file.alignment().offset;
    length_max.max(1).next_multiple_of(alignment) + if alignment > 1 { alignment } else { 0 }
}

/// State of the thread.
struct Server<F> {
    shared: Arc<Shared>,
    // Dropped before the pool: the kernel may use its memory until the engine is dropped.
    engine: Box<dyn Engine>,
    pool: BufferPool,
    file: Arc<IoFile>,
    ready: F,
    queued: VecDeque<Request>,
    /// Indexed by the tags of the operations.
    reading: Vec<Option<Reading>>,
    /// Unused tags.
    free: Vec<usize>,
    done: Vec<RandomRead>,
}

/// A read in flight.
struct Reading {
    request: Request,
    progress: Progress,
}

impl<F: Fn()> Server<F> {
    fn serve(mut self) {
        let mut completions = Vec::new();
        while self.take_requests() {
            self.submit();
            if self.in_flight() > 0 {
                if let Err(error) = self.engine.reap(1, &mut completions) {
                    return self.fail(&error);
                }
                completions.drain(..).for_each(|completion| self.completed(completion));
            }
            self.deliver();
        }
    }

    fn in_flight(&self) -> usize {
        self.reading.len() - self.free.len()
    }

    /// Takes the requests handed over, and waits for some if nothing else is to be done. Returns false when the
    /// caller is gone.
    fn take_requests(&mut self) -> bool {
        let is_busy = self.in_flight() > 0 || !self.queued.is_empty();
        let mut state = self.shared.lock();
        while !is_busy && state.requests.is_empty() && !state.is_closed {
            state.is_idle = true;
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        self.queued.extend(state.requests.drain(..));
        !state.is_closed
    }

    fn submit(&mut self) {
        while !self.free.is_empty()
            && let Some(request) = self.queued.pop_front()
        {
            self.begin(request);
        }
    }

    fn begin(&mut self, request: Request) {
        let Request { tag, offset, length } = request;
        let range = offset..offset.saturating_add(length as u64);
        if length == 0 {
            return self.done.push(RandomRead { tag, result: Ok(Vec::new()) });
        }
        let span = match Span::checked(range, self.file.alignment().offset as u64, self.file.size()) {
            Ok(span) => span,
            Err(at) => {
                let result = Err(shrunk(&self.file, at));
                return self.done.push(RandomRead { tag, result });
            }
        };
        let (Some(buffer), Some(slot)) = (self.pool.take(), self.free.pop()) else {
            unreachable!("there is a buffer for each slot")
        };
        let payload = Payload::Buffer(buffer);
        let mut op = Op::read(slot as u64, Arc::clone(&self.file), span.offset, span.length, payload);
        op.rewind(0);
        self.reading[slot] = Some(Reading { request, progress: Progress::new(span) });
        self.engine.submit(op);
    }

    fn completed(&mut self, completion: Completion) {
        let Completion { mut op, result, .. } = completion;
        let slot = op.tag as usize;
        let Some(Reading { request, progress }) = &mut self.reading[slot] else { return };
        let result = match progress.after(&mut op, result) {
            Next::GoOn => return self.engine.submit(op),
            Next::Whole => Ok(op.payload.bytes()[progress.span().within.clone()].to_vec()),
            Next::Shrunk { at } => Err(shrunk(&self.file, at)),
            Next::Failed(source) => Err(failed(&self.file, request, source)),
        };
        self.done.push(RandomRead { tag: request.tag, result });
        self.reading[slot] = None;
        self.free.push(slot);
    }

    /// Returns results to the caller: at once if no request waits for a slot. Otherwise a woken caller could do
    /// nothing for the device, and waking it costs as much as some reads, so results are collected until there are as
    /// many as slots.
    fn deliver(&mut self) {
        let is_urgent = self.queued.is_empty() || self.done.len() >= self.reading.len();
        if is_urgent && !self.done.is_empty() {
            self.shared.lock().done.append(&mut self.done);
            (self.ready)();
        }
    }

    /// Fails all reads from now on, because the engine cannot be driven any more.
    fn fail(mut self, error: &io::Error) {
        let reading = self.reading.iter().flatten().map(|reading| reading.request);
        let mut requests: Vec<Request> = reading.chain(mem::take(&mut self.queued)).collect();
        (self.reading, self.free) = (Vec::new(), Vec::new());
        loop {
            let result = |request: &Request| {
                let result = Err(failed(&self.file, request, same_error(error)));
                RandomRead { tag: request.tag, result }
            };
            self.done.extend(requests.iter().map(result));
            self.deliver();
            if !self.take_requests() {
                return;
            }
            requests = mem::take(&mut self.queued).into();
        }
    }
}

fn failed(file: &IoFile, request: &Request, source: io::Error) -> Error {
    let &Request { offset, length, .. } = request;
    Error::Read { path: file.path().to_owned(), offset, length, source }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;
    use sakiyomi_testing::Scratch;

    use super::*;
    use crate::fake::{FakeDisk, Faults};
    use crate::{Access, EngineKind};

    /// Returns a callback that announces results, and its receiver, which may not be waiting.
    fn announced() -> (impl Fn() + Send + 'static, Receiver<()>) {
        let (tell, told) = channel();
        (move || tell.send(()).unwrap_or_default(), told)
    }

    /// Returns the results of random ranges by tag, read by a caller that computes between two calls.
    fn read_all(
        mut reader: RandomReader,
        ready: &Receiver<()>,
        ranges: &[(u64, usize)],
        random: &mut Pcg64,
    ) -> Vec<Result<Vec<u8>, Error>> {
        let (mut results, mut found) = (Vec::new(), Vec::new());
        let mut asked = 0;
        while results.len() < ranges.len() {
            for _ in 0..random.next_u64() % 9 {
                if let Some(&(offset, length)) = ranges.get(asked) {
                    reader.request(asked as u64, offset, length);
                    asked += 1;
                }
            }
            reader.exchange(&mut found);
            results.append(&mut found);
            if results.len() < asked {
                // A result that is not announced would hang here.
                ready.recv().unwrap();
            }
        }
        results.sort_by_key(|result| result.tag);
        results.into_iter().map(|read| read.result).collect()
    }

    fn ranges(random: &mut Pcg64, size: usize, length_max: usize) -> Vec<(u64, usize)> {
        let range = |random: &mut Pcg64| {
            let offset = random.next_u64() % size as u64;
            let length = random.next_u64() % (length_max as u64 + 1);
            (offset, (length as usize).min(size - offset as usize))
        };
        (0..200).map(|_| range(random)).collect()
    }

    #[test]
    fn ranges_have_the_bytes_of_the_file_whatever_the_faults_and_the_alignment() {
        for seed in 0..20 {
            let mut random = Pcg64::seed_from_u64(seed);
            let content: Vec<u8> = (0..20_000_u32).map(|index| (index * 7 % 251) as u8).collect();
            let (disk, alignment) = (FakeDisk::default(), [1, 512][seed as usize % 2]);
            let file = disk.file(content.clone(), alignment).unwrap();
            let faults = Faults {
                seed,
                short_of_256: 60,
                interrupted_of_256: 60,
                late_of_256: 100,
                errors: vec![(10_000, libc::EIO)],
                ..Faults::default()
            };
            let engine = disk.engine(1 + random.next_u64() as usize % 8, faults);
            let (tell, ready) = announced();
            let reader = RandomReader::over(engine, file, 700, tell).unwrap();
            let ranges = ranges(&mut random, content.len(), 700);
            let results = read_all(reader, &ready, &ranges, &mut random);
            for (&(offset, length), result) in ranges.iter().zip(results) {
                let (from, to) = (offset as usize, offset as usize + length);
                match result {
                    Ok(bytes) => assert!(bytes == content[from..to], "seed {seed}: {from} to {to}"),
                    Err(error) => {
                        let aligned = from / alignment * alignment..to.next_multiple_of(alignment);
                        assert!(aligned.contains(&10_000), "seed {seed}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn all_engines_with_buffers_read_ranges_of_a_file() {
        let scratch = Scratch::new("random_reads");
        let path = scratch.path("numbers");
        let content: Vec<u8> = (0..100_000_u32).map(|index| (index % 253) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        for kind in
            EngineKind::ALL.into_iter().filter(|kind| kind.uses_buffers() && *kind != EngineKind::Null)
        {
            let file = Arc::new(IoFile::open(&path, Access::Buffered).unwrap());
            let (tell, ready) = announced();
            let spec = EngineSpec::usual(kind);
            // A sandbox may not support all engines.
            let Ok(reader) = RandomReader::open(file, spec, 900, tell) else {
                continue;
            };
            let mut random = Pcg64::seed_from_u64(1);
            let ranges = ranges(&mut random, content.len(), 900);
            let results = read_all(reader, &ready, &ranges, &mut random);
            for (&(offset, length), result) in ranges.iter().zip(results) {
                assert!(result.unwrap() == content[offset as usize..][..length], "{spec}");
            }
        }
    }

    #[test]
    fn a_range_that_the_file_does_not_have_is_an_error_and_the_others_are_read() {
        let disk = FakeDisk::default();
        let file = disk.file(vec![3; 1_000], 1).unwrap();
        let faults = Faults { shrinks: Some((2, 500)), ..Faults::default() };
        let (tell, ready) = announced();
        let engine = disk.engine(1, faults);
        let reader = RandomReader::over(engine, file, 100, tell).unwrap();
        let ranges = [(990, 10), (990, 11), (450, 100), (100, 100), (u64::MAX, 1)];
        let results = read_all(reader, &ready, &ranges, &mut Pcg64::seed_from_u64(0));
        let is_read: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(is_read, [true, false, false, true, false]);
        assert!(matches!(results[2], Err(Error::Shrunk { at: 500, .. })), "{:?}", results[2]);
    }

    #[test]
    fn a_reader_can_be_dropped_with_reads_in_flight() {
        let disk = FakeDisk::default();
        let file = disk.file(vec![3; 1_000], 1).unwrap();
        let engine = disk.engine(2, Faults::default());
        let mut reader = RandomReader::over(engine, file, 10, || {}).unwrap();
        (0..100).for_each(|tag| reader.request(tag, 5 * tag, 10));
        reader.exchange(&mut Vec::new());
        drop(reader);
    }
}
