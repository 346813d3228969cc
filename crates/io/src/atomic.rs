//! A file that appears under its name only when it is complete.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::claim::{lock, unlock};
use crate::file::destination::destination_of;
use crate::file::unnamed::{can_link, create_hidden, directory_of, hidden_name, link, open_unnamed};
use crate::file::{Access, IoFile, flags_of};

/// A file that replaces its target at [`commit`](AtomicFile::commit): at any instant the target's name refers to
/// either the former file or the complete new content. Dropped without commit, it leaves nothing.
///
/// The content is written in the target's directory: to an unnamed file (`O_TMPFILE`) if the file system supports it,
/// so that even `kill -9` leaves nothing, otherwise to a file with a hidden name. A symbolic link is followed. A
/// target that is not a regular file (a pipe, `/dev/null`) is written in place, as it cannot be replaced. A replaced
/// file keeps its permissions, and its owner and group if the process may set them.
///
/// Write either through [`Write`], preferably within a [`BufWriter`](std::io::BufWriter) because writes are not
/// buffered, or through a [`WriteStream`](crate::WriteStream) on [`AtomicFile::file`], but not through both.
#[derive(Debug)]
pub struct AtomicFile {
    content: Content,
    target: PathBuf,
    /// Absolute path of the target, after all symbolic links.
    destination: PathBuf,
}

#[derive(Debug)]
enum Content {
    /// The hidden name is removed on drop if it still exists, unless the content is to be kept.
    Replacement { file: Arc<IoFile>, hidden: Option<PathBuf>, is_kept: bool },
    /// Not a regular file.
    InPlace(File),
}

impl AtomicFile {
    /// Begins a file that will appear as `target`, written through the page cache.
    ///
    /// # Errors
    /// Returns the errors of creating a file there: the directory is missing or not writable, …
    pub fn create(target: impl AsRef<Path>) -> io::Result<AtomicFile> {
        AtomicFile::create_for(target, Access::Buffered)
    }

    /// Begins a file that will appear as `target`. With direct I/O, write it through a stream.
    ///
    /// # Errors
    /// Returns the errors of [`AtomicFile::create`]; [`Error::NoDirect`] if the file system does not support direct I/O.
    pub fn create_for(target: impl AsRef<Path>, access: Access) -> io::Result<AtomicFile> {
        let target = target.as_ref().to_owned();
        let replaced = match fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let content = Content::InPlace(OpenOptions::new().write(true).open(&target)?);
                return Ok(AtomicFile { content, destination: target.clone(), target });
            }
            Ok(found) => Some(found),
            Err(_) => None,
        };
        let destination = destination_of(&target, replaced.is_some())?;
        let (file, hidden) = open_beside(&destination, access)?;
        let file = AtomicFile::with(file, hidden, target, destination, access)?;
        if let (Some(replaced), Content::Replacement { file, .. }) = (&replaced, &file.content) {
            keep_permissions(file.file(), replaced)?;
        }
        Ok(file)
    }

    /// Begins or continues a file that will appear as `target`: until the commit its content is under the name of
    /// [`partial_path`], where it stays if the file is dropped without commit or the process is killed. The file is
    /// locked against other processes that do the same. Writes begin at offset 0, whatever the file already contains.
    ///
    /// # Errors
    /// Returns the errors of [`AtomicFile::create`]; [`io::ErrorKind::ResourceBusy`] if another process holds the lock.
    pub fn resumable(target: impl AsRef<Path>) -> io::Result<AtomicFile> {
        let target = target.as_ref();
        let replaced = fs::metadata(target).ok();
        if replaced.as_ref().is_some_and(|found| !found.is_file()) {
            return AtomicFile::create(target);
        }
        let destination = destination_of(target, replaced.is_some())?;
        let partial = partial_of(&destination)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&partial)?;
        lock(&file).map_err(|_| {
            let reason = format!("another process writes {}", partial.display());
            io::Error::new(io::ErrorKind::ResourceBusy, reason)
        })?;
        // The name must be durable, so that a later process can continue with the content.
        File::open(directory_of(&partial))?.sync_all()?;
        if let Some(replaced) = &replaced {
            keep_permissions(&file, replaced)?;
        }
        let file = Arc::new(IoFile::from_file(file, target, Access::Buffered)?);
        let content = Content::Replacement { file, hidden: Some(partial), is_kept: true };
        Ok(AtomicFile { content, target: target.to_owned(), destination })
    }

    fn with(
        file: File,
        hidden: Option<PathBuf>,
        target: PathBuf,
        destination: PathBuf,
        access: Access,
    ) -> io::Result<AtomicFile> {
        let file = IoFile::from_file(file, &target, access).inspect_err(|_| {
            hidden.iter().for_each(|hidden| drop(fs::remove_file(hidden)));
        })?;
        let content = Content::Replacement { file: Arc::new(file), hidden, is_kept: false };
        Ok(AtomicFile { content, target, destination })
    }

    /// Returns the path under which the content will appear.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the file of the content, for a [`WriteStream`](crate::WriteStream), which must be finished before the
    /// commit.
    ///
    /// # Errors
    /// [`Error::NotAFile`] if the target is written in place and cannot be written at offsets.
    pub fn file(&self) -> Result<&Arc<IoFile>, Error> {
        match &self.content {
            Content::Replacement { file, .. } => Ok(file),
            Content::InPlace(_) => {
                Err(Error::NotAFile { path: self.target.clone(), what: "a device, a pipe or a socket" })
            }
        }
    }

    /// Makes the content durable and renames it to the target, replacing the former file.
    ///
    /// # Errors
    /// Returns the errors of `fsync` and `rename`. The target is then unchanged, unless only the sync of the directory failed.
    pub fn commit(mut self) -> io::Result<()> {
        let Content::Replacement { file, hidden, .. } = &mut self.content else { return self.flush() };
        file.file().sync_all()?;
        let name = match hidden {
            Some(name) => name,
            None => {
                // `link` gives an unnamed file a name, but cannot replace an existing file.
                let name = hidden_name(&self.destination)?;
                link(file.file(), &name)?;
                hidden.insert(name)
            }
        };
        fs::rename(name, &self.destination)?;
        *hidden = None;
        // The rename is durable only after the directory is synced.
        File::open(directory_of(&self.destination))?.sync_all()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.content {
            Content::Replacement { file, .. } => file.file().write(bytes),
            Content::InPlace(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        let Content::Replacement { file, hidden: Some(hidden), is_kept } = &self.content else { return };
        // `drop` cannot report an error; a leftover hidden file is recognizable by its name.
        if *is_kept {
            // A child process just forked by another thread shares the lock until its exec.
            unlock(file.file());
        } else {
            let _ = fs::remove_file(hidden);
        }
    }
}

/// Returns the path of the content of [`AtomicFile::resumable`] before the commit: the target's path with `.partial`
/// appended.
///
/// # Errors
/// If the target is a directory, or a directory on its path is missing.
pub fn partial_path(target: impl AsRef<Path>) -> io::Result<PathBuf> {
    let target = target.as_ref();
    partial_of(&destination_of(target, target.exists())?)
}

fn partial_of(destination: &Path) -> io::Result<PathBuf> {
    let mut name = destination.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".partial");
    Ok(destination.with_file_name(name))
}

/// Creates a file in the directory of a path; returns it with its hidden name, if it has one.
fn open_beside(path: &Path, access: Access) -> io::Result<(File, Option<PathBuf>)> {
    let opened = open_in(path, access);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) if access == Access::Direct => Error::NoDirect { path: path.to_owned() }.into(),
        _ => error,
    })
}

fn open_in(path: &Path, access: Access) -> io::Result<(File, Option<PathBuf>)> {
    if path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let unnamed = open_unnamed(directory_of(path), flags_of(access))?;
    if let Some(file) = unnamed.filter(can_link) {
        return Ok((file, None));
    }
    create_hidden(path, flags_of(access)).map(|(file, name)| (file, Some(name)))
}

/// Mode bits of a group, and of others.
const GROUP_BITS: u32 = 0o070;
const OTHER_BITS: u32 = 0o007;

/// Gives a file the owner, group and mode of another, as far as the process may set them. No user gains access to the
/// content.
fn keep_permissions(file: &File, replaced: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let mut mode = replaced.mode() & 0o7777;
    if (own.uid(), own.gid()) != (replaced.uid(), replaced.gid())
        && fchown(file, Some(replaced.uid()), Some(replaced.gid())).is_err()
    {
        // The set-user-ID and set-group-ID bits would apply to another owner.
        mode &= 0o777;
        if own.gid() != replaced.gid() && fchown(file, None, Some(replaced.gid())).is_err() {
            let others = mode & OTHER_BITS;
            mode = mode & !GROUP_BITS | mode & GROUP_BITS & others << 3;
        }
    }
    if file.metadata()?.mode() & 0o7777 == mode {
        Ok(())
    } else {
        file.set_permissions(Permissions::from_mode(mode))
    }
}

#[cfg(test)]
mod tests;
