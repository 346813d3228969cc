//! Columns encoded by the library: lists, structures, maps and rare types.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{FieldRef, Schema};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::SchemaDescPtr;

use super::chunk::Chunk;
use super::validity::PAGE_ROWS;
use crate::Error;
use crate::output::buffer::Buf;

/// A column encoded by the library, with a schema of only this column.
pub(super) struct Nested {
    field: FieldRef,
    descr: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    factory: ArrowRowGroupWriterFactory,
}

impl fmt::Debug for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nested").field("field", &self.field).finish_non_exhaustive()
    }
}

/// Metadata that the library returns when a row group is closed.
type Closed = (RowGroupMetaData, Vec<Option<ColumnIndexMetaData>>, Vec<Option<OffsetIndexMetaData>>);

impl Nested {
    /// # Errors
    /// If the library does not support the type.
    pub(super) fn new(field: &FieldRef, compression: Compression) -> Result<Nested, Error> {
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let descr = Arc::new(ArrowSchemaConverter::new().convert(&schema)?);
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .build();
        let properties = Arc::new(properties);
        // The factory needs a file writer for its schema and properties; nothing is written to it.
        let file = SerializedFileWriter::new(io::sink(), descr.root_schema_ptr(), Arc::clone(&properties))?;
        let factory = ArrowRowGroupWriterFactory::new(&file, schema);
        factory.create_column_writers(0)?;
        Ok(Nested { field: Arc::clone(field), descr, properties, factory })
    }

    /// Returns the number of leaf columns.
    pub(super) fn leaves(&self) -> usize {
        self.descr.num_columns()
    }

    /// Appends the chunks of all leaf columns.
    pub(super) fn encode(&self, arrays: &[ArrayRef], out: &mut Buf) -> Result<Vec<Chunk>, Error> {
        let mut writers = self.factory.create_column_writers(0)?;
        for array in arrays {
            for (leaf, writer) in compute_leaves(&self.field, array)?.iter().zip(&mut writers) {
                writer.write(leaf)?;
            }
        }
        let chunks: Result<Vec<_>, _> = writers.into_iter().map(|writer| writer.close()).collect();
        let base = out.len();
        let (group, columns, offsets) = self.append(chunks?, out)?;
        let indexes = columns.into_iter().zip(offsets);
        let chunks = group.columns().iter().cloned().zip(indexes).map(|(metadata, (column, offset))| {
            let column_index = column.unwrap_or(ColumnIndexMetaData::NONE);
            let offset_index =
                offset.ok_or_else(|| Error::Query("a column has no offset index".to_owned()))?;
            Chunk { metadata, column_index, offset_index }.placed(base as i64)
        });
        chunks.collect()
    }

    /// Copies encoded chunks from the library to `out` as a row group.
    fn append(&self, chunks: Vec<ArrowColumnChunk>, out: &mut Buf) -> Result<Closed, Error> {
        let mut closed = None;
        let mut tracked = TrackedWrite::new(out);
        let (descr, properties) = (Arc::clone(&self.descr), Arc::clone(&self.properties));
        let on_close = |tracked: &mut TrackedWrite<&mut Buf>, group, _, columns, offsets| {
            closed = Some((group, columns, offsets));
            tracked.flush()?;
            Ok(())
        };
        let mut group =
            SerializedRowGroupWriter::new(descr, properties, &mut tracked, 0, Some(Box::new(on_close)));
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        closed.ok_or_else(|| Error::Query(format!("column {} could not be closed", self.field.name())))
    }
}
