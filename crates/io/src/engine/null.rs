//! `null`: operations complete at once and transfer nothing, which leaves the cost of the harness.

use std::io;
use std::time::Duration;

use super::{Completion, Engine, Op, OpKind};

struct Null {
    submitted: Vec<Op>,
}

/// More than one, so that the harness works in batches as with other engines.
pub(super) const AHEAD: usize = 8;

pub(super) fn open() -> Box<dyn Engine> {
    Box::new(Null { submitted: Vec::with_capacity(AHEAD) })
}

impl Engine for Null {
    fn free_slots(&self) -> usize {
        AHEAD - self.submitted.len()
    }

    fn submit(&mut self, op: Op) {
        assert!(self.free_slots() > 0, "more operations than slots");
        self.submitted.push(op);
    }

    fn reap(&mut self, _at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        for mut op in self.submitted.drain(..) {
            let left = match op.kind {
                OpKind::Read => op.file.size().saturating_sub(op.offset),
                OpKind::Write | OpKind::Sync => u64::MAX,
            };
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(op.length) - op.done;
            op.advance(count);
            completions.push(Completion { op, result: Ok(count), service: Duration::ZERO });
        }
        Ok(())
    }
}
