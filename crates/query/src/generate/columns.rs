//! Types of the generated columns.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal64Type, Decimal128Type, UInt8Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt8Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::tables::TpchTable;
use sakiyomi_expression::columns;

use crate::Error;

/// Types of TPC-H columns in memory and in Arrow files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnTypes {
    /// The types of other generators and of Parquet: `Decimal128(15, 2)`, `Utf8View`.
    #[default]
    Standard,
    /// The smallest types that scans can read: `Decimal64(15, 2)`, `Utf8`, and `Dictionary(UInt8, Utf8)` for strings
    /// with few distinct values. The seven columns of Q1 have 38 bytes per row.
    Compact,
}

/// Columns with few distinct values, and their values in order.
const CODED_COLUMNS: [(&str, &[&str]); 7] = [
    ("l_returnflag", &["A", "N", "R"]),
    ("l_linestatus", &["F", "O"]),
    ("l_shipinstruct", &["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]),
    ("l_shipmode", &["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]),
    ("o_orderstatus", &["F", "O", "P"]),
    ("o_orderpriority", &["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]),
    ("c_mktsegment", &["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]),
];

/// Values of [`CODED_COLUMNS`] as arrays, shared by all batches: an Arrow IPC file has one dictionary per column.
static CODED_VALUES: LazyLock<Vec<ArrayRef>> = LazyLock::new(|| {
    let array = |(_, values): &(&str, &[&str])| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    CODED_COLUMNS.iter().map(array).collect()
});

/// Selected columns of a table with their types.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    places: Vec<usize>,
    pub(super) schema: SchemaRef,
}

impl Projection {
    /// Selects columns by name; all columns if `names` is empty.
    pub(super) fn new(table: TpchTable, names: &[String], types: ColumnTypes) -> Result<Projection, Error> {
        let schema = table.schema();
        let place = |name: &String| columns::find_of(table.name(), name, false, &schema);
        let places = match names {
            [] => (0..schema.fields().len()).collect(),
            names => names.iter().map(place).collect::<Result<Vec<_>, _>>()?,
        };
        let fields = places.iter().map(|&place| {
            let field = schema.field(place);
            let data_type = match types {
                ColumnTypes::Standard => field.data_type().clone(),
                ColumnTypes::Compact => compact_type(field),
            };
            Field::new(field.name(), data_type, field.is_nullable())
        });
        let projected = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Projection { places, schema: projected })
    }

    /// Returns the values of coded columns, by column index.
    pub(super) fn dictionaries(&self) -> BTreeMap<usize, ArrayRef> {
        let columns = self.schema.fields().iter().enumerate().filter_map(|(place, field)| {
            let known = CODED_COLUMNS.iter().position(|(coded, _)| coded == field.name())?;
            let is_coded = matches!(field.data_type(), DataType::Dictionary(..));
            is_coded.then(|| (place, CODED_VALUES[known].clone()))
        });
        columns.collect()
    }

    /// Returns whether a column is text from the standard's pool.
    pub(super) fn has_comments(&self) -> bool {
        self.schema.fields().iter().any(|field| field.name().ends_with("_comment"))
    }

    /// Projects a generated batch and converts its columns.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let columns = self.places.iter().zip(self.schema.fields()).map(|(&place, field)| {
            let column = batch.column(place);
            match field.data_type() {
                known if known == column.data_type() => Ok(column.clone()),
                DataType::Decimal64(precision, scale) => narrow(column, *precision, *scale),
                DataType::Dictionary(..) => encode(column, field.name()),
                other => Ok(cast(column, other)?),
            }
        });
        Ok(RecordBatch::try_new(self.schema.clone(), columns.collect::<Result<_, Error>>()?)?)
    }
}

/// Returns the schema with dictionaries replaced by codes, which are spilled without their values.
pub(super) fn code_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(..) => Field::new(field.name(), DataType::UInt8, field.is_nullable()),
        _ => Field::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Replaces coded columns by their codes.
pub(super) fn to_codes(batch: &RecordBatch, codes: &SchemaRef) -> Result<RecordBatch, Error> {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Dictionary(..) => Arc::new(column.as_dictionary::<UInt8Type>().keys().clone()),
        _ => column.clone(),
    });
    Ok(RecordBatch::try_new(codes.clone(), columns.collect())?)
}

/// Reverses [`to_codes`]. All resulting batches share the same dictionaries.
pub(super) fn from_codes(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let columns =
        batch.columns().iter().zip(schema.fields()).map(|(column, field)| -> Result<ArrayRef, Error> {
            let known = CODED_COLUMNS.iter().position(|(coded, _)| coded == field.name());
            match (field.data_type(), known) {
                (DataType::Dictionary(..), Some(known)) => {
                    let codes = column.as_primitive::<UInt8Type>().clone();
                    Ok(Arc::new(DictionaryArray::try_new(codes, CODED_VALUES[known].clone())?))
                }
                _ => Ok(column.clone()),
            }
        });
    Ok(RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, Error>>()?)?)
}

/// Bytes assumed for a generated string: the mean is 27 to 124 for comments, 10 to 25 for most others.
const STRING_BYTES: usize = 32;

/// Longest string that a view holds itself.
const VIEW_STRING_MAX_BYTES: usize = 12;

/// Approximate bytes of a row in memory.
pub(super) fn row_bytes(schema: &Schema) -> usize {
    let column = |field: &Field| match field.data_type() {
        DataType::Dictionary(..) => 1,
        DataType::Utf8View => size_of::<u128>() + view_bytes(field.name()),
        other => other.primitive_width().unwrap_or(4 + STRING_BYTES),
    };
    schema.fields().iter().map(|field| column(field)).sum()
}

/// Approximate bytes of a string outside of its view.
fn view_bytes(name: &str) -> usize {
    let coded = CODED_COLUMNS.iter().find(|(coded, _)| *coded == name);
    coded.map_or(STRING_BYTES, |(_, values)| {
        let long = values.iter().map(|value| value.len()).filter(|&bytes| bytes > VIEW_STRING_MAX_BYTES);
        long.sum::<usize>().div_ceil(values.len())
    })
}

fn compact_type(field: &Field) -> DataType {
    match field.data_type() {
        DataType::Decimal128(precision, scale) => DataType::Decimal64(*precision, *scale),
        DataType::Utf8View if CODED_COLUMNS.iter().any(|(name, _)| name == field.name()) => {
            DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
        }
        DataType::Utf8View => DataType::Utf8,
        other => other.clone(),
    }
}

fn narrow(column: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef, Error> {
    let values = column.as_primitive::<Decimal128Type>().unary::<_, Decimal64Type>(|value| value as i64);
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

fn encode(column: &ArrayRef, name: &str) -> Result<ArrayRef, Error> {
    let known = CODED_COLUMNS.iter().position(|(coded, _)| *coded == name).expect("a coded column");
    let values = CODED_COLUMNS[known].1;
    let column = column.as_string_view();
    let code = |row| values.iter().position(|value| *value == column.value(row)).map(|code| code as u8);
    let codes = (0..column.len()).map(code).collect::<Option<Vec<u8>>>();
    let codes = codes.ok_or_else(|| {
        Error::Query(format!("the generator gave a value of `{name}` that is not in the specification"))
    })?;
    Ok(Arc::new(DictionaryArray::try_new(UInt8Array::from(codes), CODED_VALUES[known].clone())?))
}
