//! The prefetcher: the controller of real life, shown the simulated program.
//!
//! It looks at the program at the instants that the controller names, or when a sleep of the time's kernels would have
//! ended. What the controller wants fetched is fetched in order, call by call: by reading, as the paper's thread does,
//! or by asking the kernel to read ahead, as the follower of unmodified programs does.

use std::collections::VecDeque;
use std::ops::Range;

use sakiyomi_model::{Nanos, Op};
use sakiyomi_prefetch::{Action, Event, ReadingId, State};

use super::World;
use super::pages::Reader;
use crate::outcome::Distances;
use crate::readahead::Window;
use crate::spec::How;

/// Shortest sleep between two polls, each of which costs some microseconds of CPU time.
const SLEEP_MIN: Nanos = Nanos(50_000);

pub(super) struct Fetcher {
    id: ReadingId,
    /// When it looks at the program next; none once the program has ended.
    wake: Option<Nanos>,
    /// What is still to be fetched, in bytes.
    todo: VecDeque<Range<u64>>,
    /// What is being fetched, and how far that has come.
    under_way: Option<(Range<u64>, u64)>,
    reader: Reader,
    pub(super) distances: Distances,
    pub(super) state: Option<State>,
}

impl Fetcher {
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.wake
    }
}

impl World {
    /// A program has begun: from now on it is followed, if there is a prefetcher.
    pub(super) fn follow(&mut self, index: usize) {
        if self.controller.is_none() {
            return;
        }
        let process = &self.processes[index];
        let id = ReadingId(u32::try_from(index).expect("few programs"));
        self.fetchers[index] = Some(Fetcher {
            id,
            wake: Some(self.now),
            todo: VecDeque::new(),
            under_way: None,
            reader: Reader::new(process.file, true),
            distances: Distances::default(),
            state: None,
        });
        let event = Event::Begun { id, at: 0, size: process.size };
        self.tell(index, event);
    }

    /// A program has ended.
    pub(super) fn unfollow(&mut self, index: usize) {
        let Some(fetcher) = &mut self.fetchers[index] else { return };
        let id = fetcher.id;
        fetcher.wake = None;
        fetcher.todo.clear();
        fetcher.under_way = None;
        let Some(controller) = &mut self.controller else { return };
        controller.on(self.now, Event::Ended { id }, &mut Vec::new());
    }

    /// Looks at the program, if it is time.
    pub(super) fn poll(&mut self, index: usize) {
        let due = self.fetchers[index].as_ref().and_then(|fetcher| fetcher.wake);
        if due.is_some_and(|due| due <= self.now) {
            self.look(index);
            self.go_to_sleep(index);
        }
    }

    /// Shows the controller where the program is and what it has spent.
    fn look(&mut self, index: usize) {
        let Some(fetcher) = &self.fetchers[index] else { return };
        let id = fetcher.id;
        let (ran, now) = (self.ran(index), self.now);
        let process = &self.processes[index];
        let spent = Event::Spent { id, ran, waited: process.waited(now), read: Some(process.read) };
        let at = Event::At { id, at: process.at };
        let window = self.window_max * self.page_bytes;
        let waits = process.wants().map(|wants| Event::Waits { id, wants, window });
        self.tell(index, spent);
        self.tell(index, at);
        if let Some(waits) = waits {
            self.tell(index, waits);
        }
        self.fetch(index);
    }

    /// Until the controller wants to look again, and as long as a sleep takes.
    fn go_to_sleep(&mut self, index: usize) {
        let Some(fetcher) = &mut self.fetchers[index] else { return };
        let Some(wake) = self.controller.as_ref().and_then(|controller| controller.wake(fetcher.id)) else {
            fetcher.wake = None;
            return;
        };
        let tick = self.tick.0;
        let earliest = match tick {
            0 => self.now + SLEEP_MIN,
            tick => Nanos((self.now.0 / tick + 2) * tick),
        };
        // One thread that reads does not look meanwhile.
        let reads = self.prefetch.how == How::Read && fetcher.under_way.is_some();
        // Without timers that are exact a sleep is as short as it can be, and the controller's wish is not waited for.
        let wanted = if tick > 0 { earliest } else { wake.max(earliest) };
        fetcher.wake = (!reads).then_some(wanted);
    }

    /// Tells the controller, and takes down what it wants.
    fn tell(&mut self, index: usize, event: Event) {
        let mut events = VecDeque::from([event]);
        let mut todo = Vec::new();
        while let Some(event) = events.pop_front() {
            let Some(controller) = &mut self.controller else { return };
            controller.on(self.now, event, &mut todo);
            for action in todo.drain(..) {
                match action {
                    Action::Fetch { range, .. } => {
                        if let Some(fetcher) = &mut self.fetchers[index] {
                            fetcher.todo.push_back(range);
                        }
                    }
                    Action::Look { id, range } => {
                        let (cached, evicted) = self.found(index, &range);
                        events.push_back(Event::Found { id, range, cached, evicted });
                    }
                }
            }
        }
        self.take_note(index);
    }

    fn take_note(&mut self, index: usize) {
        let (Some(controller), Some(fetcher)) = (&self.controller, &mut self.fetchers[index]) else { return };
        if let Some(ahead) = controller.ahead(fetcher.id) {
            fetcher.distances.seen(self.now, ahead.end - ahead.start);
        }
        fetcher.state = controller.state(fetcher.id).or(fetcher.state);
    }

    /// How much of a range is in memory or on its way, and how much had to go, in bytes.
    fn found(&self, index: usize, range: &Range<u64>) -> (u64, u64) {
        let file = self.processes[index].file;
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

    /// What a fetch waits for may be there.
    pub(super) fn resume_fetcher(&mut self, index: usize) {
        if self.fetchers[index].as_ref().is_some_and(|fetcher| fetcher.under_way.is_some()) {
            self.fetch(index);
        }
    }

    /// Fetches, one after another, what is to be, until there is nothing more or it has to wait.
    fn fetch(&mut self, index: usize) {
        loop {
            let Some(fetcher) = &mut self.fetchers[index] else { return };
            if fetcher.under_way.is_none() {
                let Some(range) = fetcher.todo.pop_front() else { return };
                let start = range.start;
                let call = self.prefetch.call.0.min(range.end - start);
                fetcher.reader.call(start, call, self.page_bytes);
                fetcher.under_way = Some((range, start));
            }
            let is_done = match self.prefetch.how {
                How::Read => self.fetch_by_reading(index),
                How::Readahead => self.fetch_by_asking(index),
            };
            if !is_done {
                return;
            }
            self.fetched(index);
        }
    }

    fn fetched(&mut self, index: usize) {
        let Some(fetcher) = &mut self.fetchers[index] else { return };
        let id = fetcher.id;
        let Some((range, _)) = fetcher.under_way.take() else { return };
        if self.prefetch.how == How::Read {
            // The thread compares the positions after each step, and sleeps only if it is far enough ahead.
            let now = self.now;
            let (ran, process) = (self.ran(index), &self.processes[index]);
            let (waited, read, at) = (process.waited(now), Some(process.read), process.at);
            self.tell(index, Event::Spent { id, ran, waited, read });
            self.tell(index, Event::At { id, at });
        }
        self.tell(index, Event::Fetched { id, range, done: true });
        if self.fetchers[index].as_ref().is_some_and(|fetcher| fetcher.todo.is_empty()) {
            self.go_to_sleep(index);
        }
    }

    /// Reads on; says whether the range is read.
    fn fetch_by_reading(&mut self, index: usize) -> bool {
        loop {
            let Some(fetcher) = &self.fetchers[index] else { return true };
            let mut reader = fetcher.reader;
            let Some((range, at)) = fetcher.under_way.clone() else { return true };
            let is_done = self.read(&mut reader);
            let Some(fetcher) = &mut self.fetchers[index] else { return true };
            fetcher.reader = reader;
            if !is_done {
                return false;
            }
            let next = range.end.min(at + self.prefetch.call.0);
            if next == range.end {
                return true;
            }
            let length = self.prefetch.call.0.min(range.end - next);
            fetcher.reader.call(next, length, self.page_bytes);
            fetcher.under_way = Some((range, next));
        }
    }

    /// Asks for pages, call by call, as long as the block queue takes them; says whether all have been asked for.
    fn fetch_by_asking(&mut self, index: usize) -> bool {
        loop {
            let Some(fetcher) = &mut self.fetchers[index] else { return true };
            let file = fetcher.reader.file;
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
            self.bring(file, Window { start, pages, mark: None }, true);
        }
    }
}
