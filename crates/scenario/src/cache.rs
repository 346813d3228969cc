//! The page cache: the cached pages of all files, and their replacement.
//!
//! Two lists, as in Linux: a page enters the *inactive* list, and moves to the *active* list at its second use; the
//! coldest page of the inactive list is evicted. While the active list is longer, its coldest pages are demoted first.
//! Sequentially read data thus leaves the cache without evicting frequently used pages. A page that is loading, dirty
//! or being written cannot be evicted; when it is encountered it moves to the warm end, as in the kernel.
//!
//! Alternatively plain *LRU*: one list, with a page moving to the warm end at each use.
//!
//! Every operation takes constant time; `naive` is the reference implementation for the tests.

#[cfg(test)]
mod naive;

use crate::spec::Replacement;

/// Identifier of a file for the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) usize);

/// State of a cached page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Being read from the device.
    Loading,
    /// Equal to the content on the device.
    Clean,
    /// Newer than the content on the device.
    Dirty,
    /// Being written to the device.
    Writing,
}

/// The page cache.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    replacement: Replacement,
    capacity: usize,
    /// Pages reserved for other purposes.
    taken: usize,
    pages: Vec<Page>,
    free: Vec<u32>,
    /// For each file, the position of each page: an index into `pages`, or one of the two constants below.
    files: Vec<Vec<u32>>,
    inactive: List,
    active: List,
    /// Number of pages that cannot be evicted.
    pinned: usize,
    counts: Vec<Counts>,
}

/// Index of a page that has never been cached; also the end of a list.
const NEVER_CACHED: u32 = u32::MAX;
/// Index of a page that was evicted.
const EVICTED_PAGE: u32 = u32::MAX - 1;

/// Counters of a file, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Requested from the device.
    pub(crate) loaded: u64,
    /// Loaded for a prefetcher.
    pub(crate) prefetched: u64,
    /// Loaded for a prefetcher, and evicted before a program used them.
    pub(crate) wasted: u64,
    /// Evicted.
    pub(crate) evicted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    file: FileId,
    number: u32,
    warmer: u32,
    colder: u32,
    state: State,
    is_active: bool,
    /// Used once since it entered its list.
    referenced: bool,
    /// Reaching it triggers the next window of the kernel's read-ahead.
    marked: bool,
    /// Loaded for a prefetcher and not yet used by a program.
    ahead: bool,
}

impl PageCache {
    /// Creates a cache with a capacity in pages.
    pub(crate) fn new(capacity: usize, replacement: Replacement) -> PageCache {
        PageCache {
            replacement,
            capacity,
            taken: 0,
            pages: Vec::new(),
            free: Vec::new(),
            files: Vec::new(),
            inactive: List::default(),
            active: List::default(),
            pinned: 0,
            counts: Vec::new(),
        }
    }

    /// Reserves `pages` of the capacity for another purpose; evicts clean pages as needed.
    pub(crate) fn take_away(&mut self, pages: usize) {
        self.taken += pages;
        while self.len() > self.room() && self.evict() {}
    }

    /// Returns reserved pages.
    pub(crate) fn give_back(&mut self, pages: usize) {
        self.taken -= pages;
    }

    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.taken).max(1)
    }

    /// Adds a file with `pages` pages, none of them cached.
    pub(crate) fn add_file(&mut self, pages: u64) -> FileId {
        let pages = usize::try_from(pages).expect("a file's pages fit into memory");
        self.files.push(vec![NEVER_CACHED; pages]);
        self.counts.push(Counts::default());
        FileId(self.files.len() - 1)
    }

    /// Returns the size of a file in pages.
    pub(crate) fn pages(&self, file: FileId) -> u64 {
        self.files[file.0].len() as u64
    }

    /// Returns the state of a page, if it is cached.
    pub(crate) fn state(&self, file: FileId, page: u64) -> Option<State> {
        Some(self.pages[self.place(file, page)?].state)
    }

    /// Returns whether a page was cached and has been evicted.
    pub(crate) fn was_evicted(&self, file: FileId, page: u64) -> bool {
        self.files[file.0][page as usize] == EVICTED_PAGE
    }

    /// Returns the counters of a file.
    pub(crate) fn counts(&self, file: FileId) -> Counts {
        self.counts[file.0]
    }

    /// Returns the number of cached pages.
    pub(crate) fn len(&self) -> usize {
        self.inactive.len + self.active.len
    }

    /// Inserts a page that is not cached, evicting another one if necessary. If none can be evicted, the page is
    /// inserted only if `must` is set: the kernel abandons a read-ahead, but never a read. Returns whether it was
    /// inserted.
    pub(crate) fn insert(&mut self, file: FileId, page: u64, state: State, must: bool) -> bool {
        debug_assert!(self.place(file, page).is_none(), "the page is there");
        while self.len() >= self.room() {
            if !self.evict() {
                if must {
                    break;
                }
                return false;
            }
        }
        let new = Page {
            file,
            number: page as u32,
            warmer: NEVER_CACHED,
            colder: NEVER_CACHED,
            state,
            is_active: false,
            referenced: false,
            marked: false,
            ahead: false,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.pages[at as usize] = new;
                at
            }
            None => {
                self.pages.push(new);
                (self.pages.len() - 1) as u32
            }
        };
        self.files[file.0][page as usize] = at;
        self.counts[file.0].loaded += u64::from(state == State::Loading);
        self.pinned += usize::from(state != State::Clean);
        self.inactive.push(&mut self.pages, at);
        true
    }

    /// Records the use of a page by a program, or by a prefetcher that reads.
    pub(crate) fn touch(&mut self, file: FileId, page: u64) {
        if let Some(at) = self.place(file, page) {
            self.touch_at(at);
        }
    }

    fn touch_at(&mut self, at: usize) {
        if self.replacement == Replacement::Lru {
            self.inactive.remove(&mut self.pages, at as u32);
            self.inactive.push(&mut self.pages, at as u32);
        } else if !self.pages[at].referenced {
            self.pages[at].referenced = true;
        } else if !self.pages[at].is_active {
            self.inactive.remove(&mut self.pages, at as u32);
            self.pages[at].is_active = true;
            self.pages[at].referenced = false;
            self.active.push(&mut self.pages, at as u32);
        }
    }

    /// Records that a reader passes a page: the page is touched, unless `is_same` indicates that the reader continues
    /// within it. Once a program, rather than a prefetcher, has passed it, its prefetch was not wasted.
    pub(crate) fn pass(&mut self, file: FileId, page: u64, is_same: bool, is_prefetcher: bool) {
        let Some(at) = self.place(file, page) else { return };
        if !is_same {
            self.touch_at(at);
        }
        self.pages[at].ahead &= is_prefetcher;
    }

    /// Marks a cached page as loaded for a prefetcher.
    pub(crate) fn set_ahead(&mut self, file: FileId, page: u64) {
        if let Some(at) = self.place(file, page) {
            self.pages[at].ahead = true;
            self.counts[file.0].prefetched += 1;
        }
    }

    /// Marks a cached page as the trigger of the next window.
    pub(crate) fn mark(&mut self, file: FileId, page: u64) {
        if let Some(at) = self.place(file, page) {
            self.pages[at].marked = true;
        }
    }

    /// Returns the state of a page that a reader reaches, if it is cached, and whether it was marked; clears the mark.
    pub(crate) fn meet(&mut self, file: FileId, page: u64) -> Option<(State, bool)> {
        let at = self.place(file, page)?;
        let page = &mut self.pages[at];
        Some((page.state, std::mem::take(&mut page.marked)))
    }

    /// Changes the state of a page, if it is cached.
    pub(crate) fn set_state(&mut self, file: FileId, page: u64, state: State) {
        let Some(at) = self.place(file, page) else { return };
        let before = std::mem::replace(&mut self.pages[at].state, state);
        self.pinned -= usize::from(before != State::Clean);
        self.pinned += usize::from(state != State::Clean);
    }

    fn place(&self, file: FileId, page: u64) -> Option<usize> {
        let at = *self.files[file.0].get(page as usize)?;
        (at < EVICTED_PAGE).then_some(at as usize)
    }

    /// Evicts the coldest page that can be evicted; returns whether there was one.
    fn evict(&mut self) -> bool {
        if self.pinned >= self.len() {
            return false;
        }
        loop {
            while self.active.len > self.inactive.len {
                self.cool();
            }
            let Some(at) = self.inactive.coldest() else {
                self.cool();
                continue;
            };
            self.inactive.remove(&mut self.pages, at);
            if self.pages[at as usize].state == State::Clean {
                self.forget(at);
                return true;
            }
            self.inactive.push(&mut self.pages, at);
            // If this whole list is pinned, the pages that can be evicted are in the other one.
            if self.active.len > 0 {
                self.cool();
            }
        }
    }

    /// Moves the coldest active page to the warm end of the inactive list.
    fn cool(&mut self) {
        let Some(at) = self.active.coldest() else { return };
        self.active.remove(&mut self.pages, at);
        self.pages[at as usize].is_active = false;
        self.pages[at as usize].referenced = false;
        self.inactive.push(&mut self.pages, at);
    }

    fn forget(&mut self, at: u32) {
        let page = self.pages[at as usize];
        self.files[page.file.0][page.number as usize] = EVICTED_PAGE;
        let counts = &mut self.counts[page.file.0];
        counts.evicted += 1;
        counts.wasted += u64::from(page.ahead);
        self.free.push(at);
    }
}

/// A linked list of pages, from the warmest to the coldest.
#[derive(Clone, Copy, Debug)]
struct List {
    warmest: u32,
    coldest: u32,
    len: usize,
}

impl Default for List {
    fn default() -> List {
        List { warmest: NEVER_CACHED, coldest: NEVER_CACHED, len: 0 }
    }
}

impl List {
    fn coldest(&self) -> Option<u32> {
        (self.len > 0).then_some(self.coldest)
    }

    fn push(&mut self, pages: &mut [Page], at: u32) {
        pages[at as usize].warmer = NEVER_CACHED;
        pages[at as usize].colder = self.warmest;
        match pages.get_mut(self.warmest as usize) {
            Some(next) if self.len > 0 => next.warmer = at,
            _ => self.coldest = at,
        }
        self.warmest = at;
        self.len += 1;
    }

    fn remove(&mut self, pages: &mut [Page], at: u32) {
        let Page { warmer, colder, .. } = pages[at as usize];
        match warmer {
            NEVER_CACHED => self.warmest = colder,
            warmer => pages[warmer as usize].colder = colder,
        }
        match colder {
            NEVER_CACHED => self.coldest = warmer,
            colder => pages[colder as usize].warmer = warmer,
        }
        self.len -= 1;
    }
}
