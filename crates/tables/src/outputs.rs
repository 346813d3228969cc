//! Format and compression of a result.

use std::path::Path;

use sakiyomi_query::output::{Compression, OutputOptions};
use sakiyomi_query::table::Format;

use crate::Error;

/// Default rows of a row group, as in DuckDB: enough row groups for parallel readers.
pub const GROUP_ROWS_DEFAULT: u32 = 122_880;
/// Maximum rows of a row group: what fits into memory is far less.
pub const GROUP_ROWS_MAX: u32 = 100_000_000;

/// Options of the file of a result.
#[derive(Clone, Copy, Debug)]
pub struct Outputs {
    /// The format; by default that of the file extension, and CSV on standard output.
    pub format: Option<Format>,
    /// The compression; by default Snappy for Parquet, and none for Arrow.
    pub compression: Option<Compression>,
    /// Maximum number of rows of a row group or record batch.
    pub row_group: u32,
}

impl Default for Outputs {
    fn default() -> Outputs {
        Outputs { format: None, compression: None, row_group: GROUP_ROWS_DEFAULT }
    }
}

impl Outputs {
    /// Returns the output options for a path; `-` is standard output.
    ///
    /// # Errors
    /// If the format does not follow from the name, or does not have the compression.
    pub fn options(self, path: &Path) -> Result<OutputOptions, Error> {
        let format = self.format.map_or_else(|| format_of_name(path), Ok)?;
        self.options_of(format)
    }

    /// Returns the output options, with this format unless another is given.
    ///
    /// # Errors
    /// If the format does not have the compression.
    pub fn options_or(self, format: Format) -> Result<OutputOptions, Error> {
        self.options_of(self.format.unwrap_or(format))
    }

    fn options_of(self, format: Format) -> Result<OutputOptions, Error> {
        let refused = |problem: &str| Err(Error::Option(problem.to_owned()));
        let compression = match (self.compression, format) {
            (None, Format::Parquet) | (Some(Compression::Snappy), Format::Parquet) => Compression::Snappy,
            (None | Some(Compression::None), _) => Compression::None,
            (Some(_), Format::Csv) => {
                return refused(
                    "--compression: CSV is not compressed; remove the option, or name another --format",
                );
            }
            (Some(Compression::Snappy), _) => {
                return refused(
                    "--compression snappy: Arrow IPC supports none, lz4 and zstd; give one of these",
                );
            }
            (Some(other), _) => other,
        };
        let group_rows = self.row_group as usize;
        Ok(OutputOptions { compression, group_rows, ..OutputOptions::new(format) })
    }
}

/// Returns the format of a file extension; CSV for `-`.
fn format_of_name(path: &Path) -> Result<Format, Error> {
    if path == Path::new("-") {
        return Ok(Format::Csv);
    }
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    Ok(match ending.as_str() {
        "parquet" | "pq" => Format::Parquet,
        "arrow" | "ipc" | "feather" => Format::ArrowFile,
        "arrows" => Format::ArrowStream,
        "csv" => Format::Csv,
        _ => {
            return Err(Error::Option(format!(
                "{}: the format does not follow from the name; use the extension .parquet, .arrow, .arrows or .csv, or give --format",
                path.display()
            )));
        }
    })
}
