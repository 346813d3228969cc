//! The follower's own descriptor of a file that a program reads or will read.
//!
//! A file is opened by the fetcher's threads, not by the polling thread: on a slow file system opening blocks as
//! reading does.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_os::process::Mapped;
use sakiyomi_os::process::{Identity, Kind, Process, identity, identity_at, open_beside};

use crate::cached_file::{CachedFile, FetchOutcome, Found};

/// A file, opened on first use.
#[derive(Debug)]
pub(super) struct Handle {
    place: Place,
    /// The identity that it must have; `None` if that is to be determined.
    expected: Option<Identity>,
    opened: Mutex<Opened>,
}

#[derive(Debug)]
enum Opened {
    NotYet,
    /// Opening was denied.
    Refused,
    /// The file has been removed or replaced.
    Gone,
    As(Arc<CachedFile>),
    /// The file is no longer needed.
    Over,
}

/// The place of a file.
#[derive(Debug)]
pub(super) enum Place {
    /// Open in a process under this descriptor number.
    Open(Arc<Process>, u32),
    /// Mapped by a process.
    Mapped(Arc<Process>, Mapped),
    /// A path relative to a directory.
    Named(Arc<OwnedFd>, PathBuf),
}

impl Handle {
    pub(super) fn new(place: Place, expected: Option<Identity>) -> Handle {
        Handle { place, expected, opened: Mutex::new(Opened::NotYet) }
    }

    /// Returns the file; `None` if it cannot be opened, or has been replaced.
    pub(super) fn file(&self) -> Option<Arc<CachedFile>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*opened, Opened::NotYet) {
            *opened = match self.open() {
                Ok(Some(file)) => Opened::As(Arc::new(CachedFile::new(file))),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Opened::Refused,
                Ok(None) | Err(_) => Opened::Gone,
            };
        }
        match &*opened {
            Opened::As(file) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    /// Opens the file; `None` if it is another file.
    fn open(&self) -> io::Result<Option<File>> {
        // Opening another kind of file can have side effects.
        let what = match &self.place {
            Place::Open(process, number) => process.identity(*number)?,
            Place::Mapped(process, mapped) => process.identity_mapped(mapped)?,
            Place::Named(directory, name) => identity_at(directory.as_fd(), name)?,
        };
        if !self.is_it(&what) {
            return Ok(None);
        }
        let file = match &self.place {
            Place::Open(process, number) => process.reopen(*number)?,
            Place::Mapped(process, mapped) => process.reopen_mapped(mapped)?,
            Place::Named(directory, name) => open_beside(directory, name)?,
        };
        Ok(self.is_it(&identity(&file)?).then_some(file))
    }

    fn is_it(&self, found: &Identity) -> bool {
        // A device is only opened if the program has opened it, because that may wake the hardware.
        let of_it = match self.place {
            Place::Open(..) => matches!(found.kind, Kind::Regular | Kind::BlockDevice),
            Place::Mapped(..) | Place::Named(..) => found.kind == Kind::Regular,
        };
        of_it && self.expected.is_none_or(|expected| expected.is_same(found))
    }

    /// Closes the descriptor after the program has passed this file.
    pub(super) fn release(&self) {
        if let Ok(mut opened) = self.opened.try_lock() {
            *opened = Opened::Over;
        }
    }

    fn is_refused(&self) -> bool {
        matches!(*self.opened.lock().unwrap_or_else(PoisonError::into_inner), Opened::Refused)
    }

    /// Returns the identity; `None` if the file cannot be opened.
    pub(super) fn examine(&self) -> Option<Identity> {
        self.file().and_then(|file| identity(file.file()).ok())
    }

    /// Returns whether ranges of it are read, because the kernel does not read them ahead.
    pub(super) fn is_read_instead(&self) -> bool {
        self.file().is_some_and(|file| file.is_read_instead())
    }

    /// Returns the residency of a range; `None` if it is not reported.
    pub(super) fn find(&self, range: &Range<u64>) -> Option<Found> {
        self.file()?.find(range)
    }

    /// Loads a range into the page cache and waits for its end; see [`CachedFile::load_and_wait`].
    pub(super) fn load_and_wait(&self, range: &Range<u64>) -> FetchOutcome {
        match self.file() {
            None => FetchOutcome { bytes: 0, done: false },
            Some(file) => file.load_and_wait(range),
        }
    }

    /// Waits until a byte is cached; returns false if it cannot be read.
    pub(super) fn await_byte(&self, at: u64) -> bool {
        self.file().is_some_and(|file| file.await_byte(at))
    }

    /// Loads a range into the page cache, or requests it.
    pub(super) fn load(&self, range: &Range<u64>) -> FetchOutcome {
        match self.file() {
            // A missing file need not be fetched, which does not mean that fetching is refused.
            None => FetchOutcome { bytes: 0, done: !self.is_refused() },
            Some(_) if range.is_empty() => FetchOutcome { bytes: 0, done: true },
            Some(file) => file.load(range),
        }
    }
}
