//! Where a file lies until it is whole, and how it gets its name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};

use crate::{Access, Error};

/// A file to be, in the directory that it will appear in: without a name if the file system can do that, so that not
/// even `kill -9` leaves something, and else under a hidden one.
pub(super) struct Target {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    /// Its name for now; removed if it is still there at the end.
    pub(super) hidden: Option<PathBuf>,
}

impl Target {
    pub(super) fn create(path: &Path, access: Access) -> Result<Target, Error> {
        let path = final_path(path)?;
        let direct = if access == Access::Direct { OFlags::DIRECT } else { OFlags::empty() };
        let made = match unnamed(&path, direct) {
            Ok(Some(file)) => Ok((file, None)),
            Ok(None) => hidden(&path, direct).map(|(file, name)| (file, Some(name))),
            Err(error) => Err(error),
        };
        let (file, hidden) = made.map_err(|source| {
            if access == Access::Direct && source.raw_os_error() == Some(libc::EINVAL) {
                return Error::NoDirect { path: path.clone() };
            }
            Error::Open { path: path.clone(), source }
        })?;
        Ok(Target { file: Arc::new(file), path, hidden })
    }

    /// Gives the file its name, in place of what has it now; if `sync`, for good.
    pub(super) fn publish(mut self, sync: bool) -> Result<(), Error> {
        self.rename().map_err(|source| Error::System {
            what: format!("give {} its name, now that it is written", self.path.display()),
            source,
        })?;
        if !sync {
            return Ok(());
        }
        let directory = directory_of(&self.path);
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| Error::Sync { path: directory.to_owned(), source })
    }

    fn rename(&mut self) -> io::Result<()> {
        if self.hidden.is_none() {
            // A file without a name can get a new one, but not one that another has.
            let hidden = hidden_beside(&self.path)?;
            linkat(CWD, name_of_open(&self.file), CWD, &hidden, AtFlags::SYMLINK_FOLLOW)?;
            self.hidden = Some(hidden);
        }
        if let Some(hidden) = &self.hidden {
            fs::rename(hidden, &self.path)?;
        }
        self.hidden = None;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // Nobody is left to tell; what remains is a hidden file whose name says what it is.
            let _ = fs::remove_file(hidden);
        }
    }
}

/// A link is followed. What is not a regular file is refused: it cannot be replaced by one.
fn final_path(path: &Path) -> Result<PathBuf, Error> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::canonicalize(path).map_err(failed),
        Ok(found) if found.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(_) => Err(failed(io::Error::other("it is a device or a pipe; only regular files are written"))),
        // The program may change its directory before the file is finished.
        Err(_) => std::path::absolute(path).map_err(failed),
    }
}

/// None if the file system does not have files without names.
fn unnamed(path: &Path, flags: OFlags) -> io::Result<Option<File>> {
    // Without /proc it would be known too late that there is no way to a name.
    if !Path::new("/proc/self/fd").exists() {
        return Ok(None);
    }
    match open(directory_of(path), flags | OFlags::TMPFILE) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => Ok(None),
        other => other.map(Some),
    }
}

/// A new file beside the path, and its name.
pub(super) fn hidden(path: &Path, flags: OFlags) -> io::Result<(File, PathBuf)> {
    let name = hidden_beside(path)?;
    let opened = open(&name, flags | OFlags::CREATE | OFlags::EXCL);
    if opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
        // That O_DIRECT is not possible is found out when the file is there already.
        let _ = fs::remove_file(&name);
    }
    Ok((opened?, name))
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn name_of_open(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn hidden_beside(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(directory_of(path).join(format!(".{name}.{}.{number}.tmp", process::id())))
}
