//! `mmap:N`: N mappings side by side, whose pages come when they are touched; `populate:N`: N threads that map and have
//! all pages fetched before a mapping is handed out.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::threads::{Call, Threads};
use super::{Content, Done, Method, Read};
use crate::Source;
use crate::mapping::Mapping;

struct Mmap {
    source: Arc<Source>,
    depth: usize,
    mapped: Vec<Done>,
}

pub(super) fn open(source: &Arc<Source>, depth: usize) -> Box<dyn Method> {
    Box::new(Mmap { source: Arc::clone(source), depth, mapped: Vec::new() })
}

pub(super) fn open_populating(
    source: &Arc<Source>,
    threads: usize,
    ahead: usize,
) -> io::Result<Box<dyn Method>> {
    let call = || {
        let source = Arc::clone(source);
        Box::new(move |read: &mut Read| map(&source, read, true)) as Call
    };
    Ok(Box::new(Threads::start("sakiyomi-map", threads, ahead, call)?))
}

impl Method for Mmap {
    fn room(&self) -> usize {
        self.depth - self.mapped.len()
    }

    fn start(&mut self, mut read: Read) {
        assert!(self.room() > 0, "more mappings than fit");
        let begun = Instant::now();
        let result = map(&self.source, &mut read, false);
        self.mapped.push(Done { read, result, took: begun.elapsed() });
    }

    fn finish(&mut self, _at_least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        done.append(&mut self.mapped);
        Ok(())
    }
}

/// Maps as much of what is wanted as the file has now.
fn map(source: &Arc<Source>, read: &mut Read, populate: bool) -> io::Result<usize> {
    let left = source.size_now()?.saturating_sub(read.offset);
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(read.length);
    if length == 0 {
        return Ok(0);
    }
    let mapping = Mapping::new(source, read.offset, length, populate)?;
    read.content = Content::Mapping(mapping);
    Ok(length)
}
