//! Page-cache accesses of processes, from the kernel's tracepoints: thread, file, pages.
//!
//! Uses an instance of tracefs of its own, so that it neither disturbs nor is disturbed by other tracing:
//!
//! | event of group `filemap` | is recorded when |
//! |---|---|
//! | `mm_filemap_get_pages` | a read takes pages from the cache: from where it is to the end of the request |
//! | `mm_filemap_fault` | a page of a mapping is touched that is not in memory, or not mapped by its neighbours |
//! | `mm_filemap_map_pages` | the pages around one that is touched are mapped, because they are in memory |
//!
//! The events are limited to threads that are named, and to all that they start (`set_event_pid`, option
//! `event-fork`). An event on a page already in memory costs the reader 0.1 µs. The buffer is small and keeps the
//! newest events.
//!
//! It needs root, but no mounted tracefs: if there is none, a private one is mounted, which no namespace shows. The
//! instance belongs to a separate process, which removes it when this process has finished with it or was killed. If
//! the separate process is killed as well, tracing is off, and the next process that creates an instance has the old
//! one removed.

mod format;
mod owner;
mod ring;
mod tree;

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{OFlags, makedev};

use format::Format;
use owner::Owner;
use ring::Header;
use tree::{Tree, names, open_beside, read_beside};

pub use tree::Place;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read; the range ends where what was asked for ends.
    Read,
    /// Through a mapping.
    Mapping,
}

/// A touch of a file's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Time by the kernel's clock, in nanoseconds.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// The file system's device.
    pub device: u64,
    /// The file's number on it.
    pub inode: u64,
    /// Bytes, by whole pages.
    pub range: Range<u64>,
    /// The kind of the access.
    pub kind: Kind,
}

/// The outcome of a poll of the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of events.
    pub events: u64,
    /// Some were overwritten before they were seen, or could not be understood.
    pub lost: bool,
}

/// The events, and whether they tell of a mapping.
const EVENTS: [(&str, Kind); 3] = [
    ("mm_filemap_get_pages", Kind::Read),
    ("mm_filemap_fault", Kind::Mapping),
    ("mm_filemap_map_pages", Kind::Mapping),
];

/// Instances of ours are called so, by the number of the process, and by how many it had before.
const PREFIX: &str = "sakiyomi-";
static MADE: AtomicU32 = AtomicU32::new(0);

/// Ring buffer pages of a core that are read in one poll, so that a core that fills them as fast as they are read
/// does not hold up the caller.
const PAGES_PER_POLL_MAX: usize = 128;

/// Finds the tracefs through which page accesses of processes can be traced.
///
/// # Errors
/// The reason for which none is usable, as a clause.
pub fn check() -> Result<Place, String> {
    find().map(Tree::place)
}

/// Number of instances that this process has created, be they in use or being removed.
#[must_use]
pub fn own_instances() -> usize {
    let own = std::process::id();
    let all = Tree::open().map(|tree| tree.instances()).unwrap_or_default();
    all.iter().filter(|name| maker(name) == Some(own)).count()
}

/// The kernel's name for the namespace of process numbers that is there from the beginning.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

fn find() -> Result<Tree, String> {
    // Threads are named and told by the numbers that they have there.
    if fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name != Path::new(FIRST_NAMESPACE)) {
        return Err("tracing knows processes by other numbers than this container".to_owned());
    }
    let tree = Tree::open()?;
    let missing = EVENTS.iter().find(|(name, _)| !tree.has(Path::new("events/filemap").join(name)));
    match missing {
        Some((name, _)) => Err(format!("this kernel has no event {name}")),
        None => Ok(tree),
    }
}

/// An instance of tracefs. Creating it and naming threads can take some 60 ms each, during which this process may
/// end; so a separate process waits for the kernel. It also removes the instance when this is dropped.
#[derive(Debug)]
pub struct Instance {
    formats: Vec<(Format, Kind)>,
    header: Header,
    /// One per core.
    pipes: Vec<File>,
    enable: Vec<File>,
    page: Vec<u8>,
    owner: Owner,
}

impl Instance {
    /// Makes one, in which nothing is traced yet.
    ///
    /// # Errors
    /// Why it is not possible, as a clause.
    pub fn create() -> Result<Instance, String> {
        let tree = find()?;
        let told = |error| format!("an instance of tracefs cannot be made ({error})");
        let (name, left_over) = name_and_left_over(&tree);
        let instances = tree.directory("instances").map_err(told)?;
        let owner = Owner::start(instances.as_fd(), &name, &left_over).map_err(told)?;
        Instance::open(&tree, &name, owner)
            .map_err(|error| format!("an instance of tracefs cannot be used ({error})"))
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
        // Instances have the same layout as the top level, which alone describes it.
        let header = Header::parse(&tree.read("events/header_page")?).ok_or_else(invalid)?;
        let pipe = |core: &CString| {
            let path = format!("per_cpu/{}/trace_pipe_raw", core.to_string_lossy());
            open_beside(beside, path, OFlags::RDONLY | OFlags::NONBLOCK)
        };
        let cores = names(beside, Path::new("per_cpu"));
        let pipes = cores.iter().map(pipe).collect::<io::Result<Vec<_>>>()?;
        let page = vec![0; header.page];
        Ok(Instance { formats, header, pipes, enable, page, owner })
    }

    /// Limits the events to these threads, besides those that were named before, and to what they start from now on.
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

    /// Appends what was told since the last look, in the order of time. Does not wait.
    pub fn take(&mut self, touches: &mut Vec<Touch>) -> Taken {
        let mut taken = Taken::default();
        let from = touches.len();
        for pipe in &mut self.pipes {
            for _ in 0..PAGES_PER_POLL_MAX {
                let length = match pipe.read(&mut self.page) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => length,
                };
                let formats = &self.formats;
                taken.lost |= self.header.records(&self.page[..length], |time, record| {
                    taken.events += 1;
                    touches
                        .extend(formats.iter().find_map(|(format, kind)| format.touch(*kind, time, record)));
                });
            }
        }
        touches[from..].sort_by_key(|touch| touch.time);
        taken
    }
}

impl Drop for Instance {
    /// When the socket to its owner is closed after this, that removes it.
    fn drop(&mut self) {
        let _ = self.switch(false);
    }
}

/// An unused name for an instance, and the names of instances whose creators have ended. An instance in use, such as
/// from another container, cannot be removed.
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

/// ID of the process that created an instance; `None` if its name is not one of sakiyomi's.
fn maker(name: &CStr) -> Option<u32> {
    name.to_str().ok()?.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// A device as statistics of files name it, from the kernel's own number for it.
fn device_of(kernel: u32) -> u64 {
    /// The kernel's own split of a device number (`MINORBITS`, linux/kdev_t.h).
    const MINOR_BITS: u32 = 20;
    makedev(kernel >> MINOR_BITS, kernel & ((1 << MINOR_BITS) - 1))
}

#[cfg(test)]
mod tests;
