//! The CSV side of a table: rows are laid out in one buffer and handed on in large pieces.

use std::io::{self, Write};

use super::{Column, Value};

const FLUSH_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct CsvSink<W> {
    writer: W,
    buffer: Vec<u8>,
}

impl<W: Write> CsvSink<W> {
    pub(super) fn new(writer: W, columns: &[Column]) -> io::Result<CsvSink<W>> {
        let mut sink = CsvSink { writer, buffer: Vec::with_capacity(FLUSH_BYTES * 2) };
        let names: Vec<_> = columns.iter().map(|column| Value::Text(&column.name)).collect();
        sink.row(&names)?;
        Ok(sink)
    }

    pub(super) fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.buffer.push(b',');
            }
            field(&mut self.buffer, value)?;
        }
        self.buffer.push(b'\n');
        if self.buffer.len() >= FLUSH_BYTES {
            self.writer.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.writer.write_all(&self.buffer)?;
        self.writer.flush()?;
        Ok(self.writer)
    }
}

fn field(out: &mut Vec<u8>, value: &Value<'_>) -> io::Result<()> {
    match *value {
        Value::U64(number) => digits(out, number),
        Value::I64(number) => {
            if number < 0 {
                out.push(b'-');
            }
            digits(out, number.unsigned_abs());
        }
        Value::F64(number) => write!(out, "{number}")?,
        Value::Bool(yes) => out.push(b'0' + u8::from(yes)),
        Value::Text(text) => quoted(out, text),
        Value::Null => {}
    }
    Ok(())
}

/// The decimal digits, without the formatting machinery: this is most of what a log writes.
fn digits(out: &mut Vec<u8>, mut number: u64) {
    const DIGITS_MAX: usize = 20;
    let mut text = [0; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        text[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[start..]);
}

/// Quotes a text where it holds a comma, a quote or a line end, as RFC 4180 has it.
fn quoted(out: &mut Vec<u8>, text: &str) {
    if !text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: Value<'_>) -> String {
        let mut out = Vec::new();
        field(&mut out, &value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_quoted_where_they_must_be() {
        assert_eq!(text(Value::Text("plain")), "plain");
        assert_eq!(text(Value::Text("a,\"b\"")), "\"a,\"\"b\"\"\"");
        assert_eq!(text(Value::Null), "");
        assert_eq!(text(Value::Bool(true)), "1");
    }

    proptest! {
        #[test]
        fn numbers_read_back(whole: u64, signed: i64, fraction: f64) {
            prop_assert_eq!(text(Value::U64(whole)), whole.to_string());
            prop_assert_eq!(text(Value::I64(signed)), signed.to_string());
            let back: f64 = text(Value::F64(fraction)).parse().unwrap();
            prop_assert!(back == fraction || fraction.is_nan());
        }
    }
}
