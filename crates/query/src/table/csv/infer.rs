//! Inference of CSV column types from the first records of a file.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use super::fields::Fields;
use super::records::{Scanner, first_record, not_text};
use super::values::Kind;
use crate::Error;
use crate::table::guard::printable;

/// Bytes at the start of a file from which its types are inferred.
pub(in crate::table) const INFERRED_BYTES: usize = 1 << 20;

/// UTF-8 byte order mark, which some programs write at the start of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file's header and the types of its columns.
#[derive(Debug)]
pub(in crate::table) struct Inferred {
    /// Bytes before the first record.
    pub(in crate::table) header_bytes: usize,
    names: Vec<String>,
    kinds: Vec<Kind>,
}

impl Inferred {
    /// Returns the schema; all columns are nullable.
    pub(in crate::table) fn schema(&self) -> SchemaRef {
        let fields = self.names.iter().zip(&self.kinds);
        let fields = fields.map(|(name, kind)| Field::new(name, kind.data_type(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Widens the types to include those of another file with the same columns.
    pub(in crate::table) fn widen(&mut self, other: &Inferred) {
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            *kind = kind.join(*other);
        }
    }
}

/// Infers header and types from the start of a file; `is_whole`: `head` is the whole file.
pub(in crate::table) fn infer(path: &Path, head: &[u8], is_whole: bool) -> Result<Inferred, Error> {
    let bad = |reason: String| Error::Table { path: path.to_owned(), reason };
    let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let text = &head[mark..];
    let header = match first_record(text) {
        Some(end) => end,
        None if is_whole => text.len(),
        None => return Err(bad("the header is longer than 1 MiB".into())),
    };
    if text[..header].iter().all(u8::is_ascii_whitespace) {
        return Err(bad("the file has no header; the first line of CSV names its columns".into()));
    }
    let records = &text[header..];
    let end = if is_whole { records.len() } else { Scanner::default().last_record_end(records).unwrap_or(0) };
    if let Err(error) = str::from_utf8(&text[..header + end]) {
        return Err(bad(not_text(mark + error.valid_up_to())));
    }
    let unreadable =
        |what: &str, how: String| bad(format!("the {what} not readable as CSV: {}", printable(how)));
    let names = names(&text[..header]).map_err(|how| unreadable("header is", how))?;
    let kinds = kinds(names.len(), &records[..end]).map_err(|how| unreadable("first records are", how))?;
    Ok(Inferred { header_bytes: mark + header, names, kinds })
}

/// Returns the fields of a header.
fn names(header: &[u8]) -> Result<Vec<String>, String> {
    let mut fields = Fields::new(header);
    let mut names = Vec::new();
    loop {
        let (field, ends_record) = fields.next()?;
        names.push(String::from_utf8_lossy(field.bytes).into_owned());
        if ends_record {
            break;
        }
    }
    if fields.has_record() {
        return Err("its lines end with carriage returns alone; convert them to line feeds".into());
    }
    Ok(names)
}

/// Infers the kind of each of `count` columns from `records`.
fn kinds(count: usize, records: &[u8]) -> Result<Vec<Kind>, String> {
    let mut kinds = vec![Kind::Nothing; count];
    let mut fields = Fields::new(records);
    loop {
        fields.skip_empty_lines();
        if !fields.has_record() {
            return Ok(kinds);
        }
        let mut ends_record = false;
        // Records with other numbers of fields are errors of the scan.
        for kind in &mut kinds {
            let (field, is_last) = fields.next()?;
            if *kind != Kind::Text {
                *kind = kind.join(Kind::of(&field));
            }
            ends_record = is_last;
            if ends_record {
                break;
            }
        }
        while !ends_record {
            ends_record = fields.next()?.1;
        }
    }
}
