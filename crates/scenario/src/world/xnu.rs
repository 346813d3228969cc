//! Reading through the page cache as in Mac OS X: the pages of a call are requested in requests of maximum size, some
//! in advance, and the call's read-ahead with the last of them; then the call waits for its pages.

use std::ops::Range;

use super::World;
use super::pages::Reader;
use crate::cache::State;
use crate::readahead::Window;

impl World<'_> {
    /// Continues a call until it stops or has to wait. Returns whether it has reached its stop.
    pub(super) fn read_as_xnu(&mut self, reader: &mut Reader) -> bool {
        while reader.next < reader.stop {
            let page = reader.next;
            self.ask_in_advance(reader);
            // The page was not requested for lack of space, or has been evicted again.
            if self.must_bring(reader.file, page) == State::Loading {
                self.queue.unplug();
                return false;
            }
            self.cache.pass(reader.file, page, false, reader.is_ahead);
            reader.next = page + 1;
        }
        true
    }

    /// Requests pages of the call, up to the maximum read-ahead, when less than a quarter of that is left; and once,
    /// after the last of them, the call's read-ahead.
    fn ask_in_advance(&mut self, reader: &mut Reader) {
        let left = reader.asked.saturating_sub(reader.next);
        if reader.asked >= reader.end || left > self.window_max / 4 {
            return;
        }
        let end = reader.end.min(reader.asked + self.window_max.max(self.request_pages));
        self.bring_pages(reader, reader.asked..end);
        reader.asked = end;
        if end == reader.end {
            let (file, cache) = (reader.file, &self.cache);
            let is_there = |page| page >= cache.pages(file) || cache.state(file, page).is_some();
            let ahead = self.files[file.0].clusters.call(reader.start..end, self.window_max, is_there);
            ahead.into_iter().for_each(|ahead| self.bring_pages(reader, ahead));
        }
    }

    fn bring_pages(&mut self, reader: &Reader, pages: Range<u64>) {
        let window = Window { start: pages.start, pages: pages.end - pages.start, mark: None };
        self.read_window(reader.file, window, reader.is_ahead);
    }
}
