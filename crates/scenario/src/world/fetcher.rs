//! The prefetcher: the real controller, observing the simulated program.
//!
//! It polls the program at the instants requested by the controller, or at the end of a sleep with the timer resolution
//! of kernels of the time. The requested ranges are fetched in order, call by call: by reading, as the paper's thread,
//! or by requesting read-ahead from the kernel, as for unmodified programs.

use std::collections::VecDeque;
use std::ops::Range;

use sakiyomi_model::{Nanos, Op};
use sakiyomi_prefetch::{Action, Event, ReadingId, State};

use super::World;
use super::pages::Reader;
use crate::cache::FileId;
use crate::file::File;
use crate::outcome::Distances;
use crate::readahead::{ReadAhead, Window};
use crate::spec::PrefetchMethod;

/// Minimum sleep between two polls, each of which costs some microseconds of CPU time.
const SLEEP_MIN: Nanos = Nanos(50_000);

pub(super) struct Fetcher {
    id: ReadingId,
    /// Thread that has opened the file.
    thread: usize,
    /// Time of the next poll; `None` once the program has ended.
    wake: Option<Nanos>,
    /// Ranges still to be fetched, in bytes.
    todo: VecDeque<Range<u64>>,
    /// Range being fetched, and the position reached.
    under_way: Option<(Range<u64>, u64)>,
    reader: Reader,
    /// Kernel's read-ahead state of the file opened by the prefetcher.
    read_ahead: ReadAhead,
    pub(super) distances: Distances,
    pub(super) state: Option<State>,
}

impl Fetcher {
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.wake
    }
}

impl World<'_> {
    /// Begins to follow a file that a thread has opened, if there is a prefetcher.
    pub(super) fn follow(&mut self, file: FileId, thread: usize) {
        if self.controller.is_none() || !self.files[file.0].is_followed {
            return;
        }
        self.unfollow(file);
        let id = ReadingId(u32::try_from(file.0).expect("few files"));
        self.followed.insert(file.0);
        self.fetchers[file.0] = Some(Fetcher {
            id,
            thread,
            wake: Some(self.now),
            todo: VecDeque::new(),
            under_way: None,
            reader: Reader::new(file, true),
            read_ahead: ReadAhead::default(),
            distances: Distances::default(),
            state: None,
        });
        let size = self.files[file.0].size;
        self.notify(file, Event::Opened { id, at: 0, size });
    }

    /// Ends the following of a file.
    pub(super) fn unfollow(&mut self, file: FileId) {
        let Some(fetcher) = &mut self.fetchers[file.0] else { return };
        let id = fetcher.id;
        fetcher.wake = None;
        fetcher.todo.clear();
        fetcher.under_way = None;
        let Some(controller) = &mut self.controller else { return };
        controller.on(self.now, Event::Closed { id }, &mut Vec::new());
    }

    /// Polls the program, if it is due.
    pub(super) fn poll(&mut self, file: FileId) {
        let due = self.fetchers[file.0].as_ref().and_then(|fetcher| fetcher.wake);
        if due.is_some_and(|due| due <= self.now) {
            self.observe(file);
            self.go_to_sleep(file);
        }
    }

    /// Reports the program's position and times to the controller, and fetches.
    fn observe(&mut self, file: FileId) {
        let Some(fetcher) = &self.fetchers[file.0] else { return };
        let (id, thread) = (fetcher.id, fetcher.thread);
        let window = self.window_max * self.page_bytes;
        let wants = self.threads[thread].wants(file);
        let waits = wants.map(|wants| Event::Blocked { id, wants, window });
        self.notify_progress(file, id, thread);
        if let Some(waits) = waits {
            self.notify(file, waits);
        }
        self.fetch(file);
    }

    /// Reports the times of the program, and its file position, to the controller.
    fn notify_progress(&mut self, file: FileId, id: ReadingId, thread: usize) {
        let (cpu_time, io_wait) = (self.ran(thread), self.threads[thread].waited(self.now));
        let File { read_bytes, position, .. } = self.files[file.0];
        self.notify(file, Event::Times { id, cpu_time, io_wait, read: Some(read_bytes) });
        self.notify(file, Event::Position { id, at: position });
    }

    /// Sleeps until the controller requests the next poll, for at least the duration of a sleep.
    fn go_to_sleep(&mut self, file: FileId) {
        let Some(fetcher) = &mut self.fetchers[file.0] else { return };
        let Some(wake) = self.controller.as_ref().and_then(|controller| controller.wake(fetcher.id)) else {
            fetcher.wake = None;
            return;
        };
        let tick = self.tick.0;
        let earliest = match tick {
            0 => self.now + SLEEP_MIN,
            tick => Nanos((self.now.0 / tick + 2) * tick),
        };
        // A single thread that reads does not poll meanwhile.
        let reads = self.prefetch.how == PrefetchMethod::Read && fetcher.under_way.is_some();
        // Without exact timers the sleep is as short as possible, independent of the controller's request.
        let wanted = if tick > 0 { earliest } else { wake.max(earliest) };
        fetcher.wake = (!reads).then_some(wanted);
    }

    /// Sends an event to the controller, and records its requests.
    fn notify(&mut self, file: FileId, event: Event) {
        let (mut first, mut found) = (Some(event), VecDeque::new());
        let mut todo = Vec::new();
        while let Some(event) = first.take().or_else(|| found.pop_front()) {
            let Some(controller) = &mut self.controller else { return };
            controller.on(self.now, event, &mut todo);
            for action in todo.drain(..) {
                match action {
                    Action::Fetch { range, .. } => {
                        if let Some(fetcher) = &mut self.fetchers[file.0] {
                            fetcher.todo.push_back(range);
                        }
                    }
                    Action::CheckResidency { id, range } => {
                        let (cached, evicted) = self.found(file, &range);
                        found.push_back(Event::Residency { id, range, cached, evicted });
                    }
                }
            }
        }
        self.take_note(file);
    }

    fn take_note(&mut self, file: FileId) {
        let (Some(controller), Some(fetcher)) = (&self.controller, &mut self.fetchers[file.0]) else {
            return;
        };
        if let Some(ahead) = controller.ahead(fetcher.id) {
            fetcher.distances.seen(self.now, ahead.end - ahead.start);
        }
        fetcher.state = controller.state(fetcher.id).or(fetcher.state);
    }

    /// Returns how much of a range is cached or loading, and how much was evicted, in bytes.
    fn found(&self, file: FileId, range: &Range<u64>) -> (u64, u64) {
        let (mut cached, mut evicted) = (0, 0);
        for page in range.start / self.page_bytes..range.end.div_ceil(self.page_bytes) {
            let from = (page * self.page_bytes).max(range.start);
            let length = ((page + 1) * self.page_bytes).min(range.end) - from;
            if self.cache.state(file, page).is_some() {
                cached += length;
            } else if self.cache.was_evicted(file, page) {
                evicted += length;
            }
        }
        (cached, evicted)
    }

    /// Continues a fetch whose pages may have arrived.
    pub(super) fn resume_fetcher(&mut self, file: FileId) {
        if self.fetchers[file.0].as_ref().is_some_and(|fetcher| fetcher.under_way.is_some()) {
            self.fetch(file);
        }
    }

    /// Fetches the pending ranges in order, until there are none left or it has to wait.
    fn fetch(&mut self, file: FileId) {
        loop {
            let Some(fetcher) = &mut self.fetchers[file.0] else { return };
            if fetcher.under_way.is_none() {
                let Some(range) = fetcher.todo.pop_front() else { return };
                let start = range.start;
                let call = self.prefetch.call.0.min(range.end - start);
                fetcher.reader.call(start, call, self.page_bytes);
                fetcher.under_way = Some((range, start));
            }
            let is_done = match self.prefetch.how {
                PrefetchMethod::Read => self.fetch_by_reading(file),
                PrefetchMethod::Readahead => self.fetch_by_asking(file),
            };
            if !is_done {
                return;
            }
            self.fetched(file);
        }
    }

    fn fetched(&mut self, file: FileId) {
        let Some(fetcher) = &mut self.fetchers[file.0] else { return };
        let (id, thread) = (fetcher.id, fetcher.thread);
        let Some((range, _)) = fetcher.under_way.take() else { return };
        if self.prefetch.how == PrefetchMethod::Read {
            // The thread compares the positions after each step, and sleeps only if it is far enough ahead.
            self.notify_progress(file, id, thread);
        }
        self.notify(file, Event::Fetched { id, range, done: true });
        if self.fetchers[file.0].as_ref().is_some_and(|fetcher| fetcher.todo.is_empty()) {
            self.go_to_sleep(file);
        }
    }

    /// Continues reading; returns whether the range has been read.
    fn fetch_by_reading(&mut self, file: FileId) -> bool {
        let Some(fetcher) = &self.fetchers[file.0] else { return true };
        let Some((Range { end, .. }, mut at)) = fetcher.under_way else { return true };
        let (mut reader, mut read_ahead) = (fetcher.reader, fetcher.read_ahead);
        let call = self.prefetch.call.0;
        let is_done = loop {
            if !self.read(&mut reader, &mut read_ahead) {
                break false;
            }
            let next = end.min(at + call);
            if next == end {
                break true;
            }
            reader.call(next, call.min(end - next), self.page_bytes);
            at = next;
        };
        if let Some(fetcher) = &mut self.fetchers[file.0] {
            (fetcher.reader, fetcher.read_ahead) = (reader, read_ahead);
            fetcher.under_way.iter_mut().for_each(|under_way| under_way.1 = at);
        }
        is_done
    }

    /// Requests pages, call by call, as long as the block queue accepts them; returns whether all have been requested.
    fn fetch_by_asking(&mut self, file: FileId) -> bool {
        loop {
            let Some(fetcher) = &mut self.fetchers[file.0] else { return true };
            let Some((range, at)) = &mut fetcher.under_way else { return true };
            if *at >= range.end {
                return true;
            }
            if self.queue.waiting(Op::Read) >= self.requests_max {
                return false;
            }
            let end = range.end.min(*at + self.prefetch.call.0);
            let start = *at / self.page_bytes;
            let pages = end.div_ceil(self.page_bytes) - start;
            *at = end;
            self.read_window(file, Window { start, pages, mark: None }, true);
        }
    }
}
