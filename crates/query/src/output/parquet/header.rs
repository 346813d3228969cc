//! Page headers, in Thrift's compact protocol (parquet.thrift, `PageHeader`).
//!
//! They are written here and not by the library's writer of pages, which takes ownership of each page's memory.

use parquet::basic::Encoding;

use crate::output::buffer::Buf;

/// A field of the compact protocol that is true.
const TYPE_TRUE: u8 = 1;
/// A field that is false.
const TYPE_FALSE: u8 = 2;
/// A field with a number of 32 bits.
const TYPE_I32: u8 = 5;
/// A field with fields.
const TYPE_STRUCT: u8 = 12;

/// A data page of version 1, of `PageType`.
const DATA_PAGE: i32 = 0;
/// A dictionary page, of `PageType`.
const DICTIONARY_PAGE: i32 = 2;

/// Sizes of a page's body in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageSizes {
    pub(super) uncompressed: i32,
    pub(super) compressed: i32,
}

/// Appends the header of a data page of `values` values, nulls included.
pub(super) fn data_page(out: &mut Buf, sizes: PageSizes, values: i32, encoding: Encoding) {
    page(out, DATA_PAGE, sizes);
    // Field 5 after field 3: `data_page_header`.
    field(out, 2, TYPE_STRUCT);
    field_i32(out, 1, values);
    field_i32(out, 1, encoding as i32);
    // Levels of definition and repetition.
    field_i32(out, 1, Encoding::RLE as i32);
    field_i32(out, 1, Encoding::RLE as i32);
    out.extend(&[0, 0]);
}

/// Appends the header of a dictionary page of `values` values.
pub(super) fn dictionary_page(out: &mut Buf, sizes: PageSizes, values: i32, is_sorted: bool) {
    page(out, DICTIONARY_PAGE, sizes);
    // Field 7 after field 3: `dictionary_page_header`.
    field(out, 4, TYPE_STRUCT);
    field_i32(out, 1, values);
    field_i32(out, 1, Encoding::PLAIN as i32);
    field(out, 1, if is_sorted { TYPE_TRUE } else { TYPE_FALSE });
    out.extend(&[0, 0]);
}

fn page(out: &mut Buf, kind: i32, sizes: PageSizes) {
    field_i32(out, 1, kind);
    field_i32(out, 1, sizes.uncompressed);
    field_i32(out, 1, sizes.compressed);
}

/// A field's header: how much its number is above that of the field before, and its type.
fn field(out: &mut Buf, delta: u8, kind: u8) {
    out.push(delta << 4 | kind);
}

fn field_i32(out: &mut Buf, delta: u8, value: i32) {
    field(out, delta, TYPE_I32);
    // Zigzag.
    out.varint(u64::from((value << 1 ^ value >> 31).cast_unsigned()));
}
