//! The state of an output in a snapshot.

use sakiyomi_stream::{Decode, Encode, Frame, StateError};

/// Layout of the saved state of an output.
const FRAME: Frame = Frame { kind: "an output", version: 2 };

/// The part of a file that an output has written, up to the file's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Offset of its first byte: what the file had before is not the output's.
    pub(crate) begin: u64,
    /// Length of the file, in bytes.
    pub(crate) length: u64,
    /// CRC-32 of the bytes between.
    pub(crate) crc: u32,
}

/// The state of an output at a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedOutput {
    /// Its file with the rows before the snapshot and no others. None of an output that is not a file, and of a file to
    /// which others write as well.
    pub(crate) extent: Option<Extent>,
    /// All rows had been written.
    pub(crate) has_ended: bool,
}

impl SavedOutput {
    pub(crate) fn save(self, out: &mut Vec<u8>) {
        let extent = self.extent.map(|Extent { begin, length, crc }| (begin, length, crc));
        FRAME.save(out, |body| (extent, self.has_ended).encode(body));
    }

    /// # Errors
    /// If the bytes are damaged, or not those of an output.
    pub(crate) fn load(bytes: &[u8]) -> Result<SavedOutput, StateError> {
        let (extent, has_ended): (Option<(u64, u64, u32)>, bool) = FRAME.load(bytes, Decode::decode)?;
        let extent = extent.map(|(begin, length, crc)| Extent { begin, length, crc });
        Ok(SavedOutput { extent, has_ended })
    }
}

/// Whether an output can be continued by a later process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuity {
    /// Its file is whole at the end, or does not appear.
    None,
    /// It begins, and what it has at a snapshot will be there when the process has been killed.
    Begins,
    /// It continues from a snapshot.
    Resumes(SavedOutput),
}

impl Continuity {
    pub(super) fn is_some(self) -> bool {
        self != Continuity::None
    }

    /// Returns the state from which it continues, if there is one.
    pub(super) fn saved(self) -> Option<SavedOutput> {
        match self {
            Continuity::Resumes(saved) => Some(saved),
            Continuity::None | Continuity::Begins => None,
        }
    }
}
