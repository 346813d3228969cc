//! The query: keys, aggregates, a condition, and result types.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Decimal256Type, DecimalType};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::{Error, order};
use sakiyomi_expression::Expression;

use super::types::flat;

/// Digits added to the precision of a sum of decimals, which suffice for 10^10 rows.
pub(crate) const SUM_DIGITS_EXTRA: u8 = 10;
/// Digits added to the precision and scale of an average of decimals.
pub(crate) const AVERAGE_SCALE_EXTRA: u8 = 4;

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The sum of the values that are not null; null if there are none.
    Sum,
    /// The average of the values that are not null; null if there are none.
    Avg,
    /// The minimum of the values that are not null; null if there are none.
    Min,
    /// The maximum of the values that are not null; NaN is greater than every number.
    Max,
    /// The number of values that are not null, or of rows without an argument.
    Count,
    /// The number of distinct values that are not null.
    CountDistinct,
}

impl Function {
    /// All functions, with their names on the command line.
    pub const NAMES: [(&'static str, Function); 6] = [
        ("sum", Function::Sum),
        ("avg", Function::Avg),
        ("min", Function::Min),
        ("max", Function::Max),
        ("count", Function::Count),
        ("count-distinct", Function::CountDistinct),
    ];
}

/// An aggregate function of an expression, with a name.
#[derive(Clone, Debug)]
pub struct Aggregate {
    function: Function,
    argument: Option<Expression>,
    name: String,
    data_type: DataType,
}

impl Aggregate {
    /// Makes the number of rows, named `count`.
    #[must_use]
    pub fn rows() -> Aggregate {
        let (function, data_type) = (Function::Count, DataType::Int64);
        Aggregate { function, argument: None, name: "count".into(), data_type }
    }

    /// Parses the argument, `EXPRESSION [AS NAME]`. The default name has the form `sum(EXPRESSION)`.
    ///
    /// # Errors
    /// [`Error::Query`] if the expression does not fit the schema, or the function does not support its type.
    pub fn parse(function: Function, text: &str, schema: &Schema) -> Result<Aggregate, Error> {
        let (argument, name) = Expression::named(text, schema)?;
        let name = name.unwrap_or_else(|| match argument.as_column() {
            Some(place) => default_name(function, schema.field(place).name()),
            None => default_name(function, text.trim()),
        });
        Aggregate::new(function, argument, &name)
    }

    /// Makes an aggregate of an expression.
    ///
    /// # Errors
    /// [`Error::Query`] if the function does not support the type of the expression.
    pub fn new(function: Function, argument: Expression, name: &str) -> Result<Aggregate, Error> {
        let argument_type = argument.data_type();
        let data_type = result_type(function, flat(&argument_type)).ok_or_else(|| {
            let found = match flat(&argument_type) {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "a text".to_owned(),
                other => format!("of type {other}"),
            };
            Error::Query(format!("{name} is not defined: {argument} is {found}"))
        })?;
        Ok(Aggregate { function, argument: Some(argument), name: name.to_owned(), data_type })
    }

    /// Changes the name.
    #[must_use]
    pub fn named(self, name: &str) -> Aggregate {
        Aggregate { name: name.to_owned(), ..self }
    }

    /// Returns the function.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }

    /// Returns the argument; `None` for the number of rows.
    #[must_use]
    pub fn argument(&self) -> Option<&Expression> {
        self.argument.as_ref()
    }

    /// Returns the name of the result.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of the result.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn field(&self) -> Field {
        let is_count = matches!(self.function, Function::Count | Function::CountDistinct);
        Field::new(&self.name, self.data_type.clone(), !is_count)
    }
}

fn default_name(function: Function, argument: &str) -> String {
    match function {
        Function::Sum => format!("sum({argument})"),
        Function::Avg => format!("avg({argument})"),
        Function::Min => format!("min({argument})"),
        Function::Max => format!("max({argument})"),
        Function::Count => format!("count({argument})"),
        Function::CountDistinct => format!("count(distinct {argument})"),
    }
}

fn result_type(function: Function, argument: &DataType) -> Option<DataType> {
    match function {
        Function::Count => Some(DataType::Int64),
        Function::CountDistinct => order::has_order(argument).then_some(DataType::Int64),
        Function::Min | Function::Max => order::has_order(argument).then(|| argument.clone()),
        Function::Sum => match argument {
            DataType::UInt64 => Some(DataType::UInt64),
            integer if integer.is_integer() => Some(DataType::Int64),
            float if float.is_floating() => Some(DataType::Float64),
            decimal => more_digits(decimal, SUM_DIGITS_EXTRA, 0),
        },
        Function::Avg => match argument {
            number if number.is_integer() || number.is_floating() => Some(DataType::Float64),
            decimal => more_digits(decimal, AVERAGE_SCALE_EXTRA, AVERAGE_SCALE_EXTRA as i8),
        },
    }
}

/// Adds digits and decimal places to a decimal type, up to the maximum precision.
fn more_digits(decimal: &DataType, digits: u8, places: i8) -> Option<DataType> {
    let (precision, scale, most) = match *decimal {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => (precision, scale, Decimal128Type::MAX_PRECISION),
        DataType::Decimal256(precision, scale) => (precision, scale, Decimal256Type::MAX_PRECISION),
        _ => return None,
    };
    let precision = precision.saturating_add(digits).min(most);
    let scale = scale.saturating_add(places).min(most as i8);
    Some(match most {
        Decimal128Type::MAX_PRECISION => DataType::Decimal128(precision, scale),
        _ => DataType::Decimal256(precision, scale),
    })
}

/// Keys and aggregates, bound to the schema of their input.
#[derive(Clone, Debug)]
pub struct Aggregation {
    keys: Vec<Expression>,
    aggregates: Vec<Aggregate>,
    condition: Option<Expression>,
    schema: SchemaRef,
}

impl Aggregation {
    /// Makes a query that groups rows by equal keys (null equals null, NaN equals NaN); without keys, all rows are one
    /// group. Rows on which the condition is not true are excluded.
    ///
    /// # Errors
    /// [`Error::Query`] if there are no keys and no aggregates, the type of a key has no order, or two results have the
    /// same name.
    pub fn new(
        keys: Vec<(String, Expression)>,
        aggregates: Vec<Aggregate>,
        condition: Option<Expression>,
        input: &Schema,
    ) -> Result<Aggregation, Error> {
        let mut fields = Vec::new();
        for (name, key) in &keys {
            let field = key.field(name, input);
            let data_type = flat(field.data_type()).clone();
            if !order::has_order(&data_type) {
                return Err(Error::Query(format!(
                    "rows cannot be grouped by {name}, which is of type {data_type}"
                )));
            }
            fields.push(field.with_data_type(data_type));
        }
        fields.extend(aggregates.iter().map(Aggregate::field));
        let mut names = BTreeSet::new();
        if let Some(field) = fields.iter().find(|field| !names.insert(field.name().clone())) {
            return Err(Error::Query(format!("two results are named {}; rename one by AS", field.name())));
        }
        if fields.is_empty() {
            return Err(Error::Query("no keys and no aggregates; set --by or an aggregate".into()));
        }
        let keys = keys.into_iter().map(|(_, key)| key).collect();
        Ok(Aggregation { keys, aggregates, condition, schema: Arc::new(Schema::new(fields)) })
    }

    /// Parses keys such as `a, b` or `extract(year from d) as year, a`; an empty text means no keys.
    ///
    /// # Errors
    /// [`Error::Query`] if an expression does not fit the schema.
    pub fn parse_keys(text: &str, schema: &Schema) -> Result<Vec<(String, Expression)>, Error> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let projection = sakiyomi_expression::Projection::parse(text, schema)?;
        let names = projection.schema();
        let names = names.fields().iter().map(|field| field.name().clone());
        Ok(names.zip(projection.expressions().iter().cloned()).collect())
    }

    /// Returns the schema of the results: keys without dictionaries, then aggregates.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the keys.
    #[must_use]
    pub fn keys(&self) -> &[Expression] {
        &self.keys
    }

    /// Returns the aggregates.
    #[must_use]
    pub fn aggregates(&self) -> &[Aggregate] {
        &self.aggregates
    }

    /// Returns the condition on rows.
    #[must_use]
    pub fn condition(&self) -> Option<&Expression> {
        self.condition.as_ref()
    }

    /// Returns the indices of the columns that a scan must read, ascending.
    #[must_use]
    pub fn columns(&self) -> Vec<usize> {
        let arguments = self.aggregates.iter().filter_map(Aggregate::argument);
        let all = self.keys.iter().chain(arguments).chain(&self.condition);
        let columns: BTreeSet<usize> = all.flat_map(Expression::columns).collect();
        columns.into_iter().collect()
    }

    /// Rebinds the query to batches that have only some columns, as [`Expression::onto`].
    ///
    /// # Panics
    /// If a column that the query uses is not in `kept`.
    #[must_use]
    pub fn onto(mut self, kept: &[usize]) -> Aggregation {
        self.keys = self.keys.into_iter().map(|key| key.onto(kept)).collect();
        self.condition = self.condition.map(|condition| condition.onto(kept));
        for aggregate in &mut self.aggregates {
            aggregate.argument = aggregate.argument.take().map(|argument| argument.onto(kept));
        }
        self
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = |aggregate: &Aggregate| match &aggregate.argument {
            Some(argument) => default_name(aggregate.function, &argument.to_string()),
            None => "count(*)".to_owned(),
        };
        let keys: Vec<String> = self.keys.iter().map(Expression::to_string).collect();
        let results: Vec<String> = keys.iter().cloned().chain(self.aggregates.iter().map(call)).collect();
        write!(f, "SELECT {}", results.join(", "))?;
        if let Some(condition) = &self.condition {
            write!(f, " WHERE {condition}")?;
        }
        if !keys.is_empty() {
            write!(f, " GROUP BY {}", keys.join(", "))?;
        }
        Ok(())
    }
}
