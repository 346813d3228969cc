//! Files of a table: resolving paths, detecting formats, and access to their bytes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sakiyomi_io::{Access, IoFile};

use super::options::Format;
use crate::Error;

/// Path that stands for the standard input.
pub(super) const STDIN_NAME: &str = "-";

/// Bytes at the start of a file that identify its format.
pub(super) const MAGIC_BYTES: usize = 8;

/// A file that supports reads at any offset.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// Reopened by each scan, so that a table of many files needs few descriptors.
    Named(Access),
    /// A stream that was copied into an unnamed file.
    Unnamed(Arc<IoFile>),
}

impl Source {
    /// Opens a regular file or a block device to learn its size.
    pub(super) fn named(path: &Path, access: Access) -> Result<Source, Error> {
        let file = IoFile::open(path, access)?;
        Ok(Source { path: path.to_owned(), size: file.size(), place: Place::Named(access) })
    }

    /// Returns an unnamed file; errors call it `path`.
    pub(super) fn unnamed(path: &Path, file: Arc<IoFile>) -> Source {
        Source { path: path.to_owned(), size: file.size(), place: Place::Unnamed(file) }
    }

    /// Opens the file for read streams.
    pub(super) fn io_file(&self) -> Result<Arc<IoFile>, Error> {
        let file = match &self.place {
            Place::Unnamed(file) => return Ok(Arc::clone(file)),
            Place::Named(access) => IoFile::open(&self.path, *access)?,
        };
        if file.size() != self.size {
            let reason = format!(
                "the file had {} bytes when the table was opened, and has {} now",
                self.size,
                file.size()
            );
            return Err(Error::Table { path: self.path.clone(), reason });
        }
        Ok(Arc::new(file))
    }

    /// Opens the file for the few bytes read once when the table is opened, through the page cache.
    pub(super) fn reader(&self) -> Result<SourceReader, Error> {
        let file = match &self.place {
            Place::Unnamed(file) => file.file().try_clone(),
            Place::Named(_) => File::open(&self.path),
        };
        let file = file.map_err(|source| sakiyomi_io::Error::Open { path: self.path.clone(), source })?;
        Ok(SourceReader { file, path: self.path.clone(), size: self.size })
    }
}

/// An open file of a table.
#[derive(Debug)]
pub(super) struct SourceReader {
    file: File,
    path: PathBuf,
    pub(super) size: u64,
}

impl SourceReader {
    /// Reads `length` bytes at `offset`.
    pub(super) fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let failed = |source| sakiyomi_io::Error::Read {
            path: self.path.clone(),
            offset,
            length: length as usize,
            source,
        };
        if offset.checked_add(length).is_none_or(|end| end > self.size) {
            let message = format!("the file ends at {}", self.size);
            return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, message)).into());
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes)
    }

    /// Reads the first `length` bytes, or fewer if the file is shorter.
    pub(super) fn head(&self, length: usize) -> Result<Vec<u8>, Error> {
        self.read(0, self.size.min(length as u64))
    }
}

/// The input that the given paths refer to.
pub(super) enum Given {
    /// The standard input, a pipe, a socket or a character device, which can be read only once.
    Stream(PathBuf),
    /// Files.
    Files(Vec<PathBuf>),
}

/// Resolves paths to files: the files of a directory sorted by name, without hidden ones ([`is_hidden`]).
pub(super) fn resolve(paths: &[PathBuf]) -> Result<Given, Error> {
    let mut files = Vec::new();
    for path in paths {
        if is_stream(path)? {
            if paths.len() > 1 {
                let reason = "a stream cannot be combined with other files; give it alone".into();
                return Err(Error::Table { path: path.clone(), reason });
            }
            return Ok(Given::Stream(path.clone()));
        }
        if path.is_dir() { files.extend(files_of(path)?) } else { files.push(path.clone()) }
    }
    if files.is_empty() {
        return Err(Error::Query("no file is given; give at least one".into()));
    }
    Ok(Given::Files(files))
}

fn is_stream(path: &Path) -> Result<bool, Error> {
    if path.as_os_str() == STDIN_NAME {
        return Ok(true);
    }
    let found = fs::metadata(path).map_err(|source| open_error(path, source))?;
    Ok(found.file_type().is_fifo() || found.file_type().is_socket() || found.file_type().is_char_device())
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| open_error(directory, source);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if is_hidden(&entry.file_name()) {
            continue;
        }
        // A link without a target is an error: its rows would be missing.
        let found = fs::metadata(entry.path()).map_err(|source| open_error(&entry.path(), source))?;
        if found.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    if files.is_empty() {
        let reason =
            "the directory has no file; directories in it, and files whose names begin with . or _, are not read"
                .into();
        return Err(Error::Table { path: directory.to_owned(), reason });
    }
    Ok(files)
}

/// Returns whether a file of a directory is not part of its table: a hidden one, or one that other engines write beside
/// tables, such as `_SUCCESS`.
fn is_hidden(name: &OsStr) -> bool {
    matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_'))
}

/// Returns the error of opening a file, in the form that read streams use.
pub(super) fn open_error(path: &Path, source: io::Error) -> Error {
    sakiyomi_io::Error::Open { path: path.to_owned(), source }.into()
}

/// Opens a stream of bytes.
pub(super) fn open_stream(path: &Path) -> Result<Box<dyn Read + Send>, Error> {
    if path.as_os_str() == STDIN_NAME {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).map_err(|source| open_error(path, source))?;
    Ok(Box::new(file))
}

/// Detects the format of a file or a stream by its first bytes, then by its name.
pub(super) fn format_of(path: &Path, head: &[u8], given: Option<Format>) -> Result<Format, Error> {
    if let Some(format) = given {
        return Ok(format);
    }
    if head.starts_with(b"PAR1") {
        return Ok(Format::Parquet);
    }
    if head.starts_with(b"ARROW1") {
        return Ok(Format::ArrowFile);
    }
    if head.starts_with(&[0xff; 4]) {
        return Ok(Format::ArrowStream);
    }
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let reason = match ending.as_deref() {
        Some("parquet" | "arrow" | "feather" | "ipc" | "arrows") => {
            "the contents do not match the file's extension; the file is damaged or has another format".into()
        }
        _ if is_text(head) => return Ok(Format::Csv),
        _ => "the file is neither Parquet, nor Arrow IPC, nor text (CSV)".into(),
    };
    Err(Error::Table { path: path.to_owned(), reason })
}

/// Returns whether `head` can start a text: it has no control characters except tabs and line ends.
fn is_text(head: &[u8]) -> bool {
    head.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t'))
}
