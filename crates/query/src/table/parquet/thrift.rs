//! A look at Thrift's compact protocol before the library decodes it: a list that claims more elements than bytes follow
//! would have it allocate that much. Pure.
//!
//! The protocol: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// Structures within structures, at most. Those of Parquet have less than ten levels.
const DEPTH_MAX: usize = 32;

/// Types of fields and elements, as the protocol numbers them.
mod kind {
    pub(super) const STOP: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
    pub(super) const UUID: u8 = 13;
}

/// Kinds of pages, as their headers number them.
pub(super) const DATA_PAGE: i64 = 0;
pub(super) const DICTIONARY_PAGE: i64 = 2;
pub(super) const DATA_PAGE_V2: i64 = 3;

/// Why bytes are no structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// They end within it; more of them may help.
    End,
    /// They are not of the protocol.
    Invalid,
}

/// The sizes in the header of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Bytes of the header itself.
    pub(super) length: usize,
    /// [`DATA_PAGE`], [`DICTIONARY_PAGE`], [`DATA_PAGE_V2`], or another one.
    pub(super) kind: i64,
    /// Bytes of the page when it is decompressed.
    pub(super) uncompressed: i64,
    /// Bytes of the page in the file.
    pub(super) compressed: i64,
    /// Values of the page, nulls included.
    pub(super) values: i64,
}

/// Checks a whole structure, and gives its length in bytes.
pub(super) fn length(bytes: &[u8]) -> Result<usize, Problem> {
    let mut walker = Walker { bytes, at: 0 };
    walker.structure(0, &mut |_, _, _| {})?;
    Ok(walker.at)
}

/// The header of a page at the beginning of some bytes.
pub(super) fn page_header(bytes: &[u8]) -> Result<PageHeader, Problem> {
    let mut header = PageHeader::default();
    let mut walker = Walker { bytes, at: 0 };
    walker.structure(0, &mut |depth, field, value| match (depth, field) {
        (0, 1) => header.kind = value,
        (0, 2) => header.uncompressed = value,
        (0, 3) => header.compressed = value,
        // The first field of the header of each kind of page. Their statistics have none that is a number.
        (1, 1) => header.values = value,
        _ => {}
    })?;
    header.length = walker.at;
    Ok(header)
}

struct Walker<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walker<'_> {
    fn byte(&mut self) -> Result<u8, Problem> {
        let byte = self.bytes.get(self.at).copied().ok_or(Problem::End)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, count: u64) -> Result<(), Problem> {
        let left = (self.bytes.len() - self.at) as u64;
        if count > left {
            return Err(Problem::End);
        }
        self.at += count as usize;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Problem::Invalid)
    }

    /// A structure whose numbers are given to `number` with their depth and field.
    fn structure(&mut self, depth: usize, number: &mut impl FnMut(usize, i64, i64)) -> Result<(), Problem> {
        if depth > DEPTH_MAX {
            return Err(Problem::Invalid);
        }
        let mut field = 0i64;
        loop {
            let head = self.byte()?;
            if head == kind::STOP {
                return Ok(());
            }
            field = match head >> 4 {
                0 => unzigzag(self.varint()?),
                delta => field.checked_add(i64::from(delta)).ok_or(Problem::Invalid)?,
            };
            match head & 0xf {
                kind::TRUE | kind::FALSE => {}
                kind::I16 | kind::I32 | kind::I64 => {
                    let value = unzigzag(self.varint()?);
                    number(depth, field, value);
                }
                kind::STRUCT => self.structure(depth + 1, number)?,
                other => self.value(other, depth + 1)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Problem> {
        if depth > DEPTH_MAX {
            return Err(Problem::Invalid);
        }
        match kind {
            kind::TRUE | kind::FALSE | kind::BYTE => self.skip(1),
            kind::I16 | kind::I32 | kind::I64 => self.varint().map(drop),
            kind::DOUBLE => self.skip(8),
            kind::UUID => self.skip(16),
            kind::BINARY => {
                let length = self.varint()?;
                self.skip(length)
            }
            kind::STRUCT => self.structure(depth, &mut |_, _, _| {}),
            kind::LIST | kind::SET => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                self.elements(count, &[head & 0xf], depth)
            }
            kind::MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                self.elements(count, &[kinds >> 4, kinds & 0xf], depth)
            }
            _ => Err(Problem::Invalid),
        }
    }

    /// Elements have a byte each at least.
    fn elements(&mut self, count: u64, kinds: &[u8], depth: usize) -> Result<(), Problem> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(Problem::End);
        }
        for _ in 0..count {
            kinds.iter().try_for_each(|&kind| self.value(kind, depth + 1))?;
        }
        Ok(())
    }
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
