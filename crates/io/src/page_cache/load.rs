//! Reads of a file into the page cache that wait for completion.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::sendfile;
use rustix::io::Errno;

use crate::Error;
use crate::engine::CALL_MAX;

/// Reads files into the page cache only, sequentially.
///
/// The kernel reads ahead as for any program, in windows that grow up to the device's `read_ahead_kb`, and with large
/// folios where the file system supports them. That costs less than a tenth of the CPU time of [`super::fetch`],
/// which allocates single pages, and makes mapping them cheap.
#[derive(Debug)]
pub struct PageLoader {
    nowhere: File,
}

impl PageLoader {
    /// Creates a loader.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn new() -> Result<PageLoader, Error> {
        let nowhere = File::options().write(true).open("/dev/null");
        let failed = |source| Error::System { what: "open /dev/null".into(), source };
        nowhere.map(|nowhere| PageLoader { nowhere }).map_err(failed)
    }

    /// Reads a range into the page cache and waits for it; pages that are already cached cost little. Ignores the
    /// part beyond the file's end.
    ///
    /// The pages are not locked in memory: [`super::residency`] tells whether they are still cached.
    ///
    /// # Errors
    /// If the range cannot be read, or its file system does not support `sendfile`.
    pub fn load(&self, file: &File, range: Range<u64>) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let length = usize::try_from(range.end - at).map_or(CALL_MAX, |length| length.min(CALL_MAX));
            match sendfile(&self.nowhere, file, Some(&mut at), length) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        Ok(())
    }
}

fn failed(source: io::Error) -> Error {
    Error::System { what: "read pages of a file into memory".into(), source }
}

#[cfg(test)]
mod tests {
    use super::super::tests::cold;
    use super::super::{ResidencyCall, residency_by};
    use super::*;
    use sakiyomi_testing::Scratch;

    #[test]
    fn what_was_brought_has_arrived() {
        let scratch = Scratch::new("load");
        let Some(file) = cold(&scratch, 4096) else { return };
        let loader = PageLoader::new().unwrap();
        for range in [0..1, 5000..5001, 3 << 20..5 << 20, 0..16 << 20] {
            loader.load(&file, range.clone()).unwrap();
            assert!(residency_by(&file, range, ResidencyCall::Mincore).unwrap().is_whole());
        }
    }

    #[test]
    fn what_a_file_does_not_have_is_left_out() {
        let scratch = Scratch::new("bring_beyond");
        std::fs::write(scratch.path("file"), [1; 5000]).unwrap();
        let file = File::open(scratch.path("file")).unwrap();
        let loader = PageLoader::new().unwrap();
        for range in [0..u64::MAX, 4999..5001, 5000..5001, 1 << 40..(1 << 40) + 1] {
            loader.load(&file, range).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let directory = File::open("/").unwrap();
        assert!(PageLoader::new().unwrap().load(&directory, 0..10).is_err());
    }
}
