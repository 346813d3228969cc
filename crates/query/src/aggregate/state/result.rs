//! Computes results from states: sums with overflow checks, averages, and nulls for groups without values.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Decimal256Type, DecimalType};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer, i256};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;

use crate::Error;
use crate::aggregate::layout::Output;
use crate::aggregate::plan::{AVERAGE_SCALE_EXTRA, Aggregate};
use crate::aggregate::types::flat;

use super::State;
use super::ordered;

/// Returns the results of an aggregate for groups.
pub(crate) fn column(
    aggregate: &Aggregate,
    output: Output,
    states: &[State],
    groups: &[u32],
) -> Result<ArrayRef, Error> {
    let nulls = |count: usize| {
        let State::Count(counts) = &states[count] else { return None };
        let valid = BooleanBuffer::collect_bool(groups.len(), |row| counts[groups[row] as usize] > 0);
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    };
    match output {
        Output::State(state) => values(aggregate, &states[state], None, groups),
        Output::IfAny(state, count) => values(aggregate, &states[state], nulls(count), groups),
        Output::Average(sum, count) => {
            let State::Count(counts) = &states[count] else { return Err(lost(aggregate)) };
            average(aggregate, &states[sum], counts, nulls(count), groups)
        }
    }
}

fn lost(aggregate: &Aggregate) -> Error {
    Error::Query(format!("{} has a state of another type", aggregate.name()))
}

fn overflow(aggregate: &Aggregate) -> Error {
    let (name, data_type) = (aggregate.name(), aggregate.data_type());
    Error::Query(format!("{name} does not fit {data_type}; CAST its argument to a decimal of more digits"))
}

/// Returns the results of a state with the aggregate's type.
fn values(
    aggregate: &Aggregate,
    state: &State,
    nulls: Option<NullBuffer>,
    groups: &[u32],
) -> Result<ArrayRef, Error> {
    let data_type = aggregate.data_type();
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    match state {
        State::Count(counts) => {
            Ok(Arc::new(groups.iter().map(|&group| counts[group as usize]).collect::<Int64Array>()))
        }
        State::Sum(sums) => {
            let sums = groups.iter().map(|&group| sums[group as usize]);
            sums_128(aggregate, sums.enumerate().map(|(row, sum)| is_valid(row).then_some(sum)))
        }
        State::WideSum(sums) => {
            let sums = groups.iter().map(|&group| sums[group as usize]);
            sums_256(aggregate, sums.enumerate().map(|(row, sum)| is_valid(row).then_some(sum)))
        }
        State::FloatSum(sums) => {
            let sums = groups.iter().map(|&group| sums[group as usize]);
            let sums = sums.enumerate().map(|(row, [high, low])| is_valid(row).then_some(high + low));
            Ok(Arc::new(sums.collect::<Float64Array>()))
        }
        State::Extreme { values, .. } => {
            let values = groups.iter().map(|&group| values[group as usize]);
            let values = values.enumerate().map(|(row, value)| if is_valid(row) { value } else { 0 });
            let rows = groups.len();
            Ok(ordered::to_array(values, rows, nulls.clone(), data_type)?)
        }
        State::WideExtreme { values, .. } => {
            let values = groups.iter().map(|&group| values[group as usize]);
            let values: Decimal128Array =
                values.enumerate().map(|(row, value)| is_valid(row).then_some(value)).collect();
            Ok(Arc::new(values.with_data_type(data_type.clone())))
        }
        State::ByteExtreme { values, .. } => {
            let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
            let null = arrow_array::new_null_array(data_type, 1);
            let null = converter.convert_columns(&[null])?;
            let parser = converter.parser();
            let rows = groups.iter().map(|&group| match &values[group as usize] {
                Some(bytes) => parser.parse(bytes),
                None => null.row(0),
            });
            let mut columns = converter.convert_rows(rows)?;
            columns.pop().ok_or_else(|| lost(aggregate))
        }
    }
}

fn sums_128(aggregate: &Aggregate, sums: impl Iterator<Item = Option<i128>>) -> Result<ArrayRef, Error> {
    fn fitting<T: TryFrom<i128>>(sums: impl Iterator<Item = Option<i128>>) -> Option<Vec<Option<T>>> {
        sums.map(|sum| sum.map(|sum| T::try_from(sum).ok()).map_or(Some(None), |sum| sum.map(Some))).collect()
    }
    let overflow = || overflow(aggregate);
    Ok(match aggregate.data_type() {
        DataType::Int64 => Arc::new(Int64Array::from(fitting::<i64>(sums).ok_or_else(overflow)?)),
        DataType::UInt64 => Arc::new(UInt64Array::from(fitting::<u64>(sums).ok_or_else(overflow)?)),
        _ => decimals::<Decimal128Type>(aggregate, sums.map(Ok))?,
    })
}

fn sums_256(aggregate: &Aggregate, sums: impl Iterator<Item = Option<i256>>) -> Result<ArrayRef, Error> {
    match aggregate.data_type() {
        DataType::Decimal128(..) => decimals::<Decimal128Type>(
            aggregate,
            sums.map(|sum| match sum {
                Some(sum) => sum.to_i128().map(Some).ok_or(()),
                None => Ok(None),
            }),
        ),
        _ => decimals::<Decimal256Type>(aggregate, sums.map(Ok)),
    }
}

/// Makes an array of decimals with a check of the precision.
fn decimals<T: DecimalType>(
    aggregate: &Aggregate,
    values: impl Iterator<Item = Result<Option<T::Native>, ()>>,
) -> Result<ArrayRef, Error> {
    let values = values.collect::<Result<Vec<Option<T::Native>>, ()>>().map_err(|()| overflow(aggregate))?;
    let values: PrimitiveArray<T> = values.into_iter().collect();
    let (precision, scale) = match *aggregate.data_type() {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => (precision, scale),
        _ => return Err(lost(aggregate)),
    };
    let values = values.with_precision_and_scale(precision, scale)?;
    values.validate_decimal_precision(precision).map_err(|_| overflow(aggregate))?;
    Ok(Arc::new(values))
}

fn average(
    aggregate: &Aggregate,
    sum: &State,
    counts: &[i64],
    nulls: Option<NullBuffer>,
    groups: &[u32],
) -> Result<ArrayRef, Error> {
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let rows = groups.iter().map(|&group| group as usize).enumerate();
    let shift = shift(aggregate);
    let wide = |sum: i256, group: usize| divide(sum, counts[group], shift).ok_or(());
    match (sum, aggregate.data_type()) {
        (State::FloatSum(sums), _) => {
            let average = |(row, group): (usize, usize)| {
                is_valid(row).then(|| (sums[group][0] + sums[group][1]) / counts[group] as f64)
            };
            Ok(Arc::new(rows.map(average).collect::<Float64Array>()))
        }
        (State::Sum(sums), DataType::Float64) => {
            let average =
                |(row, group): (usize, usize)| is_valid(row).then(|| quotient(sums[group], counts[group]));
            Ok(Arc::new(rows.map(average).collect::<Float64Array>()))
        }
        (State::Sum(sums), _) => decimals::<Decimal128Type>(
            aggregate,
            rows.map(|(row, group)| {
                let average =
                    is_valid(row).then(|| wide(i256::from_i128(sums[group]), group)?.to_i128().ok_or(()));
                average.transpose()
            }),
        ),
        (State::WideSum(sums), DataType::Decimal128(..)) => decimals::<Decimal128Type>(
            aggregate,
            rows.map(|(row, group)| {
                is_valid(row).then(|| wide(sums[group], group)?.to_i128().ok_or(())).transpose()
            }),
        ),
        (State::WideSum(sums), _) => decimals::<Decimal256Type>(
            aggregate,
            rows.map(|(row, group)| is_valid(row).then(|| wide(sums[group], group)).transpose()),
        ),
        _ => Err(lost(aggregate)),
    }
}

/// Decimal places that an average adds to those of its argument.
fn shift(aggregate: &Aggregate) -> u32 {
    let scale = |data_type: &DataType| match *data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => i32::from(scale),
        _ => 0,
    };
    let argument = aggregate.argument().map_or(0, |argument| scale(flat(&argument.data_type())));
    u32::try_from(scale(aggregate.data_type()) - argument).unwrap_or(AVERAGE_SCALE_EXTRA.into())
}

/// Returns `sum * 10^shift / count`, rounded half away from zero; `None` on overflow or a count of 0.
fn divide(sum: i256, count: i64, shift: u32) -> Option<i256> {
    let count = i256::from_i128(count.into());
    let dividend = sum.checked_mul(i256::from_i128(10).checked_pow(shift)?)?;
    let (quotient, rest) = (dividend.checked_div(count)?, dividend.checked_rem(count)?.wrapping_abs());
    let step = if dividend < i256::ZERO { -1 } else { 1 };
    let is_up = rest >= count.wrapping_sub(rest);
    if is_up { quotient.checked_add(i256::from_i128(step)) } else { Some(quotient) }
}

/// Divides integers by quotient and remainder, which keeps the digits of large sums.
fn quotient(sum: i128, count: i64) -> f64 {
    let count_128 = i128::from(count);
    (sum / count_128) as f64 + (sum % count_128) as f64 / count as f64
}
