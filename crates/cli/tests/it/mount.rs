//! `mount` and `umount` as processes: refusals, ways to end, and leftovers.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::fuse::can_mount;
use crate::scratch::{Scratch, json};
use sakiyomi_testing::{skipped, wait_until};

/// A mount that is always unmounted at the end.
struct Served {
    process: Child,
    directory: PathBuf,
}

impl Served {
    /// Starts `sakiyomi mount files disk`, and returns when it is mounted.
    fn start(scratch: &Scratch, options: &str) -> Served {
        Served::start_as(scratch, options, None)
    }

    /// Starts it as another user, who owns the directories.
    fn start_as(scratch: &Scratch, options: &str, user: Option<u32>) -> Served {
        for name in ["files", "disk"] {
            fs::create_dir_all(scratch.0.join(name)).unwrap();
            chown(scratch.0.join(name), user, user).unwrap();
        }
        chown(&scratch.0, user, user).unwrap();
        let words = format!("60 {} mount files disk {options}", env!("CARGO_BIN_EXE_sakiyomi"));
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL"]).args(words.split_whitespace()).current_dir(&scratch.0);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        Served::started(scratch, command)
    }

    /// Returns the mount that such a command has created.
    fn started(scratch: &Scratch, mut command: Command) -> Served {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = "note: ".to_owned();
        // Such as that this user may not have a real-time priority.
        while line.starts_with("note: ") {
            line.clear();
            said.read_line(&mut line).unwrap();
        }
        assert!(line.starts_with("mounted on "), "{line}");
        Served { process, directory: scratch.0.join("disk") }
    }

    fn signal(&self, name: &str) {
        // `timeout` passes on all signals but SIGKILL, which is therefore sent to its child.
        let timeout = self.process.id();
        let child = fs::read_to_string(format!("/proc/{timeout}/task/{timeout}/children")).unwrap();
        let kill = format!("kill -s {name} {child}");
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for the end; returns exit code and result.
    fn ended(mut self) -> (Option<i32>, String) {
        wait_until("it does not end", || self.process.try_wait().unwrap().is_some());
        let mut text = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (self.process.wait().unwrap().code(), text)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = Command::new("umount").arg("-l").arg(&self.directory).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_mount_leaves_a_report_when_it_ends_by_ctrl_c() {
    if !can_mount("a_mount_leaves_a_report_when_it_ends_by_ctrl_c") {
        return;
    }
    let scratch = Scratch::new("mount_report");
    let served = Served::start(&scratch, "--drive deskstar-7k250 --direct-io --json --out report");
    fs::write(scratch.0.join("disk/file"), vec![7; 100_000]).unwrap();
    assert_eq!(scratch.names("report"), [""; 0], "nothing half-written before the end");
    served.signal("INT");
    let (code, text) = served.ended();
    assert_eq!(code, Some(0));
    let page = fs::read_to_string(scratch.0.join("report/report.html")).unwrap();
    assert!(page.ends_with("</html>") && page.contains("deskstar-7k250 under "));
    let document = json(&fs::read_to_string(scratch.0.join("report/result.json")).unwrap());
    assert_eq!(document["schema"], "sakiyomi.mount/1");
    assert!(document["run"]["wall_ns"].as_u64().unwrap() > 0);
    let windows = document["result"]["windows"].as_array().unwrap();
    let sum = |key: &str| windows.iter().map(|window| window[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(document["result"]["written_bytes"], sum("written_bytes"));
    assert_eq!(document["result"]["accesses"], sum("accesses"));
    // Standard output has the same totals, without the windows.
    assert_eq!(json(&text)["result"]["accesses"], document["result"]["accesses"]);
    assert!(json(&text)["result"]["windows"].is_null());
}

#[test]
fn a_mounted_array_serves_what_was_written_as_its_simulation_does() {
    if !can_mount("a_mounted_array_serves") {
        return;
    }
    let scratch = Scratch::new("mount_array");
    // One drive has failed: its data is that of the others, and its reads are theirs.
    let drive = "--drive deskstar-7k250 --array raid5:4:64KiB --set array.failed=[1]";
    let served = Served::start(&scratch, &format!("{drive} --direct-io --record trace.csv --json"));
    let content: Vec<u8> = (0..1_500_000_u32).flat_map(|number| number.to_le_bytes()).collect();
    fs::write(scratch.0.join("disk/file"), &content).unwrap();
    assert!(fs::read(scratch.0.join("disk/file")).unwrap() == content);
    served.signal("INT");
    let (code, text) = served.ended();
    assert_eq!(code, Some(0));
    let mounted = json(&text)["result"].clone();
    assert_eq!(mounted["drive"], "deskstar-7k250, raid5:4:64KiB, array.failed=[1]");
    let simulated = json(&scratch.ok(&format!("sim trace.csv {drive} --json")))["result"].clone();
    for (class, key) in [
        ("full_hit", "full_hits"),
        ("active_hit", "active_hits"),
        ("near_miss", "near_misses"),
        ("purged_miss", "purged_misses"),
        ("pure_miss", "pure_misses"),
    ] {
        let classes = mounted["by_class"].as_array().unwrap();
        let of_class = classes.iter().find(|of| of["class"] == class);
        let requests = of_class.map_or(0, |of| of["count"].as_u64().unwrap());
        assert_eq!(requests, simulated[key], "{class}: {classes:?}");
    }
    // Replies are late by what it takes to wake a thread, and never early.
    let mean = |result: &serde_json::Value| result["response_ns"]["mean"].as_u64().unwrap();
    assert!(mean(&mounted) >= mean(&simulated), "{mounted} {simulated}");
}

#[test]
fn a_mount_lasts_until_it_is_taken_away_and_says_what_it_saw() {
    if !can_mount("a_mount_lasts") {
        return;
    }
    let scratch = Scratch::new("mount_lasts");
    let served = Served::start(&scratch, "--drive deskstar-7k250 --speed 100 --record trace.csv --json");
    fs::write(scratch.0.join("disk/file"), vec![7; 100_000]).unwrap();
    assert_eq!(fs::read(scratch.0.join("files/file")).unwrap(), vec![7; 100_000]);
    assert_eq!(scratch.ok("umount disk"), "");
    let (code, text) = served.ended();
    let result = &json(&text)["result"];
    assert_eq!((code, &result["written_bytes"]), (Some(0), &100_352.into()));
    assert!(result["lateness_ns"]["p99"].is_u64());
    let records = result["recorded"].as_u64().unwrap();
    assert_eq!(fs::read_to_string(scratch.0.join("trace.csv")).unwrap().lines().count() as u64, records + 1);
}

#[test]
fn a_summary_that_cannot_be_written_is_an_error_and_leaves_no_mount() {
    if !can_mount("a_summary_that_cannot_be_written") {
        return;
    }
    let scratch = Scratch::new("mount_stdout");
    for name in ["files", "disk"] {
        fs::create_dir_all(scratch.0.join(name)).unwrap();
    }
    let mut command = Command::new("timeout");
    let words = "exec \"$0\" mount files disk --json >/dev/full";
    command.args(["-s", "KILL", "60", "sh", "-c", words, env!("CARGO_BIN_EXE_sakiyomi")]);
    let served = Served::started(&scratch, {
        command.current_dir(&scratch.0);
        command
    });
    scratch.ok("umount disk");
    assert_eq!(served.ended().0, Some(2));
}

#[test]
fn signals_end_a_mount_as_umount_does() {
    if !can_mount("signals_end_a_mount") {
        return;
    }
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new(&format!("mount_{signal}"));
        let served = Served::start(&scratch, "--record trace.csv --layout places");
        fs::write(scratch.0.join("disk/file"), "x").unwrap();
        served.signal(signal);
        assert_eq!(served.ended().0, Some(0), "{signal}");
        assert!(!scratch.0.join("disk/file").exists(), "it is unmounted");
        assert_eq!(scratch.names("."), ["disk", "files", "places", "trace.csv"]);
    }
}

#[test]
fn what_a_killed_program_has_left_can_be_taken_away() {
    if !can_mount("what_a_killed_program_has_left") {
        return;
    }
    let scratch = Scratch::new("mount_killed");
    let mut served = Served::start(&scratch, "--drive deskstar-7k250");
    fs::write(scratch.0.join("disk/file"), "kept").unwrap();
    served.signal("KILL");
    served.process.wait().unwrap();
    let said = scratch.refused("mount files disk");
    assert!(said.contains("a mount whose program has ended is still on") && said.contains("disk;"), "{said}");
    scratch.ok("umount disk");
    assert_eq!(scratch.names("disk"), [""; 0]);
    assert_eq!(fs::read_to_string(scratch.0.join("files/file")).unwrap(), "kept");
    assert!(scratch.refused("umount disk").contains("sakiyomi has mounted nothing on disk"));
}

#[test]
fn ctrl_c_while_files_are_laid_out_leaves_nothing() {
    if !can_mount("ctrl_c_while_files_are_laid_out") {
        return;
    }
    let scratch = Scratch::new("mount_interrupted");
    fs::create_dir_all(scratch.0.join("disk")).unwrap();
    for number in 0..2000 {
        fs::create_dir_all(scratch.0.join(format!("files/{number}"))).unwrap();
    }
    // It depends on the machine whether the signal arrives during the scan: nothing is left in either case.
    for wait in [5, 10, 20, 40] {
        let mut command = Command::new("timeout");
        command.args(["-s", "INT", &format!("0.0{wait:02}"), env!("CARGO_BIN_EXE_sakiyomi")]);
        command.args(["mount", "files", "disk", "--record", "trace.csv", "--layout", "places"]);
        let ended = command.args(["--drive", "deskstar-7k250"]).current_dir(&scratch.0).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.is_empty() || said.contains("interrupted;") || said.contains("mounted on"), "{said}");
        assert_eq!(scratch.names("disk"), [""; 0], "nothing is mounted");
        for name in scratch.names(".") {
            assert!(["disk", "files", "trace.csv", "places"].contains(&name.as_str()), "{name}");
        }
    }
}

#[test]
fn who_is_not_root_mounts_with_fusermount3() {
    const NOBODY: u32 = 65534;
    if !can_mount("who_is_not_root") || !others_can_mount(NOBODY) {
        return;
    }
    let scratch = Scratch::new("mount_unprivileged");
    let by_him = |words: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "20"]).args(words).current_dir(&scratch.0);
        command.uid(NOBODY).gid(NOBODY).output().unwrap()
    };
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let sakiyomi = env!("CARGO_BIN_EXE_sakiyomi");
    let served = Served::start_as(&scratch, "--drive deskstar-7k250 --record trace.csv", Some(NOBODY));
    let script =
        "set -e; echo x >disk/file; mkdir disk/dir; ln disk/file disk/dir/link; mv disk/file disk/moved
        chmod 600 disk/moved; cat disk/dir/link; rm disk/moved";
    let output = by_him(&["sh", "-c", script]);
    assert_eq!(output.stdout, b"x\n", "{}", said(&output));
    assert_eq!(scratch.names("files/dir"), ["link"]);
    let busy = by_him(&["sh", "-c", "cd disk && exec \"$0\" umount ../disk", sakiyomi]);
    assert!(said(&busy).contains("is in use: close its files"), "{}", said(&busy));
    let output = by_him(&[sakiyomi, "umount", "disk"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(served.ended().0, Some(0));
    assert!(scratch.0.join("trace.csv").exists());
    // Ctrl-C, and leftovers after a kill.
    let served = Served::start_as(&scratch, "", Some(NOBODY));
    served.signal("INT");
    assert_eq!(served.ended().0, Some(0));
    let mut served = Served::start_as(&scratch, "", Some(NOBODY));
    served.signal("KILL");
    served.process.wait().unwrap();
    assert!(by_him(&[sakiyomi, "umount", "disk"]).status.success());
    assert_eq!(scratch.names("disk"), [""; 0]);
}

/// Returns whether another user can access FUSE, its helper and this program here; reports a skip otherwise.
fn others_can_mount(user: u32) -> bool {
    let script = "command -v fusermount3 >&2 && test -c /dev/fuse && : <>/dev/fuse && exec \"$0\" --version";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_sakiyomi")]).uid(user).gid(user);
    let able =
        command.current_dir(sakiyomi_testing::directory()).output().is_ok_and(|tried| tried.status.success());
    if !able {
        let why =
            "others than root lack fusermount3 (package fuse3), /dev/fuse, or a way to the build directory";
        skipped("mounts by another user", why);
    }
    able
}

#[test]
fn as_many_files_can_be_open_as_there_are_descriptors() {
    if !can_mount("as_many_files_can_be_open") || !limits_can_be_kept() {
        return;
    }
    let scratch = Scratch::new("mount_descriptors");
    for name in ["files", "disk"] {
        fs::create_dir_all(scratch.0.join(name)).unwrap();
    }
    (0..100).for_each(|number| fs::write(scratch.0.join(format!("files/{number}")), "x").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", FEW_DESCRIPTORS, env!("CARGO_BIN_EXE_sakiyomi"), "mount", "files", "disk"]);
    command.current_dir(&scratch.0);
    let served = Served::started(&scratch, command);
    // Looks up all of them; the mount keeps half of its descriptors for known files.
    for number in 0..100 {
        fs::metadata(scratch.0.join(format!("disk/{number}"))).unwrap();
    }
    let open = |number: &usize| File::open(scratch.0.join(format!("disk/{number}"))).ok();
    let held: Vec<File> = (0..100).map_while(|number| open(&number)).collect();
    assert!(held.len() > FEW * 2 / 3, "{} are open", held.len());
    // Without a free descriptor, no file is created either.
    File::create_new(scratch.0.join("disk/new")).unwrap_err();
    assert!(!scratch.0.join("files/new").exists());
    drop(held);
    assert_eq!(scratch.ok("umount disk"), "");
    drop(served);
}

/// Descriptor limit of the process in [`FEW_DESCRIPTORS`].
const FEW: usize = 64;

/// Shell prefix that limits descriptors so that not even root can raise the limit.
const FEW_DESCRIPTORS: &str = "ulimit -n 64 && exec timeout -s KILL 60 setpriv --bounding-set -sys_resource --inh-caps -sys_resource \"$0\" \"$@\"";

fn limits_can_be_kept() -> bool {
    let tried = Command::new("sh").args(["-c", FEW_DESCRIPTORS, "true"]).output();
    let able = tried.is_ok_and(|tried| tried.status.success());
    if !able {
        skipped("as_many_files_can_be_open", "needs setpriv (package util-linux)");
    }
    able
}

#[test]
fn each_second_is_a_line() {
    if !can_mount("each_second_is_a_line") {
        return;
    }
    let scratch = Scratch::new("mount_seconds");
    let served = Served::start(&scratch, "--drive deskstar-7k250 --stats --json");
    fs::write(scratch.0.join("disk/file"), vec![7; 10_000]).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    served.signal("INT");
    let (_, text) = served.ended();
    let second = &json(text.lines().next().unwrap())["result"];
    assert!(second["written_bytes_per_s"].as_f64().unwrap() > 5_000.0, "{second}");
    assert!(second["busy_ratio"].as_f64().unwrap() < 1.0);
}

#[test]
fn what_cannot_be_mounted_is_refused_in_a_sentence() {
    if !can_mount("what_cannot_be_mounted") {
        return;
    }
    let scratch = Scratch::new("mount_refused");
    for name in ["files/inside", "disk", "full"] {
        fs::create_dir_all(scratch.0.join(name)).unwrap();
    }
    scratch.file("full/file", "x");
    let drive = "--drive deskstar-7k250";
    for (words, sentence) in [
        ("mount missing disk", "missing is not a directory that can be used as the backing directory"),
        ("mount files nowhere", "nowhere is not a directory that can be used as the mount point"),
        ("mount files full", "is not empty: its files would be hidden"),
        ("mount files files/inside", "contain each other"),
        ("mount files disk --drive nosuch", "nosuch"),
        ("mount files disk --drive fixed:latency=3", "the unit is missing"),
        ("mount files disk --drive fixed --set queue.depth=3", "--set and --array are for hard disks"),
        ("mount files disk --fragment 5kB", "give a multiple of 4KiB"),
        ("mount files disk --record full", "full"),
        ("mount files disk --record disk/trace.csv", "disk/trace.csv lies in"),
        ("mount files disk --layout ./disk/places", "name a file elsewhere for the layout"),
        ("mount files disk --drive fixed:latency=1ms,latency=2ms", "it is given twice"),
        (&format!("mount files disk {drive} --speed 0"), "a speed of 0 is not possible"),
        (&format!("mount files disk {drive} --layout full/file"), "line 1 of the layout is not"),
    ] {
        let said = scratch.refused(words);
        assert!(said.contains(sentence) && said.lines().count() == 1, "{words}: {said}");
    }
    // A mount that fails leaves the existing trace unchanged.
    scratch.file("trace.csv", "precious");
    scratch.file("files/large", vec![7; 2 << 20]);
    let said = scratch.refused("mount files disk --drive fixed:size=1MiB --record trace.csv");
    assert!(said.contains("do not fit onto the drive"), "{said}");
    assert_eq!(fs::read_to_string(scratch.0.join("trace.csv")).unwrap(), "precious");
}

/// Runs a command in a mount namespace of its own, in which `setup` was run before; returns `None`, and reports a
/// skip, if such a namespace is not possible here. `prefix` is put before the command.
fn said_where(scratch: &Scratch, test: &str, (setup, prefix): (&str, &str), words: &str) -> Option<String> {
    let sakiyomi = env!("CARGO_BIN_EXE_sakiyomi");
    let script = format!(
        "set -e; {{ {setup}; }} >&2; echo ready; exec timeout -s KILL 60 {prefix} {sakiyomi} {words}"
    );
    let mut command = Command::new("unshare");
    let output = command.args(["-m", "sh", "-c", &script]).current_dir(&scratch.0).output();
    let begun = |output: &std::process::Output| output.stdout.starts_with(b"ready");
    match output {
        Ok(output) if begun(&output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        _ => {
            sakiyomi_testing::skipped(test, format!("`{setup}` is not possible in a namespace here"));
            None
        }
    }
}

const EMPTY_DEV: &str = "mount -t tmpfs none /dev";
const AS_NOBODY: &str = "setpriv --reuid 65534 --clear-groups env PATH=/nowhere";

#[test]
fn each_reason_why_nothing_can_be_mounted_is_told_with_its_remedy() {
    let scratch = Scratch::new("mount_reasons");
    for name in ["files", "disk"] {
        fs::create_dir_all(scratch.0.join(name)).unwrap();
    }
    let node = |mode: u32, number: &str| format!("{EMPTY_DEV}; mknod -m {mode} /dev/fuse c {number}");
    let no_helper = "test -c /dev/fuse; : <>/dev/fuse; for name in /bin/fusermount3 /sbin/fusermount3; do if test -e $name; then mount --bind /dev/null $name; fi; done";
    let (closed, no_driver, other) = (node(600, "10 229"), node(666, "10 77"), node(666, "1 3"));
    let nodev = "mount -t tmpfs -o nodev none /dev; mknod -m 666 /dev/fuse c 10 229";
    let no_admin = "setpriv --bounding-set -sys_admin --inh-caps -sys_admin";
    for (setup, prefix, sentence) in [
        (EMPTY_DEV, "", "/dev/fuse does not exist: load the kernel module with `modprobe fuse`"),
        (&no_driver, "", "/dev/fuse has no driver behind it: load the kernel module"),
        (&other, "", "/dev/fuse is not the device of FUSE"),
        (nodev, "", "/dev/fuse may not be opened here, although its mode allows it: a container needs"),
        (&closed, AS_NOBODY, "user 65534 may not open /dev/fuse, which has mode 0600, owner 0 and group 0"),
        (no_helper, no_admin, "the kernel does not let this process mount or unmount: a container needs"),
    ] {
        let Some(said) = said_where(&scratch, "each_reason", (setup, prefix), "mount files disk") else {
            continue;
        };
        if said.contains("Permission denied") && said.contains("failed to execute") {
            sakiyomi_testing::skipped("each_reason", "another user cannot reach the build directory");
            continue;
        }
        assert!(said.contains(sentence) && said.lines().count() == 1, "{setup}: {said}");
        assert!(!said.contains("os error"), "{said}");
    }
}

#[test]
fn umount_tells_a_link_a_part_of_a_mount_and_the_mounts_of_others_apart() {
    if !can_mount("umount_tells_apart") {
        return;
    }
    let scratch = Scratch::new("umount_apart");
    let served = Served::start(&scratch, "");
    fs::create_dir(scratch.0.join("disk/inside")).unwrap();
    std::os::unix::fs::symlink("disk", scratch.0.join("link")).unwrap();
    let said = scratch.refused("umount disk/inside");
    assert!(said.contains("disk/inside is not a mount point, but lies in one: name "), "{said}");
    let said = scratch.refused("umount /proc");
    assert!(said.contains("the proc file system on /proc was not mounted by sakiyomi"), "{said}");
    assert_eq!(
        scratch.refused("umount nowhere"),
        "sakiyomi: cannot unmount nowhere: No such file or directory\n"
    );
    assert!(scratch.refused("umount files").contains("sakiyomi has mounted nothing on files"));
    let by_nobody =
        format!("setpriv --reuid 65534 --clear-groups {} umount disk", env!("CARGO_BIN_EXE_sakiyomi"));
    let words: Vec<&str> = by_nobody.split_whitespace().collect();
    let refused = Command::new(words[0]).args(&words[1..]).current_dir(&scratch.0).output();
    match refused.map(|output| String::from_utf8(output.stderr).unwrap()) {
        Ok(said) if said.starts_with("sakiyomi: ") => {
            assert!(said.contains("disk was mounted by user 0: only that user and root"), "{said}");
        }
        _ => sakiyomi_testing::skipped("umount_tells_apart", "another user cannot run the program here"),
    }
    assert_eq!(scratch.ok("umount link"), "");
    assert_eq!(served.ended().0, Some(0));
}

#[test]
fn a_dead_mount_in_the_backing_directory_does_not_hinder_a_mount() {
    if !can_mount("a_dead_mount_in_the_backing_directory") {
        return;
    }
    let scratch = Scratch::new("mount_dead_inside");
    fs::create_dir_all(scratch.0.join("files/dead")).unwrap();
    fs::create_dir_all(scratch.0.join("other")).unwrap();
    let mut command = Command::new("timeout");
    let words = format!("-s KILL 60 {} mount other files/dead", env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(words.split_whitespace()).current_dir(&scratch.0);
    let mut dead = Served::started(&scratch, command);
    dead.directory = scratch.0.join("files/dead");
    dead.signal("KILL");
    dead.process.wait().unwrap();
    let served = Served::start(&scratch, "--drive deskstar-7k250");
    assert_eq!(scratch.names("disk"), ["dead"]);
    scratch.ok("umount disk");
    assert_eq!(served.ended().0, Some(0));
    scratch.ok("umount files/dead");
}
