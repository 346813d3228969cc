//! `explain` and `whatif` from the user's view: the program is not disturbed, the ledger has the waits that a program
//! measured itself, and wrong input is refused in a sentence.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use sakiyomi_os::tracefs;
use sakiyomi_testing::{signals_are_default, skipped, unless_too_busy, wait_until};
use serde_json::{Value, json};

use crate::fuse::can_mount;
use crate::scratch::{Scratch, json as parsed};
use crate::slow::{Slow, number};

fn explain(scratch: &Scratch, options: &str, program: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.arg("explain").args(options.split_whitespace()).arg("--").args(program);
    command.current_dir(&scratch.0).output().unwrap()
}

/// Returns the result of `explain`.
fn explained(scratch: &Scratch, options: &str, program: &[&str]) -> Value {
    let output = explain(scratch, &format!("{options} --out out --quiet"), program);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = parsed(&fs::read_to_string(scratch.0.join("out/result.json")).unwrap());
    assert_eq!(document["schema"], "sakiyomi.explanation/1");
    assert!(fs::read_to_string(scratch.0.join("out/report.html")).unwrap().ends_with("</html>"));
    document["result"].clone()
}

/// Returns the sum of the terms of these kinds, in seconds.
fn seconds(result: &Value, kinds: &[&str]) -> f64 {
    let terms = result["terms"].as_array().unwrap();
    let of_kind = terms.iter().filter(|term| kinds.iter().any(|kind| term["kind"] == *kind));
    of_kind.map(|term| number(term, "time_ns")).sum::<u64>() as f64 / 1e9
}

#[test]
fn an_explained_program_ends_and_prints_as_it_does_alone() {
    if !signals_are_default("an_explained_program_ends", &[2, 15]) {
        return;
    }
    let scratch = Scratch::new("explain_ends");
    for options in ["", "--sampled"] {
        for code in [0, 1, 77] {
            let output = explain(&scratch, options, &["sh", "-c", &format!("echo out; exit {code}")]);
            assert_eq!((output.status.code(), &*output.stdout), (Some(code), &b"out\n"[..]));
        }
        let output = explain(&scratch, options, &["sh", "-c", "kill -TERM $$"]);
        assert_eq!(output.status.signal(), Some(15));
    }
    let output = explain(&scratch, "", &["./missing"]);
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn a_recording_is_explained_again_and_refused_if_it_is_damaged() {
    let scratch = Scratch::new("explain_again");
    let first = explained(&scratch, "--save job.rec --sampled", &["sh", "-c", "sleep 0.05"]);
    let again = scratch.ok("explain --recording job.rec --json");
    let mut again = parsed(&again)["result"].clone();
    // A recording does not know how the program ended.
    again["exit_code"] = first["exit_code"].clone();
    assert_eq!(again, first);

    let whole = fs::read(scratch.0.join("job.rec")).unwrap();
    let mut state = 20_261_128_u64;
    for round in 0..60 {
        let mut bytes = whole.clone();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 33) as usize % bytes.len();
        match round % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] = (state >> 20) as u8,
            _ => drop(bytes.splice(at..at, *b"9")),
        }
        scratch.file("damaged.rec", bytes);
        for words in ["explain --recording damaged.rec --json", "whatif damaged.rec --memory 1GiB"] {
            let output = scratch.run(words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(0 | 2 | 125)), "{words}: {said}");
            assert!(!said.contains("panicked"), "{words}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_explained_is_refused_in_a_sentence() {
    let scratch = Scratch::new("explain_refused");
    scratch.file("text", "no recording");
    scratch.file("other.rec", "{\"schema\": \"sakiyomi.recording/9\"}");
    for (words, code, says) in [
        ("explain", 125, "COMMAND"),
        ("explain --pid 4194304", 125, "cannot record process 4194304: no such process\n"),
        ("explain --save missing/job.rec -- touch ran", 125, "cannot save the recording as missing/job.rec"),
        ("explain --recording missing", 125, "cannot read the recording missing"),
        ("explain --recording text", 125, "text is not a recording"),
        ("explain --for 3s -- true", 125, "--pid"),
        ("explain --try --pid 1", 125, "cannot be used with"),
        ("whatif other.rec --run", 2, "other.rec is not a recording"),
        ("whatif text --run", 2, "text is not a recording"),
        ("whatif text --memory 5", 2, "--memory 5B: a page cache of less than 1MiB is not simulated"),
    ] {
        let output = scratch.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains(says), "{words}: {said}");
    }
    assert!(!scratch.0.join("ran").exists());
}

/// A recording of ten scattered reads of 10 ms each, with 1 ms of computing after each.
pub(crate) fn ten_reads() -> Value {
    let (mut spans, mut accesses) = (Vec::new(), Vec::new());
    for read in 0..10u64 {
        let begun = read * 11_000_000;
        let wait = json!({"read": {"file": 0, "pattern": "scattered"}});
        spans.push(json!({"begun_ns": begun, "ended_ns": begun + 10_000_000,
            "state": {"waiting": {"wait": wait, "woken_by": null}}}));
        spans.push(
            json!({"begun_ns": begun + 10_000_000, "ended_ns": begun + 11_000_000, "state": "computing"}),
        );
        accesses.push(json!({"begun_ns": begun, "ended_ns": begun + 10_000_000, "kind": "read", "file": 0,
            "offset": (read * 7 % 10) << 20, "length": 4096, "calls": 1, "loaded_bytes": 4096}));
    }
    json!({
        "schema": "sakiyomi.recording/1", "program": ["reader"], "elapsed_ns": 110_000_000, "method": "traced", "notes": [],
        "machine": {"cores": 2, "memory_bytes": 1 << 30},
        "storage": {"device": 7, "latency_ns": 10_000_000, "parallel": 32, "bandwidth_bytes_per_s": 1_000_000_000,
            "read_ahead_bytes": 131_072},
        "files": [{"device": 7, "inode": 1, "name": "/data/file", "size_bytes": 10 << 20, "is_sequential": false}],
        "threads": [{"id": 10, "name": "reader", "begun_ns": 0, "parent": null, "spans": spans, "accesses": accesses}],
    })
}

#[test]
fn a_recorded_program_is_predicted_on_other_storage() {
    let scratch = Scratch::new("whatif");
    scratch.file("job.rec", ten_reads().to_string());
    let words = "whatif job.rec --drive fixed:latency=1ms,parallel=8 --drive deskstar-7k250 --run --json";
    let said = scratch.ok(words);
    let result = parsed(&said)["result"].clone();
    assert_eq!(number(&result, "elapsed_ns"), 110_000_000);
    let predictions = result["predictions"].as_array().unwrap();
    assert_eq!(predictions.len(), 6);
    let on_fixed = number(&predictions[0], "predicted_ns") as f64;
    assert!((on_fixed - 20e6).abs() < 1e6, "{predictions:?}");
    assert_eq!(predictions[1]["change"], "fixed:latency=1ms,parallel=8, prefetching");
    // The same bytes each time, but for the circumstances.
    assert_eq!(parsed(&scratch.ok(words))["result"], result);
    assert!(scratch.ok("whatif job.rec --run").contains("prefetching"));

    let output = scratch.run("whatif job.rec");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing is different"));
    let said = scratch.ok("explain --recording job.rec");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("90.9 % of 110 ms reader waits for scattered reads of /data/file (100 ms)."),
        "{said}"
    );
    // Scattered reads can be read ahead only if they are known.
    assert!(
        said.contains("With prefetching learned from a run before that read the same it would take"),
        "{said}"
    );
    assert!(said.contains("To apply it: sakiyomi run --learn -- reader"), "{said}");
    scratch.ok("explain --recording job.rec --out report");
    let report = fs::read_to_string(scratch.0.join("report/report.html")).unwrap();
    assert!(report.contains("Where the time went") && report.ends_with("</html>"));
}

#[test]
fn storage_that_is_here_is_measured_and_predicted() {
    let scratch = Scratch::new("whatif_on");
    scratch.file("job.rec", ten_reads().to_string());
    scratch.file("small", "too small to measure anything by it");
    fs::create_dir(scratch.0.join("directory")).unwrap();
    for (words, problem) in [("missing", "No such file"), ("small", "smaller than 1 MiB")] {
        let output = scratch.run(&format!("whatif job.rec --on {words}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("cannot measure the storage of {words}")), "{said}");
        assert!(said.contains(problem), "{said}");
    }
    let output = scratch.run("whatif job.rec --on directory --json");
    if String::from_utf8_lossy(&output.stderr).contains("cannot be dropped from the page cache") {
        return skipped("storage_that_is_here", "the scratch directory is in memory");
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = parsed(&String::from_utf8(output.stdout).unwrap())["result"].clone();
    assert_eq!(result["predictions"][0]["change"], "on directory");
    // It computes for 10 ms, whatever the storage.
    assert!(number(&result["predictions"][0], "predicted_ns") >= 9_900_000, "{result}");
    assert_eq!(fs::read_dir(scratch.0.join("directory")).unwrap().count(), 0);
}

#[test]
fn storage_of_known_latency_is_measured() {
    let name = "storage_of_known_latency";
    if !can_mount(name) {
        return;
    }
    let scratch = Scratch::new("whatif_on_slow");
    scratch.file("job.rec", ten_reads().to_string());
    let _slow = Slow::on(&scratch, "fixed:latency=20ms,parallel=8", &[("file", 4 << 20)]);
    unless_too_busy(|| {
        let said = scratch.ok("whatif job.rec --on slow/file --json");
        let result = parsed(&said)["result"].clone();
        // Ten reads of 20 ms, and 10 ms of computing.
        let predicted = number(&result["predictions"][0], "predicted_ns") as f64 / 1e6;
        if (200.0..260.0).contains(&predicted) { Ok(()) } else { Err(format!("{predicted} ms")) }
    });
}

#[test]
fn a_program_goes_on_when_its_recorder_is_killed() {
    for options in ["", "--sampled"] {
        let scratch = Scratch::new("explain_killed");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command.arg("explain").args(options.split_whitespace()).args(["--save", "job.rec", "--"]);
        command.args(["sh", "-c", "echo > begun; sleep 0.4; echo > ended"]).current_dir(&scratch.0);
        let mut recorder = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the program runs", || scratch.0.join("begun").exists());
        recorder.kill().unwrap();
        assert_eq!(recorder.wait().unwrap().signal(), Some(9));
        wait_until("the program ends", || scratch.0.join("ended").exists());
        // Neither a recording nor a part of one.
        let names = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, ["begun", "ended"]);
    }
}

/// Measures its own waits: a timer, a cold file read in order, a cold mapping, written data, computing, and computing
/// beside another process on one core. The kernel counts the waits for a core.
const KNOWN: &str = r"
import json, mmap, os, sys, time
def timed(action):
    begun = time.monotonic()
    action()
    return time.monotonic() - begun
def read():
    file = os.open('slow/data', os.O_RDONLY)
    while os.read(file, 1 << 17): pass
def touch():
    file = os.open('slow/mapped', os.O_RDONLY)
    mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    for at in range(0, len(mapped), 4096): mapped[at]
def write():
    file = os.open('slow/written', os.O_CREAT | os.O_WRONLY)
    os.write(file, bytes(1 << 15))
    return timed(lambda: os.fsync(file))
def compute(seconds):
    begun = time.thread_time()
    while time.thread_time() - begun < seconds: pass
def compute_beside():
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    other = os.fork()
    while other == 0: pass
    compute(0.15)
    os.kill(other, 9)
    os.waitpid(other, 0)
    os.sched_setaffinity(0, cores)
times = {'timer': timed(lambda: time.sleep(0.4)), 'read': timed(read), 'mapping': timed(touch), 'sync': write()}
compute(0.3)
compute_beside()
times['core'] = int(open('/proc/thread-self/schedstat').read().split()[1]) / 1e9
times['computing'] = time.thread_time()
print(json.dumps(times))
";

#[test]
fn the_ledger_has_the_waits_that_the_program_measured_itself() {
    let name = "the_ledger_has_the_waits";
    if let Err(why) = tracefs::check() {
        return skipped(name, why);
    }
    if !can_mount(name) {
        return;
    }
    // Itself, and not a script that looks for it and computes as well.
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable, end='')"]).output();
    let Ok(python) = python.map(|output| String::from_utf8(output.stdout).unwrap()) else {
        return skipped(name, "needs python3");
    };
    let scratch = Scratch::new("explain_known");
    let _slow = Slow::new(&scratch, &[("data", 6 << 20), ("mapped", 4 << 20)]);
    unless_too_busy(|| {
        fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
        let output = explain(&scratch, "--out out --quiet --force", &[&python, "-c", KNOWN]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let known = parsed(&String::from_utf8(output.stdout).unwrap());
        let result =
            parsed(&fs::read_to_string(scratch.0.join("out/result.json")).unwrap())["result"].clone();
        let elapsed = number(&result, "elapsed_ns") as f64 / 1e9;
        let all: f64 =
            result["terms"].as_array().unwrap().iter().map(|term| number(term, "time_ns") as f64 / 1e9).sum();
        assert!((all - elapsed).abs() < 1e-6, "{all} {elapsed}");
        // Every term within a twentieth of the elapsed time.
        for (key, kinds) in [
            ("timer", &["timer"][..]),
            ("read", &["sequential-read", "scattered-read"]),
            ("mapping", &["mapping"]),
            ("sync", &["sync"]),
            ("core", &["awaiting-core"]),
            ("computing", &["computing"]),
        ] {
            let (found, expected) = (seconds(&result, kinds), known[key].as_f64().unwrap());
            if (found - expected).abs() > 0.05 * elapsed {
                return Err(format!("{key}: {found} s, measured {expected} s: {result}"));
            }
        }
        let unknown = seconds(&result, &["not-attributed"]);
        if unknown > 0.05 * elapsed {
            return Err(format!("not attributed: {unknown} s of {elapsed} s"));
        }
        // Fitted to the storage of 10 ms, on which prefetching helps.
        let Some(latency) = result["storage"]["latency_ns"].as_u64() else {
            return Err(format!("{}: {known} of {elapsed} s", result["not_predicted"]));
        };
        let latency = latency as f64 / 1e6;
        if !(5.0..20.0).contains(&latency) {
            return Err(format!("latency {latency} ms, and {known} of {elapsed} s"));
        }
        // Where other programs take most of the time, the gain is lost in the interval.
        let reads = seconds(&result, &["sequential-read", "mapping"]);
        let proposed = result["predictions"].as_array().unwrap().iter().any(|one| one["is_proposed"] == true);
        if proposed || reads < 0.3 * elapsed { Ok(()) } else { Err(result.to_string()) }
    });
}
