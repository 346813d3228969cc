//! `null`: reads end at once and move nothing. What is left is the cost of the harness.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Done, Method, Read};
use crate::Source;

struct Null {
    size: u64,
    started: Vec<Read>,
}

/// More than one, so that what it measures has a batch to work with as others do.
pub(super) const AHEAD: usize = 8;

pub(super) fn open(source: &Arc<Source>) -> Box<dyn Method> {
    Box::new(Null { size: source.size(), started: Vec::with_capacity(AHEAD) })
}

impl Method for Null {
    fn room(&self) -> usize {
        AHEAD - self.started.len()
    }

    fn start(&mut self, read: Read) {
        assert!(self.room() > 0, "more reads than fit");
        self.started.push(read);
    }

    fn finish(&mut self, _at_least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        for mut read in self.started.drain(..) {
            let left = self.size.saturating_sub(read.offset);
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(read.length);
            read.content.buffer().set_len(count);
            done.push(Done { read, result: Ok(count), took: Duration::ZERO });
        }
        Ok(())
    }
}
