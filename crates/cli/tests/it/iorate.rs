//! `iorate` from the user's view: refusals, programs with rates on a real mount, and the reports about them. How well
//! rates are kept is not tested here.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::fuse::can_mount;
use crate::scratch::{Scratch, json};
use crate::stdout::redirected;
use sakiyomi_testing::{skipped, wait_until};
use serde_json::Value;

#[test]
fn what_cannot_be_asked_is_refused_in_a_sentence() {
    let scratch = Scratch::new("iorate_refused");
    let not_here = ". is not on a mount of sakiyomi; create one with `sakiyomi mount BACKING DIR --regulate`";
    for (words, sentence) in [
        ("iorate set 1 . 20", not_here),
        ("iorate set 1 . --every 40ms", not_here),
        ("iorate set --group /batch . 20", not_here),
        ("iorate clear 1 .", not_here),
        ("iorate clear --all .", not_here),
        ("iorate list .", not_here),
        ("iorate top . --count 1", not_here),
        ("iorate top . --prometheus --out file", not_here),
        ("iorate list missing", "cannot open missing: "),
        ("iorate set 1 .", "PERCENT (or --every TIME) is missing"),
        ("iorate set . 20", ". is not a process ID; write: sakiyomi iorate set PID DIR PERCENT|--every TIME"),
        ("iorate set 1 . 0", "a rate of 0 is not possible; give 1 to 100, percent of the device"),
        ("iorate top . --interval 0s", "--interval 0: give a time"),
        ("iorate calibrate missing", "missing: No such file or directory"),
        ("iorate calibrate . --time 10ms", "--time 10ms: give at least 1s"),
        ("iorate calibrate . --profile missing/file", "the directory missing does not exist; create it"),
    ] {
        let said = scratch.refused(words);
        assert!(said.contains(sentence) && said.lines().count() == 1, "{words}: {said}");
    }
    for words in [
        "iorate",
        "iorate set",
        "iorate set 1 . --every 40",
        "iorate set 1 . 20 --children --group /a",
        "iorate top . --out file",
        "iorate top . --prometheus --json",
        "iorate top . --count 0",
    ] {
        scratch.refused(words);
    }
    assert_eq!(scratch.names("."), [""; 0]);
}

#[test]
fn a_program_that_cannot_have_its_rate_is_not_run_and_its_code_tells_so() {
    let scratch = Scratch::new("iorate_not_run");
    for (words, sentence) in [
        ("iorate run 20 . -- touch file", "is not on a mount of sakiyomi"),
        ("iorate run 20 . --children -- touch file", "is not on a mount of sakiyomi"),
        ("iorate run 20 missing -- touch file", "cannot open missing: "),
        ("iorate run . -- touch file", "a rate of . is not possible"),
        ("iorate run 20 . touch file", "unexpected value 'file'"),
        ("iorate run 20 .", "required"),
        ("--quiet iorate run 20 .", "required"),
    ] {
        let output = scratch.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words}: {said}");
        assert!(said.contains(sentence) && output.stdout.is_empty(), "{words}: {said}");
    }
    assert_eq!(scratch.names("."), [""; 0]);
}

#[test]
fn the_doctor_knows_whether_rates_can_be_kept_here() {
    let scratch = Scratch::new("iorate_doctor");
    let told = json(&scratch.ok("doctor --json"));
    let findings = told["result"]["findings"].as_array().unwrap();
    let regulation = findings.iter().find(|finding| finding["what"] == "regulation").unwrap();
    assert!(regulation["available"] == true || !can_mount("the_doctor"), "{regulation}");
}

/// `files` on `disk`, where an I/O takes a millisecond and rates are kept; always unmounted at the end.
struct Regulated {
    process: Child,
    directory: PathBuf,
}

impl Regulated {
    fn new(scratch: &Scratch) -> Regulated {
        Regulated::on(scratch, "--drive fixed:latency=1ms")
    }

    /// Mounts with the words that name the device.
    fn on(scratch: &Scratch, device: &str) -> Regulated {
        for name in ["files", "disk"] {
            fs::create_dir_all(scratch.0.join(name)).unwrap();
        }
        scratch.file("files/file", vec![7; 4 << 20]);
        scratch.file("files/first", "x");
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_sakiyomi")]);
        command.args(["mount", "files", "disk", "--regulate"]).args(device.split_whitespace());
        command.current_dir(&scratch.0).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("mounted on "), "{line}");
        // The time of an I/O is known after the first, and so is the ideal time of the following ones.
        assert_eq!(fs::read(scratch.0.join("disk/first")).unwrap(), b"x");
        Regulated { process, directory: scratch.0.join("disk") }
    }
}

impl Drop for Regulated {
    fn drop(&mut self) {
        // A mount that hangs would block every process that accesses it.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
        let _ = self.process.wait();
    }
}

/// A program that is killed at the end.
struct Reader(Child);

impl Reader {
    /// Starts a program that reads continuously, a block at a time.
    fn new(scratch: &Scratch) -> Reader {
        let mut command = Command::new("dd");
        command.args(["if=disk/file", "of=/dev/null", "bs=64", "status=none"]);
        let reader = Reader(command.current_dir(&scratch.0).spawn().unwrap());
        // Otherwise it could still be before the exec.
        let name = format!("/proc/{}/comm", reader.pid());
        wait_until("the program", || fs::read_to_string(&name).unwrap() == "dd\n");
        reader
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn owners(scratch: &Scratch, words: &str) -> Vec<Value> {
    let document = json(&scratch.ok(words));
    assert_eq!(document["schema"], "sakiyomi.iorate/2");
    document["result"]["owners"].as_array().unwrap().clone()
}

#[test]
fn a_rate_is_set_changed_shown_and_taken_back() {
    if !can_mount("a_rate_is_set") {
        return;
    }
    let scratch = Scratch::new("iorate_set");
    let _regulated = Regulated::new(&scratch);
    let reader = Reader::new(&scratch);
    let pid = reader.pid();
    let said = scratch.ok(&format!("iorate set {pid} disk 20"));
    assert!(said.starts_with(&format!("process {pid} (dd): 20 %, ideal ")), "{said}");
    wait_until("I/Os with the rate", || {
        owners(&scratch, "iorate list disk --json")[0]["ios"].as_u64() > Some(2)
    });
    let set = owners(&scratch, &format!("iorate set {pid} disk/file --every 40ms --json"));
    assert_eq!((&set[0]["every_ns"], &set[0]["rate_percent"]), (&40_000_000.into(), &Value::Null));
    assert_eq!((&set[0]["pid"], &set[0]["kind"]), (&pid.into(), &"process".into()));
    let said = scratch.refused(&format!("iorate set {pid} disk 99"));
    assert!(said.ends_with("; --best-effort accepts it without a guarantee\n"), "{said}");
    assert_eq!(owners(&scratch, "iorate list disk --json")[0]["every_ns"], 40_000_000);
    let set = owners(&scratch, &format!("iorate set {pid} disk 99 --best-effort --json"));
    assert_eq!((&set[0]["rate_percent"], &set[0]["best_effort"]), (&99.into(), &true.into()));
    let table = scratch.ok("iorate list disk");
    assert!(
        table.contains(&format!("{pid} dd  99 % *"))
            && table.contains("\n* best effort: without a guarantee"),
        "{table}"
    );
    let said = scratch.ok(&format!("iorate clear {pid} disk"));
    assert!(said.starts_with(&format!("cleared: process {pid} (dd): 99 %")), "{said}");
    assert!(scratch.refused(&format!("iorate clear {pid} disk")).contains("has no rate"));
    assert!(scratch.ok("iorate list disk").ends_with("No process has a rate on this mount.\n"));
    let others = owners(&scratch, "iorate list disk --all --json");
    assert!(others.iter().any(|owner| owner["pid"] == pid && owner["rate_percent"].is_null()), "{others:?}");
    drop(reader);
    let others = owners(&scratch, "iorate list disk --all --json");
    assert!(others.iter().all(|owner| owner["pid"] != pid), "{others:?}");
    assert!(scratch.refused("iorate set 4194304 disk 20").contains("there is no process 4194304"));
}

#[test]
fn a_view_of_rates_that_cannot_be_written_is_an_error() {
    if !can_mount("a_view_of_rates") {
        return;
    }
    let scratch = Scratch::new("iorate_stdout");
    let _regulated = Regulated::new(&scratch);
    let reader = Reader::new(&scratch);
    let pid = reader.pid();
    for words in [
        "iorate list disk --all".to_owned(),
        "iorate top disk --count 1".to_owned(),
        "iorate top disk --prometheus".to_owned(),
        format!("iorate set {pid} disk 20"),
        "iorate clear --all disk".to_owned(),
    ] {
        // A command takes effect even if its reply cannot be written, so the rate is set again before each.
        scratch.ok(&format!("iorate set {pid} disk 10"));
        let output = redirected(&scratch, &words, ">/dev/full");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains("cannot write the result to standard output"), "{words}: {said}");
    }
}

#[test]
fn all_rates_are_taken_back_also_those_of_trees() {
    if !can_mount("all_rates_are_taken_back") {
        return;
    }
    let scratch = Scratch::new("iorate_clear_all");
    let _regulated = Regulated::new(&scratch);
    let readers = [Reader::new(&scratch), Reader::new(&scratch), Reader::new(&scratch)];
    let [one, tree, other] = readers.each_ref().map(Reader::pid);
    scratch.ok(&format!("iorate set {one} disk 5"));
    scratch.ok(&format!("iorate set {tree} disk 5 --children"));
    scratch.ok(&format!("iorate set {other} disk 5"));
    assert_eq!(owners(&scratch, &format!("iorate clear {tree} disk --json"))[0]["kind"], "tree");
    assert_eq!(owners(&scratch, "iorate clear --all disk --json").len(), 2);
    assert_eq!(scratch.ok("iorate clear --all disk"), "No process had a rate.\n");
}

#[test]
fn only_root_and_its_own_user_give_a_process_a_rate() {
    if !can_mount("only_root_and_its_own_user") {
        return;
    }
    let scratch = Scratch::new("iorate_others");
    let _regulated = Regulated::new(&scratch);
    let as_nobody = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command.args(words.split_whitespace()).current_dir(&scratch.0).uid(65534).gid(65534);
        command.output()
    };
    let reaches_it = as_nobody("iorate list disk").is_ok_and(|output| output.status.success());
    if !reaches_it {
        skipped("only_root_and_its_own_user", "another user has no way to the build directory");
        return;
    }
    let reader = Reader::new(&scratch);
    let pid = reader.pid();
    let refused = as_nobody(&format!("iorate set {pid} disk 20")).unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let expected = format!("process {pid} belongs to another user; only root and its owner may set its rate");
    assert!(said.contains(&expected) && said.lines().count() == 1, "{said}");
    scratch.ok(&format!("iorate set {pid} disk 20"));
    assert_eq!(as_nobody(&format!("iorate clear {pid} disk")).unwrap().status.code(), Some(2));
    let left = as_nobody("iorate clear --all disk").unwrap();
    assert!(
        left.status.code() == Some(2)
            && String::from_utf8_lossy(&left.stderr)
                .contains("has a rate that root set; only root may change it")
    );
    assert_eq!(owners(&scratch, "iorate list disk --json").len(), 1);
    // A user may set a rate for its own process.
    let own = as_nobody("iorate run 20 disk --json -- dd if=disk/file of=/dev/null bs=4096 count=4").unwrap();
    assert_eq!(own.status.code(), Some(0), "{}", String::from_utf8_lossy(&own.stderr));
}

/// Runs a program by `iorate run 20 disk`; returns its exit code and the result.
fn run(scratch: &Scratch, options: &str, program: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(["iorate", "run", "20", "disk", "--json"]).args(options.split_whitespace()).arg("--");
    let output = command.args(program).current_dir(&scratch.0).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let document = said.find('{').map(|at| json(&said[at..])).unwrap_or_else(|| panic!("{said}"));
    (output.status.code(), document["result"].clone())
}

const READ: &str = "dd if=disk/file of=/dev/null bs=4096 count=20 status=none";

#[test]
fn a_program_has_its_rate_from_its_first_io_to_its_end() {
    if !can_mount("a_program_has_its_rate") {
        return;
    }
    let scratch = Scratch::new("iorate_run");
    let _regulated = Regulated::new(&scratch);
    let words: Vec<&str> = READ.split(' ').collect();
    let (code, told) = run(&scratch, "", &words);
    let owner = &told["owners"][0];
    // Each of its reads counts: the rate was set before the first.
    assert_eq!((code, &owner["ios"], &owner["name"]), (Some(0), &20.into(), &"dd".into()), "{told}");
    assert_eq!((&told["program"]["words"][0], &told["program"]["exit_code"]), (&"dd".into(), &0.into()));
    assert!(owner["accuracy_ratio"].as_f64().unwrap() > 0.5, "{told}");
    assert!(owners(&scratch, "iorate list disk --json").is_empty());
}

#[test]
fn what_a_program_starts_shares_its_rate_only_on_request() {
    if !can_mount("what_a_program_starts") {
        return;
    }
    let scratch = Scratch::new("iorate_children");
    let _regulated = Regulated::new(&scratch);
    // One child that is waited for, and one whose parent ends before it does.
    let script = format!(
        "{READ} & wait; sh -c '(while [ ! -e go ]; do sleep 0.01; done; {READ}; touch done) &'; touch go; while [ ! -e done ]; do sleep 0.01; done; exit 3"
    );
    let (code, told) = run(&scratch, "--children", &["sh", "-c", &script]);
    assert_eq!((code, &told["owners"][0]["kind"]), (Some(3), &"tree".into()), "{told}");
    assert_eq!(told["owners"][0]["ios"], 40, "{told}");
    assert!(owners(&scratch, "iorate list disk --json").is_empty());
    let (code, told) = run(&scratch, "", &["sh", "-c", &format!("{READ} & wait; exit 4")]);
    assert_eq!((code, &told["owners"][0]["ios"]), (Some(4), &0.into()), "{told}");
}

#[test]
fn a_program_with_a_rate_ends_as_it_ends_and_has_its_streams() {
    if !can_mount("a_program_with_a_rate_ends") {
        return;
    }
    let scratch = Scratch::new("iorate_run_ends");
    let _regulated = Regulated::new(&scratch);
    for children in [&[][..], &["--children"]] {
        let command = |program: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
            command.args(["iorate", "run", "20", "disk"]).args(children).arg("--").args(program);
            command.current_dir(&scratch.0);
            command
        };
        for code in [0, 1, 125, 255] {
            let output =
                command(&["sh", "-c", &format!("echo out; echo err >&2; exit {code}")]).output().unwrap();
            let streams = (&*output.stdout, &*output.stderr);
            assert_eq!((output.status.code(), streams), (Some(code), (&b"out\n"[..], &b"err\n"[..])));
        }
        let killed = command(&["sh", "-c", "kill -TERM $$"]).output().unwrap();
        assert_eq!(killed.status.signal(), Some(15));
        for (program, code) in [("./missing", 127), ("./files/file", 126)] {
            assert_eq!(command(&[program]).output().unwrap().status.code(), Some(code), "{program}");
        }
        let mut child =
            command(&["sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        assert_eq!((child.wait().unwrap().code(), &*line), (Some(9), "ready\n"));
    }
    assert!(owners(&scratch, "iorate list disk --json").is_empty());
}

#[test]
fn a_rate_without_room_is_refused_or_kept_as_well_as_can_be() {
    if !can_mount("a_rate_without_room") {
        return;
    }
    let scratch = Scratch::new("iorate_no_room");
    let _regulated = Regulated::new(&scratch);
    let output = scratch.run("iorate run 99 disk -- touch ran");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), scratch.0.join("ran").exists()), (Some(125), false), "{said}");
    assert!(said.contains(" % can") && said.contains("--best-effort") && said.lines().count() == 1, "{said}");
    let output = scratch.run("iorate run 99 disk --best-effort --report -- touch ran");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), scratch.0.join("ran").exists()), (Some(0), true), "{said}");
    assert!(said.contains("99 %, best effort, ideal "), "{said}");
}

#[test]
fn who_watches_sees_lines_objects_and_a_file_that_is_whole() {
    if !can_mount("who_watches") {
        return;
    }
    let scratch = Scratch::new("iorate_top");
    let _regulated = Regulated::new(&scratch);
    let reader = Reader::new(&scratch);
    let pid = reader.pid();
    scratch.ok(&format!("iorate set {pid} disk 20"));
    let objects = scratch.ok("iorate top disk --json --count 2 --interval 100ms");
    let objects: Vec<Value> = objects.lines().map(json).collect();
    assert_eq!(objects.len(), 2);
    for object in &objects {
        let (device, owner) = (&object["result"]["device"], &object["result"]["owners"][0]);
        assert_eq!((&object["schema"], &owner["pid"]), (&"sakiyomi.iorate/2".into(), &pid.into()));
        assert!(device["requests_per_s"].is_number() && owner["ios_per_s"].is_number(), "{object}");
    }
    let lines = scratch.ok("iorate top disk --count 1 --interval 100ms");
    assert!(
        lines.lines().any(|line| line.contains(&format!("  process {pid} (dd): 20 %, ideal "))),
        "{lines}"
    );
    scratch.ok("iorate top disk --count 3 --interval 100ms --out watched -q");
    let page = fs::read_to_string(scratch.0.join("watched/report.html")).unwrap();
    assert!(page.ends_with("</html>") && page.contains("<svg"), "{page}");
    let document = json(&fs::read_to_string(scratch.0.join("watched/result.json")).unwrap());
    assert_eq!(document["schema"], "sakiyomi.iorate-top/2");
    assert_eq!(document["result"]["windows"].as_array().unwrap().len(), 3);
    let out = scratch.ok("iorate top disk --prometheus --out rates.prom --count 2 --interval 100ms");
    let (written, printed) = (
        fs::read_to_string(scratch.0.join("rates.prom")).unwrap(),
        scratch.ok("iorate top disk --prometheus"),
    );
    for text in [&written, &printed] {
        let ideal = text.lines().find(|line| line.starts_with("sakiyomi_iorate_ideal_seconds{")).unwrap();
        let labels = format!("kind=\"process\",pid=\"{pid}\",name=\"dd\"}} 0.0");
        assert!(ideal.contains(&labels), "{ideal}");
    }
    assert_eq!((out.len(), scratch.names(".").len()), (0, 4), "nothing else is left");
}

#[test]
fn the_terminal_is_as_it_was_when_the_view_ends() {
    if !sakiyomi_testing::has_terminals("the_terminal_is_as_it_was") {
        return;
    }
    let scratch = Scratch::new("iorate_terminal");
    let on_a_terminal = |words: &str, end: &str| {
        let line = format!(
            "stty cols 60 rows 9; {} {words}{end}; echo code=$?; stty -a",
            env!("CARGO_BIN_EXE_sakiyomi")
        );
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "30", "script", "-qec", &line, "/dev/null"]).current_dir(&scratch.0);
        String::from_utf8(command.stdin(Stdio::null()).output().unwrap().stdout).unwrap()
    };
    // Errors are reported before the terminal is taken over.
    let refused = on_a_terminal("iorate top .", "");
    assert!(refused.contains("code=2") && !refused.contains("\x1b["), "{refused}");
    if !can_mount("the_terminal_is_as_it_was") {
        return;
    }
    let _regulated = Regulated::new(&scratch);
    let (enter, leave) = ("\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l");
    let interrupted = " & sleep 0.5; kill -INT $!; wait $!";
    for (words, end) in [
        ("iorate top disk --interval 50ms --count 2", ""),
        // Also if it is interrupted.
        ("iorate top disk", interrupted),
    ] {
        let shown = on_a_terminal(words, end);
        let (_, view) = shown.split_once(enter).unwrap_or_else(|| panic!("{shown:?}"));
        let (view, after) = view.split_once(leave).unwrap_or_else(|| panic!("{view:?}"));
        assert!(view.contains("sakiyomi iorate top") && view.contains("\x1b[K"), "{view:?}");
        assert!(after.contains("code=0") && !after.contains("\x1b["), "{after:?}");
        assert!(after.contains(" icanon ") && after.contains(" echo "), "{after:?}");
    }
}

/// Measures a file, if direct I/O reaches it or it lies in memory.
fn calibrated(scratch: &Scratch, test: &str) -> Option<Value> {
    scratch.file("content", vec![7; 64 << 20]);
    let out = scratch.run("iorate calibrate content --time 1s --profile profile.json --json");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if said.contains("has no direct I/O") {
        skipped(test, "this file system has no direct I/O");
        return None;
    }
    assert!(out.status.success(), "{said}");
    Some(json(&String::from_utf8_lossy(&out.stdout)))
}

#[test]
fn the_profile_of_a_device_is_measured_and_decides_which_rates_are_given() {
    let test = "the_profile_of_a_device";
    let scratch = Scratch::new(test);
    let Some(found) = calibrated(&scratch, test) else { return };
    assert_eq!(found["schema"], "sakiyomi.device-profile/1");
    let mut slow = json(&fs::read_to_string(scratch.0.join("profile.json")).unwrap());
    assert!(slow["reads"][0]["mean_ns"].as_f64().unwrap() > 0.0);
    if !can_mount(test) {
        return;
    }
    // The file counts, whatever the device does: reads of 50 ms, one after another.
    let time = serde_json::json!({"mean_ns": 50e6, "deviation_ns": 1e6});
    for key in ["reads", "writes"] {
        slow[key] = Value::from(vec![time.clone(); 4]);
    }
    for key in ["batches", "behind"] {
        slow[key] = Value::from(vec![time.clone()]);
    }
    slow["beside"] = Value::Null;
    scratch.file("slow.json", slow.to_string());
    let _regulated = Regulated::on(&scratch, "--profile slow.json");
    let device = json(&scratch.ok("iorate list disk --json"))["result"]["device"].clone();
    assert_eq!((&device["policy"], &device["service_ns"]), (&"profile".into(), &50_000_000.into()));
    let refused = scratch.refused("iorate set 1 disk 90");
    assert!(refused.contains("takes 50 ms itself"), "{refused}");
}
