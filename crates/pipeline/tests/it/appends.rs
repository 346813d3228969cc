//! Rows that are appended to a file in the middle of a pipeline.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_stream::Settings;
use sakiyomi_testing::Scratch;

use crate::harness::{refused, run};

fn description(file: &Path, keys: &str) -> String {
    format!(
        "[source.in]\nfrom = \"generator\"\nrows = 5000\n[[step]]\nop = \"select\"\ncolumns = \"number\"\n\
         [[step]]\nop = \"append\"\nfile = \"{}\"\n{keys}\n[sink.out]\nto = \"stdout\"\n",
        file.display()
    )
}

fn numbers() -> String {
    (0..5_000).map(|number| format!("{number}\n")).collect()
}

/// Counts the rows that it is given before they are in a file.
struct Behind {
    file: PathBuf,
    rows: usize,
    too_early: Arc<AtomicUsize>,
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let lines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.rows += lines(bytes);
        let written = lines(&std::fs::read(&self.file)?);
        self.too_early.fetch_add(self.rows.saturating_sub(written), Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn rows_that_pass_when_they_are_written_are_in_the_file_before_they_come_out() {
    let scratch = Scratch::new("pipeline_append_written");
    for (name, keys) in [
        ("usual", "pass = \"written\""),
        ("one", "pass = \"written\"\nin_flight = 1"),
        ("few", "pass = \"written\"\nin_flight = 100"),
    ] {
        let file = scratch.path(name);
        let pipeline = Pipeline::parse(&description(&file, keys), "append.toml").unwrap();
        let too_early = Arc::<AtomicUsize>::default();
        let output = Behind { file: file.clone(), rows: 0, too_early: Arc::clone(&too_early) };
        let standard = Standard { input: None, output: Some(Box::new(output)) };
        let (stream, run) = pipeline.build(standard).unwrap();
        let running = stream.start(Settings::unpinned(2), &[0, 0, 1, 1]).unwrap();
        let report = running.finish().unwrap();
        run.finish().unwrap();
        assert_eq!(report.operators[3].tuples_in, 5_000);
        assert_eq!(too_early.load(Ordering::Relaxed), 0, "{name}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), numbers());
    }
}

#[test]
fn rows_that_pass_at_once_are_those_of_the_file_at_the_end() {
    let scratch = Scratch::new("pipeline_append_at_once");
    let file = scratch.path("rows");
    let ended = run(&description(&file, "pass = \"at once\""), Cursor::new(Vec::new())).unwrap();
    assert_eq!(ended.written.text(), numbers());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), numbers());
}

#[test]
fn rows_that_cannot_be_written_do_not_pass_and_end_the_pipeline() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return sakiyomi_testing::skipped(
            "rows_that_cannot_be_written_do_not_pass_and_end_the_pipeline",
            "/dev/full is missing",
        );
    }
    let pipeline = Pipeline::parse(&description(full, "pass = \"written\""), "full.toml").unwrap();
    let standard = Standard { input: None, output: Some(Box::new(std::io::sink())) };
    let (stream, run) = pipeline.build(standard).unwrap();
    let report = stream.start(Settings::unpinned(1), &[0; 4]).unwrap().finish().unwrap();
    assert_eq!(report.operators[3].tuples_in, 0);
    let error = run.finish().unwrap_err().to_string();
    assert!(error.contains("cannot write /dev/full"), "{error}");
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    for (keys, expected) in [
        ("in_flight = 3", "step.1.in_flight: it needs pass = \"written\""),
        ("pass = \"later\"", "\"later\" is unknown"),
        ("pass = \"at once\"\nin_flight = 3", "it needs pass = \"written\""),
    ] {
        let error = refused(&description(Path::new("rows"), keys));
        assert!(error.contains(expected), "{error}");
    }
}
