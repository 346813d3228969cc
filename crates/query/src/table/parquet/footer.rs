//! Footers of Parquet files, checked against the file before use.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use super::thrift;
use crate::Error;
use crate::table::guard::{damaged, decode, named};
use crate::table::source::Source;

/// Bytes at the end of a file: the footer's length and the magic number.
const TAIL_BYTES: u64 = 8;

/// Bytes of the magic number at the start.
const HEAD_BYTES: u64 = 4;

/// A Parquet file and its footer.
#[derive(Debug)]
pub(in crate::table) struct ParquetFile {
    pub(in crate::table) source: Source,
    pub(in crate::table) metadata: Arc<ParquetMetaData>,
    /// The file's own schema.
    pub(in crate::table) schema: SchemaRef,
}

impl ParquetFile {
    /// Reads a file's footer.
    pub(in crate::table) fn open(source: Source) -> Result<ParquetFile, Error> {
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
        thrift::length(&footer).map_err(|_| damaged(&path, "its footer is not readable"))?;
        thrift::check_schema(&footer).map_err(|how| damaged(&path, how))?;
        let (metadata, schema) = decode(&path, || parse(&footer)).map_err(named(&path))?;
        let file = ParquetFile { source, metadata: Arc::new(metadata), schema };
        decode(&path, || file.check())?;
        Ok(file)
    }

    /// Rows of the file.
    pub(in crate::table) fn rows(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows() as u64).sum()
    }

    /// Leaves of `columns`, in file order, as (leaf, column).
    pub(in crate::table) fn leaves(&self, columns: &[usize]) -> Vec<(usize, usize)> {
        let schema = self.metadata.file_metadata().schema_descr();
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
        let fields = self.metadata.file_metadata().schema_descr().root_schema().get_fields().len();
        if fields != self.schema.fields().len() {
            let reason = "a column is a group without fields, which is not supported".into();
            return Err(Error::Table { path: self.source.path.clone(), reason });
        }
        let mut rows = 0u64;
        for (index, group) in self.metadata.row_groups().iter().enumerate() {
            self.check_group(group)
                .map_err(|how| damaged(&self.source.path, format_args!("row group {index}: {how}")))?;
            rows = rows.saturating_add(group.num_rows() as u64);
        }
        if i64::try_from(rows).is_err() {
            return Err(damaged(&self.source.path, "its row groups claim more than 2^63 rows"));
        }
        Ok(())
    }

    /// Checks a row group against the file; on an error, returns the reason.
    fn check_group(&self, group: &RowGroupMetaData) -> Result<(), String> {
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
            if start.checked_add(length).is_none_or(|end| end > self.source.size) {
                return Err(format!("column {name} ends beyond the file"));
            }
        }
        Ok(())
    }
}

fn parse(footer: &[u8]) -> Result<(ParquetMetaData, SchemaRef), Error> {
    let metadata = ParquetMetaDataReader::decode_metadata(footer)?;
    let file = metadata.file_metadata();
    let schema: Schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())?;
    Ok((metadata, Arc::new(schema)))
}
