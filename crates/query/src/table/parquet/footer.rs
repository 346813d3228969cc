//! Footers of Parquet files, checked against the file before use.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};

use super::groups::RowGroups;
use super::thrift;
use super::zones::with_zones;
use crate::Error;
use crate::table::guard::{catch_panics, damaged, name_file};
use crate::table::source::Source;

/// Bytes at the end of a file: the footer's length and the magic number.
const TAIL_BYTES: u64 = 8;

/// Bytes of the magic number at the start.
const HEAD_BYTES: u64 = 4;

/// Header of a list without structures.
const EMPTY_LIST: u8 = 0x0c;

/// A Parquet file and its footer.
#[derive(Debug)]
pub(in crate::table) struct ParquetFile {
    pub(in crate::table) source: Source,
    /// The file's own schema.
    pub(in crate::table) schema: SchemaRef,
    descriptor: SchemaDescPtr,
    pub(in crate::table) groups: RowGroups,
}

impl ParquetFile {
    /// Reads a file's footer. The schema of `other` is shared if the file has the same.
    pub(in crate::table) fn open(source: Source, other: Option<&ParquetFile>) -> Result<ParquetFile, Error> {
        let path = source.path.clone();
        let reader = source.reader()?;
        if source.size < HEAD_BYTES + TAIL_BYTES {
            return Err(damaged(&path, format_args!("{} bytes are too few for a Parquet file", source.size)));
        }
        let tail = reader.read(source.size - TAIL_BYTES, TAIL_BYTES)?;
        let (length, magic) = tail.split_at(4);
        match magic {
            b"PAR1" => {}
            b"PARE" => {
                let reason = "the file is encrypted, which is not supported".into();
                return Err(Error::Table { path, reason });
            }
            _ => return Err(damaged(&path, "it has no footer; it may have been cut off")),
        }
        let length = u64::from(u32::from_le_bytes(length.try_into().expect("four bytes")));
        let start = (source.size - TAIL_BYTES).checked_sub(length).filter(|&start| start >= HEAD_BYTES);
        let start = start.ok_or_else(|| damaged(&path, "its footer is longer than the file"))?;
        let footer = reader.read(start, length)?;
        let unreadable = |_| damaged(&path, "its footer is not readable");
        thrift::length(&footer).map_err(unreadable)?;
        thrift::check_schema(&footer).map_err(|how| damaged(&path, how))?;
        let found = thrift::row_groups(&footer).map_err(unreadable)?;
        let (descriptor, schema) = catch_panics(&path, || {
            let ends = found.as_ref().and_then(|found| Some((found.list, *found.ends.last()?)));
            parse(&footer, ends, other)
        })
        .map_err(name_file(&path))?;
        let check = |index, group: &RowGroupMetaData| {
            let checked = check_group(group, source.size);
            checked.map_err(|how| damaged(&path, format_args!("row group {index}: {how}")))
        };
        let groups = || RowGroups::new(Arc::clone(&descriptor), footer, found, check);
        let groups = catch_panics(&path, groups).map_err(name_file(&path))?;
        let file = ParquetFile { source, schema, descriptor, groups };
        file.check()?;
        Ok(file)
    }

    /// Returns the rows of the file.
    pub(in crate::table) fn rows(&self) -> u64 {
        self.groups.all_rows()
    }

    /// The columns and leaves as Parquet has them.
    pub(super) fn descriptor(&self) -> &SchemaDescriptor {
        &self.descriptor
    }

    /// Returns the bytes in memory, without the schema, which files share.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        size_of::<ParquetFile>() + self.source.path.as_os_str().len() + self.groups.memory_bytes()
    }

    /// Leaves of `columns`, in file order, as (leaf, column).
    pub(in crate::table) fn leaves(&self, columns: &[usize]) -> Vec<(usize, usize)> {
        let schema = self.descriptor();
        let mut is_wanted = vec![false; self.schema.fields().len()];
        for &column in columns {
            if let Some(is_wanted) = is_wanted.get_mut(column) {
                *is_wanted = true;
            }
        }
        let leaves = (0..schema.num_columns()).map(|leaf| (leaf, schema.get_column_root_idx(leaf)));
        leaves.filter(|&(_, column)| is_wanted[column]).collect()
    }

    fn check(&self) -> Result<(), Error> {
        let fields = self.descriptor().root_schema().get_fields().len();
        if fields != self.schema.fields().len() {
            let reason = "a column is a group without fields, which is not supported".into();
            return Err(Error::Table { path: self.source.path.clone(), reason });
        }
        if i64::try_from(self.rows()).is_err() {
            return Err(damaged(&self.source.path, "its row groups claim more than 2^63 rows"));
        }
        Ok(())
    }
}

/// Refuses compression of columns to be read for which this build has no decoder.
pub(super) fn check_codecs(
    group: &RowGroupMetaData,
    leaves: &[(usize, usize)],
    path: &Path,
) -> Result<(), Error> {
    let name = |chunk: &ColumnChunkMetaData| match chunk.compression() {
        Compression::BROTLI(_) => Some("brotli"),
        Compression::LZO => Some("lzo"),
        _ => None,
    };
    let mut chunks = leaves.iter().map(|&(leaf, _)| group.column(leaf));
    let Some((chunk, codec)) = chunks.find_map(|chunk| Some((chunk, name(chunk)?))) else {
        return Ok(());
    };
    let column = chunk.column_path().string();
    let reason = format!(
        "column {column} is compressed with {codec}, which is not supported; rewrite the file with zstd, snappy or \
         another compression"
    );
    Err(Error::Table { path: path.to_owned(), reason })
}

/// Checks a row group against a file of `size` bytes; on an error, returns the reason.
fn check_group(group: &RowGroupMetaData, size: u64) -> Result<(), String> {
    if group.num_rows() < 0 {
        return Err("a negative number of rows".into());
    }
    for chunk in group.columns() {
        let name = chunk.column_path().string();
        if chunk.file_path().is_some() {
            return Err(format!("column {name} lies in another file, which is not supported"));
        }
        if chunk.data_page_offset() < 0 || chunk.compressed_size() < 0 || chunk.num_values() < 0 {
            return Err(format!("column {name} has a negative offset, size or count"));
        }
        let (start, length) = chunk.byte_range();
        if start.checked_add(length).is_none_or(|end| end > size) {
            return Err(format!("column {name} ends beyond the file"));
        }
    }
    Ok(())
}

/// Decodes the schema of a footer, whose row groups lie between the header of their list and its end; shares that of
/// another file if it is the same.
fn parse(
    footer: &[u8],
    row_groups: Option<(usize, usize)>,
    other: Option<&ParquetFile>,
) -> Result<(SchemaDescPtr, SchemaRef), Error> {
    let metadata = match row_groups {
        Some((list, end)) => {
            let without = [&footer[..list], &[EMPTY_LIST], &footer[end..]].concat();
            ParquetMetaDataReader::decode_metadata(&without)?
        }
        None => ParquetMetaDataReader::decode_metadata(footer)?,
    };
    let file = metadata.file_metadata();
    let schema: Schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())?;
    let schema = with_zones(schema, file.key_value_metadata());
    let descriptor = file.schema_descr_ptr();
    Ok(match other {
        Some(other) if *other.descriptor == *descriptor && *other.schema == schema => {
            (Arc::clone(&other.descriptor), Arc::clone(&other.schema))
        }
        _ => (descriptor, Arc::new(schema)),
    })
}
