//! The sum of a column of a CSV file, whose fields may be quoted and have line feeds.
//!
//!     cargo run --release -p sakiyomi-exec --example csv_sum -- FILE COLUMN
//!
//! The first error ends the reading, and names the offset of the block.

use std::error::Error;
use std::path::Path;

use sakiyomi_exec::read::{self, blocked_read};

/// Returns the fields of a record, unquoted.
fn fields(record: &[u8]) -> Vec<Vec<u8>> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), Vec::new(), false);
    let mut bytes = record.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if is_quoted && bytes.peek() == Some(&b'"') => field.extend(bytes.next()),
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(byte),
        }
    }
    fields.push(field);
    fields
}

/// Returns the number of bytes of the first record, with its line feed.
fn first_record(text: &[u8]) -> usize {
    let mut is_quoted = false;
    let end = text.iter().position(|&byte| {
        is_quoted ^= byte == b'"';
        byte == b'\n' && !is_quoted
    });
    end.map_or(text.len(), |at| at + 1)
}

fn records(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (record, rest) = text.split_at(first_record(text));
        text = rest;
        (!record.is_empty()).then(|| record.trim_ascii_end())
    })
}

fn number(record: &[u8], column: usize) -> Result<f64, String> {
    let fields = fields(record);
    let field = fields.get(column).ok_or("a record has too few fields")?;
    let text = String::from_utf8_lossy(field);
    text.trim().parse().map_err(|_| format!("{text:?} is not a number"))
}

/// Returns the header of a file.
fn header(path: &Path) -> Result<Vec<Vec<u8>>, read::Error> {
    let first = blocked_read(path).csv_records(b'"').map(|text| records(text).next().map(fields));
    Ok(first.find_first()?.0.unwrap_or_default())
}

/// Adds up a column.
///
/// # Errors
/// If the file cannot be read, or has no such column, or a field of it is not a number.
pub(crate) fn csv_sum(path: &Path, column: &str) -> Result<f64, Box<dyn Error>> {
    let column = header(path)?.iter().position(|name| name == column.as_bytes()).ok_or("no such column")?;
    let sum = |block: read::Block<'_>| -> Result<f64, String> {
        let is_header = usize::from(block.offset() == 0);
        records(&block).skip(is_header).map(|record| number(record, column)).sum()
    };
    Ok(blocked_read(path).csv_records(b'"').try_map(sum).reduce(0.0, |first, next| first + next)?.0)
}

#[allow(clippy::print_stdout, dead_code, reason = "the result; tests call the function")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(column)) = (arguments.next(), arguments.next()) else {
        return Err("give a file and a column".into());
    };
    println!("{}", csv_sum(path.as_ref(), &column)?);
    Ok(())
}
