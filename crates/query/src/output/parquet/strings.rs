//! String and binary columns: dictionary-encoded if that is smaller, else plain with length prefixes.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{Array, ArrayRef, downcast_integer};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use parquet::basic::Encoding;

use super::chunk::{Chunk, ChunkWriter, boundary_order};
use super::dictionary::{self, CHECK_VALUES, DICTIONARY_MAX_BYTES, Table, is_exact, key_of};
use super::extremes::Extremes;
use super::numbers::{CodeTables, is_smaller, pack};
use super::validity::Validity;
use super::visit::visit;
use crate::Error;
use crate::output::buffer::Buf;

/// Bytes of the length prefix of a value.
const PREFIX_BYTES: usize = size_of::<u32>();

/// Maximum value bytes of a page; a longer value gets a page alone.
const PAGE_BYTES: usize = 1 << 20;

/// Reused memory for string columns.
#[derive(Debug, Default)]
pub(super) struct StringTables {
    /// Offsets of the dictionary entries, after their length prefixes.
    starts: Vec<u32>,
    /// Lengths of the values.
    lengths: Vec<u32>,
    /// For each code, whether the page uses it.
    is_used: Vec<bool>,
    /// Codes by key of a dictionary array.
    codes: Vec<u16>,
}

impl StringTables {
    pub(super) fn memory(&self) -> usize {
        (self.starts.capacity() + self.lengths.capacity()) * size_of::<u32>()
            + self.is_used.capacity()
            + self.codes.capacity() * size_of::<u16>()
    }
}

/// Writes a column chunk of strings; `is_text`: they are UTF-8.
pub(super) fn encode(
    chunk: ChunkWriter<'_>,
    arrays: &[ArrayRef],
    validity: &Validity,
    is_text: bool,
    tables: &mut CodeTables,
    strings: &mut StringTables,
) -> Result<Chunk, Error> {
    if build(arrays, tables, strings).is_some() {
        encode_codes(chunk, validity, is_text, tables, strings)
    } else {
        encode_plain(chunk, arrays, validity, is_text, strings)
    }
}

/// Writes codes and their dictionary.
fn encode_codes(
    mut chunk: ChunkWriter<'_>,
    validity: &Validity,
    is_text: bool,
    tables: &mut CodeTables,
    strings: &mut StringTables,
) -> Result<Chunk, Error> {
    let entries = strings.starts.len();
    chunk.dictionary_page(tables.entries.as_slice(), entries, false)?;
    let (mut pages, mut all) = (Vec::new(), Extremes::default());
    for (rows, range) in validity.pages() {
        let codes = &tables.codes[range];
        let extremes = extremes_of(codes, tables.entries.as_slice(), strings);
        all.merge(&extremes);
        pages.extend(extremes.0);
        let packed = &mut tables.packed;
        pack(packed, codes, entries);
        let bounds = extremes.bounds(is_text);
        chunk.data_page(&rows, Encoding::RLE_DICTIONARY, packed.len(), |out| {
            out.extend(packed.as_slice());
            bounds
        })?;
    }
    let order = boundary_order(&pages, |one, other| one.is_less(other));
    chunk.finish(all.statistics(is_text, validity.nulls() as u64), order)
}

/// Returns the extremes of the entries that `codes` refer to.
fn extremes_of(codes: &[u16], entries: &[u8], strings: &mut StringTables) -> Extremes {
    let count = strings.starts.len();
    strings.is_used.clear();
    strings.is_used.resize(count, false);
    for &code in codes {
        strings.is_used[usize::from(code)] = true;
    }
    let mut extremes = Extremes::default();
    for (&start, _) in strings.starts.iter().zip(&strings.is_used).filter(|(_, is_used)| **is_used) {
        let start = start as usize;
        extremes.update(entries, start, length_before(entries, start));
    }
    extremes
}

/// Reads the length prefix of an entry.
#[inline]
fn length_before(entries: &[u8], start: usize) -> usize {
    let bytes = entries[start - PREFIX_BYTES..start].try_into().expect("4 bytes");
    u32::from_le_bytes(bytes) as usize
}

/// Builds a dictionary with the codes of all values, if it makes the chunk smaller.
fn build(arrays: &[ArrayRef], tables: &mut CodeTables, strings: &mut StringTables) -> Option<()> {
    tables.table.clear();
    tables.codes.clear();
    tables.entries.clear();
    strings.starts.clear();
    let mut plain_bytes = 0;
    for array in arrays {
        let is_small =
            array.as_any_dictionary_opt().is_some_and(|dictionary| dictionary.values().len() <= array.len());
        if is_small {
            plain_bytes += map_dictionary(array, tables, strings)?;
            continue;
        }
        let mut at = 0;
        while at < array.len() {
            let rows = at..(at + CHECK_VALUES).min(array.len());
            at = rows.end;
            plain_bytes += add_values(array, rows, tables, strings)?;
            if !dictionary::is_promising(tables.codes.len(), tables.table.len()) {
                return None;
            }
        }
    }
    is_smaller(tables.table.len(), tables.entries.len(), tables.codes.len(), plain_bytes).then_some(())
}

/// Adds the codes of some rows. Returns the plain-encoded bytes of their values, `None` if the dictionary is full.
fn add_values(
    array: &dyn Array,
    rows: Range<usize>,
    tables: &mut CodeTables,
    strings: &mut StringTables,
) -> Option<usize> {
    let CodeTables { table, codes, entries, .. } = tables;
    let (mut plain_bytes, mut has_room) = (0, true);
    visit(array, rows, &mut |source: &[u8], start: usize, length: usize| {
        plain_bytes += PREFIX_BYTES + length;
        // The table may have a code whose entry did not fit, so it must not be used any more.
        if !has_room {
            return;
        }
        match code_of(source, start, length, table, entries, &mut strings.starts) {
            Some(code) => codes.push(code),
            None => has_room = false,
        }
    });
    has_room.then_some(plain_bytes)
}

/// Returns the code of a value, which is added if it is new; `None` if the dictionary is full.
#[inline]
fn code_of(
    source: &[u8],
    start: usize,
    length: usize,
    table: &mut Table,
    entries: &mut Buf,
    starts: &mut Vec<u32>,
) -> Option<u16> {
    let key = key_of(source, start, length);
    let (code, is_new) = table.code_of(key, |code| {
        is_exact(key) || {
            let at = starts[code as usize] as usize;
            let entries = entries.as_slice();
            length_before(entries, at) == length && entries[at..at + length] == source[start..start + length]
        }
    })?;
    if is_new {
        if entries.len() + PREFIX_BYTES + length > DICTIONARY_MAX_BYTES {
            return None;
        }
        entries.extend(&(length as u32).to_le_bytes());
        starts.push(entries.len() as u32);
        entries.extend(&source[start..start + length]);
    }
    Some(code)
}

/// Placeholder code of a null in a dictionary array's values; no non-null row uses it.
const NO_CODE: u16 = 0;

/// Like [`add_values`], for all rows of a dictionary array, by mapping its keys.
fn map_dictionary(array: &dyn Array, tables: &mut CodeTables, strings: &mut StringTables) -> Option<usize> {
    let values = array.as_any_dictionary().values();
    strings.codes.clear();
    strings.lengths.clear();
    for index in 0..values.len() {
        let (mut code, mut bytes) = (Some(NO_CODE), 0);
        visit(values, index..index + 1, &mut |source: &[u8], start: usize, length: usize| {
            let StringTables { starts, .. } = strings;
            code = code_of(source, start, length, &mut tables.table, &mut tables.entries, starts);
            bytes = length as u32;
        });
        strings.codes.push(code?);
        strings.lengths.push(bytes);
    }
    let DataType::Dictionary(key, _) = array.data_type() else { unreachable!("a dictionary array") };
    macro_rules! mapped {
        ($key:ty) => {
            map_keys::<$key>(array, tables, strings)
        };
    }
    Some(downcast_integer! {
        key.as_ref() => (mapped),
        other => unreachable!("{other} keys of a dictionary")
    })
}

/// Adds the codes of keys. Returns the plain-encoded bytes of their values.
fn map_keys<K: ArrowDictionaryKeyType>(
    array: &dyn Array,
    tables: &mut CodeTables,
    strings: &StringTables,
) -> usize {
    let keys = array.as_dictionary::<K>().keys();
    let before = tables.codes.len();
    let mut bytes = 0;
    let mut add = |key: K::Native| {
        bytes += strings.lengths[key.as_usize()] as usize;
        tables.codes.push(strings.codes[key.as_usize()]);
    };
    match array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        None => keys.values().iter().for_each(|&key| add(key)),
        Some(nulls) => nulls.valid_indices().for_each(|row| add(keys.value(row))),
    }
    bytes + (tables.codes.len() - before) * PREFIX_BYTES
}

/// The rows of a page to be written.
struct Span {
    rows: Range<usize>,
    /// Bytes of the values with their length prefixes.
    bytes: usize,
}

/// Writes plain-encoded pages.
fn encode_plain(
    mut chunk: ChunkWriter<'_>,
    arrays: &[ArrayRef],
    validity: &Validity,
    is_text: bool,
    strings: &mut StringTables,
) -> Result<Chunk, Error> {
    strings.lengths.clear();
    for array in arrays {
        visit(array, 0..array.len(), &mut |_: &[u8], _: usize, length: usize| {
            strings.lengths.push(u32::try_from(length).unwrap_or(u32::MAX));
        });
    }
    let (mut pages, mut all) = (Vec::new(), Extremes::default());
    for Span { rows, bytes } in spans(validity, &strings.lengths) {
        let mut extremes = Extremes::default();
        chunk.data_page(&rows, Encoding::PLAIN, bytes, |out| {
            append_plain(arrays, &rows, bytes, out, &mut extremes);
            extremes.bounds(is_text)
        })?;
        all.merge(&extremes);
        pages.extend(extremes.0);
    }
    let order = boundary_order(&pages, |one, other| one.is_less(other));
    chunk.finish(all.statistics(is_text, validity.nulls() as u64), order)
}

/// Copy size for short strings: most are shorter, and a copy takes two or three moves.
const COPIED_BYTES: usize = 48;

fn append_plain(
    arrays: &[ArrayRef],
    rows: &Range<usize>,
    bytes: usize,
    out: &mut Buf,
    extremes: &mut Extremes,
) {
    let end = out.len() + bytes;
    let space = out.space(bytes + COPIED_BYTES);
    let mut at = 0;
    visit_rows(arrays, rows, &mut |source: &[u8], start: usize, length: usize| {
        extremes.update(source, start, length);
        space[at..at + PREFIX_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        at += PREFIX_BYTES;
        if length <= COPIED_BYTES
            && let Some(block) = source.get(start..start + COPIED_BYTES)
        {
            space[at..at + COPIED_BYTES].copy_from_slice(block);
        } else {
            space[at..at + length].copy_from_slice(&source[start..start + length]);
        }
        at += length;
    });
    debug_assert_eq!(at, bytes);
    out.truncate(end);
}

/// Visits the values of some rows of several arrays.
fn visit_rows(arrays: &[ArrayRef], rows: &Range<usize>, visitor: &mut impl FnMut(&[u8], usize, usize)) {
    let mut first = 0;
    for array in arrays {
        let (from, to) = (rows.start.max(first), rows.end.min(first + array.len()));
        if from < to {
            visit(array, from - first..to - first, visitor);
        }
        first += array.len();
    }
}

/// Divides a chunk into pages at the common boundaries of all columns, and further where values are long.
fn spans(validity: &Validity, lengths: &[u32]) -> Vec<Span> {
    let mut spans = Vec::new();
    for (rows, values) in validity.pages() {
        let bytes_of =
            |lengths: &[u32]| lengths.iter().map(|&length| length as usize + PREFIX_BYTES).sum::<usize>();
        let bytes = bytes_of(&lengths[values.clone()]);
        if bytes <= PAGE_BYTES {
            spans.push(Span { rows, bytes });
            continue;
        }
        let mut lengths = lengths[values].iter();
        let mut span = Span { rows: rows.start..rows.start, bytes: 0 };
        for row in rows {
            if validity.word(row) & 1 == 1 {
                let length = lengths.next().map_or(0, |&length| length as usize);
                if span.bytes + PREFIX_BYTES + length > PAGE_BYTES && !span.rows.is_empty() {
                    let next = row..row;
                    spans.push(std::mem::replace(&mut span, Span { rows: next, bytes: 0 }));
                }
                span.bytes += PREFIX_BYTES + length;
            }
            span.rows.end = row + 1;
        }
        spans.push(span);
    }
    spans
}
