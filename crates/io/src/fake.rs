//! In-memory files that are read and written with injected faults: short transfers, completions in any order,
//! interruptions, errors at chosen places, a file that shrinks, a disk that becomes full. They replace an engine in
//! the tests of the layers above. A seed determines all faults.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::IoFile;
use crate::engine::{Completion, Engine, Op, OpKind};

/// The faults that are injected, and how often.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Seed of the random numbers that place the faults.
    pub seed: u64,
    /// Calls in 256 that transfer fewer bytes than requested.
    pub short_of_256: u8,
    /// Calls in 256 that are interrupted.
    pub interrupted_of_256: u8,
    /// Probability, in 256ths, that [`Engine::reap`] does not yet return an operation that could have completed.
    pub late_of_256: u8,
    /// Transfers that touch one of these bytes of a file fail with this error number.
    pub errors: Vec<(u64, i32)>,
    /// These bits of a file, counted from its first byte's lowest one, are inverted whenever they are read.
    pub flips: Vec<u64>,
    /// From this number of calls on, every file has at most this many bytes.
    pub shrinks: Option<(u64, u64)>,
    /// Maximum bytes of a file; writes beyond fail with `ENOSPC`. 0 for no limit.
    pub capacity: u64,
}

type Files = Vec<(Arc<IoFile>, Vec<u8>)>;

/// In-memory files, shared by the engines that operate on them.
#[derive(Clone, Debug, Default)]
pub struct FakeDisk {
    files: Arc<Mutex<Files>>,
}

impl FakeDisk {
    /// Adds a file. Lengths of transfers must be multiples of `alignment` bytes; short transfers are as well, except
    /// at the file's end.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn file(&self, content: Vec<u8>, alignment: usize) -> io::Result<Arc<IoFile>> {
        let file = IoFile::imaginary(Path::new("memory"), content.len() as u64, alignment, None)?;
        let file = Arc::new(file);
        self.files().push((Arc::clone(&file), content));
        Ok(file)
    }

    /// Adds an empty file named `path`, on a file system of its own with `capacity` bytes.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn limited_file(&self, path: &Path, alignment: usize, capacity: u64) -> io::Result<Arc<IoFile>> {
        let file = Arc::new(IoFile::imaginary(path, 0, alignment, Some(capacity))?);
        self.files().push((Arc::clone(&file), Vec::new()));
        Ok(file)
    }

    /// Returns the content of a file.
    ///
    /// # Panics
    /// If it is not on this disk.
    /// If it is not on this disk.
    #[must_use]
    pub fn content(&self, file: &Arc<IoFile>) -> Vec<u8> {
        let files = self.files();
        files.iter().find(|(known, _)| Arc::ptr_eq(known, file)).expect("a file of this disk").1.clone()
    }

    /// Returns an engine over the files, with at most `depth` operations in flight.
    #[must_use]
    pub fn engine(&self, depth: usize, faults: Faults) -> Box<dyn Engine> {
        let random = Pcg64::seed_from_u64(faults.seed);
        Box::new(Fake { disk: self.clone(), faults, depth, random, calls: 0, submitted: Vec::new() })
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Fake {
    disk: FakeDisk,
    faults: Faults,
    depth: usize,
    random: Pcg64,
    calls: u64,
    submitted: Vec<Op>,
}

impl Fake {
    fn happens(&mut self, of_256: u8) -> bool {
        // The high bits of the generator are of better quality.
        (self.random.next_u64() >> 56) < u64::from(of_256)
    }

    /// Performs one system call.
    fn call(&mut self, op: &mut Op) -> io::Result<usize> {
        self.calls += 1;
        if self.happens(self.faults.interrupted_of_256) {
            return Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        let is_short = self.happens(self.faults.short_of_256);
        let draw = self.random.next_u64();
        let disk = self.disk.clone();
        let mut files = disk.files();
        let (_, bytes) = files
            .iter_mut()
            .find(|(known, _)| Arc::ptr_eq(known, &op.file))
            .expect("an operation on a file of this disk");
        if let Some((_, size)) = self.faults.shrinks.filter(|&(call, _)| call <= self.calls) {
            bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        }
        let (range, at) = (op.next_call(), op.offset + op.done as u64);
        let alignment = op.file.alignment().offset;
        assert!(at.is_multiple_of(alignment as u64), "a call at {at} is not aligned");
        let start = usize::try_from(at).expect("a file in memory");
        let mut count = match op.kind {
            OpKind::Sync => return Ok(0),
            OpKind::Read => bytes.len().saturating_sub(start).min(range.len()),
            OpKind::Write => range.len(),
        };
        if is_short && count > alignment {
            count = (1 + draw % (count / alignment) as u64) as usize * alignment;
        }
        let end = at + count as u64;
        if let Some(&(_, code)) = self.faults.errors.iter().find(|&&(byte, _)| (at..end).contains(&byte)) {
            return Err(io::Error::from_raw_os_error(code));
        }
        if op.kind == OpKind::Read {
            op.payload.buffer().space()[op.done..op.done + count]
                .copy_from_slice(&bytes[start.min(bytes.len())..][..count]);
            for bit in self.faults.flips.iter().filter(|&&bit| (at..end).contains(&(bit / 8))) {
                let place = op.done + (bit / 8 - at) as usize;
                op.payload.buffer().space()[place] ^= 1 << (bit % 8);
            }
        } else {
            let capacity = op.file.capacity().or(Some(self.faults.capacity).filter(|&bytes| bytes > 0));
            if capacity.is_some_and(|capacity| end > capacity) {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            if bytes.len() < start + count {
                bytes.resize(start + count, 0);
            }
            bytes[start..start + count].copy_from_slice(&op.payload.bytes()[op.done..op.done + count]);
        }
        op.advance(count);
        Ok(count)
    }
}

impl Engine for Fake {
    fn free_slots(&self) -> usize {
        self.depth - self.submitted.len()
    }

    fn submit(&mut self, op: Op) {
        assert!(self.free_slots() > 0, "more operations than slots");
        self.submitted.push(op);
    }

    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let at_least = at_least.min(self.submitted.len());
        let mut completed = 0;
        while !self.submitted.is_empty() && (completed < at_least || !self.happens(self.faults.late_of_256)) {
            let which = self.random.next_u64() % self.submitted.len() as u64;
            let mut op = self.submitted.swap_remove(which as usize);
            let result = self.call(&mut op);
            completions.push(Completion { op, result, service: Duration::ZERO });
            completed += 1;
        }
        Ok(())
    }
}
