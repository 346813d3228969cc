//! Types whose order and equality are the same here and in DataFusion.

use datafusion::arrow::datatypes::{DataType, Schema};

/// Whether rows are ordered and compared by a column of this type as DataFusion does. Floating-point numbers are not: here
/// all NaNs are equal and -0 equals 0, while DataFusion orders them by their bits.
pub(super) fn is_key(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => true,
        other => other.is_integer() || other.is_decimal(),
    }
}

/// Why a column cannot be a key; `None` if it can.
pub(super) fn key_fault(schema: &Schema, column: usize) -> Option<String> {
    let field = schema.field(column);
    let (name, data_type) = (field.name(), field.data_type());
    if is_key(data_type) {
        return None;
    }
    Some(if data_type.is_floating() {
        format!("{name} is {data_type}, whose NaNs and negative zeros DataFusion orders by their bits")
    } else {
        format!("{name} is {data_type}, which cannot be compared")
    })
}

/// Why rows of a schema cannot be packed; `None` if they can. Dictionaries are left out: those of many batches together may
/// have more values than their keys can number.
pub(super) fn row_fault(schema: &Schema) -> Option<String> {
    let field = schema.fields().iter().find(|field| !is_value(field.data_type()))?;
    Some(format!("{} is {}, which is not supported", field.name(), field.data_type()))
}

fn is_value(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            is_value(field.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_value(field.data_type())),
        DataType::Null | DataType::Interval(_) => true,
        other => other.is_floating() || is_key(other),
    }
}
