//! Reads that the kernel has, by a number that goes with them.

use std::io;
use std::time::Instant;

use super::{Done, Read};

/// A fixed number of places for reads in flight. Their memory stays here until the kernel has let go of it.
pub(super) struct Slots {
    reads: Vec<Option<(Read, Instant)>>,
    free: Vec<usize>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        Slots { reads: (0..count).map(|_| None).collect(), free: (0..count).rev().collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.reads.len()
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.reads.len() - self.free.len()
    }

    /// Puts a read into a place.
    pub(super) fn put(&mut self, read: Read) -> usize {
        let slot = self.free.pop().expect("more reads than fit");
        self.reads[slot] = Some((read, Instant::now()));
        slot
    }

    pub(super) fn read_mut(&mut self, slot: usize) -> &mut Read {
        &mut self.reads[slot].as_mut().expect("a place with a read").0
    }

    /// The read of this place had ended by `now`; `bytes` is what the kernel says of it, negative for an error.
    pub(super) fn end(&mut self, slot: usize, bytes: i64, now: Instant) -> Done {
        let (mut read, begun) = self.reads[slot].take().expect("a read ends once");
        self.free.push(slot);
        let result = match usize::try_from(bytes) {
            Ok(count) => {
                read.content.grow(count);
                Ok(count)
            }
            Err(_) => Err(io::Error::from_raw_os_error(i32::try_from(-bytes).unwrap_or(libc::EIO))),
        };
        Done { read, result, took: now.saturating_duration_since(begun) }
    }

    /// Gives up the memory of all reads for good: the kernel may still write into it.
    pub(super) fn abandon(&mut self) {
        self.reads.drain(..).for_each(std::mem::forget);
        self.free.clear();
    }
}
