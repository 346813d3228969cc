//! Files for tests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file, removed at the end, beside the test's program: on a disk more often than `/tmp` is.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn with(content: &[u8]) -> Scratch {
        let program = std::env::current_exe().unwrap();
        Scratch::inside(program.parent().unwrap(), content)
    }

    pub(crate) fn inside(directory: &Path, content: &[u8]) -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("sakiyomi-reader-{}-{number}", std::process::id()));
        fs::write(&path, content).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// On the disk, and not in memory.
    pub(crate) fn chilled(self) -> Scratch {
        let file = File::open(&self.0).unwrap();
        sakiyomi_linux::page_cache::drop_pages(&file, 0..u64::MAX).unwrap();
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Bytes that differ from place to place.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Says that a test could not be done here.
#[expect(clippy::print_stderr, reason = "a test that is left out must say so")]
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
}
