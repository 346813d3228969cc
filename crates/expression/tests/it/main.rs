//! Allocations of expressions on rows. The only test of this binary, because every thread counts.

use arrow_schema::{DataType, Field, Schema};
use sakiyomi_expression::row::{RowExpression, Value};
use sakiyomi_expression::{Error, Expression};
use sakiyomi_testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn rows_take_no_allocation_after_the_first() -> Result<(), Error> {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Decimal64(15, 2), true),
        Field::new("b", DataType::Decimal128(20, 4), true),
        Field::new("x", DataType::Float64, true),
        Field::new("n", DataType::Int32, true),
        Field::new("s", DataType::Utf8, true),
    ]);
    let row =
        [Value::Decimal(1050), Value::Decimal(-7), Value::Float(0.5), Value::Int(503), Value::Text("/Api/1")];
    for text in [
        "a * (1 - b) * (1 + b)",
        "x * (1 - x) / 3 + n % 7",
        "n between 400 and 599 and (a > b or x is null)",
        "case when n > 500 then a when n > 400 then coalesce(b, 1) else -a end",
        "starts_with(s, '/Api') and s like '/%/_' and length(s) > 3",
        "substring(trim(s), 2, 3)",
        "lower(s) || '?' || n",
    ] {
        let mut expression = RowExpression::new(&Expression::parse(text, &schema)?);
        assert_ne!(expression.evaluate(&row)?, Value::Null, "{text}");
        let before = allocations();
        for _ in 0..100 {
            expression.evaluate(&row)?;
            expression.evaluate(&[Value::Null; 5])?;
        }
        assert_eq!(allocations() - before, 0, "{text}");
    }
    Ok(())
}
