//! Join condition: pairs of equal columns, and the comparison type of each pair (pure).

use arrow_schema::{DataType, Schema};

use super::coercion::common_type;
use sakiyomi_expression::columns;

use crate::Error;

/// A left and a right column that are equal in joined rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// Index of the column in the left schema.
    pub left: usize,
    /// Index of the column in the right schema.
    pub right: usize,
    /// Type in which both are compared.
    pub data_type: DataType,
}

/// An equi-join condition. A merge join expects its sides to be sorted by the columns in the order of the pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// At least one pair.
    pub pairs: Vec<KeyPair>,
}

impl Condition {
    /// Parses `LEFT=RIGHT,…` against two schemas; `NAME` stands for `NAME=NAME`.
    ///
    /// # Errors
    /// [`Error::Query`] if a column does not exist, or two columns have types that cannot be compared.
    pub fn parse(text: &str, left: &Schema, right: &Schema) -> Result<Condition, Error> {
        let pairs = text.split(',').map(|part| {
            let (first, second) = part.split_once('=').unwrap_or((part, part));
            let (first, second) = (first.trim(), second.trim());
            if first.is_empty() || second.is_empty() {
                return Err(Error::Query(format!(
                    "`{text}` is not a join condition; write NAME or LEFT=RIGHT, separated by commas"
                )));
            }
            let left_place = columns::find_of("the left table", first, false, left)?;
            Ok((left_place, columns::find_of("the right table", second, false, right)?))
        });
        Condition::new(&pairs.collect::<Result<Vec<_>, Error>>()?, left, right)
    }

    /// Creates the condition that the columns of each pair of indices are equal.
    ///
    /// # Errors
    /// [`Error::Query`] if `places` is empty, a column does not exist, or two types cannot be compared.
    pub fn new(places: &[(usize, usize)], left: &Schema, right: &Schema) -> Result<Condition, Error> {
        if places.is_empty() {
            return Err(Error::Query("a join needs at least one pair of columns to compare".to_owned()));
        }
        let pairs = places.iter().map(|&(left_place, right_place)| {
            let (ours, theirs) = (field(left, left_place)?, field(right, right_place)?);
            let data_type = common_type(ours.data_type(), theirs.data_type()).ok_or_else(|| {
                Error::Query(format!(
                    "cannot compare `{}` ({}) with `{}` ({}); cast one of them with --select",
                    ours.name(),
                    ours.data_type(),
                    theirs.name(),
                    theirs.data_type(),
                ))
            })?;
            Ok(KeyPair { left: left_place, right: right_place, data_type })
        });
        Ok(Condition { pairs: pairs.collect::<Result<_, Error>>()? })
    }

    /// Returns the indices of the left key columns.
    #[must_use]
    pub fn left(&self) -> Vec<usize> {
        self.pairs.iter().map(|pair| pair.left).collect()
    }

    /// Returns the indices of the right key columns.
    #[must_use]
    pub fn right(&self) -> Vec<usize> {
        self.pairs.iter().map(|pair| pair.right).collect()
    }
}

fn field(schema: &Schema, place: usize) -> Result<&arrow_schema::Field, Error> {
    let columns = schema.fields();
    columns.get(place).map(|field| &**field).ok_or_else(|| {
        Error::Query(format!("column {place} does not exist; the table has {} columns", columns.len()))
    })
}
