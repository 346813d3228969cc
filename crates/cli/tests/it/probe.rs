//! `probe` as a user meets it: what it measures is what was asked for, what it cannot do is one sentence, and nothing is
//! left behind. How fast anything is, is not looked at.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::scratch::{Scratch, json};
use sakiyomi_testing::skipped;
use serde_json::Value;

/// As short as possible.
const QUICK: &str = "--runtime 20ms --repetitions 1";

fn with_file(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    let bytes: Vec<u8> =
        (0..300_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    scratch.file("file", bytes);
    scratch
}

/// What is in each place of a list of objects.
fn texts(list: &Value, key: &str) -> Vec<String> {
    let text = |value: &Value| value[key].as_str().map_or_else(|| value[key].to_string(), str::to_owned);
    list.as_array().unwrap().iter().map(text).collect()
}

#[test]
fn what_was_asked_for_is_measured_and_judged() {
    let scratch = with_file("probe_cases");
    let asked = "--method read,pread:2,mmap:2,null --block 4KiB,64KiB --buffers ordinary --cached";
    let document = json(&scratch.ok(&format!("probe file {asked} {QUICK} --json --out out")));
    assert_eq!(document["schema"], "sakiyomi.probe/1");
    let result = &document["result"];
    assert_eq!((result["repetitions"].as_u64(), result["run_ns"].as_u64()), (Some(1), Some(20_000_000)));
    assert_eq!(texts(&result["targets"], "name"), ["path"]);
    let cases = &result["cases"];
    let found: BTreeSet<_> = texts(cases, "method").into_iter().zip(texts(cases, "block_bytes")).collect();
    let of = |method: &str| ["4096", "65536"].map(|block| (method.to_owned(), block.to_owned()));
    assert_eq!(found, ["read", "pread", "mmap", "null"].iter().flat_map(|method| of(method)).collect());
    assert_eq!(cases.as_array().unwrap().len(), 8, "each once");
    cases.as_array().unwrap().iter().for_each(is_whole);
    same_in_calibration(&fs::read_to_string(scratch.0.join("out/calibration.toml")).unwrap(), cases);
    let names = scratch.names("out");
    assert!(
        ["report.html", "result.json"].iter().all(|name| names.contains(&(*name).to_owned())),
        "{names:?}"
    );
}

fn is_whole(case: &Value) {
    for key in
        ["throughput_bytes_per_s", "cpu_ns_per_byte", "user_ratio", "system_ratio", "machine_cpu_ratio"]
    {
        assert!(case[key].is_f64(), "{key} of {case}");
    }
    let verdicts = ["storage-bound", "cpu-bound", "latency-bound", "undecided"];
    assert!(verdicts.contains(&case["verdict"].as_str().unwrap()), "{case}");
    assert!(case["reason"].as_str().unwrap().ends_with('.'), "{case}");
    assert_eq!((&case["cached"], &case["direct"]), (&Value::Bool(true), &Value::Bool(false)));
}

fn same_in_calibration(text: &str, cases: &Value) {
    let found: toml::Table = text.parse().unwrap();
    assert_eq!(found["schema"].as_str(), Some("sakiyomi.calibration/1"));
    let mut methods = Vec::new();
    for cost in found["method"].as_array().unwrap() {
        let method = cost["method"].as_str().unwrap().split(':').next().unwrap().to_owned();
        let sizes = cost["throughput"].as_array().unwrap();
        methods.extend(sizes.iter().map(|size| (method.clone(), size["block_bytes"].to_string())));
    }
    methods.sort();
    let mut asked: Vec<_> = texts(cases, "method").into_iter().zip(texts(cases, "block_bytes")).collect();
    asked.sort();
    assert_eq!(methods, asked);
}

#[test]
fn a_directory_gets_a_test_file_that_leaves_nothing() {
    let scratch = Scratch::new("probe_directory");
    let text = scratch.ok(&format!("probe . --size 256KiB --block 4KiB --method read {QUICK}"));
    assert!(text.contains("test file in ."), "{text}");
    assert!(scratch.names(".").is_empty());
}

fn has_shared_memory() -> bool {
    let found = Path::new("/dev/shm").is_dir();
    if !found {
        skipped("probes of shared memory", "there is no /dev/shm");
    }
    found
}

#[test]
fn a_target_in_memory_needs_no_path() {
    if !has_shared_memory() {
        return;
    }
    let scratch = Scratch::new("probe_memory");
    let words =
        format!("probe --on tmpfs --size 256KiB --block 4KiB --method read,mmap --buffered {QUICK} --json");
    let document = json(&scratch.ok(&words));
    assert_eq!(texts(&document["result"]["targets"], "name"), ["tmpfs"]);
    let cached = texts(&document["result"]["cases"], "cached");
    assert!(cached.iter().all(|cached| cached == "true"), "what lies in memory is never cold");
}

#[test]
fn what_lies_in_memory_is_never_called_cold() {
    if !has_shared_memory() {
        return;
    }
    let scratch = Scratch::new("probe_cold");
    let words =
        format!("probe /dev/shm --size 256KiB --block 4KiB --method read,mmap --buffered {QUICK} --json");
    let document = json(&scratch.ok(&words));
    assert!(texts(&document["result"]["cases"], "cached").iter().all(|cached| cached == "true"));
    assert!(document["result"]["notes"].to_string().contains("never cold"), "{document}");
}

#[test]
fn bad_input_is_one_sentence() {
    let scratch = with_file("probe_refused");
    scratch.file("empty", "");
    scratch.file("tiny", "tiny");
    for (words, expected) in [
        ("probe", "PATH"),
        ("probe nowhere", "cannot open nowhere"),
        ("probe empty", "empty is empty"),
        ("probe tiny", "the smallest block wanted 65536"),
        ("probe /dev/null", "a character device"),
        ("probe file --method preads:4", "`preads:4` is no method"),
        ("probe file --method pread:0", "from 1 to 1024"),
        ("probe file --block 0", "from 512 bytes to 2GiB"),
        ("probe file --block 4GiB", "from 512 bytes to 2GiB"),
        ("probe file --runtime 0", "from 10ms to 1h"),
        ("probe file --runtime 5", "the unit is missing"),
        ("probe file --runtime 3601s", "from 10ms to 1h"),
        ("probe file --repetitions 0", "1..=1000"),
        ("probe file --out tiny", "--out needs a directory"),
        ("probe file --out tiny/out", "cannot make the directory tiny/out"),
        ("probe file --calibration nowhere/x", "cannot write nowhere/x: there is no directory nowhere"),
        ("probe . --size 0", "a test file of nothing"),
        ("probe . --size 1000", "would hold no block of 64KiB"),
        ("probe . --size 1000000TiB", "does not fit into ."),
        ("probe nowhere --out a/b/c", "cannot open nowhere"),
    ] {
        let said = scratch.refused(words);
        assert!(said.contains(expected), "{words}: {said}");
        assert!(!said.contains("panicked"), "{words}: {said}");
    }
    assert_eq!(scratch.names("."), ["empty", "file", "tiny"], "nothing is left");
}

#[test]
fn a_fifo_is_refused_and_not_waited_for() {
    let scratch = Scratch::new("probe_fifo");
    let made = Command::new("mkfifo").arg(scratch.0.join("fifo")).status();
    if !made.is_ok_and(|status| status.success()) {
        skipped("a_fifo_is_refused", "mkfifo does not work here");
        return;
    }
    assert!(scratch.refused("probe fifo").contains("fifo is a FIFO"));
}

/// Runs the command by a shell that has done something before.
fn after(scratch: &Scratch, before: &str, words: &str) -> Output {
    let line = format!("{before} && exec {} {words}", env!("CARGO_BIN_EXE_sakiyomi"));
    Command::new("sh").arg("-c").arg(line).current_dir(&scratch.0).output().unwrap()
}

#[test]
fn a_limit_on_the_size_of_files_is_told_and_does_not_kill() {
    let scratch = Scratch::new("probe_limit");
    let output = after(&scratch, "ulimit -f 16", "probe . --size 1MiB");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ulimit -f"), "{said}");
}

#[test]
fn a_limit_on_memory_is_what_is_available() {
    let scratch = with_file("probe_memory_limit");
    let words = format!("probe file --method pread:1024 --block 256KiB {QUICK}");
    let output = after(&scratch, "ulimit -v 1000000", &words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("1024000000 are available"), "{said}");
}

#[test]
fn a_target_that_cannot_be_had_is_known_before_anything_is_measured() {
    let scratch = with_file("probe_targets_first");
    // The file could not be measured so either, which would be told if it were tried.
    let words = "probe file --block 1000 --direct --on tmpfs --size 1MiB";
    let said = String::from_utf8(after(&scratch, "ulimit -f 16", words).stderr).unwrap();
    assert!(said.contains("ulimit -f"), "{said}");
}

#[test]
fn a_method_that_reads_nothing_does_not_hide_that_none_could_read() {
    // It has less in it than its size says.
    let file = "/sys/kernel/uevent_seqnum";
    if !Path::new(file).exists() {
        skipped("a_method_that_reads_nothing", format_args!("there is no {file}"));
        return;
    }
    let scratch = Scratch::new("probe_null_only");
    let said = scratch.refused(&format!("probe {file} --method read,null --block 512 {QUICK}"));
    assert!(said.contains(file), "{said}");
}

#[test]
fn ctrl_c_ends_a_long_run_at_once_and_leaves_nothing() {
    let scratch = with_file("probe_interrupted");
    let begun = Instant::now();
    let words = "probe file --block 4KiB --method read --runtime 3600s --repetitions 1 --out a/b";
    let mut child = Command::new(env!("CARGO_BIN_EXE_sakiyomi"))
        .args(words.split(' '))
        .current_dir(&scratch.0)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // By then it watches for Ctrl-C, and a little later it reads.
    while !scratch.0.join("a/b").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(scratch.names("."), ["file"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scratch = with_file("probe_pipe");
    let words = format!("probe file --block 4KiB --method read --no-rivals {QUICK} | true");
    let output = after(&scratch, "set -o pipefail 2>/dev/null; true", &words);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
