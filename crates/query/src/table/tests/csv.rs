//! CSV: quotes, line ends and types, at any block boundary.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_csv::WriterBuilder;
use arrow_schema::DataType;
use proptest::prelude::*;

use super::*;
use crate::output::{Output, OutputOptions, Target};

fn types(table: &Table) -> Vec<DataType> {
    table.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn rows_are_whole_wherever_blocks_are_cut(
        texts in prop::collection::vec(prop::option::of("[ab,\"\n\r]{1,12}"), 1..40),
        repeat in 50usize..200,
        batch_rows in 100usize..9000,
        ends_with_line_end: bool,
    ) {
        let texts: Vec<Option<String>> = texts.iter().cycle().take(texts.len() * repeat).cloned().collect();
        let numbers = Int64Array::from_iter_values(0..texts.len() as i64);
        let columns: [(&str, ArrayRef); 2] =
            [("number", Arc::new(numbers)), ("te\"xt", Arc::new(StringArray::from(texts)))];
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, true))).unwrap();
        let mut bytes = Vec::new();
        WriterBuilder::new().with_header(true).build(&mut bytes).write(&batch).unwrap();
        if !ends_with_line_end {
            bytes.pop();
        }
        let scratch = Scratch::new("csv");
        let (table, job) = (open(scratch.file("t.csv", &bytes)).unwrap(), job(32 * MIB));
        let options = ScanOptions { batch_rows, block: 1, ..ScanOptions::new(vec![0, 1]) };
        prop_assert_eq!(rows(&table, &job, &options).unwrap(), batch.clone());
        let only = rows(&table, &job, &ScanOptions { columns: vec![1], ..options.clone() }).unwrap();
        prop_assert_eq!(only.column(0), batch.column(1));
        let none = rows(&table, &job, &ScanOptions { columns: vec![], ..options }).unwrap();
        prop_assert_eq!(none.num_rows(), batch.num_rows());
        let sample = table.sample(&job, &[1, 0], 50).unwrap();
        prop_assert_eq!(sample.num_columns(), 2);
        prop_assert!(sample.num_rows() > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn nulls_and_empty_strings_survive_a_result(
        records in prop::collection::vec((prop::option::of("[a,\"\n]{0,3}"), prop::option::of(any::<i64>())), 1..60),
        columns in prop::sample::select(vec![vec![0], vec![1], vec![0, 1]]),
    ) {
        // The first row makes the types those of the columns.
        let texts = StringArray::from_iter([Some("x")].into_iter().chain(records.iter().map(|row| row.0.as_deref())));
        let numbers = Int64Array::from_iter([Some(1)].into_iter().chain(records.iter().map(|row| row.1)));
        let both: [(&str, ArrayRef, bool); 2] = [("t", Arc::new(texts), true), ("n", Arc::new(numbers), true)];
        let written = RecordBatch::try_from_iter_with_nullable(both).unwrap().project(&columns).unwrap();
        let (scratch, job) = (Scratch::new("csv_nulls"), job(32 * MIB));
        let path = scratch.path("t.csv");
        let options = OutputOptions::new(Format::Csv);
        let mut output = Output::create(&job, &Target::File(path.clone()), &written.schema(), &options).unwrap();
        output.append(output.encoder().encode(std::slice::from_ref(&written)).unwrap()).unwrap();
        output.finish().unwrap();
        prop_assert_eq!(read(&path).unwrap(), written.clone());
        let table = open(&path).unwrap();
        let reversed: Vec<usize> = (0..columns.len()).rev().collect();
        let sample = table.sample(&job, &reversed, 1000).unwrap();
        let expected = written.project(&reversed).unwrap();
        prop_assert_eq!(sample.columns(), expected.columns());
    }
}

#[test]
fn an_empty_string_makes_a_column_of_texts_and_is_no_number_later() {
    let scratch = Scratch::new("csv_empty");
    let path = scratch.file("t", "a,b\n1,\"\"\n,2\n");
    assert_eq!(types(&open(&path).unwrap()), [DataType::Int64, DataType::Utf8]);
    let found = read(&path).unwrap();
    assert!(found.column(0).is_null(1) && found.column(1).is_valid(0));
    let late = format!("a\n{}\"\"\n", "1\n".repeat(600_000));
    let error = read(scratch.file("t", late)).unwrap_err().to_string();
    assert!(error.contains("'' in column a is not an integer without leading zeros"), "{error}");
    assert!(error.contains(": line 600002: "), "{error}");
}

#[test]
fn types_come_from_the_values() {
    let scratch = Scratch::new("csv_types");
    let text = "i,f,d,t,z,e,b\r\n1,1,1998-09-02,1998-09-02 01:02:03.5,007,,true\r\n-5,2.5,,,1,,FALSE\r\n";
    let path = scratch.file("t", text);
    let table = open(&path).unwrap();
    let names: Vec<String> = types(&table).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["Int64", "Float64", "Date32", "Timestamp(ms)", "Utf8", "Utf8", "Boolean"]);
    let found = read(&path).unwrap();
    assert_eq!(found.num_rows(), 2);
    assert!(found.column(2).is_null(1) && found.column(5).is_null(0));
    assert_eq!(found.column(0).as_primitive::<Int64Type>().values(), &[1, -5]);
}

#[test]
fn files_with_a_byte_order_mark_and_without_records() {
    let scratch = Scratch::new("csv_mark");
    let path = scratch.file("t.csv", "\u{feff}a,b\n");
    let table = open(&path).unwrap();
    assert_eq!(table.schema().field(0).name(), "a");
    assert_eq!(read(&path).unwrap().num_rows(), 0);
    let path = scratch.file("u.csv", "a,b");
    assert_eq!(read(&path).unwrap().num_rows(), 0);
    let job = job(32 * MIB);
    assert_eq!(open(&path).unwrap().sample(&job, &[0], 5).unwrap().num_rows(), 0);
}

#[test]
fn several_files_have_types_that_hold_all() {
    let scratch = Scratch::new("csv_several");
    scratch.file("1.csv", "a\n1\n");
    scratch.file("2.csv", "a\n2.5");
    scratch.file(".hidden", "no table");
    let table = open(scratch.root()).unwrap();
    assert_eq!(types(&table), [DataType::Float64]);
    assert_eq!(read(scratch.root()).unwrap().num_rows(), 2);
    scratch.file("3.csv", "b\n1");
    let error = open(scratch.root()).unwrap_err().to_string();
    assert!(error.ends_with("3.csv: column 1 is b, and a in the first file"), "{error}");
}

#[test]
fn invalid_csv_is_refused_in_one_sentence() {
    let scratch = Scratch::new("csv_bad");
    for (text, expected) in [
        ("", "no header"),
        ("\n\n", "no header"),
        ("a,b\n1\n", "line 2: the record has 1 fields, fewer than the header, which has 2"),
        ("a,b\n\"1\n\",2\n1,2,3,4\n", "line 4: the record has 4 fields, more than the header"),
        ("a,b\n1,\"2\n", "no closing quote"),
        ("a,b\r1,2\r", "carriage returns"),
        ("a\n\u{0}", "neither Parquet, nor Arrow IPC, nor text"),
    ] {
        let path = scratch.file("t", text);
        let error = open(&path).and_then(|_| read(&path)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(path.to_str().unwrap()), "{error}");
    }
    let late = format!("a\n{}x\n", "1\n".repeat(600_000));
    let error = read(scratch.file("t", late)).unwrap_err().to_string();
    assert!(error.contains("first MiB") && error.contains('x'), "{error}");
    let long = format!("a{}", "b".repeat(2 << 20));
    let error = open(scratch.file("t", long)).unwrap_err().to_string();
    assert!(error.contains("longer than 1 MiB"), "{error}");
}

#[test]
fn identifiers_beside_numbers_with_a_point_stay_distinct() {
    let scratch = Scratch::new("csv_identifiers");
    let path = scratch.file("t", "a,b\n9007199254740993,9007199254740993\n9007199254740992,1\n0.5,2\n");
    assert_eq!(types(&open(&path).unwrap()), [DataType::Utf8, DataType::Int64]);
    assert_eq!(read(&path).unwrap().column(0).as_string::<i32>().value(0), "9007199254740993");
    let path = scratch.file("t", "a,b,c\n1e400,0.10,0.1234567890123456789\n0.5,1,2\n");
    assert_eq!(types(&open(&path).unwrap()), [DataType::Utf8, DataType::Float64, DataType::Float64]);
}

#[test]
fn values_behind_the_first_mebibyte_lose_nothing() {
    let scratch = Scratch::new("csv_late");
    for (first, late) in [
        ("10115", "01067"),
        ("10115", "+5"),
        ("10115", " 5"),
        ("7.5", "007.5"),
        ("7.5", "12345678901234567890"),
        ("7.5", "9007199254740993"),
        ("7.5", "1e400"),
        ("2024-01-01", "2024-01-01 12:00:00"),
        ("2024-01-01 12:00:00", "2024-01-01 12:00:00.750"),
        ("2024-01-01 12:00:00.750", "2024-01-01 12:00:00.000999"),
        ("2024-01-01 12:00:00", "2024-01-01T00:30:00+02:00"),
    ] {
        let text = format!("a\n{}{late}\n", format!("{first}\n").repeat((1 << 20) / first.len()));
        let error = read(scratch.file("t", text)).unwrap_err().to_string();
        assert!(error.contains("first MiB") && error.contains(late), "{first}, {late}: {error}");
    }
    let text = format!("a,b\n{}1.5,2024-01-01\n,\n", "1.5,2024-01-01 12:00:00\n".repeat(50_000));
    assert_eq!(read(scratch.file("t", text)).unwrap().num_rows(), 50_002);
}

#[test]
fn a_record_that_is_larger_than_the_memory_is_refused() {
    let scratch = Scratch::new("csv_large");
    let path = scratch.file("t.csv", format!("a,b\n1,\"{}\"\n2,3\n", "x\n".repeat(8 << 20)));
    let (table, small) = (open(&path).unwrap(), job(16 * MIB));
    let options = ScanOptions { memory: 4 * MIB, ..ScanOptions::new(vec![0, 1]) };
    let error = rows(&table, &small, &options).unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    assert_eq!(rows(&table, &job(256 * MIB), &options).unwrap().num_rows(), 2);
}

#[test]
fn halves_of_a_character_are_not_values() {
    let scratch = Scratch::new("csv_halves");
    // Together, the values are UTF-8.
    let text = b"a,b\n\xc3,\xbc\n";
    let error = read(scratch.file("t.csv", text)).unwrap_err().to_string();
    assert!(error.ends_with("byte 4 is not UTF-8; convert the file to UTF-8, such as by iconv"), "{error}");
    // After the records from which types are inferred, and after the sample's first section.
    let text = [&b"a,b\n"[..], &b"x,y\n".repeat(300_000), b"\xc3,\xbc\n"].concat();
    let path = scratch.file("long.csv", &text);
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("byte 1200004 is not UTF-8"), "{error}");
    let sample = open(&path).unwrap().sample(&job(32 * MIB), &[0, 1], 100_000).unwrap();
    assert!(sample.columns().iter().all(|column| column.to_data().validate_full().is_ok()));
}
