//! A directory of its own for a test, in the build's directory, which lies on a disk more often than `/tmp` does.

use std::fs;
use std::path::{Path, PathBuf};

/// Removed when the test ends.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Scratch {
        // The test lies in target/debug/deps.
        let program = std::env::current_exe().unwrap();
        Scratch::inside(&program.ancestors().nth(3).unwrap().join("tmp"), test)
    }

    /// In another directory than the usual one.
    pub(crate) fn inside(directory: &Path, test: &str) -> Scratch {
        let root = directory.join(format!("sakiyomi-linux-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Scratch(root)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn entries(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Says that a test could not be done here.
#[expect(clippy::print_stderr, reason = "a test that is left out must say so")]
pub(crate) fn skipped(test: &str, why: impl std::fmt::Display) {
    eprintln!("SKIPPED {test}: {why}");
}
