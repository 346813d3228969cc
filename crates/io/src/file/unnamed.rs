//! Unnamed files in a chosen directory: nothing is left of them however the process ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};

use super::{Access, flags_of};

/// Opens an unnamed file for reading and writing; `None` if the file system does not support `O_TMPFILE`.
pub(crate) fn open_unnamed(directory: &Path, flags: OFlags) -> io::Result<Option<File>> {
    match open(directory, flags | OFlags::TMPFILE) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => Ok(None),
        other => other.map(Some),
    }
}

/// Creates an unnamed file for reading and writing. If the file system does not support them, the file gets a hidden
/// name that is removed at once.
///
/// # Errors
/// If no file can be created in the directory, or not for direct I/O.
pub fn create_unnamed(directory: &Path, access: Access) -> io::Result<File> {
    if let Some(file) = open_unnamed(directory, flags_of(access))? {
        return Ok(file);
    }
    let (file, name) = create_hidden(&directory.join("unnamed"), flags_of(access))?;
    fs::remove_file(name)?;
    Ok(file)
}

/// Returns whether an unnamed file can be linked to a name.
pub(crate) fn can_link(file: &File) -> bool {
    fs::metadata(entry_of(file)).is_ok()
}

/// Links an unnamed file to a name that does not exist yet.
pub(crate) fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(CWD, entry_of(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Returns the path in `/proc` of an open file, which can be linked without privileges.
fn entry_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Creates a file under a hidden name in the directory of `path`.
pub(crate) fn create_hidden(path: &Path, flags: OFlags) -> io::Result<(File, PathBuf)> {
    let name = hidden_name(path)?;
    let opened = open(&name, flags | OFlags::CREATE | OFlags::EXCL);
    if opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
        // The kernel refuses direct I/O only after it has created the file.
        let _ = fs::remove_file(&name);
    }
    Ok((opened?, name))
}

/// Characters of a file's name in its hidden name. With four bytes each, and the numbers, they are fewer than the 255
/// bytes that a name may have.
const HIDDEN_NAME_CHARS: usize = 50;

/// Returns a name in the directory of `path` that no other file of this process has.
pub(crate) fn hidden_name(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    // The name itself may be as long as the file system allows.
    let name: String = name.chars().take(HIDDEN_NAME_CHARS).collect();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(directory_of(path).join(format!(".{name}.{}.{number}.tmp", process::id())))
}

pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path)
}
