//! Our own descriptor of a file that a program reads or will read, and bringing parts of it into memory.
//!
//! A file is opened on the pool's threads, not by whoever watches: on a slow file system, that waits as reading does.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sakiyomi_linux::page_cache;
use sakiyomi_linux::process::{Identity, Kind, Process, identity, identity_at, open_beside};

/// Read at a time where the kernel does not read ahead, in bytes.
const SCRATCH: usize = 128 << 10;

/// A file, opened when it is first needed.
#[derive(Debug)]
pub(super) struct Handle {
    place: Place,
    /// Which file it must be; none if that is to be found out.
    expected: Option<Identity>,
    opened: Mutex<Opened>,
    /// How much the kernel takes in one call.
    piece: OnceLock<u64>,
    /// The kernel does not read it ahead: it is read instead.
    by_reading: AtomicBool,
}

#[derive(Debug)]
enum Opened {
    NotYet,
    Refused,
    As(Arc<File>),
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

/// What came of bringing a range into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Brought {
    /// Bytes that were not in memory before.
    pub(super) bytes: u64,
    /// Whether it was possible.
    pub(super) done: bool,
}

impl Handle {
    pub(super) fn new(place: Place, expected: Option<Identity>) -> Handle {
        let opened = Mutex::new(Opened::NotYet);
        Handle { place, expected, opened, piece: OnceLock::new(), by_reading: AtomicBool::new(false) }
    }

    /// The file; none if it cannot be opened, or has become another one.
    fn file(&self) -> Option<Arc<File>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*opened, Opened::NotYet) {
            *opened = self.open().map_or(Opened::Refused, |file| Opened::As(Arc::new(file)));
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
        self.file().and_then(|file| identity(&file).ok())
    }

    pub(super) fn is_read_instead(&self) -> bool {
        self.by_reading.load(Ordering::Relaxed)
    }

    /// Bytes of a range that are in memory, and that were and have been pushed out; none where that is not told.
    pub(super) fn residency(&self, range: &Range<u64>) -> Option<(u64, u64)> {
        let found = page_cache::residency(&*self.file()?, range.clone()).ok()?;
        let length = range.end - range.start;
        // A page of which the range has a part counts as all of the range.
        let missing = found.pages.saturating_sub(found.cached) * page_bytes(&found, length);
        let evicted = found.detail.map_or(0, |detail| detail.evicted * page_bytes(&found, length));
        Some((length.saturating_sub(missing), evicted.min(length)))
    }

    /// Brings a range into memory, or has it brought there.
    pub(super) fn bring(&self, range: &Range<u64>) -> Brought {
        let Some(file) = self.file() else { return Brought::default() };
        if range.is_empty() {
            return Brought { bytes: 0, done: true };
        }
        let before = self.residency(range);
        let bytes = range.end - range.start - before.map_or(0, |before| before.0);
        if bytes == 0 {
            return Brought { bytes, done: true };
        }
        if !self.is_read_instead() {
            let piece = *self.piece.get_or_init(|| page_cache::piece(&file).unwrap_or(4096));
            let fetched = page_cache::fetch_in_pieces(&file, range.clone(), piece);
            // A full queue cuts it short now and then; what brings nothing at all is not read ahead here.
            if fetched.is_ok_and(|found| found.cached > 0) {
                return Brought { bytes, done: true };
            }
            self.by_reading.store(true, Ordering::Relaxed);
        }
        Brought { bytes, done: read(&file, range) }
    }
}

fn page_bytes(found: &page_cache::Residency, length: u64) -> u64 {
    length.div_ceil(found.pages.max(1))
}

/// Reads a range to nowhere.
fn read(file: &File, range: &Range<u64>) -> bool {
    let mut scratch = vec![0; SCRATCH.min((range.end - range.start) as usize)];
    let mut at = range.start;
    while at < range.end {
        let wanted = scratch.len().min((range.end - at) as usize);
        match file.read_at(&mut scratch[..wanted], at) {
            // It has been cut short meanwhile.
            Ok(0) => return true,
            Ok(read) => at += read as u64,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}
