//! Page headers in Thrift's compact protocol (parquet.thrift, `PageHeader`).
//!
//! The library's page writer is not used, because it takes ownership of each page's memory.

use parquet::basic::Encoding;

use crate::output::buffer::Buf;

/// Type of a true boolean field in the compact protocol.
const TYPE_TRUE: u8 = 1;
/// Type of a false boolean field.
const TYPE_FALSE: u8 = 2;
/// Type of a 32-bit integer field.
const TYPE_I32: u8 = 5;
/// Type of a structure field.
const TYPE_STRUCT: u8 = 12;

/// `PageType` of a data page of version 1.
const DATA_PAGE: i32 = 0;
/// `PageType` of a dictionary page.
const DICTIONARY_PAGE: i32 = 2;

/// Sizes of a page's body in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageSizes {
    pub(super) uncompressed: i32,
    pub(super) compressed: i32,
}

/// Appends the header of a data page of `values` values, including nulls.
pub(super) fn data_page(out: &mut Buf, sizes: PageSizes, values: i32, encoding: Encoding) {
    page(out, DATA_PAGE, sizes);
    // Field 5 after field 3: `data_page_header`.
    field(out, 2, TYPE_STRUCT);
    field_i32(out, 1, values);
    field_i32(out, 1, encoding as i32);
    // Encodings of definition and repetition levels.
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

/// Appends a field header: the difference to the previous field's number, and the type.
fn field(out: &mut Buf, delta: u8, kind: u8) {
    out.push(delta << 4 | kind);
}

fn field_i32(out: &mut Buf, delta: u8, value: i32) {
    field(out, delta, TYPE_I32);
    // Zigzag encoding.
    out.varint(u64::from((value << 1 ^ value >> 31).cast_unsigned()));
}
