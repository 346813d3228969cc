//! Results as CSV (RFC 4180): a header, comma-separated fields, quotes where needed, and lines that end in `\n`.
//!
//! Nulls are empty fields, and empty strings are `""`, as in PostgreSQL's CSV: a row of one null is an empty line.
//! Integers, decimals and dates have their own fast formatting; other types use Arrow's display format.

mod format;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};

use crate::Error;
use crate::output::buffer::Buf;
use crate::output::plain::find_type;
use crate::output::sink::SharedSink;

use format::{Column, append_text};

/// Encodes rows as lines.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    header: Vec<String>,
}

impl Encoder {
    /// # Errors
    /// If CSV does not support the type of a column.
    pub(crate) fn new(schema: &Schema) -> Result<Encoder, Error> {
        if let Some((column, data_type)) = find_type(schema, is_refused) {
            return Err(Error::Query(format!(
                "column {column}: CSV cannot hold {data_type}; exclude it with --select, or write Parquet"
            )));
        }
        Ok(Encoder { header: schema.fields().iter().map(|field| field.name().clone()).collect() })
    }

    /// Appends the rows of the batches as lines.
    pub(crate) fn encode(&self, batches: &[RecordBatch], out: &mut Buf) -> Result<(), Error> {
        for batch in batches {
            let columns: Result<Vec<Column<'_>>, Error> = batch.columns().iter().map(Column::new).collect();
            let mut columns = columns?;
            for row in 0..batch.num_rows() {
                for column in &mut columns {
                    column.append(row, out)?;
                    out.push(b',');
                }
                end_line(out, columns.len());
            }
        }
        Ok(())
    }

    /// Writes the header.
    pub(crate) fn begin(&self, sink: &SharedSink) -> Result<(), Error> {
        let mut line = Buf::default();
        self.append_header(&mut line);
        sink.append(line.as_slice())
    }

    fn append_header(&self, out: &mut Buf) {
        for name in &self.header {
            append_text(out, name.as_bytes());
            out.push(b',');
        }
        end_line(out, self.header.len());
    }
}

/// Returns the bytes of a file with the rows of a batch.
///
/// # Errors
/// If CSV does not support the type of a column.
pub(crate) fn file_of(batch: &RecordBatch) -> Result<Vec<u8>, Error> {
    let (encoder, mut out) = (Encoder::new(&batch.schema())?, Buf::default());
    encoder.append_header(&mut out);
    encoder.encode(std::slice::from_ref(batch), &mut out)?;
    Ok(out.as_slice().to_vec())
}

fn is_refused(data_type: &DataType) -> bool {
    data_type.is_nested() && !matches!(data_type, DataType::RunEndEncoded(..))
}

/// Replaces the last comma by the line end.
fn end_line(line: &mut Buf, columns: usize) {
    line.truncate(line.len().saturating_sub(usize::from(columns > 0)));
    line.push(b'\n');
}

#[cfg(test)]
mod tests;
