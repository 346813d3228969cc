//! `run` from the user's view: the program is not disturbed, and files are prefetched only where that can help.
//! Speeds are not tested.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::fuse::can_mount;
use crate::scratch::{Scratch, json};
use crate::slow::{Slow, command, number, result, run};
use sakiyomi_os::tracefs;
use sakiyomi_testing::{signals_are_default, skipped, unless_too_busy, wait_until};

#[test]
fn it_ends_as_the_program_ends() {
    if !signals_are_default("it_ends_as_the_program_ends", &[2, 15]) {
        return;
    }
    let scratch = Scratch::new("run_ends");
    for code in [0, 1, 2, 77, 125, 255] {
        let output = run(&scratch, "", &["sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for (name, signal) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11)] {
        let output = run(&scratch, "", &["sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(output.status.signal(), Some(signal), "{name}");
    }
}

#[test]
fn what_cannot_be_run_has_the_codes_of_other_such_programs() {
    let scratch = Scratch::new("run_refused");
    scratch.file("text", "no program");
    for (program, code) in [("./missing", 127), ("./text", 126), ("./text/inside", 126)] {
        let output = run(&scratch, "", &[program]);
        assert_eq!(output.status.code(), Some(code), "{program}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("sakiyomi: cannot run ") && said.lines().count() == 1, "{said}");
    }
    for words in [
        "run",
        "run --limit 3x -- true",
        "run --step 1MiB -- true",
        "run --limit 0 -- true",
        "run --limit 16 -- true",
        "run --limit 1MiB --step 0 -- true",
        "run --memory 0 -- true",
        "run --what -- true",
    ] {
        assert_eq!(scratch.run(words).status.code(), Some(125), "{words}");
    }
    for number in ["0", "4194304", "4294967295"] {
        let output = scratch.run(&format!("run --pid {number}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.starts_with("sakiyomi: cannot follow process ") && said.lines().count() == 1, "{said}");
    }
    assert_eq!(run(&scratch, "--limit 4KiB --memory 4KiB", &["true"]).status.code(), Some(0));
}

#[test]
fn a_script_that_does_not_say_what_runs_it_is_run_by_the_shell() {
    let scratch = Scratch::new("run_script");
    scratch.file("script", "echo \"$1\"\n");
    let path = scratch.0.join("script");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(run(&scratch, "", &["./script", "a b"]).stdout, b"a b\n");
}

#[test]
fn streams_are_the_programs_own() {
    let scratch = Scratch::new("run_streams");
    let mut child = command(&scratch, "--json", &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut input = child.stdin.take().unwrap();
    let written = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&written).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.stdout, bytes);
    let document = json(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(
        (&document["result"]["exit_code"], &document["result"]["program"][0]),
        (&0.into(), &"cat".into())
    );
}

/// Starts a program, and returns when it prints `ready`.
fn ready(scratch: &Scratch, options: &str, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = command(scratch, options, &["sh", "-c", script]);
    // In a process group of its own, like a shell's job: stop signals have no effect on an orphaned group.
    let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, output)
}

fn send(signal: &str, process: u32) {
    assert!(
        Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status().unwrap().success()
    );
}

#[test]
fn signals_reach_the_program_and_only_it_decides() {
    if !signals_are_default("signals_reach_the_program", &[1, 2, 10, 15]) {
        return;
    }
    let scratch = Scratch::new("run_signals");
    for (name, code) in [("TERM", 3), ("HUP", 4), ("USR1", 5), ("INT", 6)] {
        let script = format!("trap 'echo got; exit {code}' {name}; echo ready; while :; do sleep 0.02; done");
        let (mut child, mut output) = ready(&scratch, "", &script);
        send(name, child.id());
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*rest), (Some(code), "got\n"), "{name}");
    }
}

#[test]
fn what_is_ignored_stays_ignored() {
    let scratch = Scratch::new("run_ignored");
    let binary = env!("CARGO_BIN_EXE_sakiyomi");
    let script =
        format!("trap '' HUP INT; exec {binary} run -- sh -c 'kill -HUP $$; kill -INT $$; echo alive'");
    let output = Command::new("sh").args(["-c", &script]).current_dir(&scratch.0).output().unwrap();
    assert_eq!(output.stdout, b"alive\n");
}

#[test]
fn when_it_is_killed_the_program_goes_on_alone() {
    let scratch = Scratch::new("run_killed");
    let script = "echo ready; while [ ! -e go ]; do sleep 0.02; done; echo done > done";
    let (mut child, _output) = ready(&scratch, "", script);
    send("KILL", child.id());
    child.wait().unwrap();
    scratch.file("go", "");
    wait_until("the program's end", || scratch.0.join("done").exists());
}

/// Returns the state of a process, as in `/proc`: `T` if it is stopped.
fn state(process: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim().chars().next().unwrap()
}

#[test]
fn a_program_that_is_stopped_stops_it_and_both_go_on() {
    let scratch = Scratch::new("run_stopped");
    let (mut child, mut output) = ready(&scratch, "", "echo ready; kill -STOP $$; echo on");
    wait_until("the stop", || state(child.id()) == 'T');
    send("CONT", child.id());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*rest), (Some(0), "on\n"));
}

/// A stop signal sent to `sakiyomi` alone is passed to the program, like one that ends it.
#[test]
fn it_and_the_program_stop_and_continue_together() {
    let scratch = Scratch::new("run_tstp");
    for end in ["CONT", "TERM"] {
        let script = "echo ready; echo $$ > number; while [ ! -e go ]; do sleep 0.01; done; echo on";
        let (mut child, mut output) = ready(&scratch, "", script);
        let number = || fs::read_to_string(scratch.0.join("number")).ok()?.trim().parse::<u32>().ok();
        wait_until("its number", || number().is_some());
        let program = number().unwrap();
        for _ in 0..2 {
            send("TSTP", child.id());
            wait_until("the stop of both", || state(child.id()) == 'T' && state(program) == 'T');
            send("CONT", child.id());
            wait_until("both go on", || state(child.id()) != 'T' && state(program) != 'T');
        }
        if end == "TERM" {
            send("TERM", child.id());
            assert_eq!(child.wait().unwrap().signal(), Some(15));
            continue;
        }
        scratch.file("go", "");
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*rest), (Some(0), "on\n"));
        fs::remove_file(scratch.0.join("go")).unwrap();
        fs::remove_file(scratch.0.join("number")).unwrap();
    }
}

#[test]
fn a_file_that_is_in_memory_is_left_alone() {
    let scratch = Scratch::new("run_resident");
    scratch.file("file", vec![7; 8 << 20]);
    fs::read(scratch.0.join("file")).unwrap();
    // Slow enough to be observed.
    let script = "while head -c 262144 > /dev/null && [ $(( n += 1 )) -lt 32 ]; do sleep 0.02; done < file";
    let result = result(&scratch, "", &["sh", "-c", script]);
    assert_eq!(number(&result, "prefetched_bytes"), 0, "{result}");
}

#[test]
fn a_slow_file_is_read_ahead_of_the_program_and_arrives_unchanged() {
    if !can_mount("a_slow_file_is_read_ahead") {
        return;
    }
    let scratch = Scratch::new("run_slow");
    let _slow = Slow::new(&scratch, &[("file", 16 << 20)]);
    let result = result(&scratch, "", &["cmp", "slow/file", "files/file"]);
    assert!(number(&result, "prefetched_bytes") > 1 << 20, "{result}");
    assert!(number(&result, "io_wait_ns") > 0 && number(&result, "computing_ns") > 0, "{result}");
    let mut readings = result["readings"].as_array().unwrap().iter();
    let reading = readings.find(|told| told["name"].as_str().unwrap().ends_with("slow/file")).unwrap();
    assert!(reading["points"].as_array().unwrap().len() > 3);
}

#[test]
fn watching_alone_reads_nothing_and_says_what_would_help() {
    if !can_mount("watching_alone") {
        return;
    }
    let scratch = Scratch::new("run_dry");
    let _slow = Slow::new(&scratch, &[("file", 8 << 20)]);
    let result = result(&scratch, "--dry-run", &["md5sum", "slow/file"]);
    assert_eq!(number(&result, "prefetched_bytes"), 0, "{result}");
    let (saved, elapsed) = (number(&result, "could_save_ns"), number(&result, "elapsed_ns"));
    assert!(saved > 0 && saved <= elapsed, "{result}");
    assert!(number(&result, "storage_bytes_per_s") > 0, "{result}");
    let advice = &result["readings"][0]["advice"];
    assert!(number(advice, "wanted_bytes") > number(advice, "read_ahead_bytes"), "{result}");
}

#[test]
fn files_of_children_are_read_ahead_too() {
    if !can_mount("files_of_children") {
        return;
    }
    let scratch = Scratch::new("run_children");
    let _slow = Slow::new(&scratch, &[("file", 8 << 20)]);
    let script = "(sh -c 'md5sum < slow/file; exit 0'); exit 0";
    let result = result(&scratch, "", &["sh", "-c", script]);
    assert!(number(&result, "programs") > 1, "{result}");
    assert!(number(&result, "prefetched_bytes") > 0, "{result}");
}

#[test]
fn a_fixed_distance_is_kept() {
    if !can_mount("a_fixed_distance") {
        return;
    }
    let scratch = Scratch::new("run_fixed");
    let _slow = Slow::new(&scratch, &[("file", 16 << 20)]);
    let result = result(&scratch, "--limit 2MiB --step 512KiB", &["md5sum", "slow/file"]);
    assert!(number(&result, "prefetched_bytes") > 0, "{result}");
    let points = result["readings"][0]["points"].as_array().unwrap();
    let ahead = points.iter().map(|point| number(point, "prefetched_bytes") - number(point, "main_bytes"));
    assert!(ahead.max().unwrap() <= (2 << 20) + (512 << 10), "{points:?}");
}

#[test]
fn files_in_a_row_are_begun_before_they_are_opened() {
    if !can_mount("files_in_a_row") {
        return;
    }
    let scratch = Scratch::new("run_row");
    let names: Vec<String> = (0..60).map(|index| format!("small{index:02}")).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 4096)).collect();
    let _slow = Slow::new(&scratch, &files);
    let words: Vec<String> = names.iter().map(|name| format!("slow/{name}")).collect();
    let mut program = vec!["cat"];
    program.extend(words.iter().map(|word| &**word));
    unless_too_busy(|| {
        fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
        let named = result(&scratch, "", &program);
        let (ahead, files) = (number(&named, "prefetched_bytes"), number(&named, "files"));
        assert!(ahead <= 60 * 4096 && files <= 60 && number(&named, "read_bytes") <= 60 * 4096, "{named}");
        if ahead > 20 * 4096 && files >= 50 { Ok(()) } else { Err(named.to_string()) }
    });
}

/// The second is opened before it could be prefetched, and is then one of a sequence.
#[test]
fn each_of_several_large_files_is_read_ahead() {
    if !can_mount("each_of_several_large_files") {
        return;
    }
    let scratch = Scratch::new("run_large_row");
    let _slow = Slow::new(&scratch, &[("a", 12 << 20), ("b", 12 << 20)]);
    unless_too_busy(|| {
        fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
        let result = result(&scratch, "", &["cat", "slow/a", "slow/b"]);
        let is_helped = number(&result, "prefetched_bytes") > 15 << 20;
        if is_helped { Ok(()) } else { Err(result.to_string()) }
    });
}

#[test]
fn a_directory_is_gone_through_ahead_of_the_program() {
    if !can_mount("a_directory") {
        return;
    }
    let scratch = Scratch::new("run_directory");
    let names: Vec<String> = (0..60).map(|index| format!("small{index:02}")).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 4096)).collect();
    let _slow = Slow::new(&scratch, &files);
    let gone_through = result(&scratch, "", &["sh", "-c", "grep -r nothing slow; exit 0"]);
    assert!(number(&gone_through, "prefetched_bytes") > 20 * 4096, "{gone_through}");
}

/// `cp -r` lists a directory, closes it, and then opens one file after the other.
#[test]
fn directories_that_are_not_held_open_are_gone_through_too() {
    if !can_mount("directories_that_are_not_held_open") {
        return;
    }
    for directories in [1, 4] {
        let scratch = Scratch::new("run_copy");
        let each = 60 / directories;
        let name = |index: usize| format!("d{}/small{index:02}", index / each);
        (0..directories).for_each(|directory| {
            fs::create_dir_all(scratch.0.join(format!("files/d{directory}"))).unwrap();
        });
        let names: Vec<String> = (0..60).map(name).collect();
        let files: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 5000)).collect();
        let _slow = Slow::new(&scratch, &files);
        unless_too_busy(|| {
            fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
            let result = result(&scratch, "", &["sh", "-c", "rm -rf copy; cp -r slow copy; sync copy"]);
            let equal = Command::new("diff").args(["-r", "files", "copy"]).current_dir(&scratch.0).output();
            assert!(equal.unwrap().status.success());
            assert!(number(&result, "prefetched_bytes") <= 60 * 5000, "{result}");
            // The number depends on which of the two reaches each file first. Without the listing it would be 0.
            let is_helped = number(&result, "prefetched_bytes") >= 10 * 5000;
            if is_helped { Ok(()) } else { Err(result.to_string()) }
        });
    }
}

#[test]
fn names_alone_prefetch_nothing() {
    if !can_mount("names_alone") {
        return;
    }
    let scratch = Scratch::new("run_names");
    let _slow = Slow::new(&scratch, &[("a", 400_000), ("b", 400_000), ("c", 400_000), ("d", 400_000)]);
    for program in [
        &["ls", "-l", "slow/a", "slow/b", "slow/c"][..],
        &["head", "-qc1", "slow/a", "slow/b", "slow/c"],
        &["cp", "slow/d", "slow/e"],
        &["mv", "slow/a", "slow/f"],
        &["rm", "slow/f", "slow/b", "slow/c"],
    ] {
        let result = result(&scratch, "", program);
        let ahead = number(&result, "prefetched_bytes");
        // Some of the files that cp itself reads may be prefetched.
        assert!(ahead == 0 || program[0] == "cp" && ahead <= 400_000, "{program:?}: {result}");
    }
}

#[test]
fn who_reads_here_and_there_is_left_alone() {
    if !can_mount("here_and_there") {
        return;
    }
    let scratch = Scratch::new("run_random");
    let _slow = Slow::new(&scratch, &[("file", 32 << 20)]);
    let script = "i=1; while [ $i -lt 60 ]; do n=$(( i * 7919 % 8192 )); i=$(( i + 1 )); echo $n; done | \
                  while read n; do dd if=/dev/fd/3 of=/dev/null bs=4096 count=1 iflag=skip_bytes skip=$n 2>/dev/null; done 3< slow/file";
    let python = "import random
f = open('slow/file', 'rb', buffering=0)
random.seed(1)
for _ in range(80):
    f.seek(4096 * random.randrange(8192)); f.read(4096)";
    let has_python = Command::new("python3").arg("-V").output().is_ok();
    let program: &[&str] = if has_python { &["python3", "-c", python] } else { &["sh", "-c", script] };
    let result = result(&scratch, "", program);
    assert!(number(&result, "prefetched_bytes") < 4 << 20, "{result}");
}

#[test]
fn a_program_that_runs_already_can_be_followed() {
    if !can_mount("a_program_that_runs") {
        return;
    }
    let scratch = Scratch::new("run_pid");
    let _slow = Slow::new(&scratch, &[("file", 64 << 20)]);
    let mut other =
        Command::new("cat").arg("slow/file").current_dir(&scratch.0).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = other.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        let mut read = 0;
        loop {
            match output.read(&mut buffer).unwrap() {
                0 => return read,
                some => read += some,
            }
        }
    });
    let said = scratch.run(&format!("run --pid {} --json", other.id()));
    assert_eq!(said.status.code(), Some(0));
    assert!(said.stdout.is_empty());
    let document = json(&String::from_utf8(said.stderr).unwrap());
    assert!(number(&document["result"], "read_bytes") > 0, "{document}");
    assert_eq!(reader.join().unwrap(), 64 << 20);
    assert!(other.wait().unwrap().success());
}

#[test]
fn a_directory_is_gone_through_in_the_order_of_the_program() {
    if !can_mount("in_the_order_of_the_program") || Command::new("python3").arg("-V").output().is_err() {
        return;
    }
    let scratch = Scratch::new("run_order");
    let names: Vec<String> = (0..60).map(|index| format!("small{:02}", index * 37 % 60)).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (&**name, 70_000)).collect();
    let _slow = Slow::new(&scratch, &files);
    // In inode order as tar does, and in an arbitrary order.
    for (key, ahead) in [("os.stat(n, dir_fd=d).st_ino", true), ("zlib.crc32(n.encode())", false)] {
        let script = format!(
            "import os, zlib
d = os.open('slow', os.O_RDONLY)
for n in sorted(os.listdir(d), key=lambda n: {key}):
    f = os.open(n, os.O_RDONLY, dir_fd=d)
    while os.read(f, 65536): pass
    os.close(f)"
        );
        unless_too_busy(|| {
            fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            let result = result(&scratch, "", &["python3", "-c", &script]);
            // An arbitrary order may look like a known one for a few files.
            assert!(number(&result, "wasted_bytes") <= 20 * 70_000, "{result}");
            assert!(number(&result, "read_bytes") <= 61 * 70_000 + 2_000_000, "{result}");
            // Of a busy machine also files of Python's own start are seen.
            let is_exact = number(&result, "files") <= 75;
            let is_helped = number(&result, "prefetched_bytes") > 20 * 70_000;
            if is_exact && (is_helped || !ahead) { Ok(()) } else { Err(result.to_string()) }
        });
    }
}

#[test]
fn a_file_may_shrink_grow_and_vanish_meanwhile() {
    if !can_mount("may_shrink_grow_and_vanish") {
        return;
    }
    for change in [
        "truncate -s 3M files/file",
        "truncate -s 40M files/file",
        "rm files/file",
        "mv files/other files/file",
        "truncate -s 0 files/file",
    ] {
        let scratch = Scratch::new("run_changes");
        let _slow = Slow::new(&scratch, &[("file", 24 << 20), ("other", 400_000)]);
        let script =
            format!("exec 3< slow/file; head -c 2M <&3 | wc -c; {change}; cat <&3 > /dev/null; exit 7");
        let output = run(&scratch, "--json", &["sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(7), "{change}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"2097152\n");
    }
}

#[test]
fn when_it_is_killed_while_it_reads_ahead_the_program_still_gets_all() {
    if !can_mount("killed_while_it_reads_ahead") {
        return;
    }
    let scratch = Scratch::new("run_killed_reading");
    let _slow = Slow::new(&scratch, &[("file", 64 << 20)]);
    let script = "echo ready; cat slow/file | wc -c > count.new; mv count.new count";
    let (mut child, _output) = ready(&scratch, "", script);
    std::thread::sleep(Duration::from_millis(60));
    send("KILL", child.id());
    child.wait().unwrap();
    wait_until("the program's end", || scratch.0.join("count").exists());
    assert_eq!(fs::read_to_string(scratch.0.join("count")).unwrap().trim(), "67108864");
}

#[test]
fn a_thousand_children_cost_little() {
    let scratch = Scratch::new("run_children_cost");
    let script = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$(( i + 1 )); done";
    let result = result(&scratch, "", &["sh", "-c", script]);
    let (own, children) = (number(&result, "own_cpu_ns"), number(&result, "computing_ns"));
    // Of a build without optimization, beside other tests: several milliseconds for each of them would be too much.
    assert!(own < children + 100_000_000, "{result}");
}

#[test]
fn what_is_asked_for_is_given_wherever_it_goes() {
    let scratch = Scratch::new("run_told");
    scratch.file("file", vec![7; 1 << 20]);
    let dry = run(&scratch, "--dry-run", &["cat", "file"]);
    assert!(String::from_utf8(dry.stderr).unwrap().contains("waiting for I/O"));
    for _ in 0..2 {
        let both = run(&scratch, "--json --out out", &["cat", "file"]);
        let told = json(&String::from_utf8(both.stderr).unwrap());
        let written = json(&fs::read_to_string(scratch.0.join("out/result.json")).unwrap());
        assert_eq!(told["result"], written["result"]);
        assert_eq!(both.stdout.len(), 1 << 20);
    }
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    assert_eq!(scratch.run(&format!("run --pid {}", gone.id())).status.code(), Some(125));
}

#[test]
fn many_names_make_no_long_report() {
    let scratch = Scratch::new("run_names_told");
    scratch.file("file", "text");
    let program: Vec<&str> = std::iter::once("cat").chain(std::iter::repeat_n("file", 3000)).collect();
    let output = run(&scratch, "--report", &program);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.len() < 3000 && said.lines().next().unwrap().ends_with("more"), "{said}");
}

#[test]
fn what_is_no_ordinary_file_is_left_to_the_program() {
    let scratch = Scratch::new("run_odd");
    let script = "head -c 3000000 /dev/zero | wc -c; cat /proc/kallsyms /proc/self/maps > /dev/null; mkfifo f; \
                  (head -c 400000 /dev/zero > f &) ; wc -c < f; truncate -s 5G sparse; \
                  tail -c 1000000 sparse | wc -c; dd if=sparse iflag=direct bs=1M count=4 status=none | wc -c";
    let output = run(&scratch, "--json", &["sh", "-c", script]);
    assert_eq!(output.stdout, b"3000000\n400000\n1000000\n4194304\n");
    assert!(output.status.success());
}

#[test]
fn who_reads_a_mapping_here_and_there_is_left_alone() {
    if !can_mount("who_reads_a_mapping") || Command::new("python3").arg("-V").output().is_err() {
        return;
    }
    let scratch = Scratch::new("run_mapping");
    let _slow = Slow::new(&scratch, &[("file", 48 << 20)]);
    let python = "import mmap
f = open('slow/file', 'rb')
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
import random
sum(m[page * 4096] for page in random.Random(3).sample(range(12288), 100))";
    let result = result(&scratch, "", &["python3", "-c", python]);
    assert!(!result["notes"].to_string().contains("without a file offset"), "it is followed: {result}");
    assert!(number(&result, "prefetched_bytes") <= 4 << 20, "{result}");
}

/// With and without a mounted tracefs: root can create a private mount.
#[test]
fn who_reads_by_pread_is_read_ahead_of_by_root_also_where_tracefs_is_not_mounted() {
    if !can_mount("who_reads_by_pread") || Command::new("python3").arg("-V").output().is_err() {
        return;
    }
    if let Err(why) = tracefs::check() {
        return skipped("who_reads_by_pread", &why);
    }
    let scratch = Scratch::new("run_pread");
    let _slow = Slow::new(&scratch, &[("file", 24 << 20)]);
    let python = "import os
f, at = os.open('slow/file', os.O_RDONLY), 0
while d := os.pread(f, 65536, at): at += len(d)";
    // In a mount namespace of its own, without tracefs; without a namespace, as it is.
    let without = "umount /sys/kernel/tracing /sys/kernel/debug/tracing 2> /dev/null; exec \"$@\"";
    let is_able = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    for unshared in [false, true] {
        if unshared && !is_able {
            continue;
        }
        unless_too_busy(|| {
            fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            let run = command(&scratch, "--json", &["python3", "-c", python]);
            let mut all = if unshared {
                let mut unshare = Command::new("unshare");
                unshare.args(["-m", "sh", "-c", without, "sh"]).arg(run.get_program()).args(run.get_args());
                unshare.current_dir(&scratch.0);
                unshare
            } else {
                run
            };
            let told = String::from_utf8(all.output().unwrap().stderr).unwrap();
            let result = json(&told)["result"].clone();
            let is_helped = number(&result, "prefetched_bytes") > 4 << 20;
            if is_helped { Ok(()) } else { Err(result.to_string()) }
        });
    }
}

/// Tracing needs root: without it, such a program is not prefetched for, and the report gives the reason.
#[test]
fn who_reads_by_pread_without_being_root_is_left_alone_and_that_is_said() {
    const NOBODY: u32 = 65534;
    let test = "who_reads_by_pread_without_being_root";
    let has_python = Command::new("python3").arg("-V").output().is_ok();
    let is_root = fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0");
    if !has_python || !is_root {
        return skipped(test, "needs root, to become another user, and python3");
    }
    let scratch = Scratch::new("run_pread_nobody");
    scratch.file("file", vec![7; 4 << 20]);
    let python = "import os, time
f = os.open('file', os.O_RDONLY)
for i in range(60): os.pread(f, 1 << 20, (i % 3) << 20); time.sleep(0.01)";
    let mut nobody = command(&scratch, "--json", &["python3", "-c", python]);
    let Ok(output) = nobody.uid(NOBODY).gid(NOBODY).output() else {
        return skipped(test, "another user may not run the program here");
    };
    let said = String::from_utf8(output.stderr).unwrap();
    let notes = json(&said)["result"]["notes"].to_string();
    assert!(notes.contains("without a file offset") && notes.contains("tracing needs root"), "{said}");
}
