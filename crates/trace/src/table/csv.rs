//! CSV output of a table: rows are formatted in one buffer and written in large blocks.

use std::io::{self, Write};

use super::{Column, Value};

const FLUSH_BYTES: usize = 64 << 10;

/// Maximum space of a value other than a text: a fraction has at most 327 digits and a point.
const VALUE_BYTES_MAX: usize = 336;

#[derive(Debug)]
pub(super) struct CsvSink<W> {
    writer: W,
    /// Formatted bytes that are not yet written; free space follows `used`.
    buffer: Vec<u8>,
    used: usize,
}

impl<W: Write> CsvSink<W> {
    pub(super) fn new(writer: W, columns: &[Column]) -> io::Result<CsvSink<W>> {
        let mut sink = CsvSink { writer, buffer: vec![0; FLUSH_BYTES * 2], used: 0 };
        let names: Vec<_> = columns.iter().map(|column| Value::Text(&column.name)).collect();
        sink.row(&names)?;
        Ok(sink)
    }

    pub(super) fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        for value in values {
            // Includes the comma or line end after it.
            let needed = 1 + match value {
                Value::Text(text) => 2 * text.len() + 2,
                _ => VALUE_BYTES_MAX,
            };
            if self.buffer.len() - self.used < needed {
                self.buffer.resize(self.used + needed, 0);
            }
            let space = &mut self.buffer[self.used..];
            let length = field(space, value)?;
            space[length] = b',';
            self.used += length + 1;
        }
        // Replaces the comma after the last value, if there are values.
        self.used = self.used.saturating_sub(usize::from(!values.is_empty()));
        if self.used == self.buffer.len() {
            self.buffer.push(0);
        }
        self.buffer[self.used] = b'\n';
        self.used += 1;
        if self.used >= FLUSH_BYTES {
            self.writer.write_all(&self.buffer[..self.used])?;
            self.used = 0;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.writer.write_all(&self.buffer[..self.used])?;
        self.writer.flush()?;
        Ok(self.writer)
    }
}

/// Formats a value at the beginning of `space`, which is large enough, and returns its length.
fn field(space: &mut [u8], value: &Value<'_>) -> io::Result<usize> {
    Ok(match *value {
        Value::U64(number) => digits(space, number),
        Value::I64(number) if number < 0 => {
            space[0] = b'-';
            1 + digits(&mut space[1..], number.unsigned_abs())
        }
        Value::I64(number) => digits(space, number.unsigned_abs()),
        Value::F64(number) => {
            let mut rest = &mut *space;
            write!(rest, "{number}")?;
            let left = rest.len();
            space.len() - left
        }
        Value::Bool(yes) => {
            space[0] = b'0' + u8::from(yes);
            1
        }
        Value::Text(text) => quoted(space, text.as_bytes()),
        Value::Null => 0,
    })
}

/// Digits of the numbers below a hundred: `00` to `99`.
const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// Formats decimal digits, two at a time and in place: the most frequent operation in writing a log.
fn digits(space: &mut [u8], mut number: u64) -> usize {
    let length = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    let space = &mut space[..length];
    let mut at = length;
    while number >= 10 {
        at -= 2;
        [space[at], space[at + 1]] = DIGIT_PAIRS[(number % 100) as usize];
        number /= 100;
    }
    if at == 1 {
        space[0] = b'0' + number as u8;
    }
    length
}

/// Quotes a text that contains a comma, a quote or a line end (RFC 4180).
fn quoted(space: &mut [u8], text: &[u8]) -> usize {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        space[..text.len()].copy_from_slice(text);
        return text.len();
    }
    let mut length = 0;
    let mut push = |byte| {
        space[length] = byte;
        length += 1;
    };
    push(b'"');
    for &byte in text {
        if byte == b'"' {
            push(b'"');
        }
        push(byte);
    }
    push(b'"');
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: Value<'_>) -> String {
        let mut space = [b'x'; VALUE_BYTES_MAX];
        let length = field(&mut space, &value).unwrap();
        String::from_utf8(space[..length].to_vec()).unwrap()
    }

    #[test]
    fn the_longest_values_have_room() {
        for number in [f64::MIN, f64::MIN_POSITIVE, -f64::from_bits(1), f64::EPSILON] {
            assert_eq!(text(Value::F64(number)), number.to_string());
        }
        for number in [0, 9, 10, 99, 100, 101, u64::MAX] {
            assert_eq!(text(Value::U64(number)), number.to_string());
        }
        assert_eq!(text(Value::I64(i64::MIN)), i64::MIN.to_string());
    }

    #[test]
    fn rows_of_any_length_are_written_whole() {
        let long = "\"".repeat(FLUSH_BYTES * 2);
        let columns = ["a", "b"].map(|name| Column::new(name, crate::table::Kind::Text));
        let mut sink = CsvSink::new(Vec::new(), &columns).unwrap();
        for _ in 0..3 {
            sink.row(&[Value::Text(&long), Value::Null]).unwrap();
            sink.row(&[Value::Null, Value::Text("end")]).unwrap();
        }
        sink.row(&[]).unwrap();
        let row = format!("\"{}\",\n,end\n", "\"\"".repeat(FLUSH_BYTES * 2));
        assert_eq!(String::from_utf8(sink.finish().unwrap()).unwrap(), format!("a,b\n{}\n", row.repeat(3)));
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
