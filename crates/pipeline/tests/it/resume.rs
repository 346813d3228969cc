//! Snapshots in files, and pipelines that resume from them.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_stream::{Running, Settings, Snapshot};
use sakiyomi_testing::Scratch;

use crate::harness::{Written, lines};

/// Rows of the input: seconds of work in a debug build, so that a snapshot falls into the middle.
const ROWS: u64 = 30_000;

/// Pipelines that are killed several times each.
const SEEDS: u64 = 6;

fn description(scratch: &Scratch) -> String {
    let path = scratch.path("in.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    writeln!(file, "x,k,t").unwrap();
    for row in 0..ROWS {
        writeln!(file, "\"{}\",k{},{}", row % 7, row * 31 % 11, row * 3 + row * 7919 % 50).unwrap();
    }
    file.flush().unwrap();
    format!(
        "[source.in]\nfrom = \"file:{}\"\nformat = \"csv\"\ncolumns = {{ t = \"timestamp(ms)\", k = \"text\", x = \"int64\" }}\n\
         event_time = \"t\"\nout_of_order = \"50ms\"\n\
         [source.other]\nfrom = \"generator\"\nrows = 2000\nkeys = 11\nevent_time = \"time\"\n\
         [[step]]\nname = \"even\"\ninput = \"in\"\nop = \"filter\"\nwhere = \"x % 2 = 0\"\n\
         [[step]]\nname = \"windows\"\nop = \"aggregate\"\nby = \"k\"\nwindow = \"sliding:2s,500ms\"\n\
         compute = \"count(*) AS n, sum(x) AS s, min(k) AS m, count(distinct x) AS d\"\n\
         [[step]]\nname = \"best\"\nop = \"top\"\nk = 2\nby = \"s\"\n\
         [[step]]\nname = \"numbers\"\ninput = \"other\"\nop = \"aggregate\"\nby = \"key\"\ncompute = \"avg(value) AS a\"\n\
         [sink.out]\ninput = \"best\"\nto = \"stdout\"\n\
         [sink.numbers]\ninput = \"numbers\"\nto = \"discard\"\n",
        path.display()
    )
}

/// Starts a pipeline, from a snapshot if there is one.
fn start(
    description: &str,
    from: Option<&Snapshot>,
    worker: usize,
) -> (Running, sakiyomi_pipeline::Run, Written) {
    let pipeline = Pipeline::parse(description, "resume.toml").unwrap();
    let written = Written::default();
    let (stream, run) =
        pipeline.build(Standard { input: None, output: Some(Box::new(written.clone())) }).unwrap();
    assert_eq!(stream.unsaved().count(), 0, "{:?}", stream.unsaved().collect::<Vec<_>>());
    let workers: Vec<usize> =
        (0..pipeline.operators().count()).map(|at| usize::from(at % 3 == worker)).collect();
    let running = match from {
        Some(snapshot) => stream.start_from(Settings::unpinned(2), &workers, snapshot).unwrap(),
        None => stream.start(Settings::unpinned(2), &workers).unwrap(),
    };
    (running, run, written)
}

#[test]
fn a_pipeline_that_resumes_goes_on_as_if_it_had_not_been_interrupted() {
    let scratch = Scratch::new("pipeline_resume");
    let (description, file) = (description(&scratch), scratch.path("snapshot.arrow"));
    let whole = lines(&description, "");
    assert!(whole.len() > 1000);
    for life in 0..3 {
        let (mut running, run, first) = start(&description, None, life);
        while life > 0 && first.text().len() < whole.len() / (life + 2) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let snapshot = running.snapshot().unwrap();
        let before = first.text();
        let pipeline = Pipeline::parse(&description, "resume.toml").unwrap();
        let bytes = pipeline.write_snapshot(&file, &snapshot).unwrap();
        assert_eq!(bytes, std::fs::metadata(&file).unwrap().len());
        // The crash.
        drop(running);
        let _ = run.finish();
        assert_eq!(pipeline.read_snapshot(&file).unwrap(), snapshot);
        let (running, run, second) = start(&description, Some(&snapshot), 2 - life);
        running.finish().unwrap();
        run.finish().unwrap();
        let (first, second) = (first.text(), second.text());
        assert!(whole.starts_with(&first), "life {life}");
        assert!(whole.ends_with(&second), "life {life}");
        // Nothing is lost, and nothing is doubled but what was written after the snapshot.
        assert!(first.len() + second.len() >= whole.len() && before.len() + second.len() >= whole.len());
    }
}

/// Records of the input of [`files`].
const RECORDS: u64 = 6_000;

/// Names of the files that [`files`] describes, and whether they appear at the end.
const FILES: [(&str, bool); 5] = [
    ("all.csv", false),
    ("windows.csv", true),
    ("windows.arrow", true),
    ("numbers.json", false),
    ("pairs.json", true),
];

/// Windows and joins of a file and a generator, written to files of all kinds in a directory.
fn files(directory: &Path) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    format!(
        "ring_slots = 64\n\
         [source.in]\nfrom = \"file:{input}\"\nsplit = \" \"\nfields = [\"t\", \"k\", \"x\"]\n\
         columns = {{ t = \"timestamp(ns)\", k = \"int64\", x = \"int64\" }}\nevent_time = \"t\"\nout_of_order = \"20us\"\n\
         [source.other]\nfrom = \"generator\"\nrows = {RECORDS}\nkeys = 5\nevent_time = \"time\"\n\
         [[step]]\nname = \"kept\"\ninput = \"in\"\nop = \"append\"\nfile = \"{all}\"\nformat = \"csv\"\n\
         [[step]]\nname = \"windows\"\nop = \"aggregate\"\nby = \"k\"\nwindow = \"sliding:400us,100us\"\n\
         compute = \"count(*) AS n, sum(x) AS s, count(distinct x) AS d\"\n\
         [[step]]\nname = \"best\"\nop = \"top\"\nk = 2\nby = \"s\"\n\
         [[step]]\nname = \"first\"\ninput = \"other\"\nop = \"distinct\"\nby = \"key\"\nwindow = \"tumbling:50us\"\n\
         [[step]]\nname = \"pairs\"\ninput = \"kept\"\nop = \"join\"\nwith = \"first\"\non = \"k = key\"\nwithin = \"10us\"\n\
         [[step]]\nname = \"short\"\nop = \"select\"\ncolumns = \"t, x, number\"\n\
         [sink.csv]\ninput = \"best\"\nto = \"file:{csv}\"\nformat = \"csv\"\n\
         [sink.arrow]\ninput = \"windows\"\nto = \"file:{arrow}\"\nformat = \"arrow\"\n\
         [sink.numbers]\ninput = \"first\"\nto = \"file:{numbers}\"\nformat = \"json\"\nappend = true\n\
         [sink.pairs]\ninput = \"short\"\nto = \"file:{pairs}\"\nformat = \"json\"\n",
        input = directory.parent().unwrap().join("in.txt").display(),
        all = at("all.csv"),
        csv = at("windows.csv"),
        arrow = at("windows.arrow"),
        numbers = at("numbers.json"),
        pairs = at("pairs.json"),
    )
}

/// The rows of the files in a directory, those of the join in any order. The batches of Arrow are of any size: they become
/// lines.
fn rows(directory: &Path) -> Vec<String> {
    let read = |(name, _): (&str, bool)| {
        let path = directory.join(name);
        if name.ends_with("arrow") {
            let read = format!(
                "[source.in]\nfrom = \"file:{}\"\nformat = \"arrow\"\n[sink.out]\nto = \"stdout\"\n",
                path.display()
            );
            return lines(&read, "");
        }
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        if name.starts_with("pairs") {
            lines.sort_unstable();
        }
        lines.concat()
    };
    FILES.map(read).to_vec()
}

/// A life of a pipeline on two workers: takes snapshots at random places of the input and is then killed, or continues to
/// the end if it is the last one.
fn live(pipeline: &Pipeline, file: &Path, random: &mut Pcg64, is_last: bool) {
    let from = file.exists().then(|| pipeline.read_snapshot(file).unwrap());
    let (stream, run) = pipeline.build_resumable(Standard::default(), from.as_ref()).unwrap();
    let workers: Vec<usize> = pipeline.operators().map(|_| random.next_u64() as usize % 2).collect();
    let mut running = match &from {
        Some(snapshot) => stream.start_from(Settings::unpinned(2), &workers, snapshot).unwrap(),
        None => stream.start(Settings::unpinned(2), &workers).unwrap(),
    };
    let before = from.map_or(0, |snapshot| snapshot.operators[0].progress.tuples);
    let mut snapshots = pipeline.snapshots(&run, file.to_owned());
    for _ in 0..random.next_u64() % 4 {
        let emitted = || running.report().operators[0].tuples_out;
        let so_far = emitted();
        let until = so_far + random.next_u64() % (RECORDS - before - so_far + 1);
        while emitted() < until {
            std::thread::yield_now();
        }
        snapshots.begin(&mut running);
        while random.next_u64().is_multiple_of(2) {
            snapshots.poll().unwrap();
        }
        snapshots.complete().unwrap();
    }
    if is_last {
        let report = running.finish().unwrap();
        assert!(report.failures.is_empty() && run.finish().is_ok(), "{:?}", report.failures);
        snapshots.remove().unwrap();
    } else {
        drop(running);
        run.suspend().unwrap();
    }
}

#[test]
fn files_have_each_row_once_however_often_their_pipeline_is_killed() {
    let scratch = Scratch::new("pipeline_lives");
    let record = |n: u64| format!("{} {} {}\n", n * 1000 + n * 7919 % 20_000, n * 31 % 5, n % 97);
    scratch.file("in.txt", (0..RECORDS).map(record).collect::<String>());
    let directory = |name: &str| {
        let path = scratch.path(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let whole = directory("whole");
    let uninterrupted = Pipeline::parse(&files(&whole), "files.toml").unwrap();
    let (stream, run) = uninterrupted.build(Standard::default()).unwrap();
    let workers = vec![0; uninterrupted.operators().count()];
    stream.start(Settings::unpinned(1), &workers).unwrap().finish().unwrap();
    run.finish().unwrap();
    let expected = rows(&whole);
    assert!(expected.iter().all(|rows| rows.lines().count() > 100), "{expected:?}");
    for seed in 0..SEEDS {
        let mut random = Pcg64::seed_from_u64(seed);
        let killed = directory(&format!("killed-{seed}"));
        let pipeline = Pipeline::parse(&files(&killed), "files.toml").unwrap();
        let file = killed.join("snapshot");
        let lives = 1 + random.next_u64() % 4;
        for life in 0..=lives {
            live(&pipeline, &file, &mut random, life == lives);
            // Nothing has a position yet: a pipeline that starts over appends to what is there.
            if life < lives && !file.exists() {
                FILES.iter().for_each(|(name, _)| drop(std::fs::remove_file(killed.join(name))));
            }
            let has_appeared = FILES.map(|(name, at_end)| at_end && killed.join(name).exists());
            assert_eq!(has_appeared, FILES.map(|(_, at_end)| at_end && life == lives), "seed {seed}");
        }
        assert_eq!(rows(&killed), expected, "seed {seed}");
        let left = std::fs::read_dir(&killed).unwrap().count();
        assert_eq!(left, FILES.len(), "seed {seed}: a snapshot or a partial file is left");
    }
}

#[test]
fn files_appear_also_if_the_pipeline_was_killed_after_its_end() {
    let scratch = Scratch::new("pipeline_killed_at_end");
    scratch.file("in.txt", "1 2 3\n2000000 2 4\n");
    let (directory, file) = (scratch.path("out"), scratch.path("snapshot"));
    std::fs::create_dir(&directory).unwrap();
    let pipeline = Pipeline::parse(&files(&directory), "files.toml").unwrap();
    let (stream, run) = pipeline.build_resumable(Standard::default(), None).unwrap();
    let workers = vec![0; pipeline.operators().count()];
    let mut running = stream.start(Settings::unpinned(1), &workers).unwrap();
    let mut snapshots = pipeline.snapshots(&run, file.clone());
    let has_ended =
        |snapshot: &Snapshot| snapshot.operators.iter().all(|operator| operator.progress.has_ended);
    loop {
        snapshots.begin(&mut running);
        snapshots.complete().unwrap();
        if has_ended(&pipeline.read_snapshot(&file).unwrap()) {
            break;
        }
    }
    drop(running);
    drop(snapshots);
    run.suspend().unwrap();
    let names = || {
        let entries = std::fs::read_dir(&directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names().iter().filter(|name| name.ends_with(".partial")).count(), 3, "{:?}", names());
    let mut after = Vec::new();
    // The second process finds that all has been done.
    for _ in 0..2 {
        let snapshot = pipeline.read_snapshot(&file).unwrap();
        let (stream, run) = pipeline.build_resumable(Standard::default(), Some(&snapshot)).unwrap();
        stream.start_from(Settings::unpinned(1), &workers, &snapshot).unwrap().finish().unwrap();
        run.finish().unwrap();
        after.push(rows(&directory));
        let mut expected = FILES.map(|(name, _)| name.to_owned());
        expected.sort();
        assert_eq!(names(), expected);
    }
    assert_eq!(after[0], after[1]);
    assert!(after[0].iter().all(|rows| !rows.is_empty()) && after[0][0].lines().count() == 3, "{after:?}");
}

#[test]
fn a_pipeline_that_is_halted_before_its_last_snapshot_writes_no_row_twice() {
    let scratch = Scratch::new("pipeline_halted");
    // Up to 4096 rows are in flight to the file.
    let appended = scratch.path("appended");
    let in_flight = format!(
        "[source.in]\nfrom = \"generator\"\nrows = 40000\n[[step]]\nop = \"select\"\ncolumns = \"number\"\n\
         [[step]]\nop = \"append\"\nfile = \"{}\"\npass = \"written\"\n[sink.out]\nto = \"stdout\"\n",
        appended.display()
    );
    for (number, description) in [description(&scratch), in_flight].iter().enumerate() {
        let file = scratch.path(&format!("snapshot{number}"));
        let whole = lines(description, "");
        // Removes the output of the uninterrupted run.
        let _ = std::fs::remove_file(&appended);
        let pipeline = Pipeline::parse(description, "resume.toml").unwrap();
        let (mut running, run, first) = start(description, None, 0);
        while first.text().len() < whole.len() / 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        run.halt();
        let mut snapshots = pipeline.snapshots(&run, file.clone());
        snapshots.begin_last(&mut running);
        snapshots.complete().unwrap();
        drop(running);
        run.suspend().unwrap();
        let snapshot = pipeline.read_snapshot(&file).unwrap();
        let (running, run, second) = start(description, Some(&snapshot), 1);
        running.finish().unwrap();
        run.finish().unwrap();
        assert!(!second.text().is_empty());
        assert_eq!(first.text() + &second.text(), whole);
    }
    assert_eq!(
        std::fs::read_to_string(&appended).unwrap(),
        (0..40_000).map(|number| format!("{number}\n")).collect::<String>()
    );
}

#[test]
fn a_tail_that_resumes_goes_on_in_its_file_through_a_rotation() {
    let scratch = Scratch::new("pipeline_resume_tail");
    let log = scratch.file("app.log", "old\n");
    let append = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&log).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let description =
        format!("[source.in]\nfrom = \"tail:{}\"\n[sink.out]\nto = \"stdout\"\n", log.display());
    let output = || Standard { input: None, output: Some(Box::new(Written::default())) };
    // A life that ends when it has written this, after a snapshot.
    let live = |from: Option<&Snapshot>, before: &str, text: &str| {
        let (mut running, run, written) = start(&description, from, 0);
        append(before);
        while written.text() != text {
            std::thread::sleep(Duration::from_millis(1));
        }
        let snapshot = running.snapshot().unwrap();
        drop(running);
        run.suspend().unwrap();
        snapshot
    };
    let first = live(None, "one\ntwo\n", "one\ntwo\n");
    append("three\n");
    std::fs::rename(&log, scratch.path("app.log.1")).unwrap();
    append("four\n");
    let second = live(Some(&first), "", "three\nfour\n");
    std::fs::remove_file(scratch.path("app.log.1")).unwrap();
    append("five\n");
    live(Some(&second), "six\n", "five\nsix\n");
    std::fs::write(&log, "4\n").unwrap();
    for (snapshot, read) in [(&first, 12), (&second, 5)] {
        let (stream, run) = Pipeline::parse(&description, "tail.toml").unwrap().build(output()).unwrap();
        let refused = stream.start_from(Settings::unpinned(1), &[0, 0], snapshot).map(drop).unwrap_err();
        let reason = std::error::Error::source(&refused).unwrap().to_string();
        let expected = format!("app.log has 2 bytes, and {read} had been read at the snapshot");
        assert!(reason.contains(&expected), "{reason}");
        run.suspend().unwrap();
    }
}
