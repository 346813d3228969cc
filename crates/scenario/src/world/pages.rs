//! Page cache I/O: reads with the kernel's read-ahead, writes, and write-back.

use sakiyomi_model::Op;

use super::World;
use crate::cache::{FileId, State};
use crate::file::File;
use crate::queue::{self, Purpose};
use crate::readahead::{ReadAhead, Window};
use crate::spec::Kernel;

/// A read call in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) file: FileId,
    /// Next page of the call, and first page after it.
    pub(super) next: u64,
    pub(super) end: u64,
    /// Page before which it stops for now, so that data read can be copied.
    pub(super) stop: u64,
    /// In Mac OS X, first page of the call, and first page that has not been requested.
    pub(super) start: u64,
    pub(super) asked: u64,
    /// Whether it reads for a prefetcher.
    pub(super) is_ahead: bool,
}

impl Reader {
    pub(super) fn new(file: FileId, is_ahead: bool) -> Reader {
        Reader { file, next: 0, end: 0, stop: 0, start: 0, asked: 0, is_ahead }
    }

    /// Begins a call.
    pub(super) fn call(&mut self, at: u64, length: u64, page_bytes: u64) {
        self.next = at / page_bytes;
        self.end = (at + length).div_ceil(page_bytes);
        self.stop = self.end;
        (self.start, self.asked) = (self.next, self.next);
    }
}

impl World<'_> {
    /// Continues a call, page by page, until it stops or has to wait. Returns whether it has reached its stop.
    ///
    /// In Linux it follows `generic_file_read`: a missing page loads a window, a marked one the next window, and then
    /// the page itself is waited for.
    pub(super) fn read(&mut self, reader: &mut Reader, read_ahead: &mut ReadAhead) -> bool {
        if self.kernel == Kernel::Xnu {
            return self.read_as_xnu(reader);
        }
        while reader.next < reader.stop {
            let page = reader.next;
            let state = match self.cache.meet(reader.file, page) {
                Some((state, false)) => Some(state),
                Some((_, true)) => {
                    self.go_on(reader, read_ahead, page);
                    self.cache.state(reader.file, page)
                }
                None => Some(self.miss(reader, read_ahead, page)),
            };
            if state == Some(State::Loading) {
                self.queue.unplug();
                return false;
            }
            self.cache.pass(reader.file, page, read_ahead.is_within(page), reader.is_ahead);
            read_ahead.passed(page);
            reader.next += 1;
        }
        true
    }

    /// Loads a window for a missing page. Returns the state of the page.
    fn miss(&mut self, reader: &Reader, read_ahead: &mut ReadAhead, page: u64) -> State {
        let window = read_ahead.missing(page, reader.end - page, self.window_max(reader.file));
        self.read_window(reader.file, self.as_allowed(window), reader.is_ahead);
        self.must_bring(reader.file, page)
    }

    /// Removes the mark of a window if windows are not requested in advance.
    pub(super) fn as_allowed(&self, window: Window) -> Window {
        Window { mark: window.mark.filter(|_| self.asynchronous), ..window }
    }

    /// Ensures that a requested page is loaded even if there was no space for a window. Returns its state.
    pub(super) fn must_bring(&mut self, file: FileId, page: u64) -> State {
        self.cache.state(file, page).unwrap_or_else(|| {
            self.cache.insert(file, page, State::Loading, true);
            self.ask(file, page, 1);
            State::Loading
        })
    }

    fn go_on(&mut self, reader: &Reader, read_ahead: &mut ReadAhead, page: u64) {
        let wanted = reader.end - page;
        self.next_window(
            reader.file,
            read_ahead,
            page,
            wanted,
            self.window_max(reader.file),
            reader.is_ahead,
        );
    }

    /// Returns the maximum read-ahead window of a file, in pages.
    fn window_max(&self, file: FileId) -> u64 {
        self.window_max * self.files[file.0].window_factor
    }

    /// Loads the next window after a marked page.
    pub(super) fn next_window(
        &mut self,
        file: FileId,
        read_ahead: &mut ReadAhead,
        page: u64,
        wanted: u64,
        most: u64,
        is_ahead: bool,
    ) {
        let pages = self.cache.pages(file);
        let cache = &self.cache;
        let hole =
            || ReadAhead::reach(page, most).find(|&page| page < pages && cache.state(file, page).is_none());
        if let Some(window) = read_ahead.marked(page, wanted, most, hole) {
            self.read_window(file, window, is_ahead);
        }
    }

    /// Loads the missing pages of a window, as far as there is space.
    pub(super) fn read_window(&mut self, file: FileId, window: Window, is_ahead: bool) {
        let end = (window.start + window.pages).min(self.cache.pages(file));
        let mut run = window.start;
        for page in window.start..end {
            let is_missing = self.cache.state(file, page).is_none();
            let is_taken = is_missing && self.cache.insert(file, page, State::Loading, false);
            if is_taken && is_ahead {
                self.cache.set_ahead(file, page);
            }
            if is_taken && window.mark == Some(page) {
                self.cache.mark(file, page);
            }
            if !is_taken {
                self.ask(file, run, page - run);
                run = page + 1;
            }
            if is_missing && !is_taken {
                return;
            }
        }
        self.ask(file, run, end.saturating_sub(run));
    }

    /// Requests to read contiguous pages of a file.
    fn ask(&mut self, file: FileId, start: u64, pages: u64) {
        if pages == 0 {
            return;
        }
        self.submit(Op::Read, file, start, pages);
    }

    /// Submits requests for pages, split at fragments of the file and at the maximum request size.
    fn submit(&mut self, op: Op, file: FileId, start: u64, pages: u64) {
        let File { layout, owner, reads, .. } = &mut self.files[file.0];
        for (sector, first, pages) in layout.runs(start, pages) {
            for cut in (0..pages).step_by(self.request_pages as usize) {
                let length = self.request_pages.min(pages - cut);
                let sectors = layout.sectors_per_page();
                let extent = queue::extent(sector + cut * sectors, length * sectors);
                let purpose = Purpose::Pages { file, start: first + cut, pages: length };
                self.queue.add(self.now, op, *owner, extent, purpose);
                if op == Op::Read {
                    reads.begin(self.now);
                }
            }
        }
    }

    /// Handles the completion of a transfer of pages.
    pub(super) fn transferred(&mut self, op: Op, file: FileId, start: u64, pages: u64) {
        let under_way = if op == Op::Read { State::Loading } else { State::Writing };
        for page in start..start + pages {
            // Pages that became dirty again while being written stay dirty.
            if self.cache.state(file, page) == Some(under_way) {
                self.cache.set_state(file, page, State::Clean);
            }
        }
        if op == Op::Read {
            self.read_ended(file);
        } else {
            self.write_back.written(pages);
        }
    }

    pub(super) fn read_ended(&mut self, file: FileId) {
        self.files[file.0].reads.end(self.now);
    }

    /// Reads for a thread, bypassing the page cache. Returns the number of requests to wait for.
    pub(super) fn read_direct(&mut self, thread: usize, file: FileId, at: u64, length: u64) -> u64 {
        let start = at / self.page_bytes;
        let pages = (at + length).div_ceil(self.page_bytes) - start;
        let File { layout, owner, reads, .. } = &mut self.files[file.0];
        let mut requests = 0;
        for (sector, _, pages) in layout.runs(start, pages) {
            let extent = queue::extent(sector, pages * layout.sectors_per_page());
            self.queue.add(self.now, Op::Read, *owner, extent, Purpose::Direct { thread });
            reads.begin(self.now);
            requests += 1;
        }
        self.queue.unplug();
        requests
    }

    /// Makes pages of an output dirty, from `from` up to `to`, in bytes.
    pub(super) fn write(&mut self, file: FileId, from: u64, to: u64) {
        for page in from / self.page_bytes..to.div_ceil(self.page_bytes) {
            match self.cache.state(file, page) {
                Some(State::Dirty) => {}
                Some(_) => {
                    self.cache.set_state(file, page, State::Dirty);
                    self.write_back.dirtied(self.now, file, page);
                }
                None => {
                    self.cache.insert(file, page, State::Dirty, true);
                    self.write_back.dirtied(self.now, file, page);
                }
            }
            self.cache.touch(file, page);
        }
    }

    /// Writes back dirty pages as required, as far as the block queue has space.
    pub(super) fn write_out(&mut self) {
        while self.queue.waiting(Op::Write) < self.requests_max {
            let Some((file, start, pages)) = self.write_back.next(self.request_pages) else { return };
            for page in start..start + pages {
                self.cache.set_state(file, page, State::Writing);
            }
            self.submit(Op::Write, file, start, pages);
        }
    }
}
