//! The names of the files to count: operands, or names from a list.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use anyhow::{Result, anyhow};

use crate::reading::{plainly, stdin};

/// The names of the files.
pub(super) struct Names<'a> {
    /// An empty name stands for standard input without operands and list.
    pub(super) all: Vec<OsString>,
    list: Option<&'a OsStr>,
    is_unnamed: bool,
}

impl<'a> Names<'a> {
    pub(super) fn new(operands: &[OsString], list: Option<&'a OsStr>) -> Result<Names<'a>> {
        let all = match list {
            Some(list) => listed(list)?,
            None if operands.is_empty() => vec![OsString::new()],
            None => operands.to_vec(),
        };
        Ok(Names { all, list, is_unnamed: list.is_none() && operands.is_empty() })
    }

    pub(super) fn is_stdin(&self, index: usize) -> bool {
        self.is_unnamed || self.all[index] == "-"
    }

    /// Returns the name printed beside a file's figures.
    pub(super) fn label(&self, index: usize) -> Option<&OsStr> {
        (!self.is_unnamed).then_some(&self.all[index])
    }

    /// Returns the name of a file in messages.
    pub(super) fn display(&self, index: usize) -> String {
        let name = self.label(index).unwrap_or(OsStr::new("-"));
        Path::new(name).display().to_string()
    }

    /// Returns the fault of an invalid name.
    pub(super) fn refusal(&self, index: usize) -> Option<String> {
        let name = &self.all[index];
        match self.list {
            Some(list) if list == "-" && name == "-" => {
                Some("when reading file names from stdin, no file name of '-' allowed".to_owned())
            }
            Some(list) if name.is_empty() => {
                Some(format!("{}:{}: invalid zero-length file name", Path::new(list).display(), index + 1))
            }
            None if name.is_empty() && !self.is_unnamed => Some("invalid zero-length file name".to_owned()),
            _ => None,
        }
    }

    /// Returns the width of `figures` figures per file: that of the sum of all sizes, and at least 7 if a file has no
    /// size.
    pub(super) fn width(&self, figures: usize) -> usize {
        let is_file = |metadata: io::Result<Metadata>| metadata.is_ok_and(|metadata| metadata.is_file());
        let is_from_stream =
            self.list.is_some_and(|list| !is_file(if list == "-" { of_stdin() } else { fs::metadata(list) }));
        if self.all.is_empty() || is_from_stream || self.all.len() == 1 && figures == 1 {
            return 1;
        }
        let of = |index| if self.is_stdin(index) { of_stdin() } else { fs::metadata(&self.all[index]) };
        let all: Vec<Metadata> = (0..self.all.len()).filter_map(|index| of(index).ok()).collect();
        let sum: u64 = all.iter().filter(|metadata| metadata.is_file()).map(Metadata::len).sum();
        let least = if all.iter().all(Metadata::is_file) { 1 } else { 7 };
        sum.to_string().len().max(least)
    }
}

fn of_stdin() -> io::Result<Metadata> {
    stdin()?.metadata()
}

/// Reads names from a file, each terminated by a NUL byte.
fn listed(list: &OsStr) -> Result<Vec<OsString>> {
    let path = Path::new(list).display();
    let open = || if list == "-" { stdin() } else { File::open(list) };
    let mut file =
        open().map_err(|error| anyhow!("cannot open '{path}' for reading: {}", plainly(&error)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| anyhow!("{path}: read error: {}", plainly(&error)))?;
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let names = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|&byte| byte == 0);
    Ok(names.map(|name| OsString::from_vec(name.to_vec())).collect())
}
