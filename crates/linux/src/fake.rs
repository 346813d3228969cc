//! A file made of memory that is read with faults: short reads, reads that end in any order, interruptions, errors at
//! chosen places, a file that shrinks. It stands in for a real method in the tests of everything above, and everything
//! in it is decided by a seed.

use std::io;
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::blocks::Subject;
use crate::method::{Done, Method, Read};

/// What goes wrong, and how often.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Decides all of it.
    pub seed: u64,
    /// Of 256 calls, how many bring fewer bytes than were asked for.
    pub short_of_256: u8,
    /// Of 256 calls, how many are interrupted.
    pub interrupted_of_256: u8,
    /// Of 256 times that ends are asked for, how many times a read that could have ended has not.
    pub late_of_256: u8,
    /// Reads that touch one of these bytes fail with this error number.
    pub errors: Vec<(u64, i32)>,
    /// From this number of calls on, the file has this many bytes only.
    pub shrinks: Option<(u64, u64)>,
}

/// The method.
#[derive(Debug)]
pub struct Fake {
    bytes: Vec<u8>,
    faults: Faults,
    alignment: usize,
    depth: usize,
    random: Pcg64,
    calls: u64,
    started: Vec<Read>,
}

impl Fake {
    /// A file of these bytes with at most `depth` reads in flight; what short reads bring is a multiple of `alignment`
    /// except at the file's end, as with direct I/O.
    #[must_use]
    pub fn new(bytes: Vec<u8>, depth: usize, alignment: usize, faults: Faults) -> Fake {
        let random = Pcg64::seed_from_u64(faults.seed);
        Fake { bytes, faults, alignment, depth, random, calls: 0, started: Vec::new() }
    }

    /// What a stream must know of it.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject { path: "memory".into(), size: self.bytes.len() as u64, alignment: self.alignment }
    }

    fn happens(&mut self, of_256: u8) -> bool {
        // The upper bits are the better ones.
        (self.random.next_u64() >> 56) < u64::from(of_256)
    }

    /// One system call.
    fn call(&mut self, read: &mut Read) -> io::Result<usize> {
        self.calls += 1;
        if let Some((_, size)) = self.faults.shrinks.filter(|&(call, _)| call <= self.calls) {
            self.bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        }
        if self.happens(self.faults.interrupted_of_256) {
            return Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        let buffer = read.content.buffer();
        let at = read.offset + buffer.len() as u64;
        assert!(at.is_multiple_of(self.alignment as u64), "a call at {at} is not aligned");
        let left = self.bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        let mut count = left.len().min(read.length - buffer.len());
        if self.happens(self.faults.short_of_256) && count > self.alignment {
            let units = (count / self.alignment) as u64;
            count = (1 + self.random.next_u64() % units) as usize * self.alignment;
        }
        let end = at + count as u64;
        if let Some(&(_, code)) = self.faults.errors.iter().find(|&&(byte, _)| (at..end).contains(&byte)) {
            return Err(io::Error::from_raw_os_error(code));
        }
        let start = at as usize;
        buffer.append(&self.bytes[start.min(self.bytes.len())..][..count]);
        Ok(count)
    }
}

impl Method for Fake {
    fn room(&self) -> usize {
        self.depth - self.started.len()
    }

    fn start(&mut self, read: Read) {
        assert!(self.room() > 0, "more reads than fit");
        self.started.push(read);
    }

    fn finish(&mut self, at_least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        let at_least = at_least.min(self.started.len());
        let mut ended = 0;
        while !self.started.is_empty() && (ended < at_least || !self.happens(self.faults.late_of_256)) {
            let which = self.random.next_u64() % self.started.len() as u64;
            let mut read = self.started.swap_remove(which as usize);
            let result = self.call(&mut read);
            done.push(Done { read, result, took: Duration::ZERO });
            ended += 1;
        }
        Ok(())
    }
}
