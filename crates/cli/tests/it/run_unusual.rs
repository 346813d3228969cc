//! `run` with programs that behave unusually, or intensively: none is harmed, and the report mentions what was not
//! observed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::fuse::can_mount;
use crate::group::Group;
use crate::scratch::{Scratch, json};
use crate::slow::{Slow, command, number, result, run};
use sakiyomi_testing::{skipped, unless_too_busy};

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0")
}

/// Returns whether a mount and Python are available for the tests.
fn has_python(test: &str) -> bool {
    let able = Command::new("python3").arg("-V").output().is_ok();
    if !able {
        skipped(test, "needs python3");
    }
    able && can_mount(test)
}

#[test]
fn a_number_that_comes_to_mean_another_file_is_followed_there() {
    if !has_python("a_number_that_comes_to_mean_another_file") {
        return;
    }
    let python = "import os
f = os.open('slow/a', os.O_RDONLY)
n = sum(len(os.read(f, 65536)) for _ in range(64))
os.dup2(os.open('slow/b', os.O_RDONLY), f)
while True:
    d = os.read(f, 65536)
    if not d: break
    n += len(d)
assert n == 16 << 20, n";
    unless_too_busy(|| {
        let scratch = Scratch::new("run_reuse");
        let _slow = Slow::new(&scratch, &[("a", 12 << 20), ("b", 12 << 20)]);
        let result = result(&scratch, "", &["python3", "-c", python]);
        let readings = result["readings"].as_array().unwrap();
        let is_followed = |(name, read): (&str, u64)| {
            let ends = |reading: &&serde_json::Value| reading["name"].as_str().unwrap().ends_with(name);
            readings.iter().find(ends).is_some_and(|reading| {
                number(reading, "read_bytes").abs_diff(read) <= 1 << 20
                    && number(reading, "prefetched_bytes") > 1 << 20
            })
        };
        let both = [("slow/a", 4 << 20), ("slow/b", 12 << 20)].into_iter().all(is_followed);
        if both { Ok(()) } else { Err(result.to_string()) }
    });
}

#[test]
fn who_goes_back_finds_what_is_there_and_is_read_ahead_of_again() {
    if !has_python("who_goes_back") {
        return;
    }
    let scratch = Scratch::new("run_back");
    let _slow = Slow::new(&scratch, &[("file", 24 << 20)]);
    let python = "import os
f = os.open('slow/file', os.O_RDONLY)
for _ in range(96): os.read(f, 65536)
os.lseek(f, 1 << 20, os.SEEK_SET)
n = 0
while True:
    d = os.read(f, 65536)
    if not d: break
    n += len(d)
assert n == 23 << 20, n";
    let result = result(&scratch, "", &["python3", "-c", python]);
    let ahead = number(&result, "prefetched_bytes");
    assert!(ahead > 8 << 20 && ahead <= 24 << 20, "nothing is brought twice: {result}");
}

#[test]
fn a_file_that_is_replaced_is_read_to_its_own_end() {
    if !can_mount("a_file_that_is_replaced") {
        return;
    }
    for (change, rest) in [
        ("mv slow/other slow/file", 22 << 20),
        ("rm slow/file", 22 << 20),
        ("truncate -s 4M slow/file", 2 << 20),
        ("head -c 8K /dev/zero >> slow/file", (22 << 20) + 8192),
    ] {
        let scratch = Scratch::new("run_replaced");
        let _slow = Slow::new(&scratch, &[("file", 24 << 20), ("other", 400_000)]);
        let script = format!("exec 3< slow/file; head -c 2M <&3 > /dev/null; {change}; cat <&3 | wc -c");
        let output = run(&scratch, "--json", &["sh", "-c", &script]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), rest.to_string(), "{change}: {told}");
        assert!(number(&json(&told)["result"], "prefetched_bytes") <= (40 << 20), "{change}: {told}");
    }
}

#[test]
fn what_a_child_gets_does_not_count_for_its_parents_files() {
    let scratch = Scratch::new("run_children");
    scratch.file("held", vec![7; 24 << 20]);
    scratch.file("read", vec![7; 24 << 20]);
    // Long enough for both to be observed.
    let script = "exec 3< held; sleep 0.1; (sleep 0.1; cat; sleep 0.1) < read > /dev/null; :";
    let result = result(&scratch, "", &["sh", "-c", script]);
    let read = number(&result, "read_bytes");
    assert!(read.abs_diff(24 << 20) <= 2 << 20, "{result}");
}

/// One open file with several descriptors, in one process or in several, has one offset and is read once.
#[test]
fn what_is_read_through_a_shared_descriptor_counts_once() {
    const TEST: &str = "what_is_read_through_a_shared_descriptor";
    if !has_python(TEST) {
        return;
    }
    const SIZE: u64 = 12 << 20;
    let duplicated = "import os
f = os.open('slow/file', os.O_RDONLY)
copies = [os.dup(f) for _ in range(3)]
while os.read(copies[1], 65536): pass";
    let shared =
        "exec 3< slow/file; head -c 4M <&3 > /dev/null; (sleep 0.05; cat; sleep 0.05) <&3 > /dev/null; :";
    let scratch = Scratch::new("run_shared");
    let _slow = Slow::new(&scratch, &[("file", SIZE as usize)]);
    for program in [&["python3", "-c", duplicated][..], &["sh", "-c", shared]] {
        unless_too_busy(|| {
            fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            let result = result(&scratch, "", program);
            let readings = result["readings"].as_array().unwrap().iter();
            let of_it = readings.filter(|told| told["name"].as_str().unwrap().ends_with("slow/file"));
            let read: u64 = of_it.map(|told| number(told, "read_bytes")).sum();
            assert!(read <= SIZE, "{result}");
            if read >= SIZE / 2 { Ok(()) } else { Err(result.to_string()) }
        });
    }
}

#[test]
fn where_proc_has_other_numbers_the_program_goes_on_alone_and_that_is_said() {
    const TEST: &str = "where_proc_has_other_numbers";
    let unshare = |options: &[&str], words: &[&str]| {
        Command::new("unshare").args(options).args(["--fork", "--kill-child"]).args(words).output()
    };
    if !unshare(&["--pid"], &["true"]).is_ok_and(|output| output.status.success()) {
        return skipped(TEST, "needs unshare, and root");
    }
    let binary = env!("CARGO_BIN_EXE_sakiyomi");
    let words = [binary, "run", "--json", "--", "sh", "-c", "echo got; exit 3"];
    let output = unshare(&["--pid"], &words).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"got\n"[..]), "{said}");
    assert!(said.contains("another namespace; the program has continued on its own"), "{said}");
    // With a /proc of its own, everything is visible except what needs tracing.
    let output = unshare(&["--pid", "--mount-proc"], &words).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"got\n"[..]), "{said}");
    assert_eq!(number(&json(&said)["result"], "programs"), 1, "{said}");
}

#[test]
fn who_follows_its_own_parent_is_no_part_of_it() {
    let scratch = Scratch::new("run_parent");
    let binary = env!("CARGO_BIN_EXE_sakiyomi");
    let script = format!("{binary} run --pid $$ --json & sleep 1");
    let output = Command::new("sh").args(["-c", &script]).current_dir(&scratch.0).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    // The shell, and `sleep` if it was observed.
    assert!(number(&json(&said)["result"], "programs") <= 2, "{said}");
}

/// Returns `sakiyomi` as another user; `None` if that user may not execute it in its directory.
fn as_nobody(scratch: &Scratch, options: &str, program: &[&str]) -> Option<Command> {
    let able = Command::new(env!("CARGO_BIN_EXE_sakiyomi")).arg("--version").uid(NOBODY).output();
    able.is_ok_and(|output| output.status.success()).then(|| {
        let mut command = command(scratch, options, program);
        command.uid(NOBODY).gid(NOBODY);
        command
    })
}

#[test]
fn who_forbids_to_be_looked_at_runs_unharmed_and_that_is_said() {
    const TEST: &str = "who_forbids_to_be_looked_at";
    if !is_root() {
        return skipped(TEST, "needs root");
    }
    let scratch = Scratch::new("run_forbidden");
    scratch.file("file", vec![7; 8 << 20]);
    // A user that may execute but not read a program may not inspect its memory or its files either.
    fs::copy("/bin/cat", scratch.0.join("cat")).unwrap();
    fs::set_permissions(scratch.0.join("cat"), PermissionsExt::from_mode(0o711)).unwrap();
    // Long enough to be observed.
    let script = "(sleep 0.2; cat file) | ./cat";
    let Some(mut command) = as_nobody(&scratch, "--json", &["sh", "-c", script]) else {
        return skipped(TEST, "another user cannot run the program here");
    };
    let output = command.output().unwrap();
    assert_eq!(output.stdout, vec![7; 8 << 20]);
    let result = json(&String::from_utf8(output.stderr).unwrap())["result"].clone();
    // The process that becomes the program counts as well if it is seen while it does.
    let notes = result["notes"].to_string();
    let is_said = ["1 process", "2 processes"]
        .iter()
        .any(|number| notes.contains(&format!("The open files of {number} could not be inspected")));
    assert!(is_said, "{result}");
}

#[test]
fn a_program_of_another_user_cannot_be_looked_into_and_that_is_said() {
    const TEST: &str = "a_program_of_another_user";
    if !is_root() {
        return skipped(TEST, "needs root");
    }
    let scratch = Scratch::new("run_of_another");
    let mut other = Command::new("sleep").arg("0.5").stdout(Stdio::null()).spawn().unwrap();
    let process = other.id().to_string();
    let Some(mut command) = as_nobody(&scratch, "", &[]) else {
        other.wait().unwrap();
        return skipped(TEST, "another user cannot run the program here");
    };
    let mut follow = Command::new(command.get_program());
    let words = ["run", "--pid", &process, "--json"];
    follow.args(words).uid(NOBODY).gid(NOBODY).current_dir(&scratch.0);
    let output = follow.output().unwrap();
    assert!(other.wait().unwrap().success());
    let result = json(&String::from_utf8(output.stderr).unwrap())["result"].clone();
    assert!(
        result["notes"].to_string().contains("The open files of 1 process could not be inspected"),
        "{result}"
    );
    // In the other direction, everything is visible.
    assert!(command.args(["true"]).output().unwrap().status.success());
}

#[test]
fn a_group_with_less_memory_than_the_file_wastes_little() {
    const TEST: &str = "a_group_with_less_memory";
    if !can_mount(TEST) {
        return;
    }
    let Some(group) = Group::with_memory(24 << 20) else {
        return skipped(TEST, "needs a control group with the memory controller");
    };
    let scratch = Scratch::new("run_group");
    let _slow = Slow::new(&scratch, &[("file", 96 << 20)]);
    let binary = env!("CARGO_BIN_EXE_sakiyomi");
    let script = format!("{}; exec {binary} run --json -- sh -c 'cat slow/file | wc -c'", group.enter());
    let output = Command::new("sh").args(["-c", &script]).current_dir(&scratch.0).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), (96 << 20).to_string(), "{told}");
    let result = json(&told)["result"].clone();
    let ahead = number(&result, "prefetched_bytes");
    assert!(ahead > 8 << 20 && ahead <= 120 << 20, "{result}");
    assert!(number(&result, "wasted_bytes") <= 12 << 20, "{result}");
}

#[test]
fn all_of_a_long_read_is_prefetched_while_its_program_sleeps() {
    const TEST: &str = "all_of_a_long_read";
    if !has_python(TEST) {
        return;
    }
    let at_its_position = "import os; assert len(os.read(f, 64 << 20)) == 48 << 20";
    let at_offsets = "for at in (32 << 20, 0, 16 << 20): assert len(os.pread(f, 16 << 20, at)) == 16 << 20";
    for program in [at_its_position, at_offsets] {
        unless_too_busy(|| {
            let scratch = Scratch::new("run_long");
            let _slow = Slow::new(&scratch, &[("file", 48 << 20)]);
            let python = format!("import os\nf = os.open('slow/file', os.O_RDONLY)\n{program}");
            let result = result(&scratch, "", &["python3", "-c", &python]);
            // More than a distance, though the program is in one call.
            let enough = number(&result, "prefetched_bytes") > 12 << 20;
            if enough && number(&result, "wasted_bytes") <= 8 << 20 {
                Ok(())
            } else {
                Err(result.to_string())
            }
        });
    }
}

#[test]
fn thousands_of_small_files_are_read_as_they_are() {
    let scratch = Scratch::new("run_small");
    fs::create_dir(scratch.0.join("small")).unwrap();
    for index in 0..3000 {
        scratch.file(&format!("small/{index:04}"), format!("{index:04}\n").repeat(200));
    }
    let output = run(&scratch, "--json", &["sh", "-c", "cat small/* | cksum; tar cf - small | wc -c"]);
    let told = json(&String::from_utf8(output.stderr).unwrap());
    let alone = Command::new("sh")
        .args(["-c", "cat small/* | cksum; tar cf - small | wc -c"])
        .current_dir(&scratch.0)
        .output()
        .unwrap();
    assert_eq!(output.stdout, alone.stdout);
    // They are in memory; inspecting them has cost little.
    assert_eq!(number(&told["result"], "prefetched_bytes"), 0, "{told}");
    cost_is_small(&told["result"]);
}

#[test]
fn five_thousand_open_files_cost_little() {
    const TEST: &str = "five_thousand_open_files";
    if Command::new("python3").arg("-V").output().is_err() {
        return skipped(TEST, "needs python3");
    }
    let scratch = Scratch::new("run_open");
    scratch.file("file", vec![7; 300_000]);
    let python = "import os, resource, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
count = min(5000, most - 100)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files = [os.open('file', os.O_RDONLY) for _ in range(count)]
for f in files: os.read(f, 4096)
time.sleep(0.5)";
    let result = result(&scratch, "", &["python3", "-c", python]);
    assert_eq!(number(&result, "prefetched_bytes"), 0, "{result}");
    cost_is_small(&result);
}

/// Asserts that its CPU time is far below a noticeable amount, even in a build that is not optimized.
fn cost_is_small(result: &serde_json::Value) {
    let (own, elapsed) = (number(result, "own_cpu_ns"), number(result, "elapsed_ns"));
    assert!(own < elapsed / 4 + 150_000_000, "{result}");
}
