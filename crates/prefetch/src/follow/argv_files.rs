//! The files named on a program's command line, in order: those that it will read, if it reads them one after the
//! other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sakiyomi_os::process::{Identity, Process, identity_at};

/// Words of a command line that may be file names.
#[derive(Debug, Default)]
pub(super) struct ArgvFiles {
    /// The directory to which relative names refer.
    pub(super) directory: Option<Arc<OwnedFd>>,
    /// The words in order, without options.
    pub(super) words: Arc<Vec<PathBuf>>,
    /// Indices of words by the last component of their path.
    by_name: BTreeMap<OsString, Vec<usize>>,
}

impl ArgvFiles {
    /// Reads the command line of a process. Makes no request to the file system.
    pub(super) fn of(process: &Process) -> ArgvFiles {
        let words = process.command_line().unwrap_or_default();
        let is_option = |word: &OsString| word.as_encoded_bytes().first().is_none_or(|&byte| byte == b'-');
        let words: Vec<PathBuf> =
            words.into_iter().skip(1).filter(|word| !is_option(word)).map(PathBuf::from).collect();
        let mut by_name: BTreeMap<OsString, Vec<usize>> = BTreeMap::new();
        for (index, word) in words.iter().enumerate() {
            if let Some(name) = word.file_name() {
                by_name.entry(name.to_owned()).or_default().push(index);
            }
        }
        ArgvFiles {
            directory: process.working_directory().ok().map(Arc::new),
            words: Arc::new(words),
            by_name,
        }
    }

    /// Returns the index of the word that names this file, which lies at `path`.
    pub(super) fn find(&self, path: &Path, file: &Identity) -> Option<usize> {
        let directory = self.directory.as_ref()?;
        let candidates = self.by_name.get(path.file_name()?)?;
        // The program has just looked it up, so the kernel has it cached.
        let is_it = |&&index: &&usize| {
            identity_at(directory.as_fd(), &self.words[index]).is_ok_and(|found| found.is_same(file))
        };
        candidates.iter().find(is_it).copied()
    }
}
