//! Processes as `/proc` shows them: children, open files and positions in them, times of threads, memory.
//!
//! A process is identified by a descriptor of its directory, so it is never mistaken for another that has its number
//! later: once it has ended, everything here fails with `ESRCH` or `ENOENT`. Files that are read often stay open and
//! are read again from their start, which takes 1 to 2 µs instead of 10.
//!
//! | what | where |
//! |---|---|
//! | a process: children, open files, command line, directory | here |
//! | an open file of a process: position, flags, identity | [`Descriptor`] |
//! | whether two open files are one | [`Process::shares`] |
//! | the `read` that a thread sleeps in | [`ReadCall`] |
//! | files that it has mapped | [`Mapped`] |
//! | whose it is, and when it ends | [`Status`], [`Process::end`] |
//! | a thread: time on a core, time waiting for one, and what it sleeps in | [`Thread`] |
//! | how much memory may be filled | [`memory`] |
//! | running a command, with signals and status passed through | [`command`] |
//!
//! Only its own user may inspect a process, and a security module may forbid it; what is not allowed fails with
//! `EACCES` or `EPERM`.

pub mod command;
pub mod memory;

mod descriptor;
mod directory;
mod exits;
mod kin;
mod mappings;
mod shared;
mod thread;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::str;

use rustix::fs::{Mode, OFlags, RawDir, openat, readlinkat};
use rustix::io::pread;

pub use rustix::fs::CWD;

pub use descriptor::{Descriptor, Identity, Kind, Open, identity, identity_at};
pub use directory::{Entry, entries, open_beside, open_directory};
pub use exits::ExitWatcher;
pub use kin::{Status, all, is_of_our_namespace};
pub use mappings::{Mapped, process_of};
pub use thread::{Sleeps, Thread, Times};

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
    /// The process with this number now.
    ///
    /// # Errors
    /// If there is none, or if `/proc` has other numbers than we.
    pub fn open(number: u32) -> io::Result<Process> {
        if !numbers_are_ours() {
            return Err(io::Error::other("/proc shows the processes of another namespace"));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, format!("/proc/{number}"), flags, Mode::empty())?;
        Ok(Process { number, directory, io: None, thread_io: None, stat: None })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it exists and has not ended. A zombie, which exists until its parent takes its status, has ended.
    #[must_use]
    pub fn is_alive(&mut self) -> bool {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        let stat = self.stat(&mut buffer);
        stat.is_ok_and(|stat| !matches!(stat.after_name().next(), None | Some("Z" | "X")))
    }

    /// Whether it is stopped, as by Ctrl-Z.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn is_stopped(&mut self) -> io::Result<bool> {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        Ok(self.stat(&mut buffer)?.after_name().next() == Some("T"))
    }

    /// Appends the processes that these threads of it have started and that have not been waited for.
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

    /// The numbers of its threads.
    ///
    /// # Errors
    /// If it has ended.
    pub fn threads(&self) -> io::Result<Vec<u32>> {
        self.numbers_in("task")
    }

    /// The numbers of its open files.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn open_files(&self) -> io::Result<Vec<u32>> {
        self.numbers_in("fd")
    }

    /// The identity of one of its open files, without a request to the file system.
    ///
    /// # Errors
    /// If it is not open any more.
    pub fn identity(&self, file: u32) -> io::Result<Identity> {
        identity_at(self.directory.as_fd(), Path::new(&format!("fd/{file}")))
    }

    /// One of its open files, to read its position repeatedly.
    ///
    /// # Errors
    /// If it is not open any more.
    pub fn descriptor(&self, file: u32) -> io::Result<Descriptor> {
        Ok(Descriptor::new(self.at(&format!("fdinfo/{file}"))?))
    }

    /// Opens the same file a second time, for reading only; it need not have a name any more.
    ///
    /// # Errors
    /// If it is not open any more, or we may not read it.
    pub fn reopen(&self, file: u32) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let name = format!("fd/{file}");
        // Reading ahead must not change the access time, which only the file's owner may ask for.
        let quiet = openat(&self.directory, &*name, flags | OFlags::NOATIME, Mode::empty());
        Ok(File::from(quiet.or_else(|_| openat(&self.directory, &*name, flags, Mode::empty()))?))
    }

    /// Opens one of its open directories again, as the start of relative paths; makes no request to the file system.
    ///
    /// # Errors
    /// If it is not open any more, or is not a directory.
    pub fn reopen_directory(&self, file: u32) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, format!("fd/{file}"), flags, Mode::empty())?)
    }

    /// The directory that its relative paths begin in.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn working_directory(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, "cwd", flags, Mode::empty())?)
    }

    /// The words it was called with.
    ///
    /// # Errors
    /// If it has ended.
    pub fn command_line(&self) -> io::Result<Vec<OsString>> {
        let mut bytes = Vec::new();
        File::from(self.at("cmdline")?).read_to_end(&mut bytes)?;
        let ended = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        Ok(ended.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect())
    }

    /// The path of an open file, for display; ` (deleted)` is appended if it has no name any more.
    ///
    /// # Errors
    /// If it is not open any more.
    pub fn name_of(&self, file: u32) -> io::Result<PathBuf> {
        let name = readlinkat(&self.directory, format!("fd/{file}"), Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(name.into_bytes())))
    }

    /// Bytes that it has got from all its files, pipes and sockets so far; it, and those of its children that it has
    /// waited for.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn bytes_read(&mut self) -> io::Result<u64> {
        bytes_read(keep(&mut self.io, &self.directory, || "io".to_owned())?)
    }

    /// The same of its first thread alone, without any children.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn bytes_read_by_first_thread(&mut self) -> io::Result<u64> {
        let name = || format!("task/{}/io", self.number);
        bytes_read(keep(&mut self.thread_io, &self.directory, name)?)
    }

    /// A number that changes when it becomes another program: where the memory of that begins. 0 where it is hidden.
    ///
    /// # Errors
    /// If it has ended.
    pub fn incarnation(&mut self) -> io::Result<u64> {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        let stat = self.stat(&mut buffer)?;
        Ok(stat.after_name().nth(STACK_START_FIELD).and_then(|field| field.parse().ok()).unwrap_or(0))
    }

    /// Pages so far that it had to wait for because they were mapped and not in memory.
    ///
    /// # Errors
    /// If it has ended.
    pub fn major_faults(&mut self) -> io::Result<u64> {
        let mut buffer = [0; STAT_LINE_MAX_BYTES];
        let stat = self.stat(&mut buffer)?;
        Ok(stat.after_name().nth(MAJOR_FAULTS_FIELD).and_then(|field| field.parse().ok()).unwrap_or(0))
    }

    /// The `read` that one of its threads sleeps in; `None` if it is not in a `read`, or if that may not be seen.
    #[must_use]
    pub fn read_call(&self, thread: u32) -> Option<ReadCall> {
        let file = self.at(&format!("task/{thread}/syscall")).ok()?;
        let mut buffer = [0; 256];
        ReadCall::of(reread(file.as_fd(), &mut buffer).ok()?)
    }

    /// Pages of mappings so far that it had touched and that were not mapped yet, whether in memory or not.
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

    /// Resident bytes of its file mappings.
    ///
    /// # Errors
    /// If it has ended.
    pub fn mapped_file_bytes(&self) -> io::Result<u64> {
        let mut buffer = [0; 128];
        let file = self.at("statm")?;
        let pages = reread(file.as_fd(), &mut buffer)?.split_ascii_whitespace().nth(2);
        let pages: u64 = pages.and_then(|field| field.parse().ok()).unwrap_or(0);
        Ok(pages * rustix::param::page_size() as u64)
    }

    /// A thread of it.
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

/// Whether `/proc` has the numbers of our own PID namespace: it does not in a new namespace until it is mounted anew.
/// Without `/proc` the answer is yes, as no process can be found.
fn numbers_are_ours() -> bool {
    readlinkat(CWD, "/proc/self", Vec::new())
        .map_or(true, |number| number.to_str() == Ok(&*std::process::id().to_string()))
}

/// A call that reads at the file's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCall {
    /// The number of the open file.
    pub file: u32,
    /// Bytes requested.
    pub bytes: u64,
}

impl ReadCall {
    /// Parses the number of the system call, then its arguments; a word or -1 instead if the thread is in no call.
    fn of(text: &str) -> Option<ReadCall> {
        let mut words = text.split_ascii_whitespace();
        let call: i64 = words.next()?.parse().ok()?;
        let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let (file, _, bytes) = (next()?, next()?, next()?);
        (call == libc::SYS_read).then_some(ReadCall { file: u32::try_from(file).ok()?, bytes })
    }
}

/// The names in a directory that are numbers.
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
    /// A name may hold anything, also spaces and brackets: it ends at the last one.
    fn after_name(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace()
    }
}

fn open_in(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A file of a process that is kept open from when it is first asked for.
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

/// As `io` of a process or of a thread says it.
fn bytes_read(io: BorrowedFd<'_>) -> io::Result<u64> {
    let mut buffer = [0; 64];
    let text = reread(io, &mut buffer)?;
    let read = text.strip_prefix("rchar: ").and_then(|rest| rest.split('\n').next()?.parse().ok());
    read.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Reads a file of `/proc` from its start, as far as it fits.
fn reread<'a>(file: BorrowedFd<'_>, buffer: &'a mut [u8]) -> io::Result<&'a str> {
    let length = pread(file, &mut *buffer, 0)?;
    str::from_utf8(&buffer[..length]).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests;
