//! A file that appears under its name only when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file written beside its target and renamed to it at [`commit`](AtomicFile::commit): under the target's name
/// there is at any instant either what was there before or all of the new content. Dropped without commit, it leaves
/// nothing.
///
/// A symbolic link is followed, and what is not a regular file (a pipe, `/dev/null`) is written in place, as there is
/// nothing to replace.
///
/// Writes go straight to the file: wrap it in a [`BufWriter`](std::io::BufWriter) for small ones.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    target: PathBuf,
    /// Where the content lies until it is committed; `None` once renamed, or where it is written in place.
    temporary: Option<PathBuf>,
}

impl AtomicFile {
    /// Opens a temporary file in the directory of `target`.
    ///
    /// # Errors
    /// Those of creating the file: the directory is missing, not writable, …
    pub fn create(target: impl AsRef<Path>) -> io::Result<AtomicFile> {
        let target = target.as_ref();
        let target = match fs::metadata(target) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(target)?;
                return Ok(AtomicFile { file, target: target.to_owned(), temporary: None });
            }
            Ok(_) => fs::canonicalize(target)?,
            Err(_) => target.to_owned(),
        };
        let temporary = temporary_beside(&target)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        Ok(AtomicFile { file, target, temporary: Some(temporary) })
    }

    /// The path under which the content will appear.
    #[must_use]
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Makes the content durable and puts it under the target's name, replacing what was there.
    ///
    /// # Errors
    /// Those of `fsync` and `rename`; the target is then as it was.
    pub fn commit(mut self) -> io::Result<()> {
        let Some(temporary) = &self.temporary else {
            return self.file.flush();
        };
        self.file.sync_all()?;
        fs::rename(temporary, &self.target)?;
        self.temporary = None;
        // The rename itself is durable only when the directory is.
        File::open(directory_of(&self.target))?.sync_all()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nobody is left to tell; what remains is a hidden file whose name says what it is.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_beside(target: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(directory_of(target).join(format!(".{name}.{}.{number}.tmp", process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::Scratch;

    #[test]
    fn the_target_is_untouched_until_commit() {
        let scratch = Scratch::new("atomic_commit");
        let path = scratch.path("out");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(scratch.entries(), 1);
    }

    #[test]
    fn a_dropped_file_leaves_nothing() {
        let scratch = Scratch::new("atomic_drop");
        let mut file = AtomicFile::create(scratch.path("out")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(scratch.entries(), 0);
    }

    #[test]
    fn a_missing_directory_and_a_directory_are_refused() {
        let scratch = Scratch::new("atomic_refuse");
        assert_eq!(AtomicFile::create(scratch.path("no/out")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(AtomicFile::create(scratch.root()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_a_device_is_written_in_place() {
        let scratch = Scratch::new("atomic_link");
        fs::write(scratch.path("real"), "old").unwrap();
        std::os::unix::fs::symlink(scratch.path("real"), scratch.path("link")).unwrap();
        let mut file = AtomicFile::create(scratch.path("link")).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(scratch.path("real")).unwrap(), "new");
        assert!(fs::symlink_metadata(scratch.path("link")).unwrap().is_symlink());

        let mut file = AtomicFile::create("/dev/null").unwrap();
        file.write_all(b"gone").unwrap();
        file.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
