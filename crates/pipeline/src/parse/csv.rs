//! Comma-separated values (RFC 4180). Pure.

use memchr::{memchr, memchr2};

use super::{Bad, Slots};
use crate::row::RowBuilder;

/// How records are written, and where their fields go.
#[derive(Debug)]
pub(super) struct Csv {
    separator: u8,
    /// For each field of a record its number among those of the description; none while the header is awaited.
    order: Option<Vec<Option<usize>>>,
    /// The last field that had quotes within quotes.
    unescaped: String,
}

impl Csv {
    pub(super) fn new(separator: u8, has_header: bool, slots: &Slots) -> Csv {
        let order = (!has_header).then(|| (0..slots.used_fields()).map(Some).collect());
        Csv { separator, order, unescaped: String::new() }
    }

    pub(super) fn order(&self) -> Option<Vec<Option<usize>>> {
        self.order.clone()
    }

    pub(super) fn set_order(&mut self, order: Option<Vec<Option<usize>>>) {
        self.order = order;
    }

    /// Length of the record at the start of some bytes; none if its line end is missing.
    pub(super) fn record_length(&self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            at += memchr2(b'\n', b'"', &bytes[at..])?;
            if bytes[at] == b'\n' {
                return Some(at);
            }
            at += 1 + memchr(b'"', &bytes[at + 1..])? + 1;
        }
    }

    /// Reads a record that begins at `start` of its block. Whether it is a row.
    pub(super) fn parse(
        &mut self,
        slots: &Slots,
        record: &str,
        start: usize,
        out: &mut RowBuilder,
    ) -> Result<bool, Bad> {
        let Some(order) = self.order.take() else {
            self.order = Some(self.header(slots, record)?);
            return Ok(false);
        };
        let read = self.fields(slots, &order, record, start, out);
        self.order = Some(order);
        read.map(|()| true)
    }

    fn header(&mut self, slots: &Slots, record: &str) -> Result<Vec<Option<usize>>, Bad> {
        let mut order = Vec::new();
        let mut at = Some(0);
        while let Some(from) = at {
            let (field, next) = self.field(record, from)?;
            order.push(slots.index_of(field.text(&self.unescaped).trim_start_matches('\u{feff}').trim()));
            at = next;
        }
        let lacks = |field: &usize| !slots.name(*field).is_empty() && !order.contains(&Some(*field));
        if let Some(missing) = (0..slots.used_fields()).find(lacks) {
            return Err(Bad::Header(missing));
        }
        let used = order.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        order.truncate(used);
        Ok(order)
    }

    fn fields(
        &mut self,
        slots: &Slots,
        order: &[Option<usize>],
        record: &str,
        start: usize,
        out: &mut RowBuilder,
    ) -> Result<(), Bad> {
        let mut at = Some(0);
        for (number, &field) in order.iter().enumerate() {
            let Some(from) = at else { return Err(Bad::Fields(number)) };
            let (found, next) = self.field(record, from)?;
            at = next;
            let Some(field) = field else { continue };
            match found {
                // An empty field without quotes is null, also of a text.
                Field::Plain("", _) => {}
                Field::Plain(text, offset) => slots.set(field, text, start + offset, out)?,
                Field::Unescaped => slots.set_extra(field, &self.unescaped, out)?,
            }
        }
        Ok(())
    }

    /// Returns the field at `at`, and the offset of the next one; none after the last.
    fn field<'r>(&mut self, record: &'r str, at: usize) -> Result<(Field<'r>, Option<usize>), Bad> {
        let bytes = record.as_bytes();
        if bytes.get(at) != Some(&b'"') {
            let end = memchr(self.separator, &bytes[at..]).map_or(bytes.len(), |length| at + length);
            return Ok((Field::Plain(&record[at..end], at), (end < bytes.len()).then_some(end + 1)));
        }
        self.unescaped.clear();
        let mut from = at + 1;
        loop {
            let quote = from + memchr(b'"', &bytes[from..]).ok_or(Bad::Form)?;
            let after = bytes.get(quote + 1);
            let is_end = after.is_none() || after == Some(&self.separator);
            if is_end && self.unescaped.is_empty() && quote > from {
                let next = after.map(|_| quote + 2);
                return Ok((Field::Plain(&record[from..quote], from), next));
            }
            self.unescaped.push_str(&record[from..quote]);
            match after {
                Some(b'"') => self.unescaped.push('"'),
                _ if is_end => return Ok((Field::Unescaped, after.map(|_| quote + 2))),
                Some(_) => return Err(Bad::Form),
                None => return Ok((Field::Unescaped, None)),
            }
            from = quote + 2;
        }
    }
}

/// The names of a header; none if it ends within quotes.
pub(crate) fn header(record: &str, separator: u8) -> Option<Vec<String>> {
    let mut csv = Csv { separator, order: None, unescaped: String::new() };
    let (mut names, mut at) = (Vec::new(), Some(0));
    while let Some(from) = at {
        let (field, next) = csv.field(record, from).ok()?;
        names.push(field.text(&csv.unescaped).trim_start_matches('\u{feff}').trim().to_owned());
        at = next;
    }
    Some(names)
}

/// A field without its quotes.
enum Field<'r> {
    /// The text of the record itself, from this offset.
    Plain(&'r str, usize),
    /// In the reader's memory: an empty text in quotes, or one with quotes.
    Unescaped,
}

impl Field<'_> {
    fn text<'a>(&'a self, unescaped: &'a str) -> &'a str {
        match self {
            Field::Plain(text, _) => text,
            Field::Unescaped => unescaped,
        }
    }
}
