//! The row groups of a Parquet file, in little memory.
//!
//! The library's structures take more than half a kilobyte for a column chunk: as much as the limit of a job for a table
//! of many row groups and columns. So the row groups stay encoded as in the footer, which is a fifth of that. They are
//! decoded when they are needed, a few at a time. Beside them are the numbers that are often needed.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
    ParquetStatisticsPolicy, RowGroupMetaData, SortingColumn,
};
use parquet::schema::types::SchemaDescPtr;

use super::thrift::RowGroupBytes;
use crate::Error;
use crate::cost::operators::Codec;

/// Row groups that are decoded at once for their statistics: enough that the effort for each call is small.
const DECODED_GROUPS: usize = 16;

/// Maximum dictionary page, in file bytes, of a column scanned as dictionary arrays: its values stay in the first-level
/// cache.
const DICTIONARY_MAX_BYTES: i64 = 16 << 10;

/// Encoded `FileMetaData` up to the header of its list of row groups: a version, no rows.
const FILE_START: [u8; 5] = [0x15, 2, 0x26, 0, 0x19];
/// Header of a list of structures whose length follows.
const LONG_LIST: u8 = 0xfc;

/// Place and encoding of a column chunk.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct ChunkPlace {
    start: u64,
    length: u64,
    /// Decompressed bytes of its pages. Not checked.
    pub(in crate::table) uncompressed: u64,
    pub(in crate::table) codec: Codec,
    pub(in crate::table) has_dictionary: bool,
    /// Whether its values are strings that are all in a small dictionary.
    pub(in crate::table) is_coded: bool,
}

impl ChunkPlace {
    /// Returns the place of a checked chunk.
    fn of(chunk: &ColumnChunkMetaData) -> ChunkPlace {
        let (start, length) = chunk.byte_range();
        ChunkPlace {
            start,
            length,
            uncompressed: u64::try_from(chunk.uncompressed_size()).unwrap_or(0),
            codec: known(chunk.compression()),
            has_dictionary: chunk.dictionary_page_offset().is_some(),
            is_coded: has_small_dictionary(chunk),
        }
    }

    /// Its bytes in the file.
    pub(in crate::table) fn range(&self) -> Range<u64> {
        self.start..self.start + self.length
    }

    /// Returns the number of its bytes in the file.
    pub(in crate::table) fn bytes(&self) -> u64 {
        self.length
    }
}

/// Row groups of a file.
#[derive(Debug)]
pub(in crate::table) struct RowGroups {
    descriptor: SchemaDescPtr,
    encoded: Vec<u8>,
    /// End of each row group in `encoded`. Footers have less than 4 GiB.
    ends: Vec<u32>,
    rows: Vec<u64>,
    /// The chunks of all leaves of the first row group, then of the second one.
    places: Vec<ChunkPlace>,
    /// The order that all row groups with rows declare.
    sorting: Option<Vec<SortingColumn>>,
}

impl RowGroups {
    /// Takes the row groups of a footer, and passes each one to `check` before its numbers are used.
    ///
    /// # Errors
    /// Returns the errors of the library, and of `check`, which is given the index of the row group.
    pub(super) fn new(
        descriptor: SchemaDescPtr,
        mut footer: Vec<u8>,
        found: Option<RowGroupBytes>,
        check: impl Fn(usize, &RowGroupMetaData) -> Result<(), Error>,
    ) -> Result<RowGroups, Error> {
        let RowGroupBytes { start, ends, .. } =
            found.unwrap_or(RowGroupBytes { list: 0, start: 0, ends: Vec::new() });
        footer.truncate(ends.last().copied().unwrap_or(0));
        footer.drain(..start);
        footer.shrink_to_fit();
        let leaves = descriptor.num_columns();
        let count = ends.len();
        let mut groups = RowGroups {
            descriptor,
            encoded: footer,
            ends: ends.into_iter().map(|end| (end - start) as u32).collect(),
            rows: Vec::with_capacity(count),
            places: Vec::with_capacity(count.saturating_mul(leaves)),
            sorting: None,
        };
        // All that is decoded later without a guard against panics is decoded here, too.
        let options = groups.options(ParquetStatisticsPolicy::KeepAll, ParquetStatisticsPolicy::SkipAll);
        let mut has_rows = false;
        for index in 0..count {
            let metadata = groups.decode(index..index + 1, &options)?;
            let group = metadata.row_group(0);
            check(index, group)?;
            groups.rows.push(group.num_rows() as u64);
            groups.places.extend(group.columns().iter().map(ChunkPlace::of));
            if group.num_rows() > 0 {
                let declared = group.sorting_columns();
                if !has_rows {
                    groups.sorting = declared.cloned();
                } else if groups.sorting.as_ref() != declared {
                    groups.sorting = None;
                }
                has_rows = true;
            }
        }
        Ok(groups)
    }

    /// Returns the number of row groups.
    pub(in crate::table) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows of a row group.
    pub(in crate::table) fn rows(&self, index: usize) -> u64 {
        self.rows[index]
    }

    /// Returns the rows of all row groups.
    pub(in crate::table) fn all_rows(&self) -> u64 {
        self.rows.iter().copied().fold(0, u64::saturating_add)
    }

    /// Returns the chunk of a leaf in a row group.
    pub(in crate::table) fn place(&self, index: usize, leaf: usize) -> &ChunkPlace {
        &self.places[index * self.descriptor.num_columns() + leaf]
    }

    /// Returns the chunks of a leaf in all row groups, with the rows of these.
    pub(in crate::table) fn places(&self, leaf: usize) -> impl Iterator<Item = (&ChunkPlace, u64)> {
        let of_leaf = self.places.iter().skip(leaf).step_by(self.descriptor.num_columns());
        of_leaf.zip(self.rows.iter().copied())
    }

    /// Returns the order that all row groups with rows declare, if they declare the same one.
    pub(super) fn sorting(&self) -> Option<&[SortingColumn]> {
        self.sorting.as_deref()
    }

    /// Returns the bytes in memory.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        let places = self.places.capacity() * size_of::<ChunkPlace>();
        let groups = self.ends.capacity() * size_of::<u32>() + self.rows.capacity() * size_of::<u64>();
        self.encoded.capacity() + places + groups
    }

    /// Returns the bytes in memory of a decoded row group.
    pub(in crate::table) fn decoded_bytes(&self) -> usize {
        self.descriptor.num_columns() * size_of::<ColumnChunkMetaData>()
    }

    /// Decodes a row group, without statistics: it is the only one in what is returned.
    ///
    /// # Errors
    /// Returns the errors of the library.
    pub(super) fn group(&self, index: usize) -> Result<Arc<ParquetMetaData>, Error> {
        let options = self.options(ParquetStatisticsPolicy::SkipAll, ParquetStatisticsPolicy::SkipAll);
        self.decode(index..index + 1, &options).map(Arc::new)
    }

    /// Decodes all row groups with the statistics of a leaf, and passes a few at a time to `take`; none if there are none.
    ///
    /// # Errors
    /// Returns the errors of the library and of `take`.
    pub(super) fn with_statistics(
        &self,
        leaf: usize,
        mut take: impl FnMut(&[RowGroupMetaData]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let of_leaf = ParquetStatisticsPolicy::skip_except(&[leaf]);
        let options = self
            .options(ParquetStatisticsPolicy::SkipAll, of_leaf)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        if self.len() == 0 {
            return take(&[]);
        }
        for start in (0..self.len()).step_by(DECODED_GROUPS) {
            let end = self.len().min(start + DECODED_GROUPS);
            take(self.decode(start..end, &options)?.row_groups())?;
        }
        Ok(())
    }

    fn options(
        &self,
        encodings: ParquetStatisticsPolicy,
        bounds: ParquetStatisticsPolicy,
    ) -> ParquetMetaDataOptions {
        ParquetMetaDataOptions::new()
            .with_schema(Arc::clone(&self.descriptor))
            .with_encoding_stats_policy(encodings)
            .with_column_stats_policy(bounds)
    }

    fn decode(
        &self,
        groups: Range<usize>,
        options: &ParquetMetaDataOptions,
    ) -> Result<ParquetMetaData, Error> {
        let end_of = |count: usize| count.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        let encoded = &self.encoded[end_of(groups.start)..end_of(groups.end)];
        let mut file = Vec::with_capacity(FILE_START.len() + encoded.len() + 3);
        file.extend(FILE_START);
        // At most `DECODED_GROUPS`, so that one byte has the length of the list.
        file.extend([LONG_LIST, groups.len() as u8]);
        file.extend(encoded);
        file.push(0);
        Ok(ParquetMetaDataReader::decode_metadata_with_options(&file, Some(options))?)
    }
}

/// Maps a compression to a known codec of about the same cost.
fn known(compression: Compression) -> Codec {
    match compression {
        Compression::UNCOMPRESSED => Codec::None,
        Compression::SNAPPY => Codec::Snappy,
        Compression::LZ4 | Compression::LZ4_RAW | Compression::LZO => Codec::Lz4,
        Compression::ZSTD(_) | Compression::GZIP(_) | Compression::BROTLI(_) => Codec::Zstd,
    }
}

fn has_small_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    let Some(dictionary) = chunk.dictionary_page_offset() else { return false };
    let bytes = chunk.data_page_offset().saturating_sub(dictionary);
    chunk.column_type() == Type::BYTE_ARRAY
        && (0..=DICTIONARY_MAX_BYTES).contains(&bytes)
        && all_pages_are_coded(chunk)
}

/// Returns whether all data pages are dictionary-encoded, by the page encoding statistics.
fn all_pages_are_coded(chunk: &ColumnChunkMetaData) -> bool {
    match chunk.page_encoding_stats_mask() {
        Some(mask) => mask.is_only(Encoding::RLE_DICTIONARY) || mask.is_only(Encoding::PLAIN_DICTIONARY),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::table::parquet::thrift;

    /// A footer of 40 row groups, more than are decoded at once.
    fn footer() -> Vec<u8> {
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter((0..200).map(|row| (row % 7 > 0).then_some(row))));
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((0..200).map(|row| format!("{}", row % 9))));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let order = vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }];
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(5));
        let properties = properties.set_sorting_columns(Some(order)).set_compression(Compression::SNAPPY);
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        let mut file = writer.into_inner().unwrap();
        // The length of the footer and the magic number.
        file.truncate(file.len() - 4);
        let length = u32::from_le_bytes(*file.last_chunk().unwrap()) as usize;
        file.truncate(file.len() - 4);
        file.split_off(file.len() - length)
    }

    #[test]
    fn row_groups_are_those_of_the_library() {
        let footer = footer();
        let whole = ParquetMetaDataReader::decode_metadata(&footer).unwrap();
        let found = thrift::row_groups(&footer).unwrap();
        let descriptor = whole.file_metadata().schema_descr_ptr();
        let groups = RowGroups::new(descriptor, footer, found, |_, _| Ok(())).unwrap();
        assert_eq!((groups.len(), groups.all_rows()), (40, 200));
        assert_eq!(groups.sorting().map(<[_]>::len), Some(1));
        for (index, expected) in whole.row_groups().iter().enumerate() {
            let metadata = groups.group(index).unwrap();
            let group = metadata.row_group(0);
            assert_eq!((groups.rows(index), group.num_rows()), (5, expected.num_rows()));
            for (leaf, chunk) in expected.columns().iter().enumerate() {
                let place = groups.place(index, leaf);
                assert_eq!((place.range().start, place.bytes()), chunk.byte_range());
                assert_eq!(group.column(leaf).byte_range(), chunk.byte_range());
                assert_eq!(place.uncompressed, chunk.uncompressed_size() as u64);
                assert_eq!((place.codec, place.has_dictionary), (Codec::Snappy, true));
                assert_eq!(place.is_coded, leaf == 1);
                assert!(group.column(leaf).statistics().is_none() && chunk.statistics().is_some());
            }
        }
        for leaf in 0..2 {
            let mut next = 0;
            groups
                .with_statistics(leaf, |some| {
                    for (group, expected) in some.iter().zip(&whole.row_groups()[next..]) {
                        assert_eq!(group.column(leaf).statistics(), expected.column(leaf).statistics());
                        assert!(group.column(1 - leaf).statistics().is_none());
                    }
                    next += some.len();
                    Ok(())
                })
                .unwrap();
            assert_eq!(next, 40);
        }
    }
}
