//! Files for tests, under the build directory, which is on a real disk more often than `/tmp` is.
#![allow(clippy::print_stderr)] // what is skipped is said

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sakiyomi_linux::{Blocks, Error, Options};

/// A file, removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// A place for one in any directory.
    pub(crate) fn inside(directory: &str, name: &str) -> Scratch {
        Scratch(Path::new(directory).join(format!("sakiyomi-{name}-{}", std::process::id())))
    }

    /// One with these bytes, and on the disk, so that its pages can be dropped.
    pub(crate) fn with(name: &str, bytes: &[u8]) -> Scratch {
        let scratch = Scratch::inside(env!("CARGO_TARGET_TMPDIR"), name);
        fs::write(&scratch.0, bytes).unwrap();
        File::open(&scratch.0).unwrap().sync_all().unwrap();
        scratch
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

/// A stream, none where the machine is without the method or without direct I/O; which is said.
pub(crate) fn open(path: &Path, options: &Options) -> Option<Blocks> {
    match Blocks::open(path, options) {
        Ok(blocks) => Some(blocks),
        Err(error @ (Error::Method { .. } | Error::NoDirect { .. })) => {
            eprintln!("skipped, as this machine does not do it: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
