//! `serve` as a process: ways to end, what it leaves, and what is refused.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use sakiyomi_testing::wait_until;

use crate::client::{Client, FLUSH};
use crate::scratch::{Scratch, json};

/// A server, killed at the end if it has not ended.
struct Served {
    process: Child,
    errors: BufReader<ChildStderr>,
}

impl Served {
    /// Starts `sakiyomi serve OPTIONS --nbd disk.sock`, and returns when it listens.
    fn start(scratch: &Scratch, options: &str) -> Served {
        let words = format!("serve {options} --nbd disk.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command.args(words.split_whitespace()).current_dir(&scratch.0).env("TMPDIR", &scratch.0);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening on ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it ended");
        }
        assert!(
            line.contains("nbd+unix:///?socket=/") && line.ends_with("disk.sock; Ctrl-C ends it\n"),
            "{line}"
        );
        Served { process, errors }
    }

    fn signal(&self, name: &str) {
        let number = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &number]).status().unwrap().success());
    }

    /// Waits for the end; returns exit code, standard output, and the rest of standard error.
    fn ended(mut self) -> (Option<i32>, String, String) {
        wait_until("it does not end", || self.process.try_wait().unwrap().is_some());
        let (mut text, mut errors) = (String::new(), String::new());
        self.process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.errors.read_to_string(&mut errors).unwrap();
        (self.process.wait().unwrap().code(), text, errors)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn client(scratch: &Scratch) -> Client {
    Client::connect(&scratch.0.join("disk.sock"), "", true).unwrap()
}

fn disk(scratch: &Scratch) {
    scratch.file("disk.img", vec![0; 1 << 20]);
}

#[test]
fn a_server_ends_by_a_signal_with_a_summary_a_trace_and_a_report_and_leaves_no_socket() {
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new(&format!("serve_{signal}"));
        disk(&scratch);
        let served = Served::start(&scratch, "disk.img --record trace.csv --json --out report");
        let mut client = client(&scratch);
        client.write(4096, &[7; 8192]);
        assert_eq!(client.read(4096, 8192), [7; 8192]);
        served.signal(signal);
        let (code, text, errors) = served.ended();
        assert_eq!(code, Some(0), "{signal}: {errors}");
        let document = json(&text);
        assert_eq!(document["schema"], "sakiyomi.serve/1");
        let result = &document["result"];
        let figures =
            ["accesses", "refused", "read_bytes", "written_bytes", "connections", "recorded", "size_bytes"];
        let figures = figures.map(|name| result[name].as_u64().unwrap());
        assert_eq!(figures, [2, 0, 8192, 8192, 1, 2, 1 << 20]);
        assert_eq!(fs::read_to_string(scratch.0.join("trace.csv")).unwrap().lines().count(), 3);
        let page = fs::read_to_string(scratch.0.join("report/report.html")).unwrap();
        assert!(page.contains("disk.img at nbd+unix"));
        assert!(!scratch.0.join("disk.sock").exists());
        assert_eq!(&fs::read(scratch.0.join("disk.img")).unwrap()[4096..12288], [7; 8192]);
    }
}

#[test]
fn a_killed_server_keeps_what_was_flushed_and_its_socket_can_be_used_again() {
    let scratch = Scratch::new("serve_killed");
    disk(&scratch);
    for options in ["disk.img", "disk.img --drive deskstar-7k250 --speed 1000"] {
        for round in 1..4 {
            let served = Served::start(&scratch, options);
            let (mut first, mut second) = (client(&scratch), client(&scratch));
            let before = if options.contains("drive") || round > 1 { None } else { Some(0) };
            assert!(before.is_none_or(|byte| first.read(0, 1) == [byte]));
            for block in 0..16 {
                first.write(block * 5000, &[round; 5000]);
            }
            // A flush of one connection covers the writes of all.
            second.ask(FLUSH, 0, 0, 0, &[]).unwrap();
            first.send(crate::client::WRITE, 0, 500_000, 4096, &[99; 4096]);
            served.signal("KILL");
            drop(served);
            assert!(fs::read(scratch.0.join("disk.img")).unwrap()[..80_000] == vec![round; 80_000]);
            assert!(scratch.0.join("disk.sock").exists(), "a kill leaves it");
        }
    }
}

#[test]
fn a_line_a_second_and_a_result_are_objects_of_one_line_each() {
    let scratch = Scratch::new("serve_stats");
    let mut served = Served::start(&scratch, "--drive fixed:latency=1ms --stats --json");
    let mut client = client(&scratch);
    (0..50).for_each(|block| drop(client.read(block * 4096, 4096)));
    let mut lines = BufReader::new(served.process.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let second = json(&line);
    assert_eq!(second["schema"], "sakiyomi.serve-second/1");
    assert!(second["result"]["accesses_per_s"].as_f64().unwrap() > 1.0);
    served.signal("INT");
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let last = json(rest.lines().last().unwrap());
    assert_eq!((&last["schema"], &last["result"]["accesses"]), (&"sakiyomi.serve/1".into(), &50.into()));
    assert!(last["result"]["lateness_ns"]["p99"].is_u64());
}

#[test]
fn a_command_runs_with_the_address_and_its_exit_code_is_that_of_serve() {
    let scratch = Scratch::new("serve_command");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command.args(["serve", "--drive", "fixed", "--nbd", "disk.sock"]).args(words).current_dir(&scratch.0);
        command.env("TMPDIR", &scratch.0).output().unwrap()
    };
    let output = run(&["--json", "--", "sh", "-c", "test -S disk.sock && echo \"$NBD_URI\"; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let uri = String::from_utf8(output.stdout).unwrap();
    assert!(uri.starts_with("nbd+unix:///?socket=/") && uri.ends_with("/disk.sock\n"), "{uri}");
    let errors = String::from_utf8(output.stderr).unwrap();
    let result = json(&errors[errors.find('{').unwrap()..]);
    assert_eq!(result["result"]["program"]["exit_code"], 7);
    assert!(!scratch.0.join("disk.sock").exists());
    let output = run(&["--", "/absent/program"]);
    assert_eq!((output.status.code(), scratch.0.join("disk.sock").exists()), (Some(127), false));
    let output = run(&["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(15));
    // The command does not inherit the priority of the threads that serve.
    let output = run(&["--quiet", "--", "nice"]);
    assert_eq!(output.stdout, Command::new("nice").output().unwrap().stdout);
    assert!(output.stderr.is_empty());
}

#[test]
fn what_cannot_be_served_is_refused_in_a_sentence() {
    let scratch = Scratch::new("serve_refused");
    disk(&scratch);
    scratch.file("empty", "");
    let refused = |words: &str| scratch.refused(&format!("serve {words}"));
    assert!(refused("--nbd disk.sock").contains("--drive"));
    assert!(refused("absent --nbd disk.sock").contains("cannot open absent"));
    assert!(refused("empty --nbd disk.sock").contains("empty is empty"));
    assert!(refused("disk.img --nbd disk.img").contains("is there already and is not a socket"));
    assert!(refused("disk.img --nbd 99999").contains("\"99999\" is not an address"));
    assert!(refused("disk.img --nbd absent/disk.sock").contains("cannot listen on absent/disk.sock"));
    assert!(refused("disk.img --nbd a --rate 20%").contains("--regulate"));
    assert!(refused("disk.img --nbd a --regulate --rate fast").contains("give 1% to 100%"));
    assert!(refused("disk.img --nbd a --regulate --rate x=20%").contains("\"x\" is not an export"));
    assert!(refused("disk.img --nbd a --regulate --rate 20% --rate 5%").contains("two rates"));
    assert!(refused("disk.img --nbd a --export x --export x").contains("named twice"));
    assert!(refused("disk.img --nbd a --drive fixed --set x=1").contains("--set and --array"));
    assert!(refused("disk.img --nbd a --drive fixed --speed 0").contains("speed"));
    assert!(refused("disk.img --nbd a --regulate --rate 100%").contains("100 % cannot be kept"));
    let _served = Served::start(&scratch, "disk.img");
    assert!(refused("disk.img --nbd other.sock").contains("disk.img is in use"));
    scratch.file("other.img", vec![0; 1 << 20]);
    assert!(refused("other.img --nbd disk.sock").contains("another program listens on disk.sock"));
}
