//! TPC-H query 1 (TPC Benchmark H, 2.4.1), the pricing summary report: eight aggregates of nearly all rows of LINEITEM
//! in four groups. The report uses the query to measure a compute-bound scan.

use arrow_schema::Schema;

use crate::Error;
use sakiyomi_expression::Expression;

use super::plan::{Aggregate, Aggregation, Function};

/// The keys, which are also the order of the result.
const KEYS: &str = "l_returnflag, l_linestatus";
/// 90 days before the end of the data, as in the specification's validation run.
const CONDITION: &str = "l_shipdate <= date '1998-09-02'";
/// Functions, arguments and the names of the specification.
const AGGREGATES: [(Function, &str, &str); 7] = [
    (Function::Sum, "l_quantity", "sum_qty"),
    (Function::Sum, "l_extendedprice", "sum_base_price"),
    (Function::Sum, "l_extendedprice * (1 - l_discount)", "sum_disc_price"),
    (Function::Sum, "l_extendedprice * (1 - l_discount) * (1 + l_tax)", "sum_charge"),
    (Function::Avg, "l_quantity", "avg_qty"),
    (Function::Avg, "l_extendedprice", "avg_price"),
    (Function::Avg, "l_discount", "avg_disc"),
];

/// Makes the query over a table that has the used columns of LINEITEM. The result is sorted.
///
/// # Errors
/// [`Error::Query`] if a column is missing or has an unsuitable type.
pub fn aggregation(schema: &Schema) -> Result<Aggregation, Error> {
    let aggregate = |(function, argument, name): (Function, &str, &str)| {
        Aggregate::new(function, Expression::parse(argument, schema)?, name)
    };
    let mut aggregates = AGGREGATES.into_iter().map(aggregate).collect::<Result<Vec<Aggregate>, Error>>()?;
    aggregates.push(Aggregate::rows().named("count_order"));
    let condition = Expression::condition(CONDITION, schema)?;
    Aggregation::new(Aggregation::parse_keys(KEYS, schema)?, aggregates, Some(condition), schema)
}
