//! Files for tests.

use std::fs::File;
use std::path::Path;

use sakiyomi_testing::ScratchFile;

/// A file that may be cached or not.
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
    pub(crate) fn chilled(self) -> Scratch {
        let file = File::open(self.path()).unwrap();
        sakiyomi_io::page_cache::drop_pages(&file, 0..u64::MAX).unwrap();
        self
    }
}

/// Returns the bytes that differ from place to place.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
