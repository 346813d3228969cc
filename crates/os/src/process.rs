//! Processes, from `/proc`: children, open files and their offsets, times of threads, memory.
//!
//! A process is identified by a descriptor of its directory, so that it is never confused with a later process of the
//! same PID: once it has ended, everything here fails with `ESRCH` or `ENOENT`. Files that are read often stay open
//! and are read again from their start, which takes 1 to 2 µs instead of 10.
//!
//! | subject | where |
//! |---|---|
//! | a process: children, open files, command line, directory | here |
//! | an open file of a process: offset, flags, identity | [`Descriptor`] |
//! | whether two descriptors are the same open file | [`Process::shares`] |
//! | the call about files that a thread sleeps in | [`FileCall`], [`ReadCall`] |
//! | files that it has mapped, and the pages of them that it has touched | [`Mapped`], [`PageMap`] |
//! | parent, user, and end of a process | [`Status`], [`Process::end`] |
//! | a thread: time on a core, time waiting for one, and the reason of its sleep | [`Thread`] |
//! | which processes are new, and which wait for I/O | [`newest`], [`Process::waits_for_io`] |
//! | how much memory may be filled | [`memory`] |
//! | running a command, with signals and status passed through | [`command`] |
//!
//! Only its own user may inspect a process, and a security module may forbid it; this fails with `EACCES` or `EPERM`.

pub mod command;
pub mod memory;

mod ancestry;
mod descriptor;
mod directory;
mod exits;
mod hangup;
mod mappings;
mod pagemap;
mod shared;
mod sleeping;
mod thread;
mod waiting;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::str;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat};
use rustix::io::pread;

pub use rustix::fs::CWD;

pub use ancestry::{Status, all, is_of_our_namespace};
pub use descriptor::{Descriptor, Identity, Kind, Open, identity, identity_at};
pub use directory::{Entry, entries, open_beside, open_directory, open_regular};
pub use exits::ExitWatcher;
pub use hangup::kept_ignored as hangup_kept_ignored;
pub use mappings::{Mapped, process_of};
pub use pagemap::PageMap;
pub use sleeping::{FileCall, IoCall, IoKind};
pub use thread::{Sleeps, Thread, Times};
pub use waiting::newest;

/// Bit of `SIGKILL` in a signal set.
const SIGKILL_BIT: u64 = 1 << 8;

/// Returns whether a process has been killed and has not ended: it waits in the kernel, for example for a file system that
/// does not answer.
#[must_use]
pub fn is_killed(number: u32) -> bool {
    let is_pending = |path: PathBuf| {
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let pending = ["SigPnd:\t", "ShdPnd:\t"]
            .into_iter()
            .flat_map(|name| status.lines().filter_map(move |line| line.strip_prefix(name)));
        pending.filter_map(|set| u64::from_str_radix(set, 16).ok()).any(|set| set & SIGKILL_BIT != 0)
    };
    let process = PathBuf::from(format!("/proc/{number}"));
    // Any fatal signal becomes a SIGKILL of each thread, which its first thread may have taken already. For the process
    // alone it is pending once its last thread closes the files that it had open.
    let threads = std::fs::read_dir(process.join("task"));
    is_pending(process.join("status"))
        || threads
            .is_ok_and(|threads| threads.flatten().any(|thread| is_pending(thread.path().join("status"))))
}

/// A process, by its directory in `/proc`.
#[derive(Debug)]
pub struct Process {
    number: u32,
    directory: OwnedFd,
    /// `io`, kept open; `None` until first use.
    io: Option<OwnedFd>,
    /// `io` of its first thread, likewise.
    thread_io: Option<OwnedFd>,
    /// `stat`, likewise.
    stat: Option<OwnedFd>,
}

impl Process {
    /// Opens the present process with this PID.
    ///
    /// # Errors
    /// If it does not exist, or if `/proc` belongs to another PID namespace.
    pub fn open(number: u32) -> io::Result<Process> {
        if !numbers_are_ours() {
            return Err(io::Error::other("/proc shows the processes of another namespace"));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, format!("/proc/{number}"), flags, Mode::empty())?;
        Ok(Process { number, directory, io: None, thread_io: None, stat: None })
    }

    /// Returns its PID.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether it exists and has not ended. A zombie has ended.
    #[must_use]
    pub fn is_alive(&mut self) -> bool {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        let stat = self.stat(&mut buffer);
        stat.is_ok_and(|stat| !matches!(stat.after_name().next(), None | Some("Z" | "X")))
    }

    /// Returns whether it is stopped, for example by Ctrl-Z.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn is_stopped(&mut self) -> io::Result<bool> {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        Ok(self.stat(&mut buffer)?.after_name().next() == Some("T"))
    }

    /// Appends the PIDs of the children of these threads of it that have not been waited for.
    pub fn children(&self, threads: &[u32], children: &mut Vec<u32>) {
        let mut text = String::new();
        for thread in threads {
            let Ok(file) = self.at(&format!("task/{thread}/children")) else { continue };
            text.clear();
            // A thread that ends in the meantime has no children.
            if File::from(file).read_to_string(&mut text).is_ok() {
                children.extend(text.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
        }
    }

    /// Returns the IDs of its threads.
    ///
    /// # Errors
    /// If it has ended.
    pub fn threads(&self) -> io::Result<Vec<u32>> {
        self.numbers_in("task")
    }

    /// Returns the numbers of its open descriptors.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn open_files(&self) -> io::Result<Vec<u32>> {
        self.numbers_in("fd")
    }

    /// Returns the identity of an open file, without a request to the file system.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn identity(&self, file: u32) -> io::Result<Identity> {
        identity_at(self.directory.as_fd(), Path::new(&format!("fd/{file}")))
    }

    /// Opens one of its descriptors for repeated reads of its state.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn descriptor(&self, file: u32) -> io::Result<Descriptor> {
        Ok(Descriptor::new(self.at(&format!("fdinfo/{file}"))?))
    }

    /// Opens the same file a second time, for reading only; the file may have been deleted.
    ///
    /// # Errors
    /// If the descriptor is closed, or the file is not readable for us.
    pub fn reopen(&self, file: u32) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let name = format!("fd/{file}");
        // Reading ahead must not change the access time. Only the file's owner may request `O_NOATIME`.
        let quiet = openat(&self.directory, &*name, flags | OFlags::NOATIME, Mode::empty());
        Ok(File::from(quiet.or_else(|_| openat(&self.directory, &*name, flags, Mode::empty()))?))
    }

    /// Opens one of its open directories again, as the base of relative paths; makes no request to the file system.
    ///
    /// # Errors
    /// If the descriptor is closed, or not a directory.
    pub fn reopen_directory(&self, file: u32) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, format!("fd/{file}"), flags, Mode::empty())?)
    }

    /// Opens its working directory.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn working_directory(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, "cwd", flags, Mode::empty())?)
    }

    /// Returns the path of its working directory, as it sees it.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn working_directory_path(&self) -> io::Result<PathBuf> {
        self.link("cwd")
    }

    /// Returns the identity of its program file, without a request to the file system.
    ///
    /// # Errors
    /// If it has ended, belongs to another user, or is a thread of the kernel.
    pub fn program_identity(&self) -> io::Result<Identity> {
        identity_at(self.directory.as_fd(), Path::new("exe"))
    }

    fn link(&self, name: &str) -> io::Result<PathBuf> {
        let path = readlinkat(&self.directory, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
    }

    /// Returns its command line.
    ///
    /// # Errors
    /// If it has ended.
    pub fn command_line(&self) -> io::Result<Vec<OsString>> {
        let mut bytes = Vec::new();
        File::from(self.at("cmdline")?).read_to_end(&mut bytes)?;
        let ended = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        Ok(ended.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect())
    }

    /// Returns the path of an open file, for display; ` (deleted)` is appended if it has been deleted.
    ///
    /// # Errors
    /// If the descriptor is closed.
    pub fn name_of(&self, file: u32) -> io::Result<PathBuf> {
        self.link(&format!("fd/{file}"))
    }

    /// Returns the bytes that it has read so far from files, pipes and sockets (`rchar`), including children that it
    /// has waited for.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn bytes_read(&mut self) -> io::Result<u64> {
        bytes_read(keep(&mut self.io, &self.directory, || "io".to_owned())?)
    }

    /// Returns the bytes that it has caused storage to read and to write so far; pages that were written are counted when
    /// they are changed in memory.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn storage_bytes(&mut self) -> io::Result<(u64, u64)> {
        let mut buffer = [0; 512];
        let text = reread(keep(&mut self.io, &self.directory, || "io".to_owned())?, &mut buffer)?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse().ok()).ok_or(io::ErrorKind::InvalidData)
        };
        Ok((field("read_bytes:")?, field("write_bytes:")?))
    }

    /// Returns the name of one of its threads.
    ///
    /// # Errors
    /// If it has ended.
    pub fn thread_name(&self, thread: u32) -> io::Result<String> {
        let mut buffer = [0; 64];
        let file = self.at(&format!("task/{thread}/comm"))?;
        Ok(reread(file.as_fd(), &mut buffer)?.trim_end().to_owned())
    }

    /// Like [`Process::bytes_read`], of its first thread alone, without children.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn bytes_read_by_first_thread(&mut self) -> io::Result<u64> {
        let name = || format!("task/{}/io", self.number);
        bytes_read(keep(&mut self.thread_io, &self.directory, name)?)
    }

    /// Returns a number that changes at each exec: the start address of the stack. 0 where it is hidden.
    ///
    /// # Errors
    /// If it has ended.
    pub fn incarnation(&mut self) -> io::Result<u64> {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        let stat = self.stat(&mut buffer)?;
        Ok(stat.after_name().nth(STACK_START_FIELD).and_then(|field| field.parse().ok()).unwrap_or(0))
    }

    /// Returns the number of its major page faults so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn major_faults(&mut self) -> io::Result<u64> {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        let stat = self.stat(&mut buffer)?;
        Ok(stat.after_name().nth(MAJOR_FAULTS_FIELD).and_then(|field| field.parse().ok()).unwrap_or(0))
    }

    /// Returns the `read` or `pread` that one of its threads sleeps in; `None` if it is in no such call, or if that is not
    /// visible.
    #[must_use]
    pub fn read_call(&self, thread: u32) -> Option<ReadCall> {
        let file = self.at(&format!("task/{thread}/syscall")).ok()?;
        let mut buffer = [0; 256];
        ReadCall::of(reread(file.as_fd(), &mut buffer).ok()?)
    }

    /// Returns the number of its major and minor page faults so far.
    ///
    /// # Errors
    /// If it has ended.
    pub fn all_faults(&mut self) -> io::Result<u64> {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        let stat = self.stat(&mut buffer)?;
        let fields = stat.after_name().enumerate();
        let faults = fields.filter(|(index, _)| [MINOR_FAULTS_FIELD, MAJOR_FAULTS_FIELD].contains(index));
        Ok(faults.map(|(_, field)| field.parse().unwrap_or(0)).sum())
    }

    /// Returns the resident bytes of its file mappings.
    ///
    /// # Errors
    /// If it has ended.
    pub fn mapped_file_bytes(&self) -> io::Result<u64> {
        self.memory_field(2)
    }

    /// Returns the bytes of all its mappings, resident or not.
    ///
    /// # Errors
    /// If it has ended.
    pub fn address_space_bytes(&self) -> io::Result<u64> {
        self.memory_field(0)
    }

    /// Returns a field of `statm` in bytes.
    fn memory_field(&self, index: usize) -> io::Result<u64> {
        let mut buffer = [0; 128];
        let file = self.at("statm")?;
        let pages = reread(file.as_fd(), &mut buffer)?.split_ascii_whitespace().nth(index);
        let pages: u64 = pages.and_then(|field| field.parse().ok()).unwrap_or(0);
        Ok(pages * rustix::param::page_size() as u64)
    }

    /// Opens one of its threads.
    ///
    /// # Errors
    /// If it has ended.
    pub fn thread(&self, number: u32) -> io::Result<Thread> {
        Thread::open(self.directory.as_fd(), number)
    }

    fn stat<'a>(&mut self, buffer: &'a mut [u8; STAT_LINE_MAX_BYTES]) -> io::Result<Stat<'a>> {
        Ok(Stat(reread(keep(&mut self.stat, &self.directory, || "stat".to_owned())?, buffer)?))
    }

    fn at(&self, name: &str) -> io::Result<OwnedFd> {
        open_in(&self.directory, name)
    }

    fn numbers_in(&self, name: &str) -> io::Result<Vec<u32>> {
        numbers_in(&self.directory, name)
    }
}

/// Returns whether `/proc` shows our own PID namespace: in a new namespace it does not until it is mounted again. True
/// without `/proc`, where no process can be found anyway.
fn numbers_are_ours() -> bool {
    /// Neither the PID namespace nor `/proc` changes while a process runs, but for its forked children.
    static OURS: OnceLock<(u32, bool)> = OnceLock::new();
    let examine = || {
        let number = std::process::id();
        let shown = readlinkat(CWD, "/proc/self", Vec::new());
        (number, shown.map_or(true, |shown| shown.to_str() == Ok(&*number.to_string())))
    };
    let (number, are_ours) = *OURS.get_or_init(examine);
    if number == std::process::id() { are_ours } else { examine().1 }
}

/// A system call that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCall {
    /// The descriptor.
    pub file: u32,
    /// Bytes requested.
    pub bytes: u64,
    /// The offset in bytes; `None` for a read at the file offset.
    pub offset: Option<u64>,
}

impl ReadCall {
    /// Returns the read that a line of `syscall` describes.
    fn of(text: &str) -> Option<ReadCall> {
        let (call, arguments) = sleeping::parse(text)?;
        let offset = match call {
            libc::SYS_read => None,
            libc::SYS_pread64 => Some(arguments[3]),
            _ => return None,
        };
        Some(ReadCall { file: u32::try_from(arguments[0]).ok()?, bytes: arguments[2], offset })
    }
}

/// Returns the names in a directory that are numbers.
fn numbers_in(directory: &OwnedFd, name: &str) -> io::Result<Vec<u32>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(directory, name, flags, Mode::empty())?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        numbers.extend(entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// Longest line of `/proc/PID/stat`.
const STAT_LINE_MAX_BYTES: usize = 1024;

/// Index of the minor faults among the fields of `stat` after the name.
const MINOR_FAULTS_FIELD: usize = 7;
/// Index of the major faults among the same fields.
const MAJOR_FAULTS_FIELD: usize = 9;
/// Index of the stack's start address among the same fields.
const STACK_START_FIELD: usize = 25;

struct Stat<'a>(&'a str);

impl<'a> Stat<'a> {
    /// Splits the line after the name, which may contain spaces and parentheses: it ends at the last one.
    fn after_name(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace()
    }
}

fn open_in(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a file of a process at the first use, and keeps it open.
fn keep<'a>(
    kept: &'a mut Option<OwnedFd>,
    directory: &OwnedFd,
    name: impl FnOnce() -> String,
) -> io::Result<BorrowedFd<'a>> {
    let file = match kept.take() {
        Some(file) => file,
        None => open_in(directory, &name())?,
    };
    let file: &OwnedFd = kept.insert(file);
    Ok(file.as_fd())
}

/// Returns `rchar` from `io` of a process or of a thread.
fn bytes_read(io: BorrowedFd<'_>) -> io::Result<u64> {
    let mut buffer = [0; 64];
    let text = reread(io, &mut buffer)?;
    let read = text.strip_prefix("rchar: ").and_then(|rest| rest.split('\n').next()?.parse().ok());
    read.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Reads a file of `/proc` from its start, as much as fits into the buffer.
fn reread<'a>(file: BorrowedFd<'_>, buffer: &'a mut [u8]) -> io::Result<&'a str> {
    let length = pread(file, &mut *buffer, 0)?;
    str::from_utf8(&buffer[..length]).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests;
