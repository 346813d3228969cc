//! Records from columns in memory: those of the [`sakiyomi`](crate::Format::Sakiyomi) format, by their names.

use crate::error::TraceError;
use crate::format::sakiyomi::{Field, blank, set_number, set_text};
use crate::record::{Record, check};

/// The values of a column, one per row.
#[derive(Clone, Copy, Debug)]
pub enum ColumnValues<'a> {
    /// Numbers. A truth is 0 or 1.
    Numbers(&'a [Option<i128>]),
    /// Text in UTF-8.
    Texts(&'a [Option<&'a [u8]>]),
}

impl ColumnValues<'_> {
    fn rows(&self) -> usize {
        match self {
            ColumnValues::Numbers(values) => values.len(),
            ColumnValues::Texts(values) => values.len(),
        }
    }
}

/// The names of the columns that [`records_of_columns`] takes, and whether each one is text.
pub fn column_names() -> impl Iterator<Item = (&'static str, bool)> {
    Field::ALL.into_iter().map(|field| (field.name(), field.is_text()))
}

/// Makes records of the columns of a table, which are those of sakiyomi's CSV: `op`, `offset_bytes` and `length_bytes`
/// are required, a value that is missing elsewhere means unknown or zero, and columns with other names are ignored.
/// `table` names the table in errors; `first_row` is the number of the first row, from 1.
///
/// # Errors
/// If a column is missing or of the wrong type, or a value is not valid in it; the error names the row.
pub fn records_of_columns(
    table: &str,
    first_row: u64,
    columns: &[(&str, ColumnValues<'_>)],
) -> Result<Vec<Record>, TraceError> {
    let refuse = |problem| TraceError::Unrecognized { path: table.to_owned(), problem };
    let rows = columns.iter().map(|(_, values)| values.rows()).max().unwrap_or(0);
    let mut records = vec![blank(); rows];
    for (record, line) in records.iter_mut().zip(first_row..) {
        record.line = line;
    }
    for field in Field::ALL {
        let mut found = columns.iter().filter(|(name, _)| *name == field.name());
        let Some((name, values)) = found.next() else {
            if field.is_required() {
                return Err(refuse(format!("it has no column {}", field.name())));
            }
            continue;
        };
        if found.next().is_some() {
            return Err(refuse(format!("it has the column {name} twice")));
        }
        if values.rows() != rows {
            return Err(refuse(format!("its column {name} has {} of {rows} rows", values.rows())));
        }
        for (row, record) in records.iter_mut().enumerate() {
            set(record, field, *values, row).map_err(|problem| match problem {
                Wrong::Type => refuse(format!("its column {name} is of a type that cannot hold it")),
                Wrong::Value(problem) => {
                    TraceError::Line { path: table.to_owned(), line: record.line, problem }
                }
            })?;
        }
    }
    for record in &records {
        let problem = check(record).err();
        problem.map_or(Ok(()), |problem| {
            Err(TraceError::Line { path: table.to_owned(), line: record.line, problem })
        })?;
    }
    Ok(records)
}

/// Why a value cannot be stored.
enum Wrong {
    /// The column is of another type.
    Type,
    Value(String),
}

fn set(record: &mut Record, field: Field, values: ColumnValues<'_>, row: usize) -> Result<(), Wrong> {
    let name = field.name();
    let set = match values {
        ColumnValues::Texts(texts) if field.is_text() => texts[row].map(|text| set_text(record, field, text)),
        ColumnValues::Numbers(numbers) if !field.is_text() => numbers[row].map(|number| {
            let number = u64::try_from(number).map_err(|_| {
                format!("the column {name} holds {number}, but must be a whole number from 0 to 2^64 - 1")
            })?;
            set_number(record, field, number)
        }),
        // A column in which no row has a value may be of any type.
        ColumnValues::Texts(texts) if texts[row].is_none() => None,
        ColumnValues::Numbers(numbers) if numbers[row].is_none() => None,
        _ => return Err(Wrong::Type),
    };
    match set {
        Some(set) => set.map_err(Wrong::Value),
        None if field.is_required() => Err(Wrong::Value(format!("the column {name} has no value"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, Trace};
    use sakiyomi_model::{Bytes, Nanos, Op};

    const OPS: &[Option<&[u8]>] = &[Some(b"read"), Some(b"write")];

    fn of(columns: &[(&str, ColumnValues<'_>)]) -> Result<Vec<Record>, String> {
        records_of_columns("t", 1, columns).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_those_of_the_csv_and_the_trace_is_the_same() {
        let (offset, length) = ([Some(4096), Some(0)], [Some(512), Some(1024)]);
        let times = [Some(7), Some(3)];
        let records = of(&[
            ("note", ColumnValues::Numbers(&[None, None])),
            ("length_bytes", ColumnValues::Numbers(&length)),
            ("op", ColumnValues::Texts(OPS)),
            ("time_ns", ColumnValues::Numbers(&times)),
            ("offset_bytes", ColumnValues::Numbers(&offset)),
            ("label", ColumnValues::Numbers(&[None, None])),
        ])
        .unwrap();
        let first = Record { line: 1, ..Record::new(Nanos(7), Op::Read, Bytes(4096), Bytes(512)) };
        assert_eq!((records[0], records[1].line, records.len()), (first, 2, 2));
        let text = "time_ns,op,offset_bytes,length_bytes\n7,read,4096,512\n3,write,0,1024\n";
        let options = ReadOptions::default();
        let own = Trace::from_records(records.into(), "t", &options).unwrap();
        let of_csv = Trace::from_reader(text.as_bytes(), "t", &options).unwrap();
        let bare = |record: Result<Record, TraceError>| Record { line: 0, ..record.unwrap() };
        assert!(own.map(bare).eq(of_csv.map(bare)), "in order of time, from zero");
    }

    #[test]
    fn what_is_not_a_trace_is_refused_with_its_row() {
        let numbers = [Some(1), Some(1)];
        let numbers = ColumnValues::Numbers(&numbers);
        let with = |name, values| {
            of(&[
                ("op", ColumnValues::Texts(OPS)),
                ("offset_bytes", numbers),
                ("length_bytes", numbers),
                (name, values),
            ])
        };
        assert!(with("fua", numbers).is_ok());
        assert!(of(&[("op", ColumnValues::Texts(OPS))]).unwrap_err().contains("no column offset_bytes"));
        assert!(with("op", numbers).unwrap_err().contains("the column op twice"));
        assert!(with("label", numbers).unwrap_err().contains("label is of a type"));
        assert!(with("time_ns", ColumnValues::Texts(OPS)).unwrap_err().contains("time_ns is of a type"));
        assert!(with("time_ns", ColumnValues::Numbers(&[])).unwrap_err().contains("0 of 2 rows"));
        let negative = with("time_ns", ColumnValues::Numbers(&[Some(1), Some(-1)])).unwrap_err();
        assert!(negative.contains("t:2: the column time_ns holds -1"), "{negative}");
        let large = with("device", ColumnValues::Numbers(&[Some(1 << 32), None])).unwrap_err();
        assert!(large.contains("below 2^32"), "{large}");
        let missing = of(&[
            ("op", ColumnValues::Texts(&[Some(b"read"), None])),
            ("offset_bytes", numbers),
            ("length_bytes", numbers),
        ]);
        assert_eq!(missing.unwrap_err(), "t:2: the column op has no value");
        let empty = of(&[
            ("op", ColumnValues::Texts(OPS)),
            ("offset_bytes", numbers),
            ("length_bytes", ColumnValues::Numbers(&[Some(1), Some(0)])),
        ]);
        assert!(empty.unwrap_err().contains("t:2: the write has no length"));
    }
}
