//! sakiyomi's own CSV format: all fields of a record, under a header that names each column with its unit.
//!
//! ```text
//! time_ns,device,stream,op,fua,offset_bytes,length_bytes,response_ns,think_ns,started_ns,label
//! 0,0,0,read,0,4096,65536,,,,
//! ```
//!
//! Columns are identified by name, in any order. `op`, `offset_bytes` and `length_bytes` are required; another missing
//! column, or an empty field, means unknown or zero; columns with other names are ignored. The simulator's logs, which
//! use these names, can therefore be read as traces.

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};

use super::Parser;
use super::disksim_validation::hit_label;
use crate::field::{Problem, Shown, whole, whole_u32};
use crate::record::{Record, op_name};
use crate::table::{Column, Kind, Value};

/// A column of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    Device,
    Stream,
    Op,
    Fua,
    Offset,
    Length,
    Response,
    Think,
    Started,
    Label,
}

impl Field {
    pub(crate) const ALL: [Field; 11] = [
        Field::Time,
        Field::Device,
        Field::Stream,
        Field::Op,
        Field::Fua,
        Field::Offset,
        Field::Length,
        Field::Response,
        Field::Think,
        Field::Started,
        Field::Label,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Field::Time => "time_ns",
            Field::Device => "device",
            Field::Stream => "stream",
            Field::Op => "op",
            Field::Fua => "fua",
            Field::Offset => "offset_bytes",
            Field::Length => "length_bytes",
            Field::Response => "response_ns",
            Field::Think => "think_ns",
            Field::Started => "started_ns",
            Field::Label => "label",
        }
    }

    /// Returns whether its values are text.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Field::Op | Field::Label)
    }

    /// Returns whether the column is required.
    pub(crate) fn is_required(self) -> bool {
        matches!(self, Field::Op | Field::Offset | Field::Length)
    }

    pub(crate) fn column(self) -> Column {
        match self {
            Field::Op => Column::new(self.name(), Kind::Text),
            Field::Fua => Column::new(self.name(), Kind::Bool),
            Field::Label => Column::new(self.name(), Kind::Text).nullable(),
            Field::Response | Field::Think | Field::Started => Column::new(self.name(), Kind::U64).nullable(),
            _ => Column::new(self.name(), Kind::U64),
        }
    }
}

/// Returns the fields of `record` in the order of [`Field::ALL`].
pub(crate) fn row(record: &Record) -> [Value<'static>; Field::ALL.len()] {
    let optional = |time: Option<Nanos>| time.map_or(Value::Null, |time| Value::U64(time.0));
    [
        Value::U64(record.time.0),
        Value::U64(u64::from(record.device)),
        Value::U64(u64::from(record.stream.0)),
        Value::Text(op_name(record.op)),
        Value::Bool(record.fua),
        Value::U64(record.offset.0),
        Value::U64(record.length.0),
        optional(record.response),
        optional(record.think),
        optional(record.started),
        record.label.map_or(Value::Null, |label| Value::Text(label.name())),
    ]
}

/// Stores a number in `field`, which is not a text field.
pub(crate) fn set_number(record: &mut Record, field: Field, value: u64) -> Result<(), Problem> {
    let narrow = || {
        u32::try_from(value).map_err(|_| {
            format!("the column {} holds {value}, but must be a whole number below 2^32", field.name())
        })
    };
    match field {
        Field::Time => record.time = Nanos(value),
        Field::Device => record.device = narrow()?,
        Field::Stream => record.stream = StreamId(narrow()?),
        Field::Fua => record.fua = value != 0,
        Field::Offset => record.offset = Bytes(value),
        Field::Length => record.length = Bytes(value),
        Field::Response => record.response = Some(Nanos(value)),
        Field::Think => record.think = Some(Nanos(value)),
        Field::Started => record.started = Some(Nanos(value)),
        Field::Op | Field::Label => unreachable!("text columns hold no number"),
    }
    Ok(())
}

/// Stores a text in `field`: the operation, or the label.
pub(crate) fn set_text(record: &mut Record, field: Field, text: &[u8]) -> Result<(), Problem> {
    if field == Field::Label {
        record.label = Some(hit_label(text)?);
        return Ok(());
    }
    record.op = match text {
        b"read" => Op::Read,
        b"write" => Op::Write,
        b"flush" => Op::Flush,
        b"discard" => Op::Discard,
        other => {
            return Err(format!(
                "the column op holds {}, but must be read, write, flush or discard",
                Shown(other)
            ));
        }
    };
    Ok(())
}

/// Returns a record without field values.
pub(crate) fn blank() -> Record {
    Record::new(Nanos::ZERO, Op::Flush, Bytes::ZERO, Bytes::ZERO)
}

#[derive(Default)]
pub(super) struct Reader {
    /// Field of each column; empty until the header has been read.
    columns: Vec<Option<Field>>,
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        if self.columns.is_empty() {
            self.columns = header(line)?;
            return Ok(());
        }
        let mut record = blank();
        let mut fields = line.split(|&byte| byte == b',');
        for &column in &self.columns {
            let text = fields.next().ok_or_else(|| self.wrong_width(line))?;
            if let Some(field) = column {
                set(&mut record, field, text.trim_ascii())?;
            }
        }
        if fields.next().is_some() {
            return Err(self.wrong_width(line));
        }
        out.push(record);
        Ok(())
    }
}

impl Reader {
    fn wrong_width(&self, line: &[u8]) -> Problem {
        let (found, wanted) = (line.split(|&byte| byte == b',').count(), self.columns.len());
        format!("{} has {found} columns, but the header has {wanted}", Shown(line))
    }
}

fn header(line: &[u8]) -> Result<Vec<Option<Field>>, Problem> {
    let find = |name: &[u8]| Field::ALL.into_iter().find(|field| field.name().as_bytes() == name);
    let columns: Vec<_> = line.split(|&byte| byte == b',').map(|name| find(name.trim_ascii())).collect();
    for field in Field::ALL {
        let count = columns.iter().filter(|&&column| column == Some(field)).count();
        if count > 1 || count == 0 && field.is_required() {
            let problem = if count == 0 { "lacks the column" } else { "repeats the column" };
            return Err(format!("the header {} {problem} {}", Shown(line), field.name()));
        }
    }
    Ok(columns)
}

fn set(record: &mut Record, field: Field, text: &[u8]) -> Result<(), Problem> {
    match field {
        Field::Op => set_text(record, field, text),
        _ if text.is_empty() && !field.is_required() => Ok(()),
        Field::Label => set_text(record, field, text),
        Field::Fua => {
            record.fua = match text {
                b"0" | b"false" => false,
                b"1" | b"true" => true,
                other => return Err(format!("the column fua holds {}, but must be 0 or 1", Shown(other))),
            };
            Ok(())
        }
        Field::Device | Field::Stream => set_number(record, field, u64::from(whole_u32(text, field.name())?)),
        _ => set_number(record, field, whole(text, field.name())?),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use crate::record::HitLabel;

    #[test]
    fn columns_are_found_by_name() {
        let text = "op,seek_ns,length_bytes,offset_bytes,label,response_ns\nread,77,512,4096,Miss,5\nflush,0,0,0,,\n";
        let first = Record {
            response: Some(Nanos(5)),
            label: Some(HitLabel::Miss),
            ..Record::new(Nanos::ZERO, Op::Read, Bytes(4096), Bytes(512))
        };
        assert_eq!(parse_text(Format::Sakiyomi, text).unwrap(), [first, blank()]);
    }

    #[test]
    fn bad_headers_and_fields_are_refused() {
        let error = |text: &str| parse_text(Format::Sakiyomi, text).unwrap_err();
        assert!(error("time_ns,op,offset_bytes").ends_with("lacks the column length_bytes"));
        assert!(error("op,op,offset_bytes,length_bytes").ends_with("repeats the column op"));
        let line = |line: &str| error(&format!("op,offset_bytes,length_bytes,fua\n{line}"));
        assert_eq!(line("R,0,1,0"), "the column op holds `R`, but must be read, write, flush or discard");
        assert_eq!(line("read,0,1,2"), "the column fua holds `2`, but must be 0 or 1");
        assert_eq!(line("read,0,1"), "`read,0,1` has 3 columns, but the header has 4");
        assert!(line("read,,1,0").starts_with("the column offset_bytes holds ``"));
    }
}
