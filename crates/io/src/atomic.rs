//! A file that appears under its name only when it is whole.

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

/// A file that replaces its target at [`commit`](AtomicFile::commit): under the target's name there is at any instant
/// either what was there before or all of the new content. Dropped without commit, it leaves nothing.
///
/// The content lies in the target's directory: in a file without a name if the file system has such files, of which
/// not even `kill -9` leaves anything, and else in one with a hidden name. A symbolic link is followed, and what is
/// not a regular file (a pipe, `/dev/null`) is written in place, as there is nothing to replace. The permissions of a
/// file that is replaced stay; its owner and group stay if the process may give files to them.
///
/// It is written as [`Write`], best from a [`BufWriter`](std::io::BufWriter) as writes go straight to the file, or by
/// a [`WriteStream`](crate::WriteStream) on [`AtomicFile::file`], not by both.
#[derive(Debug)]
pub struct AtomicFile {
    content: Content,
    target: PathBuf,
    /// The target, whatever the current directory and after all symbolic links.
    destination: PathBuf,
}

#[derive(Debug)]
enum Content {
    /// The hidden name is removed if it is still there at the end, unless the content is to be kept.
    Replacement { file: Arc<IoFile>, hidden: Option<PathBuf>, is_kept: bool },
    /// Not a regular file.
    InPlace(File),
}

impl AtomicFile {
    /// Begins a file that will appear as `target`, written through the page cache.
    ///
    /// # Errors
    /// Those of creating a file there: the directory is missing, not writable, …
    pub fn create(target: impl AsRef<Path>) -> io::Result<AtomicFile> {
        AtomicFile::create_for(target, Access::Buffered)
    }

    /// Begins a file that will appear as `target`. One for direct I/O is written by a stream.
    ///
    /// # Errors
    /// As [`AtomicFile::create`]; [`Error::NoDirect`] if its file system does not offer direct I/O.
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

    /// Begins a file that will appear as `target`, or goes on with one: the content lies under the name of
    /// [`partial_path`] until then, and stays there if the file is dropped without commit or the process is killed. It is
    /// locked against other processes that do the same. Writes begin at its start, whatever it has.
    ///
    /// # Errors
    /// As [`AtomicFile::create`]; [`io::ErrorKind::ResourceBusy`] if another process has it locked.
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
        // The name is to be there when a later process goes on with the content.
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

    /// The path under which the content will appear.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The file of the content, for a [`WriteStream`](crate::WriteStream), which must have finished before the
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

    /// Makes the content durable and puts it under the target's name, replacing the former file.
    ///
    /// # Errors
    /// Those of `fsync` and `rename`; the target is then as it was, unless it is only the directory that could not be
    /// made durable.
    pub fn commit(mut self) -> io::Result<()> {
        let Content::Replacement { file, hidden, .. } = &mut self.content else { return self.flush() };
        file.file().sync_all()?;
        let name = match hidden {
            Some(name) => name,
            None => {
                // `link` gives a file without a name a new name, but cannot replace an existing file.
                let name = hidden_name(&self.destination)?;
                link(file.file(), &name)?;
                hidden.insert(name)
            }
        };
        fs::rename(name, &self.destination)?;
        *hidden = None;
        // The rename itself is durable only when the directory is.
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
        // `drop` cannot report an error; a hidden file that remains is recognizable by its name.
        if *is_kept {
            // A child process that another thread starts holds the lock until it executes its program.
            unlock(file.file());
        } else {
            let _ = fs::remove_file(hidden);
        }
    }
}

/// The path of the content of [`AtomicFile::resumable`] until it is committed: the target's with `.partial` after it.
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

/// A new file in the directory of a path, and its hidden name if it has any.
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

/// Gives a file the owner, group and mode of another, as far as the process may. No user gains a right to the
/// content.
fn keep_permissions(file: &File, replaced: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let mut mode = replaced.mode() & 0o7777;
    if (own.uid(), own.gid()) != (replaced.uid(), replaced.gid())
        && fchown(file, Some(replaced.uid()), Some(replaced.gid())).is_err()
    {
        // The bits for running as the owner or the group would be for another.
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
