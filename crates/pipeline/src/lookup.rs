//! Tables for look-ups by key: in memory, or in their files with an index (`file.rs`).

mod file;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use sakiyomi_stream::Wakeup;

use crate::Error;
use crate::control::Control;
use crate::document::{At, unknown_word};
use crate::input::{Content, Cut, Named, Records, Start, Taken, open, schema_of_file};
use crate::parse::{Kind, Parser, Slots, TYPE_NAMES, header, type_of};
use crate::row::{Handles, Row, RowBuilder, is_supported};
use crate::spec::{LookupTable, Origin};
use crate::step::write_key;

pub(crate) use file::{FileTable, Found, TableReader};

/// The separator of fields of tables in CSV.
const CSV_SEPARATOR: u8 = b',';

/// Where the rows of a table are.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    Memory(Arc<Table>),
    File(Arc<FileTable>),
}

/// Rows by their keys.
pub(crate) struct Table {
    rows: HashMap<Vec<u8>, Row>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "a table of {} rows", self.rows.len())
    }
}

impl Table {
    /// Returns the row of a key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Row> {
        self.rows.get(key)
    }

    /// Returns the columns of a table: those of a file of Arrow IPC, or of the header of a file of CSV.
    ///
    /// # Errors
    /// If the file cannot be read, has a column of a type that rows do not have, or the description names columns that it
    /// does not have.
    pub(crate) fn columns(spec: &LookupTable, name: &str) -> Result<SchemaRef, Error> {
        let path = &spec.path.value;
        if is_arrow(path) {
            let schema = schema_of_file(path, name)?;
            return match schema.fields().iter().find(|field| !is_supported(field.data_type())) {
                None => Ok(schema),
                Some(field) => Err(spec.path.error(format!(
                    "column {} of {} is {}, which pipelines do not support; leave it out of the table, or cast it",
                    field.name(),
                    path.display(),
                    field.data_type()
                ))),
            };
        }
        let failed = |source| Named::new(name, &path.display().to_string()).error("read", source);
        let mut line = String::new();
        BufReader::new(File::open(path).map_err(failed)?).read_line(&mut line).map_err(failed)?;
        let names = header(line.trim_end_matches(['\n', '\r']), CSV_SEPARATOR).unwrap_or_default();
        let mut fields: Vec<Field> =
            names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        for (column, type_name) in &spec.columns {
            let data_type = typed(type_name)?;
            let field = fields.iter_mut().find(|field| field.name() == column);
            let field = field.ok_or_else(|| {
                type_name.error(format!(
                    "{} has no column {column}; it has {}",
                    path.display(),
                    names.join(", ")
                ))
            })?;
            *field = Field::new(column, data_type, true);
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Reads a table with these columns as its key.
    ///
    /// # Errors
    /// If it cannot be read, or two rows have one key.
    pub(crate) fn read(
        spec: &LookupTable,
        name: &str,
        schema: SchemaRef,
        keys: &[usize],
    ) -> Result<Table, Error> {
        let mut rows = HashMap::new();
        scan(spec, name, &schema, |row, _| {
            let mut key = Vec::new();
            write_key(&row, keys, &mut key);
            match rows.contains_key(&key) {
                true => Err(duplicate(spec, &row, keys)),
                false => {
                    rows.insert(key, row.compact());
                    Ok(())
                }
            }
        })?;
        Ok(Table { rows })
    }
}

/// Returns the error of a second row with a key.
fn duplicate(spec: &LookupTable, row: &Row, keys: &[usize]) -> Error {
    let shown: Vec<String> = keys.iter().map(|&column| format!("{:?}", row.value(column))).collect();
    spec.path.error(format!("two rows have the key {}; a look-up needs unique keys", shown.join(", ")))
}

/// Returns the parser of the records of a table in CSV, with a header, to rows of all columns.
fn parser(schema: &Schema) -> Parser {
    let field = |(cell, field): (usize, &arrow_schema::FieldRef)| {
        (field.name().clone(), Kind::of(field.data_type()).map(|kind| (kind, cell)))
    };
    Parser::csv(CSV_SEPARATOR, true, Slots::new(schema.fields().iter().enumerate().map(field)))
}

/// The order of the columns in the header of a table; none for Arrow IPC.
type HeaderOrder = Option<Vec<Option<usize>>>;

/// Calls `found` for each row of a table, with the bytes of the file in which its record stands; of Arrow IPC, none.
///
/// # Errors
/// If the table cannot be read, and those of `found`.
fn scan(
    spec: &LookupTable,
    name: &str,
    schema: &SchemaRef,
    mut found: impl FnMut(Row, Range<u64>) -> Result<(), Error>,
) -> Result<HeaderOrder, Error> {
    let path = &spec.path.value;
    let named = Named::new(name, &path.display().to_string());
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    let (mut parser, content) = match is_arrow(path) {
        true => (None, Content::Arrow(schema.clone(), columns)),
        false => (Some(parser(schema)), Content::Text(Cut::Unquoted)),
    };
    let (control, wakeup) = (Arc::<Control>::default(), Wakeup::new());
    let origin = Origin::File { path: path.clone(), direct: false };
    let mut queue = open(&origin, content, &Start::Described, &named, &control, &wakeup, &mut None)?;
    let mut out = RowBuilder::default();
    loop {
        match (queue.wait(), &mut parser) {
            (Taken::End(None) | Taken::Empty, parser) => {
                return Ok(parser.as_ref().and_then(Parser::header_order));
            }
            (Taken::End(Some(error)), _) => return Err(error),
            (Taken::Batch(batch), parser) => match (batch.records, parser) {
                (Records::Rows(rows), _) => rows.into_iter().try_for_each(|row| found(row, 0..0))?,
                (Records::Lines(block), Some(parser)) => {
                    let (mut handles, mut at) = (Handles::new(Arc::new(block)), 0);
                    while let Some((record, next)) = parser.record(handles.text(), at) {
                        at = next;
                        let begin = handles.block().offset();
                        let range = begin + record.start as u64..begin + record.end as u64;
                        match parser.parse(handles.block(), record, &mut out) {
                            Ok(true) => found(out.finish(Some(&mut handles)), range)?,
                            Ok(false) => {}
                            Err(bad) => {
                                let (offset, reason) = (range.start, parser.explain(bad));
                                return Err(spec.path.error(format!("at byte {offset}: {reason}")));
                            }
                        }
                    }
                }
                (Records::Lines(_), None) => {}
            },
        }
    }
}

fn typed(name: &At<String>) -> Result<DataType, Error> {
    type_of(&name.value).ok_or_else(|| name.error(unknown_word(&name.value, &TYPE_NAMES)))
}

/// Returns whether a file is one of Arrow IPC, by its name.
fn is_arrow(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        ["arrow", "arrows", "ipc", "feather"].iter().any(|known| extension == *known)
    })
}
