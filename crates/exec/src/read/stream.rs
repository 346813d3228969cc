//! The bytes of a block from any source, and blocks of inputs that are read sequentially.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_io::readiness::is_readable_now;
use sakiyomi_io::{Block, Buffer};

/// The bytes of a block.
pub(super) enum Bytes {
    /// From a file.
    Block(Block),
    /// From a stream.
    Buffer(Buffer),
    /// From a small file.
    Small(SmallBuf),
    /// A copy, or decoded.
    Own(Vec<u8>),
}

impl Bytes {
    /// Returns whether they are pages of the page cache.
    pub(super) fn are_mapped(&self) -> bool {
        matches!(self, Bytes::Block(block) if block.is_mapped())
    }

    /// Checks that they are those of the file; only a mapping can lose some after it was made.
    pub(super) fn intact(&self) -> Result<(), sakiyomi_io::Error> {
        match self {
            Bytes::Block(block) => block.intact(),
            Bytes::Buffer(_) | Bytes::Small(_) | Bytes::Own(_) => Ok(()),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Block(block) => block,
            Bytes::Buffer(buffer) => buffer,
            Bytes::Small(small) => &small.bytes[..small.filled],
            Bytes::Own(bytes) => bytes,
        }
    }
}

/// An input without offsets, such as a pipe, which is read sequentially.
pub(super) struct Stream<'f> {
    /// Bytes that were read earlier.
    before: Cursor<Vec<u8>>,
    from: From<'f>,
    /// Whether a block ends where further reading would block: its results may be needed before more bytes arrive, or
    /// may cause them to arrive.
    is_eager: bool,
}

enum From<'f> {
    File(File),
    Any(Box<dyn Read + Send + 'f>),
}

impl<'f> Stream<'f> {
    pub(super) fn of(from: impl Read + Send + 'f) -> Stream<'f> {
        let before = Cursor::default();
        Stream { before, from: From::Any(Box::new(from)), is_eager: false }
    }

    pub(super) fn of_file(file: File, is_eager: bool) -> Stream<'f> {
        Stream { before: Cursor::default(), from: From::File(file), is_eager }
    }

    /// Prepends bytes that were read before.
    pub(super) fn behind(self, before: Vec<u8>) -> Stream<'f> {
        Stream { before: Cursor::new(before), ..self }
    }

    /// Returns up to `most` bytes at the beginning, which stay there.
    pub(super) fn beginning(&mut self, most: usize) -> io::Result<&[u8]> {
        let at = self.before.position() as usize;
        if self.before.get_ref().len() - at < most {
            let mut beginning = self.before.get_ref()[at..].to_vec();
            let filled = beginning.len();
            beginning.resize(most, 0);
            // The bytes before are part of the beginning.
            self.before = Cursor::default();
            let (more, outcome) = self.fill(&mut beginning[filled..]);
            outcome?;
            beginning.truncate(filled + more);
            self.before = Cursor::new(beginning);
        }
        let (at, bytes) = (self.before.position() as usize, self.before.get_ref());
        Ok(&bytes[at..bytes.len().min(at + most)])
    }

    /// Returns whether the next read would block, so that results of earlier blocks must be delivered first.
    pub(super) fn would_wait(&self) -> bool {
        let From::File(file) = &self.from else { return false };
        let is_behind = self.before.position() >= self.before.get_ref().len() as u64;
        self.is_eager && is_behind && !is_readable_now(file)
    }

    /// Reads until `space` is full, the input ends, or further reading would block; returns true in the last case. An
    /// error comes with the number of bytes read before it.
    pub(super) fn fill(&mut self, space: &mut [u8]) -> (usize, io::Result<bool>) {
        let mut filled = 0;
        while filled < space.len() {
            match self.read(&mut space[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return (filled, Err(error)),
            }
            if filled < space.len() && self.would_wait() {
                return (filled, Ok(true));
            }
        }
        (filled, Ok(false))
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.before.read(bytes)? {
            0 => match &mut self.from {
                From::File(file) => file.read(bytes),
                From::Any(from) => from.read(bytes),
            },
            count => Ok(count),
        }
    }
}

/// A pool of memory for small files: one buffer per thread that processes one.
#[derive(Clone, Default)]
pub(super) struct SmallBufs(Arc<Mutex<Vec<Box<[u8]>>>>);

/// The content of a small file. Its memory is reused after it is dropped.
pub(super) struct SmallBuf {
    bytes: Box<[u8]>,
    filled: usize,
    home: SmallBufs,
}

impl SmallBufs {
    /// Reads up to `most` bytes, the same number in every call, or to the end; also returns the error that ended it
    /// early, if any.
    pub(super) fn read(&self, from: &mut (impl Read + ?Sized), most: usize) -> (SmallBuf, io::Result<()>) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = kept.unwrap_or_else(|| vec![0; most].into_boxed_slice());
        let mut small = SmallBuf { bytes, filled: 0, home: self.clone() };
        let (filled, outcome) = fill(from, &mut small.bytes);
        small.filled = filled;
        (small, outcome)
    }
}

impl SmallBuf {
    pub(super) fn len(&self) -> usize {
        self.filled
    }
}

impl Drop for SmallBuf {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// Fills a buffer as [`Stream::fill`] does. After an error it holds the bytes read before the error.
pub(super) fn fill_buffer(from: &mut Stream<'_>, buffer: &mut Buffer) -> io::Result<()> {
    buffer.set_len(0);
    let (filled, outcome) = from.fill(buffer.space());
    buffer.set_len(filled);
    outcome.map(drop)
}

fn fill(from: &mut (impl Read + ?Sized), space: &mut [u8]) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < space.len() {
        match from.read(&mut space[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}
