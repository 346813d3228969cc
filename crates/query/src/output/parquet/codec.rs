//! Compression of pages, with reused contexts and tables.

use std::fmt;

use lz4_flex::block::{compress_into, get_maximum_output_size};
use parquet::basic;

use crate::Error;
use crate::output::buffer::Buf;
use crate::output::options::Compression;

/// Zstandard level: faster levels save little time, slower ones a few percent of the bytes.
const ZSTD_LEVEL: i32 = 1;

/// Compresses pages.
pub(super) enum Codec {
    None,
    Snappy(Box<snap::raw::Encoder>),
    Lz4,
    Zstd(zstd::bulk::Compressor<'static>),
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::None => "None",
            Codec::Snappy(_) => "Snappy",
            Codec::Lz4 => "Lz4",
            Codec::Zstd(_) => "Zstd",
        })
    }
}

/// Parquet's identifier of a compression.
pub(super) fn name_of(compression: Compression) -> Result<basic::Compression, Error> {
    Ok(match compression {
        Compression::None => basic::Compression::UNCOMPRESSED,
        Compression::Snappy => basic::Compression::SNAPPY,
        Compression::Lz4 => basic::Compression::LZ4_RAW,
        Compression::Zstd => basic::Compression::ZSTD(basic::ZstdLevel::try_new(ZSTD_LEVEL)?),
    })
}

impl Codec {
    pub(super) fn new(compression: Compression) -> Result<Codec, Error> {
        Ok(match compression {
            Compression::None => Codec::None,
            Compression::Snappy => Codec::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd => Codec::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(failed)?),
        })
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Codec::None)
    }

    /// Replaces the contents of `out` by the compressed bytes.
    pub(super) fn compress(&mut self, bytes: &[u8], out: &mut Buf) -> Result<(), Error> {
        out.clear();
        let count = match self {
            Codec::None => {
                out.extend(bytes);
                return Ok(());
            }
            Codec::Snappy(encoder) => {
                let space = out.space(snap::raw::max_compress_len(bytes.len()));
                encoder.compress(bytes, space).map_err(failed)?
            }
            Codec::Lz4 => {
                let space = out.space(get_maximum_output_size(bytes.len()));
                compress_into(bytes, space).map_err(failed)?
            }
            Codec::Zstd(compressor) => {
                let space = out.space(zstd::zstd_safe::compress_bound(bytes.len()));
                compressor.compress_to_buffer(bytes, space).map_err(failed)?
            }
        };
        out.truncate(count);
        Ok(())
    }
}

fn failed(error: impl fmt::Display) -> Error {
    Error::Query(format!("a page cannot be compressed: {error}"))
}
