//! Records in text: lines to rows, by the columns that the pipeline uses. Pure.
//!
//! A parser looks at no field behind the last used one, and makes no value of a field that is not used.

mod csv;
mod json;
mod log;
mod split;
mod time;
mod value;

use std::ops::Range;

use memchr::memchr;
use regex::{CaptureLocations, Regex};

use crate::row::{Block, Cell, RowBuilder};

use csv::Csv;

pub(crate) use csv::header;
pub(crate) use log::{COMMON_FIELDS, LOG_FIELDS};
pub(crate) use split::Separator;
pub(crate) use value::{Kind, TYPE_NAMES, type_of};

/// The fault of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is not written in the format.
    Form,
    /// It has only this number of fields.
    Fields(usize),
    /// A field is not a value of its column.
    Value(usize),
    /// It is not UTF-8.
    NotUtf8,
    /// The first record, which names the columns, lacks one.
    Header(usize),
}

/// For each field of a record where its value goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    fields: Vec<Option<Slot>>,
    width: usize,
}

#[derive(Clone, Debug)]
struct Slot {
    name: String,
    cell: usize,
    kind: Kind,
}

impl Slots {
    /// Fields with their names; those that are used have the kind of their values and the column of the row.
    pub(crate) fn new(fields: impl IntoIterator<Item = (String, Option<(Kind, usize)>)>) -> Slots {
        let slot = |(name, used): (String, Option<(Kind, usize)>)| {
            used.map(|(kind, cell)| Slot { name, cell, kind })
        };
        let mut fields: Vec<Option<Slot>> = fields.into_iter().map(slot).collect();
        let width = fields.iter().flatten().count();
        let used = fields.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        fields.truncate(used);
        Slots { fields, width }
    }

    /// Returns the columns of the row.
    fn width(&self) -> usize {
        self.width
    }

    /// Fields up to the last one that is used.
    #[inline]
    fn used_fields(&self) -> usize {
        self.fields.len()
    }

    fn name(&self, field: usize) -> &str {
        self.fields.get(field).and_then(Option::as_ref).map_or("", |slot| &slot.name)
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.name == name))
    }

    /// Sets the value of a field, if it is used. An empty field is null unless it is a text.
    #[inline]
    fn set(&self, field: usize, text: &str, start: usize, out: &mut RowBuilder) -> Result<(), Bad> {
        if let Some(Some(slot)) = self.fields.get(field) {
            if text.is_empty() && slot.kind != Kind::Text {
                return Ok(());
            }
            out.set(slot.cell, slot.kind.cell(text, start).ok_or(Bad::Value(field))?);
        }
        Ok(())
    }

    /// Like [`Slots::set`], where `-` stands for null.
    #[inline]
    fn set_dashed(&self, field: usize, text: &str, start: usize, out: &mut RowBuilder) -> Result<(), Bad> {
        if text == "-" { Ok(()) } else { self.set(field, text, start, out) }
    }

    /// Like [`Slots::set`], of a text that is not in the block.
    fn set_extra(&self, field: usize, text: &str, out: &mut RowBuilder) -> Result<(), Bad> {
        match self.fields.get(field) {
            Some(Some(slot)) if slot.kind == Kind::Text => out.set_extra(slot.cell, text),
            _ => self.set(field, text, 0, out)?,
        }
        Ok(())
    }

    /// Sets a value that is not a text.
    fn set_cell(
        &self,
        field: usize,
        cell: impl FnOnce(Kind) -> Option<Cell>,
        out: &mut RowBuilder,
    ) -> Result<(), Bad> {
        if let Some(Some(slot)) = self.fields.get(field) {
            out.set(slot.cell, cell(slot.kind).ok_or(Bad::Value(field))?);
        }
        Ok(())
    }

    fn expected(&self, field: usize) -> &'static str {
        self.fields.get(field).and_then(Option::as_ref).map_or("a value", |slot| slot.kind.expected())
    }
}

/// A format of records in text.
#[derive(Debug)]
pub(crate) struct Parser {
    slots: Slots,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// The line is the only field.
    Line,
    Split(Separator),
    /// Fields are the groups of these numbers.
    Pattern {
        regex: Regex,
        groups: Vec<usize>,
        locations: CaptureLocations,
    },
    Log,
    Csv(Csv),
    Json,
}

impl Parser {
    /// Lines, each of which is one field.
    pub(crate) fn lines(slots: Slots) -> Parser {
        Parser { slots, form: Form::Line }
    }

    /// Fields between separators.
    pub(crate) fn split(separator: Separator, slots: Slots) -> Parser {
        Parser { slots, form: Form::Split(separator) }
    }

    /// Fields are the named groups of a pattern, in their order.
    pub(crate) fn pattern(regex: Regex, slots: Slots) -> Parser {
        let named = regex.capture_names().enumerate().filter(|(_, name)| name.is_some());
        let groups = named.map(|(group, _)| group).collect();
        let locations = regex.capture_locations();
        Parser { slots, form: Form::Pattern { regex, groups, locations } }
    }

    /// Returns the log formats of web servers, with the fields of [`LOG_FIELDS`].
    pub(crate) fn log(slots: Slots) -> Parser {
        Parser { slots, form: Form::Log }
    }

    /// Comma-separated values (RFC 4180). With a header, the fields are found by their names there.
    pub(crate) fn csv(separator: u8, has_header: bool, slots: Slots) -> Parser {
        let csv = Csv::new(separator, has_header, &slots);
        Parser { slots, form: Form::Csv(csv) }
    }

    /// Returns an object of JSON in each line; the fields are its keys.
    pub(crate) fn json(slots: Slots) -> Parser {
        Parser { slots, form: Form::Json }
    }

    /// Returns the next record of a block from `at` on, and where the one after it begins; none at the end.
    #[inline]
    pub(crate) fn record(&self, text: &str, at: usize) -> Option<(Range<usize>, usize)> {
        if at >= text.len() {
            return None;
        }
        let rest = &text.as_bytes()[at..];
        let length = match &self.form {
            Form::Csv(csv) => csv.record_length(rest),
            _ => memchr(b'\n', rest),
        };
        let (end, next) = length.map_or((text.len(), text.len()), |length| (at + length, at + length + 1));
        let is_crlf = end > at && text.as_bytes()[end - 1] == b'\r';
        Some((at..end - usize::from(is_crlf), next))
    }

    /// Reads a record, a range of a block. Whether it is a row: empty lines and a header are not.
    ///
    /// # Errors
    /// If it is not written in the format, or a used field is not a value of its column.
    #[inline]
    pub(crate) fn parse(
        &mut self,
        block: &Block,
        record: Range<usize>,
        out: &mut RowBuilder,
    ) -> Result<bool, Bad> {
        let Parser { slots, form } = self;
        let start = record.start;
        let line = &block.text()[record.clone()];
        if line.is_empty() && !matches!(form, Form::Line) {
            return Ok(false);
        }
        if block.has_bad_line(record) {
            return Err(Bad::NotUtf8);
        }
        out.reset(slots.width());
        match form {
            Form::Line => slots.set(0, line, start, out)?,
            Form::Split(separator) => split::parse(*separator, slots, line, start, out)?,
            Form::Log => log::parse(slots, line, start, out)?,
            Form::Json => json::parse(slots, line, start, out)?,
            Form::Csv(csv) => return csv.parse(slots, line, start, out),
            Form::Pattern { regex, groups, locations } => {
                regex.captures_read(locations, line).ok_or(Bad::Form)?;
                for (field, &group) in groups.iter().enumerate().take(slots.used_fields()) {
                    if let Some((from, to)) = locations.get(group) {
                        slots.set(field, &line[from..to], start + from, out)?;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Returns the order of the fields that a header told; none of other formats, and before the header.
    pub(crate) fn header_order(&self) -> Option<Vec<Option<usize>>> {
        match &self.form {
            Form::Csv(csv) => csv.order(),
            _ => None,
        }
    }

    /// Continues after a header with this order.
    pub(crate) fn set_header_order(&mut self, order: Option<Vec<Option<usize>>>) {
        if let Form::Csv(csv) = &mut self.form {
            csv.set_order(order);
        }
    }

    /// Returns whether line ends within quotes belong to records.
    pub(crate) fn has_quotes(&self) -> bool {
        matches!(self.form, Form::Csv(_))
    }

    /// Returns the fault of a record in words.
    pub(crate) fn explain(&self, bad: Bad) -> String {
        let name = |field| self.slots.name(field);
        match bad {
            Bad::Form => match self.form {
                Form::Pattern { .. } => "the line does not match the pattern of `parse`".to_owned(),
                Form::Log => "the line is not in the log format".to_owned(),
                Form::Json => "the line is not an object of JSON".to_owned(),
                _ => "the record ends within quotes".to_owned(),
            },
            Bad::Fields(found) => format!("the record has only {found} fields"),
            Bad::Value(field) => {
                format!("the value of column {} is not {}", name(field), self.slots.expected(field))
            }
            Bad::NotUtf8 => "the line is not UTF-8".to_owned(),
            Bad::Header(field) => {
                format!(
                    "the header has no column {}; name the columns in `fields` if there is no header",
                    name(field)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
