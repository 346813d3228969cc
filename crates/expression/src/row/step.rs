//! Bound expressions compiled to steps, and their evaluation.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::Error;
use crate::evaluate::function::characters;
use crate::evaluate::{Operation, named};
use crate::node::{Function, Literal, Node};
use crate::parse::shortened;
use crate::values::Values;

use super::binary::Binary;
use super::like::Pattern;
use super::memory::Memory;
use super::unary::Unary;
use super::value::{Form, Value};

/// A compiled expression.
#[derive(Debug)]
pub(super) enum Step {
    Column {
        place: usize,
        form: Form,
        name: String,
        data_type: DataType,
    },
    Constant(Constant),
    /// AND or OR, whose result one value settles.
    Chain {
        inputs: Vec<Step>,
        settled: bool,
    },
    Case {
        branches: Vec<(Step, Step)>,
        otherwise: Box<Step>,
    },
    Coalesce(Vec<Step>),
    Unary(Unary, Box<Step>, Box<Kernel>),
    Binary(Binary, Box<[Step; 2]>, Box<Kernel>),
    Like {
        pattern: Pattern,
        negated: bool,
        input: Box<Step>,
    },
    Substring(Vec<Step>, Box<Kernel>),
    Kernel(Vec<Step>, Box<Kernel>),
}

/// A value of all rows.
#[derive(Debug)]
pub(super) enum Constant {
    Value(Value<'static>),
    Text(String),
    Array(ArrayRef),
}

/// The operator of Arrow for a step.
#[derive(Debug)]
pub(super) struct Kernel {
    operation: Operation,
    inputs: Vec<DataType>,
    /// Which inputs are constants: as for batches, kernels check these on rows too whose other values are null.
    is_constant: Vec<bool>,
    /// The expression as SQL, and its type, for errors.
    text: String,
    data_type: DataType,
    buffer: usize,
}

impl Step {
    /// Compiles an expression; steps that may make values get a buffer each.
    pub(super) fn new(node: &Node, memory: &mut Memory) -> Step {
        let mut compiled = |nodes: &[Node]| nodes.iter().map(|node| Step::new(node, memory)).collect();
        match node {
            Node::Column { place, name, data_type, .. } => Step::Column {
                place: *place,
                form: Form::of(data_type),
                name: name.clone(),
                data_type: data_type.clone(),
            },
            Node::Literal(literal) => Step::Constant(Constant::new(literal)),
            Node::All(inputs) => Step::Chain { inputs: compiled(inputs), settled: false },
            Node::Any(inputs) => Step::Chain { inputs: compiled(inputs), settled: true },
            Node::Coalesce { inputs, .. } => Step::Coalesce(compiled(inputs)),
            Node::Case { branches, otherwise, .. } => {
                let branches = branches
                    .iter()
                    .map(|(condition, result)| (Step::new(condition, memory), Step::new(result, memory)));
                let branches = branches.collect();
                Step::Case { branches, otherwise: Step::new(otherwise, memory).into() }
            }
            Node::Cast { .. }
            | Node::Arithmetic { .. }
            | Node::Negate(_)
            | Node::Compare { .. }
            | Node::Not(_)
            | Node::Is { .. }
            | Node::Like { .. }
            | Node::Call { .. } => operator(node, memory),
        }
    }

    /// Evaluates the expression on a row.
    #[inline]
    pub(super) fn run<'a>(&'a self, row: &[Value<'a>], memory: &'a Memory) -> Result<Value<'a>, Box<Error>> {
        match self {
            Step::Column { place, form, name, data_type } => match row.get(*place) {
                Some(Value::Null) => Ok(Value::Null),
                Some(value) if value.form() == *form => Ok(*value),
                found => Err(misfit(found, name, data_type)),
            },
            Step::Constant(Constant::Value(value)) => Ok(*value),
            other => other.compute(row, memory),
        }
    }

    fn compute<'a>(&'a self, row: &[Value<'a>], memory: &'a Memory) -> Result<Value<'a>, Box<Error>> {
        match self {
            Step::Column { .. } => self.run(row, memory),
            Step::Constant(constant) => Ok(constant.value()),
            Step::Chain { inputs, settled } => {
                let mut result = Value::Bool(!settled);
                for input in inputs {
                    match input.run(row, memory)? {
                        Value::Bool(value) if value == *settled => return Ok(Value::Bool(value)),
                        Value::Bool(_) => {}
                        _ => result = Value::Null,
                    }
                }
                Ok(result)
            }
            Step::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if condition.run(row, memory)? == Value::Bool(true) {
                        return result.run(row, memory);
                    }
                }
                otherwise.run(row, memory)
            }
            Step::Coalesce(inputs) => {
                for input in inputs {
                    let value = input.run(row, memory)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Step::Unary(operator, input, kernel) => {
                let value = input.run(row, memory)?;
                let result = operator.apply(value, (memory, kernel.buffer));
                result.map_or_else(|| kernel.run(&[value], memory), Ok)
            }
            Step::Binary(operator, inputs, kernel) => {
                let [left, right] = &**inputs;
                let (left, right) = (left.run(row, memory)?, right.run(row, memory)?);
                let result = operator.apply(left, right, (memory, kernel.buffer));
                result.map_or_else(|| kernel.run(&[left, right], memory), Ok)
            }
            Step::Like { pattern, negated, input } => Ok(match input.run(row, memory)? {
                Value::Text(text) => Value::Bool(pattern.matches(text) != *negated),
                _ => Value::Null,
            }),
            Step::Substring(inputs, kernel) => {
                let mut values = [Value::Null; 3];
                for (value, input) in values.iter_mut().zip(inputs) {
                    *value = input.run(row, memory)?;
                }
                let values = &values[..inputs.len()];
                substring(values).map_or_else(|| kernel.run(values, memory), Ok)
            }
            Step::Kernel(inputs, kernel) => {
                let values = inputs.iter().map(|input| input.run(row, memory));
                kernel.run(&values.collect::<Result<Vec<_>, _>>()?, memory)
            }
        }
    }
}

/// Compiles an expression that evaluates all its inputs.
fn operator(node: &Node, memory: &mut Memory) -> Step {
    let inputs = node.inputs();
    if let Node::Like { negated, any_case: false, .. } = node
        && let Some(pattern) = constant_text(inputs.last()).and_then(|pattern| Pattern::new(&pattern))
    {
        return Step::Like { pattern, negated: *negated, input: Step::new(inputs[0], memory).into() };
    }
    let kernel = Box::new(Kernel {
        operation: Operation::of(node).expect("the expression has an operator"),
        inputs: inputs.iter().map(|input| input.data_type()).collect(),
        is_constant: inputs.iter().map(|input| input.as_literal().is_some()).collect(),
        text: shortened(&node.to_string()),
        data_type: node.data_type(),
        buffer: memory.add(),
    });
    let (operation, to) = (&kernel.operation, &kernel.data_type);
    match (inputs.as_slice(), kernel.inputs.as_slice()) {
        ([input], [from]) if let Some(operator) = Unary::of(operation, from, to) => {
            if let Unary::Same = operator {
                return Step::new(input, memory);
            }
            Step::Unary(operator, Step::new(input, memory).into(), kernel)
        }
        ([left, right], [a, b]) if let Some(operator) = Binary::of(operation, [a, b], to) => {
            Step::Binary(operator, [Step::new(left, memory), Step::new(right, memory)].into(), kernel)
        }
        _ => {
            let is_substring = matches!(operation, Operation::Call { function: Function::Substring, .. });
            let inputs = inputs.into_iter().map(|input| Step::new(input, memory)).collect();
            if is_substring { Step::Substring(inputs, kernel) } else { Step::Kernel(inputs, kernel) }
        }
    }
}

/// `substring(text FROM start FOR length)`; `None` where the kernel decides.
fn substring<'a>(values: &[Value<'a>]) -> Option<Value<'a>> {
    let (text, start, end) = match *values {
        _ if values.iter().any(|value| value.is_null()) => return Some(Value::Null),
        [Value::Text(text), Value::Int(start)] => (text, start.into(), i128::MAX),
        [Value::Text(text), Value::Int(start), Value::Int(length @ 0..)] => {
            (text, start.into(), i128::from(start) + i128::from(length))
        }
        _ => return None,
    };
    Some(Value::Text(characters(text, i128::max(start, 1), end)))
}

fn constant_text(node: Option<&&Node>) -> Option<String> {
    match Constant::new(node?.as_literal()?) {
        Constant::Text(text) => Some(text),
        _ => None,
    }
}

#[cold]
fn misfit(found: Option<&Value<'_>>, name: &str, data_type: &DataType) -> Box<Error> {
    Box::new(Error::Expression(match found {
        Some(found) => format!("column {name} has {found:?} where a value of type {data_type} was expected"),
        None => format!("column {name} is missing in a row"),
    }))
}

impl Constant {
    fn new(literal: &Literal) -> Constant {
        match Value::of(&literal.value, 0) {
            Value::Null => Constant::Value(Value::Null),
            Value::Bool(value) => Constant::Value(Value::Bool(value)),
            Value::Int(value) => Constant::Value(Value::Int(value)),
            Value::UInt(value) => Constant::Value(Value::UInt(value)),
            Value::Float(value) => Constant::Value(Value::Float(value)),
            Value::Decimal(value) => Constant::Value(Value::Decimal(value)),
            Value::Text(text) => Constant::Text(text.to_owned()),
            Value::Binary(_) | Value::Array(_) => Constant::Array(literal.value.clone()),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Constant::Value(value) => *value,
            Constant::Text(text) => Value::Text(text),
            Constant::Array(array) => Value::of(array, 0),
        }
    }
}

impl Kernel {
    #[cold]
    fn run<'a>(&'a self, inputs: &[Value<'a>], memory: &'a Memory) -> Result<Value<'a>, Box<Error>> {
        let inputs = inputs.iter().zip(&self.inputs).zip(&self.is_constant);
        let arrays = inputs.map(|((value, data_type), is_constant)| {
            let array = value.to_array(data_type)?;
            Ok(if *is_constant { Values::Scalar(array) } else { Values::Array(array) })
        });
        let result =
            arrays.collect::<Result<Vec<Values>, _>>().and_then(|arrays| self.operation.apply(&arrays));
        let result = result.map_err(|error| named(&self.text, &self.data_type, error))?;
        Ok(Value::of(memory.array(self.buffer, result.into_inner()), 0))
    }
}
