//! Errors of DataFusion as one sentence.

use std::error::Error;

use datafusion::common::DataFusionError;

/// Returns the error of a statement in one sentence: what is wrong, and what to do where that is known.
#[must_use]
pub fn sentence(error: &DataFusionError) -> String {
    let text = root(error);
    if let Some(name) = between(&text, "table '", "' not found") {
        // The catalog and the schema stand before the name.
        let name = name.strip_prefix("datafusion.public.").unwrap_or(name);
        return format!(
            "{name}: there is no such table or readable file; give the path of a Parquet, CSV, JSON or Arrow file in quotation \
             marks, such as FROM 'data/x.parquet'"
        );
    }
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => {
            format!("the memory limit is too small ({text}); raise it with --memory, or use fewer --threads")
        }
        DataFusionError::SQL(..) => format!("the statement is not SQL: {text}"),
        _ => text,
    }
}

/// Returns the innermost message, in one line and without the words that DataFusion puts before it.
fn root(error: &DataFusionError) -> String {
    let mut cause: &dyn Error = error.find_root();
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = match error.find_root() {
        // Their causes are what went wrong; the errors of our I/O name the file before the cause.
        DataFusionError::External(external) => chain(external.as_ref()),
        DataFusionError::IoError(error) => chain(error),
        other => match cause.downcast_ref::<DataFusionError>() {
            Some(cause) => cause.strip_backtrace(),
            None if cause.to_string().len() > 3 => cause.to_string(),
            None => other.strip_backtrace(),
        },
    };
    let text = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let prefixes = [
        "Error during planning: ",
        "Execution error: ",
        "Resources exhausted: ",
        "SQL error: ",
        "External error: ",
    ];
    prefixes.iter().fold(text, |text, prefix| match text.strip_prefix(prefix) {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// Returns an error and its causes, each once.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}
