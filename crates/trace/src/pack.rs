//! Output compressed with gzip or zstd, according to the file name.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;

const BUFFER_BYTES: usize = 128 << 10;
/// Default level of zstd.
const ZSTD_LEVEL: i32 = 3;

/// Compression of a written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// None.
    #[default]
    Plain,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

impl Packing {
    /// Returns the compression for a file name: gzip for `.gz`, zstd for `.zst`, else none.
    #[must_use]
    pub fn of_path(path: &Path) -> Packing {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Packing::Gzip,
            Some("zst") => Packing::Zstd,
            _ => Packing::Plain,
        }
    }
}

pub(crate) enum Packed<W: Write> {
    Plain(BufWriter<W>),
    Gzip(Box<GzEncoder<BufWriter<W>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<W>>>),
}

impl<W: Write> std::fmt::Debug for Packed<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Packed::Plain(_) => "Packed::Plain",
            Packed::Gzip(_) => "Packed::Gzip",
            Packed::Zstd(_) => "Packed::Zstd",
        })
    }
}

impl<W: Write> Packed<W> {
    pub(crate) fn new(writer: W, packing: Packing) -> io::Result<Packed<W>> {
        let buffered = BufWriter::with_capacity(BUFFER_BYTES, writer);
        Ok(match packing {
            Packing::Plain => Packed::Plain(buffered),
            Packing::Gzip => Packed::Gzip(Box::new(GzEncoder::new(buffered, flate2::Compression::default()))),
            Packing::Zstd => Packed::Zstd(Box::new(zstd::Encoder::new(buffered, ZSTD_LEVEL)?)),
        })
    }

    /// Flushes the buffer, ends the compressed stream, and returns the writer.
    pub(crate) fn finish(self) -> io::Result<W> {
        let buffered = match self {
            Packed::Plain(writer) => writer,
            Packed::Gzip(encoder) => encoder.finish()?,
            Packed::Zstd(encoder) => encoder.finish()?,
        };
        buffered.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packed::Plain(writer) => writer.write(bytes),
            Packed::Gzip(encoder) => encoder.write(bytes),
            Packed::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Does nothing: flushing a compressor early increases the size, and [`finish`](Packed::finish) writes everything.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
