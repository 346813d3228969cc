//! Snapshots that a pipeline does not continue from, and the sentences that say why.

use std::fs;
use std::path::Path;

use sakiyomi_pipeline::{Pipeline, Run, Standard};
use sakiyomi_stream::{Running, Settings, Snapshot};
use sakiyomi_testing::Scratch;

/// Records of the input: so many that a snapshot on a busy machine is still in the middle of them.
const ROWS: u64 = 100_000;

/// Copies records from a file to two others; `where_` keeps some.
fn description(scratch: &Scratch, where_: &str) -> String {
    let show = |name: &str| scratch.path(name).display().to_string();
    format!(
        "[source.in]\nfrom = \"file:{}\"\nsplit = \",\"\nfields = [\"n\"]\ncolumns = {{ n = \"int64\" }}\n\
         [[step]]\nop = \"filter\"\nwhere = \"{where_}\"\n\
         [sink.all]\nto = \"file:{}\"\nappend = true\n[sink.whole]\nto = \"file:{}\"\nformat = \"csv\"\n",
        show("in.csv"),
        show("all.txt"),
        show("whole.csv")
    )
}

fn pipeline(scratch: &Scratch) -> Pipeline {
    Pipeline::parse(&description(scratch, "n >= 0"), "copy.toml").unwrap()
}

fn start(pipeline: &Pipeline, from: Option<&Snapshot>) -> Result<(Running, Run), String> {
    let (stream, run) =
        pipeline.build_resumable(Standard::default(), from).map_err(|error| error.to_string())?;
    let workers = vec![0; pipeline.operators().count()];
    let started = match from {
        Some(snapshot) => stream.start_from(Settings::unpinned(1), &workers, snapshot),
        None => stream.start(Settings::unpinned(1), &workers),
    };
    match started {
        Ok(running) => Ok((running, run)),
        Err(error) => {
            run.suspend().unwrap();
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            Err(format!("{error}{}", source.unwrap_or_default()))
        }
    }
}

/// A pipeline that was killed after a snapshot in the middle of its input, and its snapshot.
fn killed(scratch: &Scratch) -> (Pipeline, Snapshot) {
    scratch.file("in.csv", (0..ROWS).map(|n| format!("{n}\n")).collect::<String>());
    let pipeline = pipeline(scratch);
    let (mut running, run) = start(&pipeline, None).unwrap();
    while running.report().operators[0].tuples_out < ROWS / 3 {
        std::thread::yield_now();
    }
    let file = scratch.path("copy.snapshot");
    let mut snapshots = pipeline.snapshots(&run, file.clone());
    snapshots.begin(&mut running);
    snapshots.complete().unwrap();
    assert_eq!(snapshots.figures().bytes, fs::metadata(&file).unwrap().len());
    drop(running);
    drop(snapshots);
    run.suspend().unwrap();
    let snapshot = pipeline.read_snapshot(&file).unwrap();
    (pipeline, snapshot)
}

#[test]
fn a_damaged_file_is_refused_in_a_sentence_whatever_the_damage() {
    let scratch = Scratch::new("snapshot_damaged");
    let (pipeline, snapshot) = killed(&scratch);
    let file = scratch.path("copy.snapshot");
    let whole = fs::read(&file).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let error = pipeline.read_snapshot(&file).unwrap_err().to_string();
        assert!(error.contains("copy.snapshot: it is not a snapshot, or damaged: "), "{error}");
        assert_eq!(error.lines().count(), 1);
    };
    for at in 0..whole.len() {
        refused(&whole[..at]);
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped);
    }
    refused(&[&whole[..], b"more"].concat());
    fs::write(&file, &whole).unwrap();
    assert_eq!(pipeline.read_snapshot(&file).unwrap(), snapshot);
    let missing = pipeline.read_snapshot(&scratch.path("none")).unwrap_err().to_string();
    assert!(missing.starts_with("snapshot: cannot read "), "{missing}");
}

#[test]
fn a_snapshot_of_another_pipeline_is_refused_and_one_of_the_same_written_otherwise_is_not() {
    let scratch = Scratch::new("snapshot_other");
    let (_, snapshot) = killed(&scratch);
    let file = scratch.path("copy.snapshot");
    let read = |text: &str| {
        let pipeline = Pipeline::parse(text, "copy.toml").unwrap();
        pipeline.read_snapshot(&file).map_err(|error| error.to_string())
    };
    let other = read(&description(&scratch, "n > 0")).unwrap_err();
    let reason = "it was written by a pipeline with step.filter.where = \"n >= 0\", and this one has step.filter.where = \"n > 0\"; \
                  resume with the unchanged pipeline, or start from the beginning";
    assert!(other.ends_with(reason), "{other}");
    let lacks = read(&description(&scratch, "n >= 0").replace("append = true\n", "")).unwrap_err();
    assert!(lacks.contains("with sink.all.append = true, which this one lacks"), "{lacks}");
    let same = description(&scratch, "n >= 0").replace("split", "bad = \"skip\" # and a comment\nsplit");
    assert_eq!(read(&same).unwrap(), snapshot);
    let numbers = "[source.in]\nfrom = \"generator\"\n[sink.out]\nto = \"discard\"\n";
    let (stream, _run) = Pipeline::parse(numbers, "other.toml").unwrap().build(Standard::default()).unwrap();
    let error =
        stream.start_from(Settings::unpinned(1), &[0, 0], &snapshot).map(drop).unwrap_err().to_string();
    assert!(error.contains("it has 5 operators, and the stream has 2"), "{error}");
}

/// The sentence with which a pipeline is refused after `change`, which leaves its files as they are.
fn refused_after(change: impl FnOnce(&Scratch)) -> String {
    let scratch = Scratch::new("snapshot_files");
    let (pipeline, snapshot) = killed(&scratch);
    change(&scratch);
    let content = |name: &str| fs::read(scratch.path(name)).unwrap_or_default();
    let before = ["in.csv", "all.txt", "whole.csv.partial", "whole.csv"].map(content);
    let refused = start(&pipeline, Some(&snapshot)).map(drop).unwrap_err();
    assert_eq!(before, ["in.csv", "all.txt", "whole.csv.partial", "whole.csv"].map(content), "{refused}");
    refused
        .replace(&scratch.root().canonicalize().unwrap().display().to_string(), "")
        .replace(&scratch.root().display().to_string(), "")
}

fn edit(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    edit(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn files_that_were_changed_since_the_snapshot_are_refused_in_a_sentence_and_left_as_they_are() {
    let source = "cannot resume from the snapshot: operator source.in cannot load its state: /in.csv ";
    let rest = "; restore the file, or start from the beginning";
    let short = refused_after(|scratch| edit(&scratch.path("in.csv"), |bytes| bytes.truncate(100)));
    assert!(short.starts_with(&format!("{source}has 100 bytes, and ")) && short.ends_with(rest), "{short}");
    let other = refused_after(|scratch| edit(&scratch.path("in.csv"), |bytes| bytes[0] = b'7'));
    assert_eq!(other, format!("{source}has different content than at the snapshot{rest}"));
    let gone = refused_after(|scratch| fs::remove_file(scratch.path("in.csv")).unwrap());
    assert!(gone.contains("source.in: cannot open /in.csv: "), "{gone}");
    let all = refused_after(|scratch| edit(&scratch.path("all.txt"), |bytes| bytes.truncate(10)));
    assert!(all.starts_with("sink.all: cannot open /all.txt: /all.txt has 10 bytes, and had "), "{all}");
    assert!(all.ends_with(" bytes at the snapshot; restore it, or start from the beginning"), "{all}");
    let partial = refused_after(|scratch| fs::remove_file(scratch.path("whole.csv.partial")).unwrap());
    assert!(
        partial.starts_with("sink.whole: cannot open /whole.csv: /whole.csv.partial is missing, and had "),
        "{partial}"
    );
    for (name, sentence) in [
        ("all.txt", "sink.all: cannot open /all.txt: /all.txt"),
        ("whole.csv.partial", "sink.whole: cannot open /whole.csv: /whole.csv.partial"),
    ] {
        let other = refused_after(|scratch| edit(&scratch.path(name), |bytes| bytes[5] ^= 1));
        let rest = " has different content than at the snapshot, such as that of another run; restore it, or start from the beginning";
        assert_eq!(other, format!("{sentence}{rest}"));
    }
}

#[test]
fn the_partial_file_of_another_run_is_refused_and_left_as_it_is() {
    let refused = refused_after(|scratch| {
        // The pipeline starts again with other records, and is killed later in its input.
        fs::rename(scratch.path("in.csv"), scratch.path("first.csv")).unwrap();
        fs::rename(scratch.path("all.txt"), scratch.path("first.txt")).unwrap();
        scratch.file("in.csv", (0..ROWS).map(|n| format!("{}\n", n + 7)).collect::<String>());
        let (running, run) = start(&pipeline(scratch), None).unwrap();
        running.finish().unwrap();
        run.suspend().unwrap();
        fs::rename(scratch.path("first.csv"), scratch.path("in.csv")).unwrap();
        fs::rename(scratch.path("first.txt"), scratch.path("all.txt")).unwrap();
    });
    let reason = "/whole.csv.partial has different content than at the snapshot, such as that of another run";
    assert!(refused.starts_with(&format!("sink.whole: cannot open /whole.csv: {reason}")), "{refused}");
}

#[test]
fn what_others_wrote_before_the_first_row_is_not_part_of_the_file_s_content() {
    let scratch = Scratch::new("snapshot_before");
    // A last line that is cut off is ended before the first row.
    scratch.file("all.txt", "a former run\nand a torn li");
    let (pipeline, snapshot) = killed(&scratch);
    edit(&scratch.path("all.txt"), |bytes| bytes[0] = b'A');
    let (running, run) = start(&pipeline, Some(&snapshot)).unwrap();
    running.finish().unwrap();
    run.finish().unwrap();
    let rows = fs::read_to_string(scratch.path("in.csv")).unwrap();
    let expected = "A former run\nand a torn li\n".to_owned() + &rows;
    assert_eq!(fs::read_to_string(scratch.path("all.txt")).unwrap(), expected);
}

#[test]
fn a_pipeline_whose_files_have_grown_since_goes_on_where_it_was() {
    let scratch = Scratch::new("snapshot_grown");
    let (pipeline, snapshot) = killed(&scratch);
    edit(&scratch.path("in.csv"), |bytes| bytes.extend_from_slice(b"1000000\n"));
    let (running, run) = start(&pipeline, Some(&snapshot)).unwrap();
    running.finish().unwrap();
    run.finish().unwrap();
    let expected = fs::read_to_string(scratch.path("in.csv")).unwrap();
    assert_eq!(fs::read_to_string(scratch.path("all.txt")).unwrap(), expected);
    assert_eq!(fs::read_to_string(scratch.path("whole.csv")).unwrap(), "n\n".to_owned() + &expected);
}
