//! Operations in flight in the kernel, by the number that it returns with them.

use std::io;
use std::time::Instant;

use super::{Completion, Op};

/// A fixed number of slots for operations in flight. Their memory stays here until the kernel has released it.
pub(super) struct Slots {
    ops: Vec<Option<(Op, Instant)>>,
    free: Vec<usize>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        Slots { ops: (0..count).map(|_| None).collect(), free: (0..count).rev().collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.ops.len() - self.free.len()
    }

    /// Stores an operation in a free slot; returns the slot's number.
    pub(super) fn put(&mut self, op: Op) -> usize {
        let slot = self.free.pop().expect("more operations than slots");
        self.ops[slot] = Some((op, Instant::now()));
        slot
    }

    pub(super) fn op_mut(&mut self, slot: usize) -> &mut Op {
        &mut self.ops[slot].as_mut().expect("a slot in use").0
    }

    /// Completes the operation of a slot at `now`; `result` is the kernel's return value: bytes, or a negative error
    /// number.
    pub(super) fn complete(&mut self, slot: usize, result: i64, now: Instant) -> Completion {
        let (mut op, submitted) = self.ops[slot].take().expect("an operation completes once");
        self.free.push(slot);
        let result = match usize::try_from(result) {
            Ok(count) => {
                op.advance(count);
                Ok(count)
            }
            Err(_) => Err(io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EIO))),
        };
        Completion { op, result, service: now.saturating_duration_since(submitted) }
    }

    /// Leaks the memory of all operations: the kernel may still write into it.
    pub(super) fn leak(&mut self) {
        self.ops.drain(..).for_each(std::mem::forget);
        self.free.clear();
    }
}
