//! Page-cache accesses of processes, from the kernel's tracepoints: thread, file, pages.
//!
//! Uses an instance of tracefs of its own, so that it neither disturbs nor is disturbed by other tracing:
//!
//! | event of group `filemap` | is recorded when |
//! |---|---|
//! | `mm_filemap_get_pages` | a read takes pages from the cache; the range is the rest of the request |
//! | `mm_filemap_fault` | a mapped page is touched that is not in memory, or was not mapped by fault-around |
//! | `mm_filemap_map_pages` | fault-around maps cached pages around a touched one |
//!
//! The events are limited to named threads, and to all threads and processes that they start (`set_event_pid`, option
//! `event-fork`). An event on a page already in memory costs the reader 0.1 µs. The buffer is small and keeps the
//! newest events.
//!
//! It needs root, but no mounted tracefs: if none is mounted, a private mount is used, which no namespace shows. The
//! instance belongs to a separate process, which removes it when this process has finished with it or was killed. If
//! the separate process is killed as well, tracing is off, and the next process that creates an instance has the old
//! one removed.

mod activity;
mod block;
mod buffers;
mod format;
mod owner;
mod ring;
mod tree;

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{OFlags, makedev};

use buffers::Buffers;
use format::Format;
use owner::Owner;
use tree::{Tree, open_beside, read_beside};

pub use activity::{Activity, ActivityKind, ActivityPoll, ActivityTrace, FileRange};
pub use block::{BlockActivity, BlockPoll, BlockRange, BlockStage, BlockTrace, check_block};
pub use tree::Place;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read; the range extends to the end of the request.
    Read,
    /// An access through a mapping.
    Mapping,
}

/// An access to pages of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Timestamp by the kernel's clock, in nanoseconds.
    pub time: u64,
    /// The thread ID.
    pub thread: u32,
    /// The file system's device.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Byte range of whole pages.
    pub range: Range<u64>,
    /// The kind of the access.
    pub kind: Kind,
}

/// The outcome of a poll of the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainOutcome {
    /// Number of events.
    pub events: u64,
    /// Whether events were overwritten before they were read, or could not be parsed.
    pub lost: bool,
}

/// The events, and the kind of access that each reports.
const EVENTS: [(&str, Kind); 3] = [
    ("mm_filemap_get_pages", Kind::Read),
    ("mm_filemap_fault", Kind::Mapping),
    ("mm_filemap_map_pages", Kind::Mapping),
];

/// The buffer in KiB per core, enough for some thousands of events, of which the newest are kept.
const TOUCH_SETTINGS: [(&CStr, &CStr); 2] = [(c"buffer_size_kb", c"256"), (c"options/overwrite", c"1")];

/// Prefix of the names of our instances, followed by the PID and the number of instances created before.
const PREFIX: &str = "sakiyomi-";
static MADE: AtomicU32 = AtomicU32::new(0);

/// Finds the tracefs through which page accesses of processes can be traced.
///
/// # Errors
/// The reason why none is usable, as a clause.
pub fn check() -> Result<Place, String> {
    find().map(Tree::place)
}

/// Returns the number of instances that this process has created and that are in use or being removed.
#[must_use]
pub fn own_instances() -> usize {
    let own = std::process::id();
    let all = Tree::open().map(|tree| tree.instances()).unwrap_or_default();
    all.iter().filter(|name| maker(name) == Some(own)).count()
}

/// The kernel's name of the initial PID namespace.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

fn find() -> Result<Tree, String> {
    find_with(&EVENTS.map(|(name, _)| format!("filemap/{name}")))
}

/// Finds a tracefs that has these events, named with their groups.
fn find_with(events: &[String]) -> Result<Tree, String> {
    // Events identify threads by their IDs in the initial namespace.
    if fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name != Path::new(FIRST_NAMESPACE)) {
        return Err("tracing uses other process IDs than this container".to_owned());
    }
    let tree = Tree::open()?;
    let missing = events.iter().find(|name| !tree.has(Path::new("events").join(name)));
    match missing {
        Some(name) => Err(format!("this kernel has no event {name}")),
        None => Ok(tree),
    }
}

/// An instance of tracefs. Creating it and naming threads can take some 60 ms each in an uninterruptible wait; so a
/// separate process waits for the kernel. It also removes the instance when this is dropped.
#[derive(Debug)]
pub struct Instance {
    formats: Vec<(Format, Kind)>,
    buffers: Buffers,
    enable: Vec<File>,
    owner: Owner,
}

impl Instance {
    /// Creates an instance in which nothing is traced yet.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn create() -> Result<Instance, String> {
        let tree = find()?;
        let (owner, name) = start_owner(&tree, &TOUCH_SETTINGS)?;
        Instance::open(&tree, &name, owner)
            .map_err(|error| format!("cannot use an instance of tracefs ({error})"))
    }

    fn open(tree: &Tree, name: &CStr, owner: Owner) -> io::Result<Instance> {
        let instance: OwnedFd = tree.directory(Path::new("instances").join(&*name.to_string_lossy()))?;
        let beside = instance.as_fd();
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let event = |name: &str, file: &str| format!("events/filemap/{name}/{file}");
        let formats = EVENTS.iter().map(|&(name, kind)| {
            let text = read_beside(beside, event(name, "format"))?;
            Ok((Format::parse(&text).ok_or_else(invalid)?, kind))
        });
        let formats = formats.collect::<io::Result<Vec<_>>>()?;
        let open = |(name, _): &(&str, Kind)| open_beside(beside, event(name, "enable"), OFlags::WRONLY);
        let enable = EVENTS.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let buffers = Buffers::open(tree, beside)?;
        Ok(Instance { formats, buffers, enable, owner })
    }

    /// Adds threads, and those that they start from now on, to the traced ones.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn follow(&mut self, threads: &[u32]) -> io::Result<()> {
        self.owner.name_threads(threads)
    }

    /// Turns the recording of events on or off. Takes 0.1 ms.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn switch(&mut self, on: bool) -> io::Result<()> {
        let word: &[u8] = if on { b"1" } else { b"0" };
        self.enable.iter_mut().try_for_each(|file| file.write_all(word))
    }

    /// Appends the accesses recorded since the last poll, in order of time. Does not wait.
    pub fn take(&mut self, touches: &mut Vec<Touch>) -> DrainOutcome {
        let mut taken = DrainOutcome::default();
        let from = touches.len();
        let formats = &self.formats;
        let drained = self.buffers.drain(|time, record| {
            taken.events += 1;
            touches.extend(formats.iter().find_map(|(format, kind)| format.touch(*kind, time, record)));
        });
        taken.lost = drained.lost.is_some();
        touches[from..].sort_by_key(|touch| touch.time);
        taken
    }
}

impl Drop for Instance {
    /// Stops tracing. The owner removes the instance when the socket to it is closed after this.
    fn drop(&mut self) {
        let _ = self.switch(false);
    }
}

/// Starts the owner of a new instance with these settings, which removes instances that were left over; returns it with
/// the name of the instance.
fn start_owner(tree: &Tree, settings: &[(&CStr, &CStr)]) -> Result<(Owner, CString), String> {
    let failed = |error| format!("cannot create an instance of tracefs ({error})");
    let (name, left_over) = name_and_left_over(tree);
    let instances = tree.directory("instances").map_err(failed)?;
    let owner = Owner::start(instances.as_fd(), &name, &left_over, settings).map_err(failed)?;
    Ok((owner, name))
}

/// Returns an unused name for an instance, and the names of instances whose creators have ended. An instance in use,
/// such as from another container, cannot be removed.
fn name_and_left_over(tree: &Tree) -> (CString, Vec<CString>) {
    let mut all = tree.instances();
    let name = loop {
        let before = MADE.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("{PREFIX}{}-{before}", std::process::id()));
        let name = name.expect("it has no zero byte");
        if !all.contains(&name) {
            break name;
        }
    };
    let is_gone = |maker: u32| fs::metadata(format!("/proc/{maker}")).is_err();
    all.retain(|name| maker(name).is_some_and(is_gone));
    (name, all)
}

/// Returns the PID of the creator of an instance; `None` if its name is not one of ours.
fn maker(name: &CStr) -> Option<u32> {
    name.to_str().ok()?.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Converts the kernel's internal device number to that of `stat`.
fn device_of(kernel: u32) -> u64 {
    /// Bits of the minor number in the kernel's internal device number (`MINORBITS`, linux/kdev_t.h).
    const MINOR_BITS: u32 = 20;
    makedev(kernel >> MINOR_BITS, kernel & ((1 << MINOR_BITS) - 1))
}

#[cfg(test)]
mod tests;
