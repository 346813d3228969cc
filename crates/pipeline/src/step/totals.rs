//! Aggregates of rows: what the functions of `compute` keep for a key and window.

use std::cell::RefCell;
use std::collections::BTreeSet;

use arrow_schema::DataType;
use sakiyomi_expression::row::Value;
use sakiyomi_stream::operators::Aggregate;
use sakiyomi_stream::{Decode, Decoder, Encode, StateError};
use smallvec::SmallVec;

use crate::row::{KeyForm, Row, RowBuilder, append, read};

/// A function of `compute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// Rows, or values that are not null.
    Count,
    CountDistinct,
    Sum,
    Avg,
    Min,
    Max,
}

/// A function and its argument.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    /// The cell of the argument and its type; none of `count(*)`.
    pub(crate) argument: Option<(usize, DataType)>,
}

/// State of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Total {
    Count(u64),
    /// Sum of integers or unscaled decimals, and the number of values.
    Exact(i128, u64),
    /// Sum of floats, and the number of values.
    Float(f64, u64),
    /// The least or greatest value in its sortable form; empty without values.
    Extreme(Vec<u8>),
    Distinct(BTreeSet<Vec<u8>>),
}

/// Calls of most aggregates, which then take no allocation.
type Inline = SmallVec<[Total; 2]>;

/// State of all calls of a step for a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Totals(Inline);

/// The aggregate of a step.
#[derive(Debug)]
pub(crate) struct Calls {
    calls: Vec<Call>,
    /// The sortable form of the current value.
    bytes: RefCell<Vec<u8>>,
}

impl Call {
    fn init(&self) -> Total {
        let is_float = matches!(&self.argument, Some((_, data_type)) if data_type.is_floating());
        match self.function {
            Function::Count => Total::Count(0),
            Function::CountDistinct => Total::Distinct(BTreeSet::new()),
            Function::Sum | Function::Avg if is_float => Total::Float(0.0, 0),
            Function::Sum | Function::Avg => Total::Exact(0, 0),
            Function::Min | Function::Max => Total::Extreme(Vec::new()),
        }
    }

    #[inline]
    fn add(&self, total: &mut Total, row: &Row, bytes: &mut Vec<u8>) {
        let value = match &self.argument {
            None => Value::Bool(true),
            Some((cell, _)) => row.value(*cell),
        };
        if value == Value::Null {
            return;
        }
        match (total, value) {
            (Total::Count(count), _) => *count += 1,
            // 2⁶⁴ integers do not overflow 128 bits; decimals saturate beyond 38 digits.
            (Total::Exact(sum, count), Value::Int(value)) => {
                (*sum, *count) = (sum.saturating_add(value.into()), *count + 1)
            }
            (Total::Exact(sum, count), Value::UInt(value)) => {
                (*sum, *count) = (sum.saturating_add(value.into()), *count + 1)
            }
            (Total::Exact(sum, count), Value::Decimal(value)) => {
                (*sum, *count) = (sum.saturating_add(value), *count + 1)
            }
            (Total::Float(sum, count), Value::Float(value)) => (*sum, *count) = (*sum + value, *count + 1),
            (Total::Extreme(best), value) => {
                bytes.clear();
                append(value, bytes);
                self.improve(best, bytes);
            }
            (Total::Distinct(values), value) => {
                bytes.clear();
                append(value, bytes);
                if !values.contains(bytes.as_slice()) {
                    values.insert(bytes.clone());
                }
            }
            _ => {}
        }
    }

    /// Replaces the best value if another one is better.
    fn improve(&self, best: &mut Vec<u8>, found: &[u8]) {
        let is_better = match self.function {
            Function::Min => found < &best[..],
            _ => found > &best[..],
        };
        if best.is_empty() || is_better {
            best.clear();
            best.extend_from_slice(found);
        }
    }

    fn merge(&self, total: &mut Total, later: &Total) {
        match (total, later) {
            (Total::Count(count), Total::Count(more)) => *count += more,
            (Total::Exact(sum, count), Total::Exact(more, others)) => {
                (*sum, *count) = (sum.saturating_add(*more), *count + others);
            }
            (Total::Float(sum, count), Total::Float(more, others)) => {
                (*sum, *count) = (*sum + more, *count + others)
            }
            (Total::Extreme(best), Total::Extreme(found)) if !found.is_empty() => self.improve(best, found),
            (Total::Distinct(values), Total::Distinct(more)) => values.extend(more.iter().cloned()),
            _ => {}
        }
    }

    /// Adds the result to a row. Whether it fits its type.
    fn push(&self, total: &Total, row: &mut RowBuilder) -> bool {
        let data_type = self.argument.as_ref().map(|(_, data_type)| data_type);
        let value = match total {
            Total::Count(count) => Value::Int(count.cast_signed()),
            Total::Distinct(values) => Value::Int(values.len() as i64),
            Total::Exact(_, 0) | Total::Float(_, 0) => Value::Null,
            Total::Float(sum, count) if self.function == Function::Avg => Value::Float(sum / *count as f64),
            Total::Float(sum, _) => Value::Float(*sum),
            Total::Exact(sum, count) if self.function == Function::Avg => {
                let unit = data_type.map_or(1.0, |data_type| 10_f64.powi(scale_of(data_type).into()));
                Value::Float(*sum as f64 / unit / *count as f64)
            }
            Total::Exact(sum, _) => match data_type {
                Some(data_type) if is_decimal(data_type) => Value::Decimal(*sum),
                Some(DataType::UInt64) => match u64::try_from(*sum) {
                    Ok(sum) => Value::UInt(sum),
                    Err(_) => return false,
                },
                _ => match i64::try_from(*sum) {
                    Ok(sum) => Value::Int(sum),
                    Err(_) => return false,
                },
            },
            Total::Extreme(best) => {
                let form = data_type.map_or(KeyForm::Int, KeyForm::of);
                if best.is_empty() {
                    return row.push(Value::Null, None);
                }
                return read(form, &mut Decoder::new(best), row).is_ok();
            }
        };
        row.push(value, None)
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..))
}

fn scale_of(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            *scale
        }
        _ => 0,
    }
}

impl Function {
    /// Returns the function of a name.
    pub(crate) fn of(name: &str, is_distinct: bool) -> Option<Function> {
        Some(match (name, is_distinct) {
            ("count", false) => Function::Count,
            ("count", true) => Function::CountDistinct,
            ("sum", false) => Function::Sum,
            ("avg", false) => Function::Avg,
            ("min", false) => Function::Min,
            ("max", false) => Function::Max,
            _ => return None,
        })
    }

    /// Returns the type of the result for an argument; none if the function has no such argument.
    pub(crate) fn result(self, argument: Option<&DataType>) -> Option<DataType> {
        let is_number = argument.is_some_and(DataType::is_numeric);
        Some(match self {
            Function::Count | Function::CountDistinct => DataType::Int64,
            Function::Avg if is_number => DataType::Float64,
            Function::Sum if is_number => match argument? {
                DataType::UInt64 => DataType::UInt64,
                data_type if data_type.is_floating() => DataType::Float64,
                data_type if is_decimal(data_type) => DataType::Decimal128(38, scale_of(data_type)),
                _ => DataType::Int64,
            },
            Function::Sum | Function::Avg => return None,
            Function::Min | Function::Max => argument?.clone(),
        })
    }
}

impl Aggregate<Row> for Calls {
    type State = Totals;
    type Output = Totals;

    fn init(&self) -> Totals {
        Totals(self.calls.iter().map(Call::init).collect())
    }

    #[inline]
    fn add(&self, state: &mut Totals, row: &Row) {
        let mut bytes = self.bytes.borrow_mut();
        for (call, total) in self.calls.iter().zip(&mut state.0) {
            call.add(total, row, &mut bytes);
        }
    }

    fn merge(&self, state: &mut Totals, later: &Totals) {
        for (call, (total, more)) in self.calls.iter().zip(state.0.iter_mut().zip(&later.0)) {
            call.merge(total, more);
        }
    }

    fn output(&self, state: &Totals) -> Totals {
        state.clone()
    }
}

impl Calls {
    pub(crate) fn new(calls: Vec<Call>) -> Calls {
        Calls { calls, bytes: RefCell::default() }
    }

    /// Adds the results to a row. Whether all fit their types.
    pub(crate) fn push(calls: &[Call], totals: &Totals, row: &mut RowBuilder) -> bool {
        calls.iter().zip(&totals.0).all(|(call, total)| call.push(total, row))
    }
}

impl Totals {
    /// Returns the states of the calls.
    pub(crate) fn each(&self) -> &[Total] {
        &self.0
    }
}

impl Encode for Totals {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.0.len() as u64).encode(out);
        for total in &self.0 {
            match total {
                Total::Count(count) => (0_u8, *count).encode(out),
                Total::Exact(sum, count) => (1_u8, sum.to_le_bytes(), *count).encode(out),
                Total::Float(sum, count) => (2_u8, *sum, *count).encode(out),
                Total::Extreme(best) => {
                    out.push(3);
                    best.encode(out);
                }
                Total::Distinct(values) => {
                    out.push(4);
                    values.encode(out);
                }
            }
        }
    }
}

impl Decode for Totals {
    fn decode(from: &mut Decoder<'_>) -> Result<Totals, StateError> {
        let mut totals = Inline::new();
        for _ in 0..from.length()? {
            totals.push(match u8::decode(from)? {
                0 => Total::Count(Decode::decode(from)?),
                1 => Total::Exact(i128::from_le_bytes(Decode::decode(from)?), Decode::decode(from)?),
                2 => Total::Float(Decode::decode(from)?, Decode::decode(from)?),
                3 => Total::Extreme(Decode::decode(from)?),
                4 => Total::Distinct(Decode::decode(from)?),
                _ => return Err(StateError::Value("an aggregate")),
            });
        }
        Ok(Totals(totals))
    }
}
