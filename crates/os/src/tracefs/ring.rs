//! Pages of the kernel's ring buffer: a header, then records, each preceded by a word with its length (pure).

use super::format::Field;

/// Offsets of fields in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    time: Field,
    commit: Field,
    data: usize,
    /// Length of a page in bytes.
    pub(super) page: usize,
}

/// Records of a core that are missing around a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Records before the page were overwritten.
    pub(super) before: bool,
    /// The page is truncated, and so is without its last records.
    pub(super) after: bool,
}

/// Flag in the committed length: events were lost before this page.
const LOST_FLAG: u64 = 1 << 31;
/// Mask of the committed length in bytes.
const LENGTH_MASK: u64 = (1 << 27) - 1;

/// Record type, in the first five bits of a word: a record whose length is in the next word.
const LONG_RECORD: u32 = 0;
/// Record type: padding, or the end of the page.
const PADDING_RECORD: u32 = 29;
/// Record type: further bits of the time since the previous record.
const TIME_EXTEND_RECORD: u32 = 30;
/// Record type: an absolute time.
const TIME_STAMP_RECORD: u32 = 31;

impl Header {
    /// Parses `events/header_page`.
    pub(super) fn parse(text: &str) -> Option<Header> {
        let data = Field::find(text, "data")?;
        let page = data.offset.checked_add(data.size)?;
        let header = Header {
            time: Field::find(text, "timestamp")?,
            commit: Field::find(text, "commit")?,
            data: data.offset,
            page,
        };
        (page <= 1 << 20).then_some(header)
    }

    /// Calls `each` with the time and the bytes of each record of a page; returns what is missing.
    pub(super) fn records(&self, page: &[u8], mut each: impl FnMut(u64, &[u8])) -> Missing {
        let mut missing = Missing { before: false, after: true };
        let (Some(begun), Some(commit)) = (self.time.read(page), self.commit.read(page)) else {
            return missing;
        };
        missing.before = commit & LOST_FLAG != 0;
        let end = self.data.saturating_add((commit & LENGTH_MASK) as usize);
        let mut rest = page.get(self.data..end.min(page.len())).unwrap_or_default();
        let mut time = begun;
        while !rest.is_empty() {
            let Some((word, behind)) = word(rest) else { return missing };
            let (kind, delta) = split(word);
            time = time.wrapping_add(delta);
            let (record, next) = match kind {
                // Nothing follows.
                PADDING_RECORD if delta == 0 => break,
                LONG_RECORD | PADDING_RECORD => {
                    let Some((length, behind)) = self::word(behind) else { return missing };
                    // The length includes its own word.
                    let Some(length) = (length as usize).checked_sub(4) else { return missing };
                    let length = length.next_multiple_of(4);
                    let Some(split) = behind.split_at_checked(length) else { return missing };
                    if kind == LONG_RECORD { (Some(split.0), split.1) } else { (None, split.1) }
                }
                TIME_EXTEND_RECORD | TIME_STAMP_RECORD => {
                    let Some((high, behind)) = self::word(behind) else { return missing };
                    let long = u64::from(high) << 27;
                    time = if kind == TIME_STAMP_RECORD { long | delta } else { time.wrapping_add(long) };
                    (None, behind)
                }
                words => {
                    let Some(split) = behind.split_at_checked(words as usize * 4) else { return missing };
                    (Some(split.0), split.1)
                }
            };
            if let Some(record) = record {
                each(time, record);
            }
            rest = next;
        }
        Missing { after: end > page.len(), ..missing }
    }
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_ne_bytes(*word), rest))
}

/// Splits a record's first word into its type or length field, and the time since the previous record in ns.
fn split(word: u32) -> (u32, u64) {
    if cfg!(target_endian = "little") {
        (word & 31, u64::from(word >> 5))
    } else {
        (word >> 27, u64::from(word & ((1 << 27) - 1)))
    }
}
