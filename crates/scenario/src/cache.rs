//! The page cache: which pages of which files are in memory, and which goes when room is needed.
//!
//! Two lists, as in Linux: a page comes to the *inactive* list, and moves to the *active* one when it is used a second
//! time; the coldest of the inactive list goes. While the active list is the longer one, its coldest page moves down
//! before. So what is read once in order leaves again without pushing out what is used often. A page that is on its
//! way, dirty or being written cannot go; where it is met it moves to the warm end, as the kernel does.
//!
//! Or plain *LRU*: one list, to whose warm end a page comes each time that it is used.
//!
//! Every operation takes constant time; `naive` in the tests is the plain version that this is held against.

#[cfg(test)]
mod naive;

use crate::spec::Replacement;

/// Names a file for the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) usize);

/// What a page in memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// On its way from the device.
    Loading,
    /// As on the device.
    Clean,
    /// Newer than on the device.
    Dirty,
    /// On its way to the device.
    Writing,
}

/// The page cache.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    replacement: Replacement,
    capacity: usize,
    /// What of it is taken for something else.
    taken: usize,
    pages: Vec<Page>,
    free: Vec<u32>,
    /// For each file, where each of its pages is: an index into `pages`, or one of the two below.
    files: Vec<Vec<u32>>,
    inactive: List,
    active: List,
    /// Pages that cannot go.
    pinned: usize,
    counts: Vec<Counts>,
}

/// Index of a page that has never been in memory; also the end of a list.
const NEVER_CACHED: u32 = u32::MAX;
/// Index of a page that was evicted.
const EVICTED_PAGE: u32 = u32::MAX - 1;

/// What has happened to a file, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Asked of the device.
    pub(crate) loaded: u64,
    /// Brought in for a prefetcher.
    pub(crate) prefetched: u64,
    /// Brought in for a prefetcher, and gone before anybody else used them.
    pub(crate) wasted: u64,
    /// Pages that went to make room.
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
    /// Used once since it came to its list.
    referenced: bool,
    /// Calls for the next window of the kernel's read-ahead.
    marked: bool,
    /// Brought in for a prefetcher and not used by a program yet.
    ahead: bool,
}

impl PageCache {
    /// Room for so many pages.
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

    /// So many pages of its room are taken for something else; what can go goes.
    pub(crate) fn take_away(&mut self, pages: usize) {
        self.taken += pages;
        while self.len() > self.room() && self.evict() {}
    }

    /// So many of them are free again.
    pub(crate) fn give_back(&mut self, pages: usize) {
        self.taken -= pages;
    }

    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.taken).max(1)
    }

    /// A new file of so many pages, none of which is in memory.
    pub(crate) fn add_file(&mut self, pages: u64) -> FileId {
        let pages = usize::try_from(pages).expect("a file's pages fit into memory");
        self.files.push(vec![NEVER_CACHED; pages]);
        self.counts.push(Counts::default());
        FileId(self.files.len() - 1)
    }

    /// How many pages a file has.
    pub(crate) fn pages(&self, file: FileId) -> u64 {
        self.files[file.0].len() as u64
    }

    /// What a page is, if it is in memory.
    pub(crate) fn state(&self, file: FileId, page: u64) -> Option<State> {
        Some(self.pages[self.place(file, page)?].state)
    }

    /// Whether a page was in memory and had to go.
    pub(crate) fn was_evicted(&self, file: FileId, page: u64) -> bool {
        self.files[file.0][page as usize] == EVICTED_PAGE
    }

    /// What has happened to a file's pages.
    pub(crate) fn counts(&self, file: FileId) -> Counts {
        self.counts[file.0]
    }

    /// How many pages are in memory.
    pub(crate) fn len(&self) -> usize {
        self.inactive.len + self.active.len
    }

    /// Takes in a page that is not there, pushing another one out if need be. Where none can go, it is only taken in
    /// if it `must` be: the kernel gives up a read-ahead, but never a read.
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

    /// A page has been read or written by a program, or by a prefetcher that reads.
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

    /// A reader passes a page: it is touched, unless `is_same` says that the reader goes on within it. Once a program has
    /// come to it, rather than a prefetcher, it has not been brought in for nothing.
    pub(crate) fn pass(&mut self, file: FileId, page: u64, is_same: bool, is_prefetcher: bool) {
        let Some(at) = self.place(file, page) else { return };
        if !is_same {
            self.touch_at(at);
        }
        self.pages[at].ahead &= is_prefetcher;
    }

    /// A page that is there was brought in for a prefetcher.
    pub(crate) fn set_ahead(&mut self, file: FileId, page: u64) {
        if let Some(at) = self.place(file, page) {
            self.pages[at].ahead = true;
            self.counts[file.0].prefetched += 1;
        }
    }

    /// Lets a page that is there call for the next window.
    pub(crate) fn mark(&mut self, file: FileId, page: u64) {
        if let Some(at) = self.place(file, page) {
            self.pages[at].marked = true;
        }
    }

    /// A reader comes to a page: what it is, if it is there, and whether it was marked; it is not any more.
    pub(crate) fn meet(&mut self, file: FileId, page: u64) -> Option<(State, bool)> {
        let at = self.place(file, page)?;
        let page = &mut self.pages[at];
        Some((page.state, std::mem::take(&mut page.marked)))
    }

    /// Changes what a page is, if it is there.
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

    /// Makes the coldest page go that can. Says whether there was one.
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
            // Where all of this list is pinned, what can go is in the other one.
            if self.active.len > 0 {
                self.cool();
            }
        }
    }

    /// The coldest active page becomes the warmest inactive one.
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

/// A list through the pages, from the warmest to the coldest.
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
