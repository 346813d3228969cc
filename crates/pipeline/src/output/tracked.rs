//! A file of an output whose length is known at any time, so that a later process goes on with it at the length that it had
//! at a snapshot. Nothing is changed before the first row, snapshot or end: a pipeline that is refused leaves it as it is.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sakiyomi_io::{AtomicFile, partial_path};

use super::saved::Continuity;

/// An open file.
pub(super) struct TrackedFile {
    path: PathBuf,
    form: Form,
    /// The length to which it is cut off before anything is written; none leaves it as it is.
    start: Option<u64>,
    /// Its length; none before anything was written or cut off.
    length: Option<u64>,
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
        let start = continuity.saved().and_then(|saved| saved.length);
        check_length(path, start.unwrap_or(0))?;
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(None);
        }
        let begins_at = start.unwrap_or(found.len());
        let tracked = TrackedFile { path: path.to_owned(), form: Form::Appended(file), start, length: None };
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
            Some(saved) => saved.length.ok_or_else(|| {
                io::Error::other("the snapshot does not tell how much of it had been written; start anew")
            })?,
            None => 0,
        };
        check_length(&partial_path(path)?, start)?;
        let form = Form::Partial(AtomicFile::resumable(path)?);
        Ok(Some((TrackedFile { path: path.to_owned(), form, start: Some(start), length: None }, start)))
    }

    /// The open file, for its length and to make it durable.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub(super) fn handle(&self) -> io::Result<File> {
        match &self.form {
            Form::Appended(file) => file.try_clone(),
            Form::Partial(file) => file.file().map_err(io::Error::from)?.file().try_clone(),
        }
    }

    /// Its length in bytes; none before anything was written or cut off.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Cuts it off at the begin of what is to be written, once; ends a last line that was cut off.
    ///
    /// # Errors
    /// If it cannot be changed.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        if self.length.is_some() {
            return Ok(());
        }
        self.length = Some(match &mut self.form {
            Form::Appended(file) => {
                if let Some(start) = self.start {
                    file.set_len(start)?;
                }
                if is_torn(file, &self.path)? {
                    file.write_all(b"\n")?;
                }
                file.metadata()?.len()
            }
            Form::Partial(file) => {
                let (mut file, start) =
                    (file.file().map_err(io::Error::from)?.file(), self.start.unwrap_or(0));
                file.set_len(start)?;
                file.seek(SeekFrom::Start(start))?;
                start
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
        self.length = self.length.map(|length| length + bytes.len() as u64);
        Ok(())
    }

    /// The file that is still to appear, with all that belongs to it.
    ///
    /// # Errors
    /// As [`TrackedFile::prepare`].
    pub(super) fn finish(mut self) -> io::Result<Option<AtomicFile>> {
        self.prepare()?;
        Ok(match self.form {
            Form::Appended(_) => None,
            Form::Partial(file) => Some(file),
        })
    }
}

/// Refuses a file that is shorter than it was at a snapshot.
fn check_length(path: &Path, length: u64) -> io::Result<()> {
    let found = match std::fs::metadata(path) {
        Ok(found) if found.len() >= length => return Ok(()),
        Ok(found) => format!("has {} bytes", found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && length == 0 => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "is missing".to_owned(),
        Err(error) => return Err(error),
    };
    Err(io::Error::other(format!(
        "{} {found}, and had {length} bytes at the snapshot; restore it, or start anew",
        path.display()
    )))
}

/// Whether a file does not end with a line end, as after a crash in the middle of a record. A file without
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
