//! Operations kept in flight on one file: the load of a run.
//!
//! Drives an engine without a stream above it: no block is handed over, and each completed operation is submitted
//! again with its memory for another offset, so that the figures are those of the engine.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_io::engine::{self, Completion, Engine, Op, OpKind, Payload};
use sakiyomi_io::read::Grant;
use sakiyomi_io::{BufferPool, EngineKind, IoFile};

use crate::Error;
use crate::latency::Latencies;
use crate::sequence::Sequence;
use crate::setting::{CacheState, Operation, Setting};

/// Bytes transferred between two readings of the clock.
const CLOCK_BYTES: usize = 64 << 10;

/// Bytes per page; one of them is touched to fault it in.
const PAGE_BYTES: usize = 4096;

/// Called periodically to decide whether to continue; an error ends the run.
pub(crate) type GoOn<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// A load of operations on a file.
pub(crate) struct Load {
    engine: Box<dyn Engine>,
    file: Arc<IoFile>,
    setting: Setting,
    sequence: Sequence,
    random: Pcg64,
    grant: Grant,
    /// Number of operations kept in flight.
    depth: usize,
    /// Memory of operations that are not in flight.
    idle: Vec<Payload>,
    in_flight: usize,
}

/// Returns the number of operations to keep in flight: the engine's depth, and for threads as many again in the
/// queue, so that no thread waits.
fn in_flight(setting: &Setting) -> usize {
    let spec = setting.engine;
    match spec.kind {
        EngineKind::Read | EngineKind::Pread | EngineKind::Populate => 2 * spec.depth,
        EngineKind::Aio | EngineKind::Uring | EngineKind::UringSqpoll | EngineKind::Mmap => spec.depth,
        EngineKind::Null => spec.ahead(setting.block),
    }
}

impl Load {
    /// Opens a file for a setting, with an engine and memory of its own.
    ///
    /// # Errors
    /// If it cannot be opened with this access, the block size does not suit direct I/O, there is not enough memory,
    /// or the system does not support the engine.
    pub(crate) fn open(path: &Path, setting: &Setting, seed: u64) -> Result<Load, Error> {
        let access = setting.cache.access();
        let file = match setting.op.writes() {
            true => IoFile::open_writable(path, access)?,
            false => IoFile::open(path, access)?,
        };
        let (alignment, block) = (file.alignment().offset, setting.block);
        if !block.is_multiple_of(alignment) {
            return Err(sakiyomi_io::Error::Unaligned { path: path.to_owned(), block, alignment }.into());
        }
        let (kind, depth) = (setting.engine.kind, in_flight(setting));
        let pool = match kind.uses_buffers() {
            true => Some(BufferPool::fixed(depth, block, setting.buffers.memory())?),
            false => None,
        };
        let opened =
            engine::open(setting.engine, block, pool.as_ref().filter(|_| setting.buffers.registered()))?;
        let mut engine = opened.engine;
        let file = Arc::new(file);
        engine.attach(&file);
        let mut random = Pcg64::seed_from_u64(seed);
        let seed = setting.random.then_some(seed);
        let sequence = Sequence::new(file.size(), block as u64, seed, setting.cache != CacheState::Cold);
        let grant =
            Grant { memory: pool.as_ref().and_then(BufferPool::granted), registered: opened.registered };
        let idle = (0..depth).map(|_| payload(pool.as_ref(), setting, &mut random)).collect();
        Ok(Load { engine, file, setting: *setting, sequence, random, grant, depth, idle, in_flight: 0 })
    }

    pub(crate) fn grant(&self) -> Grant {
        self.grant
    }

    /// Runs for `period`, or until all blocks were transferred once if the sequence is not endless; then waits for
    /// the operations in flight, and after buffered writes for a sync. Returns the bytes transferred.
    ///
    /// # Errors
    /// If an operation fails, and those of `go_on`.
    pub(crate) fn run(
        &mut self,
        period: Duration,
        latencies: &mut Latencies,
        go_on: GoOn<'_>,
    ) -> Result<u64, Error> {
        let begun = Instant::now();
        let between = (CLOCK_BYTES / self.setting.block).max(1);
        let (mut completions, mut bytes, mut count) = (Vec::with_capacity(self.depth), 0, 0_usize);
        let mut is_over = false;
        loop {
            while !is_over && self.in_flight < self.depth {
                is_over = !self.submit();
            }
            if self.in_flight == 0 {
                break;
            }
            self.reap(&mut completions)?;
            for completion in completions.drain(..) {
                let Some(transferred) = self.completed(completion, latencies)? else { continue };
                bytes += transferred;
                count += 1;
                if count.is_multiple_of(between) {
                    go_on()?;
                    is_over |= begun.elapsed() >= period;
                }
            }
        }
        if self.setting.op.writes() && self.setting.cache != CacheState::Direct {
            self.sync(&mut completions)?;
        }
        Ok(bytes)
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> Result<(), Error> {
        let reaped = self.engine.reap(1, completions);
        Ok(reaped
            .map_err(|source| sakiyomi_io::Error::System { what: "wait for an operation".into(), source })?)
    }

    /// Submits the next operation; returns false if there is none.
    fn submit(&mut self) -> bool {
        let Some(offset) = self.sequence.next() else { return false };
        let kind = match self.setting.op {
            Operation::Read => OpKind::Read,
            Operation::Write => OpKind::Write,
            Operation::Mix { reads_percent } => {
                let is_read = self.random.next_u64() % 100 < u64::from(reads_percent);
                if is_read { OpKind::Read } else { OpKind::Write }
            }
        };
        let (file, length) = (Arc::clone(&self.file), self.setting.block);
        let payload = self.idle.pop().expect("one for each operation in flight");
        let op = Op { kind, ..Op::read(0, file, offset, length, payload) };
        self.engine.submit(op);
        self.in_flight += 1;
        true
    }

    /// Processes the completion of a call: the operation continues, or its bytes are counted.
    fn completed(&mut self, completion: Completion, latencies: &mut Latencies) -> Result<Option<u64>, Error> {
        let Completion { mut op, result, service } = completion;
        let count = match result {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.engine.submit(op);
                return Ok(None);
            }
            Err(source) => return Err(self.failed(&op, source)),
        };
        if op.done < op.length && count > 0 {
            self.engine.submit(op);
            return Ok(None);
        }
        if op.done < op.length {
            let (at, expected) = (op.offset + op.done as u64, self.file.size());
            return Err(sakiyomi_io::Error::Shrunk { path: self.file.path().to_owned(), at, expected }.into());
        }
        self.touch(&mut op)?;
        latencies.record(op.kind, service);
        self.in_flight -= 1;
        self.idle.push(op.payload);
        Ok(Some(op.length as u64))
    }

    /// Touches the pages of a mapping, which are read only then; other engines have transferred everything.
    fn touch(&self, op: &mut Op) -> Result<(), Error> {
        let Payload::Mapping(mapping) = &op.payload else { return Ok(()) };
        black_box(mapping.iter().step_by(PAGE_BYTES).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
        if mapping.is_broken() {
            let source = io::Error::other("its pages could not be fetched; the file may have been cut");
            return Err(self.failed(op, source));
        }
        op.payload = Payload::Nothing;
        Ok(())
    }

    fn failed(&self, op: &Op, source: io::Error) -> Error {
        let (path, offset, length) = (self.file.path().to_owned(), op.offset, op.length);
        match op.kind {
            OpKind::Read => sakiyomi_io::Error::Read { path, offset, length, source }.into(),
            OpKind::Write | OpKind::Sync => Error::Write { path, offset, length, source },
        }
    }

    fn sync(&mut self, completions: &mut Vec<Completion>) -> Result<(), Error> {
        self.engine.submit(Op::sync(0, Arc::clone(&self.file)));
        self.reap(completions)?;
        for Completion { op, result, .. } in completions.drain(..) {
            result.map_err(|source| self.failed(&op, source))?;
        }
        Ok(())
    }
}

/// Returns the memory of an operation. Data to be written is random: storage may process compressible data faster.
fn payload(pool: Option<&BufferPool>, setting: &Setting, random: &mut Pcg64) -> Payload {
    let Some(pool) = pool else { return Payload::Nothing };
    let mut buffer = pool.take().expect("a buffer for each operation in flight");
    if setting.op.writes() {
        random.fill_bytes(buffer.space());
    }
    buffer.set_len(setting.block);
    Payload::Buffer(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use proptest::prelude::*;
    use sakiyomi_io::EngineSpec;
    use sakiyomi_testing::{Scratch, skipped};

    use crate::setting::Buffers;

    const BLOCK: usize = 4096;

    fn setting(engine: &str, op: Operation) -> Setting {
        let engine = engine.parse().unwrap();
        let (cache, buffers) = (CacheState::Cold, Buffers::Ordinary);
        Setting { engine, op, block: BLOCK, cache, random: true, buffers }
    }

    /// Runs one pass over a file; `None` if the machine does not support the engine.
    fn one_pass(path: &Path, setting: &Setting) -> Option<(u64, Latencies)> {
        let mut load = match Load::open(path, setting, 7) {
            Err(Error::Io(error @ sakiyomi_io::Error::Method { .. })) => {
                skipped(&setting.engine.to_string(), error);
                return None;
            }
            load => load.unwrap(),
        };
        let mut latencies = Latencies::default();
        let bytes = load.run(Duration::from_secs(3600), &mut latencies, &mut || Ok(())).unwrap();
        Some((bytes, latencies))
    }

    #[test]
    fn every_engine_writes_each_block_once_and_nothing_beyond_the_file() {
        for engine in ["read", "pread:1", "pread:4", "aio:4", "uring:4", "uring-sqpoll:2"] {
            let scratch = Scratch::new("load-write");
            let path = scratch.root().join("file");
            fs::write(&path, vec![0; 20 * BLOCK + 100]).unwrap();
            let Some((bytes, latencies)) = one_pass(&path, &setting(engine, Operation::Write)) else {
                continue;
            };
            assert_eq!(bytes, 20 * BLOCK as u64, "{engine}");
            assert_eq!((latencies.reads.len(), latencies.writes.len()), (0, 20), "{engine}");
            let written = fs::read(&path).unwrap();
            assert_eq!(written.len(), 20 * BLOCK + 100);
            assert!(written.chunks_exact(BLOCK).all(|block| block.iter().any(|&byte| byte != 0)), "{engine}");
            assert!(written[20 * BLOCK..].iter().all(|&byte| byte == 0), "{engine}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn a_mix_has_about_the_share_of_reads_that_was_asked_for(reads_percent in 1u8..100, depth in 1usize..5) {
            let scratch = Scratch::new("load-mix");
            let path = scratch.root().join("file");
            fs::write(&path, vec![1; 1000 * BLOCK]).unwrap();
            let engine = EngineSpec { kind: EngineKind::Pread, depth };
            let setting = Setting { engine, ..setting("read", Operation::Mix { reads_percent }) };
            let (bytes, latencies) = one_pass(&path, &setting).unwrap();
            prop_assert_eq!(bytes, 1000 * BLOCK as u64);
            prop_assert_eq!(latencies.reads.len() + latencies.writes.len(), 1000);
            // Six standard deviations of 1000 draws.
            prop_assert!((latencies.reads.len() as f64 - 10.0 * f64::from(reads_percent)).abs() < 95.0);
        }
    }

    #[test]
    fn a_file_that_is_cut_is_an_error_for_every_engine() {
        for engine in ["read", "pread:2", "aio:2", "uring:2", "mmap:2", "populate:2"] {
            let scratch = Scratch::new("load-cut");
            let path = scratch.root().join("file");
            fs::write(&path, vec![1; 64 * BLOCK]).unwrap();
            let setting =
                Setting { random: false, cache: CacheState::Cached, ..setting(engine, Operation::Read) };
            let mut load = match Load::open(&path, &setting, 1) {
                Err(Error::Io(error @ sakiyomi_io::Error::Method { .. })) => {
                    skipped(engine, error);
                    continue;
                }
                load => load.unwrap(),
            };
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10 * BLOCK as u64).unwrap();
            let ended = load.run(Duration::from_secs(3600), &mut Latencies::default(), &mut || Ok(()));
            let said = ended.unwrap_err().to_string();
            assert!(said.contains("file"), "{engine}: {said}");
        }
    }

    #[test]
    fn a_load_can_be_ended_while_operations_are_in_flight() {
        for engine in ["pread:4", "uring:8"] {
            let scratch = Scratch::new("load-ended");
            let path = scratch.root().join("file");
            fs::write(&path, vec![1; 64 * BLOCK]).unwrap();
            let setting = Setting { cache: CacheState::Cached, ..setting(engine, Operation::Write) };
            let Ok(mut load) = Load::open(&path, &setting, 1) else {
                skipped(engine, "the machine lacks it");
                continue;
            };
            let mut looks = 0;
            let mut go_on = || {
                looks += 1;
                if looks < 5 { Ok(()) } else { Err(Error::Interrupted) }
            };
            let ended = load.run(Duration::from_secs(3600), &mut Latencies::default(), &mut go_on);
            assert!(matches!(ended, Err(Error::Interrupted)));
        }
    }
}
