//! Temporary files for unit tests.

use std::fs::File;
use std::path::Path;

use sakiyomi_testing::ScratchFile;

/// A temporary file, in the page cache unless [`Scratch::evicted`] has dropped it.
pub(crate) struct Scratch(ScratchFile);

impl Scratch {
    pub(crate) fn with(content: &[u8]) -> Scratch {
        Scratch(ScratchFile::new(content))
    }

    pub(crate) fn inside(directory: &Path, content: &[u8]) -> Scratch {
        Scratch(ScratchFile::inside(directory, "file", content))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Drops the file from the page cache.
    pub(crate) fn evicted(self) -> Scratch {
        let file = File::open(self.path()).unwrap();
        sakiyomi_io::page_cache::drop_pages(&file, 0..u64::MAX).unwrap();
        self
    }
}

/// Returns `size` pseudo-random bytes, so that a read at a wrong offset is noticed.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
