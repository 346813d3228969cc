//! The threads of workloads as the kernel sees them: they compute, wait, sleep, or have nothing to do. No workload is known
//! here by what it does.

use sakiyomi_model::Nanos;
use sakiyomi_regulate::Owner;

use super::World;
use super::pages::Reader;
use crate::cache::FileId;
use crate::cores::Burst;
use crate::outcome::WorkloadOutcome;
use crate::workload::{Action, Completed, FileIndex, Setup, ThreadIndex, View, Workload};

/// A workload in the world.
#[derive(Debug)]
pub(super) struct User<'a> {
    pub(super) setup: Setup,
    workload: Box<dyn Workload + 'a>,
    /// The numbers of its first thread and its first file among all, and those after its last.
    pub(super) threads: (usize, usize),
    pub(super) files: (usize, usize),
    /// When it wants to be asked for an action, as it has said last.
    next: Option<Nanos>,
    start: Nanos,
    end: Option<Nanos>,
    /// Pages that its buffers take away from the page cache.
    reserved: usize,
}

impl<'a> User<'a> {
    pub(super) fn new(
        setup: Setup,
        workload: Box<dyn Workload + 'a>,
        threads: (usize, usize),
        files: (usize, usize),
    ) -> User<'a> {
        let next = workload.next_event();
        let start = next.unwrap_or_default();
        User { setup, workload, threads, files, next, start, end: None, reserved: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.next
    }

    /// When it ended; `now` if it has not.
    pub(super) fn end(&self, now: Nanos) -> Nanos {
        self.end.unwrap_or(now)
    }
}

/// What a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// Until then.
    Sleeping(Nanos),
    /// On a core, or in the queue for one, for so long and for hops besides.
    Computing {
        time: Nanos,
        hops: Nanos,
    },
    /// In a call that reads, for a page that is on its way.
    Reading,
    /// In a call that reads past the page cache, for so many requests.
    ReadingDirect {
        file: FileId,
        at: u64,
        length: u64,
        requests: u64,
    },
    /// For a page of a mapping that is on its way.
    Touching {
        file: FileId,
        at: u64,
        end: u64,
    },
    /// In a call that writes, for room.
    Throttled {
        length: u64,
    },
}

impl Doing {
    fn waits_for_io(self) -> bool {
        matches!(
            self,
            Doing::Reading | Doing::ReadingDirect { .. } | Doing::Touching { .. } | Doing::Throttled { .. }
        )
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    user: usize,
    is_urgent: bool,
    doing: Doing,
    /// Since when it has been at it.
    since: Nanos,
    /// Its call that reads, or the last one.
    reader: Reader,
    call: Call,
    /// Where its time went.
    ran: Nanos,
    hops: Nanos,
    queued: Nanos,
    waited_read: Nanos,
    waited_write: Nanos,
    slept: Nanos,
    written_bytes: u64,
}

/// A call that reads: how far it has come, and where it ends, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    at: u64,
    end: u64,
    is_partial: bool,
}

impl Thread {
    pub(super) fn new(user: usize, is_urgent: bool) -> Thread {
        Thread {
            user,
            is_urgent,
            doing: Doing::Nothing,
            since: Nanos::ZERO,
            reader: Reader::new(FileId(0), false),
            call: Call::default(),
            ran: Nanos::ZERO,
            hops: Nanos::ZERO,
            queued: Nanos::ZERO,
            waited_read: Nanos::ZERO,
            waited_write: Nanos::ZERO,
            slept: Nanos::ZERO,
            written_bytes: 0,
        }
    }

    /// When it wakes by itself.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        match self.doing {
            Doing::Sleeping(until) => Some(until),
            _ => None,
        }
    }

    /// How long it has waited for I/O, this moment's wait included.
    pub(super) fn waited(&self, now: Nanos) -> Nanos {
        let present = if self.doing.waits_for_io() { now - self.since } else { Nanos::ZERO };
        self.waited_read + self.waited_write + present
    }

    /// How much of a file it has asked for in the call that it waits in, in bytes.
    pub(super) fn wants(&self, file: FileId) -> Option<u64> {
        let is_waiting = self.doing == Doing::Reading && self.reader.file == file;
        is_waiting.then(|| self.call.end.saturating_sub(self.call.at))
    }

    fn now_at(&mut self, now: Nanos, doing: Doing) {
        (self.doing, self.since) = (doing, now);
    }

    /// Its action has completed: where its time went is put down.
    fn account(&mut self, now: Nanos) -> Completed {
        let took = now - self.since;
        let mut completed = Completed::default();
        match self.doing {
            Doing::Nothing => {}
            Doing::Sleeping(_) => {
                self.slept += took;
                completed.slept = took;
            }
            Doing::Computing { time, hops } => {
                (completed.computed, completed.hops) = (time, hops);
                completed.queued = took.saturating_sub(time + hops);
                self.ran += time + hops;
                self.hops += hops;
                self.queued += completed.queued;
            }
            Doing::Reading | Doing::ReadingDirect { .. } | Doing::Touching { .. } => {
                self.waited_read += took;
                completed.waited = took;
            }
            Doing::Throttled { .. } => {
                self.waited_write += took;
                completed.waited = took;
            }
        }
        self.now_at(now, Doing::Nothing);
        completed
    }
}

impl World<'_> {
    /// How long a thread has been on a core.
    pub(super) fn ran(&mut self, index: usize) -> Nanos {
        let left = self.cores.left(self.now, index);
        let thread = &self.threads[index];
        match thread.doing {
            Doing::Computing { time, hops } => thread.ran + (time + hops).saturating_sub(left),
            _ => thread.ran,
        }
    }

    /// Asks a workload for actions, if it is time, until it has none. The time may have come by the end of a sleep.
    pub(super) fn wake(&mut self, index: usize) {
        self.settle(index);
        let (first, end) = self.users[index].threads;
        for thread in first..end {
            if self.threads[thread].next_event().is_some_and(|until| until <= self.now) {
                self.completed(thread, 0);
                self.settle(index);
            }
        }
    }

    /// What threads of a workload wait for may be there.
    pub(super) fn resume(&mut self, index: usize) {
        let (first, end) = self.users[index].threads;
        let mut has_gone_on = false;
        for thread in first..end {
            if let Some(bytes) = self.resumed(thread) {
                self.completed(thread, bytes);
                has_gone_on = true;
            }
        }
        if has_gone_on {
            self.settle(index);
        }
    }

    /// Goes on with what a thread waits for. Returns what has come, in bytes, if it waits no longer.
    fn resumed(&mut self, thread: usize) -> Option<u64> {
        match self.threads[thread].doing {
            Doing::Reading => self.read_on(thread),
            Doing::ReadingDirect { file, at, length, requests: 0 } => {
                self.call_ended(file, at + length, length);
                Some(length)
            }
            Doing::Touching { file, at, end } => self.touch_from(thread, file, at, end),
            Doing::Throttled { length } if !self.write_back.is_full() => Some(length),
            _ => None,
        }
    }

    /// The burst of a thread on a core is over.
    pub(super) fn burst_ended(&mut self, thread: usize) {
        self.completed(thread, 0);
        self.settle(self.threads[thread].user);
    }

    /// One of a thread's requests past the page cache has ended.
    pub(super) fn direct_ended(&mut self, thread: usize) {
        if let Doing::ReadingDirect { file, requests, .. } = &mut self.threads[thread].doing {
            *requests -= 1;
            let file = *file;
            self.read_ended(file);
        }
    }

    /// Asks a workload for actions as long as it wants that now.
    fn settle(&mut self, index: usize) {
        loop {
            let user = &mut self.users[index];
            if user.is_done() || user.next.is_none_or(|next| next > self.now) {
                break;
            }
            let view = View {
                now: self.now,
                page_bytes: self.page_bytes,
                cache: &self.cache,
                files: &self.files,
                first_file: user.files.0,
            };
            let issued = user.workload.step(self.now, &view);
            user.next = user.workload.next_event();
            let Some((ThreadIndex(thread), action)) = issued else {
                assert!(
                    user.next.is_none_or(|next| next > self.now),
                    "workload {} has no action and wants to be asked for one again at once",
                    user.setup.name
                );
                break;
            };
            let thread = user.threads.0 + thread;
            assert!(
                thread < user.threads.1 && self.threads[thread].doing == Doing::Nothing,
                "workload {} gave an action to a thread that is busy or not its own",
                user.setup.name
            );
            self.carry_on(thread, action);
        }
        let user = &self.users[index];
        let (first, end) = user.threads;
        let is_stuck = || self.threads[first..end].iter().all(|thread| thread.doing == Doing::Nothing);
        assert!(
            user.is_done() || user.next.is_some() || !is_stuck(),
            "workload {} has not ended and waits for nothing",
            user.setup.name
        );
    }

    /// An action of a thread has completed: the thread goes on.
    fn completed(&mut self, thread: usize, bytes: u64) {
        if let Some(action) = self.deliver(thread, bytes) {
            self.carry_on(thread, action);
        }
    }

    /// Tells a thread's workload that its action has completed. Returns the thread's next action.
    fn deliver(&mut self, thread: usize, bytes: u64) -> Option<Action> {
        let completed = Completed { bytes, ..self.threads[thread].account(self.now) };
        let user = &mut self.users[self.threads[thread].user];
        let view = View {
            now: self.now,
            page_bytes: self.page_bytes,
            cache: &self.cache,
            files: &self.files,
            first_file: user.files.0,
        };
        let local = ThreadIndex(thread - user.threads.0);
        let action = user.workload.completed(self.now, &view, local, completed);
        user.next = user.workload.next_event();
        action
    }

    /// Carries out a thread's actions until it has to wait, computes, sleeps, or has nothing to do.
    fn carry_on(&mut self, thread: usize, action: Action) {
        let mut action = action;
        while let Some(bytes) = self.carry_out(thread, action) {
            let Some(next) = self.deliver(thread, bytes) else { return };
            action = next;
        }
    }

    /// Begins an action. Returns how many bytes have come, if it has completed already.
    fn carry_out(&mut self, thread: usize, action: Action) -> Option<u64> {
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
                self.begin_call(thread, file, at, length, is_partial);
                self.read_on(thread)
            }
            Action::ReadOn => {
                let request_pages = self.request_pages;
                let Thread { call, reader, .. } = &mut self.threads[thread];
                assert!(call.is_partial && call.at < call.end, "a thread goes on with a call that has ended");
                reader.stop = reader.end.min(reader.next + request_pages);
                self.read_on(thread)
            }
            Action::ReadDirect { file, at, length } => {
                let file = self.range(thread, file, at, at + length);
                let requests = self.read_direct(thread, file, at, length);
                self.threads[thread].now_at(now, Doing::ReadingDirect { file, at, length, requests });
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
                    self.threads[thread].now_at(now, Doing::Throttled { length });
                    return None;
                }
                Some(length)
            }
            Action::Compute { time, core, from } => {
                let Thread { user, is_urgent, .. } = self.threads[thread];
                let from = from.map(|ThreadIndex(from)| self.users[user].threads.0 + from);
                let hops = self.cores.run(now, thread, Burst { time, is_urgent, core, from });
                let Some(hops) = hops else { return Some(0) };
                self.threads[thread].now_at(now, Doing::Computing { time, hops });
                None
            }
            Action::Pause { length } => {
                self.threads[thread].now_at(now, Doing::Sleeping(now + length));
                None
            }
            Action::Reserve { bytes } => {
                let pages = bytes.div_ceil(self.page_bytes) as usize;
                self.users[self.threads[thread].user].reserved += pages;
                self.cache.take_away(pages);
                Some(0)
            }
            Action::Release => {
                let user = &mut self.users[self.threads[thread].user];
                self.cache.give_back(std::mem::take(&mut user.reserved));
                Some(0)
            }
            Action::Done => {
                self.end(self.threads[thread].user);
                None
            }
        }
    }

    /// The number of a thread's file among all.
    fn file(&self, thread: usize, FileIndex(file): FileIndex) -> FileId {
        let user = &self.users[self.threads[thread].user];
        let file = user.files.0 + file;
        assert!(file < user.files.1, "workload {} named a file that it has not", user.setup.name);
        FileId(file)
    }

    /// The same, of which a thread uses a range.
    fn range(&self, thread: usize, file: FileIndex, at: u64, end: u64) -> FileId {
        let file = self.file(thread, file);
        let size = self.files[file.0].size;
        assert!(at < end && end <= size, "a thread uses the bytes from {at} to {end} of a file of {size}");
        file
    }

    /// The same through the page cache.
    fn cached_range(&self, thread: usize, file: FileIndex, at: u64, end: u64) -> FileId {
        let file = self.range(thread, file, at, end);
        assert!(self.cache.pages(file) > 0, "a thread uses the page cache on a file that is bypassed");
        file
    }

    /// A workload has ended.
    fn end(&mut self, index: usize) {
        let user = &mut self.users[index];
        let (first, end) = user.threads;
        let is_idle = |thread: &Thread| thread.doing == Doing::Nothing;
        assert!(self.threads[first..end].iter().all(is_idle), "a workload ended with a thread still busy");
        user.end = Some(self.now);
        let (first, end) = user.files;
        (first..end).for_each(|file| self.unfollow(FileId(file)));
        self.front.clear_rate(self.now, Owner(index as u32));
    }

    fn begin_call(&mut self, thread: usize, file: FileId, at: u64, length: u64, is_partial: bool) {
        // A call that reads elsewhere has moved there first.
        self.files[file.0].position = at;
        let Thread { reader, call, .. } = &mut self.threads[thread];
        reader.file = file;
        reader.call(at, length, self.page_bytes);
        if is_partial {
            reader.stop = reader.end.min(reader.next + self.request_pages);
        }
        *call = Call { at, end: at + length, is_partial };
    }

    /// Goes on with a thread's call. Returns what has come of it, in bytes, if it does not have to wait.
    fn read_on(&mut self, thread: usize) -> Option<u64> {
        let Thread { mut reader, call, doing, .. } = self.threads[thread];
        // A file is open once, for all threads.
        reader.read_ahead = self.files[reader.file.0].read_ahead;
        let has_come = self.read(&mut reader);
        self.files[reader.file.0].read_ahead = reader.read_ahead;
        let thread = &mut self.threads[thread];
        thread.reader = reader;
        if !has_come {
            if doing == Doing::Nothing {
                thread.now_at(self.now, Doing::Reading);
            }
            return None;
        }
        let end = (reader.stop * self.page_bytes).min(call.end);
        thread.call.at = end;
        self.call_ended(reader.file, end, end - call.at);
        Some(end - call.at)
    }

    /// A call has brought so many bytes, up to `end`.
    fn call_ended(&mut self, file: FileId, end: u64, bytes: u64) {
        let file = &mut self.files[file.0];
        file.position = end;
        file.read_bytes += bytes;
    }

    /// Touches what is there of a mapping. Returns how much that is, in bytes, if it does not have to wait.
    fn touch_from(&mut self, thread: usize, file: FileId, at: u64, end: u64) -> Option<u64> {
        let local = thread - self.users[self.threads[thread].user].threads.0;
        let page = at / self.page_bytes;
        let pages = self.touch(file, local, page, end.div_ceil(self.page_bytes));
        if pages > 0 {
            return Some(((page + pages) * self.page_bytes).min(end) - at);
        }
        let thread = &mut self.threads[thread];
        if thread.doing == Doing::Nothing {
            thread.now_at(self.now, Doing::Touching { file, at, end });
        }
        None
    }

    /// What came of a workload so far.
    pub(super) fn user_outcome(&self, index: usize) -> WorkloadOutcome {
        let user = &self.users[index];
        let threads = &self.threads[user.threads.0..user.threads.1];
        let sum = |of: &dyn Fn(&Thread) -> Nanos| threads.iter().map(of).sum::<Nanos>();
        let files = &self.files[user.files.0..user.files.1];
        WorkloadOutcome {
            name: user.setup.name.clone(),
            elapsed: user.end(self.now).saturating_sub(user.start),
            ran: sum(&|thread| thread.ran),
            hops: sum(&|thread| thread.hops),
            queued: sum(&|thread| thread.queued),
            waited_read: sum(&|thread| thread.waited_read),
            waited_write: sum(&|thread| thread.waited_write),
            slept: sum(&|thread| thread.slept),
            read_bytes: files.iter().map(|file| file.read_bytes).sum(),
            written_bytes: threads.iter().map(|thread| thread.written_bytes).sum(),
        }
    }
}
