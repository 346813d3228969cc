//! Tables of Arrow's by the PyCapsule interface: those of results, those of which traces are made, and records of blocks.
//!
//! The interface passes the memory of columns by pointers, so that pyarrow, pandas, Polars and DuckDB take them without a
//! copy, and none of them is needed here.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Float64Array,
    Int64Array, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StringArray,
    StringViewArray, StructArray, UInt64Array,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sakiyomi_trace::generate::pc::PcParams;
use sakiyomi_trace::{ColumnValues, Record, TraceError, column_names, records_of_columns};

use crate::buffer;
use crate::error::{Error, exception};
use crate::options::{time, wrong};

/// Name of the capsule of a stream, which the interface prescribes.
pub(crate) const STREAM: &CStr = c"arrow_array_stream";
/// Name of the capsule of a schema.
pub(crate) const SCHEMA: &CStr = c"arrow_schema";
/// Name of the capsule of a batch.
const ARRAY: &CStr = c"arrow_array";
/// The column of records of blocks.
const RECORD: &str = "record";
/// Largest number of records of a generated trace: 1.2 GB.
const GENERATED_MAX: u64 = 10_000_000;

/// Makes an exception of an error of Arrow's.
pub(crate) fn of_arrow(error: &ArrowError) -> PyErr {
    Error::new_err(error.to_string())
}

/// Returns the capsule of a stream of batches.
pub(crate) fn stream<'py>(
    py: Python<'py>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), STREAM)
}

/// A table in memory, which pyarrow, pandas, Polars and DuckDB take by the Arrow PyCapsule interface.
///
/// >>> table = simulate("trace.csv", "deskstar-7k250").table("chunks")  # doctest: +SKIP
/// >>> polars.DataFrame(table), pyarrow.table(table)  # doctest: +SKIP
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    pub(crate) fn of(batch: RecordBatch) -> Table {
        Table { batch }
    }
}

#[pymethods]
impl Table {
    /// Columns are given by name, kind and values, None for a missing one.
    #[new]
    fn new(columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Table> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (name, kind, values) in columns {
            let array: ArrayRef = match kind.as_str() {
                "i64" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
                "u64" => Arc::new(UInt64Array::from(values.extract::<Vec<Option<u64>>>()?)),
                "f64" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
                "bool" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
                "text" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
                other => return Err(PyValueError::new_err(format!("unknown kind of column {other}"))),
            };
            fields.push(Field::new(name, array.data_type().clone(), array.null_count() > 0));
            arrays.push(array);
        }
        // A table without columns has no rows either.
        let rows =
            RecordBatchOptions::new().with_row_count(Some(arrays.first().map_or(0, |array| array.len())));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &rows);
        Ok(Table { batch: batch.map_err(|error| of_arrow(&error))? })
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the table as a stream of the interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A request is for the consumer's convenience; it casts what comes otherwise.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        stream(py, Box::new(batches))
    }

    /// Returns the table as one batch of the interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let array = FFI_ArrowArray::new(&StructArray::from(self.batch.clone()).into_data());
        Ok((schema(py, self.batch.schema_ref())?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    /// Returns the schema of the interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema(py, self.batch.schema_ref())
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<sakiyomi.Table of {} rows: {}>", self.batch.num_rows(), self.column_names().join(", "))
    }
}

/// Returns the capsule of a schema.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| of_arrow(&error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// A block trace in memory, made from any table of Arrow's: of pyarrow, pandas, Polars or DuckDB.
///
/// table: an object with the method ``__arrow_c_stream__``, such as a DataFrame. Its columns are those of sakiyomi's CSV:
///     ``op`` (read, write, flush, discard), ``offset_bytes`` and ``length_bytes``, and, if it has them, ``time_ns``,
///     ``device``, ``stream``, ``fua``, ``response_ns``, ``think_ns``, ``started_ns`` and ``label``. Others are ignored.
///     Times may also be durations or timestamps.
/// name: the name of the trace in results and messages.
///
/// It can be pickled, and is given to ``simulate``, ``sweep``, ``validate`` and ``drive.fit`` in place of a file.
///
/// >>> trace = MemoryTrace(frame, "my workload")  # doctest: +SKIP
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct MemoryTrace {
    name: String,
    records: Arc<[Record]>,
}

#[pymethods]
impl MemoryTrace {
    #[new]
    #[pyo3(signature = (table, name="table"))]
    fn new(py: Python<'_>, table: &Bound<'_, PyAny>, name: &str) -> PyResult<MemoryTrace> {
        let Some(export) = table.getattr_opt("__arrow_c_stream__")? else {
            return Err(PyTypeError::new_err(format!(
                "{} is neither a path nor a table: it has no method __arrow_c_stream__",
                table.get_type().repr()?
            )));
        };
        let capsule = export.call0()?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let reader = buffer::stream_reader(capsule, STREAM).map_err(|error| match error {
            Ok(error) => of_arrow(&error),
            Err(error) => error,
        })?;
        // Batches that are made while they are read may need the interpreter.
        let records = py.detach(|| records(reader, name))?;
        Ok(MemoryTrace { name: name.to_owned(), records: records.into() })
    }

    /// Makes it of what ``__reduce__`` has returned.
    #[staticmethod]
    fn _unpickle(name: String, bytes: &[u8]) -> PyResult<MemoryTrace> {
        let records = packed::unpack(bytes).ok_or_else(|| Error::new_err("this is not a pickled trace"))?;
        Ok(MemoryTrace { name, records: records.into() })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickled<'py>> {
        let make = py.get_type::<MemoryTrace>().getattr("_unpickle")?;
        Ok((make, (self.name.clone(), packed::pack(&self.records))))
    }

    /// The name of the trace in results.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __len__(&self) -> usize {
        self.records.len()
    }

    fn __repr__(&self) -> String {
        format!("<sakiyomi.MemoryTrace {:?} of {} records>", self.name, self.records.len())
    }
}

/// A function, and its arguments, which make the object again.
type Pickled<'py> = (Bound<'py, PyAny>, (String, Vec<u8>));

/// The workload of a PC, by the options of `trace generate pc`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PcOptions {
    span: String,
    duration: String,
    count: u64,
    closed_loop: bool,
    gap: String,
    sequential: f64,
    skip: f64,
}

/// Generates a trace as `trace generate pc` does.
#[pyfunction]
pub(crate) fn generate_pc(py: Python<'_>, options: PcOptions, seed: u64) -> PyResult<MemoryTrace> {
    if options.count > GENERATED_MAX {
        return Err(PyValueError::new_err(format!(
            "count is {}; give at most {GENERATED_MAX}, because all are held in memory, or use `sakiyomi trace generate pc`",
            options.count
        )));
    }
    let params = PcParams {
        span: options.span.parse().map_err(|error| wrong("span", &error))?,
        duration: time("duration", &options.duration)?,
        commands: options.count,
        closed_loop: options.closed_loop,
        command_gap: time("gap", &options.gap)?,
        sequential: options.sequential,
        skip: options.skip,
        ..PcParams::default()
    };
    let records = py.detach(|| {
        let numbered = |(record, line)| Record { line, ..record };
        Ok(params.records(seed)?.zip(1..).map(numbered).collect())
    });
    let records = records.map_err(|error: TraceError| exception(&error))?;
    Ok(MemoryTrace { name: "pc".to_owned(), records })
}

impl MemoryTrace {
    pub(crate) fn source(&self) -> sakiyomi_simulation::TraceSource {
        let (name, records) = (self.name.clone(), Arc::clone(&self.records));
        sakiyomi_simulation::TraceSource::Memory { name, records }
    }
}

/// Converts the batches of a table.
fn records(reader: ArrowArrayStreamReader, name: &str) -> PyResult<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    let schema = reader.schema();
    let wanted: Vec<(usize, &str, bool)> = column_names()
        .filter_map(|(name, is_text)| Some((schema.index_of(name).ok()?, name, is_text)))
        .collect();
    let twice = wanted
        .iter()
        .find(|(_, name, _)| schema.fields().iter().filter(|field| field.name() == name).count() > 1);
    if let Some((_, column, _)) = twice {
        return Err(Error::new_err(format!("{name}: it has the column {column} twice")));
    }
    let wrong = |column: &str, kind: &DataType| {
        Error::new_err(format!("{name}: its column {column} is of type {kind}, which cannot hold it"))
    };
    let mut is_empty = true;
    for batch in reader {
        is_empty = false;
        let batch = batch.map_err(|error| of_arrow(&error))?;
        let mut numbers: Vec<(&str, Vec<Option<i128>>)> = Vec::new();
        let mut texts: Vec<(&str, Vec<Option<&[u8]>>)> = Vec::new();
        for &(index, column, is_text) in &wanted {
            let array = batch.column(index).as_ref();
            if is_text {
                let values = self::texts(array).ok_or_else(|| wrong(column, array.data_type()))?;
                texts.push((column, values));
            } else {
                let is_time = column.ends_with("_ns");
                let values = self::numbers(array, is_time).map_err(|error| match error {
                    NotNumbers::Type => wrong(column, array.data_type()),
                    NotNumbers::Fraction(value) => Error::new_err(format!(
                        "{name}: the column {column} holds {value}, but must be a whole number"
                    )),
                })?;
                numbers.push((column, values));
            }
        }
        let columns = numbers.iter().map(|(column, values)| (*column, ColumnValues::Numbers(values)));
        let texts = texts.iter().map(|(column, values)| (*column, ColumnValues::Texts(values)));
        let columns: Vec<_> = columns.chain(texts).collect();
        let first = records.len() as u64 + 1;
        let batch = records_of_columns(name, first, &columns).map_err(|error| exception(&error))?;
        records.extend(batch);
    }
    if is_empty {
        // Without rows, columns that are missing are the mistake that can be named.
        let columns: Vec<_> = wanted.iter().map(|&(_, column, is_text)| (column, none_of(is_text))).collect();
        records_of_columns(name, 1, &columns).map_err(|error| exception(&error))?;
    }
    Ok(records)
}

fn none_of(is_text: bool) -> ColumnValues<'static> {
    if is_text { ColumnValues::Texts(&[]) } else { ColumnValues::Numbers(&[]) }
}

/// Returns the values of an array of text.
fn texts(array: &dyn Array) -> Option<Vec<Option<&[u8]>>> {
    fn bytes<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Vec<Option<&'a [u8]>> {
        values.map(|text| text.map(str::as_bytes)).collect()
    }
    Some(match array.data_type() {
        DataType::Utf8 => bytes(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => bytes(array.as_string::<i64>().iter()),
        DataType::Utf8View => bytes(array.as_string_view().iter()),
        DataType::Null => vec![None; array.len()],
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = texts(dictionary.values().as_ref())?;
            let keys = if values.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
            let of = |row: usize| if array.is_null(row) { None } else { *values.get(keys[row])? };
            (0..array.len()).map(of).collect()
        }
        _ => return None,
    })
}

enum NotNumbers {
    /// The array has no numbers.
    Type,
    /// A number is not whole.
    Fraction(f64),
}

/// Returns the values of an array of numbers; times are in nanoseconds.
fn numbers(array: &dyn Array, is_time: bool) -> Result<Vec<Option<i128>>, NotNumbers> {
    macro_rules! whole {
        ($kind:ty, $scale:expr) => {
            array
                .as_primitive::<$kind>()
                .iter()
                .map(|value| value.map(|value| i128::from(value) * $scale))
                .collect()
        };
    }
    macro_rules! fractional {
        ($kind:ty) => {{
            let values = array.as_primitive::<$kind>().iter();
            return values.map(|value| value.map(f64::from).map_or(Ok(None), of_float)).collect();
        }};
    }
    Ok(match array.data_type() {
        DataType::Int8 => whole!(Int8Type, 1),
        DataType::Int16 => whole!(Int16Type, 1),
        DataType::Int32 => whole!(Int32Type, 1),
        DataType::Int64 => whole!(Int64Type, 1),
        DataType::UInt8 => whole!(UInt8Type, 1),
        DataType::UInt16 => whole!(UInt16Type, 1),
        DataType::UInt32 => whole!(UInt32Type, 1),
        DataType::UInt64 => whole!(UInt64Type, 1),
        DataType::Float32 => fractional!(Float32Type),
        DataType::Float64 => fractional!(Float64Type),
        DataType::Boolean => array.as_boolean().iter().map(|value| value.map(i128::from)).collect(),
        DataType::Null => vec![None; array.len()],
        DataType::Duration(TimeUnit::Nanosecond) if is_time => whole!(DurationNanosecondType, 1),
        DataType::Duration(TimeUnit::Microsecond) if is_time => whole!(DurationMicrosecondType, 1_000),
        DataType::Duration(TimeUnit::Millisecond) if is_time => whole!(DurationMillisecondType, 1_000_000),
        DataType::Duration(TimeUnit::Second) if is_time => whole!(DurationSecondType, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) if is_time => whole!(TimestampNanosecondType, 1),
        DataType::Timestamp(TimeUnit::Microsecond, _) if is_time => whole!(TimestampMicrosecondType, 1_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) if is_time => {
            whole!(TimestampMillisecondType, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Second, _) if is_time => whole!(TimestampSecondType, 1_000_000_000),
        _ => return Err(NotNumbers::Type),
    })
}

/// A number that a DataFrame has made floating-point, because others of its column are missing.
fn of_float(value: f64) -> Result<Option<i128>, NotNumbers> {
    if value.is_nan() {
        return Ok(None);
    }
    // Up to 2^127, beyond which `as` saturates; either is more than a column may hold.
    if value.fract() == 0.0 { Ok(Some(value as i128)) } else { Err(NotNumbers::Fraction(value)) }
}

/// Records of a trace in a pickle: nine numbers of 64 bits each.
mod packed {
    use sakiyomi_model::{Bytes, Nanos, Op, StreamId};
    use sakiyomi_trace::{HitLabel, Record};

    const NUMBERS: usize = 9;
    const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];
    const LABELS: [HitLabel; 4] = [HitLabel::Hit, HitLabel::Miss, HitLabel::Doub, HitLabel::Trip];

    pub(super) fn pack(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(numbers).flat_map(u64::to_le_bytes).collect()
    }

    fn numbers(record: &Record) -> [u64; NUMBERS] {
        let place = |of: usize| of as u64;
        let op = OPS.iter().position(|op| *op == record.op).map_or(0, place);
        let label = record.label.and_then(|label| LABELS.iter().position(|other| *other == label));
        let label = label.map_or(0, |at| place(at) + 1);
        let has = |time: Option<Nanos>, bit: u64| if time.is_some() { bit } else { 0 };
        let optional = has(record.response, 1) | has(record.think, 2) | has(record.started, 4);
        let time = |time: Option<Nanos>| time.map_or(0, |time| time.0);
        [
            record.time.0,
            u64::from(record.device) | u64::from(record.stream.0) << 32,
            op | u64::from(record.fua) << 8 | label << 16 | optional << 24,
            record.offset.0,
            record.length.0,
            time(record.response),
            time(record.think),
            time(record.started),
            record.line,
        ]
    }

    /// Returns `None` if the bytes are not those of records.
    pub(super) fn unpack(bytes: &[u8]) -> Option<Vec<Record>> {
        let (all, rest) = bytes.as_chunks::<{ NUMBERS * 8 }>();
        rest.is_empty().then(|| all.iter().map(record).collect())?
    }

    fn record(bytes: &[u8; NUMBERS * 8]) -> Option<Record> {
        let (numbers, _) = bytes.as_chunks::<8>();
        let [time, origin, kind, offset, length, response, think, started, line] =
            std::array::from_fn(|at| u64::from_le_bytes(numbers[at]));
        let byte = |at: u32| usize::from((kind >> at) as u8);
        let optional = |value: u64, bit: usize| (byte(24) & bit != 0).then_some(Nanos(value));
        let label = match byte(16) {
            0 => None,
            at => Some(*LABELS.get(at - 1)?),
        };
        Some(Record {
            device: origin as u32,
            stream: StreamId((origin >> 32) as u32),
            fua: byte(8) != 0,
            response: optional(response, 1),
            think: optional(think, 2),
            started: optional(started, 4),
            label,
            line,
            ..Record::new(Nanos(time), *OPS.get(byte(0))?, Bytes(offset), Bytes(length))
        })
    }
}

/// How records of blocks become a column.
#[derive(Clone, Debug)]
pub(crate) struct RecordColumn {
    division: Division,
    schema: SchemaRef,
}

/// How records end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Division {
    /// By a byte.
    Ended(u8),
    /// After this many bytes.
    Long(usize),
}

impl RecordColumn {
    /// Returns the column for a requested schema, of whose types this one can make text, with or without views. Other
    /// requests are ignored, as the interface has it.
    pub(crate) fn new(
        division: Division,
        requested: Option<&Bound<'_, PyCapsule>>,
    ) -> PyResult<RecordColumn> {
        let own = match division {
            Division::Ended(_) => DataType::BinaryView,
            Division::Long(bytes) => {
                let bytes = i32::try_from(bytes).map_err(|_| {
                    PyValueError::new_err(format!(
                        "records of {bytes} bytes are too long for Arrow; give less than 2 GiB"
                    ))
                })?;
                DataType::FixedSizeBinary(bytes)
            }
        };
        let requested = requested.map(|schema| buffer::schema(schema, SCHEMA)).transpose()?;
        let requested = requested.and_then(|schema| match schema.fields().as_ref() {
            [field] => Some(field.data_type().clone()),
            _ => None,
        });
        let kind = match (division, requested) {
            (Division::Ended(_), Some(kind @ (DataType::Binary | DataType::Utf8 | DataType::Utf8View))) => {
                kind
            }
            _ => own,
        };
        Ok(RecordColumn { division, schema: Arc::new(Schema::new(vec![Field::new(RECORD, kind, false)])) })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns the records of a block, which begins and ends at the bounds of records. Views and records of a fixed length
    /// show the block's memory; the other types are copies.
    pub(crate) fn batch(&self, block: Bytes) -> Result<RecordBatch, ArrowError> {
        if i32::try_from(block.len()).is_err() {
            return Err(ArrowError::InvalidArgumentError(format!(
                "a block of {} bytes is too large for Arrow; give blocked_reads a block below 2 GiB",
                block.len()
            )));
        }
        let array: ArrayRef = match (self.division, self.schema.field(0).data_type()) {
            (_, &DataType::FixedSizeBinary(bytes)) => {
                // The last record of a file may be shorter.
                let whole = block.len() - block.len() % usize::try_from(bytes).unwrap_or(1);
                if whole < block.len() {
                    return Err(ArrowError::InvalidArgumentError(format!(
                        "the last record has {} bytes instead of {bytes}",
                        block.len() - whole
                    )));
                }
                Arc::new(FixedSizeBinaryArray::try_new(bytes, Buffer::from(block), None)?)
            }
            (Division::Ended(end), kind) => {
                let records = || lines(&block, end);
                match kind {
                    DataType::Binary => Arc::new(BinaryArray::from_iter_values(records())),
                    DataType::Utf8 => {
                        let (offsets, values, nulls) = BinaryArray::from_iter_values(records()).into_parts();
                        Arc::new(StringArray::try_new(offsets, values, nulls)?)
                    }
                    kind => {
                        let views: ScalarBuffer<u128> =
                            records().map(|record| view(&block, record)).collect();
                        let is_text = *kind == DataType::Utf8View;
                        let data = [Buffer::from(block)];
                        if is_text {
                            Arc::new(StringViewArray::try_new(views, data, None)?)
                        } else {
                            Arc::new(BinaryViewArray::try_new(views, data, None)?)
                        }
                    }
                }
            }
            (Division::Long(_), _) => unreachable!("records of a fixed length have one type"),
        };
        RecordBatch::try_new(self.schema(), vec![array])
    }
}

/// Returns the records of a block without the bytes that end them.
fn lines(block: &[u8], end: u8) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    let last = block.last().is_some_and(|&last| last != end).then_some(block.len());
    memchr::memchr_iter(end, block).chain(last).map(move |at| {
        let line = &block[start..at];
        start = at + 1;
        line
    })
}

/// Returns the view of a record in its block, which is smaller than 2 GiB.
fn view(block: &[u8], record: &[u8]) -> u128 {
    let offset = record.as_ptr().addr() - block.as_ptr().addr();
    make_view(record, 0, offset as u32)
}
