//! Exact 64-bit arithmetic for expressions with wider types.
//!
//! `l_extendedprice * (1 - l_discount) * (1 + l_tax)` is a decimal of 38 digits, but its values need 38 bits. A program
//! computes several expressions on 64-bit integers and evaluates common subexpressions once. Each step has a bound of
//! its absolute values in the batch. If a step might overflow, the program has no result, and the caller evaluates the
//! expression with its type.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type,
};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use crate::bound::Expression;
use crate::node::{Conversion, Node};
use crate::types::Arithmetic;

/// A step of a program; operands are the indices of earlier steps.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Load(usize),
    Constant(i64),
    /// Multiplies by a power of ten, for more decimal places.
    Scale(usize, i64),
    Compute(Arithmetic, usize, usize),
    Negate(usize),
}

/// Expressions compiled to 64-bit arithmetic.
#[derive(Clone, Debug, Default)]
pub struct Program {
    steps: Vec<Step>,
    /// The step of each expression's result; `None` if the expression is not supported.
    outputs: Vec<Option<usize>>,
    registers: Vec<Register>,
}

/// The values of a step.
#[derive(Clone, Debug, Default)]
struct Register {
    content: Content,
    /// Buffer that is reused for each batch.
    owned: Vec<i64>,
    nulls: Option<NullBuffer>,
    /// Upper bound of the absolute values.
    bound: u64,
}

#[derive(Clone, Debug, Default)]
enum Content {
    /// A value may not fit 64 bits.
    #[default]
    Unfit,
    Owned,
    Shared(ScalarBuffer<i64>),
    Constant(i64),
}

/// The values of an expression on a batch: integers, or unscaled decimals.
#[derive(Clone, Copy, Debug)]
pub struct Narrow<'a> {
    /// The values, unscaled; those of null rows are unspecified.
    pub values: &'a [i64],
    /// The null bits, if a value is null.
    pub nulls: Option<&'a NullBuffer>,
    /// Upper bound of the absolute values.
    pub bound: u64,
}

impl Program {
    /// Compiles expressions. Unsupported expressions have no results.
    #[must_use]
    pub fn new<'a>(expressions: impl IntoIterator<Item = &'a Expression>) -> Program {
        let mut program = Program::default();
        for expression in expressions {
            let output = program.compile(expression.node());
            program.outputs.push(output);
        }
        program.registers = vec![Register::default(); program.steps.len()];
        program
    }

    fn compile(&mut self, node: &Node) -> Option<usize> {
        let data_type = node.data_type();
        scale(&data_type)?;
        let step = match node {
            Node::Column { place, .. } => Step::Load(*place),
            Node::Literal(literal) => Step::Constant(constant(&literal.value)?),
            Node::Negate(input) => Step::Negate(self.compile(input)?),
            Node::Cast { input, kind: Conversion::Implicit, .. } => {
                let more = scale(&data_type)?.checked_sub(scale(&input.data_type())?)?;
                let input = self.compile(input)?;
                match u32::try_from(more).ok()? {
                    0 => return Some(input),
                    more => Step::Scale(input, 10i64.checked_pow(more)?),
                }
            }
            Node::Arithmetic { operator, left, right, .. } => match operator {
                Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply => {
                    Step::Compute(*operator, self.compile(left)?, self.compile(right)?)
                }
                Arithmetic::Divide | Arithmetic::Remainder => return None,
            },
            _ => return None,
        };
        let known = self.steps.iter().position(|known| *known == step);
        Some(known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    /// Computes all expressions on a batch.
    pub fn run(&mut self, batch: &RecordBatch) {
        for place in 0..self.steps.len() {
            let mut register = std::mem::take(&mut self.registers[place]);
            register.nulls = None;
            match &self.steps[place] {
                Step::Load(column) => register.load(batch, *column),
                Step::Constant(value) => {
                    (register.content, register.bound) = (Content::Constant(*value), value.unsigned_abs());
                }
                Step::Scale(input, factor) => {
                    let factor = *factor;
                    let bound = self.registers[*input].bound.checked_mul(factor.unsigned_abs());
                    register.map(&self.registers[*input], bound, |value| value.wrapping_mul(factor));
                }
                Step::Negate(input) => {
                    let bound = Some(self.registers[*input].bound);
                    register.map(&self.registers[*input], bound, i64::wrapping_neg);
                }
                Step::Compute(operator, left, right) => {
                    register.compute(*operator, &self.registers[*left], &self.registers[*right]);
                }
            }
            self.registers[place] = register;
        }
    }

    /// Returns the values of an expression, by its index, on the last batch; `None` if 64 bits may not be enough.
    ///
    /// # Panics
    /// If the program has fewer expressions.
    #[must_use]
    pub fn output(&self, expression: usize) -> Option<Narrow<'_>> {
        let register = &self.registers[self.outputs[expression]?];
        let values = register.values()?;
        Some(Narrow { values, nulls: register.nulls.as_ref(), bound: register.bound })
    }
}

impl Register {
    fn values(&self) -> Option<&[i64]> {
        match &self.content {
            Content::Owned => Some(&self.owned),
            Content::Shared(values) => Some(values),
            Content::Unfit | Content::Constant(_) => None,
        }
    }

    fn load(&mut self, batch: &RecordBatch, column: usize) {
        let Some(array) = batch.columns().get(column) else {
            self.content = Content::Unfit;
            return;
        };
        self.nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        self.content = Content::Owned;
        match array.data_type() {
            DataType::Int64 => {
                self.content = Content::Shared(array.as_primitive::<Int64Type>().values().clone())
            }
            DataType::Decimal64(..) => {
                self.content = Content::Shared(array.as_primitive::<Decimal64Type>().values().clone());
            }
            DataType::Int8 => self.widen::<Int8Type>(array),
            DataType::Int16 => self.widen::<Int16Type>(array),
            DataType::Int32 => self.widen::<Int32Type>(array),
            DataType::UInt8 => self.widen::<UInt8Type>(array),
            DataType::UInt16 => self.widen::<UInt16Type>(array),
            DataType::UInt32 => self.widen::<UInt32Type>(array),
            DataType::Decimal32(..) => self.widen::<Decimal32Type>(array),
            DataType::Decimal128(..) => self.cut(array.as_primitive::<Decimal128Type>().values()),
            _ => self.content = Content::Unfit,
        }
        self.bound = self.values().map_or(0, bound);
    }

    fn widen<T: ArrowPrimitiveType>(&mut self, array: &dyn Array)
    where
        T::Native: Into<i64>,
    {
        self.owned.clear();
        self.owned.extend(array.as_primitive::<T>().values().iter().map(|&value| value.into()));
    }

    fn cut(&mut self, values: &[i128]) {
        self.owned.clear();
        self.owned.extend(values.iter().map(|&value| value as i64));
        let lost = values
            .iter()
            .zip(&self.owned)
            .fold(false, |lost, (&wide, &cut)| lost | (wide != i128::from(cut)));
        if lost {
            self.content = Content::Unfit;
        }
    }

    fn map(&mut self, input: &Register, bound: Option<u64>, compute: impl Fn(i64) -> i64) {
        let Some(bound) = bound.filter(|bound| *bound <= i64::MAX as u64) else {
            self.content = Content::Unfit;
            return;
        };
        self.bound = bound;
        self.nulls.clone_from(&input.nulls);
        self.content = match (&input.content, input.values()) {
            (Content::Constant(value), _) => Content::Constant(compute(*value)),
            (_, Some(values)) => {
                self.owned.clear();
                self.owned.extend(values.iter().map(|&value| compute(value)));
                Content::Owned
            }
            _ => Content::Unfit,
        };
    }

    fn compute(&mut self, operator: Arithmetic, left: &Register, right: &Register) {
        let bound = match operator {
            Arithmetic::Multiply => left.bound.checked_mul(right.bound),
            _ => left.bound.checked_add(right.bound),
        };
        let Some(bound) = bound.filter(|bound| *bound <= i64::MAX as u64) else {
            self.content = Content::Unfit;
            return;
        };
        self.bound = bound;
        self.nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
        match operator {
            Arithmetic::Add => self.combine(left, right, i64::wrapping_add),
            Arithmetic::Subtract => self.combine(left, right, i64::wrapping_sub),
            _ => self.combine(left, right, i64::wrapping_mul),
        }
    }

    fn combine(&mut self, left: &Register, right: &Register, compute: impl Fn(i64, i64) -> i64) {
        self.owned.clear();
        self.content = match (&left.content, left.values(), &right.content, right.values()) {
            (Content::Constant(a), _, Content::Constant(b), _) => Content::Constant(compute(*a, *b)),
            (Content::Constant(a), _, _, Some(right)) => {
                self.owned.extend(right.iter().map(|&b| compute(*a, b)));
                Content::Owned
            }
            (_, Some(left), Content::Constant(b), _) => {
                self.owned.extend(left.iter().map(|&a| compute(a, *b)));
                Content::Owned
            }
            (_, Some(left), _, Some(right)) => {
                self.owned.extend(left.iter().zip(right).map(|(&a, &b)| compute(a, b)));
                Content::Owned
            }
            _ => Content::Unfit,
        };
    }
}

/// Returns a power of two that bounds the absolute values; one vectorizable pass without branches.
fn bound(values: &[i64]) -> u64 {
    let bits = values.iter().fold(0, |bits, &value| bits | (value ^ (value >> 63)) as u64);
    1u64.checked_shl(u64::BITS - bits.leading_zeros()).unwrap_or(u64::MAX)
}

/// Returns the scale of a supported type.
fn scale(data_type: &DataType) -> Option<i8> {
    match *data_type {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(scale)
        }
        DataType::Int64 | DataType::Int32 | DataType::Int16 | DataType::Int8 => Some(0),
        DataType::UInt32 | DataType::UInt16 | DataType::UInt8 => Some(0),
        _ => None,
    }
}

fn constant(value: &dyn Array) -> Option<i64> {
    if value.is_null(0) {
        return None;
    }
    match value.data_type() {
        DataType::Int64 => Some(value.as_primitive::<Int64Type>().value(0)),
        DataType::Decimal64(..) => Some(value.as_primitive::<Decimal64Type>().value(0)),
        DataType::Decimal128(..) => value.as_primitive::<Decimal128Type>().value(0).try_into().ok(),
        _ => None,
    }
}
