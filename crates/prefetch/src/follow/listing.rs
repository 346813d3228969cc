//! The files of a directory, and the order in which a program traverses them. Pure.
//!
//! Programs take a directory's files in the order of the listing (`grep -r`, `find`), by inode number, which is close
//! to their order on a disk (`tar`, `cp -r`), or by name (`git`, and every program that sorts them).

use sakiyomi_os::process::Entry;

/// An order of traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirOrder {
    /// The order in which the file system lists them.
    Listing,
    /// By inode number.
    Number,
    /// By name, byte by byte.
    Name,
}

const ALL: [DirOrder; 3] = [DirOrder::Listing, DirOrder::Number, DirOrder::Name];

/// The files of a directory, each identified by its index in the listing.
#[derive(Debug)]
pub(super) struct Listing {
    entries: Vec<Entry>,
    /// For each order: the file at a place, and the place of a file.
    files: [Vec<u32>; ALL.len()],
    places: [Vec<u32>; ALL.len()],
}

impl Listing {
    pub(super) fn new(entries: Vec<Entry>) -> Listing {
        let all: Vec<u32> = (0..u32::try_from(entries.len()).unwrap_or(u32::MAX)).collect();
        let entry = |file: &u32| &entries[*file as usize];
        let (mut by_number, mut by_name) = (all.clone(), all.clone());
        by_number.sort_by_key(|file| entry(file).inode);
        by_name.sort_by(|one, other| entry(one).name.cmp(&entry(other).name));
        let files = [all, by_number, by_name];
        let places = files.each_ref().map(|files| {
            let mut places = vec![0; files.len()];
            files.iter().zip(0..).for_each(|(&file, place)| places[file as usize] = place);
            places
        });
        Listing { entries, files, places }
    }

    /// Returns the file with this inode number; the first one listed, if it has several names.
    fn find(&self, inode: u64) -> Option<usize> {
        let by_number = &self.files[DirOrder::Number as usize];
        let first = by_number.partition_point(|&file| self.entries[file as usize].inode < inode);
        let file = *by_number.get(first)? as usize;
        (self.entries[file].inode == inode).then_some(file)
    }

    fn place(&self, by: DirOrder, file: usize) -> usize {
        self.places[by as usize][file] as usize
    }

    /// Returns the file at a place of an order; `None` after the last.
    pub(super) fn at(&self, by: DirOrder, place: usize) -> Option<&Entry> {
        self.entries.get(*self.files[by as usize].get(place)? as usize)
    }
}

/// A program's traversal of a directory.
#[derive(Clone, Debug)]
pub(super) struct DirTraversal {
    /// Files skipped in each order so far; `None` for an order in which the program has moved backwards or too far.
    passed_over: [Option<usize>; ALL.len()],
    /// The current file.
    at: Option<usize>,
    /// Steps from one file to another, and the number of steps that determine the order.
    steps: u32,
    wanted: u32,
    by: Option<DirOrder>,
}

impl DirTraversal {
    /// Makes a traversal of unknown order, determined by `wanted` steps; a random sequence of files occasionally
    /// appears to follow an order.
    pub(super) fn unknown(wanted: u32) -> DirTraversal {
        DirTraversal { passed_over: [Some(0); ALL.len()], at: None, steps: 0, wanted, by: None }
    }

    /// Makes a traversal in the order of another directory.
    pub(super) fn presumed(by: DirOrder) -> DirTraversal {
        DirTraversal { by: Some(by), ..DirTraversal::unknown(1) }
    }

    /// Returns the order, as far as known.
    pub(super) fn by(&self) -> Option<DirOrder> {
        self.by
    }

    /// Returns the order, if steps have confirmed it.
    pub(super) fn shown(&self) -> Option<DirOrder> {
        self.by.filter(|_| self.steps >= self.wanted)
    }

    /// Returns the place in the order.
    pub(super) fn place(&self, listing: &Listing) -> Option<usize> {
        Some(listing.place(self.by?, self.at?))
    }

    /// Records that the program has reached the file with this inode number. Files that are not listed are ignored.
    pub(super) fn go_to(&mut self, listing: &Listing, inode: u64) {
        let Some(file) = listing.find(inode) else { return };
        let Some(from) = self.at.replace(file).filter(|&from| from != file) else { return };
        if self.steps >= self.wanted {
            // A step backwards refutes the order.
            self.by = self.by.filter(|&by| listing.place(by, from) < listing.place(by, file));
            return;
        }
        self.steps += 1;
        for by in ALL {
            let between = passed_over(listing, by, from, file);
            let before = &mut self.passed_over[by as usize];
            *before = before.zip(between).map(|(before, more)| before + more);
        }
        if self.steps == self.wanted {
            let fitting = ALL.into_iter().filter(|&by| self.passed_over[by as usize].is_some());
            self.by = fitting.min_by_key(|&by| self.passed_over[by as usize]);
        }
    }
}

/// Returns the number of files skipped by a step; `None` if it is not forward, or too long.
fn passed_over(listing: &Listing, by: DirOrder, from: usize, to: usize) -> Option<usize> {
    /// Files of a listing that a program may pass over in one step and still follow its order.
    const PASSED_OVER_MAX: usize = 8;
    let between = listing.place(by, to).checked_sub(listing.place(by, from) + 1)?;
    (between < PASSED_OVER_MAX).then_some(between)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Makes a listing of files in this order, each with an inode number and a name.
    fn listing(files: &[(u64, u64)]) -> Listing {
        let entry = |&(inode, name): &(u64, u64)| Entry { name: format!("{name:020}").into(), inode };
        Listing::new(files.iter().map(entry).collect())
    }

    fn gone(listing: &Listing, wanted: u32, inodes: &[u64]) -> Option<DirOrder> {
        let mut way = DirTraversal::unknown(wanted);
        inodes.iter().for_each(|&inode| way.go_to(listing, inode));
        way.by()
    }

    #[test]
    fn one_step_tells_the_order_if_only_one_has_it() {
        let files = listing(&[(40, 9), (12, 3), (31, 1), (10, 4), (25, 2), (11, 7), (50, 8)]);
        assert_eq!(gone(&files, 1, &[10]), None, "nothing is known yet");
        assert_eq!(gone(&files, 1, &[40, 12]), Some(DirOrder::Listing));
        assert_eq!(gone(&files, 1, &[10, 11]), Some(DirOrder::Number));
        assert_eq!(
            gone(&files, 1, &[31, 25]),
            Some(DirOrder::Name),
            "next by name, the second next as listed"
        );
        assert_eq!(gone(&files, 2, &[10, 11]), None, "two are wanted");
        assert_eq!(gone(&files, 2, &[10, 11, 12]), Some(DirOrder::Number));
        assert_eq!(gone(&files, 1, &[10, 99, 11]), Some(DirOrder::Number), "one that is not listed");
    }

    #[test]
    fn who_goes_back_has_an_order_of_his_own() {
        let files = listing(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!(gone(&files, 1, &[1, 2, 4]), Some(DirOrder::Listing));
        assert_eq!(gone(&files, 1, &[1, 2, 4, 3]), None);
        assert_eq!(gone(&files, 1, &[3, 2]), None);
    }

    #[test]
    fn what_is_presumed_must_prove_right() {
        let files = listing(&[(40, 1), (12, 2), (31, 3), (10, 4)]);
        let mut way = DirTraversal::presumed(DirOrder::Number);
        way.go_to(&files, 10);
        assert_eq!((way.by(), way.shown(), way.place(&files)), (Some(DirOrder::Number), None, Some(0)));
        let mut other = way.clone();
        way.go_to(&files, 12);
        assert_eq!((way.shown(), way.place(&files)), (Some(DirOrder::Number), Some(1)));
        other.go_to(&files, 40);
        assert_eq!(other.shown(), Some(DirOrder::Number), "with two between");
        let mut wrong = DirTraversal::presumed(DirOrder::Number);
        [31, 10].into_iter().for_each(|inode| wrong.go_to(&files, inode));
        assert_eq!((wrong.shown(), wrong.place(&files)), (Some(DirOrder::Listing), Some(3)));
    }

    proptest! {
        /// A program that takes every file in one of the orders is found to keep to it, or to one that is the same so
        /// far.
        #[test]
        fn every_order_is_found(
            inodes in prop::collection::btree_set(0u64..1_000_000, 4..60),
            shuffle in any::<[u64; 2]>(),
            by in 0..ALL.len(),
            from in 0usize..60,
        ) {
            let scattered = |seed: u64| move |value: &u64| value.wrapping_mul(seed | 1).rotate_left(29);
            let mut listed: Vec<u64> = inodes.iter().copied().collect();
            listed.sort_by_key(scattered(shuffle[0]));
            let files: Vec<(u64, u64)> =
                listed.iter().map(|inode| (*inode, scattered(shuffle[1])(inode))).collect();
            let listing = listing(&files);
            let from = from % (files.len() - 3);
            let mut way = DirTraversal::unknown(2);
            for place in from..from + 3 {
                way.go_to(&listing, listing.at(ALL[by], place).unwrap().inode);
            }
            let found = way.by().unwrap();
            for place in from..from + 3 {
                let told = |by: DirOrder| listing.at(by, way.place(&listing).unwrap() + place - from - 2).unwrap().inode;
                prop_assert_eq!(told(found), listing.at(ALL[by], place).unwrap().inode);
            }
        }

        /// Every file has one place in each order, and is found by its inode number.
        #[test]
        fn places_are_permutations(files in prop::collection::vec((0u64..50, 0u64..1000), 0..60)) {
            let listing = listing(&files);
            for by in ALL {
                let seen: BTreeSet<usize> = (0..files.len()).map(|file| listing.place(by, file)).collect();
                prop_assert_eq!(seen.len(), files.len());
                for file in 0..files.len() {
                    let entry = listing.at(by, listing.place(by, file)).unwrap();
                    prop_assert_eq!(entry.inode, files[file].0);
                    let first = files.iter().position(|(inode, _)| *inode == entry.inode);
                    prop_assert_eq!(listing.find(entry.inode), first);
                }
            }
            prop_assert_eq!(listing.find(77), None);
        }
    }
}
