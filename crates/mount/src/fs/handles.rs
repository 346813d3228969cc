//! What the kernel has opened.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Dir, DirEntry};

use super::nodes::Node;

/// Opened things under numbers of their own.
#[derive(Debug)]
pub(super) struct Handles<T> {
    table: Mutex<(HashMap<u64, Arc<T>>, u64)>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { table: Mutex::new((HashMap::new(), 0)) }
    }
}

impl<T> Handles<T> {
    pub(super) fn add(&self, opened: T) -> u64 {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.1 += 1;
        let number = table.1;
        table.0.insert(number, Arc::new(opened));
        number
    }

    pub(super) fn get(&self, number: u64) -> io::Result<Arc<T>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.0.get(&number).cloned().ok_or_else(|| rustix::io::Errno::BADF.into())
    }

    pub(super) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).0.remove(&number)
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: File,
    pub(super) node: Arc<Node>,
}

/// An open directory, read in order; asked for another place, it goes there.
#[derive(Debug)]
pub(super) struct Listing(Mutex<Place>);

#[derive(Debug)]
struct Place {
    directory: Dir,
    /// The place after what was last taken; 0 is the beginning.
    at: u64,
    /// An entry that had no room in the last answer.
    left: Option<DirEntry>,
}

impl Listing {
    pub(super) fn new(directory: OwnedFd) -> io::Result<Listing> {
        let place = Place { directory: Dir::new(directory)?, at: 0, left: None };
        Ok(Listing(Mutex::new(place)))
    }

    /// Offers entries from place `from` on to `take`, which says whether it had room.
    pub(super) fn each(&self, from: u64, mut take: impl FnMut(&DirEntry) -> bool) -> io::Result<()> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if from != place.at || from == 0 {
            place.left = None;
            if from == 0 {
                place.directory.rewind()
            } else {
                place.directory.seek(from as i64)?
            }
            place.at = from;
        }
        loop {
            let next = match place.left.take() {
                Some(entry) => Some(entry),
                None => place.directory.read().transpose()?,
            };
            let Some(entry) = next else { return Ok(()) };
            if !take(&entry) {
                place.left = Some(entry);
                return Ok(());
            }
            place.at = entry.offset() as u64;
        }
    }
}
