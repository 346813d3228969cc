//! Sockets on this machine.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_stream::Settings;
use sakiyomi_testing::{Scratch, skipped};

use crate::harness::{Written, run};

/// A listener on this machine; says for `test` that there is none where the network has no loopback. An address can be
/// bound there while its device is down.
fn local(test: &str) -> Option<TcpListener> {
    let reached = TcpListener::bind("127.0.0.1:0").and_then(|tried| {
        TcpStream::connect(tried.local_addr()?)?;
        TcpListener::bind("127.0.0.1:0")
    });
    reached.map_err(|error| skipped(test, format_args!("127.0.0.1 cannot be reached: {error}"))).ok()
}

#[test]
fn records_come_from_one_socket_and_go_to_another() {
    let scratch = Scratch::new("pipeline_sockets");
    let from = scratch.path("from");
    let Some(to) = local("records_come_from_one_socket_and_go_to_another") else { return };
    let sender = UnixListener::bind(&from).unwrap();
    let description = format!(
        "[source.in]\nfrom = \"unix:{}\"\n[sink.out]\nto = \"tcp:{}\"\n",
        from.display(),
        to.local_addr().unwrap()
    );
    let pipeline = Pipeline::parse(&description, "sockets.toml").unwrap();
    let (stream, run) = pipeline.build(Standard::default()).unwrap();
    let receiver = std::thread::spawn(move || {
        let mut text = String::new();
        to.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    let running = stream.start(Settings::unpinned(1), &[0, 0]).unwrap();
    let mut connection = sender.accept().unwrap().0;
    connection.write_all(b"one\ntwo\nthr").unwrap();
    connection.write_all(b"ee\n").unwrap();
    drop(connection);
    running.finish().unwrap();
    run.finish().unwrap();
    assert_eq!(receiver.join().unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn a_source_that_listens_takes_records_from_all_connections_until_it_is_stopped() {
    let scratch = Scratch::new("pipeline_listen");
    let path = scratch.path("socket");
    let description = format!(
        "[source.in]\nfrom = \"unix:{}\"\nlisten = true\n[sink.out]\nto = \"stdout\"\n",
        path.display()
    );
    let pipeline = Pipeline::parse(&description, "listen.toml").unwrap();
    let written = Written::default();
    let (stream, run) =
        pipeline.build(Standard { input: None, output: Some(Box::new(written.clone())) }).unwrap();
    let running = stream.start(Settings::unpinned(1), &[0, 0]).unwrap();
    let mut open = UnixStream::connect(&path).unwrap();
    open.write_all(b"a\n").unwrap();
    UnixStream::connect(&path).unwrap().write_all(b"b\nlast without an end").unwrap();
    while written.text().lines().count() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut lines: Vec<String> = written.text().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a", "b", "last without an end"]);
    run.stop();
    running.finish().unwrap();
    run.finish().unwrap();
}

#[test]
fn nobody_who_listens_is_an_error() {
    let Some(listener) = local("nobody_who_listens_is_an_error") else { return };
    let free = listener.local_addr().unwrap();
    drop(listener);
    assert!(TcpStream::connect(free).is_err());
    let description = format!("[source.in]\nfrom = \"tcp:{free}\"\n[sink.out]\nto = \"discard\"\n");
    let Err(error) = Pipeline::parse(&description, "nobody.toml").unwrap().build(Standard::default()) else {
        panic!()
    };
    assert!(error.to_string().starts_with(&format!("source.in: cannot open {free}: ")), "{error}");
}

/// More than the time after which a read of a socket ends without bytes.
const PAUSE: Duration = Duration::from_millis(250);

/// An Arrow stream from a socket: a pipeline and the other end of its connection.
fn arrow_from(scratch: &Scratch) -> (Pipeline, UnixListener) {
    let path = scratch.path("from");
    let listener = UnixListener::bind(&path).unwrap();
    let description = format!(
        "[source.in]\nfrom = \"unix:{}\"\nformat = \"arrow\"\ncolumns = {{ number = \"int64\" }}\n\
         [sink.out]\nto = \"stdout\"\n",
        path.display()
    );
    (Pipeline::parse(&description, "arrow.toml").unwrap(), listener)
}

#[test]
fn a_stream_of_arrow_may_pause_anywhere() {
    let rows =
        "[source.in]\nfrom = \"generator\"\nrows = 3\n[sink.out]\nto = \"stdout\"\nformat = \"arrow\"\n";
    let bytes = run(rows, std::io::empty()).unwrap().written.bytes();
    let scratch = Scratch::new("pipeline_pause");
    let (pipeline, listener) = arrow_from(&scratch);
    let written = Written::default();
    let standard = Standard { input: None, output: Some(Box::new(written.clone())) };
    let (stream, open) = pipeline.build(standard).unwrap();
    let running = stream.start(Settings::unpinned(1), &[0, 0]).unwrap();
    let mut connection = listener.accept().unwrap().0;
    // Before the first byte, within the schema, and within the rows.
    let mut from = 0;
    for to in [3, bytes.len() - 40, bytes.len()] {
        std::thread::sleep(PAUSE);
        connection.write_all(&bytes[from..to]).unwrap();
        from = to;
    }
    drop(connection);
    running.finish().unwrap();
    open.finish().unwrap();
    assert_eq!(written.text(), "0\n1\n2\n");
}

#[test]
fn a_silent_stream_of_arrow_is_stopped_without_an_error() {
    let scratch = Scratch::new("pipeline_silent");
    let (pipeline, listener) = arrow_from(&scratch);
    let output: Box<dyn Write + Send> = Box::new(Written::default());
    let (stream, open) = pipeline.build(Standard { input: None, output: Some(output) }).unwrap();
    let running = stream.start(Settings::unpinned(1), &[0, 0]).unwrap();
    let connection = listener.accept().unwrap().0;
    open.stop();
    running.finish().unwrap();
    open.finish().unwrap();
    drop(connection);
}

#[test]
fn the_name_of_a_socket_is_gone_at_the_end_and_a_left_one_is_taken_over() {
    let scratch = Scratch::new("pipeline_names");
    let path = scratch.path("socket");
    let description = |to: &str| {
        let from = path.display();
        format!("[source.in]\nfrom = \"unix:{from}\"\nlisten = true\n[sink.out]\nto = \"{to}\"\n")
    };
    let build =
        |to: &str| Pipeline::parse(&description(to), "names.toml").unwrap().build(Standard::default());
    // A killed process leaves the socket like this.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (stream, open) = build("discard").unwrap();
    let running = stream.start(Settings::unpinned(1), &[0, 0]).unwrap();
    UnixStream::connect(&path).unwrap();
    let Err(error) = build("discard") else { panic!("a name at which somebody listens was taken") };
    assert!(error.to_string().starts_with("source.in: cannot listen on "), "{error}");
    open.stop();
    running.finish().unwrap();
    open.finish().unwrap();
    assert!(!path.exists());
    // The sink cannot be opened, after the source was.
    assert!(build("unix:/does/not/exist").is_err());
    assert!(!path.exists());
    // Other files are not removed.
    std::fs::write(&path, "kept").unwrap();
    assert!(build("discard").is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
}
