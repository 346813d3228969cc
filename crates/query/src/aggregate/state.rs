//! States of groups in columns: adding values, merging, serialization, and results.

mod add;
mod ordered;
pub(crate) mod result;

use arrow_array::types::{Decimal128Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;

use crate::Error;
use sakiyomi_expression::narrow::Narrow;

use super::layout::Kind;
use super::types::canonical;
use add::{add_float, add_integers, add_wide, each, each_of};

/// A state of all groups, indexed by group number.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Number of rows, values, or distinct values.
    Count(Vec<i64>),
    Sum(Vec<i128>),
    WideSum(Vec<i256>),
    /// A sum and its rounding error.
    FloatSum(Vec<[f64; 2]>),
    Extreme {
        values: Vec<i64>,
        is_max: bool,
    },
    WideExtreme {
        values: Vec<i128>,
        is_max: bool,
    },
    ByteExtreme {
        values: Vec<Option<Box<[u8]>>>,
        is_max: bool,
        bytes: usize,
    },
}

/// The values of an argument on a batch.
#[derive(Clone, Debug)]
pub(crate) enum Values<'a> {
    Narrow(Narrow<'a>),
    Array(ArrayRef),
}

impl State {
    pub(crate) fn new(kind: Kind) -> State {
        match kind {
            Kind::Count | Kind::Distinct(_) => State::Count(Vec::new()),
            Kind::Sum => State::Sum(Vec::new()),
            Kind::WideSum => State::WideSum(Vec::new()),
            Kind::FloatSum => State::FloatSum(Vec::new()),
            Kind::Extreme { is_max } => State::Extreme { values: Vec::new(), is_max },
            Kind::WideExtreme { is_max } => State::WideExtreme { values: Vec::new(), is_max },
            Kind::ByteExtreme { is_max } => State::ByteExtreme { values: Vec::new(), is_max, bytes: 0 },
        }
    }

    /// Returns the bytes per group, without variable-length values.
    pub(crate) fn bytes_per_group(&self) -> usize {
        match self {
            State::Count(_) | State::Extreme { .. } => size_of::<i64>(),
            State::Sum(_) | State::WideExtreme { .. } | State::FloatSum(_) => size_of::<i128>(),
            State::WideSum(_) => size_of::<i256>(),
            State::ByteExtreme { .. } => size_of::<Option<Box<[u8]>>>(),
        }
    }

    /// Returns the bytes of variable-length values.
    pub(crate) fn variable_bytes(&self) -> usize {
        if let State::ByteExtreme { bytes, .. } = self { *bytes } else { 0 }
    }

    pub(crate) fn reserve(&mut self, groups: usize) {
        fn reserve<T>(values: &mut Vec<T>, groups: usize) {
            values.reserve_exact(groups.saturating_sub(values.len()));
        }
        match self {
            State::Count(values) | State::Extreme { values, .. } => reserve(values, groups),
            State::Sum(values) | State::WideExtreme { values, .. } => reserve(values, groups),
            State::WideSum(values) => reserve(values, groups),
            State::FloatSum(values) => reserve(values, groups),
            State::ByteExtreme { values, .. } => reserve(values, groups),
        }
    }

    /// Resizes to a number of groups; new groups have the initial state.
    pub(crate) fn resize(&mut self, groups: usize) {
        match self {
            State::Count(values) => values.resize(groups, 0),
            State::Sum(values) => values.resize(groups, 0),
            State::WideSum(values) => values.resize(groups, i256::ZERO),
            State::FloatSum(values) => values.resize(groups, [0.0; 2]),
            State::Extreme { values, is_max } => {
                values.resize(groups, if *is_max { i64::MIN } else { i64::MAX })
            }
            State::WideExtreme { values, is_max } => {
                values.resize(groups, if *is_max { i128::MIN } else { i128::MAX });
            }
            State::ByteExtreme { values, .. } => values.resize(groups, None),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            State::Count(values) | State::Extreme { values, .. } => values.clear(),
            State::Sum(values) | State::WideExtreme { values, .. } => values.clear(),
            State::WideSum(values) => values.clear(),
            State::FloatSum(values) => values.clear(),
            State::ByteExtreme { values, bytes, .. } => {
                values.clear();
                *bytes = 0;
            }
        }
    }

    /// Adds the values of rows to their groups.
    pub(crate) fn add(&mut self, groups: &[u32], values: Option<&Values<'_>>) -> Result<(), Error> {
        let Some(values) = values else {
            if let State::Count(counts) = self {
                groups.iter().for_each(|&group| counts[group as usize] += 1);
            }
            return Ok(());
        };
        match self {
            State::Count(counts) => count_values(counts, groups, values),
            State::Sum(sums) => match values {
                Values::Narrow(narrow) => each(groups, narrow.values, narrow.nulls, |group, value: i64| {
                    sums[group] += i128::from(value);
                }),
                Values::Array(array) => return add_integers(sums, groups, array),
            },
            State::WideSum(sums) => {
                let Values::Array(array) = values else { return self.add_narrow(groups, values) };
                match array.data_type() {
                    DataType::Decimal128(..) => each_of::<Decimal128Type>(groups, array, |group, value| {
                        sums[group] = sums[group].wrapping_add(i256::from_i128(value));
                    }),
                    _ => return add_wide(sums, groups, array),
                }
            }
            State::FloatSum(sums) => {
                let Values::Array(array) = values else { return Ok(()) };
                let mut add = |group: usize, value: f64| add_float(&mut sums[group], value);
                match array.data_type() {
                    DataType::Float16 => {
                        each_of::<Float16Type>(groups, array, |group, value| add(group, value.into()))
                    }
                    DataType::Float32 => {
                        each_of::<Float32Type>(groups, array, |group, value| add(group, value.into()))
                    }
                    _ => each_of::<Float64Type>(groups, array, add),
                }
            }
            State::Extreme { values: extremes, is_max } => {
                let array;
                let (ordered, nulls) = match values {
                    Values::Narrow(narrow) => (std::borrow::Cow::Borrowed(narrow.values), narrow.nulls),
                    Values::Array(values) => {
                        array = values.clone();
                        (std::borrow::Cow::Owned(ordered::from_array(&array)?), array.nulls())
                    }
                };
                match is_max {
                    true => each(groups, &ordered, nulls, |group, value| {
                        extremes[group] = extremes[group].max(value)
                    }),
                    false => each(groups, &ordered, nulls, |group, value| {
                        extremes[group] = extremes[group].min(value)
                    }),
                }
            }
            State::WideExtreme { values: extremes, is_max } => match values {
                Values::Narrow(narrow) => each(groups, narrow.values, narrow.nulls, |group, value| {
                    extremes[group] = best(*is_max, extremes[group], value.into());
                }),
                Values::Array(array) => each_of::<Decimal128Type>(groups, array, |group, value| {
                    extremes[group] = best(*is_max, extremes[group], value);
                }),
            },
            State::ByteExtreme { .. } => {
                let Values::Array(array) = values else { return Ok(()) };
                return self.add_bytes(groups, array);
            }
        }
        Ok(())
    }

    fn add_narrow(&mut self, groups: &[u32], values: &Values<'_>) -> Result<(), Error> {
        if let (State::WideSum(sums), Values::Narrow(narrow)) = (self, values) {
            each(groups, narrow.values, narrow.nulls, |group, value| {
                sums[group] = sums[group].wrapping_add(i256::from_i128(value.into()));
            });
        }
        Ok(())
    }

    fn add_bytes(&mut self, groups: &[u32], array: &ArrayRef) -> Result<(), Error> {
        let array = canonical(array)?;
        let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
        let rows = converter.convert_columns(std::slice::from_ref(&array))?;
        let nulls = array.logical_nulls();
        for (row, &group) in groups.iter().enumerate() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                self.take_bytes(group as usize, rows.row(row).data());
            }
        }
        Ok(())
    }

    fn take_bytes(&mut self, group: usize, new: &[u8]) {
        let State::ByteExtreme { values, is_max, bytes } = self else { return };
        let is_better = match &values[group] {
            None => true,
            Some(old) => *new != **old && (*new > **old) == *is_max,
        };
        if is_better {
            *bytes += new.len();
            *bytes -= values[group].as_ref().map_or(0, |old| old.len());
            values[group] = Some(new.into());
        }
    }

    pub(crate) fn add_to(&mut self, group: u32, more: i64) {
        if let State::Count(counts) = self {
            counts[group as usize] += more;
        }
    }

    pub(crate) fn add_sum(&mut self, group: u32, more: i64) {
        match self {
            State::Sum(sums) => sums[group as usize] += i128::from(more),
            State::WideSum(sums) => {
                let sum = &mut sums[group as usize];
                *sum = sum.wrapping_add(i256::from_i128(more.into()));
            }
            _ => {}
        }
    }

    /// Serializes the state of a group.
    pub(crate) fn write(&self, group: u32, bytes: &mut Vec<u8>) {
        let group = group as usize;
        match self {
            State::Count(values) | State::Extreme { values, .. } => bytes.extend(values[group].to_le_bytes()),
            State::Sum(values) | State::WideExtreme { values, .. } => {
                bytes.extend(values[group].to_le_bytes())
            }
            State::WideSum(values) => bytes.extend(values[group].to_le_bytes()),
            State::FloatSum(values) => values[group].iter().for_each(|part| bytes.extend(part.to_le_bytes())),
            State::ByteExtreme { values, .. } => {
                let length = values[group].as_ref().map_or(u32::MAX, |value| value.len() as u32);
                bytes.extend(length.to_le_bytes());
                bytes.extend_from_slice(values[group].as_deref().unwrap_or_default());
            }
        }
    }

    /// Merges a state from [`State::write`]; `None` if there are too few bytes or a sum overflows.
    pub(crate) fn merge(&mut self, group: u32, bytes: &mut &[u8]) -> Option<()> {
        let place = group as usize;
        match self {
            State::Count(values) => values[place] += i64::from_le_bytes(take(bytes)?),
            State::Sum(values) => {
                values[place] = values[place].checked_add(i128::from_le_bytes(take(bytes)?))?
            }
            State::WideSum(values) => {
                values[place] = values[place].checked_add(i256::from_le_bytes(take(bytes)?))?
            }
            State::FloatSum(values) => {
                let parts = [f64::from_le_bytes(take(bytes)?), f64::from_le_bytes(take(bytes)?)];
                parts.into_iter().for_each(|part| add_float(&mut values[place], part));
            }
            State::Extreme { values, is_max } => {
                values[place] = best(*is_max, values[place], i64::from_le_bytes(take(bytes)?));
            }
            State::WideExtreme { values, is_max } => {
                values[place] = best(*is_max, values[place], i128::from_le_bytes(take(bytes)?));
            }
            State::ByteExtreme { .. } => {
                let length = u32::from_le_bytes(take(bytes)?);
                if length != u32::MAX {
                    let (value, rest) = bytes.split_at_checked(length as usize)?;
                    self.take_bytes(place, value);
                    *bytes = rest;
                }
            }
        }
        Some(())
    }
}

fn best<T: Ord>(is_max: bool, a: T, b: T) -> T {
    if is_max { a.max(b) } else { a.min(b) }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

fn count_values(counts: &mut [i64], groups: &[u32], values: &Values<'_>) {
    let nulls = match values {
        Values::Narrow(narrow) => narrow.nulls.cloned(),
        Values::Array(array) => array.logical_nulls(),
    };
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => groups.iter().for_each(|&group| counts[group as usize] += 1),
        Some(nulls) => {
            groups
                .iter()
                .zip(nulls.iter())
                .for_each(|(&group, valid)| counts[group as usize] += i64::from(valid));
        }
    }
}
