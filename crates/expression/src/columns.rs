//! Lookup of columns by the names in command-line options.

use arrow_schema::Schema;
use sakiyomi_model::suggest::{did_you_mean, similar};

use crate::Error;

/// Maximum number of names listed in an error when none is similar to the given one; more would fill the terminal.
const LISTED_NAMES_MAX: usize = 20;

/// Returns the index of the column with a name. An unquoted name matches case-insensitively if no column has exactly
/// that name.
///
/// # Errors
/// [`Error::Expression`] if no column matches, or more than one.
pub fn find(name: &str, quoted: bool, schema: &Schema) -> Result<usize, Error> {
    find_of("", name, quoted, schema)
}

/// Like [`find()`], with the table in errors, such as `the left table`.
///
/// # Errors
/// Returns the errors of [`find()`].
pub fn find_of(table: &str, name: &str, quoted: bool, schema: &Schema) -> Result<usize, Error> {
    let exact = places(schema, |known| known == name);
    let found = if exact.is_empty() && !quoted {
        let folded = name.to_lowercase();
        places(schema, |known| known.to_lowercase() == folded)
    } else {
        exact
    };
    match found[..] {
        [place] => Ok(place),
        [] => Err(unknown(table, name, schema)),
        _ => Err(ambiguous(name, &found, schema)),
    }
}

fn places(schema: &Schema, is_meant: impl Fn(&str) -> bool) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| is_meant(field.name())).map(|(place, _)| place).collect()
}

fn ambiguous(name: &str, found: &[usize], schema: &Schema) -> Error {
    let names: Vec<&str> = found.iter().map(|&place| schema.field(place).name().as_str()).collect();
    Error::Expression(match names.iter().all(|other| *other == names[0]) {
        true => format!("{} columns are named {name}; rename them to use one", names.len()),
        false => format!("{name} may be {}; write the name with its capital letters", names.join(" or ")),
    })
}

fn unknown(table: &str, name: &str, schema: &Schema) -> Error {
    let of = if table.is_empty() { "" } else { " of " };
    let sentence = format!("no column{of}{table} is named {name}");
    let known = || schema.fields().iter().map(|field| field.name().as_str());
    let meant = similar(name, known());
    if !meant.is_empty() {
        return Error::Expression(sentence + &did_you_mean(&meant));
    }
    let mut names: Vec<&str> = known().take(LISTED_NAMES_MAX).collect();
    if names.is_empty() {
        return Error::Expression(sentence + "; the table has no columns");
    }
    if schema.fields().len() > LISTED_NAMES_MAX {
        names.push("…");
    }
    Error::Expression(format!("{sentence}; the columns are {}", names.join(", ")))
}
