//! `[source.NAME]`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use regex::Regex;
use sakiyomi_model::Nanos;
use sakiyomi_stream::Overload;

use super::origin::Origin;
use super::{BAD_WORDS, OnBad};
use crate::Error;
use crate::document::{At, Table, unknown_word};
use crate::input::schema_of_file;
use crate::parse::{COMMON_FIELDS, Kind, LOG_FIELDS, Separator, TYPE_NAMES, type_of};

/// The names of formats.
const FORMATS: [&str; 6] = ["lines", "json", "csv", "arrow", "combined", "common"];

/// Columns of a generator: name and type.
const GENERATOR_FIELDS: [(&str, &str); 4] =
    [("number", "int64"), ("key", "int64"), ("value", "float64"), ("time", "timestamp(ns)")];

/// A source.
#[derive(Debug)]
pub(crate) struct SourceSpec {
    pub(crate) name: String,
    pub(crate) place: At<()>,
    pub(crate) origin: At<Origin>,
    pub(crate) format: RecordFormat,
    /// The fields of a record in their order.
    pub(crate) schema: SchemaRef,
    pub(crate) event_time: Option<EventTime>,
    pub(crate) overload: Overload,
    pub(crate) bad: OnBad,
    /// Mean CPU time of a row for the planner, in nanoseconds.
    pub(crate) cost_ns: Option<f64>,
    /// Share of this source among the rows of all.
    pub(crate) share: Option<f64>,
}

/// How records are written.
#[derive(Clone, Debug)]
pub(crate) enum RecordFormat {
    Lines,
    Pattern(Regex),
    Split(Separator),
    Log,
    Csv {
        separator: u8,
        header: bool,
    },
    Json,
    Arrow,
    /// A generator has no format.
    None,
}

/// The column of event times, and how far rows may be out of order.
#[derive(Clone, Debug)]
pub(crate) struct EventTime {
    pub(crate) column: usize,
    pub(crate) out_of_order_ns: u64,
    pub(crate) late: Late,
    /// Time without rows after which event time continues with the clock.
    pub(crate) idle_ns: Option<u64>,
}

/// Treatment of rows that come after the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// They are counted and dropped.
    Drop,
    /// Windows accept them for so long after their end, and emit their results again.
    Allow {
        /// Time after the watermark, in nanoseconds.
        lateness_ns: u64,
    },
}

impl SourceSpec {
    pub(super) fn read(name: &str, table: &Table<'_>) -> Result<SourceSpec, Error> {
        let origin = Origin::read(table)?;
        let (format, fields) = match origin.value {
            Origin::Generator(_) => (RecordFormat::None, typed(&GENERATOR_FIELDS)),
            _ => read_format(name, table, &origin.value)?,
        };
        let schema = Arc::new(Schema::new(fields));
        let source = SourceSpec {
            name: name.to_owned(),
            place: At { value: (), place: table.place() },
            event_time: EventTime::read(table, &schema)?,
            overload: read_overload(table)?,
            bad: table.word("bad", &BAD_WORDS)?.map_or(OnBad::Stop, |word| OnBad::of(word.value)),
            cost_ns: table.parsed::<Nanos>("cost")?.map(|cost| cost.value.0 as f64),
            share: table.number("share")?.map(|share| share.value).filter(|share| *share > 0.0),
            origin,
            format,
            schema,
        };
        table.finish()?;
        Ok(source)
    }
}

fn typed(fields: &[(&str, &str)]) -> Vec<Field> {
    let field = |(name, type_name): &(&str, &str)| {
        Field::new(*name, type_of(type_name).unwrap_or(DataType::Utf8), true)
    };
    fields.iter().map(field).collect()
}

/// The names and types of `columns`, in their order.
fn read_columns(table: &Table<'_>) -> Result<Vec<(String, At<DataType>)>, Error> {
    let column = |(name, text): (String, At<String>)| match type_of(&text.value) {
        Some(data_type) => Ok((name, text.with(data_type))),
        None => Err(text.error(unknown_word(&text.value, &TYPE_NAMES))),
    };
    table.named_texts("columns")?.into_iter().map(column).collect()
}

/// Fields of these names; those of `columns` have their types there, and all others are texts.
fn named_fields(
    names: impl IntoIterator<Item = String>,
    columns: &[(String, At<DataType>)],
) -> Result<Vec<Field>, Error> {
    let names: Vec<String> = names.into_iter().collect();
    if let Some((name, column)) = columns.iter().find(|(name, _)| !names.contains(name)) {
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        return Err(column.error(format!("no field is named {name}; the fields are {}", known.join(", "))));
    }
    let field = |name: &String| {
        let typed = columns.iter().find(|(other, _)| other == name);
        Field::new(name, typed.map_or(DataType::Utf8, |(_, column)| column.value.clone()), true)
    };
    Ok(names.iter().map(field).collect())
}

fn read_format(name: &str, table: &Table<'_>, origin: &Origin) -> Result<(RecordFormat, Vec<Field>), Error> {
    let format = table.word("format", &FORMATS)?;
    let columns = read_columns(table)?;
    let declared = || -> Vec<Field> {
        columns.iter().map(|(name, column)| Field::new(name, column.value.clone(), true)).collect()
    };
    let needs_columns = |example: &str| match columns.is_empty() {
        true => Err(table.missing("columns", example)),
        false => Ok(()),
    };
    match format.as_ref().map_or("lines", |format| FORMATS[format.value]) {
        "lines" => read_lines(table, &columns),
        "json" => {
            needs_columns("{ name = \"text\", size = \"int64\" }")?;
            Ok((RecordFormat::Json, declared()))
        }
        "csv" => {
            let separator = read_separator(table, b',')?;
            let header = table.flag("header")?;
            if let Some(fields) = table.texts("fields")? {
                if header == Some(true) {
                    return Err(
                        fields.error("the header names the fields; write header = false, or remove it")
                    );
                }
                let fields = named_fields(fields.value, &columns)?;
                return Ok((RecordFormat::Csv { separator, header: false }, fields));
            }
            let header = header.unwrap_or(true);
            if let (true, Some(format), Some(problem)) = (header, &format, no_header(origin)) {
                return Err(format.error(problem));
            }
            needs_columns("{ name = \"text\", size = \"int64\" }")?;
            Ok((RecordFormat::Csv { separator, header }, declared()))
        }
        "arrow" => {
            if let Origin::File { path, .. } = origin {
                let schema = schema_of_file(path, &format!("source.{name}"))?;
                return Ok((
                    RecordFormat::Arrow,
                    schema.fields().iter().map(|field| (**field).clone()).collect(),
                ));
            }
            needs_columns(
                "{ name = \"text\", size = \"int64\" }; only the columns of a file are known in advance",
            )?;
            Ok((RecordFormat::Arrow, declared()))
        }
        format => {
            let count = if format == "common" { COMMON_FIELDS } else { LOG_FIELDS.len() };
            let mut fields = typed(&LOG_FIELDS[..count]);
            let names = fields.iter().map(|field| field.name().clone());
            named_fields(names, &columns)?;
            for (name, column) in &columns {
                for field in fields.iter_mut().filter(|field| field.name() == name) {
                    *field = Field::new(name, column.value.clone(), true);
                }
            }
            Ok((RecordFormat::Log, fields))
        }
    }
}

/// Why the columns of an origin cannot be named by a header: a source reads one, before all rows.
fn no_header(origin: &Origin) -> Option<&'static str> {
    match origin {
        Origin::Tail { .. } => Some(
            "a tail starts after the header, or meets another one after a rotation; \
             name the columns in `fields`, with header = false",
        ),
        Origin::Socket { listen: true, .. } => Some(
            "a source reads one header, and each connection would send its own; \
             name the columns in `fields`, with header = false",
        ),
        _ => None,
    }
}

/// Lines: by `parse`, by `split`, or as they are.
fn read_lines(
    table: &Table<'_>,
    columns: &[(String, At<DataType>)],
) -> Result<(RecordFormat, Vec<Field>), Error> {
    let (parse, split) = (table.text("parse")?, table.text("split")?);
    match (parse, split) {
        (Some(_), Some(split)) => {
            Err(split.error("`parse` and `split` exclude each other; remove one of them"))
        }
        (Some(parse), None) => {
            let regex =
                Regex::new(&parse.value).map_err(|error| parse.error(one_line(&error.to_string())))?;
            let names: Vec<String> = regex.capture_names().flatten().map(str::to_owned).collect();
            if names.is_empty() {
                return Err(parse.error("no group has a name; write (?P<name>…) for each column"));
            }
            Ok((RecordFormat::Pattern(regex), named_fields(names, columns)?))
        }
        (None, Some(split)) => {
            let separator = match split.value.as_str() {
                " " => Separator::Blanks,
                text => Separator::Byte(single_byte(&split, text)?),
            };
            let names = match table.texts("fields")? {
                Some(fields) => fields.value,
                None if columns.is_empty() => {
                    return Err(table.missing("fields", "[\"first\", \"second\"]"));
                }
                None => columns.iter().map(|(name, _)| name.clone()).collect(),
            };
            Ok((RecordFormat::Split(separator), named_fields(names, columns)?))
        }
        (None, None) => Ok((RecordFormat::Lines, named_fields(["line".to_owned()], columns)?)),
    }
}

/// Returns the last line of an error of the library, which says what is wrong.
fn one_line(error: &str) -> String {
    error.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned()
}

fn read_separator(table: &Table<'_>, usual: u8) -> Result<u8, Error> {
    match table.text("separator")? {
        Some(text) => single_byte(&text, &text.value),
        None => Ok(usual),
    }
}

/// A separator is a single byte that no line end or quote is.
pub(super) fn single_byte(at: &At<String>, text: &str) -> Result<u8, Error> {
    match text.as_bytes() {
        &[byte] if !matches!(byte, b'\n' | b'\r' | b'"') && byte.is_ascii() => Ok(byte),
        _ => Err(at.error(format!(
            "{text:?} does not separate fields; write one character such as \",\" or \"\\t\""
        ))),
    }
}

impl EventTime {
    fn read(table: &Table<'_>, schema: &SchemaRef) -> Result<Option<EventTime>, Error> {
        let column = table.text("event_time")?;
        let out_of_order = table.parsed::<Nanos>("out_of_order")?;
        let late = table.text("late")?;
        let idle = table.parsed::<Nanos>("idle")?;
        let Some(column) = column else {
            let without = out_of_order
                .map(|time| time.place)
                .or(late.map(|late| late.place))
                .or(idle.map(|idle| idle.place));
            return match without {
                Some(place) => Err(place.error("there is no event_time; name the column of the event times")),
                None => Ok(None),
            };
        };
        let found = sakiyomi_expression::columns::find(&column.value, false, schema);
        let index = found.map_err(|error| column.error(error.to_string()))?;
        let data_type = schema.field(index).data_type();
        if !matches!(Kind::of(data_type), Some(Kind::Timestamp(_))) {
            return Err(column.error(format!(
                "column {} is {data_type} and not a time; write columns = {{ {} = \"timestamp(ms)\" }}",
                column.value, column.value
            )));
        }
        let late = match late {
            None => Late::Drop,
            Some(late) if late.value == "drop" => Late::Drop,
            Some(late) => {
                let allowed = late.value.strip_prefix("allow:").map(str::parse::<Nanos>);
                let wrong = || late.error(format!("\"{}\" is unknown; write drop or allow:10s", late.value));
                let allowed = allowed.ok_or_else(wrong)?.map_err(|error| late.error(error.to_string()))?;
                Late::Allow { lateness_ns: allowed.0 }
            }
        };
        let out_of_order_ns = out_of_order.map_or(0, |time| time.value.0);
        let idle_ns = idle.map(|idle| idle.value.0);
        Ok(Some(EventTime { column: index, out_of_order_ns, late, idle_ns }))
    }
}

fn read_overload(table: &Table<'_>) -> Result<Overload, Error> {
    let Some(overload) = table.text("overload")? else { return Ok(Overload::Wait) };
    if overload.value == "wait" {
        return Ok(Overload::Wait);
    }
    let late = overload.value.strip_prefix("shed:").map(str::parse::<Nanos>);
    let wrong = || overload.error(format!("\"{}\" is unknown; write wait or shed:50ms", overload.value));
    let late = late.ok_or_else(wrong)?.map_err(|error| overload.error(error.to_string()))?;
    Ok(Overload::Shed { late_max_ns: late.0 })
}
