//! Reference implementation of the page cache as a list of pages with the time of their last move, and a property test
//! that the fast implementation is equivalent.

use super::{FileId, PageCache, Replacement, State};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Entry {
    page: (usize, u64),
    state: State,
    is_active: bool,
    referenced: bool,
    since: u64,
}

/// Every query searches all pages.
#[derive(Default)]
struct Naive {
    is_lru: bool,
    capacity: usize,
    taken: usize,
    clock: u64,
    entries: Vec<Entry>,
}

impl Naive {
    fn find(&mut self, page: (usize, u64)) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.page == page)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn room(&self) -> usize {
        if self.capacity > self.taken { self.capacity - self.taken } else { 1 }
    }

    fn take_away(&mut self, pages: usize) {
        self.taken += pages;
        while self.entries.len() > self.room() && self.evict() {}
    }

    fn insert(&mut self, page: (usize, u64), state: State, must: bool) -> bool {
        while self.entries.len() >= self.room() {
            if !self.evict() {
                if must {
                    break;
                }
                return false;
            }
        }
        let since = self.tick();
        self.entries.push(Entry { page, state, is_active: false, referenced: false, since });
        true
    }

    fn touch(&mut self, page: (usize, u64)) {
        let (now, is_lru) = (self.tick(), self.is_lru);
        let Some(entry) = self.find(page) else { return };
        if is_lru {
            entry.since = now;
        } else if !entry.referenced {
            entry.referenced = true;
        } else if !entry.is_active {
            entry.is_active = true;
            entry.referenced = false;
            entry.since = now;
        }
    }

    fn coldest(&self, is_active: bool) -> Option<usize> {
        let listed = self.entries.iter().enumerate().filter(|(_, entry)| entry.is_active == is_active);
        listed.min_by_key(|(_, entry)| entry.since).map(|(index, _)| index)
    }

    fn cool(&mut self) {
        let now = self.tick();
        if let Some(index) = self.coldest(true) {
            let entry = &mut self.entries[index];
            (entry.is_active, entry.referenced, entry.since) = (false, false, now);
        }
    }

    fn evict(&mut self) -> bool {
        if self.entries.iter().all(|entry| entry.state != State::Clean) {
            return false;
        }
        loop {
            while self.entries.iter().filter(|entry| entry.is_active).count() * 2 > self.entries.len() {
                self.cool();
            }
            let Some(index) = self.coldest(false) else {
                self.cool();
                continue;
            };
            if self.entries[index].state == State::Clean {
                self.entries.remove(index);
                return true;
            }
            self.entries[index].since = self.tick();
            self.cool();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, u64, State, bool),
    Touch(usize, u64),
    Pass(usize, u64, bool),
    Become(usize, u64, State),
    TakeAway(usize),
    GiveBack,
}

fn any_state() -> impl Strategy<Value = State> {
    // Mostly clean, so that pages can be evicted.
    prop_oneof![4 => Just(State::Clean), 1 => Just(State::Loading), 1 => Just(State::Dirty), 1 => Just(State::Writing)]
}

fn any_step() -> impl Strategy<Value = Step> {
    let place = (0usize..2, 0u64..24);
    prop_oneof![
        3 => (place.clone(), any_state(), any::<bool>()).prop_map(|((f, p), s, must)| Step::Insert(f, p, s, must)),
        3 => place.clone().prop_map(|(f, p)| Step::Touch(f, p)),
        2 => (place.clone(), any::<bool>()).prop_map(|((f, p), is_same)| Step::Pass(f, p, is_same)),
        1 => (place, any_state()).prop_map(|((f, p), s)| Step::Become(f, p, s)),
        1 => (1usize..6).prop_map(Step::TakeAway),
        1 => Just(Step::GiveBack),
    ]
}

#[test]
fn a_mark_is_met_once_and_only_a_page_that_is_there_has_any() {
    let mut cache = PageCache::new(4, Replacement::Lru);
    let file = cache.add_file(8);
    cache.mark(file, 1);
    assert_eq!(cache.meet(file, 1), None);
    cache.insert(file, 1, State::Clean, true);
    cache.mark(file, 1);
    assert_eq!(cache.meet(file, 1), Some((State::Clean, true)));
    assert_eq!(cache.meet(file, 1), Some((State::Clean, false)));
}

#[test]
fn a_page_that_only_a_prefetcher_has_passed_was_brought_in_for_nothing() {
    let wasted = |is_prefetcher: bool| {
        let mut cache = PageCache::new(1, Replacement::Lru);
        let file = cache.add_file(8);
        cache.insert(file, 0, State::Clean, true);
        cache.set_ahead(file, 0);
        cache.pass(file, 0, false, is_prefetcher);
        cache.insert(file, 1, State::Clean, true);
        cache.counts(file).wasted
    };
    assert_eq!((wasted(true), wasted(false)), (1, 0));
}

proptest! {
    #[test]
    fn the_fast_cache_holds_the_same_pages(
        is_lru: bool,
        capacity in 1usize..16,
        steps in prop::collection::vec(any_step(), 0..300),
    ) {
        let mut fast = PageCache::new(capacity, if is_lru { Replacement::Lru } else { Replacement::TwoLists });
        let mut naive = Naive { is_lru, capacity, ..Naive::default() };
        for _ in 0..2 {
            fast.add_file(24);
        }
        for step in steps {
            match step {
                Step::Insert(file, page, state, must) if naive.find((file, page)).is_none() => {
                    let taken = fast.insert(FileId(file), page, state, must);
                    prop_assert_eq!(taken, naive.insert((file, page), state, must));
                }
                Step::Insert(file, page, ..) | Step::Touch(file, page) => {
                    fast.touch(FileId(file), page);
                    naive.touch((file, page));
                }
                Step::Pass(file, page, is_same) => {
                    fast.pass(FileId(file), page, is_same, false);
                    if !is_same {
                        naive.touch((file, page));
                    }
                }
                Step::TakeAway(pages) => {
                    fast.take_away(pages);
                    naive.take_away(pages);
                }
                Step::GiveBack => {
                    fast.give_back(naive.taken);
                    naive.taken = 0;
                }
                Step::Become(file, page, state) => {
                    fast.set_state(FileId(file), page, state);
                    if let Some(entry) = naive.find((file, page)) {
                        entry.state = state;
                    }
                }
            }
            prop_assert_eq!(fast.len(), naive.entries.len());
            for (file, page) in (0..2).flat_map(|file| (0..24).map(move |page| (file, page))) {
                let state = naive.find((file, page)).map(|entry| entry.state);
                prop_assert_eq!(fast.state(FileId(file), page), state);
            }
        }
    }
}
