//! The system call in which a thread sleeps, with the file that it concerns.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::readlinkat;
use rustix::io::pread;

use super::{Process, ReadCall, reread};
use crate::system_call::Call;

/// Longest path of a look-up, in bytes.
const PATH_MAX_BYTES: usize = 4096;

/// The directory argument that stands for the working directory.
const WORKING_DIRECTORY: i32 = libc::AT_FDCWD;

/// A system call about files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// It reads an open file.
    Read(ReadCall),
    /// It opens a file for reading, executes it, or asks for its attributes; the path as the program gives it may be
    /// relative to this directory.
    Path {
        /// The directory; `None` if the path is absolute.
        directory: Option<PathBuf>,
        /// The path.
        path: PathBuf,
    },
    /// It lists the directory open under this descriptor.
    List(u32),
}

/// A reason why a thread waits for storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It makes written data durable, or closes a file.
    Sync,
    /// It opens a file, or asks for its attributes.
    Open,
    /// It lists a directory.
    List,
    /// It runs, and has touched a page of a mapping that is not in memory.
    PageFault,
    /// Another system call.
    Other,
}

impl IoKind {
    /// Returns its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IoKind::Read => "read",
            IoKind::Write => "write",
            IoKind::Sync => "sync",
            IoKind::Open => "open",
            IoKind::List => "list",
            IoKind::PageFault => "page-fault",
            IoKind::Other => "other",
        }
    }
}

/// The use of a file for which a thread sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoCall {
    /// The kind of use.
    pub kind: IoKind,
    /// The path of the file; `None` if it is not visible, as that of a page fault.
    pub path: Option<PathBuf>,
}

/// Returns the kind of a call whose first argument is a descriptor.
fn kind_of(call: i64) -> Option<IoKind> {
    Some(match call {
        libc::SYS_read
        | libc::SYS_pread64
        | libc::SYS_readv
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_readahead
        | libc::SYS_fadvise64 => IoKind::Read,
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_fallocate
        | libc::SYS_ftruncate => IoKind::Write,
        libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync_file_range
        | libc::SYS_syncfs
        | libc::SYS_close => IoKind::Sync,
        libc::SYS_getdents64 => IoKind::List,
        libc::SYS_fstat => IoKind::Open,
        _ => return None,
    })
}

/// The meaning of the arguments of a call.
enum Shape {
    List,
    /// Place of the directory argument, if any; of the path; and of the flags of an open, if it is one.
    Path {
        directory: Option<usize>,
        path: usize,
        open_flags: Option<usize>,
    },
}

impl Shape {
    fn of(call: i64) -> Option<Shape> {
        let at = |open_flags| Shape::Path { directory: Some(0), path: 1, open_flags };
        Some(match call {
            libc::SYS_getdents64 => Shape::List,
            libc::SYS_openat => at(Some(2)),
            libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlinkat => at(None),
            libc::SYS_execve => Shape::Path { directory: None, path: 0, open_flags: None },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => Shape::Path { directory: None, path: 0, open_flags: Some(1) },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => {
                Shape::Path { directory: None, path: 0, open_flags: None }
            }
            _ => return None,
        })
    }
}

impl Process {
    /// Returns the system call in which one of its threads sleeps; `None` if it is in none, as in a page fault, or if
    /// that is not visible.
    #[must_use]
    pub fn call(&self, thread: u32) -> Option<Call> {
        let file = self.at(&format!("task/{thread}/syscall")).ok()?;
        let mut buffer = [0; 256];
        let (call, arguments) = parse(reread(file.as_fd(), &mut buffer).ok()?)?;
        (call >= 0).then(|| Call::of(call, &arguments))
    }

    /// Returns the call about files in which one of its threads sleeps; `None` if there is none, if it opens a file
    /// for writing, or if that is not visible. If the program has overwritten or unmapped the path meanwhile, the path
    /// is wrong or the result is `None`.
    #[must_use]
    pub fn file_call(&self, thread: u32) -> Option<FileCall> {
        let file = self.at(&format!("task/{thread}/syscall")).ok()?;
        let mut buffer = [0; 256];
        let text = reread(file.as_fd(), &mut buffer).ok()?;
        if let Some(read) = ReadCall::of(text) {
            return Some(FileCall::Read(read));
        }
        let (call, arguments) = parse(text)?;
        let descriptor = || u32::try_from(arguments[0]).ok();
        Some(match Shape::of(call)? {
            Shape::List => FileCall::List(descriptor()?),
            Shape::Path { directory, path, open_flags } => {
                if open_flags.is_some_and(|index| writes(arguments[index])) {
                    return None;
                }
                let path = self.path_at(arguments[path]).ok()?;
                // A descriptor is an `int`: the upper half of the argument may be anything.
                let relative_to = directory.map_or(WORKING_DIRECTORY, |index| arguments[index] as i32);
                let directory =
                    if path.is_absolute() { None } else { Some(self.directory_of(relative_to).ok()?) };
                FileCall::Path { directory, path }
            }
        })
    }

    /// Returns the use of a file for which one of its threads sleeps; `None` if the thread runs, or if that is not visible.
    ///
    /// It is only meaningful for a thread that waits for I/O: other sleeps are calls, too.
    #[must_use]
    pub fn io_call(&self, thread: u32) -> Option<IoCall> {
        let file = self.at(&format!("task/{thread}/syscall")).ok()?;
        let mut buffer = [0; 256];
        let text = reread(file.as_fd(), &mut buffer).ok()?;
        if text.starts_with("-1 ") {
            return Some(IoCall { kind: IoKind::PageFault, path: None });
        }
        let (call, arguments) = parse(text)?;
        if let Some(kind) = kind_of(call) {
            let descriptor = u32::try_from(arguments[0]).ok()?;
            return Some(IoCall { kind, path: self.name_of(descriptor).ok() });
        }
        let Some(Shape::Path { directory, path, .. }) = Shape::of(call) else {
            return Some(IoCall { kind: IoKind::Other, path: None });
        };
        let path = self.path_at(arguments[path]).ok().and_then(|path| {
            // A descriptor is an `int`: the upper half of the argument may be anything.
            let relative_to = directory.map_or(WORKING_DIRECTORY, |index| arguments[index] as i32);
            if path.is_absolute() {
                Some(path)
            } else {
                Some(self.directory_of(relative_to).ok()?.join(path))
            }
        });
        Some(IoCall { kind: IoKind::Open, path })
    }

    /// Returns the path of a directory argument.
    fn directory_of(&self, argument: i32) -> io::Result<PathBuf> {
        match u32::try_from(argument) {
            Ok(number) => self.name_of(number),
            Err(_) => {
                let path = readlinkat(&self.directory, "cwd", Vec::new())?;
                Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
            }
        }
    }

    /// Returns the path that the program has at an address.
    fn path_at(&self, address: u64) -> io::Result<PathBuf> {
        let memory = self.at("mem")?;
        let mut buffer = vec![0; PATH_MAX_BYTES];
        // A read into an unmapped page can fail as a whole, so the first read ends at the page boundary.
        let page_bytes = rustix::param::page_size() as u64;
        let first =
            usize::try_from(page_bytes - address % page_bytes).unwrap_or(PATH_MAX_BYTES).min(PATH_MAX_BYTES);
        let mut length = pread(&memory, &mut buffer[..first], address)?;
        if !buffer[..length].contains(&0) && length == first && first < PATH_MAX_BYTES {
            length += pread(&memory, &mut buffer[first..], address + first as u64)?;
        }
        let end = buffer[..length].iter().position(|&byte| byte == 0);
        let end = end.filter(|&end| end > 0).ok_or(io::ErrorKind::InvalidData)?;
        buffer.truncate(end);
        Ok(PathBuf::from(OsString::from_vec(buffer)))
    }
}

/// Returns whether the flags of an open create the file or open it for writing.
fn writes(flags: u64) -> bool {
    let written = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    flags & u64::from(written.unsigned_abs()) != 0
}

/// Parses the number of the call and its arguments; `None` if the thread is in no call.
pub(super) fn parse(text: &str) -> Option<(i64, [u64; 6])> {
    let mut words = text.split_ascii_whitespace();
    let call = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((call, arguments))
}

impl FileCall {
    /// Returns the absolute path of a look-up.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            FileCall::Path { directory, path } => {
                Some(directory.as_deref().unwrap_or(Path::new("/")).join(path))
            }
            FileCall::Read(_) | FileCall::List(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn paths_are_read_from_the_memory_of_a_process_also_at_the_end_of_a_page() {
        let process = Process::open(std::process::id()).unwrap();
        let text = CString::new("a path/to a file").unwrap();
        match process.path_at(text.as_ptr() as u64) {
            Ok(path) => assert_eq!(path, Path::new("a path/to a file")),
            Err(error) => {
                return sakiyomi_testing::skipped("paths_are_read", format_args!("memory: {error}"));
            }
        }
        assert!(process.path_at(8).is_err());
        let long = CString::new(vec![b'x'; 3 * PATH_MAX_BYTES]).unwrap();
        assert!(process.path_at(long.as_ptr() as u64).is_err());
    }

    #[test]
    fn the_use_of_a_file_in_which_a_thread_sleeps_is_seen() {
        let (reader, writer) = std::io::pipe().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
        let reads = std::thread::spawn(move || std::io::Read::read(&mut &reader, &mut [0; 8]).unwrap());
        let process = Process::open(std::process::id()).unwrap();
        let expected = process.name_of(number.unsigned_abs()).unwrap();
        let sees = || {
            let calls = process.threads().unwrap().into_iter().filter_map(|thread| process.io_call(thread));
            calls.into_iter().any(|call| call == IoCall { kind: IoKind::Read, path: Some(expected.clone()) })
        };
        if std::fs::read("/proc/self/syscall").is_err() {
            return sakiyomi_testing::skipped("the_use_of_a_file", format_args!("the kernel hides calls"));
        }
        sakiyomi_testing::wait_until("the read is seen", sees);
        std::io::Write::write_all(&mut &writer, b"x").unwrap();
        assert_eq!(reads.join().unwrap(), 1);
    }

    #[test]
    fn a_line_without_a_call_is_none() {
        let line = format!("{} 0xffffff9c 0x7ffc 0x80000 0x0 0x0 0x0 0x7fff 0x7f3a", libc::SYS_openat);
        assert_eq!(parse(&line), Some((libc::SYS_openat, [0xffff_ff9c, 0x7ffc, 0x80000, 0, 0, 0])));
        assert!(["running", "-1 0x7fff 0x7f3a", "", "0 0x4"].into_iter().all(|line| parse(line).is_none()));
        assert!(!writes(0x80000) && writes(0x241) && writes(2));
    }
}
