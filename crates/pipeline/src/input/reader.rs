//! A file as a reader: the blocks of `io`'s read stream, which are read while the records of others are cut.

use std::io::{self, Read};
use std::path::Path;

use sakiyomi_io::{Access, Block, EngineKind, EngineSpec, ReadOptions, ReadStream};

/// Bytes of a read: a quarter of a mebibyte stays in the second-level cache until it is cut into blocks.
const READ_BYTES: usize = 256 << 10;

/// A file that is read ahead of its reader.
pub(super) struct FileReader {
    stream: ReadStream,
    block: Option<Block>,
    at: usize,
}

impl FileReader {
    /// Opens a file to be read from an offset on, in bytes.
    ///
    /// # Errors
    /// If it cannot be opened so.
    pub(super) fn open(path: &Path, direct: bool, from: u64) -> io::Result<FileReader> {
        let options = ReadOptions {
            engine: EngineSpec::usual(if direct { EngineKind::Pread } else { EngineKind::Read }),
            access: if direct { Access::Direct } else { Access::Buffered },
            block: READ_BYTES,
            range: Some(from..u64::MAX),
            ..ReadOptions::default()
        };
        let stream = ReadStream::open(path, &options).map_err(io::Error::from)?;
        Ok(FileReader { stream, block: None, at: 0 })
    }
}

impl Read for FileReader {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(block) = &self.block {
                let rest = &block[self.at..];
                if !rest.is_empty() {
                    let length = rest.len().min(space.len());
                    space[..length].copy_from_slice(&rest[..length]);
                    self.at += length;
                    return Ok(length);
                }
            }
            // Released before the next one is taken.
            self.block = None;
            self.at = 0;
            match self.stream.next() {
                Some(block) => self.block = Some(block.map_err(io::Error::from)?),
                None => return Ok(0),
            }
        }
    }
}
