//! The common and the combined log format of web servers (Apache HTTP Server, "Log Files"). Pure.
//!
//! ```text
//! 192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326 "http://example.org/" "Mozilla/4.08"
//! host  ident user  time                          method path protocol status bytes referer           agent
//! ```

use memchr::{memchr, memchr2};

use super::{Bad, Slots};
use crate::row::RowBuilder;

/// The fields in their order: name and type.
pub(crate) const LOG_FIELDS: [(&str, &str); 11] = [
    ("host", "text"),
    ("ident", "text"),
    ("user", "text"),
    ("time", "timestamp(s)"),
    ("method", "text"),
    ("path", "text"),
    ("protocol", "text"),
    ("status", "int32"),
    ("bytes", "int64"),
    ("referer", "text"),
    ("agent", "text"),
];

/// Fields of the common format, which lacks the last two.
pub(crate) const COMMON_FIELDS: usize = 9;

/// Index of the time among the fields.
const TIME_FIELD: usize = 3;
/// Index of the method among the fields.
const METHOD_FIELD: usize = 4;
/// Index of the status among the fields.
const STATUS_FIELD: usize = 7;

/// Reads the fields of a line that begins at `start` of its block. Later fields than the last used one are not looked
/// at. `-` stands for null.
pub(super) fn parse(slots: &Slots, line: &str, start: usize, out: &mut RowBuilder) -> Result<(), Bad> {
    let mut rest = Rest { line, at: 0 };
    for field in 0..TIME_FIELD {
        let (text, at) = rest.until(b' ')?;
        slots.set_dashed(field, text, start + at, out)?;
    }
    if slots.used_fields() <= TIME_FIELD {
        return Ok(());
    }
    rest.expect(b'[')?;
    let (text, at) = rest.until(b']')?;
    slots.set_dashed(TIME_FIELD, text, start + at, out)?;
    if slots.used_fields() <= METHOD_FIELD {
        return Ok(());
    }
    rest.expect(b' ')?;
    let (request, at) = rest.quoted()?;
    set_request(slots, request, start + at, out)?;
    for field in STATUS_FIELD..slots.used_fields() {
        rest.expect(b' ')?;
        let (text, at) = if field < COMMON_FIELDS { rest.word() } else { rest.quoted()? };
        slots.set_dashed(field, text, start + at, out)?;
    }
    Ok(())
}

/// Method, path and protocol. A request that is not of this form, as of a scanner, is the path.
fn set_request(slots: &Slots, request: &str, start: usize, out: &mut RowBuilder) -> Result<(), Bad> {
    let first = memchr(b' ', request.as_bytes());
    let last = memchr::memrchr(b' ', request.as_bytes());
    match (first, last) {
        (Some(first), Some(last)) if first < last => {
            slots.set(METHOD_FIELD, &request[..first], start, out)?;
            slots.set(METHOD_FIELD + 1, &request[first + 1..last], start + first + 1, out)?;
            slots.set(METHOD_FIELD + 2, &request[last + 1..], start + last + 1, out)
        }
        _ => slots.set_dashed(METHOD_FIELD + 1, request, start, out),
    }
}

/// The rest of a line.
struct Rest<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    /// Returns the text before the next byte of a value, which is passed.
    fn until(&mut self, byte: u8) -> Result<(&'a str, usize), Bad> {
        let start = self.at;
        let length = memchr(byte, &self.line.as_bytes()[start..]).ok_or(Bad::Form)?;
        self.at = start + length + 1;
        Ok((&self.line[start..start + length], start))
    }

    /// The text before the next blank or the end.
    fn word(&mut self) -> (&'a str, usize) {
        let start = self.at;
        let length = memchr(b' ', &self.line.as_bytes()[start..]).unwrap_or(self.line.len() - start);
        self.at = start + length;
        (&self.line[start..start + length], start)
    }

    /// Returns the text between quotes. `\"` does not end it, and stays as it is.
    fn quoted(&mut self) -> Result<(&'a str, usize), Bad> {
        self.expect(b'"')?;
        let (bytes, start) = (self.line.as_bytes(), self.at);
        let mut at = start;
        loop {
            at += memchr2(b'"', b'\\', &bytes[at..]).ok_or(Bad::Form)?;
            if bytes[at] == b'"' {
                break;
            }
            at += 2;
            if at > bytes.len() {
                return Err(Bad::Form);
            }
        }
        self.at = at + 1;
        Ok((&self.line[start..at], start))
    }

    fn expect(&mut self, byte: u8) -> Result<(), Bad> {
        if self.line.as_bytes().get(self.at) != Some(&byte) {
            return Err(Bad::Form);
        }
        self.at += 1;
        Ok(())
    }
}
