//! Commands with unwritable standard output: the result is lost, which the exit code and an error message report.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::scratch::{Scratch, repository, state_home};

/// Arguments that make each command print a result. `TRACE` stands for a real trace, `MEASURED` and `MODEL` for a measured
/// one and its drive.
const PRINTING: &[&str] = &[
    "profile list",
    "profile list --json",
    "sim TRACE --drive deskstar-7k250",
    "sim TRACE --drive deskstar-7k250 --json",
    "compare a b",
    "compare a b --json",
    "sweep TRACE --drive deskstar-7k250 --vary queue.depth=1,2",
    "sweep TRACE --drive deskstar-7k250 --vary queue.depth=1,2 --shard 1/2 --out shards",
    "merge shard",
    "merge shard --json",
    "validate MEASURED --drive MODEL",
    "probe . --size 64KiB --block 4KiB --method read --runtime 10ms --repetitions 1 --no-control-runs --buffered",
    "scenario run small.toml",
    "reproduce waseda2013 --simulate-only",
    "scenario run small.toml --shard 1/1 --out shards",
    "wc words",
    "wc --json words",
    "grep a words",
    "grep -c a words",
    "grep --json a words",
    "trace info TRACE",
    "trace info TRACE --json",
    "trace convert TRACE there.csv --json",
    "trace generate random there.csv --count 1 --json",
    "trace generate sequential there.csv --count 1 --json",
    "trace generate interleaved there.csv --count 1 --json",
    "trace generate zipf there.csv --count 1 --json",
    "trace generate pc there.csv --count 100 --json",
    "trace convert TRACE -",
    "trace convert TRACE - --to parquet",
    "trace generate zipf - --count 1",
    "trace generate pc - --count 100 --to fio",
    "trace formats",
    "trace formats --json",
    "drive list",
    "drive list --json",
    "drive show nearline-18tb",
    "drive show nearline-18tb --explain",
    "drive show nearline-18tb --json",
    "drive import MODEL",
    "drive fit MEASURED --drive MODEL -o fitted.toml",
    "doctor",
    "doctor --json",
    "help",
    "help options",
    "help trace convert",
    "sort table.csv --by b --json",
    "sort table.csv --by b -o - --format csv",
    "join table.csv table.csv --on a --json",
    "aggregate table.csv --by a --count",
    "aggregate table.csv --by a --count --json",
    "query gen --sf 0.001 --tables orders -o made --json",
    "query q1 tpch/lineitem.parquet",
    "query calibrate --glance --json --calibration operators.json",
    "daemon unit",
    "completions bash",
    "completions zsh",
    "completions fish",
    "man",
    "stream run quiet.toml --unpinned",
    "stream run loud.toml --unpinned",
    "stream run quiet.toml --unpinned --snapshot quiet.snapshot",
    "stream plan quiet.toml --rate 5k",
    "stream sim quiet.toml --rate 5k --cores 2 --for 1ms",
    "stream topology --calibration cores.json",
    "--version",
    "-V",
];

/// Commands tested in `explain.rs` because they need recordings, in `mount.rs`, `serve.rs`, `iorate.rs` and `daemon.rs` because they need a mount or a daemon, in `query.rs` because they need calibrations, in
/// `measure.rs` because it needs direct I/O, in `record.rs` because it needs tracefs, and commands that print no result.
const ELSEWHERE: &[&str] = &[
    "drive measure",
    "trace record",
    "explain",
    "whatif",
    "run",
    "profile show",
    "profile save",
    "profile load",
    "profile forget",
    "daemon start",
    "daemon status",
    "mount",
    "serve",
    "umount",
    "iorate set",
    "iorate clear",
    "iorate list",
    "iorate run",
    "iorate top",
    "iorate calibrate",
    "stream export",
    "query explain sort",
    "query explain join",
    "query explain aggregate",
    "query explain q1",
];

/// Returns the names of the commands below `command`, as its help lists them.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Collects every command without subcommands, and every command with help.
fn all(scratch: &Scratch, command: &str, leaves: &mut Vec<String>, every: &mut Vec<String>) {
    every.push(command.to_owned());
    let below = listed(&scratch.ok(&format!("{command} --help")));
    if below.is_empty() {
        leaves.push(command.trim().to_owned());
    }
    below.iter().for_each(|name| all(scratch, format!("{command} {name}").trim(), leaves, every));
}

/// Runs `words` in a shell that redirects its standard output.
pub(crate) fn redirected(scratch: &Scratch, words: &str, to: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$@\" {to}"), "sh", env!("CARGO_BIN_EXE_sakiyomi")]);
    command.args(words.split_whitespace()).current_dir(&scratch.0).stdin(Stdio::null());
    command.env("XDG_STATE_HOME", state_home()).output().unwrap()
}

/// Asserts that `words` report that standard output cannot be written, and exit with `code`.
pub(crate) fn assert_output_needed(scratch: &Scratch, words: &str, code: i32) {
    assert!(Path::new("/dev/full").exists(), "Linux has /dev/full");
    for to in [">/dev/full", ">&-"] {
        let output = redirected(scratch, words, to);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words} {to}: {said}");
        let last = said.lines().last().unwrap_or_default();
        let tells = last.contains("standard output") || last.contains("write error");
        assert!(last.starts_with("sakiyomi: ") && tells, "{words} {to}: {said}");
    }
}

/// Returns the exit code of a failing command: that of GNU's `wc`, and of `env` for those that run a command.
fn failure_code(words: &str) -> i32 {
    match words.split_whitespace().collect::<Vec<_>>()[..] {
        ["wc", ..] => 1,
        ["run" | "explain", ..] | ["iorate", "run", ..] => 125,
        _ => 2,
    }
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_of_every_command() {
    let scratch = Scratch::new("stdout_result");
    let trace = repository("traces/msr_hm0.csv.gz");
    scratch.ok(&format!("trace convert {} whole.csv", repository("traces/cheetah9LP.trace.gz")));
    let whole = fs::read_to_string(scratch.0.join("whole.csv")).unwrap();
    let lines: Vec<&str> = whole.lines().take(200).collect();
    let measured = scratch.file("measured.csv", lines.join("\n"));
    let model = repository("traces/disksim/cheetah9LP.parv");
    scratch.file("words", "a\nb\n");
    scratch.file("table.csv", "a,b\n1,2\n3,1\n");
    scratch.ok("query gen --sf 0.001 --tables lineitem -o tpch");
    let pipeline = "[source.g]\nfrom = 'generator'\nrows = 1000\n[sink.out]\nto = ";
    scratch.file("quiet.toml", pipeline.to_owned() + "'discard'\n");
    scratch.file("loud.toml", pipeline.to_owned() + "'stdout'\n");
    let scenario = "name = 's'\ndrive.fixed = 'latency=1ms'\n[[process]]\nname = 'p'\nsize = '1MiB'\n";
    scratch.file("small.toml", scenario);
    scratch.ok("scenario run small.toml --shard 1/1 --out shard");
    for out in ["a", "b"] {
        scratch.ok(&format!("sim {trace} --drive deskstar-7k250 --out {out}"));
    }
    for words in PRINTING {
        let words = words.replace("TRACE", &trace).replace("MEASURED", &measured).replace("MODEL", &model);
        assert_output_needed(&scratch, &words, failure_code(&words));
    }
    let (mut leaves, mut every) = (Vec::new(), Vec::new());
    all(&scratch, "", &mut leaves, &mut every);
    let is_tried = |leaf: &&String| {
        PRINTING.iter().any(|words| words.starts_with(leaf.as_str())) || ELSEWHERE.contains(&leaf.as_str())
    };
    let untried: Vec<&String> = leaves.iter().filter(|leaf| !is_tried(leaf)).collect();
    assert!(untried.is_empty(), "say in PRINTING what makes these print: {untried:?}");
}

#[test]
fn help_that_cannot_be_written_is_an_error_of_every_command() {
    let scratch = Scratch::new("stdout_help");
    let (mut leaves, mut every) = (Vec::new(), Vec::new());
    all(&scratch, "", &mut leaves, &mut every);
    assert!(every.len() > 30, "{every:?}");
    for command in every {
        assert_output_needed(&scratch, &format!("{command} --help"), failure_code(&command));
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_command_quietly() {
    let scratch = Scratch::new("stdout_pipe");
    // The reader closes the pipe before anything is written.
    for words in
        ["--help", "--version", "sim --help", "man", "drive show nearline-18tb --explain", "completions zsh"]
    {
        let script = format!(
            "(sleep 0.2; exec {} {words}; ) | true; echo \"${{PIPESTATUS[0]}}\"",
            env!("CARGO_BIN_EXE_sakiyomi")
        );
        let output = Command::new("bash").args(["-c", &script]).current_dir(&scratch.0).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{words}");
        assert!(output.stderr.is_empty(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
