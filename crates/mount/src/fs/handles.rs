//! Files and directories that the kernel has open.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Dir, DirEntry};

use super::direct::Direct;
use super::nodes::Node;
use sakiyomi_os::per_thread::PerThread;

/// Open files or directories by handle.
#[derive(Debug)]
pub(super) struct Handles<T> {
    table: Mutex<(HashMap<u64, Arc<T>>, u64)>,
    /// Cache of the entries that each thread has used.
    used: PerThread<BTreeMap<u64, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { table: Mutex::new((HashMap::new(), 0)), used: PerThread::default() }
    }
}

impl<T> Handles<T> {
    fn lock(&self) -> MutexGuard<'_, (HashMap<u64, Arc<T>>, u64)> {
        // No operation under this lock can panic half-way.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, opened: T) -> u64 {
        let mut table = self.lock();
        table.1 += 1;
        let number = table.1;
        table.0.insert(number, Arc::new(opened));
        number
    }

    pub(super) fn get(&self, number: u64) -> io::Result<Arc<T>> {
        self.lock().0.get(&number).cloned().ok_or_else(|| rustix::io::Errno::BADF.into())
    }

    /// Runs a short function on an open entry, without contention between threads.
    pub(super) fn with<R>(&self, number: u64, work: impl FnOnce(&T) -> R) -> io::Result<R> {
        self.used.with(|used| match used.entry(number) {
            Entry::Occupied(known) => Ok(work(known.get())),
            // Under this thread's lock, so that a concurrent removal either finds the entry here or makes the lookup
            // fail.
            Entry::Vacant(unknown) => Ok(work(unknown.insert(self.get(number)?))),
        })
    }

    pub(super) fn remove(&self, number: u64) -> Option<Arc<T>> {
        let removed = self.lock().0.remove(&number);
        self.used.each(|used| drop(used.remove(&number)));
        removed
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: File,
    /// The file opened with `O_DIRECT`, if configured and possible.
    pub(super) direct: Option<Direct>,
    pub(super) node: Arc<Node>,
}

/// An open directory, read sequentially; seeks if another position is requested.
#[derive(Debug)]
pub(super) struct Listing(Mutex<Place>);

#[derive(Debug)]
struct Place {
    directory: Dir,
    /// The position after the last entry consumed; 0 is the beginning.
    at: u64,
    /// An entry that did not fit into the last reply.
    left: Option<DirEntry>,
}

impl Listing {
    pub(super) fn new(directory: OwnedFd) -> io::Result<Listing> {
        let place = Place { directory: Dir::new(directory)?, at: 0, left: None };
        Ok(Listing(Mutex::new(place)))
    }

    /// Passes entries from position `from` to `take`, which returns whether the entry fitted.
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
