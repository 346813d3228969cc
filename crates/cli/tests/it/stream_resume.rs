//! `stream run --snapshot` and `--resume`: pipelines that are killed or interrupted, and resumed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use sakiyomi_testing::wait_until;

use crate::scratch::{Scratch, json, state_home};

/// Rows of the generator, which arrive at [`RATE_PER_S`]: the pipeline runs for two seconds in total.
const ROWS: u64 = 2_000;
const RATE_PER_S: u64 = 1_000;

/// Records of the file, which are read at once and wait in the join for the rows of the generator.
const RECORDS: u64 = 4_000;

/// Number of times that a pipeline is killed.
const KILLS: usize = 3;

/// Windows and pairs of a file and a generator, to files of both kinds and to the standard output.
const PIPELINE: &str = "
[source.log]
from = 'file:log.txt'
split = ' '
fields = ['t', 'k', 'x']
columns = { t = 'timestamp(ns)', k = 'int64', x = 'int64' }
event_time = 't'
out_of_order = '5ms'

[source.ticks]
from = 'generator'
rate = RATE
rows = ROWS
keys = 4
event_time = 'time'

[[step]]
name = 'windows'
input = 'ticks'
op = 'aggregate'
by = 'key'
window = 'tumbling:20ms'
compute = 'count(*) AS n, sum(number) AS s'

[[step]]
name = 'sums'
input = 'log'
op = 'aggregate'
by = 'k'
window = 'sliding:100ms,50ms'
compute = 'count(*) AS n, sum(x) AS s'

[[step]]
name = 'pairs'
op = 'join'
input = 'log'
with = 'ticks'
on = 'k = key'
within = '2ms'

[[step]]
name = 'short'
op = 'select'
columns = 'x, number'

[sink.windows]
input = 'windows'
to = 'file:windows.csv'
format = 'csv'

[sink.sums]
input = 'sums'
to = 'file:sums.csv'
format = 'csv'

[sink.pairs]
input = 'short'
to = 'file:pairs.json'
format = 'json'
append = true

[sink.out]
input = 'windows'
to = 'stdout'
";

fn prepared(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    let record = |n: u64| format!("{} {} {n}\n", n * 500_000 + n * 7919 % 5_000_000, n % 4);
    scratch.file("log.txt", (0..RECORDS).map(record).collect::<String>());
    let pipeline = PIPELINE.replace("RATE", &RATE_PER_S.to_string()).replace("ROWS", &ROWS.to_string());
    scratch.file("pipeline.toml", pipeline);
    scratch
}

/// Starts `stream run pipeline.toml`; its standard output and error go to files with the number of the life.
fn start(scratch: &Scratch, life: usize, words: &str) -> Child {
    let to = |name: &str| File::create(scratch.0.join(format!("{name}{life}"))).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(["stream", "run", "pipeline.toml", "--unpinned"]).args(words.split_whitespace());
    command.current_dir(&scratch.0).env("XDG_STATE_HOME", state_home());
    command.stdin(Stdio::null()).stdout(to("out")).stderr(to("err")).spawn().unwrap()
}

fn read(scratch: &Scratch, name: &str) -> String {
    fs::read_to_string(scratch.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Waits until this number of further snapshots have replaced the file, or the program has ended.
fn wait_for_snapshots(scratch: &Scratch, child: &mut Child, count: usize) -> Option<ExitStatus> {
    let file = scratch.0.join("state.snapshot");
    let change =
        |file: &Path| fs::metadata(file).ok().map(|found| (found.ino(), found.mtime(), found.mtime_nsec()));
    let mut seen = BTreeSet::from([change(&file)]);
    while seen.len() <= count {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        seen.insert(change(&file));
        sleep(Duration::from_millis(2));
    }
    None
}

/// Returns the contents of the files, the pairs in any order.
fn files(scratch: &Scratch) -> [String; 3] {
    let pairs = read(scratch, "pairs.json");
    let mut pairs: Vec<&str> = pairs.split_inclusive('\n').collect();
    pairs.sort_unstable();
    [read(scratch, "windows.csv"), read(scratch, "sums.csv"), pairs.concat()]
}

/// Returns the files and the standard output of an uninterrupted run of the pipeline.
fn uninterrupted(test: &str) -> ([String; 3], String) {
    let scratch = prepared(test);
    let status = start(&scratch, 0, "").wait().unwrap();
    assert!(status.success(), "{}", read(&scratch, "err0"));
    let found = (files(&scratch), read(&scratch, "out0"));
    assert!(found.0.iter().all(|rows| rows.lines().count() > 50), "{found:?}");
    found
}

#[test]
fn a_pipeline_that_is_killed_and_resumed_has_the_results_of_one_that_was_not() {
    let expected = std::thread::spawn(|| uninterrupted("stream_whole_killed"));
    let scratch = prepared("stream_killed");
    let mut lives = 0;
    let is_reported = loop {
        let resume = if lives > 0 { "--resume" } else { "" };
        let words = format!("--snapshot state.snapshot --snapshot-interval 10ms --out result {resume}");
        let mut child = start(&scratch, lives, &words);
        lives += 1;
        let ended = match lives {
            last if last > KILLS => Some(child.wait().unwrap()),
            life => wait_for_snapshots(&scratch, &mut child, 1 + 2 * life),
        };
        if let Some(status) = ended {
            assert!(status.success(), "{}", read(&scratch, &format!("err{}", lives - 1)));
            break true;
        }
        // By SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let [whole, partial] =
            ["windows.csv", "windows.csv.partial"].map(|name| scratch.0.join(name).exists());
        assert_ne!(whole, partial);
        if !scratch.0.join("state.snapshot").exists() {
            // On a slow machine it had just ended.
            break false;
        }
    };
    let (files_expected, out_expected) = expected.join().unwrap();
    assert_eq!(files(&scratch), files_expected);
    // The standard output repeats the rows since the last snapshot, and lacks none.
    let mut end = 0;
    for life in 0..lives {
        let out = read(&scratch, &format!("out{life}"));
        let from = out_expected.find(&out).unwrap_or_else(|| panic!("life {life} wrote other rows:\n{out}"));
        assert!(from <= end, "life {life} begins at {from}, and the lives before ended at {end}");
        end = end.max(from + out.len());
    }
    assert_eq!(end, out_expected.len());
    assert!(!scratch.0.join("state.snapshot").exists() && !scratch.0.join("windows.csv.partial").exists());
    if !is_reported {
        return;
    }
    let document = json(&read(&scratch, "result/result.json"));
    let snapshots = &document["result"]["snapshots"];
    let number = |key: &str| snapshots[key].as_u64().unwrap_or_else(|| panic!("{key}: {snapshots}"));
    assert!(number("taken") > 0 && number("last_bytes") > 1000 && number("write_ns") > 0, "{snapshots}");
    assert_eq!((number("last") - number("taken") >= number("resumed_from"), number("failed")), (true, 0));
    assert_eq!((&snapshots["file"], &snapshots["is_left"]), (&"state.snapshot".into(), &false.into()));
    let told = read(&scratch, &format!("err{}", lives - 1));
    assert!(
        told.contains("sink.out: after a crash, data written to the standard output since the last snapshot"),
        "{told}"
    );
    assert!(told.contains("state.snapshot was removed at the end"), "{told}");
}

#[test]
fn a_pipeline_that_is_interrupted_goes_on_without_a_row_twice() {
    let expected = std::thread::spawn(|| uninterrupted("stream_whole_interrupted"));
    let scratch = prepared("stream_interrupted");
    let mut child = start(&scratch, 0, "--snapshot state.snapshot");
    let ended = wait_for_snapshots(&scratch, &mut child, 1);
    assert_eq!(ended, None, "{}", read(&scratch, "err0"));
    let interrupted = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let status = child.wait().unwrap();
    let told = read(&scratch, "err0");
    assert_eq!(status.code(), Some(130), "{told}");
    assert!(told.contains("state.snapshot: continue with --resume"), "{told}");
    assert!(!scratch.0.join("windows.csv").exists() && scratch.0.join("state.snapshot").exists());
    // The limit counts from the start of each run.
    let words = "--snapshot state.snapshot --resume --for 1ms";
    assert!(start(&scratch, 1, words).wait().unwrap().success(), "{}", read(&scratch, "err1"));
    assert!(scratch.0.join("state.snapshot").exists(), "{}", read(&scratch, "err1"));
    let status = start(&scratch, 2, "--snapshot state.snapshot --resume").wait().unwrap();
    assert!(status.success(), "{}", read(&scratch, "err2"));
    let (files_expected, out_expected) = expected.join().unwrap();
    assert_eq!(files(&scratch), files_expected);
    let out: String = (0..3).map(|life| read(&scratch, &format!("out{life}"))).collect();
    assert_eq!(out, out_expected);
}

#[test]
fn a_snapshot_that_cannot_be_resumed_from_is_refused_in_a_sentence() {
    let scratch = prepared("stream_refused");
    let run = "stream run pipeline.toml --unpinned";
    let refused = |words: &str| {
        let told = scratch.refused(&format!("{run} {words}"));
        assert_eq!(told.lines().count(), 1, "{told}");
        told
    };
    assert!(scratch.refused(&format!("{run} --resume")).contains("--snapshot"));
    let missing = refused("--snapshot state.snapshot --resume");
    assert!(missing.contains("--resume: state.snapshot does not exist"), "{missing}");
    let interval = refused("--snapshot state.snapshot --snapshot-interval 0s");
    assert!(interval.contains("--snapshot-interval 0: give a time"), "{interval}");
    assert!(refused("--snapshot none/state.snapshot").contains("the directory none does not exist"));
    let suspended = start(&scratch, 0, "--snapshot state.snapshot --for 1ms").wait().unwrap();
    assert!(suspended.success(), "{}", read(&scratch, "err0"));
    let exists = refused("--snapshot state.snapshot");
    assert!(exists.contains("the file exists") && exists.contains("--resume"), "{exists}");
    let whole = fs::read(scratch.0.join("state.snapshot")).unwrap();
    for bytes in [&whole[..whole.len() - 1], &whole[1..], b"", b"not a snapshot"] {
        fs::write(scratch.0.join("state.snapshot"), bytes).unwrap();
        let damaged = refused("--snapshot state.snapshot --resume");
        assert!(damaged.contains("state.snapshot: it is not a snapshot, or damaged"), "{damaged}");
    }
    fs::write(scratch.0.join("state.snapshot"), &whole).unwrap();
    let pipeline = read(&scratch, "pipeline.toml");
    scratch.file("pipeline.toml", pipeline.replace("tumbling:20ms", "tumbling:30ms"));
    let other = refused("--snapshot state.snapshot --resume");
    assert!(
        other.contains("it was written by a pipeline with step.windows.window = \"tumbling:20ms\""),
        "{other}"
    );
    scratch.file("pipeline.toml", pipeline);
    scratch.file("log.txt", "another log\n");
    let changed = refused("--snapshot state.snapshot --resume");
    assert!(changed.contains("cannot resume from the snapshot") && changed.contains("log.txt"), "{changed}");
}

#[test]
fn what_a_crash_loses_of_the_standard_input_is_said_at_the_start() {
    let scratch = Scratch::new("stream_losses");
    scratch.file(
        "pipeline.toml",
        "[source.in]\nfrom = 'stdin'\n[sink.out]\nto = 'file:out.txt'\nappend = true\n",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args("stream run pipeline.toml --unpinned --json --snapshot state.snapshot".split(' '));
    command.current_dir(&scratch.0).env("XDG_STATE_HOME", state_home());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let loss = "source.in: after a crash, data read from the standard input since the last snapshot is lost";
    assert!(output.status.success() && told.contains(loss), "{told}");
    let document = json(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(document["result"]["notes"][0], loss);
    assert_eq!(read(&scratch, "out.txt"), "a\nb\n");
    assert!(!scratch.0.join("state.snapshot").exists());
}

#[test]
fn a_second_process_that_writes_the_same_file_is_refused_and_a_killed_one_leaves_no_lock() {
    let scratch = Scratch::new("stream_claimed");
    let pipeline = |source: &str, keys: &str, other: &str| {
        format!(
            "[source.in]\nfrom = 'generator'\n{source}\n[sink.out]\ninput = 'in'\nto = 'file:rows.csv'\n{keys}\n\
             [sink.other]\ninput = 'in'\nto = 'file:{other}'\nappend = true\n"
        )
    };
    for keys in ["", "append = true"] {
        scratch.file("pipeline.toml", pipeline("rate = 1000", keys, "told"));
        scratch.file("short.toml", pipeline("rows = 5", keys, "own"));
        let mut first = start(&scratch, 0, "");
        // All its files are open when the first row comes.
        wait_until("the first row", || fs::metadata(scratch.0.join("told")).is_ok_and(|told| told.len() > 0));
        let said = scratch.refused("stream run short.toml --unpinned");
        let reason = "another process writes it; wait for its end, or write another file";
        assert_eq!(said, format!("sakiyomi: sink.out: cannot open rows.csv: {reason}\n"));
        first.kill().unwrap();
        first.wait().unwrap();
        let _ = fs::remove_file(scratch.0.join("rows.csv"));
        scratch.ok("stream run short.toml --unpinned");
        assert_eq!(read(&scratch, "rows.csv").lines().count(), 5);
        for name in ["rows.csv", "told", "own"] {
            fs::remove_file(scratch.0.join(name)).unwrap();
        }
    }
}
