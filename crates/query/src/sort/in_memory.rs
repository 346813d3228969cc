//! In-memory sort: a radix sort of key codes, with comparisons of rows where codes are equal but lossy.

use super::context::Context;
use super::key::digit::{self, Digits, Prefix};
use super::key::packing::Packing;
use super::key::range::Range;
use super::key::{KeyColumn, KeyForm, Keys};
use super::radix::{self, Wide};
use super::row::gather::Rows;
use super::row::layout::Layout;
use super::row::{BLOCK_ROWS, RowView};
use crate::Error;

/// Appends the places of the rows in `bytes`, the block with index `block`.
///
/// # Errors
/// If the bytes do not end at a row boundary, or a place does not fit into 32 bits.
pub(crate) fn walk(
    layout: &Layout,
    bytes: &[u8],
    block: usize,
    shift: u32,
    places: &mut Vec<u32>,
) -> Result<(), Error> {
    let block =
        u32::try_from(block).ok().filter(|block| block.leading_zeros() >= shift).ok_or_else(too_many)?;
    let first = block << shift;
    let mut offset = 0;
    while offset < bytes.len() {
        if offset >> shift > 0 {
            return Err(too_many());
        }
        let length = layout.row_len(&bytes[offset..]).ok_or_else(damaged)?;
        places.push(first | offset as u32);
        offset += length;
    }
    Ok(())
}

/// Error for rows that 32-bit places cannot address, which the memory plan excludes.
fn too_many() -> Error {
    Error::Query("the rows of a partition exceed what is sorted at once; use a smaller --memory".into())
}

/// Error for rows that were changed in a spill file.
fn damaged() -> Error {
    Error::Query(
        "the rows read back from a spill file are damaged; check the disk of the spill directory".into(),
    )
}

/// Encodes blocks of rows as codes; reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Coder {
    digits: Vec<Digits>,
}

impl Coder {
    /// Appends the codes of rows.
    pub(crate) fn codes(
        &mut self,
        layout: &Layout,
        keys: &Keys,
        packing: &Packing,
        rows: &[RowView<'_>],
        codes: &mut Vec<u64>,
    ) {
        let columns = &keys.columns;
        self.digits.resize_with(columns.len(), Digits::default);
        for (key, (column, digits)) in columns.iter().zip(&mut self.digits).enumerate() {
            digits.clear();
            if packing.has(key) {
                digit::extend(layout, column, packing.prefix(key), rows.iter().copied(), digits);
            }
        }
        packing.codes(keys, &self.digits, rows.len(), codes);
    }
}

/// Sorts rows in memory; reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Orderer {
    digits: Vec<Digits>,
    codes: Vec<u64>,
    narrow: Vec<u64>,
    narrow_scratch: Vec<u64>,
    wide: Vec<Wide>,
    wide_scratch: Vec<Wide>,
}

/// Sorted rows.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    /// Places of the rows, in sort order.
    pub(crate) places: Vec<u32>,
    /// Ranges of the keys.
    pub(crate) ranges: Vec<Range>,
}

impl Orderer {
    /// Returns the places of all rows in storage order.
    ///
    /// # Errors
    /// If a chunk does not end at a row boundary.
    pub(crate) fn places<B: AsRef<[u8]>>(
        &self,
        context: &Context,
        rows: Rows<'_, B>,
    ) -> Result<Vec<u32>, Error> {
        let mut places = Vec::new();
        for (index, block) in rows.blocks.iter().enumerate() {
            walk(&context.layout, block.as_ref(), index, rows.shift, &mut places)?;
        }
        Ok(places)
    }

    /// Sorts all rows.
    ///
    /// # Errors
    /// If a chunk does not end at a row boundary.
    pub(crate) fn order<B: AsRef<[u8]>>(
        &mut self,
        context: &Context,
        rows: Rows<'_, B>,
    ) -> Result<Ordered, Error> {
        let places = self.places(context, rows)?;
        let ranges = self.ranges(context, rows, &places);
        let packing = Packing::new(&context.keys, &ranges, false);
        let columns = &context.keys.columns;
        for (key, column) in columns.iter().enumerate().filter(|(key, _)| packing.has(*key)) {
            if matches!(column.form, KeyForm::Bytes(_)) {
                self.digits[key].clear();
                let prefix = packing.prefix(key);
                each_block(&context.layout, rows, &places, |views| {
                    extend(&context.layout, column, prefix, views, &mut self.digits[key]);
                });
            }
        }
        self.codes.clear();
        packing.codes(&context.keys, &self.digits, places.len(), &mut self.codes);
        let places = self.sort(context, rows, places, &packing);
        Ok(Ordered { places, ranges })
    }

    /// Returns the ranges of the keys, and fills the digits of all columns but those of bytes, which need the ranges.
    fn ranges<B: AsRef<[u8]>>(&mut self, context: &Context, rows: Rows<'_, B>, places: &[u32]) -> Vec<Range> {
        let (layout, columns) = (&context.layout, &context.keys.columns);
        self.digits.resize_with(columns.len(), Digits::default);
        self.digits.iter_mut().for_each(Digits::clear);
        let mut ranges = vec![Range::none(); columns.len()];
        let any = Prefix::default();
        each_block(layout, rows, places, |views| {
            for ((column, range), digits) in columns.iter().zip(&mut ranges).zip(&mut self.digits) {
                if matches!(column.form, KeyForm::Bytes(_)) {
                    range.add_bytes(layout, column, views.iter().copied());
                } else {
                    extend(layout, column, &any, views, digits);
                }
            }
        });
        for ((column, range), digits) in columns.iter().zip(&mut ranges).zip(&self.digits) {
            range.add(column, digits);
        }
        ranges
    }

    fn sort<B: AsRef<[u8]>>(
        &mut self,
        context: &Context,
        rows: Rows<'_, B>,
        mut places: Vec<u32>,
        packing: &Packing,
    ) -> Vec<u32> {
        let place_bits = u32::BITS - places.last().copied().unwrap_or(0).leading_zeros();
        let compare = |left: &u32, right: &u32| {
            let view = |place: u32| context.layout.view(rows.at(place), 0);
            context.keys.compare(&context.layout, view(*left), view(*right))
        };
        if packing.bits + place_bits <= u64::BITS {
            let pairs = self.codes.iter().zip(&places);
            self.narrow.clear();
            self.narrow.extend(pairs.map(|(code, &place)| code << place_bits | u64::from(place)));
            radix::sort(&mut self.narrow, &mut self.narrow_scratch, place_bits, packing.bits);
            let mask = (1_u64 << place_bits) - 1;
            places.clear();
            places.extend(self.narrow.iter().map(|item| (item & mask) as u32));
            if !packing.is_lossless() {
                let codes = self.narrow.iter().map(|item| item >> place_bits);
                break_ties(codes, &mut places, compare);
            }
        } else {
            self.wide.clear();
            let pairs = self.codes.iter().zip(&places);
            self.wide.extend(pairs.map(|(&code, &place)| Wide { code, place }));
            radix::sort(&mut self.wide, &mut self.wide_scratch, 0, packing.bits);
            places.clear();
            places.extend(self.wide.iter().map(|item| item.place));
            if !packing.is_lossless() {
                break_ties(self.wide.iter().map(|item| item.code), &mut places, compare);
            }
        }
        places
    }
}

fn extend(layout: &Layout, column: &KeyColumn, prefix: &Prefix, views: &[RowView<'_>], digits: &mut Digits) {
    digit::extend(layout, column, prefix, views.iter().copied(), digits);
}

/// Calls `take` with each block of rows.
fn each_block<B: AsRef<[u8]>>(
    layout: &Layout,
    rows: Rows<'_, B>,
    places: &[u32],
    mut take: impl FnMut(&[RowView<'_>]),
) {
    let mut views = [RowView::default(); BLOCK_ROWS];
    for places in places.chunks(BLOCK_ROWS) {
        for (view, &place) in views.iter_mut().zip(places) {
            *view = layout.view(rows.at(place), 0);
        }
        take(&views[..places.len()]);
    }
}

/// Sorts rows with equal codes by comparing their values.
fn break_ties(
    codes: impl Iterator<Item = u64>,
    places: &mut [u32],
    mut compare: impl FnMut(&u32, &u32) -> std::cmp::Ordering,
) {
    let mut codes = codes.peekable();
    let mut begin = 0;
    while let Some(code) = codes.next() {
        let mut end = begin + 1;
        while codes.next_if_eq(&code).is_some() {
            end += 1;
        }
        if end - begin > 1 {
            places[begin..end].sort_unstable_by(&mut compare);
        }
        begin = end;
    }
}
