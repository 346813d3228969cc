//! Origins and targets of records.

use std::path::PathBuf;

use crate::Error;
use crate::document::{At, Table, unknown_word};

/// Where a source reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Origin {
    Stdin,
    File {
        path: PathBuf,
        /// Around the page cache.
        direct: bool,
    },
    Tail {
        path: PathBuf,
        /// From the start of the file as it is found.
        from_start: bool,
    },
    Socket {
        address: Address,
        /// Waits for connections.
        listen: bool,
    },
    Generator(Generator),
}

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `HOST:PORT`.
    Tcp(String),
    Unix(PathBuf),
}

/// Rows that are made up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Generator {
    /// Rows in a second; none for as fast as they are taken.
    pub(crate) rate_per_s: Option<f64>,
    /// Rows; none for no end.
    pub(crate) rows: Option<u64>,
    /// Number of different keys.
    pub(crate) keys: u64,
    pub(crate) seed: u64,
}

/// Keys of a generator unless the description says otherwise.
const GENERATOR_KEYS: u64 = 1000;

/// Forms of `from`.
const ORIGINS: [&str; 6] = ["stdin", "file:PATH", "tail:PATH", "tcp:HOST:PORT", "unix:PATH", "generator"];

/// Forms of `to`.
const TARGETS: [&str; 5] = ["stdout", "file:PATH", "tcp:HOST:PORT", "unix:PATH", "discard"];

/// Where a sink writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Stdout,
    File {
        path: PathBuf,
        /// To the end of an existing file.
        append: bool,
    },
    Socket(Address),
    Discard,
}

impl Origin {
    /// Reads `from` and the keys that belong to it.
    ///
    /// # Errors
    /// If it is none of the forms, or a key is missing or does not fit.
    pub(super) fn read(table: &Table<'_>) -> Result<At<Origin>, Error> {
        let from = table.required("from", "\"stdin\"")?;
        let (scheme, rest) = split(&from);
        let origin = match (scheme, rest) {
            ("stdin", None) => Origin::Stdin,
            ("generator", None) => Origin::Generator(Generator {
                rate_per_s: table.rate("rate")?.map(|rate| rate.value).filter(|rate| *rate > 0.0),
                rows: table.count("rows", 1)?.map(|rows| rows.value),
                keys: table.count("keys", 1)?.map_or(GENERATOR_KEYS, |keys| keys.value),
                seed: table.count("seed", 0)?.map_or(1, |seed| seed.value),
            }),
            ("file", Some(path)) => {
                Origin::File { path: path.into(), direct: table.flag("direct")?.unwrap_or(false) }
            }
            ("tail", Some(path)) => {
                let start = table.word("start", &["end", "beginning"])?;
                Origin::Tail { path: path.into(), from_start: start.is_some_and(|start| start.value == 1) }
            }
            ("tcp" | "unix", Some(_)) => {
                let address = Address::read(&from, scheme, rest)?;
                Origin::Socket { address, listen: table.flag("listen")?.unwrap_or(false) }
            }
            _ => return Err(from.error(unknown_form(&from.value, &ORIGINS))),
        };
        Ok(from.with(origin))
    }

    /// Returns the name in errors.
    pub(crate) fn shown(&self) -> String {
        match self {
            Origin::Stdin => "the standard input".to_owned(),
            Origin::File { path, .. } | Origin::Tail { path, .. } => path.display().to_string(),
            Origin::Socket { address, .. } => address.shown(),
            Origin::Generator(_) => "the generator".to_owned(),
        }
    }
}

impl Target {
    /// Reads `to` and the keys that belong to it.
    ///
    /// # Errors
    /// If it is none of the forms, or a key does not fit.
    pub(super) fn read(table: &Table<'_>) -> Result<At<Target>, Error> {
        let to = table.required("to", "\"stdout\"")?;
        let (scheme, rest) = split(&to);
        let target = match (scheme, rest) {
            ("stdout", None) => Target::Stdout,
            ("discard", None) => Target::Discard,
            ("file", Some(path)) => {
                Target::File { path: path.into(), append: table.flag("append")?.unwrap_or(false) }
            }
            ("tcp" | "unix", Some(_)) => Target::Socket(Address::read(&to, scheme, rest)?),
            _ => return Err(to.error(unknown_form(&to.value, &TARGETS))),
        };
        Ok(to.with(target))
    }

    /// Returns the name in errors.
    pub(crate) fn shown(&self) -> String {
        match self {
            Target::Stdout => "the standard output".to_owned(),
            Target::File { path, .. } => path.display().to_string(),
            Target::Socket(address) => address.shown(),
            Target::Discard => "nowhere".to_owned(),
        }
    }
}

impl Address {
    fn read(form: &At<String>, scheme: &str, rest: Option<&str>) -> Result<Address, Error> {
        let rest = rest.unwrap_or("");
        if scheme == "unix" {
            return Ok(Address::Unix(rest.into()));
        }
        let port = rest.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() {
            return Err(form.error(format!("\"{rest}\" is not an address; write tcp:HOST:PORT")));
        }
        Ok(Address::Tcp(rest.to_owned()))
    }

    fn shown(&self) -> String {
        match self {
            Address::Tcp(address) => address.clone(),
            Address::Unix(path) => path.display().to_string(),
        }
    }
}

/// Returns the word before a colon, and what follows it.
fn split(form: &At<String>) -> (&str, Option<&str>) {
    match form.value.split_once(':') {
        Some((scheme, rest)) => (scheme, Some(rest).filter(|rest| !rest.is_empty())),
        None => (&form.value, None),
    }
}

fn unknown_form(found: &str, forms: &[&str]) -> String {
    let scheme = found.split(':').next().unwrap_or("");
    // A file without its scheme, or a scheme without a path.
    match forms.iter().find(|form| form.split(':').next() == Some(scheme)) {
        Some(form) => format!("\"{found}\" is incomplete; write {form}"),
        None if found.contains(['/', '.']) => format!("\"{found}\" has no scheme; write file:{found}"),
        None => unknown_word(found, forms),
    }
}
