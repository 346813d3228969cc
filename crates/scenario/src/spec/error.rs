//! Errors in an experiment.

/// An experiment that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is not such a file, or a value does not fit its key: a sentence that says where, with the line if it is
    /// a file's.
    #[error("{0}")]
    Malformed(String),
    /// A figure that cannot be.
    #[error("{key}: {problem}")]
    Impossible {
        /// The key.
        key: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// A key whose figure cannot be.
pub(super) fn impossible(key: &str, problem: &str) -> SpecError {
    SpecError::Impossible { key: key.to_owned(), problem: problem.to_owned() }
}
