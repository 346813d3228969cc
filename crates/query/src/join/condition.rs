//! Join condition: pairs of equal columns, and the comparison type of each pair (pure).

use arrow_schema::{DataType, Schema};

use super::coercion::common_type;
use sakiyomi_expression::columns;

use crate::Error;
use crate::order::split_quoted;

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
    /// Parses `LEFT=RIGHT,…` against two schemas; `NAME` stands for `NAME=NAME`. A name with `,` or `=` must be in double
    /// quotes, in which `""` is a quote; a quoted name matches exactly.
    ///
    /// # Errors
    /// [`Error::Query`] if a column does not exist, or two columns have types that cannot be compared.
    pub fn parse(text: &str, left: &Schema, right: &Schema) -> Result<Condition, Error> {
        let mut places = Vec::new();
        let mut rest = text;
        loop {
            let (first, after) = name(rest, text)?;
            let (second, after) = match after.strip_prefix('=') {
                Some(after) => name(after, text)?,
                None => (first.clone(), after),
            };
            let find =
                |table, name: &Name, schema| columns::find_of(table, &name.text, name.is_quoted, schema);
            places.push((find("the left table", &first, left)?, find("the right table", &second, right)?));
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None if after.is_empty() => break,
                None => return Err(no_condition(text)),
            }
        }
        Condition::new(&places, left, right)
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

/// The name of a column in a condition.
#[derive(Clone)]
struct Name {
    text: String,
    is_quoted: bool,
}

/// Splits a name off the front of `text`; returns it and the rest, which begins with the separator.
fn name<'a>(text: &'a str, whole: &str) -> Result<(Name, &'a str), Error> {
    let text = text.trim_start();
    if text.starts_with('"') {
        let (name, rest) = split_quoted(text).ok_or_else(|| {
            Error::Query(format!("a quote in the join condition {whole} has no end; add a \""))
        })?;
        return Ok((Name { text: name, is_quoted: true }, rest.trim_start()));
    }
    let (name, rest) = text.split_at(text.find([',', '=']).unwrap_or(text.len()));
    let name = Name { text: name.trim().to_owned(), is_quoted: false };
    if name.text.is_empty() { Err(no_condition(whole)) } else { Ok((name, rest)) }
}

fn no_condition(text: &str) -> Error {
    Error::Query(format!(
        "`{text}` is not a join condition; write NAME or LEFT=RIGHT, separated by commas, and names with = or , in \
         double quotes"
    ))
}

fn field(schema: &Schema, place: usize) -> Result<&arrow_schema::Field, Error> {
    let columns = schema.fields();
    columns.get(place).map(|field| &**field).ok_or_else(|| {
        Error::Query(format!("column {place} does not exist; the table has {} columns", columns.len()))
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    fn schema(names: &[&str]) -> Schema {
        Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>())
    }

    #[test]
    fn quoted_names_may_contain_separators() {
        let (left, right) = (schema(&["a=b", "c,d", "e\"f", "Id"]), schema(&["c,d", "x", "a=b", "id"]));
        let parsed = |text| {
            let condition = Condition::parse(text, &left, &right)?;
            Ok(condition.left().into_iter().zip(condition.right()).collect())
        };
        let places: Result<Vec<_>, Error> = parsed(r#""a=b" , "c,d"= x,"e""f" ="id",ID"#);
        assert_eq!(places.unwrap(), [(0, 2), (1, 1), (2, 3), (3, 3)]);
        for (text, expected) in [
            ("a=b", "no column of the left table is named a"),
            ("\"a=b", "has no end"),
            ("\"c,d\"x", "is not a join condition"),
            ("Id,", "is not a join condition"),
            ("=x", "is not a join condition"),
            ("Id=id=id", "is not a join condition"),
            ("\"ID\"", "is named ID"),
        ] {
            let refused: Result<Vec<(usize, usize)>, Error> = parsed(text);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
