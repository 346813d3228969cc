//! Files for tests, in the build directory, which is on a real disk more often than `/tmp`.

use std::fs::File;
use std::path::Path;

use sakiyomi_io::{Error, ReadOptions, ReadStream};
use sakiyomi_testing::{ScratchFile, skipped};

/// Creates a file with these bytes and syncs it, so that its pages can be dropped.
pub(crate) fn file_with(name: &str, bytes: &[u8]) -> ScratchFile {
    let file = ScratchFile::named(name, bytes);
    File::open(file.path()).unwrap().sync_all().unwrap();
    file
}

/// Returns bytes that differ from place to place.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Opens a stream; `None`, with a message, if the machine does not support the engine or direct I/O.
pub(crate) fn open(path: &Path, options: &ReadOptions) -> Option<ReadStream> {
    match ReadStream::open(path, options) {
        Ok(blocks) => Some(blocks),
        Err(error @ (Error::Method { .. } | Error::NoDirect { .. })) => {
            skipped(&format!("{:?}", options.engine), error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
