//! `daemon`: programs that wait are followed with their own credentials, and continue after the daemon is killed.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};

use crate::fuse::can_mount;
use crate::group::Group;
use crate::scratch::{Scratch, json};
use crate::slow::{Slow, number};
use sakiyomi_testing::{is_root, skipped, unless_too_busy};

/// Starts the daemon of this machine, and waits until it answers.
const START: &str = "$bin daemon start --socket socket $options 2> log & daemon=$!
until $bin daemon status --socket socket > status 2>&1; do
    kill -0 $daemon || { cat log; exit 3; }
    sleep 0.02
done
";

/// Ends the daemon after it has noticed that the programs have ended, and prints its last status.
const END: &str = "sleep 1.5
$bin daemon status --socket socket --json
kill $daemon; wait $daemon || exit 4
test ! -e socket
";

/// Runs a script that sees no processes but its own; `None` if that is not possible here.
fn alone(test: &str, scratch: &Scratch, options: &str, script: &str) -> Option<Output> {
    let spaces: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
    let mut command = Command::new("unshare");
    command.args(spaces).args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    let able =
        Command::new("unshare").args(spaces).args(["--pid", "--fork", "--mount-proc", "true"]).output();
    if !able.is_ok_and(|able| able.status.success()) {
        skipped(test, "needs PID namespaces");
        return None;
    }
    command.args(["sh", "-c", script]).current_dir(&scratch.0);
    command.env("bin", env!("CARGO_BIN_EXE_sakiyomi")).env("options", options);
    command.env("XDG_CACHE_HOME", scratch.0.join("cache"));
    Some(command.output().unwrap())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_program_that_waits_is_helped_without_having_been_started_by_us() {
    const TEST: &str = "a_program_that_waits_is_helped";
    if !can_mount(TEST) {
        return;
    }
    unless_too_busy(|| {
        let scratch = Scratch::new("daemon_helps");
        let _slow = Slow::new(&scratch, &[("file", 48 << 20)]);
        let script = format!("{START} setsid -w cat slow/file | wc -c > count\n{END}");
        let Some(output) = alone(TEST, &scratch, "", &script) else { return Ok(()) };
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(fs::read_to_string(scratch.0.join("count")).unwrap().trim(), (48 << 20).to_string());
        let status = json(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(status["schema"], "sakiyomi.daemon-status/1");
        let result = &status["result"];
        let helped = number(result, "prefetched_bytes") > 8 << 20 && result["latest"][0]["name"] == "cat";
        if helped { Ok(()) } else { Err(text(&output)) }
    });
}

#[test]
fn what_a_command_waits_for_at_its_start_is_prefetched_at_its_next_start() {
    const TEST: &str = "what_a_command_waits_for_at_its_start";
    if !can_mount(TEST) {
        return;
    }
    unless_too_busy(|| {
        let scratch = Scratch::new("daemon_learns");
        let files: Vec<String> = (0..150).map(|index| format!("{index:03}")).collect();
        let named: Vec<(&str, usize)> = files.iter().map(|name| (name.as_str(), 20_000)).collect();
        let _slow = Slow::new(&scratch, &named);
        // Builtins only: each file is a wait of the same process. In the order of the directory they would be predicted.
        let mixed: Vec<String> =
            (0..150).map(|index| format!("slow/{:03}", index * 67 % 150 * 7 % 150)).collect();
        let job = format!("for file in {}; do read -r line < $file; done; :\n", mixed.join(" "));
        fs::write(scratch.0.join("job.sh"), job).unwrap();
        let run = "for file in slow/*; do dd if=$file iflag=nocache count=0 2> /dev/null; done
            setsid -w sh job.sh; sleep 1.5\n";
        let script = format!("{START}{run}{run}{END}");
        let Some(output) = alone(TEST, &scratch, "", &script) else { return Ok(()) };
        assert!(output.status.success(), "{}", text(&output));
        let result = json(&String::from_utf8_lossy(&output.stdout))["result"].clone();
        if number(&result, "replayed_bytes") > 500_000 { Ok(()) } else { Err(text(&output)) }
    });
}

#[test]
fn programs_continue_after_the_daemon_is_killed_and_its_workers_end() {
    const TEST: &str = "programs_continue_after_the_daemon_is_killed";
    if !can_mount(TEST) {
        return;
    }
    let scratch = Scratch::new("daemon_killed");
    let _slow = Slow::new(&scratch, &[("file", 48 << 20)]);
    let script = format!(
        "{START} (setsid -w cat slow/file | wc -c > count) & job=$!
        sleep 0.7; kill -9 $daemon; wait $job
        sleep 0.5; grep -lz '^[-]-worker$' /proc/[0-9]*/cmdline | wc -l
        # The next daemon replaces the socket.
        {START} kill $daemon; wait $daemon"
    );
    let Some(output) = alone(TEST, &scratch, "", &script) else { return };
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(fs::read_to_string(scratch.0.join("count")).unwrap().trim(), (48 << 20).to_string());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0", "{}", text(&output));
}

#[test]
fn a_worker_has_the_credentials_of_the_programs_that_it_follows() {
    const TEST: &str = "a_worker_has_the_credentials";
    if !can_mount(TEST) {
        return;
    }
    if !is_root() {
        return skipped(TEST, "needs root");
    }
    unless_too_busy(|| {
        let scratch = Scratch::new("daemon_rights");
        let _slow = Slow::new(&scratch, &[("file", 48 << 20)]);
        let script = format!(
            "{START}
            setsid -w setpriv --reuid 65534 --regid 65533 --groups 65532 --inh-caps=-all cat < slow/file > /dev/null & job=$!
            for try in $(seq 100); do
                for worker in $(grep -lz '^[-]-worker$' /proc/[0-9]*/cmdline); do
                    cat $(dirname $worker)/status > rights 2> /dev/null
                    tr '\\0' '\\n' < $(dirname $worker)/environ > environ
                    ls $(dirname $worker)/fd > descriptors
                done
                test -s rights && break
                sleep 0.02
            done
            wait $job
            {END}"
        );
        let Some(output) = alone(TEST, &scratch, "", &script) else { return Ok(()) };
        assert!(output.status.success(), "{}", text(&output));
        let rights = fs::read_to_string(scratch.0.join("rights")).unwrap_or_default();
        if rights.is_empty() {
            return Err(text(&output));
        }
        let field =
            |name: &str| rights.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        assert_eq!(field("Uid:"), ["65534"; 4].join("\t"), "{rights}");
        assert_eq!(field("Gid:"), ["65533"; 4].join("\t"), "{rights}");
        assert_eq!(field("Groups:"), "65532", "{rights}");
        assert_eq!(field("CapEff:"), "0000000000000000", "{rights}");
        // The user may read them; the daemon's may hold secrets.
        let environ = fs::read_to_string(scratch.0.join("environ")).unwrap();
        assert!(environ.lines().all(|line| line.is_empty() || line.starts_with("HOME=")), "{environ}");
        let result = json(&String::from_utf8_lossy(&output.stdout))["result"].clone();
        let helped = number(&result, "prefetched_bytes") > 4 << 20 && result["latest"][0]["user"] == 65534;
        if helped { Ok(()) } else { Err(text(&output)) }
    });
}

#[test]
fn a_process_that_gives_up_its_credentials_is_no_longer_followed_with_them() {
    const TEST: &str = "a_process_that_gives_up_its_credentials";
    if !can_mount(TEST) {
        return;
    }
    if !is_root() {
        return skipped(TEST, "needs root");
    }
    unless_too_busy(|| {
        let scratch = Scratch::new("daemon_gives_up");
        let _slow = Slow::new(&scratch, &[("first", 24 << 20), ("second", 24 << 20)]);
        // Another user may not inspect a process that was root, so that the second file is not prefetched.
        let python = "import os, time
def read(name):
    with open(name, 'rb', buffering=0) as f:
        while f.read(1 << 16): pass
read('slow/first')
os.setresgid(65533, 65533, 65533); os.setresuid(65534, 65534, 65534)
time.sleep(2.5)
read('slow/second')";
        fs::write(scratch.0.join("job.py"), python).unwrap();
        let script = format!("{START} setsid -w python3 job.py || exit 5\n{END}");
        let Some(output) = alone(TEST, &scratch, "", &script) else { return Ok(()) };
        assert!(output.status.success(), "{}", text(&output));
        let result = json(&String::from_utf8_lossy(&output.stdout))["result"].clone();
        let prefetched = number(&result, "prefetched_bytes");
        assert!(prefetched <= 25 << 20, "{result}");
        if prefetched > 4 << 20 { Ok(()) } else { Err(text(&output)) }
    });
}

#[test]
fn programs_of_run_and_of_other_control_groups_are_left_alone() {
    const TEST: &str = "programs_of_run_and_of_other_control_groups";
    if !can_mount(TEST) {
        return;
    }
    for (options, program) in [
        ("", "$bin run --quiet -- cat slow/file > /dev/null"),
        ("--cgroup /no/such/group", "cat slow/file > /dev/null"),
    ] {
        let scratch = Scratch::new("daemon_leaves");
        let _slow = Slow::new(&scratch, &[("file", 24 << 20)]);
        let script = format!("{START} setsid -w sh -c '{program}'; {END}");
        let Some(output) = alone(TEST, &scratch, options, &script) else { return };
        assert!(output.status.success(), "{}", text(&output));
        let result = json(&String::from_utf8_lossy(&output.stdout))["result"].clone();
        let count = result["followed"].as_array().unwrap().len() as u64 + number(&result, "ended");
        assert_eq!(count, 0, "{program}: {result}");
        let noted = fs::read_to_string(scratch.0.join("log")).unwrap();
        assert_eq!(
            noted.contains("no control group is called /no/such/group"),
            !options.is_empty(),
            "{noted}"
        );
    }
}

#[test]
fn prefetched_pages_are_charged_to_the_control_group_of_the_daemon() {
    const TEST: &str = "prefetched_pages_are_charged";
    if !can_mount(TEST) {
        return;
    }
    unless_too_busy(|| {
        let (Some(daemons), Some(programs)) = (Group::new(), Group::new()) else {
            skipped(TEST, "needs control groups with the memory controller");
            return Ok(());
        };
        let scratch = Scratch::new("daemon_pays");
        let _slow = Slow::new(&scratch, &[("file", 96 << 20)]);
        let (enter_daemons, enter_programs) = (daemons.enter(), programs.enter());
        let script = format!(
            "{enter_daemons}\n{START} {enter_programs}; setsid -w cat slow/file | wc -c > count\n{END}"
        );
        let Some(output) = alone(TEST, &scratch, "", &script) else { return Ok(()) };
        assert!(output.status.success(), "{}", text(&output));
        let result = json(&String::from_utf8_lossy(&output.stdout))["result"].clone();
        // The groups keep what they were charged with until the file system is unmounted.
        let (prefetched, paid) = (number(&result, "prefetched_bytes"), daemons.usage_bytes());
        let read_by_programs = programs.usage_bytes();
        if prefetched > 48 << 20 && paid > prefetched * 3 / 4 && read_by_programs < 64 << 20 {
            return Ok(());
        }
        Err(format!("{paid} bytes charged to the daemon, {read_by_programs} to the program: {result}"))
    });
}

fn daemon(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command
        .arg("daemon")
        .args(arguments)
        .current_dir(&scratch.0)
        .env_remove("XDG_RUNTIME_DIR")
        .output()
        .unwrap()
}

#[test]
fn a_mistake_gets_one_sentence() {
    let scratch = Scratch::new("daemon_mistakes");
    scratch.file("file", "");
    let _answers_nothing = UnixListener::bind(scratch.0.join("taken")).unwrap();
    for (arguments, expected) in [
        (
            &["status", "--socket", "none"][..],
            "sakiyomi: no daemon answers on none; start one with `sakiyomi daemon start`\n",
        ),
        (
            &["start", "--socket", "taken"],
            "sakiyomi: a daemon is already running on taken; `sakiyomi daemon status` shows it\n",
        ),
        (
            &["start", "--socket", "file"],
            "sakiyomi: file exists and is not a socket; give another --socket\n",
        ),
        (
            &["start", "--cgroup", "batch"],
            "sakiyomi: --cgroup batch: the path of a control group starts with /, as in /proc/PID/cgroup\n",
        ),
    ] {
        let output = daemon(&scratch, arguments);
        assert_eq!((output.status.code(), text(&output).as_str()), (Some(2), expected));
    }
    assert_eq!(fs::read_to_string(scratch.0.join("file")).unwrap(), "");
}

#[test]
fn the_unit_starts_this_program() {
    let scratch = Scratch::new("daemon_unit");
    let output = daemon(&scratch, &["unit"]);
    let expected = format!("ExecStart=\"{}\" daemon start", env!("CARGO_BIN_EXE_sakiyomi"));
    assert!(text(&output).lines().any(|line| line == expected), "{}", text(&output));
}
