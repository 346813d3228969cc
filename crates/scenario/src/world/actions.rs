//! Execution of threads' actions, from their begin to their completion.

use super::World;
use super::pages::Reader;
use super::thread::{Call, Thread, ThreadState};
use crate::cache::FileId;
use crate::cores::Burst;
use crate::workload::{Action, FileIndex, ThreadIndex};

impl World<'_> {
    /// Begins an action. Returns the number of bytes transferred if it completes at once.
    pub(super) fn carry_out(&mut self, thread: usize, action: Action) -> Option<u64> {
        let now = self.now;
        match action {
            Action::Open { file } => {
                let file = self.file(thread, file);
                self.files[file.0].open();
                self.follow(file, thread);
                Some(0)
            }
            Action::Read { file, at, length, is_partial } => {
                let file = self.cached_range(thread, file, at, at + length);
                self.begin_read(thread, file, at, length, is_partial)
            }
            Action::ReadOn => {
                let request_pages = self.request_pages;
                let Thread { call, mut reader, .. } = self.threads[thread];
                assert!(call.is_partial && call.at < call.end, "a thread goes on with a call that has ended");
                reader.stop = reader.end.min(reader.next + request_pages);
                self.read_on(thread, reader)
            }
            Action::ReadDirect { file, at, length } => {
                let file = self.range(thread, file, at, at + length);
                let requests = self.read_direct(thread, file, at, length);
                self.threads[thread].now_at(now, ThreadState::ReadingDirect { file, at, length, requests });
                None
            }
            Action::Touch { file, at, end } => {
                let file = self.cached_range(thread, file, at, end);
                self.touch_from(thread, file, at, end)
            }
            Action::Write { file, at, length } => {
                let file = self.cached_range(thread, file, at, at + length);
                self.write(file, at, at + length);
                self.threads[thread].written_bytes += length;
                if self.write_back.is_full() {
                    self.threads[thread].now_at(now, ThreadState::Throttled { length });
                    return None;
                }
                Some(length)
            }
            Action::Compute { time, core, from } => {
                let Thread { workload, is_urgent, .. } = self.threads[thread];
                let from = from.map(|ThreadIndex(from)| self.workloads[workload].threads.0 + from);
                let hops = self.cores.run(now, thread, Burst { time, is_urgent, core, from });
                let Some(hops) = hops else { return Some(0) };
                self.threads[thread].now_at(now, ThreadState::Computing { time, hops });
                None
            }
            Action::Pause { length } => {
                let thread = &mut self.threads[thread];
                thread.now_at(now, ThreadState::Sleeping(now + length));
                self.workloads[thread.workload].sleeps(now + length);
                None
            }
            Action::Reserve { bytes } => {
                let pages = bytes.div_ceil(self.page_bytes) as usize;
                self.workloads[self.threads[thread].workload].reserved += pages;
                self.cache.take_away(pages);
                Some(0)
            }
            Action::Release => {
                let state = &mut self.workloads[self.threads[thread].workload];
                self.cache.give_back(std::mem::take(&mut state.reserved));
                Some(0)
            }
            Action::Done => {
                self.end(self.threads[thread].workload);
                None
            }
        }
    }

    /// Continues what a thread waits for. Returns the number of bytes transferred if the wait has ended.
    pub(super) fn resumed(&mut self, thread: usize) -> Option<u64> {
        match self.threads[thread].doing {
            ThreadState::Reading => self.read_on(thread, self.threads[thread].reader),
            ThreadState::ReadingDirect { file, at, length, requests: 0 } => {
                self.files[file.0].call_ended(at + length, length);
                Some(length)
            }
            ThreadState::Touching { file, at, end } => self.touch_from(thread, file, at, end),
            ThreadState::Throttled { length } if !self.write_back.is_full() => Some(length),
            _ => None,
        }
    }

    /// Records the end of one of a thread's requests that bypass the page cache.
    pub(super) fn direct_ended(&mut self, thread: usize) {
        if let ThreadState::ReadingDirect { file, requests, .. } = &mut self.threads[thread].doing {
            *requests -= 1;
            let file = *file;
            self.read_ended(file);
        }
    }

    /// Returns the global number of a thread's file.
    fn file(&self, thread: usize, FileIndex(file): FileIndex) -> FileId {
        let state = &self.workloads[self.threads[thread].workload];
        let file = state.files.0 + file;
        assert!(file < state.files.1, "workload {} named a file that it has not", state.setup.name);
        FileId(file)
    }

    /// Returns the global number of a thread's file, and checks the range that the thread uses.
    fn range(&self, thread: usize, file: FileIndex, at: u64, end: u64) -> FileId {
        let file = self.file(thread, file);
        let size = self.files[file.0].size;
        assert!(at < end && end <= size, "a thread uses the bytes from {at} to {end} of a file of {size}");
        file
    }

    /// Returns the global number of a thread's file, and checks that the range can be cached.
    fn cached_range(&self, thread: usize, file: FileIndex, at: u64, end: u64) -> FileId {
        let file = self.range(thread, file, at, end);
        assert!(self.cache.pages(file) > 0, "a thread uses the page cache on a file that is bypassed");
        file
    }

    /// Begins a call. Returns the same as [`read_on`](Self::read_on).
    fn begin_read(
        &mut self,
        thread: usize,
        file: FileId,
        at: u64,
        length: u64,
        is_partial: bool,
    ) -> Option<u64> {
        // A call at another position seeks first.
        self.files[file.0].position = at;
        let mut reader = Reader::new(file, false);
        reader.call(at, length, self.page_bytes);
        if is_partial {
            reader.stop = reader.end.min(reader.next + self.request_pages);
        }
        self.threads[thread].call = Call { at, end: at + length, is_partial };
        self.read_on(thread, reader)
    }

    /// Continues a thread's call. Returns the number of bytes read if it does not have to wait.
    fn read_on(&mut self, thread: usize, mut reader: Reader) -> Option<u64> {
        // A file is opened once, for all threads.
        let mut read_ahead = self.files[reader.file.0].read_ahead;
        let has_come = self.read(&mut reader, &mut read_ahead);
        let file = &mut self.files[reader.file.0];
        file.read_ahead = read_ahead;
        let thread = &mut self.threads[thread];
        thread.reader = reader;
        if !has_come {
            if thread.doing == ThreadState::Nothing {
                thread.now_at(self.now, ThreadState::Reading);
            }
            return None;
        }
        let end = (reader.stop * self.page_bytes).min(thread.call.end);
        let bytes = end - thread.call.at;
        thread.call.at = end;
        file.call_ended(end, bytes);
        Some(bytes)
    }

    /// Touches the cached part of a mapping. Returns its length in bytes if the thread does not have to wait.
    fn touch_from(&mut self, thread: usize, file: FileId, at: u64, end: u64) -> Option<u64> {
        let local = thread - self.workloads[self.threads[thread].workload].threads.0;
        let page = at / self.page_bytes;
        let pages = self.touch(file, local, page, end.div_ceil(self.page_bytes));
        if pages > 0 {
            return Some(((page + pages) * self.page_bytes).min(end) - at);
        }
        let thread = &mut self.threads[thread];
        if thread.doing == ThreadState::Nothing {
            thread.now_at(self.now, ThreadState::Touching { file, at, end });
        }
        None
    }
}
