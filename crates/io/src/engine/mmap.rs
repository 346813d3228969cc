//! `mmap:N`: N concurrent mappings, whose pages are fetched on access; `populate:N`: N threads that map and populate
//! all pages before a mapping is handed out. Both only read.

use std::io;
use std::time::Instant;

use super::threads::{Call, Threads};
use super::{Completion, Engine, Op, OpKind, Payload};
use crate::mapping::Mapping;

struct Mmap {
    depth: usize,
    mapped: Vec<Completion>,
}

pub(super) fn open(depth: usize) -> Box<dyn Engine> {
    Box::new(Mmap { depth, mapped: Vec::new() })
}

pub(super) fn open_populating(threads: usize, ahead: usize) -> io::Result<Box<dyn Engine>> {
    let call = || Box::new(|op: &mut Op| map(op, true)) as Call;
    Ok(Box::new(Threads::start("sakiyomi-map", threads, ahead, call)?))
}

impl Engine for Mmap {
    fn free_slots(&self) -> usize {
        self.depth - self.mapped.len()
    }

    fn submit(&mut self, mut op: Op) {
        assert!(self.free_slots() > 0, "more operations than slots");
        let submitted = Instant::now();
        let result = map(&mut op, false);
        self.mapped.push(Completion { op, result, service: submitted.elapsed() });
    }

    fn reap(&mut self, _at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.mapped);
        Ok(())
    }
}

/// Maps as much of the range as the file has at present.
fn map(op: &mut Op, populate: bool) -> io::Result<usize> {
    if op.kind != OpKind::Read {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "mappings are for reading only"));
    }
    let left = op.file.size_now()?.saturating_sub(op.offset);
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(op.length);
    if length == 0 {
        return Ok(0);
    }
    op.payload = Payload::Mapping(Mapping::new(&op.file, op.offset, length, populate)?);
    op.done = length;
    Ok(length)
}
