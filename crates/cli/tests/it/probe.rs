//! `probe` from the user's view: it measures what was requested, describes what it cannot do in one sentence, and
//! leaves nothing behind. Speeds are not tested.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::scratch::{Scratch, json, state_home};
use sakiyomi_probe::calibration::{Calibration, Machine, Query};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};
use sakiyomi_testing::skipped;
use serde_json::Value;

/// Options for the shortest possible runs.
const QUICK: &str = "--runtime 20ms --repetitions 1";

fn with_file(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    let bytes: Vec<u8> =
        (0..300_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    scratch.file("file", bytes);
    scratch
}

/// Returns the values of a key in a list of objects.
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
    same_in_calibration(&scratch.0.join("out/calibration.json"), cases);
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

fn same_in_calibration(path: &Path, cases: &Value) {
    let calibration = Calibration::load(path).unwrap();
    assert_eq!(calibration.machine.differences(&Machine::current()), [""; 0]);
    let [device] = &calibration.devices[..] else { panic!("{calibration:?}") };
    assert_eq!(device.target, "path");
    let mut points = Vec::new();
    for cost in &device.costs {
        for depth in &cost.depths {
            let name = |block: u64| (cost.engine.name().to_owned(), block.to_string());
            points.extend(depth.points.iter().map(|point| name(point.block_bytes)));
        }
    }
    points.sort();
    let mut asked: Vec<_> = texts(cases, "method").into_iter().zip(texts(cases, "block_bytes")).collect();
    asked.sort();
    assert_eq!(points, asked);
    assert!(!calibration.cores.is_empty(), "messages between cores are measured as well");
}

#[test]
fn a_directory_gets_a_test_file_that_leaves_nothing() {
    let scratch = Scratch::new("probe_directory");
    let text = scratch.ok(&format!("probe . --size 256KiB --block 4KiB --method read {QUICK}"));
    assert!(text.contains("test file in ."), "{text}");
    assert!(scratch.names(".").is_empty());
}

#[test]
fn writes_and_mixes_are_measured_in_a_test_file_and_calibrated() {
    let scratch = Scratch::new("probe_writes");
    let asked =
        "--op read,write,mix:70 --method pread:2,uring:2,aio:2,mmap:2,null --block 4KiB --buffers ordinary";
    let words =
        format!("probe . --size 1MiB --buffered {asked} --no-control-runs {QUICK} --json --calibration c");
    let document = json(&scratch.ok(&words));
    let result = &document["result"];
    let cases: Vec<(String, String)> =
        texts(&result["cases"], "method").into_iter().zip(texts(&result["cases"], "op")).collect();
    for op in ["read", "write", "mix:70"] {
        let engines: Vec<&str> = cases.iter().filter(|case| case.1 == op).map(|case| &*case.0).collect();
        assert!(engines.contains(&"pread") && engines.contains(&"null"), "{op}: {engines:?}");
        assert_eq!(engines.contains(&"mmap"), op == "read", "{op}: {engines:?}");
        assert!(texts(&result["choices"], "op").contains(&op.to_owned()));
    }
    for case in result["cases"].as_array().unwrap() {
        let is_mix = case["op"] == "mix:70" && case["method"] != "null";
        assert_eq!(case["write_latency_ns"].is_object(), is_mix, "{case}");
        assert!(case["kernel_threads_cpu_ns_per_byte"].as_f64().unwrap() >= 0.0);
    }
    assert!(result["notes"].to_string().contains("mappings only read"), "{}", result["notes"]);
    assert_eq!(scratch.names("."), ["c"]);
    let calibration = Calibration::load(&scratch.0.join("c")).unwrap();
    let query = Query {
        engine: "pread:2".parse().unwrap(),
        op: Operation::Mix { reads_percent: 70 },
        cache: if result["cases"][0]["cached"] == true { CacheState::Cached } else { CacheState::Cold },
        random: false,
        buffers: Buffers::Ordinary,
        block_bytes: 4096,
    };
    let estimate = calibration.devices[0].estimate(&query).unwrap();
    assert!(estimate.throughput_bytes_per_s > 0.0 && !estimate.is_extrapolated);
}

#[test]
fn a_file_of_the_users_is_never_written_to() {
    let scratch = with_file("probe_untouched");
    let before = fs::read(scratch.0.join("file")).unwrap();
    scratch.refused(&format!("probe file --op write --block 4KiB {QUICK}"));
    scratch.ok(&format!("probe file --block 4KiB --method read,pread:2 {QUICK}"));
    assert!(fs::read(scratch.0.join("file")).unwrap() == before);
}

#[test]
fn the_calibration_is_saved_and_doctor_knows_it() {
    let scratch = with_file("probe_saved");
    let run = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        let command = command.args(words.split(' ')).current_dir(&scratch.0);
        let output = command.env("XDG_STATE_HOME", scratch.0.join("state")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let found = || -> Value {
        let findings = json(&run("doctor --json"))["result"]["findings"].clone();
        let mut findings = findings.as_array().unwrap().clone().into_iter();
        findings.find(|finding| finding["what"] == "calibration").unwrap()
    };
    assert_eq!(found()["available"], false);
    run("probe file --block 4KiB --method read --runtime 20ms --repetitions 1 --cached --quiet");
    let directory = scratch.0.join("state/sakiyomi/calibration");
    let [name] = &scratch.names("state/sakiyomi/calibration")[..] else { panic!("one file") };
    let (path, now) = (directory.join(name), found());
    assert_eq!(now["available"], true);
    let said = now["found"].as_str().unwrap();
    assert!(said.contains(path.to_str().unwrap()) && said.contains("this machine and kernel"), "{said}");
    let mut other = Calibration::load(&path).unwrap();
    other.machine.kernel = "Linux 1.0".to_owned();
    other.measured_unix_s -= 3 * 86_400;
    fs::write(&path, other.to_json()).unwrap();
    let now = found();
    let said = now["found"].as_str().unwrap();
    assert!(now["available"] == false && said.contains("3 days old") && said.contains("kernel"), "{said}");
    fs::write(&path, "{").unwrap();
    assert!(found()["found"].as_str().unwrap().contains("is not a whole calibration"));
}

#[test]
fn a_calibration_that_cannot_be_saved_is_told_and_costs_no_result() {
    let scratch = with_file("probe_unsaved");
    let words =
        "probe file --block 4KiB --method read --runtime 20ms --repetitions 1 --cached --no-control-runs";
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    let command = command.args(words.split(' ')).current_dir(&scratch.0);
    let output = command.env("XDG_STATE_HOME", scratch.0.join("file")).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the calibration was not saved"), "{said}");
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
    assert!(
        document["result"]["notes"].to_string().contains("measured cached instead of uncached"),
        "{document}"
    );
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
        ("probe file --method preads:4", "`preads:4` is not a method"),
        ("probe file --method pread:0", "from 1 to 1024"),
        ("probe file --op reads", "`reads` does not name operations"),
        ("probe file --op mix:100", "`mix:100` does not name operations"),
        ("probe file --op write", "file would be overwritten"),
        ("probe file --op read,mix:5", "file would be overwritten"),
        ("probe file --block 0", "from 512 bytes to 2GiB"),
        ("probe file --block 4GiB", "from 512 bytes to 2GiB"),
        ("probe file --runtime 0", "from 10ms to 1h"),
        ("probe file --runtime 5", "the unit is missing"),
        ("probe file --runtime 3601s", "from 10ms to 1h"),
        ("probe file --repetitions 0", "1..=1000"),
        ("probe file --out tiny", "--out needs a directory"),
        ("probe file --out tiny/out", "cannot create the directory tiny/out"),
        (
            "probe file --calibration nowhere/x",
            "cannot write nowhere/x: the directory nowhere does not exist",
        ),
        ("probe . --size 0", "an empty test file"),
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

/// Runs the command in a shell after other commands.
fn after(scratch: &Scratch, before: &str, words: &str) -> Output {
    let line = format!("{before} && exec {} {words}", env!("CARGO_BIN_EXE_sakiyomi"));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).current_dir(&scratch.0).env("XDG_STATE_HOME", state_home());
    shell.output().unwrap()
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
    // The file could not be measured with these options either, which would be reported if it were tried.
    let words = "probe file --block 1000 --direct --on tmpfs --size 1MiB";
    let said = String::from_utf8(after(&scratch, "ulimit -f 16", words).stderr).unwrap();
    assert!(said.contains("ulimit -f"), "{said}");
}

#[test]
fn a_method_that_reads_nothing_does_not_hide_that_none_could_read() {
    // It contains less than its size says.
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
        .env("XDG_STATE_HOME", state_home())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // By then it handles Ctrl-C, and a little later it reads.
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
    let words = format!("probe file --block 4KiB --method read --no-control-runs {QUICK} | true");
    let output = after(&scratch, "set -o pipefail 2>/dev/null; true", &words);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
