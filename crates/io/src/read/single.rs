//! Single blocks, read on the caller's thread: for cached data, where a hand-over between threads would cost more
//! than it hides.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::block::{Block, Held, Late, shrunk};
use super::progress::{Next, Progress, Span};
use crate::Error;
use crate::buffer::Buffer;
use crate::engine::{Op, Payload, perform};
use crate::file::{Access, IoFile};
use crate::mapping::Mapping;

/// A file whose blocks are read one at a time, by any number of threads.
#[derive(Debug)]
pub struct Single {
    file: Arc<IoFile>,
}

impl Single {
    /// Opens a regular file or a block device.
    ///
    /// # Errors
    /// If it cannot be opened with this access.
    pub fn open(path: &Path, access: Access) -> Result<Single, Error> {
        Ok(Single::of(Arc::new(IoFile::open(path, access)?)))
    }

    /// Wraps an open file.
    #[must_use]
    pub fn of(file: Arc<IoFile>) -> Single {
        Single { file }
    }

    /// Returns the file, which streams may read as well.
    #[must_use]
    pub fn file(&self) -> &Arc<IoFile> {
        &self.file
    }

    /// Maps a non-empty range; its pages are read when they are touched. [`Block::intact`] tells whether the file
    /// lost some of them meanwhile.
    ///
    /// # Errors
    /// If the file no longer contains the range, or it cannot be mapped.
    pub fn map(&self, range: Range<u64>) -> Result<Block, Error> {
        let span = Span::new(range, 1, self.file.size());
        let begun = Instant::now();
        let failed = |source| self.failed(&span, source);
        let size = self.file.size_now().map_err(failed)?;
        if size < span.offset + span.length as u64 {
            return Err(shrunk(&self.file, size));
        }
        let mapping = Mapping::new(&self.file, span.offset, span.length, false).map_err(failed)?;
        let late = Some(Late::default());
        let (within, offset, service) = (span.within, span.offset, begun.elapsed());
        let (held, file) = (Held::One(Payload::Mapping(mapping)), Arc::clone(&self.file));
        Ok(Block { held, within, offset, service, late, file })
    }

    /// Reads a non-empty range into a buffer, which must have room for the range widened to the alignment.
    ///
    /// # Errors
    /// If it cannot be read, or the file no longer contains the range.
    ///
    /// # Panics
    /// If the buffer is too small.
    pub fn read(&self, range: Range<u64>, buffer: Buffer) -> Result<Block, Error> {
        let span = Span::new(range, self.file.alignment().offset as u64, self.file.size());
        let begun = Instant::now();
        let file = Arc::clone(&self.file);
        let mut op = Op::read(0, file, span.offset, span.length, Payload::Buffer(buffer));
        op.rewind(0);
        let mut progress = Progress::new(span);
        loop {
            let result = perform(&mut op, |file, space, at| file.file().read_at(space, at));
            match progress.after(&mut op, result) {
                Next::GoOn => {}
                Next::Whole => break,
                Next::Shrunk { at } => return Err(shrunk(&self.file, at)),
                Next::Failed(source) => return Err(self.failed(progress.span(), source)),
            }
        }
        let Span { offset, within, .. } = progress.span().clone();
        let (service, held, file) = (begun.elapsed(), Held::One(op.payload), op.file);
        Ok(Block { held, within, offset, service, late: None, file })
    }

    fn failed(&self, span: &Span, source: std::io::Error) -> Error {
        Error::Read { path: self.file.path().to_owned(), offset: span.offset, length: span.length, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{BufferPool, Memory};
    use proptest::prelude::*;
    use sakiyomi_testing::Scratch;

    proptest! {
        #[test]
        fn any_range_is_fetched_either_way(size in 1u64..20_000, from in 0.0..1.0, to in 0.0..1.0) {
            let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let scratch = Scratch::new("single");
            std::fs::write(scratch.path("file"), &bytes).unwrap();
            let single = Single::open(&scratch.path("file"), Access::Buffered).unwrap();
            let start = (from * (size - 1) as f64) as u64;
            let range = start..start + 1 + (to * (size - 1 - start) as f64) as u64;
            let expected = &bytes[range.start as usize..range.end as usize];
            let pool = BufferPool::fixed(1, size as usize, Memory::Ordinary).unwrap();
            let read = single.read(range.clone(), pool.take().unwrap()).unwrap();
            let mapped = single.map(range.clone()).unwrap();
            prop_assert_eq!(&*read, expected);
            prop_assert_eq!((&*mapped, mapped.offset()), (expected, range.start));
            prop_assert!(mapped.intact().is_ok());
        }
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error() {
        let scratch = Scratch::new("single_shrunk");
        std::fs::write(scratch.path("file"), [1; 10_000]).unwrap();
        let single = Single::open(&scratch.path("file"), Access::Buffered).unwrap();
        let mapped = single.map(0..10_000).unwrap();
        std::fs::write(scratch.path("file"), [1; 5000]).unwrap();
        assert!(matches!(mapped.intact(), Err(Error::Shrunk { .. })));
        assert!(matches!(single.map(0..10_000), Err(Error::Shrunk { .. })));
        let pool = BufferPool::fixed(1, 10_000, Memory::Ordinary).unwrap();
        assert!(matches!(single.read(0..10_000, pool.take().unwrap()), Err(Error::Shrunk { at: 5000, .. })));
    }
}
