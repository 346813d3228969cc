//! Values of rows, and their conversion from and to arrays of one row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::ArrowNativeType;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};

use crate::types::flat;
use crate::values::unpacked;

/// A value of a row. The schema has the type of a column, and with it the unit or scale of its values:
///
/// | type | value |
/// |---|---|
/// | any, where the value is null | `Null` |
/// | `Boolean` | `Bool` |
/// | `Int8` to `Int64`, `UInt8` to `UInt32` | `Int` |
/// | `Date32`, `Date64`, `Time32`, `Time64`, `Timestamp`, `Duration` | `Int`, in the unit of the type |
/// | `UInt64` | `UInt` |
/// | `Float16`, `Float32`, `Float64` | `Float` |
/// | `Decimal32`, `Decimal64`, `Decimal128` | `Decimal`, unscaled |
/// | `Utf8`, `LargeUtf8`, `Utf8View` | `Text` |
/// | `Binary`, `LargeBinary`, `BinaryView`, `FixedSizeBinary` | `Binary` |
/// | `Dictionary` of the types above | the value that the key stands for |
/// | `Decimal256`, `Interval`, nested types, `Dictionary` of them | `Array` |
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Null, of any type.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer, or a date, time or duration in the unit of its type.
    Int(i64),
    /// An integer of type `UInt64`.
    UInt(u64),
    /// A float; one of a narrower type is converted exactly.
    Float(f64),
    /// A decimal of at most 128 bits, without its scale: 1.50 of scale 2 is 150.
    Decimal(i128),
    /// A string.
    Text(&'a str),
    /// A sequence of bytes.
    Binary(&'a [u8]),
    /// A value of another type, as an array of one row.
    Array(&'a ArrayRef),
}

/// The variant of the values of a type that are not null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Null,
    Bool,
    Int,
    UInt,
    Float,
    Decimal,
    Text,
    Binary,
    Array,
}

impl Form {
    pub(super) fn of(data_type: &DataType) -> Form {
        use DataType::*;
        match flat(data_type) {
            Null => Form::Null,
            Boolean => Form::Bool,
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => Form::Int,
            Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Form::Int,
            UInt64 => Form::UInt,
            Float16 | Float32 | Float64 => Form::Float,
            Decimal32(..) | Decimal64(..) | Decimal128(..) => Form::Decimal,
            Utf8 | LargeUtf8 | Utf8View => Form::Text,
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Form::Binary,
            _ => Form::Array,
        }
    }
}

impl<'a> Value<'a> {
    /// Returns the value of a row of an array.
    ///
    /// # Panics
    /// If the array has no such row, or if the value is of a type that becomes [`Value::Array`] and the array has other
    /// rows: slice it first.
    #[must_use]
    pub fn of(array: &'a ArrayRef, row: usize) -> Value<'a> {
        if array.is_null(row) {
            return Value::Null;
        }
        macro_rules! int {
            ($type:ty) => {
                Value::Int(array.as_primitive::<$type>().value(row).into())
            };
        }
        use arrow_schema::TimeUnit::*;
        match array.data_type() {
            DataType::Null => Value::Null,
            DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
            DataType::Int8 => int!(Int8Type),
            DataType::Int16 => int!(Int16Type),
            DataType::Int32 => int!(Int32Type),
            DataType::Int64 => int!(Int64Type),
            DataType::UInt8 => int!(UInt8Type),
            DataType::UInt16 => int!(UInt16Type),
            DataType::UInt32 => int!(UInt32Type),
            DataType::Date32 => int!(Date32Type),
            DataType::Date64 => int!(Date64Type),
            DataType::Time32(Second) => int!(Time32SecondType),
            DataType::Time32(_) => int!(Time32MillisecondType),
            DataType::Time64(Microsecond) => int!(Time64MicrosecondType),
            DataType::Time64(_) => int!(Time64NanosecondType),
            DataType::Timestamp(Second, _) => int!(TimestampSecondType),
            DataType::Timestamp(Millisecond, _) => int!(TimestampMillisecondType),
            DataType::Timestamp(Microsecond, _) => int!(TimestampMicrosecondType),
            DataType::Timestamp(Nanosecond, _) => int!(TimestampNanosecondType),
            DataType::Duration(Second) => int!(DurationSecondType),
            DataType::Duration(Millisecond) => int!(DurationMillisecondType),
            DataType::Duration(Microsecond) => int!(DurationMicrosecondType),
            DataType::Duration(Nanosecond) => int!(DurationNanosecondType),
            DataType::UInt64 => Value::UInt(array.as_primitive::<UInt64Type>().value(row)),
            DataType::Float16 => Value::Float(array.as_primitive::<Float16Type>().value(row).to_f64()),
            DataType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(row).into()),
            DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal32(..) => {
                Value::Decimal(array.as_primitive::<Decimal32Type>().value(row).into())
            }
            DataType::Decimal64(..) => {
                Value::Decimal(array.as_primitive::<Decimal64Type>().value(row).into())
            }
            DataType::Decimal128(..) => Value::Decimal(array.as_primitive::<Decimal128Type>().value(row)),
            DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row)),
            DataType::Utf8View => Value::Text(array.as_string_view().value(row)),
            DataType::Binary => Value::Binary(array.as_binary::<i32>().value(row)),
            DataType::LargeBinary => Value::Binary(array.as_binary::<i64>().value(row)),
            DataType::BinaryView => Value::Binary(array.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => Value::Binary(array.as_fixed_size_binary().value(row)),
            data_type @ DataType::Dictionary(..) if Form::of(data_type) != Form::Array => {
                let dictionary = array.as_any_dictionary();
                Value::of(dictionary.values(), key(dictionary.keys(), row))
            }
            data_type => {
                assert_eq!(array.len(), 1, "a value of type {data_type} is an array of one row");
                // Dictionaries, run-end-encoded arrays and unions have nulls in their values.
                match array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
                    true => Value::Null,
                    false => Value::Array(array),
                }
            }
        }
    }

    /// Returns the value as an array of one row, of a type or of the values of a dictionary of that type.
    ///
    /// # Errors
    /// If the type has no such value.
    pub fn to_array(self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let to = flat(data_type);
        let other = || ArrowError::InvalidArgumentError(format!("{self:?} is not a value of type {to}"));
        Ok(match (self, to) {
            (Value::Null, _) => new_null_array(to, 1),
            (Value::Array(array), _) if flat(array.data_type()) == to && array.len() == 1 => unpacked(array)?,
            (Value::Bool(value), DataType::Boolean) => Arc::new(BooleanArray::from(vec![value])),
            (Value::Int(value), _) if Form::of(to) == Form::Int => integer(value, to)?.ok_or_else(other)?,
            (Value::UInt(value), DataType::UInt64) => Arc::new(UInt64Array::from(vec![value])),
            (Value::Float(value), DataType::Float16 | DataType::Float32 | DataType::Float64) => {
                cast(&Float64Array::from(vec![value]), to)?
            }
            (Value::Decimal(value), _) if Form::of(to) == Form::Decimal => {
                decimal(value, to).ok_or_else(other)?
            }
            (Value::Text(text), DataType::Utf8) => Arc::new(StringArray::from(vec![text])),
            (Value::Text(text), DataType::LargeUtf8) => Arc::new(LargeStringArray::from(vec![text])),
            (Value::Text(text), DataType::Utf8View) => Arc::new(StringViewArray::from(vec![text])),
            (Value::Binary(bytes), DataType::Binary) => Arc::new(BinaryArray::from(vec![bytes])),
            (Value::Binary(bytes), DataType::LargeBinary) => Arc::new(LargeBinaryArray::from(vec![bytes])),
            (Value::Binary(bytes), DataType::BinaryView) => Arc::new(BinaryViewArray::from(vec![bytes])),
            (Value::Binary(bytes), DataType::FixedSizeBinary(size))
                if bytes.len() as i64 == i64::from(*size) =>
            {
                Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(bytes))?)
            }
            _ => return Err(other()),
        })
    }

    pub(super) fn form(self) -> Form {
        match self {
            Value::Null => Form::Null,
            Value::Bool(_) => Form::Bool,
            Value::Int(_) => Form::Int,
            Value::UInt(_) => Form::UInt,
            Value::Float(_) => Form::Float,
            Value::Decimal(_) => Form::Decimal,
            Value::Text(_) => Form::Text,
            Value::Binary(_) => Form::Binary,
            Value::Array(_) => Form::Array,
        }
    }

    pub(super) fn is_null(self) -> bool {
        matches!(self, Value::Null)
    }
}

/// Returns the key of a row of a dictionary, which is not null.
fn key(keys: &dyn Array, row: usize) -> usize {
    downcast_integer_array! {
        keys => keys.value(row).as_usize(),
        other => unreachable!("a dictionary has keys of type {other}"),
    }
}

/// Returns an array of one integer, or of a date or time of the same width; `None` if the type is too narrow.
fn integer(value: i64, to: &DataType) -> Result<Option<ArrayRef>, ArrowError> {
    fn one<T: ArrowPrimitiveType>(value: i64) -> Option<ArrayRef>
    where
        T::Native: TryFrom<i64>,
    {
        let value = T::Native::try_from(value).ok()?;
        Some(Arc::new(PrimitiveArray::<T>::from_value(value, 1)))
    }
    let array = match to {
        DataType::Int8 => one::<Int8Type>(value),
        DataType::Int16 => one::<Int16Type>(value),
        DataType::UInt8 => one::<UInt8Type>(value),
        DataType::UInt16 => one::<UInt16Type>(value),
        DataType::UInt32 => one::<UInt32Type>(value),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => one::<Int32Type>(value),
        _ => one::<Int64Type>(value),
    };
    let labeled = |array: ArrayRef| match array.data_type() == to {
        true => Ok(array),
        false => Ok(make_array(array.to_data().into_builder().data_type(to.clone()).build()?)),
    };
    array.map(labeled).transpose()
}

fn decimal(value: i128, to: &DataType) -> Option<ArrayRef> {
    fn one<T: DecimalType>(value: T::Native, to: &DataType) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_value(value, 1).with_data_type(to.clone()))
    }
    Some(match to {
        DataType::Decimal32(..) => one::<Decimal32Type>(value.try_into().ok()?, to),
        DataType::Decimal64(..) => one::<Decimal64Type>(value.try_into().ok()?, to),
        _ => one::<Decimal128Type>(value, to),
    })
}
