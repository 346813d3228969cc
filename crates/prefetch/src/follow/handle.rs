//! Our own descriptor of a file that a program reads or will read, and bringing parts of it into memory.
//!
//! A file is opened on the pool's threads, not by whoever watches: on a slow file system, that waits as reading does.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_linux::process::{Identity, Kind, Process, identity, identity_at, open_beside};

use crate::cached_file::{Brought, CachedFile, Found};

/// A file, opened when it is first needed.
#[derive(Debug)]
pub(super) struct Handle {
    place: Place,
    /// Which file it must be; none if that is to be found out.
    expected: Option<Identity>,
    opened: Mutex<Opened>,
}

#[derive(Debug)]
enum Opened {
    NotYet,
    Refused,
    As(Arc<CachedFile>),
    /// Nobody needs it any more.
    Over,
}

/// Where a file is found.
#[derive(Debug)]
pub(super) enum Place {
    /// A process has it open under this number.
    Open(Arc<Process>, u32),
    /// Under this name, seen from a directory.
    Named(Arc<OwnedFd>, PathBuf),
}

impl Handle {
    pub(super) fn new(place: Place, expected: Option<Identity>) -> Handle {
        Handle { place, expected, opened: Mutex::new(Opened::NotYet) }
    }

    /// The file; none if it cannot be opened, or has become another one.
    fn file(&self) -> Option<Arc<CachedFile>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*opened, Opened::NotYet) {
            *opened = self.open().map_or(Opened::Refused, |file| Opened::As(Arc::new(CachedFile::new(file))));
        }
        match &*opened {
            Opened::As(file) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    fn open(&self) -> Option<File> {
        let file = match &self.place {
            Place::Open(process, number) => process.reopen(*number).ok()?,
            Place::Named(directory, name) => {
                // Opening something else can have effects.
                let what = identity_at(directory.as_fd(), name).ok()?;
                (what.kind == Kind::Regular).then(|| open_beside(directory, name).ok())??
            }
        };
        let found = identity(&file).ok()?;
        let is_it = self.expected.is_none_or(|expected| expected.is_same(&found));
        (is_it && found.kind == Kind::Regular).then_some(file)
    }

    /// Gives the descriptor back: the program is past this file.
    pub(super) fn let_go(&self) {
        if let Ok(mut opened) = self.opened.try_lock() {
            *opened = Opened::Over;
        }
    }

    /// What it is; none if it cannot be opened.
    pub(super) fn examine(&self) -> Option<Identity> {
        self.file().and_then(|file| identity(file.file()).ok())
    }

    /// Whether ranges of it are read, because the kernel does not read them ahead.
    pub(super) fn is_read_instead(&self) -> bool {
        self.file().is_some_and(|file| file.is_read_instead())
    }

    /// What is in memory of a range; none where that is not told.
    pub(super) fn find(&self, range: &Range<u64>) -> Option<Found> {
        self.file()?.find(range)
    }

    /// Brings a range into memory, or has it brought there.
    pub(super) fn bring(&self, range: &Range<u64>) -> Brought {
        match self.file() {
            None => Brought::default(),
            Some(_) if range.is_empty() => Brought { bytes: 0, done: true },
            Some(file) => file.bring(range),
        }
    }
}
