//! Inference of CSV column types from the first records of a file.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_cast::parse::Parser;
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::Format as CsvFormat;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::records::{Scanner, first_record, not_text, not_utf8};
use crate::Error;
use crate::table::guard::{decode, printable};

/// Bytes at the start of a file from which its types are inferred.
pub(in crate::table) const INFERRED_BYTES: usize = 1 << 20;

/// UTF-8 byte order mark, which some programs write at the start of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Maximum digits of a timestamp's fraction.
const FRACTION_DIGITS_MAX: usize = 9;

/// The narrowest type of a column's values so far. Within numbers and within times, later kinds include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Nothing,
    Boolean,
    Integer,
    Float,
    Date,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Text,
}

impl Kind {
    /// The kind of a column whose values are parsed; `None` for texts and truth values.
    pub(super) fn of_type(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::Int64 => Kind::Integer,
            DataType::Float64 => Kind::Float,
            DataType::Date32 => Kind::Date,
            DataType::Timestamp(TimeUnit::Second, None) => Kind::Second,
            DataType::Timestamp(TimeUnit::Millisecond, None) => Kind::Millisecond,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Kind::Microsecond,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => Kind::Nanosecond,
            _ => return None,
        })
    }

    /// In words, for errors.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Kind::Nothing => "empty",
            Kind::Boolean => "true or false",
            Kind::Integer => "an integer without leading zeros",
            Kind::Float => "a number",
            Kind::Date => "a date",
            Kind::Second => "a time in seconds",
            Kind::Millisecond => "a time in milliseconds",
            Kind::Microsecond => "a time in microseconds",
            Kind::Nanosecond => "a time in nanoseconds",
            Kind::Text => "a text",
        }
    }

    /// The value of an integer that is written as one.
    pub(super) fn integer(text: &str) -> Option<i64> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        let is_written_so = digits.bytes().all(|byte| byte.is_ascii_digit()) && !has_leading_zero;
        if is_written_so { text.parse().ok() } else { None }
    }

    /// The kind of one value.
    pub(super) fn of(text: &str) -> Kind {
        match text {
            "" => Kind::Nothing,
            _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => Kind::Boolean,
            _ if Kind::integer(text).is_some() => Kind::Integer,
            _ if is_float(text) => Kind::Float,
            _ => time_kind(text).unwrap_or(Kind::Text),
        }
    }

    /// The kind that includes the values of both.
    pub(super) fn join(self, other: Kind) -> Kind {
        let (less, more) = (self.min(other), self.max(other));
        let is_number = |kind| matches!(kind, Kind::Integer | Kind::Float);
        let is_time = |kind| (Kind::Date..=Kind::Nanosecond).contains(&kind);
        match () {
            () if less == more || less == Kind::Nothing => more,
            () if is_number(less) && is_number(more) => more,
            () if is_time(less) && is_time(more) => more,
            () => Kind::Text,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Kind::Boolean => DataType::Boolean,
            Kind::Integer => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Date => DataType::Date32,
            Kind::Second => DataType::Timestamp(TimeUnit::Second, None),
            Kind::Millisecond => DataType::Timestamp(TimeUnit::Millisecond, None),
            Kind::Microsecond => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Nanosecond => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Kind::Nothing | Kind::Text => DataType::Utf8,
        }
    }
}

/// Whether `text` is a number with a point or an exponent (so not an integer beyond 64 bits), `NaN` or `inf`.
fn is_float(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_leading_zero =
        digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = matches!(digits, "NaN" | "inf");
    let is_number = digits.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_name || (is_number && !is_whole && !has_leading_zero)) && Float64Type::parse(text).is_some()
}

/// Whether `text` is `shape` but for other digits in the places of zeros.
fn has_shape(text: &str, shape: &str) -> bool {
    let is_like = |(byte, place): (u8, u8)| byte == place || (place == b'0' && byte.is_ascii_digit());
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(is_like)
}

/// The kind of a date or a timestamp.
fn time_kind(text: &str) -> Option<Kind> {
    let (date, time) = text.split_at_checked(10)?;
    if !has_shape(date, "0000-00-00") {
        return None;
    }
    if time.is_empty() {
        return Date32Type::parse(date).map(|_| Kind::Date);
    }
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_clock = has_shape(clock, "T00:00:00") || has_shape(clock, " 00:00:00");
    let is_fraction = (1..=FRACTION_DIGITS_MAX).contains(&fraction.len())
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_clock || !is_fraction || TimestampNanosecondType::parse(text).is_none() {
        return None;
    }
    Some(match (time.contains('.'), fraction.len()) {
        (false, _) => Kind::Second,
        (true, ..=3) => Kind::Millisecond,
        (true, 4..=6) => Kind::Microsecond,
        (true, _) => Kind::Nanosecond,
    })
}

/// A file's header and the types of its columns.
#[derive(Debug)]
pub(in crate::table) struct Inferred {
    /// Bytes before the first record.
    pub(in crate::table) header_bytes: usize,
    names: Vec<String>,
    kinds: Vec<Kind>,
}

impl Inferred {
    /// The schema; all columns are nullable.
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
    decode(path, || {
        let format = CsvFormat::default().with_header(true);
        let named = format.infer_schema(Cursor::new(&text[..header]), Some(0));
        let (named, _) =
            named.map_err(|error| bad(format!("the header is not readable: {}", printable(error))))?;
        let names: Vec<String> = named.fields().iter().map(|field| field.name().clone()).collect();
        let records = &text[header..];
        let end =
            if is_whole { records.len() } else { Scanner::default().last_record_end(records).unwrap_or(0) };
        if let Some(at) = not_utf8(&text[..header], &records[..end]) {
            return Err(bad(not_text(mark + at)));
        }
        let kinds = kinds(&names, &records[..end]).map_err(|error| {
            bad(format!("the first records are not readable as CSV: {}", printable(error)))
        })?;
        Ok(Inferred { header_bytes: mark + header, names, kinds })
    })
}

/// Infers the kind of each column from `records`.
fn kinds(names: &[String], records: &[u8]) -> Result<Vec<Kind>, arrow_schema::ArrowError> {
    let fields = names.iter().map(|name| Field::new(name, DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let reader = ReaderBuilder::new(schema).with_header(false).build(Cursor::new(records))?;
    let mut kinds = vec![Kind::Nothing; names.len()];
    for batch in reader {
        widen(&mut kinds, &batch?);
    }
    Ok(kinds)
}

fn widen(kinds: &mut [Kind], batch: &RecordBatch) {
    for (kind, column) in kinds.iter_mut().zip(batch.columns()) {
        let values = column.as_string::<i32>();
        for at in (0..values.len()).filter(|&at| values.is_valid(at)) {
            if *kind == Kind::Text {
                break;
            }
            *kind = kind.join(Kind::of(values.value(at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_least_type_that_keeps_them() {
        let cases = [
            ("", Kind::Nothing),
            ("TRUE", Kind::Boolean),
            ("-12", Kind::Integer),
            ("9223372036854775807", Kind::Integer),
            ("9223372036854775808", Kind::Text),
            ("007", Kind::Text),
            ("+5", Kind::Text),
            ("0.50", Kind::Float),
            ("1e9", Kind::Float),
            ("NaN", Kind::Float),
            ("nan", Kind::Text),
            ("1998-09-02", Kind::Date),
            ("1998-13-02", Kind::Text),
            ("1998-09-02T12:00:00", Kind::Second),
            ("1998-09-02 12:00:00.25", Kind::Millisecond),
            ("1998-09-02 12:00:00.2500001", Kind::Nanosecond),
            ("1998-09-02 12:00:00Z", Kind::Text),
            ("1998", Kind::Integer),
            ("ü", Kind::Text),
        ];
        for (text, kind) in cases {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn mixtures_widen() {
        assert_eq!(Kind::Integer.join(Kind::Float), Kind::Float);
        assert_eq!(Kind::Date.join(Kind::Microsecond), Kind::Microsecond);
        assert_eq!(Kind::Boolean.join(Kind::Integer), Kind::Text);
        assert_eq!(Kind::Float.join(Kind::Date), Kind::Text);
        assert_eq!(Kind::Nothing.join(Kind::Boolean), Kind::Boolean);
    }
}
