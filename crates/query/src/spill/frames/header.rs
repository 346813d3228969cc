//! Headers of frames.

use super::FRAME_BYTES;
use crate::spill::codec::checksum;
use crate::spill::level::Level;

/// Bytes of a header: checksum, level and raw length, stored length.
pub(super) const HEADER_BYTES: usize = 12;

/// Bits of the raw length in a header; the level is above them.
const LENGTH_BITS: u32 = 24;

/// Header of a frame.
pub(super) struct Header {
    pub(super) checksum: u32,
    pub(super) level: Level,
    pub(super) raw: usize,
    pub(super) stored: usize,
}

impl Header {
    pub(super) fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.checksum.to_le_bytes());
        let level_and_raw = (self.level as u32) << LENGTH_BITS | self.raw as u32;
        bytes[4..8].copy_from_slice(&level_and_raw.to_le_bytes());
        bytes[8..].copy_from_slice(&(self.stored as u32).to_le_bytes());
        bytes
    }

    /// Parses a header; `None` if no frame has it.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let level_and_raw = word(4)?;
        let level = *Level::ALL.get((level_and_raw >> LENGTH_BITS) as usize)?;
        let raw = (level_and_raw & ((1 << LENGTH_BITS) - 1)) as usize;
        let header = Header { checksum: word(0)?, level, raw, stored: word(8)? as usize };
        Some(header)
            .filter(|header| header.raw <= FRAME_BYTES && header.stored <= header.raw && header.raw > 0)
    }

    /// Returns the checksum of a frame, which also covers its number and lengths.
    pub(super) fn checksum(&self, number: u32, stored: &[u8]) -> u32 {
        let place = u64::from(number) << 32 ^ (self.raw as u64) << 8 ^ self.level as u64;
        checksum(stored) ^ checksum(&place.to_le_bytes())
    }
}

/// Returns the length of the frame at the start of `bytes`; `None` without a whole header.
pub(super) fn frame_length(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let Some(head) = bytes.get(..HEADER_BYTES) else { return Ok(None) };
    Header::parse(head).map(|header| Some(HEADER_BYTES + header.stored)).ok_or(())
}
