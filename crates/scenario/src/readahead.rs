//! The kernel's read-ahead, as in `mm/readahead.c` since Linux 2.6.23: a window that doubles up to a limit, with a
//! mark; when the marked page is reached, the next window is requested while the program continues.
//!
//! All sizes are in pages. The page cache determines which pages of a window are missing. [`xnu`] implements Mac OS X's
//! read-ahead.

pub(crate) mod xnu;

/// Read-ahead state of one open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadAhead {
    /// Last window: its first page, its length, and the length after the mark.
    start: u64,
    size: u64,
    async_size: u64,
    /// Last page read.
    previous: Option<u64>,
}

/// A window of pages to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) pages: u64,
    /// Page that triggers the next window when it is reached.
    pub(crate) mark: Option<u64>,
}

impl ReadAhead {
    /// Returns whether `page` is the last page read; reading on within it is not a second use.
    pub(crate) fn is_within(&self, page: u64) -> bool {
        self.previous == Some(page)
    }

    /// Records that a page has been read.
    pub(crate) fn passed(&mut self, page: u64) {
        self.previous = Some(page);
    }

    /// Returns the window for a missing `page`, for a call that reads `wanted` pages from there on. `most` is the
    /// maximum window; 0 disables read-ahead.
    pub(crate) fn missing(&mut self, page: u64, wanted: u64, most: u64) -> Window {
        if most == 0 {
            return Window { start: page, pages: wanted, mark: None };
        }
        let sequential = self.previous.is_none_or(|previous| page.wrapping_sub(previous) <= 1);
        if page == 0 || wanted > most {
            self.begin(page, wanted, most)
        } else if self.continues_at(page) {
            self.go_on(most)
        } else if sequential {
            self.begin(page, wanted, most)
        } else {
            // A small random read: only the requested pages, without changing the state.
            Window { start: page, pages: wanted.min(most), mark: None }
        }
    }

    /// Returns the next window when the marked `page` is reached. `hole` finds the next page that is not cached, if
    /// there is one within [reach](ReadAhead::reach).
    pub(crate) fn marked(
        &mut self,
        page: u64,
        wanted: u64,
        most: u64,
        hole: impl FnOnce() -> Option<u64>,
    ) -> Option<Window> {
        if most == 0 {
            return None;
        }
        if self.continues_at(page) {
            return Some(self.go_on(most));
        }
        // The mark of another reader of the file. The next window begins at the next page that is not cached.
        let hole = hole()?;
        self.start = hole;
        self.size = next_size(hole - page + wanted, most);
        self.async_size = self.size;
        Some(self.window())
    }

    /// Returns the window around a missing `page` of a mapping (`do_sync_mmap_readahead`, since 2.6.31).
    pub(crate) fn around(&mut self, page: u64, most: u64) -> Window {
        if most == 0 {
            return Window { start: page, pages: 1, mark: None };
        }
        self.start = page.saturating_sub(most / 2);
        self.size = most;
        self.async_size = most / 4;
        self.window()
    }

    /// Returns the range in which to search for a hole, as far as [`marked`](ReadAhead::marked) can use it.
    pub(crate) fn reach(page: u64, most: u64) -> std::ops::Range<u64> {
        page + 1..page + 1 + most
    }

    fn continues_at(&self, page: u64) -> bool {
        self.size > 0 && (page == self.start + self.size - self.async_size || page == self.start + self.size)
    }

    fn begin(&mut self, page: u64, wanted: u64, most: u64) -> Window {
        self.start = page;
        self.size = first_size(wanted, most);
        self.async_size = if self.size > wanted { self.size - wanted } else { self.size };
        // The call itself will reach the mark, so the next window is merged with this one.
        if self.async_size == self.size {
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.async_size = more;
                self.size += more;
            } else {
                self.size = most;
                self.async_size = most / 2;
            }
        }
        self.window()
    }

    fn go_on(&mut self, most: u64) -> Window {
        self.start += self.size;
        self.size = next_size(self.size, most);
        self.async_size = self.size;
        self.window()
    }

    fn window(&self) -> Window {
        let mark = (self.async_size > 0).then(|| self.start + self.size - self.async_size);
        Window { start: self.start, pages: self.size, mark }
    }
}

/// `get_init_ra_size`.
fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// `get_next_ra_size`.
fn next_size(size: u64, most: u64) -> u64 {
    if size < most / 16 { size * 4 } else { (size * 2).min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_doubles_to_its_limit() {
        let mut file = ReadAhead::default();
        // 32 KiB calls with a maximum of 128 KiB, as for gzip on an ordinary file system.
        let first = file.missing(0, 8, 32);
        assert_eq!(first, Window { start: 0, pages: 16, mark: Some(8) });
        let second = file.marked(8, 8, 32, || None).unwrap();
        assert_eq!(second, Window { start: 16, pages: 32, mark: Some(16) });
        let third = file.marked(16, 8, 32, || None).unwrap();
        assert_eq!(third, Window { start: 48, pages: 32, mark: Some(48) });
    }

    #[test]
    fn a_fault_in_a_mapping_brings_in_what_lies_around_it() {
        let mut file = ReadAhead::default();
        assert_eq!(file.around(100, 32), Window { start: 84, pages: 32, mark: Some(108) });
        let next = file.marked(108, 1, 32, || None).unwrap();
        assert_eq!(next, Window { start: 116, pages: 32, mark: Some(116) });
    }

    #[test]
    fn a_read_somewhere_else_gets_no_more_than_it_wants() {
        let mut file = ReadAhead::default();
        file.missing(0, 1, 32);
        file.passed(0);
        assert_eq!(file.missing(500, 1, 32), Window { start: 500, pages: 1, mark: None });
    }

    #[test]
    fn the_mark_of_another_reader_is_followed_from_the_next_hole() {
        let mut file = ReadAhead::default();
        assert_eq!(
            file.marked(100, 8, 32, || Some(120)),
            Some(Window { start: 120, pages: 32, mark: Some(120) })
        );
        assert_eq!(file.marked(300, 8, 32, || None), None);
    }
}
