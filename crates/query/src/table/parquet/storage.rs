//! Storage of Parquet columns (sizes, codec, encoding), from the footers.

use parquet::basic::Compression;

use super::footer::ParquetFile;
use crate::cost::operators::Codec;
use crate::table::options::ColumnStorage;

/// Storage of a column over all files, summed over its leaves.
pub(in crate::table) fn storage(files: &[ParquetFile], column: usize) -> ColumnStorage {
    let mut found = ColumnStorage { is_dictionary: true, ..ColumnStorage::default() };
    let mut chunks = 0;
    for file in files {
        let schema = file.metadata.file_metadata().schema_descr();
        for group in file.metadata.row_groups() {
            let leaves = group.columns().iter().enumerate();
            for (_, chunk) in leaves.filter(|&(leaf, _)| schema.get_column_root_idx(leaf) == column) {
                // Unverified: used only for estimates.
                let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
                found.file_bytes = found.file_bytes.saturating_add(bytes(chunk.compressed_size()));
                found.encoded_bytes = found.encoded_bytes.saturating_add(bytes(chunk.uncompressed_size()));
                found.is_dictionary &= chunk.dictionary_page_offset().is_some();
                found.codec = known(chunk.compression()).max(found.codec);
                chunks += 1;
            }
        }
    }
    found.is_dictionary &= chunks > 0;
    found
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
