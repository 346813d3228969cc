//! Location of a page's values behind its repetition and definition levels. Pure.
//!
//! The format: <https://github.com/apache/parquet-format#data-pages>.

use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

/// Bytes of the length before the levels of a data page of format version 1.
const LENGTH_BYTES: usize = 4;

/// The maximum levels of a column, which say whether its pages have levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    repetition: i16,
    definition: i16,
}

impl Levels {
    pub(super) fn of(column: &ColumnDescriptor) -> Levels {
        Levels { repetition: column.max_rep_level(), definition: column.max_def_level() }
    }

    /// Returns the bytes of a data page's values; `None` if its levels are damaged, or it is a dictionary.
    pub(super) fn values(self, page: &Page) -> Option<&[u8]> {
        match page {
            Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
                let rest = behind(buf, self.repetition, *rep_level_encoding, *num_values)?;
                behind(rest, self.definition, *def_level_encoding, *num_values)
            }
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let levels = def_levels_byte_len.checked_add(*rep_levels_byte_len)?;
                buf.get(usize::try_from(levels).ok()?..)
            }
            Page::DictionaryPage { .. } => None,
        }
    }
}

/// Returns the bytes behind the levels at the start of `bytes`, if a column with this maximum has any.
fn behind(bytes: &[u8], max: i16, encoding: Encoding, values: u32) -> Option<&[u8]> {
    if max == 0 {
        return Some(bytes);
    }
    if encoding != Encoding::RLE {
        // The deprecated encoding, of as many bits as the maximum has.
        let bits = u64::from(values) * u64::from(i16::BITS - max.leading_zeros());
        return bytes.get(usize::try_from(bits.div_ceil(8)).ok()?..);
    }
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(u32::from_le_bytes(*length) as usize..)
}
