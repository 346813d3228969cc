//! Files cached by the kernel, each with a descriptor opened with `O_PATH`: hard links are one node, and a node stays
//! the same when its names change, or are all removed. If there are too many descriptors, the oldest are closed,
//! provided that their files can be opened again by file handle.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use sakiyomi_io::file_handle::FileHandle;

use crate::layout::FileId;

/// Number of the mounted directory's node (`FUSE_ROOT_ID`).
pub(crate) const ROOT_NODE: u64 = 1;

/// First node number of files on other file systems mounted below the backing directory, whose inode numbers may not be
/// unique.
const FOREIGN_NODES_FROM: u64 = 1 << 63;

/// Number of descriptors closed when none is left: more than needed, because other threads need some as well.
const DESCRIPTORS_CLOSED: usize = 8;

/// A file of the backing directory, of any kind.
#[derive(Debug)]
pub(crate) struct Node {
    place: Mutex<Place>,
    places: Arc<Places>,
    /// Reference for the list of nodes with a descriptor.
    me: Weak<Node>,
    pub(crate) number: u64,
    pub(crate) id: FileId,
    /// State of the content when the kernel's pages of it were last known to be valid.
    pub(crate) stamp: Mutex<Option<Stamp>>,
}

/// A node's access to its file.
#[derive(Debug)]
enum Place {
    /// Opened with `O_PATH`.
    Open(Arc<OwnedFd>),
    Closed(FileHandle),
}

/// Nodes with a descriptor, oldest first.
#[derive(Debug)]
struct Places {
    /// The backing directory, opened for reading.
    beside: OwnedFd,
    /// Largest number of descriptors; `None` if files cannot be opened again.
    most: Option<usize>,
    open: Mutex<VecDeque<Weak<Node>>>,
}

impl Places {
    fn new(root: &OwnedFd, most: usize) -> io::Result<Places> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let beside = rustix::fs::openat(root, c".", flags, Mode::empty())?;
        let able = FileHandle::of(root).and_then(|handle| handle.open_path(&beside)).is_ok();
        Ok(Places { beside, most: able.then_some(most), open: Mutex::default() })
    }

    /// Records that a node has a descriptor; closes the oldest one if there are too many.
    fn opened(&self, node: &Node) {
        let Some(most) = self.most else { return };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(node.me.clone());
        let oldest = if open.len() > most { open.pop_front() } else { None };
        drop(open);
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            oldest.close();
        }
    }

    /// Runs `work`, which takes a descriptor but opens no node (that would use it up again). While the process has none
    /// left, closes the oldest ones.
    fn with_room<T>(&self, mut work: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
        loop {
            match work() {
                Err(Errno::MFILE) if self.make_room() => {}
                done => return done,
            }
        }
    }

    /// Closes some of the oldest descriptors; returns whether there were any.
    fn make_room(&self) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let some = DESCRIPTORS_CLOSED.min(open.len());
        let oldest: Vec<Weak<Node>> = open.drain(..some).collect();
        drop(open);
        oldest.iter().filter_map(Weak::upgrade).for_each(|node| node.close());
        !oldest.is_empty()
    }
}

/// Modification time and size, by which a change of the content outside the mount is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    size: i64,
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Stamp {
        // The types of these fields depend on the architecture.
        #[allow(clippy::unnecessary_cast)]
        Stamp { modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64), size: stat.st_size as i64 }
    }
}

impl Node {
    fn new(number: u64, id: FileId, place: OwnedFd, places: &Arc<Places>) -> Arc<Node> {
        let place = Mutex::new(Place::Open(Arc::new(place)));
        let node = Arc::new_cyclic(|me| Node {
            place,
            places: Arc::clone(places),
            me: me.clone(),
            number,
            id,
            stamp: Mutex::default(),
        });
        places.opened(&node);
        node
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        // No operation under this lock can panic half-way.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an `O_PATH` descriptor of the file.
    pub(crate) fn place(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(self.places.with_room(|| self.place_now())?)
    }

    /// Returns the descriptor; fails if the process has none left.
    fn place_now(&self) -> rustix::io::Result<Arc<OwnedFd>> {
        let mut place = self.lock();
        let opened = match &*place {
            Place::Open(place) => return Ok(Arc::clone(place)),
            Place::Closed(handle) => {
                let opened = handle.open_path(&self.places.beside);
                Arc::new(opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?)
            }
        };
        *place = Place::Open(Arc::clone(&opened));
        drop(place);
        self.places.opened(self);
        Ok(opened)
    }

    /// Closes the descriptor, if the file can be opened again without it.
    fn close(&self) {
        // A file on another file system below the backing directory cannot be opened through `beside`.
        if self.id.device != 0 {
            return;
        }
        let mut place = self.lock();
        if let Place::Open(open) = &*place
            // A file without a name is kept only by its descriptor.
            && rustix::fs::fstat(open).is_ok_and(|stat| stat.st_nlink > 0)
            && let Ok(handle) = FileHandle::of(open.as_fd())
        {
            *place = Place::Closed(handle);
        }
    }

    /// Restores `place`, a descriptor of this file, if it was closed in the meantime.
    fn keep(&self, place: Arc<OwnedFd>) {
        let mut mine = self.lock();
        if matches!(*mine, Place::Closed(_)) {
            *mine = Place::Open(place);
            drop(mine);
            self.places.opened(self);
        }
    }

    /// Returns whether a file with the same inode number is this one: after its descriptor was closed, a file may be
    /// removed and its number reused.
    fn is(&self, other: &OwnedFd) -> bool {
        match &*self.lock() {
            Place::Open(_) => true,
            Place::Closed(handle) => FileHandle::of(other).is_ok_and(|other| other == *handle),
        }
    }

    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(self.place()?)?)
    }

    /// Returns whether the file has no name left.
    pub(crate) fn is_gone(&self) -> bool {
        match self.stat() {
            Ok(stat) => stat.st_nlink == 0,
            Err(error) => error.raw_os_error() == Some(Errno::STALE.raw_os_error()),
        }
    }

    /// Runs `work` with a path of the file itself, even if it has no name or is a symbolic link.
    pub(crate) fn by_path<T>(&self, work: impl FnOnce(&str) -> rustix::io::Result<T>) -> io::Result<T> {
        let place = self.place()?;
        Ok(work(&format!("/proc/self/fd/{}", place.as_raw_fd()))?)
    }

    /// Opens the file itself.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let open = |path: &str| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
        self.by_path(|path| self.places.with_room(|| open(path)))
    }

    /// Records that the mount itself has changed the content, so that the kernel's pages are valid.
    pub(crate) fn changed_here(&self) {
        let stamp = self.stat().ok().map(|stat| Stamp::of(&stat));
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) = stamp;
    }

    /// Runs `work`, which changes the modification time but not the content: the kernel's pages are as valid
    /// afterwards as they were before.
    pub(crate) fn retimed<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let now = || self.stat().ok().map(|stat| Stamp::of(&stat));
        let mut stamp = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let was_right = stamp.is_some() && *stamp == now();
        let done = work();
        if was_right {
            *stamp = now();
        }
        done
    }

    /// Returns whether the kernel's pages still match the content; they count as matching afterwards.
    pub(crate) fn is_as_known(&self, stat: &Stat) -> bool {
        let now = Some(Stamp::of(stat));
        let mut stamp = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *stamp, now) == now
    }
}

/// All nodes cached by the kernel.
#[derive(Debug)]
pub(crate) struct Nodes {
    device: u64,
    places: Arc<Places>,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    by_number: HashMap<u64, HeldNode>,
    by_id: HashMap<FileId, u64>,
    next_elsewhere: u64,
}

#[derive(Debug)]
struct HeldNode {
    node: Arc<Node>,
    /// References that the kernel holds (lookups without a forget).
    lookups: u64,
}

impl Nodes {
    /// Makes the table with the backing directory as its root.
    pub(crate) fn new(root: OwnedFd, descriptors: usize) -> io::Result<Nodes> {
        let stat = rustix::fs::fstat(&root)?;
        let id = FileId { device: 0, inode: stat.st_ino };
        let places = Arc::new(Places::new(&root, descriptors)?);
        let node = Node::new(ROOT_NODE, id, root, &places);
        let table = Table {
            by_number: HashMap::from([(ROOT_NODE, HeldNode { node, lookups: 1 })]),
            by_id: HashMap::from([(id, ROOT_NODE)]),
            next_elsewhere: FOREIGN_NODES_FROM,
        };
        Ok(Nodes { device: stat.st_dev, places, table: Mutex::new(table) })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No operation under this lock can panic half-way.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the identity of a file.
    pub(crate) fn id(&self, stat: &Stat) -> FileId {
        FileId { device: if stat.st_dev == self.device { 0 } else { stat.st_dev }, inode: stat.st_ino }
    }

    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<Node>> {
        let found = self.lock().by_number.get(&number).map(|held| Arc::clone(&held.node));
        found.ok_or_else(|| Errno::STALE.into())
    }

    /// Looks a name up for the kernel, which then holds a reference to the node.
    pub(crate) fn lookup(&self, parent: &Node, name: &std::ffi::OsStr) -> io::Result<(Arc<Node>, Stat)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = parent.place()?;
        let place = self.with_room(|| rustix::fs::openat(&parent, name, flags, Mode::empty()))?;
        let stat = rustix::fs::fstat(&place)?;
        Ok((self.enter(place, &stat), stat))
    }

    /// Runs `work`, which takes a descriptor; closes those of cached files if there are none left.
    pub(crate) fn with_room<T>(&self, work: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
        self.places.with_room(work)
    }

    /// Removes a name by `work`. If it was the last one, the file may still be in use and exists only by the
    /// descriptor, which therefore stays open.
    pub(crate) fn unnamed<T>(
        &self,
        parent: &Node,
        name: &std::ffi::OsStr,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let known = self.known_as(parent, name);
        let place = known.as_ref().and_then(|node| node.place().ok());
        let done = work();
        if let (Some(node), Some(place)) = (known, place) {
            node.keep(place);
        }
        done
    }

    /// Returns the node of a name, if the kernel has it cached and its descriptor may be closed.
    fn known_as(&self, parent: &Node, name: &std::ffi::OsStr) -> Option<Arc<Node>> {
        self.places.most?;
        let stat = rustix::fs::statat(parent.place().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let table = self.lock();
        let held = table.by_number.get(table.by_id.get(&self.id(&stat))?)?;
        Some(Arc::clone(&held.node))
    }

    fn enter(&self, place: OwnedFd, stat: &Stat) -> Arc<Node> {
        let id = self.id(stat);
        let mut table = self.lock();
        if let Some(held) = table.by_id.get(&id).copied().and_then(|number| table.by_number.get_mut(&number))
            && held.node.is(&place)
        {
            held.lookups += 1;
            return Arc::clone(&held.node);
        }
        let number = table.number_for(id);
        let node = Node::new(number, id, place, &self.places);
        table.by_id.insert(id, number);
        table.by_number.insert(number, HeldNode { node: Arc::clone(&node), lookups: 1 });
        node
    }

    /// Adds a reference of the kernel to a node: a link was made to it.
    pub(crate) fn hold(&self, node: &Node) {
        if let Some(held) = self.lock().by_number.get_mut(&node.number) {
            held.lookups += 1;
        }
    }

    /// Drops `lookups` references of the kernel to a node; returns it after the last one.
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> Option<Arc<Node>> {
        let mut table = self.lock();
        let held = table.by_number.get_mut(&number).filter(|_| number != ROOT_NODE)?;
        held.lookups = held.lookups.saturating_sub(lookups);
        if held.lookups > 0 {
            return None;
        }
        let held = table.by_number.remove(&number)?;
        // Another file may have its inode number by now, and with it its blocks.
        if table.by_id.get(&held.node.id) != Some(&number) {
            return None;
        }
        table.by_id.remove(&held.node.id);
        Some(held.node)
    }
}

impl Table {
    /// Returns the file's own inode number if possible, so that it is the same at the next mount.
    fn number_for(&mut self, id: FileId) -> u64 {
        let usable = id.device == 0 && id.inode > ROOT_NODE && id.inode < FOREIGN_NODES_FROM;
        if usable && !self.by_number.contains_key(&id.inode) {
            return id.inode;
        }
        self.next_elsewhere += 1;
        self.next_elsewhere
    }
}

/// Changes the owner of a name's file.
pub(crate) fn give_to(parent: impl AsFd, name: &std::ffi::OsStr, owner: Owner) -> io::Result<()> {
    let (user, group) = owner.ids();
    Ok(rustix::fs::chownat(parent, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// The owner of a new file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    /// `None` to keep the group that the directory's file system has chosen.
    pub(crate) group: Option<u32>,
}

impl Owner {
    pub(crate) fn ids(self) -> (Option<rustix::fs::Uid>, Option<rustix::fs::Gid>) {
        (Some(rustix::fs::Uid::from_raw(self.user)), self.group.map(rustix::fs::Gid::from_raw))
    }
}
