//! The layout of an event's record (pure).

use super::{Kind, Touch, device_of};
use rustix::param::page_size;

/// Offset and length of a field, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
}

impl Field {
    /// Parses a line such as `field:unsigned long i_ino; offset:8; size:8; signed:0;`.
    pub(super) fn find(text: &str, name: &str) -> Option<Field> {
        Field::find_by(text, |declared| declared == name)
    }

    /// Parses the line of an array, such as `field:char rwbs[10]; offset:34; size:10; signed:0;`, of any length.
    pub(super) fn find_array(text: &str, name: &str) -> Option<Field> {
        Field::find_by(text, |declared| declared.split_once('[').is_some_and(|(found, _)| found == name))
    }

    fn find_by(text: &str, matches: impl Fn(&str) -> bool) -> Option<Field> {
        text.lines().find_map(|line| {
            let mut parts = line.trim().split(';').map(str::trim);
            let declared = parts.next()?.strip_prefix("field:")?;
            if !matches(declared.trim_end().rsplit([' ', '*']).next()?) {
                return None;
            }
            let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
            Some(Field { offset: number("offset:")?, size: number("size:")? })
        })
    }

    /// Returns the unsigned number in the field; `None` if the record is too short.
    pub(super) fn read(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match *bytes {
            [byte] => u64::from(byte),
            [_, _] => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            [_, _, _, _] => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }
}

/// Layout of an event's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    number: u64,
    kind: Field,
    thread: Field,
    device: Field,
    inode: Field,
    first: Field,
    /// `None` if the event has one page only.
    last: Option<Field>,
}

impl Format {
    /// Parses the file `format` of an event; `None` if fields are missing.
    pub(super) fn parse(text: &str) -> Option<Format> {
        let number = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        let field = |name| Field::find(text, name);
        Some(Format {
            number,
            kind: field("common_type")?,
            thread: field("common_pid")?,
            device: field("s_dev")?,
            inode: field("i_ino")?,
            first: field("index")?,
            last: field("last_index"),
        })
    }

    /// Returns the access in a record; `None` if the record is of another event, or is truncated.
    pub(super) fn touch(&self, kind: Kind, time: u64, record: &[u8]) -> Option<Touch> {
        if self.kind.read(record)? != self.number {
            return None;
        }
        let first = self.first.read(record)?;
        let last = self.last.map_or(Some(first), |last| last.read(record))?;
        let page = page_size() as u64;
        let range = first.saturating_mul(page)..last.max(first).saturating_add(1).saturating_mul(page);
        Some(Touch {
            time,
            thread: u32::try_from(self.thread.read(record)?).ok()?,
            device: device_of(u32::try_from(self.device.read(record)?).ok()?),
            inode: self.inode.read(record)?,
            range,
            kind,
        })
    }
}
