//! Encoding of row groups: choice of column encoders, and the chunks of all columns in order.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef, Schema};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic;
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr};

use super::booleans;
use super::chunk::{Chunk, ChunkWriter, PageBuffers, PageSink};
use super::codec::{self, Codec};
use super::gather::{Gather, gather, release};
use super::nested::Nested;
use super::numbers::{self, CodeTables};
use super::physical::Storage;
use super::stand_ins::check_values;
use super::strings::{self, StringTables};
use super::validity::Validity;
use super::visit::is_visited;
use crate::Error;
use crate::output::buffer::Buf;
use crate::output::options::Compression;
use crate::output::plain::converted;
use crate::output::pool::{Lease, Reusable};

/// The columns of a file and their encoders.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    pub(super) descr: SchemaDescPtr,
    compression: Compression,
    name: basic::Compression,
}

#[derive(Debug)]
struct Column {
    field: FieldRef,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Leaf(ColumnDescPtr, Leaf),
    Nested(Box<Nested>),
}

/// The encoder of a column that is a single leaf of the file.
#[derive(Clone, Copy, Debug)]
enum Leaf {
    Boolean,
    Int32(Storage),
    Int64(Storage),
    /// Decimals of more than 18 digits.
    Decimal(Storage),
    Float(Storage),
    Double(Storage),
    Bytes {
        is_text: bool,
    },
}

/// Reused memory of one encoding thread.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    codec: Option<Codec>,
    buffers: PageBuffers,
    validity: Validity,
    tables: CodeTables,
    strings: StringTables,
    numbers: Numbers,
}

#[derive(Debug, Default)]
struct Numbers {
    i32: Vec<i32>,
    i64: Vec<i64>,
    i128: Vec<i128>,
    f32: Vec<f32>,
    f64: Vec<f64>,
}

impl Reusable for Scratch {
    fn memory(&self) -> usize {
        let Numbers { i32, i64, i128, f32, f64 } = &self.numbers;
        let numbers = i32.capacity() * 4 + i64.capacity() * 8 + i128.capacity() * 16 + f32.capacity() * 4;
        let buffers = self.buffers.memory() + self.validity.memory();
        numbers + f64.capacity() * 8 + buffers + self.tables.memory() + self.strings.memory()
    }
}

impl Columns {
    /// # Errors
    /// If Parquet does not support a type.
    pub(super) fn new(schema: &Schema, compression: Compression) -> Result<Columns, Error> {
        let descr = Arc::new(ArrowSchemaConverter::new().convert(schema)?);
        let name = codec::name_of(compression)?;
        let mut leaf = 0;
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let column = Column { field: Arc::clone(field), kind: Kind::of(field, &descr, leaf, name)? };
            leaf += column.leaves();
            columns.push(column);
        }
        Ok(Columns { columns, descr, compression, name })
    }

    /// Returns the leaf index of a column; `None` if it is nested.
    pub(super) fn leaf_of(&self, column: usize) -> Option<usize> {
        let is_leaf = !matches!(self.columns.get(column)?.kind, Kind::Nested(_));
        is_leaf.then(|| self.columns[..column].iter().map(Column::leaves).sum())
    }

    /// Appends the chunks of a row group, given the arrays of each column. Memory is reserved after each column.
    pub(super) fn encode(
        &self,
        arrays: Vec<Vec<ArrayRef>>,
        scratch: &mut Scratch,
        out: &mut Lease<Buf>,
    ) -> Result<Vec<Chunk>, Error> {
        if scratch.codec.is_none() {
            scratch.codec = Some(Codec::new(self.compression)?);
        }
        let mut chunks = Vec::with_capacity(self.descr.num_columns());
        for (column, arrays) in self.columns.iter().zip(arrays) {
            column.check(&arrays)?;
            let is_taken = |array: &DataType| column.kind.takes(column.field.data_type(), array);
            check_values(&column.field, &arrays)?;
            let arrays = converted(arrays, is_taken, &column.field)?;
            chunks.extend(column.encode(&arrays, scratch, self.name, out)?);
            out.settle()?;
        }
        Ok(chunks)
    }
}

impl Column {
    fn leaves(&self) -> usize {
        if let Kind::Nested(nested) = &self.kind { nested.leaves() } else { 1 }
    }

    /// Refuses nulls in non-nullable columns.
    fn check(&self, arrays: &[ArrayRef]) -> Result<(), Error> {
        let has_nulls =
            !self.field.is_nullable() && arrays.iter().any(|array| array.logical_null_count() > 0);
        if has_nulls {
            return Err(Error::Query(format!(
                "column {} has nulls, which its schema excludes",
                self.field.name()
            )));
        }
        Ok(())
    }

    fn encode(
        &self,
        arrays: &[ArrayRef],
        scratch: &mut Scratch,
        compression: basic::Compression,
        out: &mut Buf,
    ) -> Result<Vec<Chunk>, Error> {
        let Scratch { codec: Some(codec), buffers, validity, tables, strings, numbers } = scratch else {
            unreachable!("a codec is made first")
        };
        let (descr, leaf) = match &self.kind {
            Kind::Leaf(descr, leaf) => (descr, leaf),
            Kind::Nested(nested) => return nested.encode(arrays, out),
        };
        validity.gather(arrays, self.field.is_nullable());
        let chunk = ChunkWriter::new(PageSink { out, buffers, codec, compression }, descr, validity);
        let chunk = match *leaf {
            Leaf::Boolean => booleans::encode(chunk, arrays, validity),
            Leaf::Bytes { is_text } => strings::encode(chunk, arrays, validity, is_text, tables, strings),
            Leaf::Int32(storage) => {
                encode_numbers(chunk, arrays, validity, storage, tables, &mut numbers.i32)
            }
            Leaf::Int64(storage) => {
                encode_numbers(chunk, arrays, validity, storage, tables, &mut numbers.i64)
            }
            Leaf::Decimal(storage) => {
                encode_numbers(chunk, arrays, validity, storage, tables, &mut numbers.i128)
            }
            Leaf::Float(storage) => {
                encode_numbers(chunk, arrays, validity, storage, tables, &mut numbers.f32)
            }
            Leaf::Double(storage) => {
                encode_numbers(chunk, arrays, validity, storage, tables, &mut numbers.f64)
            }
        };
        Ok(vec![chunk?])
    }
}

fn encode_numbers<T: Gather>(
    chunk: ChunkWriter<'_>,
    arrays: &[ArrayRef],
    validity: &Validity,
    storage: Storage,
    tables: &mut CodeTables,
    memory: &mut Vec<T>,
) -> Result<Chunk, Error> {
    let values = gather(arrays, chunk.descr().name(), memory)?;
    let chunk = numbers::encode(chunk, &values, validity, storage, tables);
    release(values, memory);
    chunk
}

impl Kind {
    fn of(
        field: &FieldRef,
        descr: &SchemaDescPtr,
        leaf: usize,
        compression: basic::Compression,
    ) -> Result<Kind, Error> {
        use DataType::{
            Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Float32,
            Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt8,
            UInt16, UInt32, UInt64, Utf8, Utf8View,
        };
        let descr = || descr.column(leaf);
        let storage = |is_unsigned, length| Storage { is_unsigned, length };
        let leaf = match field.data_type() {
            Boolean => Leaf::Boolean,
            Int8 | Int16 | Int32 | UInt8 | UInt16 | Date32 | Time32(_) => Leaf::Int32(storage(false, 4)),
            UInt32 => Leaf::Int32(storage(true, 4)),
            Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => Leaf::Int64(storage(false, 8)),
            UInt64 => Leaf::Int64(storage(true, 8)),
            Float32 => Leaf::Float(storage(false, 4)),
            Float64 => Leaf::Double(storage(false, 8)),
            Decimal32(..) | Decimal64(..) | Decimal128(..) => match descr().physical_type() {
                basic::Type::INT32 => Leaf::Int32(storage(false, 4)),
                basic::Type::INT64 => Leaf::Int64(storage(false, 8)),
                _ => Leaf::Decimal(storage(false, usize::try_from(descr().type_length()).unwrap_or(0))),
            },
            Utf8 | LargeUtf8 | Utf8View => Leaf::Bytes { is_text: true },
            Binary | LargeBinary | BinaryView => Leaf::Bytes { is_text: false },
            _ => return Ok(Kind::Nested(Box::new(Nested::new(field, compression)?))),
        };
        Ok(Kind::Leaf(descr(), leaf))
    }

    /// Returns whether the encoder takes arrays of type `array` without a cast, for a column of type `column`.
    fn takes(&self, column: &DataType, array: &DataType) -> bool {
        use DataType::{Decimal32, Decimal64, Decimal128};
        let scale_of = |data_type: &DataType| match data_type {
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => Some(*scale),
            _ => None,
        };
        match self {
            // Bytes that were not checked as UTF-8 must be cast to text.
            Kind::Leaf(_, Leaf::Bytes { is_text }) => is_visited(array) && (!is_text || is_text_type(array)),
            Kind::Leaf(_, Leaf::Int32(_) | Leaf::Int64(_) | Leaf::Decimal(_))
                if scale_of(array).is_some() =>
            {
                scale_of(column) == scale_of(array)
            }
            _ => column == array,
        }
    }
}

fn is_text_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text_type(values),
        other => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}
