//! Storage of Parquet columns (sizes, codec, encoding), from the footers.

use super::footer::ParquetFile;
use crate::table::options::ColumnStorage;

/// Storage of a column over all files, summed over its leaves.
pub(in crate::table) fn storage(files: &[ParquetFile], column: usize) -> ColumnStorage {
    let mut found = ColumnStorage { is_dictionary: true, ..ColumnStorage::default() };
    let mut chunks = 0;
    for file in files {
        for (leaf, _) in file.leaves(&[column]) {
            for (place, _) in file.groups.places(leaf) {
                // Unverified: used only for estimates.
                found.file_bytes = found.file_bytes.saturating_add(place.bytes());
                found.encoded_bytes = found.encoded_bytes.saturating_add(place.uncompressed);
                found.is_dictionary &= place.has_dictionary;
                found.codec = place.codec.max(found.codec);
                chunks += 1;
            }
        }
    }
    found.is_dictionary &= chunks > 0;
    found
}
