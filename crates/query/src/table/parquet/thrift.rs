//! Validation of Thrift's compact protocol before the library decodes it. Otherwise a list that claims too many
//! elements would make the library allocate memory for them. Pure.
//!
//! The protocol: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use std::ops::Range;

/// Maximum nesting depth. Parquet's structures have less than ten levels.
const DEPTH_MAX: usize = 32;

/// Maximum nesting depth of a schema, as of Arrow IPC's: functions on schemas and on their arrays are recursive.
const SCHEMA_DEPTH_MAX: usize = 64;

/// Field of the footer (`FileMetaData`) with the elements of its schema.
const SCHEMA_FIELD: i64 = 2;
/// Field of an element (`SchemaElement`) with its number of children.
const CHILDREN_FIELD: usize = 5;

/// Field of the footer with its row groups.
const ROW_GROUPS_FIELD: i64 = 4;

/// Fields of a structure in a list that are passed on, from 0 on.
const PASSED_FIELDS: usize = CHILDREN_FIELD + 1;

/// Field of an offset index (`OffsetIndex`) with the places of the pages.
const LOCATIONS_FIELD: i64 = 1;

/// The byte after the last field of a structure.
const STRUCTURE_END: u8 = 0;

/// Types of fields and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Byte,
    Number,
    Double,
    Binary,
    List,
    Map,
    Structure,
    Uuid,
}

impl Kind {
    /// Returns the type with a number of the protocol.
    fn of(number: u8) -> Result<Kind, Problem> {
        Ok(match number {
            1 | 2 => Kind::Boolean,
            3 => Kind::Byte,
            4..=6 => Kind::Number,
            7 => Kind::Double,
            8 => Kind::Binary,
            9 | 10 => Kind::List,
            11 => Kind::Map,
            12 => Kind::Structure,
            13 => Kind::Uuid,
            _ => return Err(Problem::Invalid),
        })
    }
}

/// Bytes read first for a page header. Most headers have less than 100; statistics can be longer.
pub(super) const HEADER_BYTES: usize = 256;

/// `PageType` of a data page.
pub(super) const DATA_PAGE_KIND: i64 = 0;
/// `PageType` of a dictionary page.
pub(super) const DICTIONARY_PAGE_KIND: i64 = 2;
/// `PageType` of a data page of format version 2.
pub(super) const DATA_PAGE_V2_KIND: i64 = 3;

/// Reason why bytes are not a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The bytes end within the structure; more bytes may help.
    End,
    /// The bytes violate the protocol.
    Invalid,
}

/// The sizes in the header of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Bytes of the header itself.
    pub(super) length: usize,
    /// [`DATA_PAGE_KIND`], [`DICTIONARY_PAGE_KIND`], [`DATA_PAGE_V2_KIND`], or another kind.
    pub(super) kind: i64,
    /// Decompressed bytes of the page.
    pub(super) uncompressed: i64,
    /// Bytes of the page in the file.
    pub(super) compressed: i64,
    /// Values of the page, including nulls.
    pub(super) values: i64,
}

/// Checks a whole structure and returns its length in bytes.
pub(super) fn length(bytes: &[u8]) -> Result<usize, Problem> {
    let mut walker = Walker { bytes, at: 0 };
    walker.structure(0, &mut |_, _, _| {})?;
    Ok(walker.at)
}

/// Checks the tree of a footer's schema, which the library builds recursively. On a violation, returns the reason.
pub(super) fn check_schema(footer: &[u8]) -> Result<(), String> {
    let unreadable = |_| "its footer is not readable".to_owned();
    let children = Walker { bytes: footer, at: 0 }.children().map_err(unreadable)?;
    // Children that each open group still lacks.
    let mut open: Vec<i64> = Vec::new();
    for (at, &count) in children.iter().enumerate() {
        if let Some(missing) = open.last_mut() {
            *missing -= 1;
        }
        if count < 0 || count > (children.len() - at - 1) as i64 {
            return Err("its schema claims more columns than it has".into());
        }
        if count > 0 {
            open.push(count);
        }
        if open.len() > SCHEMA_DEPTH_MAX {
            return Err(format!("its schema has more than {SCHEMA_DEPTH_MAX} levels"));
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    if open.is_empty() { Ok(()) } else { Err("its schema claims more columns than it has".into()) }
}

/// Passes the numbers of each page in an offset index to `each`: its offset, its bytes with the header, its first row.
pub(super) fn page_locations(index: &[u8], mut each: impl FnMut([i64; 3])) -> Result<(), Problem> {
    let structures =
        Walker { bytes: index, at: 0 }.structures(LOCATIONS_FIELD, |_, [_, offset, bytes, first_row, ..]| {
            each([offset, bytes, first_row]);
        });
    structures.map(drop)
}

/// The row groups of a footer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RowGroupBytes {
    /// Offset of the header of their list.
    pub(super) list: usize,
    /// Offset of the first one.
    pub(super) start: usize,
    /// Offset of the end of each.
    pub(super) ends: Vec<usize>,
}

/// Finds the row groups of a footer; `None` without any.
pub(super) fn row_groups(footer: &[u8]) -> Result<Option<RowGroupBytes>, Problem> {
    let mut start = None;
    let (mut ends, mut is_one_list) = (Vec::new(), true);
    let list = Walker { bytes: footer, at: 0 }.structures(ROW_GROUPS_FIELD, |group, _| {
        let expected = ends.last().copied().unwrap_or(*start.get_or_insert(group.start));
        is_one_list &= group.start == expected;
        ends.push(group.end);
    })?;
    if !is_one_list {
        return Err(Problem::Invalid);
    }
    Ok(list.zip(start).map(|(list, start)| RowGroupBytes { list, start, ends }))
}

/// Parses the page header at the start of `bytes`.
pub(super) fn page_header(bytes: &[u8]) -> Result<PageHeader, Problem> {
    let mut header = PageHeader::default();
    let mut walker = Walker { bytes, at: 0 };
    walker.structure(0, &mut |depth, field, value| match (depth, field) {
        (0, 1) => header.kind = value,
        (0, 2) => header.uncompressed = value,
        (0, 3) => header.compressed = value,
        // First field of the header of each page kind; page statistics are one level deeper.
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

    /// Reads the head of the field after `field`: its number and type. `None` at the end of the structure.
    fn field(&mut self, field: i64) -> Result<Option<(i64, Kind)>, Problem> {
        let head = self.byte()?;
        if head == STRUCTURE_END {
            return Ok(None);
        }
        let field = match head >> 4 {
            0 => unzigzag(self.varint()?),
            delta => field.checked_add(i64::from(delta)).ok_or(Problem::Invalid)?,
        };
        Ok(Some((field, Kind::of(head & 0xf)?)))
    }

    /// Returns the number of children of each element of a footer's schema.
    fn children(&mut self) -> Result<Vec<i64>, Problem> {
        let mut children = Vec::new();
        self.structures(SCHEMA_FIELD, |_, numbers| children.push(numbers[CHILDREN_FIELD]))?;
        Ok(children)
    }

    /// Walks a structure and passes each structure in the list `list` to `each`: its range of bytes, and its numbers by
    /// their fields; 0 for those without. Returns the offset of the list's header, if there is one.
    fn structures(
        &mut self,
        list: i64,
        mut each: impl FnMut(Range<usize>, [i64; PASSED_FIELDS]),
    ) -> Result<Option<usize>, Problem> {
        let (mut last, mut found) = (0, None);
        while let Some((field, kind)) = self.field(last)? {
            last = field;
            match kind {
                // The field's type contains the value.
                Kind::Boolean => continue,
                Kind::List if field == list => {}
                other => {
                    self.value(other, 1)?;
                    continue;
                }
            }
            found = Some(self.at);
            let head = self.byte()?;
            let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
            if count > 0 && Kind::of(head & 0xf)? != Kind::Structure {
                return Err(Problem::Invalid);
            }
            for _ in 0..count {
                let start = self.at;
                let mut numbers = [0; PASSED_FIELDS];
                self.structure(1, &mut |depth, field, value| {
                    let field = usize::try_from(field).ok().filter(|_| depth == 1);
                    if let Some(number) = field.and_then(|field| numbers.get_mut(field)) {
                        *number = value;
                    }
                })?;
                each(start..self.at, numbers);
            }
        }
        Ok(found)
    }

    /// Walks a structure and passes its numbers to `number`, with their depth and field.
    fn structure(&mut self, depth: usize, number: &mut impl FnMut(usize, i64, i64)) -> Result<(), Problem> {
        if depth > DEPTH_MAX {
            return Err(Problem::Invalid);
        }
        let mut last = 0i64;
        while let Some((field, kind)) = self.field(last)? {
            last = field;
            match kind {
                // The field's type contains the value.
                Kind::Boolean => {}
                Kind::Number => {
                    let value = unzigzag(self.varint()?);
                    number(depth, field, value);
                }
                Kind::Structure => self.structure(depth + 1, number)?,
                other => self.value(other, depth + 1)?,
            }
        }
        Ok(())
    }

    fn value(&mut self, kind: Kind, depth: usize) -> Result<(), Problem> {
        if depth > DEPTH_MAX {
            return Err(Problem::Invalid);
        }
        match kind {
            Kind::Boolean | Kind::Byte => self.skip(1),
            Kind::Number => self.varint().map(drop),
            Kind::Double => self.skip(8),
            Kind::Uuid => self.skip(16),
            Kind::Binary => {
                let length = self.varint()?;
                self.skip(length)
            }
            Kind::Structure => self.structure(depth, &mut |_, _, _| {}),
            Kind::List => {
                let head = self.byte()?;
                match if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) } {
                    0 => Ok(()),
                    count => self.elements(count, &[Kind::of(head & 0xf)?], depth),
                }
            }
            Kind::Map => match self.varint()? {
                0 => Ok(()),
                count => {
                    let kinds = self.byte()?;
                    self.elements(count, &[Kind::of(kinds >> 4)?, Kind::of(kinds & 0xf)?], depth)
                }
            },
        }
    }

    /// Skips elements, each of which has at least one byte.
    fn elements(&mut self, count: u64, kinds: &[Kind], depth: usize) -> Result<(), Problem> {
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

#[cfg(test)]
mod tests;
