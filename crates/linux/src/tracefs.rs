//! What processes touch in the page cache, as the kernel's tracepoints tell: who, which file, which pages.
//!
//! An instance of tracefs of our own, so that nobody else's tracing is disturbed and none disturbs ours:
//!
//! | event of group `filemap` | is told when |
//! |---|---|
//! | `mm_filemap_get_pages` | a read takes pages from the cache: from where it is to the end of the request |
//! | `mm_filemap_fault` | a page of a mapping is touched that is not in memory, or not mapped by its neighbours |
//! | `mm_filemap_map_pages` | the pages around one that is touched are mapped, because they are in memory |
//!
//! The events are limited to threads that are named, and to all that they start (`set_event_pid`, option `event-fork`).
//! What is in memory already costs the reader 0.1 µs an event. The buffer is small and keeps the newest.
//!
//! It needs root. A process that is killed leaves its instance behind, with tracing off; the next one that makes an
//! instance removes it.

mod format;
mod removal;
mod ring;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, access, makedev};

use format::Format;
use ring::Header;

/// How a file was touched.
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
    /// By the kernel's clock, in nanoseconds.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// The file system's device.
    pub device: u64,
    /// The file's number on it.
    pub inode: u64,
    /// Bytes, by whole pages.
    pub range: Range<u64>,
    /// How.
    pub kind: Kind,
}

/// What a look into the buffers has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many events there were.
    pub events: u64,
    /// Some were overwritten before they were seen, or could not be understood.
    pub lost: bool,
}

/// Where tracefs is mounted.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The events, and whether they tell of a mapping.
const EVENTS: [(&str, Kind); 3] = [
    ("mm_filemap_get_pages", Kind::Read),
    ("mm_filemap_fault", Kind::Mapping),
    ("mm_filemap_map_pages", Kind::Mapping),
];

/// Instances of ours are called so, by the number of the process, and by how many it had before.
const PREFIX: &str = "sakiyomi-";
static MADE: AtomicU32 = AtomicU32::new(0);

/// For each core, in KiB: some thousands of events.
const BUFFER: &str = "256";

/// Buffers of one core that are taken in one look, so that one which fills as fast as it is read does not hold us.
const MOST_PAGES: usize = 128;

/// Says why positions cannot be had by tracing here, if they cannot.
///
/// # Errors
/// The reason, as a clause.
pub fn check() -> Result<(), String> {
    find().map(drop)
}

/// The kernel's name for the namespace of process numbers that is there from the beginning.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

fn find() -> Result<PathBuf, String> {
    // Threads are named and told by the numbers that they have there.
    if fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name != Path::new(FIRST_NAMESPACE)) {
        return Err("tracing knows processes by other numbers than this container".to_owned());
    }
    let root =
        MOUNTS.iter().map(Path::new).find(|root| access(root.join("instances"), Access::EXISTS).is_ok());
    let Some(root) = root else {
        // Who may not look into a directory does not see what is in it.
        let hidden = MOUNTS.iter().any(|root| fs::read_dir(root).is_err_and(|error| is_denied(&error)));
        let why = if hidden { "tracing needs root" } else { "tracefs is not mounted (/sys/kernel/tracing)" };
        return Err(why.to_owned());
    };
    if access(root.join("instances"), Access::WRITE_OK).is_err() {
        return Err("tracing needs root".to_owned());
    }
    let missing =
        EVENTS.iter().find(|(name, _)| fs::metadata(root.join("events/filemap").join(name)).is_err());
    match missing {
        Some((name, _)) => Err(format!("this kernel has no event {name}")),
        None => Ok(root.to_owned()),
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// An instance of tracefs. Making it and naming threads can take some 60 ms each; removing it takes as long, and goes on
/// in a process of its own when this is dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    formats: Vec<(Format, Kind)>,
    header: Header,
    /// Of each core.
    pipes: Vec<File>,
    enable: Vec<File>,
    /// When it is closed, which also happens if we are killed, tracing is off.
    _held: File,
    page: Vec<u8>,
}

impl Instance {
    /// Makes one, in which nothing is traced yet.
    ///
    /// # Errors
    /// Why it is not possible, as a clause.
    pub fn create() -> Result<Instance, String> {
        // One that is half made looks like one that was left over.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let root = find()?;
        let instances = root.join("instances");
        remove_left_over(&instances);
        let before = MADE.fetch_add(1, Ordering::Relaxed);
        let path = instances.join(format!("{PREFIX}{}-{before}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if is_denied(&error) => return Err("tracing needs root".to_owned()),
            Err(error) => return Err(format!("an instance of tracefs cannot be made ({error})")),
        }
        Instance::set_up(&path).map_err(|error| {
            let _ = fs::remove_dir(&path);
            format!("an instance of tracefs cannot be set up ({error})")
        })
    }

    fn set_up(path: &Path) -> io::Result<Instance> {
        put(path, "buffer_size_kb", BUFFER)?;
        put(path, "options/overwrite", "1")?;
        put(path, "options/event-fork", "1")?;
        put(path, "options/disable_on_free", "1")?;
        let held = OpenOptions::new().write(true).open(path.join("free_buffer"))?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let event = |name: &str| path.join("events/filemap").join(name);
        let formats = EVENTS.iter().map(|&(name, kind)| {
            let text = fs::read_to_string(event(name).join("format"))?;
            Ok((Format::parse(&text).ok_or_else(invalid)?, kind))
        });
        let formats = formats.collect::<io::Result<Vec<_>>>()?;
        let open = |(name, _): &(&str, Kind)| OpenOptions::new().write(true).open(event(name).join("enable"));
        let enable = EVENTS.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        // Instances have the same layout as the whole, which alone tells it.
        let layout = path.ancestors().nth(2).map(|root| root.join("events/header_page"));
        // It is told whole in one read, or not at all.
        let mut text = vec![0; 4096];
        let length = File::open(layout.ok_or_else(invalid)?)?.read(&mut text)?;
        let header = Header::parse(&String::from_utf8_lossy(&text[..length])).ok_or_else(invalid)?;
        let mut pipes = Vec::new();
        for core in fs::read_dir(path.join("per_cpu"))? {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_NONBLOCK);
            pipes.push(options.open(core?.path().join("trace_pipe_raw"))?);
        }
        let page = vec![0; header.page];
        Ok(Instance { path: path.to_owned(), formats, header, pipes, enable, _held: held, page })
    }

    /// Limits the events to these threads, besides those that were named before, and to what they start from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn follow(&self, threads: &[u32]) -> io::Result<()> {
        let numbers: Vec<String> = threads.iter().map(u32::to_string).collect();
        // Not cut: what stands there goes on.
        let mut file = OpenOptions::new().append(true).open(self.path.join("set_event_pid"))?;
        file.write_all(format!("{}\n", numbers.join(" ")).as_bytes())
    }

    /// Has events told, or not. Takes 0.1 ms.
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
            for _ in 0..MOST_PAGES {
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
    fn drop(&mut self) {
        // What is open is closed when this has returned, so that it can be removed then.
        if removal::begin(&self.path, &self.enable).is_ok() {
            return;
        }
        let _ = self.switch(false);
        self.pipes.clear();
        self.enable.clear();
        if let Ok(null) = File::open("/dev/null") {
            self._held = null;
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn put(path: &Path, name: &str, word: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path.join(name))?.write_all(word.as_bytes())
}

/// Removes the instances of processes that are gone. One that is in use, as from another container, cannot be removed.
fn remove_left_over(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        let Some(number) = number else { continue };
        if number == std::process::id() || fs::metadata(format!("/proc/{number}")).is_err() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A device as statistics of files name it, from the kernel's own number for it.
fn device_of(kernel: u32) -> u64 {
    const MINOR_BITS: u32 = 20;
    makedev(kernel >> MINOR_BITS, kernel & ((1 << MINOR_BITS) - 1))
}

#[cfg(test)]
mod tests;
