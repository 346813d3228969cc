//! Estimates of the memory of decoded rows, which limit the rows of a batch. Pure.

use arrow_schema::DataType;
use parquet::basic::Type;
use parquet::file::metadata::ColumnChunkMetaData;

use super::thrift::PageHeader;

/// Bytes of a string's offset or dictionary key.
const OFFSET_BYTES: usize = 4;

/// Bytes of a view.
const VIEW_BYTES: usize = 16;

/// Maximum bytes of a batch: below the 2 GiB limit of 4-byte offsets.
const BATCH_MAX_BYTES: usize = 1 << 30;

/// Assumed ratio of string length to the average, for chunks whose pages were not read.
const UNSEEN_STRING_FACTOR: usize = 2;

/// Estimated bytes of a decoded row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowBytes {
    bytes: usize,
    /// Bytes of the chunk added last.
    last: usize,
}

impl RowBytes {
    /// Adds a column whose pages are in memory: strings get the average length of the page where it is largest.
    pub(super) fn add_pages(&mut self, chunk: &ColumnChunkMetaData, pages: Vec<PageHeader>, rows: u64) {
        let of_value = fixed_bytes(chunk).unwrap_or_else(|| {
            let densities = pages.iter().map(|page| page.uncompressed.max(0) / page.values.max(1));
            OFFSET_BYTES.saturating_add(densities.max().unwrap_or(0) as usize)
        });
        self.add(chunk, of_value, rows);
    }

    /// Adds a column whose pages were not read.
    pub(super) fn add_unseen(&mut self, chunk: &ColumnChunkMetaData, rows: u64) {
        let of_value = fixed_bytes(chunk).unwrap_or_else(|| {
            let strings =
                chunk.unencoded_byte_array_data_bytes().unwrap_or_else(|| chunk.uncompressed_size());
            let average = strings.max(0) / chunk.num_values().max(1);
            let average = usize::try_from(average).unwrap_or(usize::MAX);
            average.saturating_mul(UNSEEN_STRING_FACTOR).saturating_add(OFFSET_BYTES)
        });
        self.add(chunk, of_value, rows);
    }

    /// Accounts for the dictionary of the column added last: each row may have its longest string, of `longest` bytes.
    pub(super) fn add_dictionary(&mut self, longest: Option<usize>, wanted: &DataType) {
        let Some(longest) = longest else { return };
        let of_value = match wanted {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => longest,
            DataType::Utf8View | DataType::BinaryView => VIEW_BYTES,
            DataType::Dictionary(..) => OFFSET_BYTES,
            _ => longest,
        };
        let more = of_value.saturating_sub(self.last);
        self.bytes = self.bytes.saturating_add(more);
    }

    fn add(&mut self, chunk: &ColumnChunkMetaData, of_value: usize, rows: u64) {
        // A row of a list has several values.
        let values = (chunk.num_values() as u64).div_ceil(rows.max(1)).max(1);
        self.last = of_value.saturating_mul(usize::try_from(values).unwrap_or(usize::MAX));
        self.bytes = self.bytes.saturating_add(self.last);
    }

    /// Returns the bytes of a row.
    pub(super) fn of_row(self) -> usize {
        self.bytes.max(1)
    }

    /// Returns the rows of a batch of at most `memory` bytes and `most` rows, but at least one.
    pub(super) fn batch_rows(self, most: usize, memory: usize) -> usize {
        (memory.min(BATCH_MAX_BYTES) / self.of_row()).clamp(1, most.max(1))
    }
}

/// Returns the bytes of a decoded value; `None` for strings.
fn fixed_bytes(chunk: &ColumnChunkMetaData) -> Option<usize> {
    Some(match chunk.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        // Decimals are decoded as stored, then widened.
        Type::FIXED_LEN_BYTE_ARRAY => chunk.column_descr().type_length().max(0) as usize + VIEW_BYTES,
        Type::BYTE_ARRAY => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    #[test]
    fn forged_sizes_give_batches_of_one_row() {
        let schema = parse_message_type("message m { optional binary s; }").unwrap();
        let schema = SchemaDescriptor::new(Arc::new(schema));
        for (bytes, values) in [(i64::MAX, 0), (i64::MAX, 1), (i64::MIN, -1), (i64::MAX, i64::MAX)] {
            for strings in [None, Some(bytes)] {
                let chunk = ColumnChunkMetaData::builder(schema.column(0)).set_num_values(values);
                let chunk = chunk.set_total_uncompressed_size(bytes);
                let chunk = chunk.set_unencoded_byte_array_data_bytes(strings).build().unwrap();
                let mut row = RowBytes::default();
                for rows in [0, 1, u64::MAX] {
                    row.add_unseen(&chunk, rows);
                    row.add_dictionary(Some(usize::MAX), &DataType::Utf8);
                }
                assert_eq!(row.batch_rows(8192, 1 << 20), 1);
                let page = PageHeader { uncompressed: bytes, values, ..PageHeader::default() };
                row.add_pages(&chunk, vec![page], 0);
                assert_eq!(row.batch_rows(8192, 1 << 20), 1);
            }
        }
    }
}
