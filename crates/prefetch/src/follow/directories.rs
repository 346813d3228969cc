//! The directories whose files a program reads: those that it holds open (`tar`, `grep -r`), and those in which it
//! opens one file after the other and waits for them (`cp -r`, `git grep`).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::Identity;

use super::listing::DirTraversal;

/// Number of directories that are remembered although the program does not hold them open: a program that copies
/// alternates between two, and one with two threads between four.
const RECENT_DIRECTORIES_MAX: usize = 4;

/// A directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// Its descriptor, if the program holds it open: then it need not be looked up again.
    pub(super) held: Option<Arc<OwnedFd>>,
}

/// A directory that a program appears to traverse, and the order as far as known.
#[derive(Debug)]
pub(super) struct DirectoryScan {
    pub(super) directory: Directory,
    pub(super) way: DirTraversal,
    /// The files that it has visited.
    pub(super) files: Vec<Identity>,
}

/// The directories of a program.
#[derive(Debug, Default)]
pub(super) struct Directories {
    /// Directories that it holds open, by descriptor number.
    held: BTreeMap<u32, Directory>,
    /// Directories in which it has opened a file, the latest one last.
    lately: Vec<RecentDirectory>,
}

/// A directory in which a file was opened.
#[derive(Debug)]
struct RecentDirectory {
    path: PathBuf,
    /// The file.
    file: Identity,
    /// The program's total waiting time when it opened the file.
    io_wait: Nanos,
}

impl Directories {
    /// Records that the program holds a directory open.
    pub(super) fn hold(&mut self, number: u32, directory: Directory) {
        self.held.insert(number, directory);
    }

    /// Removes the directories that the program no longer holds open.
    pub(super) fn keep(&mut self, is_open: impl Fn(u32) -> bool) {
        self.held.retain(|&number, _| is_open(number));
    }

    /// Returns the directory with this path.
    pub(super) fn get(&self, path: &Path) -> Directory {
        let held = self.held.values().find(|directory| directory.path == path);
        held.cloned().unwrap_or_else(|| Directory { path: path.to_owned(), held: None })
    }

    /// Records that the program has opened a file in a directory, after a total waiting time of `waited`. Returns the
    /// traversal of the directory if it counts as traversed.
    ///
    /// - A directory that the program holds open is traversed from its first file on; one step confirms an order.
    /// - Any other directory is traversed from its second file on, if the program waited for the first. Two steps, of
    ///   three files, must then confirm an order.
    pub(super) fn visit(&mut self, path: &Path, file: Identity, io_wait: Nanos) -> Option<DirectoryScan> {
        /// Shorter waits for the first file do not show that the directory's files come from storage.
        const FIRST_FILE_WAIT_MIN: Nanos = Nanos(1_000_000);
        let directory = self.get(path);
        if directory.held.is_some() {
            return Some(DirectoryScan { directory, way: DirTraversal::unknown(1), files: vec![file] });
        }
        let known = self.lately.iter().position(|lately| lately.path == path);
        let before = known.map(|known| self.lately.remove(known));
        if self.lately.len() == RECENT_DIRECTORIES_MAX {
            self.lately.remove(0);
        }
        self.lately.push(RecentDirectory { path: path.to_owned(), file, io_wait });
        let before = before.filter(|before| {
            !before.file.is_same(&file) && io_wait.saturating_sub(before.io_wait) >= FIRST_FILE_WAIT_MIN
        })?;
        Some(DirectoryScan { directory, way: DirTraversal::unknown(2), files: vec![before.file, file] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_os::process::{Kind, open_directory};

    const MILLISECOND: u64 = 1_000_000;

    fn file(inode: u64) -> Identity {
        Identity { device: 1, inode, kind: Kind::Regular, size: 10 }
    }

    #[test]
    fn who_waits_for_one_file_after_the_other_goes_through_their_directory() {
        let mut directories = Directories::default();
        let mut come = |path: &str, inode, io_wait| {
            let found = directories.visit(Path::new(path), file(inode), Nanos(io_wait * MILLISECOND));
            found.map(|found| found.files.iter().map(|file| file.inode).collect::<Vec<_>>())
        };
        assert_eq!(come("/usr", 1, 0), None);
        assert_eq!(come("/usr", 2, 0), None, "it did not wait");
        assert_eq!(come("/usr", 3, 10), Some(vec![2, 3]));
        assert_eq!(come("/proc", 4, 20), None);
        assert_eq!(come("/usr", 5, 30), Some(vec![3, 5]), "in turn with another");
        assert_eq!(come("/usr", 5, 40), None, "the same again");
        ["/a", "/b", "/c", "/d"].into_iter().for_each(|path| assert_eq!(come(path, 8, 70), None));
        assert_eq!(come("/usr", 9, 80), None, "that was long ago");
    }

    #[test]
    fn a_directory_that_is_held_is_gone_through_from_its_first_file_on() {
        let mut directories = Directories::default();
        let held = Some(Arc::new(open_directory(Path::new("/usr")).unwrap()));
        directories.hold(3, Directory { path: PathBuf::from("/usr"), held });
        assert!(directories.get(Path::new("/usr")).held.is_some());
        assert_eq!(directories.visit(Path::new("/usr"), file(1), Nanos(0)).unwrap().files, [file(1)]);
        directories.keep(|number| number != 3);
        assert!(directories.get(Path::new("/usr")).held.is_none());
        assert!(directories.visit(Path::new("/usr"), file(1), Nanos(0)).is_none());
    }
}
