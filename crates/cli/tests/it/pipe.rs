//! Traces and texts through pipes: `-` is standard input and standard output.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use sakiyomi_testing::wait_until;

use crate::scratch::{Scratch, json, repository};

/// Runs a line of shell in which `$0` is sakiyomi.
fn shell(scratch: &Scratch, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -o pipefail; {line}"), env!("CARGO_BIN_EXE_sakiyomi")]);
    command.current_dir(&scratch.0).output().unwrap()
}

#[test]
fn a_trace_through_a_pipe_is_that_of_a_file() {
    let scratch = Scratch::new("pipe");
    let trace = repository("traces/msr_hm0.csv.gz");
    scratch.ok(&format!("trace convert {trace} file.csv"));
    scratch.ok("trace generate zipf generated.csv --count 300 --seed 3");
    let file = fs::read(scratch.0.join("file.csv")).unwrap();

    let piped = shell(&scratch, &format!("\"$0\" trace convert {trace} -"));
    assert!(piped.status.success() && piped.stdout == file, "{}", String::from_utf8_lossy(&piped.stderr));
    assert!(piped.stderr.is_empty(), "a pipe needs no note of what was written");
    let generated = shell(&scratch, "\"$0\" trace generate zipf - --count 300 --seed 3");
    assert_eq!(generated.stdout, fs::read(scratch.0.join("generated.csv")).unwrap());

    let figures = |output: &Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut result = json(&String::from_utf8_lossy(&output.stdout))["result"].clone();
        result["trace"].take();
        result
    };
    let sim = "sim - --drive deskstar-7k250 --json";
    let of_pipe = shell(&scratch, &format!("\"$0\" trace convert {trace} - | \"$0\" {sim}"));
    let of_file = shell(&scratch, &format!("\"$0\" sim {trace} --drive deskstar-7k250 --json"));
    assert_eq!(figures(&of_pipe), figures(&of_file));
}

#[test]
fn every_format_and_compression_is_recognized_on_standard_input() {
    let scratch = Scratch::new("pipe_formats");
    let trace = repository("traces/msr_hm0.csv.gz");
    let records = |output: Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        json(&String::from_utf8_lossy(&output.stdout))["result"]["records"].clone()
    };
    for (to, format) in [
        ("sakiyomi", ""),
        ("disksim", ""),
        ("fio", ""),
        // Its columns could be DiskSim's.
        ("mqsim", "--format mqsim"),
    ] {
        let line = format!("\"$0\" trace convert {trace} - --to {to} | \"$0\" trace info - --json {format}");
        assert_eq!(records(shell(&scratch, &line)), 1000, "{to}");
    }
    for name in ["plain.csv", "packed.csv.gz", "packed.csv.zst"] {
        scratch.ok(&format!("trace convert {trace} {name}"));
        let line = format!("\"$0\" trace info - --json < {name}");
        assert_eq!(records(shell(&scratch, &line)), 1000, "{name}");
    }
    let columns = shell(&scratch, &format!("\"$0\" trace convert {trace} - --to parquet > columns.parquet"));
    assert!(columns.status.success());
    assert_eq!(json(&scratch.ok("trace info columns.parquet --json"))["result"]["records"], 1000);
}

#[test]
fn standard_output_has_nothing_but_the_trace() {
    let scratch = Scratch::new("pipe_data");
    let output = scratch.run("trace generate sequential - --count 3 --json");
    let data = String::from_utf8(output.stdout).unwrap();
    assert_eq!(data.lines().count(), 4, "{data}");
    let summary = json(&String::from_utf8(output.stderr).unwrap());
    assert_eq!((&summary["result"]["records"], &summary["result"]["path"]), (&3.into(), &"-".into()));
}

#[test]
fn a_trace_that_breaks_off_ends_with_an_error_after_what_is_good() {
    let scratch = Scratch::new("pipe_error");
    let lines = "time_ns,op,offset_bytes,length_bytes\n0,read,0,4096\n5,write,8192,4096\nseven,read,0,4096\n";
    scratch.file("damaged.csv", lines);
    let output = scratch.run("trace convert damaged.csv -");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("at line 4: the column time_ns holds `seven`"));
    let data = String::from_utf8(output.stdout).unwrap();
    assert!(data.is_empty() || data.starts_with("time_ns,"), "{data}");
}

#[test]
fn a_reader_that_has_seen_enough_of_a_trace_is_no_error() {
    let scratch = Scratch::new("pipe_head");
    let line = "\"$0\" trace generate random - --count 200000 | head -n 1; echo ${PIPESTATUS[0]}";
    let output = shell(&scratch, line);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("time_ns,") && said.ends_with("\n0\n"), "{said}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Signal numbers are bits from 0 on in the sets of `/proc`.
const SIGTERM_BIT: u64 = 1 << 14;

#[test]
fn a_command_started_by_nohup_outlives_its_terminal() {
    let scratch = Scratch::new("nohup");
    let script = format!("trap '' HUP; exec {} trace convert - -", env!("CARGO_BIN_EXE_sakiyomi"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(&scratch.0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    wait_until("its handlers are set", || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(caught, 16).unwrap() & SIGTERM_BIT != 0
    });
    for _ in 0..3 {
        let hung_up = Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap();
        assert!(hung_up.success());
    }
    child.stdin.take().unwrap().write_all(b"op,offset_bytes,length_bytes\nread,0,4096\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(0), 2), "{text}");
}
