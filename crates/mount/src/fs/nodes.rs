//! Files that the kernel knows, each by a descriptor that holds its place: hard links are one node, and a node stays
//! what it is however its names change, or when it has none any more.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use crate::layout::FileId;

/// The node that stands for the mounted directory.
pub(crate) const ROOT: u64 = 1;

/// Numbers from here on are given to files whose own number is another's here: those of other file systems that are
/// mounted below the backing directory.
const ELSEWHERE: u64 = 1 << 63;

/// A file of the backing directory, of any kind.
#[derive(Debug)]
pub(crate) struct Node {
    /// Opened with `O_PATH`: it names the file and reads nothing.
    place: OwnedFd,
    pub(crate) number: u64,
    pub(crate) id: FileId,
    /// How the content stood when the kernel's pages of it were last known to be right.
    pub(crate) stamp: Mutex<Option<Stamp>>,
}

/// Tells whether a file's content may have been changed by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    size: i64,
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Stamp {
        // The types of these fields differ from machine to machine.
        #[allow(clippy::unnecessary_cast)]
        Stamp { modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64), size: stat.st_size as i64 }
    }
}

impl Node {
    pub(crate) fn place(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }

    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.place)?)
    }

    /// A path that leads to the file itself, also when it has no name any more or is a symbolic link.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.place.as_raw_fd())
    }

    /// Opens the file itself.
    pub(crate) fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(rustix::fs::open(self.path(), flags | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Says that the content was changed by us, so that what the kernel holds is right.
    pub(crate) fn changed_here(&self) {
        let stamp = self.stat().ok().map(|stat| Stamp::of(&stat));
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) = stamp;
    }

    /// Whether the content is still what the kernel may hold of it; from now on it is.
    pub(crate) fn is_as_known(&self, stat: &Stat) -> bool {
        let now = Some(Stamp::of(stat));
        let mut stamp = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *stamp, now) == now
    }
}

/// All nodes that the kernel holds.
#[derive(Debug)]
pub(crate) struct Nodes {
    device: u64,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    by_number: HashMap<u64, Held>,
    by_id: HashMap<FileId, u64>,
    next_elsewhere: u64,
}

#[derive(Debug)]
struct Held {
    node: Arc<Node>,
    /// How often the kernel was told of it and has not forgotten.
    lookups: u64,
}

impl Nodes {
    /// With the backing directory as its root.
    pub(crate) fn new(root: OwnedFd) -> io::Result<Nodes> {
        let stat = rustix::fs::fstat(&root)?;
        let id = FileId { device: 0, inode: stat.st_ino };
        let node = Arc::new(Node { place: root, number: ROOT, id, stamp: Mutex::default() });
        let table = Table {
            by_number: HashMap::from([(ROOT, Held { node, lookups: 1 })]),
            by_id: HashMap::from([(id, ROOT)]),
            next_elsewhere: ELSEWHERE,
        };
        Ok(Nodes { device: stat.st_dev, table: Mutex::new(table) })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing that is done under the lock can panic half-way.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who a file is.
    pub(crate) fn id(&self, stat: &Stat) -> FileId {
        FileId { device: if stat.st_dev == self.device { 0 } else { stat.st_dev }, inode: stat.st_ino }
    }

    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<Node>> {
        let found = self.lock().by_number.get(&number).map(|held| Arc::clone(&held.node));
        found.ok_or_else(|| rustix::io::Errno::STALE.into())
    }

    /// Looks a name up; the kernel is told of what is found.
    pub(crate) fn lookup(&self, parent: &Node, name: &std::ffi::OsStr) -> io::Result<(Arc<Node>, Stat)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = rustix::fs::openat(parent.place(), name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&place)?;
        Ok((self.enter(place, &stat), stat))
    }

    fn enter(&self, place: OwnedFd, stat: &Stat) -> Arc<Node> {
        let id = self.id(stat);
        let mut table = self.lock();
        if let Some(held) = table.by_id.get(&id).copied().and_then(|number| table.by_number.get_mut(&number))
        {
            held.lookups += 1;
            return Arc::clone(&held.node);
        }
        let number = table.number_for(id);
        let node = Arc::new(Node { place, number, id, stamp: Mutex::default() });
        table.by_id.insert(id, number);
        table.by_number.insert(number, Held { node: Arc::clone(&node), lookups: 1 });
        node
    }

    /// The kernel knows a node once more: a link was made to it.
    pub(crate) fn hold(&self, node: &Node) {
        if let Some(held) = self.lock().by_number.get_mut(&node.number) {
            held.lookups += 1;
        }
    }

    /// The kernel has forgotten `lookups` of a node; the node, if these were all.
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> Option<Arc<Node>> {
        let mut table = self.lock();
        let held = table.by_number.get_mut(&number).filter(|_| number != ROOT)?;
        held.lookups = held.lookups.saturating_sub(lookups);
        if held.lookups > 0 {
            return None;
        }
        let held = table.by_number.remove(&number)?;
        table.by_id.remove(&held.node.id);
        Some(held.node)
    }
}

impl Table {
    /// The file's own number if it can be, so that it is the same at the next mount.
    fn number_for(&mut self, id: FileId) -> u64 {
        let usable = id.device == 0 && id.inode > ROOT && id.inode < ELSEWHERE;
        if usable && !self.by_number.contains_key(&id.inode) {
            return id.inode;
        }
        self.next_elsewhere += 1;
        self.next_elsewhere
    }
}

/// Changes the owner of what a name stands for.
pub(crate) fn give_to(parent: BorrowedFd<'_>, name: &std::ffi::OsStr, owner: Owner) -> io::Result<()> {
    let (user, group) = owner.ids();
    Ok(rustix::fs::chownat(parent, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Who a new file belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    /// None: as the directory's file system has decided.
    pub(crate) group: Option<u32>,
}

impl Owner {
    pub(crate) fn ids(self) -> (Option<rustix::fs::Uid>, Option<rustix::fs::Gid>) {
        (Some(rustix::fs::Uid::from_raw(self.user)), self.group.map(rustix::fs::Gid::from_raw))
    }
}
