//! Threads that each perform one operation at a time, for the engines with blocking system calls.

use std::io;
use std::os::unix::fs::FileExt;

use super::{Completion, Engine, EngineThreads, Op, OpKind};
use crate::IoFile;
use crate::thread_pool::{self, CompletedJob, ThreadPool};

/// The system call with which a thread performs an operation; returns the number of bytes transferred.
pub(super) type Call = thread_pool::Call<Op>;

/// Maximum bytes of operations that wait for a thread. Few of them hold a buffer while the caller keeps up, because
/// an operation takes its buffer only when a thread begins it.
const QUEUE_MAX_BYTES: usize = 8 << 20;
/// Operations that wait for a thread, in addition to one per thread.
const QUEUE_MAX_OPS: usize = 8;

/// Returns the slots of an engine with `threads` threads, for operations of `block` bytes: in flight, queued, or not
/// yet reaped.
pub(super) fn ahead(threads: usize, block: usize) -> usize {
    threads + (QUEUE_MAX_BYTES / block).min(QUEUE_MAX_OPS).max(threads)
}

/// A queue, and threads that take operations from it.
pub(super) struct Threads {
    pool: ThreadPool<Op>,
    threads: EngineThreads,
    /// Reused to avoid allocation.
    ended: Vec<CompletedJob<Op>>,
}

impl Threads {
    /// Starts threads with `ahead` slots. Each runs a function made by `call`, and so does the caller while it waits.
    pub(super) fn start(
        name: &str,
        threads: usize,
        ahead: usize,
        call: impl Fn() -> Call,
    ) -> io::Result<Threads> {
        let listed = EngineThreads::listed();
        let calls = (0..threads).map(|_| enlisting(call(), listed.clone())).collect();
        let pool = ThreadPool::new(name, calls, Some(call()), ahead)?;
        Ok(Threads { pool, threads: listed, ended: Vec::new() })
    }
}

/// Wraps a call so that its thread is added to the list on the first call.
fn enlisting(mut call: Call, list: EngineThreads) -> Call {
    let mut list = Some(list);
    Box::new(move |op| {
        if let Some(list) = list.take() {
            list.enlist();
        }
        call(op)
    })
}

impl Engine for Threads {
    fn free_slots(&self) -> usize {
        self.pool.room()
    }

    fn submit(&mut self, op: Op) {
        self.pool.start(op);
    }

    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.pool.finish(at_least, &mut self.ended);
        let ended = self.ended.drain(..);
        completions.extend(ended.map(|CompletedJob { job, result, took }| Completion {
            op: job,
            result,
            service: took,
        }));
        Ok(())
    }

    fn threads(&self) -> EngineThreads {
        self.threads.clone()
    }
}

/// Performs one call of an operation on the calling thread, with `read` for reads.
pub(crate) fn perform(
    op: &mut Op,
    read: impl FnOnce(&IoFile, &mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    op.payload.take_reserved()?;
    let (range, at) = (op.next_call(), op.offset + op.done as u64);
    let count = match op.kind {
        OpKind::Read => read(&op.file, &mut op.payload.buffer().space()[range], at)?,
        OpKind::Write => op.file.file().write_at(&op.payload.bytes()[range], at)?,
        OpKind::Sync => op.file.file().sync_data().map(|()| 0)?,
    };
    op.advance(count);
    Ok(count)
}
