//! Extents of a file: data, and holes, which read as zeros and occupy no storage.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Returns the end of the extent that begins at `offset`, and whether it holds data. A file on a file system that does
/// not know its holes is all data. Moves the offset of the descriptor. `offset` must be below `size`, the file's.
///
/// # Errors
/// Returns the errors of `lseek`.
pub fn extent_at(file: &File, size: u64, offset: u64) -> io::Result<(u64, bool)> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) if data > offset => Ok((data.min(size), false)),
        Ok(_) => {
            // The data may be punched meanwhile.
            let hole = seek(file, SeekFrom::Hole(offset)).unwrap_or(size);
            Ok((hole.clamp(offset + 1, size), true))
        }
        // No data follows.
        Err(Errno::NXIO) => Ok((size, false)),
        Err(Errno::INVAL) => Ok((size, true)),
        Err(error) => Err(error.into()),
    }
}
