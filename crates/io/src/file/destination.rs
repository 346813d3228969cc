//! The file that a path leads to, which need not exist.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::unnamed::directory_of;

/// Returns a path after all symbolic links. The process may change its directory before a file is committed there.
pub(crate) fn destination_of(target: &Path, exists: bool) -> io::Result<PathBuf> {
    if exists {
        return fs::canonicalize(target);
    }
    let path = dangling_to(target);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(fs::canonicalize(directory_of(&path))?.join(name))
}

/// Links to follow, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Returns the path that a dangling symbolic link leads to; any other path as it is.
fn dangling_to(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(target) => path = directory_of(&path).join(target),
            Err(_) => break,
        }
    }
    path
}
