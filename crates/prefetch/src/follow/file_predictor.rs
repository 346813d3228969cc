//! Predicts the files that a program will read next: those named on its command line, or those of a directory that it
//! traverses.
//!
//! They are prefetched before the program opens them, but only after it has read one through: `rm *` and `cp a b` do
//! not. They are opened a few at a time, and appended in their order.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sakiyomi_os::process::Identity;

use super::handle::{Handle, Place};
use super::listing::{DirOrder, DirTraversal, Listing};

/// Files that are being opened ahead of the program at a time.
pub(super) const OPENING_MAX: usize = 8;
/// Files that are kept open ahead of the program.
pub(super) const OPEN_AHEAD_MAX: usize = 192;

/// Source of the prediction.
#[derive(Debug)]
enum Source {
    /// The command line, the word at which the program is, and whether it takes the words in order.
    Words { words: Arc<Vec<PathBuf>>, at: usize, in_order: bool },
    /// A directory, by its path when the program reached it.
    Directory { path: PathBuf, listing: Listed, way: DirTraversal },
}

/// Content of a directory.
#[derive(Debug)]
enum Listed {
    /// Not known yet; the files that the program has visited.
    NotYet(Vec<Identity>),
    As(Box<Listing>),
}

/// The files predicted after the current one.
#[derive(Debug)]
pub(super) struct FilePredictor {
    /// Directory to which names are relative; `None` until it has been opened.
    from: Option<Arc<OwnedFd>>,
    source: Source,
    /// Whether a file was read through.
    pub(super) unlocked: bool,
    /// The first place that has not been requested.
    next: usize,
    /// Files that have been requested and are not yet in the sequence.
    examined: BTreeMap<usize, RequestedFile>,
}

/// A file that has been requested.
#[derive(Debug)]
struct RequestedFile {
    handle: Arc<Handle>,
    /// `None` until it is known; then its identity, or `None` if it cannot be read.
    found: Option<Option<Identity>>,
}

impl FilePredictor {
    /// Predicts the words after this one, at which the program is.
    pub(super) fn of_words(directory: Arc<OwnedFd>, words: Arc<Vec<PathBuf>>, at: usize) -> FilePredictor {
        let source = Source::Words { words, at, in_order: true };
        let from = Some(directory);
        FilePredictor { from, source, unlocked: false, next: at + 1, examined: BTreeMap::new() }
    }

    /// Predicts the files of a directory in which the program has visited these.
    pub(super) fn of_directory(path: PathBuf, way: DirTraversal, files: Vec<Identity>) -> FilePredictor {
        let source = Source::Directory { path, listing: Listed::NotYet(files), way };
        FilePredictor { from: None, source, unlocked: false, next: 0, examined: BTreeMap::new() }
    }

    /// Returns whether the prediction is for this directory.
    pub(super) fn is_of(&self, directory: &Path) -> bool {
        matches!(&self.source, Source::Directory { path, .. } if path == directory)
    }

    /// Returns the order in which the program will traverse this directory, if it has read the files of another one in
    /// the same tree in that order.
    pub(super) fn order_in(&self, directory: &Path) -> Option<DirOrder> {
        match &self.source {
            Source::Directory { path, way, .. } if self.unlocked && is_in_one_tree(path, directory) => {
                way.shown()
            }
            _ => None,
        }
    }

    /// Records that the program has reached this word of the command line, if words are predicted. Returns whether it
    /// is not before the previous one.
    pub(super) fn reach_word(&mut self, word: usize) -> bool {
        let Source::Words { at, in_order, .. } = &mut self.source else { return false };
        let further = word >= *at;
        (*at, *in_order) = (word, *in_order && further);
        self.pass(word);
        further
    }

    /// Records the content of a directory, which need no longer be the current one.
    pub(super) fn listed(&mut self, directory: &Path, opened: Arc<OwnedFd>, found: Box<Listing>) {
        let Source::Directory { path, listing, .. } = &mut self.source else { return };
        if path != directory {
            return;
        }
        self.from = Some(opened);
        if let Listed::NotYet(files) = std::mem::replace(listing, Listed::As(found)) {
            files.iter().for_each(|file| self.reach(file));
        }
    }

    /// Records that the program has reached this file, which may belong to the directory.
    pub(super) fn reach(&mut self, file: &Identity) {
        let Source::Directory { listing, way, .. } = &mut self.source else { return };
        match listing {
            Listed::NotYet(files) => files.push(*file),
            Listed::As(listing) => {
                let before = way.by();
                way.go_to(listing, file.inode);
                if way.by() != before {
                    (self.next, self.examined) = (0, BTreeMap::new());
                }
                if let Some(place) = way.place(listing) {
                    self.pass(place);
                }
            }
        }
    }

    /// Drops everything up to the program's place.
    fn pass(&mut self, place: usize) {
        self.next = self.next.max(place + 1);
        self.examined = self.examined.split_off(&(place + 1));
    }

    /// Returns the name at a place in the program's order; `None` after the last, or if no order is known.
    fn name(&self, place: usize) -> Option<PathBuf> {
        match &self.source {
            Source::Words { words, in_order, .. } => words.get(place).filter(|_| *in_order).cloned(),
            Source::Directory { listing: Listed::As(listing), way, .. } => {
                way.place(listing)?;
                Some(PathBuf::from(&listing.at(way.by()?, place)?.name))
            }
            Source::Directory { .. } => None,
        }
    }

    /// Returns the next file to open, if it is time to.
    pub(super) fn ask(&mut self) -> Option<(usize, Arc<Handle>)> {
        let asked = self.examined.values().filter(|file| file.found.is_none()).count();
        if !self.unlocked || asked >= OPENING_MAX {
            return None;
        }
        let place = self.next;
        let (from, name) = (Arc::clone(self.from.as_ref()?), self.name(place)?);
        self.next += 1;
        let handle = Arc::new(Handle::new(Place::Named(from, name), None));
        self.examined.insert(place, RequestedFile { handle: Arc::clone(&handle), found: None });
        Some((place, handle))
    }

    /// Records that a file has been opened, or could not be. It may no longer be one of those predicted.
    pub(super) fn reply(&mut self, place: usize, handle: &Arc<Handle>, found: Option<Identity>) {
        let asked = self.examined.get_mut(&place).filter(|file| Arc::ptr_eq(&file.handle, handle));
        if let Some(file) = asked {
            file.found = Some(found);
        }
    }

    /// Returns the next file in the program's order, if it is known.
    pub(super) fn take(&mut self) -> Option<(Identity, Arc<Handle>)> {
        while let Some(first) = self.examined.first_entry() {
            first.get().found?;
            let RequestedFile { handle, found } = first.remove();
            if let Some(Some(identity)) = found {
                return Some((identity, handle));
            }
        }
        None
    }
}

/// Returns whether one lies beside the other, below it, or beside its parent.
fn is_in_one_tree(one: &Path, other: &Path) -> bool {
    let lies_beside = |one: &Path, other: &Path| {
        one.parent().is_some_and(|top| top.parent().is_some() && other.starts_with(top))
    };
    lies_beside(one, other) || lies_beside(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_os::process::{Entry, Kind, open_directory};

    fn identity(inode: u64) -> Identity {
        Identity { device: 1, inode, kind: Kind::Regular, size: 10 }
    }

    fn here() -> Arc<OwnedFd> {
        Arc::new(open_directory(std::path::Path::new(".")).unwrap())
    }

    fn words(count: usize, at: usize) -> FilePredictor {
        let words = (0..count).map(|index| PathBuf::from(format!("file{index}"))).collect();
        let mut predictor = FilePredictor::of_words(here(), Arc::new(words), at);
        predictor.unlocked = true;
        predictor
    }

    type Asked = Vec<(usize, Arc<Handle>)>;

    fn ask(predictor: &mut FilePredictor) -> Asked {
        std::iter::from_fn(|| predictor.ask()).collect()
    }

    fn places(asked: &Asked) -> Vec<usize> {
        asked.iter().map(|(place, _)| *place).collect()
    }

    fn reply(predictor: &mut FilePredictor, asked: &Asked, place: usize, found: bool) {
        let (_, handle) = asked.iter().find(|(asked, _)| *asked == place).unwrap();
        predictor.reply(place, handle, found.then(|| identity(place as u64)));
    }

    fn taken(predictor: &mut FilePredictor) -> Vec<u64> {
        std::iter::from_fn(|| predictor.take().map(|(identity, _)| identity.inode)).collect()
    }

    #[test]
    fn nothing_is_asked_for_before_a_file_was_read_through() {
        let mut predictor = words(5, 0);
        predictor.unlocked = false;
        assert!(ask(&mut predictor).is_empty());
        predictor.unlocked = true;
        assert_eq!(places(&ask(&mut predictor)), [1, 2, 3, 4]);
    }

    #[test]
    fn files_are_taken_up_in_their_order_whatever_the_order_of_the_answers() {
        let mut predictor = words(20, 2);
        let asked = ask(&mut predictor);
        assert_eq!(places(&asked), (3..3 + OPENING_MAX).collect::<Vec<_>>());
        reply(&mut predictor, &asked, 4, true);
        assert!(taken(&mut predictor).is_empty(), "the one before is not known yet");
        reply(&mut predictor, &asked, 3, false);
        reply(&mut predictor, &asked, 5, true);
        assert_eq!(taken(&mut predictor), [4, 5]);
        assert_eq!(places(&ask(&mut predictor)), [11, 12, 13]);
    }

    #[test]
    fn words_that_are_not_taken_in_their_order_are_not_guessed() {
        let mut predictor = words(20, 5);
        assert!(predictor.reach_word(5) && predictor.reach_word(7) && predictor.ask().is_some());
        assert!(!predictor.reach_word(3) && predictor.ask().is_none());
        predictor.reach(&identity(7));
        assert!(predictor.ask().is_none() && !predictor.is_of(Path::new("/some/where")));
    }

    fn listing(inodes: &[u64]) -> Listing {
        let entry = |inode: &u64| Entry { name: format!("{:03}", 400 - inode).into(), inode: *inode };
        Listing::new(inodes.iter().map(entry).collect())
    }

    fn directory(inodes: &[u64], way: DirTraversal, met: &[u64]) -> FilePredictor {
        let met = met.iter().map(|&inode| identity(inode)).collect();
        let mut predictor = FilePredictor::of_directory(PathBuf::from("/some/where"), way, met);
        predictor.unlocked = true;
        assert!(predictor.is_of(Path::new("/some/where")) && predictor.ask().is_none(), "it is not listed");
        predictor.listed(Path::new("/some/other"), here(), Box::new(listing(&[1, 2, 3])));
        predictor.listed(Path::new("/some/where"), here(), Box::new(listing(inodes)));
        predictor
    }

    /// The order in a neighboring directory.
    fn order(predictor: &FilePredictor) -> Option<DirOrder> {
        predictor.order_in(Path::new("/some/other"))
    }

    #[test]
    fn directories_of_one_tree_are_near() {
        let near = |one, other| {
            let found = is_in_one_tree(Path::new(one), Path::new(other));
            assert_eq!(found, is_in_one_tree(Path::new(other), Path::new(one)), "{one} {other}");
            found
        };
        assert!(near("/home/me/tree/a", "/home/me/tree/b") && near("/home/me/tree", "/home/me/tree/b"));
        assert!(near("/home/me/tree/a/b/c", "/home/me/tree/d"));
        assert!(!near("/home/me/tree/a", "/usr/lib") && !near("/data/tree", "/etc") && !near("/", "/etc"));
        assert!(!near("/home/me/tree/a/b", "/home/me/other/a/b"));
    }

    #[test]
    fn a_directory_is_gone_through_in_the_programs_order() {
        let inodes = [40, 12, 31, 10, 25, 11, 50];
        let mut predictor = directory(&inodes, DirTraversal::unknown(1), &[10]);
        assert!(
            ask(&mut predictor).is_empty() && order(&predictor).is_none(),
            "nothing is known of the order"
        );
        predictor.reach(&identity(11));
        let asked = ask(&mut predictor);
        assert_eq!((places(&asked), order(&predictor)), (vec![2, 3, 4, 5, 6], Some(DirOrder::Number)));
        reply(&mut predictor, &asked, 2, true);
        reply(&mut predictor, &asked, 3, true);
        predictor.reach(&identity(12));
        predictor.reach(&identity(12));
        assert_eq!(taken(&mut predictor), [3], "files that the program has passed are dropped");
        predictor.reach(&identity(10));
        assert!(ask(&mut predictor).is_empty() && order(&predictor).is_none(), "it has gone back");
    }

    #[test]
    fn what_was_met_before_the_list_came_counts() {
        let mut predictor = directory(&[7, 5, 9, 3, 8, 1], DirTraversal::unknown(2), &[7, 5, 9]);
        assert_eq!(places(&ask(&mut predictor)), [3, 4, 5]);
        let mut elsewhere = directory(&[7, 5, 9], DirTraversal::unknown(1), &[1, 2]);
        assert!(ask(&mut elsewhere).is_empty(), "the files are not in it");
    }

    #[test]
    fn what_was_asked_for_in_an_order_that_proves_wrong_is_not_taken_for_what_comes() {
        let mut predictor = directory(&[50, 10, 40, 20, 30], DirTraversal::presumed(DirOrder::Number), &[40]);
        let asked = ask(&mut predictor);
        assert_eq!((places(&asked), order(&predictor)), (vec![4], None), "the order is not confirmed");
        predictor.reach(&identity(20));
        assert_eq!(order(&predictor), Some(DirOrder::Listing));
        assert_eq!(places(&ask(&mut predictor)), [4]);
        predictor.reply(4, &asked[0].1, Some(identity(50)));
        assert!(taken(&mut predictor).is_empty());
    }
}
