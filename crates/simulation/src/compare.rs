//! Two results of simulations side by side: results from files, and checks of their difference.

use std::path::Path;

use sakiyomi_report::{Document, Present as _, SimResult};
use serde::Deserialize;

use crate::drive_file::read_text;
use crate::{Check, Error};

/// Schema of the document of a comparison, whose `result` is a [`Comparison`](sakiyomi_report::Comparison).
pub const COMPARE_SCHEMA: &str = "sakiyomi.compare/1";

/// Reads the result of a simulation from the directory that `sim --out` made, or from its result.json.
///
/// # Errors
/// If the file does not exist, or is not a result of a simulation.
pub fn load_result(path: &Path) -> Result<Document<SimResult>, Error> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let dir = path.display();
    if path.is_dir() && !file.exists() {
        return Err(Error::Input(format!("no result.json in {dir}; `sakiyomi sim … --out {dir}` makes one")));
    }
    let text = read_text(&file, "the result", "`sakiyomi sim … --out DIR` makes one")?;
    parse_result(&text, &file.display().to_string())
}

/// Reads the result of a simulation from the text of its document; `name` names it in messages.
///
/// # Errors
/// If it is not a result of a simulation.
pub fn parse_result(text: &str, name: &str) -> Result<Document<SimResult>, Error> {
    let not_a_result =
        |problem: String| Error::Input(format!("{name} is not a result of `sakiyomi sim`: {problem}"));
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| not_a_result(format!("it is not JSON from line {} on", error.line().max(1))))?;
    let schema = value["schema"].as_str().unwrap_or("no schema");
    if schema != SimResult::SCHEMA {
        return Err(not_a_result(format!("it has {schema}, expected {}", SimResult::SCHEMA)));
    }
    // Serde's message names only the first mismatching key; the cause is an edited file or another version.
    Document::deserialize(&value).map_err(|_| {
        Error::Input(format!(
            "{name}: it has the schema {schema}, but not all of its figures; make it again with `sakiyomi sim … --out DIR`"
        ))
    })
}

/// Returns the failed checks as sentences.
///
/// # Errors
/// If a check names a figure that the results do not have.
pub fn failed_checks(checks: &[Check], a: &SimResult, b: &SimResult) -> Result<Vec<String>, Error> {
    let value = |result: &SimResult| {
        serde_json::to_value(result)
            .map_err(|error| Error::Input(format!("a result cannot be read: {error}")))
    };
    let (a, b) = (value(a)?, value(b)?);
    checks.iter().filter_map(|check| check.failure(&a, &b).transpose()).collect()
}
