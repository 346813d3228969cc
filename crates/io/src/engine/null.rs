//! `null`: operations complete at once and transfer nothing, which measures the cost of the harness.

use std::io;
use std::time::Duration;

use super::{Completion, Engine, Op, OpKind};

struct Null {
    completed: Vec<Completion>,
}

/// More than 1, so that the caller works in batches as with other engines.
pub(super) const NULL_DEPTH: usize = 8;

pub(super) fn open() -> Box<dyn Engine> {
    Box::new(Null { completed: Vec::with_capacity(NULL_DEPTH) })
}

impl Engine for Null {
    fn free_slots(&self) -> usize {
        NULL_DEPTH - self.completed.len()
    }

    fn submit(&mut self, mut op: Op) {
        assert!(self.free_slots() > 0, "more operations than slots");
        let left = match op.kind {
            OpKind::Read => op.file.size().saturating_sub(op.offset),
            OpKind::Write | OpKind::Sync => u64::MAX,
        };
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(op.length) - op.done;
        op.advance(count);
        self.completed.push(Completion { op, result: Ok(count), service: Duration::ZERO });
    }

    fn reap(&mut self, _at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.completed);
        Ok(())
    }
}
