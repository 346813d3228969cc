//! Threads that each do one read at a time, for the methods whose system calls wait.

use std::io;

use super::{Done, Method, Read};
use crate::crew::{self, Crew, Ended};

/// What a thread does with a read: one system call that says how many bytes came.
pub(super) type Call = crew::Call<Read>;

/// Reads wait for a thread in one queue.
pub(super) struct Threads {
    crew: Crew<Read>,
    /// Empty but for its room.
    ended: Vec<Ended<Read>>,
}

impl Threads {
    /// One thread for each call. As many reads again may wait for them, so that a thread need not.
    pub(super) fn start(name: &str, calls: Vec<Call>) -> io::Result<Threads> {
        Ok(Threads { crew: Crew::new(name, calls)?, ended: Vec::new() })
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
