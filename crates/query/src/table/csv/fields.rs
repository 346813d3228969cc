//! Fields of CSV records. Pure.

use memchr::memchr;

/// A field without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) is_quoted: bool,
}

impl Field<'_> {
    /// Returns whether the field is null: empty and without quotes. `""` is an empty string.
    pub(super) fn is_null(&self) -> bool {
        self.bytes.is_empty() && !self.is_quoted
    }
}

/// Reads the fields of consecutive whole records. A record ends with `\n`, `\r\n`, `\r` or the text.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    text: &'a [u8],
    /// Offset of the next field.
    at: usize,
    /// The last field that had quotes within quotes, or bytes behind the closing quote.
    unescaped: Vec<u8>,
}

/// Bytes that end an unquoted field.
const ENDS_FIELD: [bool; 256] = {
    let mut ends = [false; 256];
    ends[b',' as usize] = true;
    ends[b'\n' as usize] = true;
    ends[b'\r' as usize] = true;
    ends
};

impl<'a> Fields<'a> {
    /// Reads from the start of `text`, which is the start of a record.
    pub(super) fn new(text: &'a [u8]) -> Fields<'a> {
        Fields { text, at: 0, unescaped: Vec::new() }
    }

    /// Offset of the next field.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Returns whether another record follows, if the last one was read to its end.
    pub(super) fn has_record(&self) -> bool {
        self.at < self.text.len()
    }

    /// Skips lines without bytes, at the start of a record.
    pub(super) fn skip_empty_lines(&mut self) {
        while matches!(self.text.get(self.at), Some(b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Reads the next field; also returns whether it ends its record.
    ///
    /// # Errors
    /// If the text ends within quotes.
    pub(super) fn next(&mut self) -> Result<(Field<'_>, bool), String> {
        if self.text.get(self.at) == Some(&b'"') {
            return self.quoted(self.at + 1);
        }
        let (text, start) = (self.text, self.at);
        let end = field_end(text, start);
        let ends_record = self.pass(end);
        Ok((Field { bytes: &text[start..end], is_quoted: false }, ends_record))
    }

    /// Reads a quoted field whose opening quote precedes `start`.
    fn quoted(&mut self, start: usize) -> Result<(Field<'_>, bool), String> {
        let text = self.text;
        let mut from = start;
        self.unescaped.clear();
        let quote = loop {
            let quote = memchr(b'"', &text[from..]).ok_or("a quoted field has no closing quote")? + from;
            if text.get(quote + 1) != Some(&b'"') {
                break quote;
            }
            self.unescaped.extend_from_slice(&text[from..=quote]);
            from = quote + 2;
        };
        // Bytes behind the closing quote belong to the value.
        let end = field_end(text, quote + 1);
        let ends_record = self.pass(end);
        let bytes = if from == start && end == quote + 1 {
            &text[start..quote]
        } else {
            self.unescaped.extend_from_slice(&text[from..quote]);
            self.unescaped.extend_from_slice(&text[quote + 1..end]);
            &self.unescaped
        };
        Ok((Field { bytes, is_quoted: true }, ends_record))
    }

    /// Goes behind the separator at `end`; returns whether it ends the record.
    fn pass(&mut self, end: usize) -> bool {
        let length = match self.text.get(end) {
            None => 0,
            Some(b'\r') if self.text.get(end + 1) == Some(&b'\n') => 2,
            Some(_) => 1,
        };
        self.at = end + length;
        self.text.get(end) != Some(&b',')
    }
}

/// Offset of the separator that ends an unquoted field, or of the end of the text.
fn field_end(text: &[u8], from: usize) -> usize {
    let length = text[from..].iter().position(|&byte| ENDS_FIELD[usize::from(byte)]);
    length.map_or(text.len(), |length| from + length)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_schema::{DataType, Field as ArrowField, Schema};
    use proptest::prelude::*;

    use super::*;

    /// All records, with `None` for nulls.
    fn records(text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let mut fields = Fields::new(text.as_bytes());
        let mut records = Vec::new();
        while fields.has_record() {
            let mut record = Vec::new();
            loop {
                let (field, ends_record) = fields.next()?;
                let value = String::from_utf8(field.bytes.to_vec()).unwrap();
                record.push((!field.is_null()).then_some(value));
                if ends_record {
                    break;
                }
            }
            records.push(record);
        }
        Ok(records)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn nulls_and_empty_strings_differ() {
        let expected = vec![vec![some("a"), None, some("")], vec![some(""), some("b"), None], vec![None]];
        assert_eq!(records("a,,\"\"\r\n\"\",b,\n\r").unwrap(), expected);
        assert_eq!(records("1,").unwrap(), [[some("1"), None]]);
        assert_eq!(records("a\n\"b").unwrap_err(), "a quoted field has no closing quote");
    }

    proptest! {
        #[test]
        fn fields_are_those_of_the_library(
            fields in prop::collection::vec("(\"([a,\n\r ]|\"\"){0,5}\"[ab]{0,2}|[a b][a\"b]{0,4})", 3..30),
            end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        ) {
            let lines: Vec<String> = fields.chunks_exact(3).map(|record| record.join(",") + end).collect();
            let text = lines.concat();
            let schema = Schema::new(["a", "b", "c"].map(|name| ArrowField::new(name, DataType::Utf8, true)).to_vec());
            let reader = arrow_csv::ReaderBuilder::new(schema.into()).build(text.as_bytes()).unwrap();
            let mut expected = Vec::new();
            for batch in reader {
                let batch = batch.unwrap();
                for row in 0..batch.num_rows() {
                    let value = |column: &arrow_array::ArrayRef| {
                        let texts = column.as_string::<i32>();
                        // The library returns empty strings as nulls.
                        if texts.is_null(row) { some("") } else { some(texts.value(row)) }
                    };
                    expected.push(batch.columns().iter().map(value).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(records(&text).unwrap(), expected);
        }
    }
}
