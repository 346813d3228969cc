//! A file of an output whose length and checksum are known at any time, so that a later process continues with it at the length
//! that it had at a snapshot, if it still has what was written until then. Nothing is changed before the first row, snapshot or end: a pipeline that is refused leaves it as it is.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crc32fast::Hasher;
use sakiyomi_io::{AtomicFile, partial_path};

use super::saved::{Continuity, Extent};

/// An open file.
pub(super) struct TrackedFile {
    path: PathBuf,
    form: Form,
    /// Its extent at the snapshot, to which it is truncated before the first write; `None` leaves it as it is.
    start: Option<Extent>,
    /// Its present extent; `None` before the first write or truncation.
    written: Option<Written>,
}

/// The written extent of a file.
struct Written {
    begin: u64,
    length: u64,
    sum: Hasher,
}

enum Form {
    /// Rows come at its end, under its own name.
    Appended(File),
    /// It appears under its name at the end.
    Partial(AtomicFile),
}

impl TrackedFile {
    /// Opens a file to append rows to it; none if it is not a regular file.
    ///
    /// # Errors
    /// If it cannot be opened, or is shorter than it was at the snapshot.
    pub(super) fn append(path: &Path, continuity: Continuity) -> io::Result<Option<(TrackedFile, u64)>> {
        let start = continuity.saved().and_then(|saved| saved.extent);
        check_length(path, start.unwrap_or_default())?;
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(None);
        }
        if let Some(start) = start {
            // Without the permission to read it, it is taken for what it was.
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                readable => check_content(&readable?, path, start)?,
            }
        }
        let begins_at = start.map_or(found.len(), |start| start.length);
        let tracked = TrackedFile { path: path.to_owned(), form: Form::Appended(file), start, written: None };
        Ok(Some((tracked, begins_at)))
    }

    /// Opens a file that appears at the end; none if the target is not a regular file.
    ///
    /// # Errors
    /// If it cannot be opened, or what had been written of it is missing.
    pub(super) fn partial(path: &Path, continuity: Continuity) -> io::Result<Option<(TrackedFile, u64)>> {
        if path.exists() && !path.is_file() && !path.is_dir() {
            return Ok(None);
        }
        let start = match continuity.saved() {
            Some(saved) => saved.extent.ok_or_else(|| {
                io::Error::other(
                    "the snapshot does not record how much of it had been written; start from the beginning",
                )
            })?,
            None => Extent::default(),
        };
        let partial = partial_path(path)?;
        check_length(&partial, start)?;
        let file = AtomicFile::resumable(path)?;
        check_content(file.file().map_err(io::Error::from)?.file(), &partial, start)?;
        let form = Form::Partial(file);
        let tracked = TrackedFile { path: path.to_owned(), form, start: Some(start), written: None };
        Ok(Some((tracked, start.length)))
    }

    /// Returns the open file, for its length and to make it durable.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub(super) fn handle(&self) -> io::Result<File> {
        match &self.form {
            Form::Appended(file) => file.try_clone(),
            Form::Partial(file) => file.file().map_err(io::Error::from)?.file().try_clone(),
        }
    }

    /// Its present extent; `None` before the first write or truncation.
    pub(super) fn extent(&self) -> Option<Extent> {
        let of = |written: &Written| Extent {
            begin: written.begin,
            length: written.length,
            crc: written.sum.clone().finalize(),
        };
        self.written.as_ref().map(of)
    }

    /// Truncates it where writing is to begin, once; terminates a last line that was cut off.
    ///
    /// # Errors
    /// If it cannot be changed.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        if self.written.is_some() {
            return Ok(());
        }
        let sum = Hasher::new_with_initial(self.start.map_or(0, |start| start.crc));
        self.written = Some(match &mut self.form {
            Form::Appended(file) => {
                if let Some(start) = self.start {
                    file.set_len(start.length)?;
                }
                if is_torn(file, &self.path)? {
                    file.write_all(b"\n")?;
                }
                let length = file.metadata()?.len();
                match self.start {
                    // Rows end with a line end: nothing was added.
                    Some(start) if start.length == length => Written { begin: start.begin, length, sum },
                    _ => Written { begin: length, length, sum: Hasher::new() },
                }
            }
            Form::Partial(file) => {
                let (mut file, length) =
                    (file.file().map_err(io::Error::from)?.file(), self.start.unwrap_or_default().length);
                file.set_len(length)?;
                file.seek(SeekFrom::Start(length))?;
                Written { begin: 0, length, sum }
            }
        });
        Ok(())
    }

    /// # Errors
    /// If the bytes cannot be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.prepare()?;
        match &mut self.form {
            Form::Appended(file) => file.write_all(bytes)?,
            Form::Partial(file) => file.write_all(bytes)?,
        }
        if let Some(written) = &mut self.written {
            written.length += bytes.len() as u64;
            written.sum.update(bytes);
        }
        Ok(())
    }

    /// Returns the file that is still to appear, with all that belongs to it.
    ///
    /// # Errors
    /// Returns the errors of [`TrackedFile::prepare`].
    pub(super) fn finish(mut self) -> io::Result<Option<AtomicFile>> {
        self.prepare()?;
        Ok(match self.form {
            Form::Appended(_) => None,
            Form::Partial(file) => Some(file),
        })
    }
}

/// Refuses a file that is shorter than it was at a snapshot.
fn check_length(path: &Path, Extent { length, .. }: Extent) -> io::Result<()> {
    let found = match std::fs::metadata(path) {
        Ok(found) if found.len() >= length => return Ok(()),
        Ok(found) => format!("has {} bytes", found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && length == 0 => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "is missing".to_owned(),
        Err(error) => return Err(error),
    };
    Err(io::Error::other(format!(
        "{} {found}, and had {length} bytes at the snapshot; restore it, or start from the beginning",
        path.display()
    )))
}

/// Bytes of a read for a checksum: a few calls for each MiB.
const CHECKED_BYTES: usize = 256 << 10;

/// Refuses a file that has other bytes than the output had written until a snapshot, such as those of another run.
fn check_content(file: &File, path: &Path, expected: Extent) -> io::Result<()> {
    let (mut sum, mut at) = (Hasher::new(), expected.begin);
    let mut bytes = vec![0; CHECKED_BYTES];
    while at < expected.length {
        let wanted = (expected.length - at).min(CHECKED_BYTES as u64) as usize;
        file.read_exact_at(&mut bytes[..wanted], at)?;
        sum.update(&bytes[..wanted]);
        at += wanted as u64;
    }
    if sum.finalize() == expected.crc {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} has different content than at the snapshot, such as that of another run; restore it, or start from the beginning",
        path.display()
    )))
}

/// Returns whether a file does not end with a line end, as after a crash in the middle of a record. A file without
/// the permission to read it is taken for whole.
fn is_torn(file: &File, path: &Path) -> io::Result<bool> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(false);
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    Ok(last != *b"\n")
}
