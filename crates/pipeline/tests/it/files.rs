//! Files and tails.

use std::fs;
use std::io::{Cursor, Write};
use std::time::Duration;

use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_stream::Settings;
use sakiyomi_testing::Scratch;

use crate::harness::{Written, lines, run, run_on};

#[test]
fn a_file_is_read_whole_and_a_file_appears_at_the_end() {
    let scratch = Scratch::new("pipeline_files");
    let numbers: String = (0..100_000).map(|number| format!("{number},{}\n", number % 7)).collect();
    let input = scratch.file("in.csv", &numbers);
    let output = scratch.path("out.csv");
    let description = format!(
        "[source.in]\nfrom = \"file:{}\"\nformat = \"csv\"\nfields = [\"n\", \"m\"]\n\
         columns = {{ n = \"int64\", m = \"int64\" }}\n\
         [[step]]\nop = \"filter\"\nwhere = \"m = 3\"\n\
         [sink.out]\nto = \"file:{}\"\nformat = \"csv\"\nheader = false\n",
        input.display(),
        output.display()
    );
    for worker in 0..2 {
        let ended = run_on(&description, Cursor::new(Vec::new()), |operator| operator.min(worker)).unwrap();
        let expected: String = (0..100_000).filter(|n| n % 7 == 3).map(|n| format!("{n},3\n")).collect();
        assert_eq!(fs::read_to_string(&output).unwrap(), expected);
        assert_eq!(ended.report.operators[0].tuples_out, 100_000);
        fs::remove_file(&output).unwrap();
    }
}

#[test]
fn no_file_appears_if_the_pipeline_fails() {
    let scratch = Scratch::new("pipeline_fails");
    let output = scratch.path("out");
    let description = format!(
        "[source.in]\nfrom = \"stdin\"\nsplit = \",\"\ncolumns = {{ n = \"int64\" }}\n[sink.out]\nto = \"file:{}\"\n",
        output.display()
    );
    assert!(run(&description, Cursor::new(b"1\nx\n".to_vec())).is_err());
    assert_eq!(scratch.entries(), 0);
    run(&description, Cursor::new(b"1\n2\n".to_vec())).unwrap();
    assert_eq!(fs::read_to_string(&output).unwrap(), "1\n2\n");
}

#[test]
fn a_step_appends_to_a_file_and_passes_its_rows() {
    let scratch = Scratch::new("pipeline_append");
    let file = scratch.path("all.csv");
    let description = format!(
        "[source.in]\nfrom = \"stdin\"\n[[step]]\nop = \"append\"\nfile = \"{}\"\nformat = \"csv\"\n\
         [[step]]\nop = \"filter\"\nwhere = \"line <> 'b'\"\n[sink.out]\nto = \"stdout\"\n",
        file.display()
    );
    assert_eq!(lines(&description, "a\nb\n"), "a\n");
    assert_eq!(lines(&description, "c\n"), "c\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "line\na\nb\nc\n");
}

#[test]
fn rows_are_not_appended_to_a_line_that_was_cut_off() {
    let scratch = Scratch::new("pipeline_torn");
    let description = |file: &std::path::Path| {
        format!(
            "[source.in]\nfrom = \"stdin\"\n[sink.out]\nto = \"file:{}\"\nformat = \"csv\"\nappend = true\n",
            file.display()
        )
    };
    let cases =
        [("", "line\na\n"), ("line\nb\n", "line\nb\na\n"), ("line\nb", "line\nb\na\n"), ("\n", "\na\n")];
    for (before, after) in cases {
        let file = scratch.file("rows.csv", before);
        lines(&description(&file), "a\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), after);
    }
}

#[test]
fn a_missing_file_is_an_error_that_names_it() {
    let description = "[source.in]\nfrom = \"file:/does/not/exist\"\n[sink.out]\nto = \"discard\"\n";
    let Err(error) = run(description, Cursor::new(Vec::new())) else { panic!() };
    assert!(error.to_string().starts_with("source.in: cannot open /does/not/exist: No such file"), "{error}");
}

#[test]
fn a_tail_is_followed_until_the_pipeline_is_stopped() {
    let scratch = Scratch::new("pipeline_tail");
    let log = scratch.file("log", "first\n");
    let description = format!(
        "[source.in]\nfrom = \"tail:{}\"\nstart = \"beginning\"\n[sink.out]\nto = \"stdout\"\n",
        log.display()
    );
    let pipeline = Pipeline::parse(&description, "tail.toml").unwrap();
    let written = Written::default();
    let (stream, run) =
        pipeline.build(Standard { input: None, output: Some(Box::new(written.clone())) }).unwrap();
    let running = stream.start(Settings::unpinned(1), &[0, 0]).unwrap();
    let wait_for = |text: &str| {
        while written.text() != text {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for("first\n");
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"second\n").unwrap();
    wait_for("first\nsecond\n");
    fs::rename(&log, scratch.path("log.1")).unwrap();
    fs::write(&log, "third\n").unwrap();
    wait_for("first\nsecond\nthird\n");
    assert!(pipeline.losses().all(|loss| loss.starts_with("sink.out: ")));
    run.stop();
    running.finish().unwrap();
    run.finish().unwrap();
}

#[test]
fn arrow_files_are_read_by_their_own_columns() {
    let scratch = Scratch::new("pipeline_arrow");
    let file = scratch.path("rows.arrow");
    let write = format!(
        "[source.in]\nfrom = \"generator\"\nrows = 1000\nkeys = 10\n[sink.out]\nto = \"file:{}\"\nformat = \"arrow\"\n",
        file.display()
    );
    lines(&write, "");
    assert_eq!(Pipeline::parse(&write, "write.toml").unwrap().losses().count(), 0);
    let read = format!(
        "[source.in]\nfrom = \"file:{}\"\nformat = \"arrow\"\n[[step]]\nop = \"filter\"\n\
         where = \"number % 100 = 1 and key < 10 and value < 1 and time >= timestamp '1970-01-01'\"\n\
         [[step]]\nop = \"select\"\ncolumns = \"number\"\n[sink.out]\nto = \"stdout\"\n",
        file.display()
    );
    assert_eq!(lines(&read, ""), "1\n101\n201\n301\n401\n501\n601\n701\n801\n901\n");
}

#[test]
fn a_window_of_a_quiet_tail_ends_after_its_idle_time() {
    let scratch = Scratch::new("pipeline_idle");
    let log = scratch.file("log", "1000,a\n2500,b\n");
    let description = format!(
        "[source.in]\nfrom = \"tail:{}\"\nstart = \"beginning\"\nsplit = \",\"\nfields = [\"t\", \"k\"]\n\
         columns = {{ t = \"timestamp(ms)\" }}\nevent_time = \"t\"\nidle = \"20ms\"\n\
         [[step]]\nop = \"aggregate\"\nby = \"k\"\nwindow = \"tumbling:1s\"\ncompute = \"count(*) AS n\"\n\
         [[step]]\nop = \"select\"\ncolumns = \"k, n\"\n[sink.out]\nto = \"stdout\"\n",
        log.display()
    );
    let written = Written::default();
    let standard = Standard { input: None, output: Some(Box::new(written.clone())) };
    let (stream, run) = Pipeline::parse(&description, "idle.toml").unwrap().build(standard).unwrap();
    let running = stream.start(Settings::unpinned(1), &[0; 4]).unwrap();
    while written.text() != "a\t1\nb\t1\n" {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.stop();
    running.finish().unwrap();
    run.finish().unwrap();
}
