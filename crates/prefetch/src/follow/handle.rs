//! Our own descriptor of a file that a program reads or will read, and bringing parts of it into memory.
//!
//! A file is opened on the fetcher's threads, not by whoever watches: on a slow file system, that waits as reading does.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_os::process::Mapped;
use sakiyomi_os::process::{Identity, Kind, Process, identity, identity_at, open_beside};

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
    /// It may not be opened.
    Refused,
    /// It is not there any more, or is another one.
    Gone,
    As(Arc<CachedFile>),
    /// Nobody needs it any more.
    Over,
}

/// Where a file is found.
#[derive(Debug)]
pub(super) enum Place {
    /// A process has it open under this number.
    Open(Arc<Process>, u32),
    /// A process has it mapped.
    Mapped(Arc<Process>, Mapped),
    /// Under this name, seen from a directory.
    Named(Arc<OwnedFd>, PathBuf),
}

impl Handle {
    pub(super) fn new(place: Place, expected: Option<Identity>) -> Handle {
        Handle { place, expected, opened: Mutex::new(Opened::NotYet) }
    }

    /// The file; none if it cannot be opened, or has become another one.
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

    /// None if it is another file, or none at all.
    fn open(&self) -> io::Result<Option<File>> {
        // Opening something else can have effects.
        let what = match &self.place {
            Place::Open(process, number) => process.identity(*number)?,
            Place::Mapped(process, mapped) => process.identity_mapped(&mapped.place)?,
            Place::Named(directory, name) => identity_at(directory.as_fd(), name)?,
        };
        if !self.is_it(&what) {
            return Ok(None);
        }
        let file = match &self.place {
            Place::Open(process, number) => process.reopen(*number)?,
            Place::Mapped(process, mapped) => process.reopen_mapped(&mapped.place)?,
            Place::Named(directory, name) => open_beside(directory, name)?,
        };
        Ok(self.is_it(&identity(&file)?).then_some(file))
    }

    fn is_it(&self, found: &Identity) -> bool {
        // A device is only opened if the program has: that may wake what it stands for.
        let of_it = match self.place {
            Place::Open(..) => matches!(found.kind, Kind::Regular | Kind::BlockDevice),
            Place::Mapped(..) | Place::Named(..) => found.kind == Kind::Regular,
        };
        of_it && self.expected.is_none_or(|expected| expected.is_same(found))
    }

    /// Gives the descriptor back: the program is past this file.
    pub(super) fn let_go(&self) {
        if let Ok(mut opened) = self.opened.try_lock() {
            *opened = Opened::Over;
        }
    }

    fn is_refused(&self) -> bool {
        matches!(*self.opened.lock().unwrap_or_else(PoisonError::into_inner), Opened::Refused)
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

    /// Waits until a byte is in memory; false if it cannot be read.
    pub(super) fn await_byte(&self, at: u64) -> bool {
        self.file().is_some_and(|file| file.await_byte(at))
    }

    /// Brings a range into memory, or has it brought there.
    pub(super) fn bring(&self, range: &Range<u64>) -> Brought {
        match self.file() {
            // What is gone needs not be brought; that says nothing about what may be.
            None => Brought { bytes: 0, done: !self.is_refused() },
            Some(_) if range.is_empty() => Brought { bytes: 0, done: true },
            Some(file) => file.bring(range),
        }
    }
}
