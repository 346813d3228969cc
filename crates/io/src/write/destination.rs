//! The place of appended bytes: at the end of a file, or in the extents of a spill.

use std::io;

use super::allocation::Allocation;
use crate::file::IoFile;
use crate::spill::place::Place;

/// Assigns offsets to appended bytes.
pub(crate) enum Destination {
    /// Contiguously.
    Append {
        /// The offset of the next byte.
        at: u64,
        allocation: Allocation,
    },
    /// At the extents that a spill allocates.
    Spill(Place),
}

impl Destination {
    /// Returns the number of bytes of which lengths and offsets of writes are multiples.
    pub(super) fn alignment(&self, file: &IoFile) -> usize {
        match self {
            Destination::Append { .. } => file.alignment().offset,
            Destination::Spill(place) => place.alignment(),
        }
    }

    /// Returns the offset of the next `length` bytes. An error includes the offset that they would have had.
    pub(super) fn place(
        &mut self,
        file: &IoFile,
        length: usize,
        concurrent: bool,
    ) -> Result<u64, (u64, io::Error)> {
        match self {
            Destination::Append { at, allocation } => {
                let (offset, end) = (*at, at.saturating_add(length as u64));
                allocation.check_limit(end).map_err(|error| (offset, error))?;
                *at = end;
                if concurrent && file.alignment().offset > 1 {
                    allocation.ahead_of(file, end);
                }
                Ok(offset)
            }
            Destination::Spill(place) => place.next(length),
        }
    }
}
