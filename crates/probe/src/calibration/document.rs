//! Versioned JSON files: calibrations of devices, and those of operators in the query engine.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum bytes read of a file: hundreds of times a complete one.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// Characters of an unknown schema shown in an error.
const SHOWN_CHARS: usize = 60;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Name and version of the contents, in the file's key `schema`.
    pub schema: &'static str,
    /// Name of the contents in messages: `calibration`.
    pub name: &'static str,
    /// The command that measures them.
    pub command: &'static str,
}

/// Returns the text of a file, which ends with a newline.
///
/// # Panics
/// If a map of the contents has keys that are not strings.
#[must_use]
pub fn to_json<T: Serialize>(contents: &T) -> String {
    let mut text = serde_json::to_string_pretty(contents).expect("strings and numbers can be written");
    text.push('\n');
    text
}

/// Loads a file written by [`to_json`]. `fault` returns the reason that the contents are unusable, if they are.
///
/// # Errors
/// If the file cannot be read, is of another version, or is damaged.
pub fn load<T: DeserializeOwned>(
    kind: Kind,
    path: &Path,
    fault: impl FnOnce(&T) -> Option<String>,
) -> Result<T, LoadError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_end(&mut text));
    read.map_err(|source| LoadError::Read { path: path.to_owned(), kind, source })?;
    parse(kind, &text, path, fault)
}

/// Parses the text of a file; `path` is its name in errors.
///
/// # Errors
/// If the file is of another version, or is damaged.
pub fn parse<T: DeserializeOwned>(
    kind: Kind,
    text: &[u8],
    path: &Path,
    fault: impl FnOnce(&T) -> Option<String>,
) -> Result<T, LoadError> {
    let damaged = |fault: String| LoadError::Damaged { path: path.to_owned(), kind, fault };
    // The version decides how the rest is parsed.
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let Head { schema } = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
    if schema != kind.schema {
        let found = schema.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        return Err(LoadError::Version { path: path.to_owned(), kind, found });
    }
    let contents = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
    fault(&contents).map_or(Ok(contents), |fault| Err(damaged(fault)))
}

/// Errors of loading a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the {} {}; `{}` measures one", kind.name, path.display(), kind.command)]
    Read {
        /// The file.
        path: PathBuf,
        /// Expected contents.
        kind: Kind,
        /// The cause.
        source: io::Error,
    },
    /// The file is of another version.
    #[error(
        "{} is a {} of another version ({found}, and this program reads {}); measure again with `{}`",
        path.display(), kind.name, kind.schema, kind.command
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Expected contents.
        kind: Kind,
        /// Schema of the file.
        found: String,
    },
    /// The file has other or incomplete contents.
    #[error("{} is not a whole {}: {fault}; measure again with `{}`", path.display(), kind.name, kind.command)]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Expected contents.
        kind: Kind,
        /// The fault.
        fault: String,
    },
}
