//! Sources whose inputs have nothing, and snapshots while look-ups and writes are in flight.

use std::io::{Read, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use sakiyomi_pipeline::{Pipeline, Run, Standard};
use sakiyomi_stream::{Running, Settings, Snapshot};
use sakiyomi_testing::Scratch;

use crate::harness::{Written, lines};

/// An input that waits for each line.
struct Lines(Receiver<String>);

impl Read for Lines {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        let line = self.0.recv().unwrap_or_default();
        space[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

#[test]
fn each_line_comes_out_though_the_source_is_parked_and_a_stop_ends_it() {
    let description = "[source.in]\nfrom = \"stdin\"\n[sink.out]\nto = \"stdout\"\n";
    let pipeline = Pipeline::parse(description, "waits.toml").unwrap();
    let ((send, receive), written) = (channel(), Written::default());
    let standard =
        Standard { input: Some(Box::new(Lines(receive))), output: Some(Box::new(written.clone())) };
    let (stream, run) = pipeline.build(standard).unwrap();
    let settings = Settings { spin: Duration::ZERO, ..Settings::unpinned(1) };
    let running = stream.start(settings, &[0, 0]).unwrap();
    let mut expected = String::new();
    for number in 0..50 {
        let line = format!("line {number}\n");
        expected += &line;
        send.send(line).unwrap();
        // A wake-up that is lost would hang here.
        while written.text() != expected {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    // The thread of the input waits for a line that does not come.
    run.stop();
    running.finish().unwrap();
    drop(send);
    run.finish().unwrap();
}

const ROWS: u64 = 20_000;

fn description(scratch: &Scratch) -> String {
    let (input, table) = (scratch.path("in.csv"), scratch.path("table.csv"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&input).unwrap());
    writeln!(file, "n,key,t").unwrap();
    (0..ROWS).for_each(|row| writeln!(file, "{row},k{},{row}", row * 31 % 700).unwrap());
    file.flush().unwrap();
    let rows: String = (0..500).map(|row| format!("k{row},{}\n", row * 3)).collect();
    std::fs::write(&table, format!("key,v\n{rows}")).unwrap();
    format!(
        "[source.in]\nfrom = \"file:{}\"\nformat = \"csv\"\ncolumns = {{ n = \"int64\", key = \"text\", t = \"timestamp(ms)\" }}\n\
         event_time = \"t\"\n\
         [[step]]\nop = \"lookup\"\nfile = \"{}\"\non = \"key = key\"\ncolumns = {{ v = \"int64\" }}\ntable = \"file\"\nin_flight = 50\n\
         [[step]]\nop = \"append\"\nfile = \"{}\"\npass = \"written\"\nin_flight = 500\n\
         [[step]]\nop = \"aggregate\"\nwindow = \"tumbling:100ms\"\ncompute = \"count(*) AS rows, count(v) AS n, sum(v) AS s, sum(n) AS m\"\n\
         [sink.out]\nto = \"stdout\"\n",
        input.display(),
        table.display(),
        scratch.path("appended").display()
    )
}

fn start(description: &str, from: Option<&Snapshot>, worker: usize) -> (Running, Run, Written) {
    let pipeline = Pipeline::parse(description, "waits.toml").unwrap();
    let written = Written::default();
    let standard = Standard { input: None, output: Some(Box::new(written.clone())) };
    let (stream, run) = pipeline.build(standard).unwrap();
    assert_eq!(stream.unsaved().count(), 0, "{:?}", stream.unsaved().collect::<Vec<_>>());
    let workers: Vec<usize> =
        (0..pipeline.operators().count()).map(|at| usize::from(at % 3 == worker)).collect();
    let settings = Settings::unpinned(2);
    let running = match from {
        Some(snapshot) => stream.start_from(settings, &workers, snapshot).unwrap(),
        None => stream.start(settings, &workers).unwrap(),
    };
    (running, run, written)
}

#[test]
fn a_pipeline_that_resumes_with_look_ups_and_writes_in_flight_goes_on_as_if_it_had_not_been_interrupted() {
    let scratch = Scratch::new("pipeline_resume_in_flight");
    let description = description(&scratch);
    let whole = lines(&description, "");
    assert_eq!(whole.lines().count() as u64, ROWS / 100);
    let appended = || std::fs::read_to_string(scratch.path("appended")).unwrap();
    let rows: Vec<String> = appended().lines().map(str::to_owned).collect();
    assert_eq!(rows.len() as u64, ROWS);
    for life in 0..3 {
        std::fs::remove_file(scratch.path("appended")).unwrap();
        let (mut running, run, first) = start(&description, None, life);
        while life > 0 && first.text().len() < whole.len() / (life + 2) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let snapshot = running.snapshot().unwrap();
        let before = first.text();
        // The crash.
        drop(running);
        let _ = run.finish();
        let (running, run, second) = start(&description, Some(&snapshot), 2 - life);
        running.finish().unwrap();
        run.finish().unwrap();
        let (first, second) = (first.text(), second.text());
        assert!(whole.starts_with(&first) && whole.ends_with(&second), "life {life}");
        assert!(before.len() + second.len() >= whole.len(), "life {life}");
        // At least once, and in order but for those that were written again.
        let mut next = rows.iter().peekable();
        for line in appended().lines() {
            next.next_if(|row| *row == line);
        }
        assert_eq!(next.next(), None, "life {life}");
    }
}
