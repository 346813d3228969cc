//! Number columns: dictionary-encoded if that is smaller, else plain.

use arrow_buffer::ScalarBuffer;
use parquet::basic::Encoding;

use super::bits::{append_codes, width_of};
use super::chunk::{Chunk, ChunkWriter, boundary_order};
use super::dictionary::{self, CHECK_VALUES, DICTIONARY_MAX_BYTES, Table};
use super::physical::{Physical, Storage};
use super::validity::Validity;
use crate::Error;
use crate::output::buffer::Buf;

/// Maximum entries of a lookup table: its 128 KiB fit into the second-level cache.
const RANGE_VALUES: usize = 1 << 16;

/// A lookup table is used if it has at most this many times as many entries as there are values.
const RANGE_PARTS: usize = 4;

/// Memory for building dictionaries.
#[derive(Debug, Default)]
pub(super) struct CodeTables {
    pub(super) table: Table,
    pub(super) codes: Vec<u16>,
    pub(super) entries: Buf,
    /// The encoded codes of a page.
    pub(super) packed: Buf,
    range: Vec<u16>,
}

impl CodeTables {
    pub(super) fn memory(&self) -> usize {
        let codes = (self.codes.capacity() + self.range.capacity()) * size_of::<u16>();
        self.table.memory() + codes + self.entries.memory() + self.packed.memory()
    }
}

/// A dictionary whose codes and entries are in [`CodeTables`].
struct Dictionary {
    entries: usize,
    is_sorted: bool,
}

/// Writes a column chunk of numbers; `values` are the non-null values.
pub(super) fn encode<T: Physical>(
    mut chunk: ChunkWriter<'_>,
    values: &ScalarBuffer<T>,
    validity: &Validity,
    storage: Storage,
    tables: &mut CodeTables,
) -> Result<Chunk, Error> {
    debug_assert_eq!(values.len(), validity.values());
    let extremes: Vec<_> = validity.pages().map(|(_, range)| T::extremes(&values[range], storage)).collect();
    let ordered: Vec<(T, T)> = extremes.iter().copied().flatten().collect();
    let all = merged(&ordered, storage);
    if all.is_some_and(|(least, greatest)| !least.fits(storage) || !greatest.fits(storage)) {
        return Err(chunk.error("has a decimal with more digits than its type allows"));
    }
    let dictionary = build(values, all, storage, tables);
    if let Some(Dictionary { entries, is_sorted }) = dictionary {
        chunk.dictionary_page(tables.entries.as_slice(), entries, is_sorted)?;
    }
    for ((rows, range), extremes) in validity.pages().zip(extremes) {
        let bounds =
            extremes.map(|(least, greatest)| (bytes_of(least, storage), bytes_of(greatest, storage)));
        match &dictionary {
            Some(dictionary) => {
                let packed = &mut tables.packed;
                pack(packed, &tables.codes[range], dictionary.entries);
                let encoding = Encoding::RLE_DICTIONARY;
                chunk.data_page(&rows, encoding, packed.len(), |out| {
                    out.extend(packed.as_slice());
                    bounds
                })?;
            }
            None => {
                let bytes = range.len() * storage.length;
                chunk.data_page(&rows, Encoding::PLAIN, bytes, |out| {
                    T::append_range(values, range, storage, out);
                    bounds
                })?;
            }
        }
    }
    let order = boundary_order(&ordered, |one, other| one.is_less(other, storage));
    let statistics =
        T::statistics(all, validity.nulls() as u64, chunk.descr().sort_order().is_signed(), storage.length);
    chunk.finish(statistics, order)
}

/// Encodes the body of a page of codes: their width, then the codes.
pub(super) fn pack(packed: &mut Buf, codes: &[u16], entries: usize) {
    let width = width_of(entries.saturating_sub(1));
    packed.clear();
    packed.push(width as u8);
    append_codes(packed, codes, width);
}

fn bytes_of<T: Physical>(value: T, storage: Storage) -> Vec<u8> {
    let mut bytes = Buf::default();
    T::append(&[value], storage, &mut bytes);
    bytes.as_slice().to_vec()
}

fn merged<T: Physical>(pages: &[(T, T)], storage: Storage) -> Option<(T, T)> {
    pages.iter().copied().reduce(|(least, greatest), page| {
        let least = if page.0.is_less(least, storage) { page.0 } else { least };
        let greatest = if greatest.is_less(page.1, storage) { page.1 } else { greatest };
        (least, greatest)
    })
}

/// Builds a dictionary, if it makes the chunk smaller.
fn build<T: Physical>(
    values: &[T],
    extremes: Option<(T, T)>,
    storage: Storage,
    tables: &mut CodeTables,
) -> Option<Dictionary> {
    tables.codes.clear();
    tables.entries.clear();
    let (least, greatest) = extremes?;
    let range = greatest.above(least).filter(|&range| range < RANGE_VALUES as u64);
    let range = range.map(|range| range as usize + 1).filter(|range| range / RANGE_PARTS <= values.len());
    let is_sorted = range.is_some();
    match range {
        Some(range) => build_by_range(values, least, range, storage, tables)?,
        None => build_by_hash(values, storage, tables)?,
    }
    let entries = tables.entries.len() / storage.length;
    Some(Dictionary { entries, is_sorted })
}

/// Returns whether dictionary and codes are smaller than the plain values.
pub(super) fn is_smaller(entries: usize, entry_bytes: usize, codes: usize, plain_bytes: usize) -> bool {
    let code_bytes = codes * width_of(entries.saturating_sub(1)) as usize / 8;
    entry_bytes <= DICTIONARY_MAX_BYTES && entry_bytes + code_bytes < plain_bytes
}

/// Builds a sorted dictionary of integers in a small range, by a lookup table.
fn build_by_range<T: Physical>(
    values: &[T],
    least: T,
    range: usize,
    storage: Storage,
    tables: &mut CodeTables,
) -> Option<()> {
    tables.range.resize(RANGE_VALUES, 0);
    let places: &mut [u16; RANGE_VALUES] = tables.range.first_chunk_mut().expect("just resized");
    places[..range].fill(0);
    for value in values {
        places[usize::from(value.above_low(least))] = 1;
    }
    let entries = places[..range].iter().map(|&is_used| usize::from(is_used)).sum();
    if !is_smaller(entries, entries * storage.length, values.len(), values.len() * storage.length) {
        return None;
    }
    let mut distinct = Vec::with_capacity(entries);
    for (distance, place) in (0_u16..=u16::MAX).zip(&mut places[..range]) {
        if *place == 1 {
            *place = distinct.len() as u16;
            distinct.push(least.plus(distance));
        }
    }
    T::append(&distinct, storage, &mut tables.entries);
    tables.codes.extend(values.iter().map(|value| places[usize::from(value.above_low(least))]));
    Some(())
}

/// Builds a dictionary of any numbers, in order of first occurrence, by a hash table.
fn build_by_hash<T: Physical>(values: &[T], storage: Storage, tables: &mut CodeTables) -> Option<()> {
    tables.table.clear();
    for (index, part) in values.chunks(CHECK_VALUES).enumerate() {
        for &value in part {
            let (code, is_new) = tables.table.code_of(value.bits(), |_| true)?;
            if is_new {
                T::append(&[value], storage, &mut tables.entries);
            }
            tables.codes.push(code);
        }
        if !dictionary::is_promising(index * CHECK_VALUES + part.len(), tables.table.len()) {
            return None;
        }
    }
    let entry_bytes = tables.entries.len();
    is_smaller(tables.table.len(), entry_bytes, values.len(), values.len() * storage.length).then_some(())
}
