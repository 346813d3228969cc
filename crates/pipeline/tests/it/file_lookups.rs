//! Look-ups in tables that stay in their files.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_stream::Settings;
use sakiyomi_testing::Scratch;

use crate::harness::{Written, lines, refused, run, run_on};

/// A pipeline that looks rows up by their `key`.
fn description(table: &Path, keys: &str) -> String {
    format!(
        "[source.in]\nfrom = \"stdin\"\nsplit = \",\"\nfields = [\"key\", \"n\"]\ncolumns = {{ n = \"int64\" }}\n\
         [[step]]\nop = \"lookup\"\nfile = \"{}\"\non = \"key = key\"\n{keys}\n[sink.out]\nto = \"stdout\"\nformat = \"csv\"\n",
        table.display()
    )
}

const ROWS: usize = 500;

/// A table with fields that have quotes, separators and line ends, records of very different lengths, and no line end
/// after the last.
fn table(scratch: &Scratch) -> std::path::PathBuf {
    let mut text = "name,\"key\",size\r\n".to_owned();
    for row in 0..ROWS {
        let name =
            ["plain", "\"a, b\"", "\"two\nlines\"", "\"say \"\"x\"\"\"", "", "\u{e9}\u{4e2d}"][row % 6];
        let filler = "x".repeat(row * 37 % 900);
        writeln!(text, "{name}{},k{row},{}", if name.ends_with('"') { "" } else { &filler }, row * row)
            .unwrap();
        if row % 50 == 7 {
            text.push('\n');
        }
    }
    scratch.file("table.csv", text.trim_end())
}

/// Keys of which two thirds are in the table, some of them often.
fn input(rows: usize) -> String {
    (0..rows).fold(String::new(), |mut text, row| {
        let key = if row % 5 == 0 { 3 } else { row * 7919 % (ROWS * 3 / 2) };
        writeln!(text, "{}k{key},{row}", if row % 97 == 0 { "-" } else { "" }).unwrap();
        text
    })
}

#[test]
fn rows_are_those_of_a_table_in_memory_in_any_placement_and_by_any_method() {
    let scratch = Scratch::new("pipeline_file_lookup");
    let csv = table(&scratch);
    let arrow = scratch.path("table.arrow");
    let convert = format!(
        "[source.in]\nfrom = \"file:{}\"\nformat = \"csv\"\nfields = [\"name\", \"key\", \"size\"]\nheader = false\n\
         [[step]]\nop = \"filter\"\nwhere = \"key <> 'key'\"\n[sink.out]\nto = \"file:{}\"\nformat = \"arrow\"\n",
        csv.display(),
        arrow.display()
    );
    run(&convert, Cursor::new(Vec::new())).unwrap();
    let input = input(2_000);
    for (table, columns) in [(&csv, "columns = { size = \"int64\" }"), (&arrow, "")] {
        for missing in ["null", "drop"] {
            let common = format!("{columns}\nmissing = \"{missing}\"");
            let expected = lines(&description(table, &common), &input);
            assert!(expected.len() > 10_000);
            for (worker, keys) in [
                "",
                "in_flight = 1",
                "in_flight = 7\nmethod = \"read\"",
                "method = \"pread:2\"\nin_flight = 300",
                "method = \"uring:8\"",
            ]
            .into_iter()
            .enumerate()
            {
                let keys = format!("{common}\ntable = \"file\"\n{keys}");
                let text = Cursor::new(input.clone().into_bytes());
                let ended = run_on(&description(table, &keys), text, |operator| (operator + worker) / 2 % 2);
                match ended {
                    Ok(ended) => assert_eq!(ended.written.text(), expected, "{keys}"),
                    // The directory of temporary files may be read-only or full.
                    Err(error) if error.to_string().contains("cannot copy the rows") => {
                        sakiyomi_testing::skipped(
                            "rows_are_those_of_a_table_in_memory (Arrow)",
                            "no temporary files",
                        );
                    }
                    // A sandbox may forbid it.
                    Err(error) => assert!(error.to_string().contains("io_uring"), "{error}\n{keys}"),
                }
            }
        }
    }
}

#[test]
fn a_table_that_is_read_around_the_page_cache_has_the_same_rows() {
    let scratch = Scratch::new("pipeline_direct_lookup");
    let (csv, input) = (table(&scratch), input(500));
    let expected = lines(&description(&csv, ""), &input);
    let keys = "table = \"file\"\ndirect = true";
    match Pipeline::parse(&description(&csv, keys), "direct.toml") {
        Ok(_) => assert_eq!(lines(&description(&csv, keys), &input), expected),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("direct I/O"), "{error}");
            sakiyomi_testing::skipped(
                "a_table_that_is_read_around_the_page_cache_has_the_same_rows",
                "the directory of tests has no direct I/O",
            );
        }
    }
}

#[test]
fn a_table_that_has_changed_since_its_index_was_made_is_noticed() {
    let scratch = Scratch::new("pipeline_changed_lookup");
    let before = "key,v\na,1\nb,22\nc,3\n";
    for (after, bad, expected) in [
        ("key,v\nb,1\na,22\nc,3\n", "stop", "has changed since its index was made: the row has another key"),
        ("key,v\n\"\",\nb,22\nc,3", "stop", "has changed since its index was made: the row has another key"),
        ("key,v\n", "stop", "shrank while it was read"),
        ("key,v\nb,1\na,22\nc,3\n", "skip", ""),
    ] {
        let csv = scratch.file("changed.csv", before);
        let keys = format!("table = \"file\"\nbad = \"{bad}\"");
        let pipeline = Pipeline::parse(&description(&csv, &keys), "changed.toml").unwrap();
        std::fs::write(&csv, after).unwrap();
        let written = Written::default();
        let input = Box::new(Cursor::new(b"a,1\nc,2\n".to_vec()));
        let standard = Standard { input: Some(input), output: Some(Box::new(written.clone())) };
        let (stream, run) = pipeline.build(standard).unwrap();
        stream.start(Settings::unpinned(1), &[0, 0, 0]).unwrap().finish().unwrap();
        match run.finish() {
            Ok(outcome) => {
                assert_eq!((bad, outcome.steps[0].1.bad), ("skip", 1));
                assert_eq!(written.text(), "key,n,v\nc,2,3\n");
            }
            Err(error) => {
                let error = error.to_string();
                assert!(bad == "stop" && error.contains(expected), "{error}");
            }
        }
    }
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    let scratch = Scratch::new("pipeline_file_lookup_refused");
    let csv = scratch.file("table.csv", "key,v\na,1\nb,2\n");
    let twice = scratch.file("twice.csv", "key,v\na,1\nb,2\na,3\n");
    let long = scratch.file("long.csv", format!("key,v\na,{}\n", "x".repeat(2 << 20)));
    let arrow = scratch.path("table.arrow");
    let write = format!(
        "[source.in]\nfrom = \"generator\"\nrows = 3\n[sink.out]\nto = \"file:{}\"\nformat = \"arrow\"\n",
        arrow.display()
    );
    lines(&write, "");
    for (table, keys, expected) in [
        (&csv, "in_flight = 3", "step.0.in_flight: it needs table = \"file\""),
        (&csv, "table = \"memory\"\ndirect = true", "step.0.direct: it needs table = \"file\""),
        (&csv, "table = \"file\"\nin_flight = 0", "0 is not a whole number of 1 or more"),
        (&csv, "table = \"file\"\nin_flight = 2000000", "2000000 is more than 1048576"),
        (
            &csv,
            "table = \"file\"\nmethod = \"mmap:4\"",
            "mmap does not read into buffers; write read, pread:N",
        ),
        (&csv, "table = \"file\"\nmethod = \"preads\"", "`preads` is not a method"),
        (&csv, "table = \"disk\"", "\"disk\" is unknown"),
        (&twice, "table = \"file\"", "two rows have the key Text(\"a\"); a look-up needs unique keys"),
        (&long, "table = \"file\"", "look-ups in the file read 1048576 at most; write table = \"memory\""),
        (&arrow, "table = \"file\"\ndirect = true\n", "write the table as CSV"),
    ] {
        let text = description(table, keys);
        let text = if table == &arrow { text.replace("key = key", "n = number") } else { text };
        let error = refused(&text);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_table_without_rows_has_no_key() {
    let scratch = Scratch::new("pipeline_empty_lookup");
    let csv = scratch.file("empty.csv", "key,v\n");
    assert_eq!(lines(&description(&csv, "table = \"file\""), "a,1\n"), "key,n,v\na,1,\n");
}
