//! The kernel's own read-ahead, as in `mm/readahead.c` since Linux 2.6.23: a window that doubles up to a limit, and a
//! mark in it; when the marked page is reached the next window is asked for, while the program goes on.
//!
//! All in pages. Which of a window's pages are missing is the page cache's business. [`xnu`] has Mac OS X's.

pub(crate) mod xnu;

/// What the kernel remembers of one open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadAhead {
    /// The last window asked for: its first page, its length, and how much of its end lies behind the mark.
    start: u64,
    size: u64,
    async_size: u64,
    /// The last page that was read.
    previous: Option<u64>,
}

/// Pages to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) pages: u64,
    /// The page that, once reached, calls for the next window.
    pub(crate) mark: Option<u64>,
}

impl ReadAhead {
    /// Whether `page` is the one that was read last: then reading on in it is no second use.
    pub(crate) fn is_within(&self, page: u64) -> bool {
        self.previous == Some(page)
    }

    /// A page has been read.
    pub(crate) fn passed(&mut self, page: u64) {
        self.previous = Some(page);
    }

    /// `page` is missing, and the call wants `wanted` pages from there on. `most` is the longest window; 0 means none.
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
            // A small read somewhere: just what is wanted, and nothing is remembered.
            Window { start: page, pages: wanted.min(most), mark: None }
        }
    }

    /// The marked `page` has been reached. `hole` finds the next page that is not in memory, if there is one within
    /// [reach](ReadAhead::reach).
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
        // Somebody else's mark: two readers in one file. The next window begins where memory has a hole.
        let hole = hole()?;
        self.start = hole;
        self.size = next_size(hole - page + wanted, most);
        self.async_size = self.size;
        Some(self.window())
    }

    /// `page` is missing in a mapping: the window lies around it (`do_sync_mmap_readahead`, since 2.6.31).
    pub(crate) fn around(&mut self, page: u64, most: u64) -> Window {
        if most == 0 {
            return Window { start: page, pages: 1, mark: None };
        }
        self.start = page.saturating_sub(most / 2);
        self.size = most;
        self.async_size = most / 4;
        self.window()
    }

    /// How far the search for a hole goes: as far as [`marked`](ReadAhead::marked) can use it.
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
        // The call itself will reach the mark: the next window is joined to this one.
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
        // 32 KiB calls and 128 KiB at most, as gzip meets it on an ordinary file system.
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
