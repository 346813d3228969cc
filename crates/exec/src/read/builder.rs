//! Options of a blocked read.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sakiyomi_io::{Access, EngineSpec};

use super::cancel::{Cancel, Observer, Progress};
use super::decode::Decoder;
use super::source::{Paths, Reader};

/// The thread that reads bytes that are not cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoThread {
    /// A thread that does nothing else, with a raised priority where that is allowed: the paper's `IO_0`.
    #[default]
    Dedicated,
    /// Every compute thread reads its own blocks: the paper's `SPE_ANY`.
    Shared,
}

/// An input to be read by blocks: files ([`Paths`]), or an input without offsets ([`Reader`]).
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is reduced or written"]
pub struct BlockedRead<S = Paths> {
    pub(super) source: S,
    pub(super) options: Options,
}

/// How an input is read.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) range: Range<u64>,
    pub(super) block: Option<usize>,
    pub(super) threads: usize,
    pub(super) method: Option<EngineSpec>,
    pub(super) access: Access,
    pub(super) io: IoThread,
    pub(super) record_max: Option<u64>,
    pub(super) cancel: Option<Cancel>,
    pub(super) observer: Option<Observer>,
    pub(super) decoder: Option<&'static dyn Decoder>,
}

/// Bytes read in one call if no block size is set: small enough to stay in a core's cache, large enough to make the cost
/// of a task small.
const IO_DEFAULT_BYTES: usize = 128 << 10;
/// Maximum number of bytes read in one call: larger blocks are put together.
const IO_MAX_BYTES: usize = 16 << 20;
/// Bytes read ahead.
const READ_AHEAD_BYTES: usize = 16 << 20;
/// Limits of the number of blocks read ahead.
const READ_AHEAD_BLOCKS: Range<usize> = 4..256;
/// Limit for engines that map each block: a process has 1,024 mappings of `io`, for all its reads.
const MAPPED_AHEAD_MAX_BLOCKS: usize = 64;

/// Prepares reading a file by blocks, on as many threads as there are cores.
pub fn blocked_read(path: impl AsRef<Path>) -> BlockedRead {
    blocked_reads([path])
}

/// Prepares reading files in this order, as [`blocked_read`] does for one.
pub fn blocked_reads(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> BlockedRead {
    let paths = paths.into_iter().map(|path| path.as_ref().to_owned()).collect();
    BlockedRead { source: Paths(paths), options: Options::default() }
}

/// Prepares reading an input without offsets by blocks, from its present position: a pipe, a socket, a decoder. `name`
/// stands in errors.
///
/// ```
/// use sakiyomi_exec::read::blocked_reader;
/// let (ones, _) = blocked_reader("bits", &b"0110101"[..])
///     .block(2)
///     .map_blocks(|block| block.iter().filter(|&&byte| byte == b'1').count())
///     .reduce(0, |first, next| first + next)?;
/// assert_eq!(ones, 4);
/// # Ok::<(), sakiyomi_exec::read::Error>(())
/// ```
pub fn blocked_reader<'r>(name: impl Into<PathBuf>, from: impl Read + Send + 'r) -> BlockedRead<Reader<'r>> {
    BlockedRead { source: Reader::new(name.into(), from), options: Options::default() }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            range: 0..u64::MAX,
            block: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            method: None,
            access: Access::Buffered,
            io: IoThread::Dedicated,
            record_max: None,
            cancel: None,
            observer: None,
            decoder: None,
        }
    }
}

impl<S> BlockedRead<S> {
    /// Sets the size of a block in bytes. Each call of the mapping function then gets exactly one block: the first one
    /// begins at the start of the range, and only the last one of a file may be shorter, whatever is cached and however
    /// it is read. Blocks of many gigabytes need as much memory if they are not cached.
    ///
    /// Without a size, a call gets as many bytes as are at hand, up to some megabytes: the fastest choice for functions
    /// whose result does not depend on it. With records, see [`BlockedRead::records`].
    ///
    /// # Panics
    /// If it is 0.
    pub fn block(mut self, bytes: usize) -> BlockedRead<S> {
        assert!(bytes > 0, "a block of no bytes");
        self.options.block = Some(bytes);
        self
    }

    /// Sets the number of compute threads.
    pub fn threads(mut self, threads: usize) -> BlockedRead<S> {
        self.options.threads = threads.max(1);
        self
    }

    /// Lets another thread cancel the read, which then returns [`Error::Cancelled`](super::Error::Cancelled).
    pub fn cancelled_by(mut self, cancel: &Cancel) -> BlockedRead<S> {
        self.options.cancel = Some(cancel.clone());
        self
    }

    /// Decompresses inputs that begin as gzip, BGZF or Zstandard have it; others are read as they are. Offsets and numbers
    /// are those of the decompressed bytes.
    ///
    /// An input is decompressed while its bytes are processed: BGZF (as `bgzip` writes it) and Zstandard frames of up to
    /// 16 MiB that state their size by all compute threads, others by the I/O thread. Members and frames may follow each
    /// other. Neither method nor access has an effect.
    ///
    /// A [range](BlockedRead::range) is one of the decompressed bytes. Parts before it are read, but not decompressed, if
    /// compute threads decompress them; otherwise they are. With an index neither is done: the `.gzi` file beside a BGZF
    /// file (`bgzip -i`), or the seek table at the end of a Zstandard file in the seekable format. Damage before the range
    /// may remain unnoticed.
    ///
    /// ```
    /// use sakiyomi_exec::read::{Compression, blocked_reader};
    /// let mut packed = Vec::new();
    /// let lines = blocked_reader("lines", &b"one\ntwo\n"[..]).block(4).map(<[u8]>::to_vec);
    /// lines.compressed(Compression::GZIP).write_ordered(&mut packed)?;
    /// let read = blocked_reader("packed", &packed[..]).decompressed().block(3);
    /// let (blocks, _) = read.map(|block| vec![block.to_vec()]).reduce(Vec::new(), |first, next| [first, next].concat())?;
    /// assert_eq!(blocks, [&b"one"[..], b"\ntw", b"o\n"]);
    /// # Ok::<(), sakiyomi_exec::read::Error>(())
    /// ```
    #[cfg(feature = "compression")]
    pub fn decompressed(mut self) -> BlockedRead<S> {
        self.options.decoder = Some(&super::decode::ByMagic);
        self
    }

    /// Sets the limit of a record in bytes; by default, it is the number of bytes that are read ahead, 16 MiB or more.
    /// Memory is used for as much of a record as has been read, and for one that crosses a boundary of blocks only.
    pub fn record_max(mut self, bytes: u64) -> BlockedRead<S> {
        self.options.record_max = Some(bytes);
        self
    }

    /// Calls `observer` after each piece of up to some megabytes, by the threads that process them, one at a time.
    ///
    /// ```
    /// use sakiyomi_exec::read::blocked_read;
    /// # let scratch = sakiyomi_testing::ScratchFile::new(b"text");
    /// # let path = scratch.path();
    /// let read = blocked_read(path).progress(|progress| {
    ///     if let Some(total) = progress.total_bytes {
    ///         eprint!("\r{} of {total} bytes", progress.done_bytes);
    ///     }
    /// });
    /// let (bytes, _) = read.map(<[u8]>::len).reduce(0, |first, next| first + next)?;
    /// # assert_eq!(bytes, 4);
    /// # Ok::<(), sakiyomi_exec::read::Error>(())
    /// ```
    pub fn progress(mut self, observer: impl Fn(Progress) + Send + Sync + 'static) -> BlockedRead<S> {
        self.options.observer = Some(Observer(Arc::new(observer)));
        self
    }
}

impl BlockedRead {
    /// Restricts reading to these bytes of each file, or of its content if that is decompressed. An
    /// input without offsets, such as a pipe, is refused unless it is decompressed.
    pub fn range(mut self, range: Range<u64>) -> BlockedRead {
        self.options.range = range;
        self
    }

    /// Reads all bytes by this engine. By default resident bytes are mapped, or copied if that is faster, and the I/O
    /// thread loads the others. With an engine, the block size is also that of its operations, up to 16 MiB.
    pub fn method(mut self, method: EngineSpec) -> BlockedRead {
        self.options.method = Some(method);
        self
    }

    /// Sets whether reads go through the page cache or bypass it.
    pub fn access(mut self, access: Access) -> BlockedRead {
        self.options.access = access;
        self
    }

    /// Sets the thread that reads.
    pub fn io_thread(mut self, io: IoThread) -> BlockedRead {
        self.options.io = io;
        self
    }
}

impl Options {
    /// Returns the number of bytes read in one call.
    pub(super) fn io_block(&self) -> usize {
        self.block.unwrap_or(IO_DEFAULT_BYTES).min(IO_MAX_BYTES)
    }

    /// Returns the maximum number of blocks that are read ahead, processed, or waiting for their turn.
    pub(super) fn blocks_ahead(&self) -> usize {
        let is_mapped = self.method.is_some_and(|method| !method.kind.uses_buffers());
        let most = if is_mapped { MAPPED_AHEAD_MAX_BLOCKS } else { READ_AHEAD_BLOCKS.end };
        (READ_AHEAD_BYTES / self.io_block()).clamp(READ_AHEAD_BLOCKS.start, most).max(2 * self.threads)
    }

    /// Returns the limit of a record in bytes.
    pub(super) fn record_max(&self) -> u64 {
        self.record_max.unwrap_or_else(|| self.bytes_ahead())
    }

    /// Returns the maximum number of these bytes.
    pub(super) fn bytes_ahead(&self) -> u64 {
        let block = self.block.unwrap_or(IO_DEFAULT_BYTES);
        (self.blocks_ahead().saturating_mul(block)).max(READ_AHEAD_BYTES) as u64
    }
}
