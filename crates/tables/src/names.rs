//! Values of options by their names.

use sakiyomi_query::output::Compression;
use sakiyomi_query::spill::{Level, SpillCompression};
use sakiyomi_query::table::Format;

use crate::Error;

/// Values of `--input-format` and `--format`.
const FORMATS: [(&str, Format); 4] = [
    ("parquet", Format::Parquet),
    ("arrow", Format::ArrowFile),
    ("arrow-stream", Format::ArrowStream),
    ("csv", Format::Csv),
];

/// Values of `--compression`.
const COMPRESSIONS: [(&str, Compression); 4] = [
    ("none", Compression::None),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

/// Values of `--spill-compression`.
const SPILL_COMPRESSIONS: [(&str, SpillCompression); 4] = [
    ("auto", SpillCompression::Adaptive),
    ("none", SpillCompression::Fixed(Level::None)),
    ("lz4", SpillCompression::Fixed(Level::Lz4)),
    ("zstd", SpillCompression::Fixed(Level::Zstd)),
];

/// Returns the name of a format in options and results.
#[must_use]
pub fn format_name(format: Format) -> &'static str {
    match format {
        Format::Parquet => "parquet",
        Format::ArrowFile => "arrow",
        Format::ArrowStream => "arrow-stream",
        Format::Csv => "csv",
    }
}

/// Returns the format of a name.
///
/// # Errors
/// If there is none; names the option and the formats.
pub fn format(option: &str, name: &str) -> Result<Format, Error> {
    named(option, name, &FORMATS)
}

/// Returns the compression of Parquet pages or Arrow buffers of a name.
///
/// # Errors
/// If there is none; names the option and the compressions.
pub fn compression(option: &str, name: &str) -> Result<Compression, Error> {
    named(option, name, &COMPRESSIONS)
}

/// Returns the compression of spill files of a name.
///
/// # Errors
/// If there is none; names the option and the compressions.
pub fn spill_compression(option: &str, name: &str) -> Result<SpillCompression, Error> {
    named(option, name, &SPILL_COMPRESSIONS)
}

fn named<T: Copy>(option: &str, name: &str, all: &[(&str, T)]) -> Result<T, Error> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        Error::Option(format!("{option} {name}: give one of {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_one_name() {
        for (name, value) in FORMATS {
            assert_eq!((format_name(value), format("--format", name).unwrap()), (name, value));
        }
        assert_eq!(
            format("format", "Parquet").unwrap_err().to_string(),
            "format Parquet: give one of parquet, arrow, arrow-stream, csv"
        );
        assert!(compression("compression", "gzip").is_err() && spill_compression("x", "").is_err());
    }
}
