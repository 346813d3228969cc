//! `trace record`: the requests of a loop device, which needs root, tracefs and loop devices.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use sakiyomi_os::loop_device::LoopDevice;
use sakiyomi_os::tracefs::check_block;
use sakiyomi_testing::{signals_are_default, skipped, wait_until};
use serde_json::Value;

use crate::scratch::{Scratch, json};

const DISK_BYTES: u64 = 16 << 20;

/// Returns a loop device on a file of the directory, if requests of one can be recorded here.
fn disk(scratch: &Scratch, test: &str) -> Option<(LoopDevice, String)> {
    if let Err(why) = check_block() {
        skipped(test, why);
        return None;
    }
    File::create(scratch.0.join("disk")).unwrap().set_len(DISK_BYTES).unwrap();
    match LoopDevice::attach(&scratch.0.join("disk"), false, false) {
        Ok(device) => {
            let path = device.path().display().to_string();
            Some((device, path))
        }
        Err(why) => {
            skipped(test, why);
            None
        }
    }
}

fn write(path: &str) -> String {
    format!("dd if=/dev/zero of={path} bs=64k count=5 seek=3 oflag=direct conv=notrunc,fsync status=none")
}

/// Returns the columns of the trace's rows with this operation: offset, length, arrival, start and response.
fn rows(scratch: &Scratch, trace: &str, op: &str) -> Vec<[u64; 5]> {
    let text = scratch.ok(&format!("trace convert {trace} -"));
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let at = |name: &str| header.iter().position(|&column| column == name).unwrap();
    let columns = ["offset_bytes", "length_bytes", "time_ns", "started_ns", "response_ns"].map(at);
    lines.filter(|row| row[at("op")] == op).map(|row| columns.map(|at| row[at].parse().unwrap())).collect()
}

#[test]
fn the_requests_of_a_command_are_recorded_with_their_times() {
    let scratch = Scratch::new("record");
    let Some((_device, path)) = disk(&scratch, "the_requests_of_a_command_are_recorded") else { return };
    for (trace, of) in [("work.csv.gz", &*path), ("work.parquet", path.trim_start_matches("/dev/"))] {
        let output = scratch.run(&format!("trace record {of} -o {trace} --json -- {}", write(&path)));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{said}");
        let found = json(&said[said.find('{').unwrap()..]);
        let result = &found["result"];
        assert_eq!((&found["schema"], &result["path"]), (&"sakiyomi.trace-recorded/1".into(), &trace.into()));
        assert_eq!(result["device"], *path.trim_start_matches("/dev/"));
        assert_eq!((&result["start_bytes"], &result["lost_events"]), (&0.into(), &0.into()));
        assert_eq!(result["failed_requests"], 0);
        let rows = rows(&scratch, trace, "write");
        let extents: Vec<_> = rows.iter().map(|row| (row[0], row[1])).collect();
        assert_eq!(extents, [3, 4, 5, 6, 7].map(|block| (block << 16, 1 << 16)));
        for [_, _, arrived, started, response] in rows {
            assert!(arrived <= started && started < arrived + response, "{arrived} {started} {response}");
            assert!(arrived + response <= result["elapsed_ns"].as_u64().unwrap() + 2_000_000_000);
        }
        assert_eq!((&result["writes"], &result["written_bytes"]), (&5.into(), &(5 << 16).into()));
        assert_eq!((&result["given_up_requests"], &result["ended_early"]), (&0.into(), &false.into()));
        let number = |key: &str| result[key].as_f64().unwrap();
        let (seconds, records) = (number("elapsed_ns") / 1e9, number("records"));
        assert!((number("requests_per_s") * seconds / records - 1.0).abs() < 1e-9, "{result}");
        let responses = records * result["response_ns"]["mean"].as_f64().unwrap() / 1e9;
        assert!((number("queue_depth_mean") * seconds / responses - 1.0).abs() < 1e-6, "{result}");
    }
}

#[test]
fn a_recording_ends_by_time_and_by_signals_and_is_whole() {
    let scratch = Scratch::new("record_ends");
    let Some((_device, path)) = disk(&scratch, "a_recording_ends_by_time_and_by_signals") else { return };
    let said = scratch.ok(&format!("trace record {path} --for 50ms -o timed.csv"));
    assert!(said.contains(", recorded for "), "{said}");
    for signal in ["INT", "TERM"] {
        // A shell's background job ignores SIGINT, and so would the process.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_sakiyomi")]);
        let words = ["trace", "record", &path, "-o", "ended.csv"];
        let command =
            command.args(words).current_dir(&scratch.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut notes = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("recording loop") {
            line.clear();
            assert_ne!(notes.read_line(&mut line).unwrap(), 0, "it says that it records");
            if line.starts_with("env: ") {
                process.wait().unwrap();
                return skipped("a_recording_ends_by_time_and_by_signals", line);
            }
        }
        let wrote = Command::new("sh").args(["-c", &write(&path)]).status().unwrap();
        assert!(wrote.success() && !scratch.0.join("ended.csv").exists(), "the trace appears at the end");
        let kill = Command::new("kill").args(["-s", signal, &process.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{signal}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("writes             5, 320 KiB"));
        assert_eq!(rows(&scratch, "ended.csv", "write").len(), 5);
        std::fs::remove_file(scratch.0.join("ended.csv")).unwrap();
    }
    let text = scratch.ok(&format!("trace record {path} --for 10ms -o -"));
    assert!(text.starts_with("time_ns,device,"), "{text}");
}

#[test]
fn a_recording_started_by_nohup_outlives_its_terminal() {
    let test = "a_recording_started_by_nohup";
    let scratch = Scratch::new("record_nohup");
    let Some((_device, path)) = disk(&scratch, test) else { return };
    if !signals_are_default(test, &[15]) {
        return;
    }
    let binary = env!("CARGO_BIN_EXE_sakiyomi");
    let script = format!("trap '' HUP INT; exec {binary} trace record {path} -o kept.csv");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(&scratch.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut notes = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("recording loop") {
        line.clear();
        assert_ne!(notes.read_line(&mut line).unwrap(), 0, "it says that it records");
    }
    let number = process.id().to_string();
    let send = |signal: &str| {
        let kill = Command::new("kill").args(["-s", signal, &number]).status();
        assert!(kill.unwrap().success());
    };
    send("HUP");
    send("INT");
    wait_until("the signals are read", || {
        let status = std::fs::read_to_string(format!("/proc/{number}/status")).unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:\t")).unwrap();
        u64::from_str_radix(pending, 16).unwrap() == 0
    });
    let wrote = Command::new("sh").args(["-c", &write(&path)]).status().unwrap();
    assert!(wrote.success() && process.try_wait().unwrap().is_none());
    send("TERM");
    assert!(process.wait().unwrap().success());
    assert_eq!(rows(&scratch, "kept.csv", "write").len(), 5);
}

#[test]
fn the_command_keeps_its_exit_code_and_output() {
    let scratch = Scratch::new("record_command");
    let Some((_device, path)) = disk(&scratch, "the_command_keeps_its_exit_code") else { return };
    scratch.file("job.sh", "echo out; exit 7\n");
    let output = scratch.run(&format!("trace record {path} -o t.csv -- sh job.sh"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(7), &b"out\n"[..]), "{said}");
    assert!(
        said.contains("The device got no request.") && said.contains("written: t.csv, 0 records"),
        "{said}"
    );
    let output = scratch.run(&format!("trace record {path} -o none.csv -- no-such-program"));
    assert_eq!(output.status.code(), Some(127));
    assert!(!scratch.0.join("none.csv").exists());
    assert!(scratch.names(".").iter().all(|name| !name.contains("none.csv")), "{:?}", scratch.names("."));
    let output = scratch.run(&format!("trace record {path} -o - -- true"));
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn what_cannot_be_recorded_is_refused_in_a_sentence() {
    let scratch = Scratch::new("record_refused");
    let missing = scratch.refused("trace record missing -o t.csv");
    assert_eq!(missing, "sakiyomi: cannot record missing: No such file or directory\n");
    let memory = scratch.refused("trace record /proc/self -o t.csv");
    assert!(memory.contains("cannot record /proc/self: it is neither a block device nor on one"), "{memory}");
    assert!(scratch.names(".").is_empty(), "no trace is left");
    // The driver of memory that looks like a disk.
    if std::fs::exists("/dev/zram0").unwrap() {
        let said = scratch.refused("trace record /dev/zram0 -o t.csv");
        assert!(said.contains("cannot record /dev/zram0: the driver of zram0 takes no requests"), "{said}");
    } else {
        skipped("what_cannot_be_recorded", "there is no /dev/zram0 to refuse");
    }
    if check_block().is_err() {
        let said = scratch.refused("trace record . -o t.csv");
        assert!(said.starts_with("sakiyomi: cannot record .: "), "{said}");
        return skipped("what_cannot_be_recorded", "recording without root was tried as it is here");
    }
    let Some((_device, path)) = disk(&scratch, "what_cannot_be_recorded") else { return };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "--inh-caps=-all", env!("CARGO_BIN_EXE_sakiyomi")]);
    command.args(["trace", "record", &path, "-o", "/tmp/none.csv", "--for", "1ms"]).current_dir("/");
    let Ok(output) = command.output() else {
        return skipped("what_cannot_be_recorded", "setpriv is not installed");
    };
    let said = String::from_utf8(output.stderr).unwrap();
    if said.contains("setpriv") {
        return skipped("what_cannot_be_recorded", said);
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    let wanted = format!("sakiyomi: cannot record {path}: tracing needs root: run sakiyomi with sudo\n");
    assert_eq!(said, wanted);
}

/// A device's requests that a user's tools printed are read by all commands.
#[test]
fn text_of_other_tools_is_taken_by_the_commands() {
    let scratch = Scratch::new("record_text");
    let data = |name: &str| format!("{}/../trace/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    for (name, format) in
        [("recorded.ftrace", "ftrace"), ("recorded.blkparse", "blkparse"), ("recorded.biosnoop", "biosnoop")]
    {
        let found: Value = json(&scratch.ok(&format!("trace info {} --json", data(name))));
        assert_eq!((&found["result"]["format"], &found["result"]["devices"]), (&format.into(), &1.into()));
        assert!(found["result"]["response_ns"]["count"].as_u64().unwrap() >= 5);
        scratch.ok(&format!("trace convert {} {format}.parquet --action I", data(name)));
        scratch.ok(&format!("sim {format}.parquet --drive nearline-18tb"));
    }
    let few = scratch.refused(&format!("validate {} --drive nearline-18tb", data("recorded.ftrace")));
    assert!(few.contains("the request has no measured response time; "), "{few}");
    scratch.ok(&format!("validate {} --drive nearline-18tb", data("recorded.biosnoop-libbpf")));
}
