//! Errors in an experiment.

/// An experiment that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is not an experiment, or a value does not fit its key. The message states the place, with the line in a
    /// file.
    #[error("{0}")]
    Malformed(String),
    /// An invalid value.
    #[error("{key}: {problem}")]
    Impossible {
        /// Key.
        key: String,
        /// Problem and advice.
        problem: String,
    },
}

/// Returns the error of an invalid value.
pub(super) fn impossible(key: &str, problem: &str) -> SpecError {
    SpecError::Impossible { key: key.to_owned(), problem: problem.to_owned() }
}
