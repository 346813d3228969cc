//! TPC-H query 1 (TPC Benchmark H, 2.4.1), the pricing summary report: eight aggregates of nearly all rows of LINEITEM in
//! four groups. It is the report's measure of a scan that computes.

use arrow_schema::Schema;

use crate::Error;
use crate::expression::Expression;

use super::plan::{Aggregate, Aggregation, Function};

/// The keys, which are also the order of the result.
const KEYS: &str = "l_returnflag, l_linestatus";
/// 90 days before the end of the data, as the specification's validation run has it.
const CONDITION: &str = "l_shipdate <= date '1998-09-02'";
/// Functions, arguments and the names that the specification gives.
const AGGREGATES: [(Function, &str, &str); 7] = [
    (Function::Sum, "l_quantity", "sum_qty"),
    (Function::Sum, "l_extendedprice", "sum_base_price"),
    (Function::Sum, "l_extendedprice * (1 - l_discount)", "sum_disc_price"),
    (Function::Sum, "l_extendedprice * (1 - l_discount) * (1 + l_tax)", "sum_charge"),
    (Function::Avg, "l_quantity", "avg_qty"),
    (Function::Avg, "l_extendedprice", "avg_price"),
    (Function::Avg, "l_discount", "avg_disc"),
];

/// The query over a table with the columns of LINEITEM that it uses. Its result is sorted.
///
/// # Errors
/// [`Error::Query`] if a column is not there, or of another kind of type.
pub fn aggregation(schema: &Schema) -> Result<Aggregation, Error> {
    let aggregate = |(function, argument, name): (Function, &str, &str)| {
        Aggregate::new(function, Expression::parse(argument, schema)?, name)
    };
    let mut aggregates = AGGREGATES.into_iter().map(aggregate).collect::<Result<Vec<Aggregate>, Error>>()?;
    aggregates.push(Aggregate::rows().named("count_order"));
    let condition = Expression::condition(CONDITION, schema)?;
    Aggregation::new(Aggregation::parse_keys(KEYS, schema)?, aggregates, Some(condition), schema)
}
