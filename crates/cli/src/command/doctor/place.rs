//! Test directory of `doctor`, for its file and its mounts: in a directory for temporary files, because the current
//! directory may be read-only.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sakiyomi_io::{Access, IoFile};

/// Size of the test file in bytes: large enough for any alignment of direct I/O.
const FILE_BYTES: usize = 4096;

/// A new directory with a file in it, removed on drop.
pub(super) struct TestPlace {
    directory: PathBuf,
    file: PathBuf,
}

impl TestPlace {
    /// Creates it in the first writable directory whose file system supports direct I/O, or in the first writable one
    /// if none does.
    pub(super) fn find() -> Option<TestPlace> {
        let mut places: Vec<TestPlace> = Vec::new();
        for candidate in candidates() {
            let Ok(place) = TestPlace::new(&candidate) else { continue };
            if IoFile::open(&place.file, Access::Direct).is_ok() {
                return Some(place);
            }
            places.push(place);
        }
        places.into_iter().next()
    }

    fn new(parent: &Path) -> io::Result<TestPlace> {
        let directory = fs::canonicalize(parent)?.join(format!("sakiyomi-doctor-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&directory)?;
        let place = TestPlace { file: directory.join("file"), directory };
        let mut file = OpenOptions::new().write(true).create_new(true).open(&place.file)?;
        file.write_all(&[0; FILE_BYTES])?;
        Ok(place)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the directory in which it was created.
    pub(super) fn parent(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }
}

impl Drop for TestPlace {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Returns the directories for temporary files, in the order in which they are tried.
fn candidates() -> Vec<PathBuf> {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let all = [from("TMPDIR"), Some("/tmp".into()), Some("/var/tmp".into()), from("XDG_RUNTIME_DIR")];
    let mut places: Vec<PathBuf> = all.into_iter().flatten().chain(std::env::current_dir().ok()).collect();
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(place.clone()));
    places
}

/// Returns their names, for the message that none is writable.
pub(super) fn tried() -> String {
    let names: Vec<String> = candidates().iter().map(|place| place.display().to_string()).collect();
    format!("{} cannot be written to; set TMPDIR to one that can", names.join(", "))
}
