//! Outputs that end, fail or are slow.

use std::io::{self, Cursor, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sakiyomi_pipeline::{Error, Pipeline, Standard};
use sakiyomi_stream::Settings;
use sakiyomi_testing::Scratch;

use crate::harness::{lines, run};

/// An output that fails after some bytes.
struct Fails {
    left: usize,
    kind: ErrorKind,
}

impl Write for Fails {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(self.kind)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run_with_output(output: impl Write + Send + 'static, is_resumable: bool) -> Result<(), Error> {
    let description = "[source.in]\nfrom = \"generator\"\n[sink.out]\nto = \"stdout\"\n";
    let pipeline = Pipeline::parse(description, "endless.toml")?;
    let standard = Standard { input: None, output: Some(Box::new(output)) };
    let (stream, run) = match is_resumable {
        true => pipeline.build_resumable(standard, None)?,
        false => pipeline.build(standard)?,
    };
    stream.start(Settings::unpinned(1), &[0, 0])?.finish()?;
    run.finish().map(drop)
}

#[test]
fn a_reader_that_has_enough_ends_an_endless_pipeline_without_an_error() {
    run_with_output(Fails { left: 1000, kind: ErrorKind::BrokenPipe }, false).unwrap();
}

#[test]
fn a_reader_that_closes_its_end_fails_a_pipeline_that_is_to_be_resumed() {
    let ended = run_with_output(Fails { left: 1000, kind: ErrorKind::BrokenPipe }, true);
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("sink.out: cannot write the standard output: "), "{error}");
}

#[test]
fn a_socket_whose_reader_closes_its_end_fails_the_pipeline() {
    let scratch = Scratch::new("pipeline_closed_socket");
    let path = scratch.path("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let description =
        format!("[source.in]\nfrom = \"generator\"\n[sink.out]\nto = \"unix:{}\"\n", path.display());
    let pipeline = Pipeline::parse(&description, "closed.toml").unwrap();
    let (stream, run) = pipeline.build(Standard::default()).unwrap();
    drop(listener.accept().unwrap());
    stream.start(Settings::unpinned(1), &[0, 0]).unwrap().finish().unwrap();
    let error = run.finish().unwrap_err().to_string();
    assert!(error.starts_with("sink.out: cannot write "), "{error}");
}

#[test]
fn an_output_that_fails_ends_the_pipeline_with_its_error() {
    let Err(error) = run_with_output(Fails { left: 1000, kind: ErrorKind::StorageFull }, false) else {
        panic!()
    };
    assert!(error.to_string().starts_with("sink.out: cannot write the standard output: "), "{error}");
}

/// An output that counts, and takes its time.
struct Slow(Arc<AtomicU64>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::thread::sleep(std::time::Duration::from_millis(2));
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_output_holds_the_sources_back_and_loses_nothing() {
    let line = "x".repeat(99);
    let input: String = (0..200_000).map(|_| format!("{line}\n")).collect();
    let description = "[source.in]\nfrom = \"stdin\"\n[sink.out]\nto = \"stdout\"\n";
    let pipeline = Pipeline::parse(description, "slow.toml").unwrap();
    let written = Arc::new(AtomicU64::new(0));
    let standard = Standard {
        input: Some(Box::new(Cursor::new(input.into_bytes()))),
        output: Some(Box::new(Slow(Arc::clone(&written)))),
    };
    let (stream, run) = pipeline.build(standard).unwrap();
    stream.start(Settings::unpinned(1), &[0, 0]).unwrap().finish().unwrap();
    run.finish().unwrap();
    assert_eq!(written.load(Ordering::Relaxed), 20_000_000);
}

#[test]
fn an_output_with_several_consumers_gives_each_all_rows() {
    let description = "[source.in]\nfrom = \"stdin\"\nsplit = \",\"\ncolumns = { n = \"int64\" }\n\
                       [[step]]\nname = \"odd\"\nop = \"filter\"\nwhere = \"n % 2 = 1\"\n\
                       [[step]]\nname = \"large\"\ninput = \"in\"\nop = \"filter\"\nwhere = \"n > 3\"\n\
                       [sink.odd]\ninput = \"odd\"\nto = \"discard\"\n\
                       [sink.all]\ninput = \"in\"\nto = \"discard\"\n\
                       [sink.out]\ninput = \"large\"\nto = \"stdout\"\n";
    let ended = run(description, Cursor::new(b"1\n2\n3\n4\n5\n".to_vec())).unwrap();
    assert_eq!(ended.written.text(), "4\n5\n");
    let taken = |name: &str| ended.report.operators.iter().find(|one| one.name == name).unwrap().tuples_in;
    assert_eq!((taken("sink.odd"), taken("sink.all"), taken("sink.out")), (3, 5, 2));
    assert_eq!(ended.report.operators.iter().filter(|one| one.name == "source.in.split").count(), 2);
}

#[test]
fn a_generator_makes_the_same_rows_each_time() {
    let description = "[source.in]\nfrom = \"generator\"\nrows = 500\nkeys = 3\nseed = 7\nrate = \"1M\"\n\
                       [sink.out]\nto = \"stdout\"\nformat = \"csv\"\n";
    let first = lines(description, "");
    assert_eq!(first, lines(description, ""));
    assert_eq!(first.lines().count(), 501);
    assert!(first.starts_with("number,key,value,time\n0,"), "{first}");
}
