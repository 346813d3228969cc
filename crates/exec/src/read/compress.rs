//! Compression of results, by the threads that make them.

use std::io::{self, Write};

use flate2::write::GzEncoder;

use super::mapped::Mapped;
use super::work::BoxError;

/// A format of compressed results. Each result becomes a part of its own, and parts may follow each other: any tool
/// decompresses the whole, and [`BlockedRead::decompressed`](super::BlockedRead::decompressed) reads it again, Zstandard
/// in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// gzip members of this level, 0 to 9.
    Gzip(u32),
    /// Zstandard frames of this level, -7 to 22, with their sizes and checksums.
    Zstd(i32),
}

impl Compression {
    /// gzip of the usual level.
    pub const GZIP: Compression = Compression::Gzip(6);
    /// Zstandard of the usual level.
    pub const ZSTD: Compression = Compression::Zstd(3);

    fn compress(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Compression::Gzip(level) => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(level.min(9)));
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Compression::Zstd(level) => {
                let mut compressor = zstd::bulk::Compressor::new(level)?;
                compressor.include_checksum(true)?;
                compressor.compress(bytes)
            }
        }
    }
}

impl<'f, T: AsRef<[u8]> + Send + 'f> Mapped<'f, T> {
    /// Compresses each result. Set [`BlockedRead::block`](super::BlockedRead::block) to some 1 MiB, so that parts are
    /// large enough to compress well, and the result is the same in each run.
    pub fn compressed(self, compression: Compression) -> Mapped<'f, Vec<u8>> {
        self.then(move |bytes| compression.compress(bytes.as_ref()).map_err(BoxError::from))
    }
}
