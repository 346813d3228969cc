//! The files that a program will read after the one that it reads: those it was called with, or those of a directory
//! that it goes through.
//!
//! They are begun before the program opens them, but only after it has read one through: `rm *` and `cp a b` do not.
//! They are opened a few at a time and taken up in their order.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use sakiyomi_linux::process::{Entry, Identity};

use super::handle::{Handle, Place};

/// Files that are opened at a time, and that are kept open ahead of the program.
pub(super) const AT_A_TIME: usize = 8;
pub(super) const OPEN: usize = 192;

/// Where the files that come are known from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The command line.
    Words { directory: Arc<OwnedFd>, words: Arc<Vec<PathBuf>> },
    /// A directory, by what it is.
    Directory { directory: Arc<OwnedFd>, is: Identity },
}

/// What comes after the file that is read.
#[derive(Debug)]
pub(super) struct Coming {
    source: Source,
    /// In the order in which the program meets them; none until the directory has been listed.
    entries: Option<Arc<Vec<Entry>>>,
    /// Where the program is in the list; none until that is known.
    at: Option<usize>,
    /// A file was read through.
    pub(super) unlocked: bool,
    /// Whether the program goes through the list in its order.
    order: Order,
    /// The first that has not been asked for.
    next: usize,
    /// Those that have been asked for and are not yet in the row: none that is asked for still.
    examined: BTreeMap<usize, Option<Examined>>,
}

/// What is known of the order in which a program goes through a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// It may be that of the list, or by number, as of `tar` and of `grep` in large directories.
    Open,
    /// It is that of the list.
    Listed,
    /// None that is known.
    None,
}

/// A file that comes; none of both if it is none that can be read.
pub(super) type Examined = Option<(Identity, Arc<Handle>)>;

impl Coming {
    /// The program is at this word.
    pub(super) fn of_words(directory: Arc<OwnedFd>, words: Arc<Vec<PathBuf>>, at: usize) -> Coming {
        let source = Source::Words { directory, words };
        Coming {
            source,
            entries: None,
            at: Some(at),
            unlocked: false,
            order: Order::Listed,
            next: at + 1,
            examined: BTreeMap::new(),
        }
    }

    pub(super) fn of_directory(directory: Arc<OwnedFd>, is: Identity) -> Coming {
        let source = Source::Directory { directory, is };
        let (unlocked, order, examined) = (false, Order::Open, BTreeMap::new());
        Coming { source, entries: None, at: None, unlocked, order, next: 0, examined }
    }

    /// Whether it is this directory that is gone through.
    pub(super) fn is_of(&self, directory: &Identity) -> bool {
        matches!(&self.source, Source::Directory { is, .. } if is.is_same(directory))
    }

    pub(super) fn is_of_words(&self) -> bool {
        matches!(self.source, Source::Words { .. })
    }

    /// The directory's entries have come; the program is at `file`.
    pub(super) fn listed(&mut self, entries: Vec<Entry>, file: &Identity) {
        self.at = entries.iter().position(|entry| entry.inode == file.inode);
        self.unlocked &= self.at.is_some();
        self.next = self.at.map_or(entries.len(), |at| at + 1);
        self.entries = Some(Arc::new(entries));
    }

    /// The program has come to this file of the directory: where that is in the list, if it is in it.
    ///
    /// From its second file on it is known in which order it goes: that in which it skips fewer.
    pub(super) fn meet(&mut self, file: &Identity) -> Option<usize> {
        const SKIPS: usize = 8;
        let entries = Arc::clone(self.entries.as_ref()?);
        let place_in = |entries: &[Entry]| entries.iter().position(|entry| entry.inode == file.inode);
        // It mostly is not far.
        let near = self.at.unwrap_or(0).min(entries.len());
        let place = place_in(&entries[near..]).map(|ahead| near + ahead).or_else(|| place_in(&entries))?;
        let Some(at) = self.at.filter(|&at| at != place && self.order == Order::Open) else {
            return Some(place);
        };
        let mut by_number = entries.to_vec();
        by_number.sort_by_key(|entry| entry.inode);
        let from = by_number.iter().position(|entry| entry.inode == entries[at].inode)?;
        let to = place_in(&by_number)?;
        let skips = |from: usize, to: usize| to.checked_sub(from + 1).filter(|&skips| skips < SKIPS);
        self.order = Order::Listed;
        match (skips(at, place), skips(from, to)) {
            (Some(listed), by_number) if by_number.is_none_or(|skips| listed <= skips) => Some(place),
            (_, Some(_)) => {
                self.entries = Some(Arc::new(by_number));
                (self.at, self.next) = (Some(from), from + 1);
                self.examined.clear();
                Some(to)
            }
            _ => {
                self.order = Order::None;
                Some(place)
            }
        }
    }

    /// The program has come to this place of the list. Says whether that is further than before.
    pub(super) fn move_to(&mut self, place: usize) -> bool {
        let further = self.at.is_none_or(|at| place >= at);
        if !further {
            self.order = Order::None;
        }
        self.at = Some(place);
        self.next = self.next.max(place + 1);
        // What is behind it is of no use any more.
        self.examined = self.examined.split_off(&(place + 1));
        further
    }

    fn length(&self) -> usize {
        match &self.source {
            Source::Words { words, .. } => words.len(),
            Source::Directory { .. } => self.entries.as_ref().map_or(0, |entries| entries.len()),
        }
    }

    /// The next file to open, if it is time to.
    pub(super) fn ask(&mut self) -> Option<(usize, Handle)> {
        let asked = self.examined.values().filter(|found| found.is_none()).count();
        if !self.unlocked
            || self.order != Order::Listed
            || self.at.is_none()
            || asked >= AT_A_TIME
            || self.next >= self.length()
        {
            return None;
        }
        let index = self.next;
        self.next += 1;
        self.examined.insert(index, None);
        let place = match &self.source {
            Source::Words { directory, words } => Place::Named(Arc::clone(directory), words[index].clone()),
            Source::Directory { directory, .. } => {
                let name = PathBuf::from(&self.entries.as_ref()?[index].name);
                Place::Named(Arc::clone(directory), name)
            }
        };
        Some((index, Handle::new(place, None)))
    }

    /// A file has been opened, or could not be.
    pub(super) fn answer(&mut self, index: usize, found: Examined) {
        if let Some(waiting) = self.examined.get_mut(&index) {
            *waiting = Some(found);
        }
    }

    /// The next file in the order of the list, if it is known.
    pub(super) fn take(&mut self) -> Option<(Identity, Arc<Handle>)> {
        while let Some(first) = self.examined.first_entry() {
            first.get().as_ref()?;
            if let Some(Some(file)) = first.remove() {
                return Some(file);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_linux::process::{Kind, open_directory};

    fn identity(inode: u64) -> Identity {
        Identity { device: 1, inode, kind: Kind::Regular, size: 10 }
    }

    fn here() -> Arc<OwnedFd> {
        Arc::new(open_directory(std::path::Path::new(".")).unwrap())
    }

    fn words(count: usize, at: usize) -> Coming {
        let words = (0..count).map(|index| PathBuf::from(format!("file{index}"))).collect();
        let mut coming = Coming::of_words(here(), Arc::new(words), at);
        coming.unlocked = true;
        coming
    }

    fn asked(coming: &mut Coming) -> Vec<usize> {
        std::iter::from_fn(|| coming.ask().map(|(index, _)| index)).collect()
    }

    fn answer(coming: &mut Coming, index: usize, found: bool) {
        let handle = Arc::new(Handle::new(Place::Named(here(), PathBuf::new()), None));
        coming.answer(index, found.then(|| (identity(index as u64), handle)));
    }

    fn taken(coming: &mut Coming) -> Vec<u64> {
        std::iter::from_fn(|| coming.take().map(|(identity, _)| identity.inode)).collect()
    }

    #[test]
    fn nothing_is_asked_for_before_a_file_was_read_through() {
        let mut coming = words(5, 0);
        coming.unlocked = false;
        assert!(asked(&mut coming).is_empty());
        coming.unlocked = true;
        assert_eq!(asked(&mut coming), [1, 2, 3, 4]);
    }

    #[test]
    fn files_are_taken_up_in_their_order_whatever_the_order_of_the_answers() {
        let mut coming = words(20, 2);
        assert_eq!(asked(&mut coming), (3..3 + AT_A_TIME).collect::<Vec<_>>());
        answer(&mut coming, 4, true);
        assert!(taken(&mut coming).is_empty(), "the one before is not known yet");
        answer(&mut coming, 3, false);
        answer(&mut coming, 5, true);
        assert_eq!(taken(&mut coming), [4, 5]);
        assert_eq!(asked(&mut coming), [11, 12, 13]);
    }

    fn directory(inodes: &[u64], first: u64) -> Coming {
        let mut coming = Coming::of_directory(here(), Identity { kind: Kind::Directory, ..identity(99) });
        coming.unlocked = true;
        let entry = |inode: &u64| Entry { name: format!("{inode}").into(), inode: *inode };
        coming.listed(inodes.iter().map(entry).collect(), &identity(first));
        coming
    }

    #[test]
    fn a_directory_is_gone_through_by_number_if_that_is_how_the_program_goes() {
        let inodes = [40, 12, 31, 10, 25, 11, 50];
        let mut coming = directory(&inodes, 10);
        let place = coming.meet(&identity(11)).unwrap();
        assert!(coming.move_to(place));
        let asked = asked(&mut coming);
        for index in &asked {
            answer(&mut coming, *index, true);
        }
        assert_eq!((place, asked), (1, vec![2, 3, 4, 5, 6]));
        assert_eq!(coming.entries.as_ref().unwrap()[2].inode, 12);
    }

    #[test]
    fn what_is_read_in_no_known_order_is_not_guessed() {
        let inodes: Vec<u64> = (0..100).map(|index| index * 37 % 101).collect();
        let mut coming = directory(&inodes, 0);
        let place = coming.meet(&identity(inodes[60])).unwrap();
        coming.move_to(place);
        assert!(asked(&mut coming).is_empty());
        let mut back = directory(&inodes, inodes[50]);
        let place = back.meet(&identity(inodes[51])).unwrap();
        assert!(back.move_to(place) && back.ask().is_some());
        let place = back.meet(&identity(inodes[3])).unwrap();
        assert!(!back.move_to(place) && back.ask().is_none());
    }

    #[test]
    fn what_the_program_has_passed_is_forgotten() {
        let mut coming = words(20, 0);
        asked(&mut coming);
        assert!(coming.move_to(4));
        answer(&mut coming, 3, true);
        answer(&mut coming, 5, true);
        assert_eq!(taken(&mut coming), [5]);
        assert!(!coming.move_to(2), "backwards");
    }

    #[test]
    fn a_directory_is_gone_through_from_where_the_program_is() {
        let is = Identity { kind: Kind::Directory, ..identity(99) };
        let mut coming = Coming::of_directory(here(), is);
        coming.unlocked = true;
        assert!(coming.is_of(&is) && !coming.is_of_words() && asked(&mut coming).is_empty());
        let entry = |inode: u64| Entry { name: format!("{inode}").into(), inode };
        coming.listed([7, 5, 9, 3].map(entry).to_vec(), &identity(7));
        assert!(asked(&mut coming).is_empty(), "nothing is known of the order");
        assert_eq!(coming.meet(&identity(5)), Some(1));
        assert!(coming.move_to(1));
        assert_eq!(asked(&mut coming), [2, 3]);
        assert_eq!((coming.meet(&identity(3)), coming.meet(&identity(8))), (Some(3), None));
        let mut elsewhere = Coming::of_directory(here(), is);
        elsewhere.unlocked = true;
        elsewhere.listed(vec![entry(1)], &identity(2));
        assert!(asked(&mut elsewhere).is_empty(), "the file is not in it");
    }
}
