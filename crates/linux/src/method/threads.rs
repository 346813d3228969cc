//! Threads that each do one read at a time, for the methods whose system calls wait.

use std::io;

use super::{Done, Method, Read};
use crate::crew::{self, Crew, Ended};

/// What a thread does with a read: one system call that says how many bytes came.
pub(super) type Call = crew::Call<Read>;

/// Memory that reads may take up beyond those that threads are at, in bytes, and how many they are at most. They take a
/// buffer only when a thread comes to them, so that few are in use while the caller keeps up.
const QUEUE_BYTES: usize = 8 << 20;
const QUEUE_MAX: usize = 8;

/// Reads of `block` bytes that are taken on for some threads: what they do, and what waits for them or for the caller.
pub(super) fn ahead(threads: usize, block: usize) -> usize {
    threads + (QUEUE_BYTES / block).min(QUEUE_MAX).max(threads)
}

/// Reads wait for a thread in one queue.
pub(super) struct Threads {
    crew: Crew<Read>,
    /// Empty but for its room.
    ended: Vec<Ended<Read>>,
}

impl Threads {
    /// Threads that each do what `call` makes, as the caller does when it waits; with `ahead` reads taken on at a time.
    pub(super) fn start(
        name: &str,
        threads: usize,
        ahead: usize,
        call: impl Fn() -> Call,
    ) -> io::Result<Threads> {
        let calls = (0..threads).map(|_| call()).collect();
        Ok(Threads { crew: Crew::new(name, calls, Some(call()), ahead)?, ended: Vec::new() })
    }
}

impl Method for Threads {
    fn room(&self) -> usize {
        self.crew.room()
    }

    fn start(&mut self, read: Read) {
        self.crew.start(read);
    }

    fn finish(&mut self, at_least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        self.crew.finish(at_least, &mut self.ended);
        let ended = self.ended.drain(..);
        done.extend(ended.map(|Ended { job: read, result, took }| Done { read, result, took }));
        Ok(())
    }
}
