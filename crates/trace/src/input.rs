//! Trace input as plain bytes: files and standard input, with gzip and zstd detected by content, never by name.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::error::TraceError;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Maximum zstd window, as a power of two: 128 MiB, as written by `zstd --long`. Without a limit, a few corrupt bytes
/// could request gigabytes.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
const BUFFER_BYTES: usize = 128 << 10;

/// Compression of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Compression::None => "plain",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }
}

/// Decompressed bytes of a trace, with a counter of the compressed bytes consumed.
pub(crate) struct Input {
    pub(crate) bytes: Box<dyn Read + Send>,
    pub(crate) compression: Compression,
    pub(crate) consumed: Arc<AtomicU64>,
    /// Size of the compressed file; `None` for a stream.
    pub(crate) total: Option<u64>,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Input, TraceError> {
        let failed = |source| TraceError::Open { path: path.display().to_string(), source };
        if is_stdin(path) {
            return Input::from_reader(io::stdin(), None).map_err(failed);
        }
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if found.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let total = found.is_file().then_some(found.len());
        Input::from_reader(file, total).map_err(failed)
    }

    /// Detects the compression by its magic number.
    pub(crate) fn from_reader(
        mut reader: impl Read + Send + 'static,
        total: Option<u64>,
    ) -> io::Result<Input> {
        let mut magic = Vec::with_capacity(ZSTD_MAGIC.len());
        reader.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut magic)?;
        let compression = match magic.as_slice() {
            ZSTD_MAGIC => Compression::Zstd,
            bytes if bytes.starts_with(GZIP_MAGIC) => Compression::Gzip,
            _ => Compression::None,
        };
        let consumed = Arc::new(AtomicU64::new(0));
        let counted = Counted { inner: Cursor::new(magic).chain(reader), consumed: Arc::clone(&consumed) };
        let bytes: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(counted),
            Compression::Gzip => {
                Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, counted)))
            }
            Compression::Zstd => {
                let mut decoder =
                    zstd::Decoder::with_buffer(BufReader::with_capacity(BUFFER_BYTES, counted))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        };
        Ok(Input { bytes, compression, consumed, total })
    }
}

/// Returns whether `path` denotes standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Counts the bytes read, for progress bars.
struct Counted<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn unpack(packed: Vec<u8>) -> (Compression, String, u64) {
        let mut input = Input::from_reader(Cursor::new(packed), None).unwrap();
        let mut text = String::new();
        input.bytes.read_to_string(&mut text).unwrap();
        (input.compression, text, input.consumed.load(Ordering::Relaxed))
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_packing_is_known_by_its_magic_number() {
        assert_eq!(unpack(b"plain".to_vec()), (Compression::None, "plain".into(), 5));
        assert_eq!(unpack(Vec::new()).1, "");
        let members = [gzip("one "), gzip("two")].concat();
        let size = members.len() as u64;
        assert_eq!(unpack(members), (Compression::Gzip, "one two".into(), size));
        let frames = zstd::encode_all(&b"three"[..], 1).unwrap();
        assert_eq!(unpack(frames).1, "three");
    }
}
