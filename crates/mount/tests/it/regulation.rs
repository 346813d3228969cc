//! Rates of a mount: setting, keeping and clearing them; permissions and targets.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::mounted::{Scratch, can_mount, unmounted};
use rustix::fs::OFlags;
use sakiyomi_iorate::protocol::{Owner, Rate, Refusal, Set, Target, View};
use sakiyomi_iorate::quotas::Quotas;
use sakiyomi_iorate::{Control, Error, set_iorate};
use sakiyomi_mount::{EmulatedStorage, Mounted, Options, Regulate};
use sakiyomi_os::ioctl_channel::{MESSAGE_BYTES, exchange};
use sakiyomi_testing::skipped;

const LIMIT: Duration = Duration::from_secs(100);

fn regulated(device: &str) -> Options {
    let behind = Some(EmulatedStorage::Fixed(device.parse().unwrap()));
    Options { behind, regulate: Some(Regulate::default()), ..Options::default() }
}

/// Makes a mount with one file of 4 MiB.
fn start(test: &str, options: &Options) -> (Scratch, Mounted, PathBuf) {
    let scratch = Scratch::new(&format!("rates-{test}"), LIMIT);
    fs::write(scratch.path("backing/file"), vec![7; 4 << 20]).unwrap();
    let mounted = scratch.mount(options);
    let file = scratch.path("mounted/file");
    (scratch, mounted, file)
}

fn direct(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap()
}

/// Reads `count` blocks.
fn read(path: &Path, count: u64) {
    let file = direct(path);
    (0..count).for_each(|block| file.read_exact_at(&mut [0; 4096], block % 1024 * 4096).unwrap());
}

/// A process that runs a shell script with the file as `$1`; it ends with all its descendants.
struct Program(Child);

impl Program {
    fn run(script: &str, file: &Path) -> Program {
        Program::run_with(script, file, |command| command)
    }

    fn run_with(script: &str, file: &Path, set: impl FnOnce(&mut Command) -> &mut Command) -> Program {
        let read = r#"read_blocks() { dd if="$1" of=/dev/null bs=4096 count=$2 iflag=direct status=none; }"#;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{read}\n{script}"), "sh"]).arg(file).process_group(0);
        command.stdin(Stdio::piped());
        Program(set(&mut command).spawn().unwrap())
    }

    /// Reads until it is killed.
    fn rival(file: &Path) -> Program {
        Program::run(r#"while read_blocks "$1" 1000; do :; done"#, file)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Continues after a `read line`.
    fn step(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Runs to its end.
    fn end(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let group = rustix::process::Pid::from_child(&self.0);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

fn process(pid: u32) -> Target {
    Target::Process { pid }
}

fn percent(target: Target, percent: u32) -> Set {
    Set::new(target, Rate::Percent(percent))
}

fn look(path: &Path, all: bool) -> View {
    Control::open(path).unwrap().view(all).unwrap()
}

fn owner(view: &View, target: &Target) -> Option<Owner> {
    view.owners.iter().find(|owner| owner.target == *target).cloned()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result.unwrap_err() {
        Error::Refused { why, .. } => why,
        other => panic!("{other}"),
    }
}

/// Measures how late the machine wakes a thread that sleeps as long as a regulated read takes.
struct WakeUps {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<bool>,
}

impl WakeUps {
    fn watch() -> WakeUps {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let time = Duration::from_millis(10);
            let (mut slept, mut wanted) = (Duration::ZERO, Duration::ZERO);
            while !told.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(time);
                slept += begun.elapsed();
                wanted += time;
            }
            slept < wanted.mul_f64(1.05)
        });
        WakeUps { is_over, thread }
    }

    /// Ends the measurement; returns whether the mean lateness was below 5 %.
    fn are_in_time(self) -> bool {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Waits until other processes bring about a condition.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_has_a_rate_finds_its_time_constant_among_others() {
    if !can_mount("who_has_a_rate") {
        return;
    }
    let (_scratch, mounted, file) = start("kept", &regulated("latency=2ms,spread=0.5"));
    let own = process(std::process::id());
    let rivals: Vec<Program> = (0..4).map(|_| Program::rival(&file)).collect();
    // The device must have been measured.
    eventually("the rivals read", || look(&file, true).device.requests > 200);
    set_iorate(std::process::id(), &file, 20).unwrap();
    // On a busy machine replies are late whatever the regulation does; a round counts only if threads woke in time
    // meanwhile.
    let mut rounds = 0;
    let mut judged = 0;
    let kept = loop {
        rounds += 1;
        let wakes = WakeUps::watch();
        read(&file, 150);
        let is_quiet = wakes.are_in_time();
        let kept = owner(&look(&file, false), &own).unwrap();
        assert_eq!((kept.rate, kept.ios), (Some(Rate::Percent(20)), 150 * rounds));
        let is_accurate = (0.9..1.15).contains(&kept.accuracy_ratio.unwrap()) && kept.cov_ratio < 0.3;
        if is_accurate && kept.late < 30 * rounds {
            break kept;
        }
        judged += u64::from(is_quiet);
        assert!(judged < 3, "three rounds: {kept:?}");
        if rounds == 10 {
            return skipped("who_has_a_rate", "threads are woken too late here");
        }
    };
    // Five times the service time that the device itself reports.
    let times = kept.ideal_ns.unwrap() as f64 / 2e6;
    assert!((4.0..6.0).contains(&times), "{kept:?}");
    set_iorate(std::process::id(), &file, 0).unwrap();
    let view = look(&file, true);
    assert_eq!(owner(&view, &own).unwrap().rate, None);
    assert!(look(&file, false).owners.is_empty());
    assert!(view.owners.iter().filter(|one| one.name == "dd").count() >= 4, "{view:?}");
    assert_eq!(refusal(set_iorate(std::process::id(), &file, 0)), Refusal::NoRate { what: own.to_string() });
    drop(rivals);
    unmounted(mounted);
}

#[test]
fn what_cannot_be_given_is_refused_in_a_sentence() {
    if !can_mount("what_cannot_be_given") {
        return;
    }
    let (_scratch, mounted, file) = start("refused", &regulated("latency=1ms"));
    let control = Control::open(&file).unwrap();
    let own = process(std::process::id());
    for rate in [Rate::Percent(0), Rate::Percent(101), Rate::EveryNs(0), Rate::EveryNs(u64::MAX)] {
        let set = Set { target: own.clone(), rate, best_effort: true, back_to_back: false };
        assert!(matches!(refusal(control.set(&set)), Refusal::BadRate { .. }), "{rate:?}");
    }
    assert_eq!(refusal(set_iorate(0x3fff_ffff, &file, 10)), Refusal::NoProcess { pid: 0x3fff_ffff });
    assert_eq!(refusal(control.clear(&process(0x3fff_ffff))), Refusal::NoProcess { pid: 0x3fff_ffff });
    let group = |path: &str| percent(Target::Group { path: path.to_owned() }, 10);
    let nowhere = group("/nowhere at all");
    assert_eq!(refusal(control.set(&nowhere)), Refusal::NoGroup { path: "/nowhere at all".to_owned() });
    assert!(matches!(refusal(control.set(&group("relative"))), Refusal::Malformed { .. }));
    assert!(matches!(refusal(control.set(&group(&"/x".repeat(2000)))), Refusal::Malformed { .. }));
    let NoRoom { best_percent, .. } = no_room(&control, &own);
    assert!(best_percent.is_some_and(|best| best < 100));
    assert!(control.set(&Set { best_effort: true, ..percent(own.clone(), 100) }).unwrap());
    assert!(owner(&look(&file, false), &own).unwrap().best_effort);
    unmounted(mounted);
}

struct NoRoom {
    best_percent: Option<u32>,
}

fn no_room(control: &Control, target: &Target) -> NoRoom {
    match refusal(control.set(&percent(target.clone(), 100))) {
        Refusal::NoRoom { words, best_percent, .. } => {
            assert!(words.contains("100 %"), "{words}");
            NoRoom { best_percent }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_mount_without_rates_and_other_file_systems_say_so() {
    if !can_mount("a_mount_without_rates") {
        return;
    }
    let (_scratch, mounted, file) = start("none", &Options::default());
    assert_eq!(refusal(set_iorate(std::process::id(), &file, 10)), Refusal::NotRegulated);
    assert!(matches!(set_iorate(std::process::id(), "/proc", 10), Err(Error::NotMounted(_))));
    unmounted(mounted);
}

#[test]
fn what_is_not_understood_is_answered() {
    if !can_mount("what_is_not_understood") {
        return;
    }
    let (scratch, mounted, _) = start("garbage", &regulated("latency=1us"));
    let say = |text: &[u8]| {
        let mut message = [0; MESSAGE_BYTES];
        message[..text.len()].copy_from_slice(text);
        exchange(File::open(scratch.path("mounted")).unwrap(), &mut message).unwrap();
        let text = String::from_utf8_lossy(&message).into_owned();
        text.trim_end_matches('\0').to_owned()
    };
    assert!(say(b"").contains("malformed"));
    assert!(say(b"{\"version\":1").contains("malformed"));
    assert!(say(&[0xff; MESSAGE_BYTES]).contains("malformed"));
    assert!(say(b"{\"version\":2,\"asker\":1,\"call\":\"dance\"}").contains("malformed"));
    assert!(say(b"{\"version\":77,\"call\":\"dance\"}").contains("\"version\",\"theirs\":2"));
    let other = File::open(scratch.path("mounted")).unwrap();
    let error = rustix::io::ioctl_fionread(&other).unwrap_err();
    assert_eq!(error, rustix::io::Errno::NOTTY, "an ioctl of other file systems");
    unmounted(mounted);
}

#[test]
fn only_root_and_its_own_user_set_the_rate_of_a_process() {
    if !can_mount("only_root_and_its_own_user") {
        return;
    }
    let (scratch, mounted, file) = start("rights", &regulated("latency=1us"));
    let other = |command: &mut Command| _ = command.uid(65534).gid(65534);
    let theirs = Program::run_with("read line", &file, |command| {
        other(command);
        command
    });
    let ours = Program::run("read line", &file);
    let set = |target: &Target| asked_as(&scratch, &percent(target.clone(), 10), other);
    assert_eq!(set(&process(theirs.pid())), "given");
    let refused = "belongs to another user; only root and its owner may set its rate";
    assert!(set(&process(ours.pid())).ends_with(refused));
    assert!(set(&process(1)).ends_with(refused));
    assert!(set(&Target::Tree { pid: ours.pid() }).ends_with(refused));
    assert!(set(&Target::Group { path: "/".to_owned() }).ends_with(refused));
    // Root may replace and clear a rate set by another user.
    set_iorate(theirs.pid(), &file, 20).unwrap();
    set_iorate(theirs.pid(), &file, 0).unwrap();
    // A rate that root set can neither be replaced, cleared nor evaded by the process's own user.
    let tree = Target::Tree { pid: theirs.pid() };
    let clear = |target: &Target| {
        asked_as(&scratch, &percent(target.clone(), 1), |command: &mut Command| {
            other(command);
            command.env("SAKIYOMI_CLEAR", "1");
        })
    };
    {
        let control = Control::open(&file).unwrap();
        control.set(&percent(tree.clone(), 10)).unwrap();
        let roots = "has a rate that root set; only root may change it";
        assert!(set(&tree).ends_with(roots) && set(&process(theirs.pid())).ends_with(roots));
        assert!(clear(&tree).ends_with(roots));
        // Nor if the user had set one before, which is nearer.
        control.clear(&tree).unwrap();
        assert_eq!(set(&process(theirs.pid())), "given");
        control.set(&percent(tree.clone(), 10)).unwrap();
        assert!(set(&process(theirs.pid())).ends_with(roots));
        control.clear(&process(theirs.pid())).unwrap();
        control.clear(&tree).unwrap();
        assert_eq!([set(&tree), clear(&tree)], ["given", "cleared"]);
    }
    if let Some(group) = Group::new() {
        group.add("", theirs.pid());
        let target = Target::Group { path: group.name.clone() };
        assert_eq!(set(&target), "given");
        theirs.end();
        let control = Control::open(&file).unwrap();
        eventually("the group is empty", || {
            matches!(refusal(control.set(&percent(target.clone(), 5))), Refusal::NoGroup { .. })
        });
        control.clear(&target).unwrap();
    }
    unmounted(mounted);
}

#[test]
fn the_rates_of_a_user_and_of_a_group_stay_within_their_quotas() {
    if !can_mount("the_rates_of_a_user") {
        return;
    }
    let quotas = Quotas::parse("[users]\n65534 = 30\n[groups]\n'/' = 45", |_| None).unwrap();
    let options = Options { quotas, ..regulated("latency=1ms") };
    let (scratch, mounted, file) = start("quotas", &options);
    let other = |command: &mut Command| _ = command.uid(65534).gid(65534);
    let programs = [(); 3].map(|()| {
        Program::run_with("read line", &file, |command| {
            other(command);
            command
        })
    });
    let set = |program: usize, rate: Rate| {
        let target = process(programs[program].pid());
        asked_as(&scratch, &Set { best_effort: true, ..Set::new(target, rate) }, other)
    };
    assert_eq!(set(0, Rate::Percent(20)), "given");
    let said = set(1, Rate::Percent(11));
    assert!(
        said.ends_with(
            "user 65534 may have rates of 30 % in all, of which 20 % are in use; request 10 % or less"
        ),
        "{said}"
    );
    // 1 ms each 10 ms is 10 %.
    assert_eq!(set(1, Rate::EveryNs(10_000_000)), "given");
    assert_eq!(set(0, Rate::Percent(15)), "given", "what it replaces does not count");
    let said = set(2, Rate::Percent(6));
    assert!(said.contains("may have rates of 30 % in all"), "{said}");
    // Root may give more, which counts for the group.
    let control = Control::open(&file).unwrap();
    control.set(&percent(process(std::process::id()), 20)).unwrap();
    let said = set(2, Rate::Percent(5));
    let in_group =
        said.contains("the control group / may have rates of 45 % in all, of which 45 % are in use");
    // Without control groups the quota of a group concerns nobody.
    assert!(in_group || said == "given", "{said}");
    drop(control);
    unmounted(mounted);
}

#[test]
fn who_has_numbers_of_his_own_is_told_so() {
    if !can_mount("who_has_numbers_of_his_own") {
        return;
    }
    if !Command::new("unshare").args(["-pf", "true"]).status().is_ok_and(|status| status.success()) {
        return skipped("who_has_numbers_of_his_own", "needs unshare(1) and namespaces of processes");
    }
    let (scratch, mounted, file) = start("namespace", &regulated("latency=1us"));
    let set = percent(process(1), 10);
    let said =
        ask(&scratch, &set, Command::new("unshare").args(["-pf"]).arg(std::env::current_exe().unwrap()));
    assert!(said.contains("process IDs here differ from those of the mount"), "{said}");
    // From outside, by its outer process ID, such a process has a rate like any other.
    let dd = r#"dd if="$1" of=/dev/null bs=4096 count=50 iflag=direct status=none"#;
    let inside = format!("unshare -pf sh -c 'read line; {dd}; read line' sh \"$1\"; true");
    let mut reader = Program::run(&inside, &file);
    let inner = child_of(child_of(reader.pid()));
    let tree = Target::Tree { pid: inner };
    Control::open(&file).unwrap().set(&percent(tree.clone(), 50)).unwrap();
    reader.step();
    eventually_ios(&file, &tree, 50);
    reader.end();
    unmounted(mounted);
}

#[test]
fn a_number_that_is_given_anew_has_no_rate() {
    if !can_mount("a_number_that_is_given_anew") {
        return;
    }
    let (_scratch, mounted, file) = start("reuse", &regulated("latency=1us"));
    let own = process(std::process::id());
    set_iorate(std::process::id(), &file, 50).unwrap();
    // A thread of this process reads, and is cached by its ID; then that ID is a process of its own.
    for _ in 0..200 {
        let of_thread = file.clone();
        let thread = std::thread::spawn(move || {
            read(&of_thread, 3);
            rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
        });
        let number = thread.join().unwrap();
        let before = owner(&look(&file, false), &own).unwrap().ios;
        if fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).is_err() {
            return skipped("a_number_that_is_given_anew", "needs /proc/sys/kernel/ns_last_pid");
        }
        let other =
            Program::run(r#"exec dd if="$1" of=/dev/null bs=4096 count=5 iflag=direct status=none"#, &file);
        if other.pid() != number {
            continue;
        }
        other.end();
        let view = look(&file, true);
        assert_eq!(owner(&view, &own).unwrap().ios, before, "its reads belong to another process");
        // A process with a rate ends, and its ID is reused.
        let first = Program::run("read line", &file);
        let number = first.pid();
        set_iorate(number, &file, 10).unwrap();
        first.end();
        eventually("its exit is detected", || owner(&look(&file, false), &process(number)).is_none());
        fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
        let second =
            Program::run(r#"exec dd if="$1" of=/dev/null bs=4096 count=5 iflag=direct status=none"#, &file);
        if second.pid() != number {
            continue;
        }
        second.end();
        let view = look(&file, true);
        assert_eq!(view.owners.iter().filter(|owner| owner.rate.is_some()).count(), 1, "only we have one");
        assert!(
            view.owners.iter().any(|owner| owner.target == process(number) && owner.ios == 5),
            "{view:?}"
        );
        unmounted(mounted);
        return;
    }
    skipped("a_number_that_is_given_anew", "others are given numbers too fast here");
}

#[test]
fn a_trees_rate_is_its_childrens_too_and_ends_with_the_last() {
    if !can_mount("a_trees_rate") {
        return;
    }
    let (_scratch, mounted, file) = start("tree", &regulated("latency=1us"));
    // A child; a grandchild that outlives its parent; and the root.
    let script = r#"read line; read_blocks "$1" 10
        (read_blocks "$1" 20; (read_blocks "$1" 30; : > "$1.read"; sleep 0.2; read_blocks "$1" 40) &
         while ! [ -e "$1.read" ]; do sleep 0.01; done)
        (read_blocks "$1" 50) & wait; read line"#;
    let mut root = Program::run(script, &file);
    let tree = Target::Tree { pid: root.pid() };
    Control::open(&file).unwrap().set(&percent(tree.clone(), 50)).unwrap();
    root.step();
    eventually_ios(&file, &tree, 150);
    root.end();
    eventually("all processes of the tree have ended", || look(&file, false).owners.is_empty());
    // A process that adopts orphans owns their reads, whether they were known before or not.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let own = Target::Tree { pid: std::process::id() };
    Control::open(&file).unwrap().set(&percent(own.clone(), 50)).unwrap();
    Program::run(r#"((sleep 0.2; read_blocks "$1" 60) &) ; true"#, &file).end();
    eventually_ios(&file, &own, 60);
    rustix::process::set_child_subreaper(None).unwrap();
    unmounted(mounted);
}

#[test]
fn the_nearest_rate_counts() {
    if !can_mount("the_nearest_rate_counts") {
        return;
    }
    let (_scratch, mounted, file) = start("nearest", &regulated("latency=1us"));
    let control = Control::open(&file).unwrap();
    let script = r#"(read line; read_blocks "$1" 10; (read_blocks "$1" 7); read line); true"#;
    let mut outer = Program::run(script, &file);
    let inner = child_of(outer.pid());
    let trees = [outer.pid(), inner].map(|pid| Target::Tree { pid });
    control.set(&Set { best_effort: true, ..percent(trees[0].clone(), 10) }).unwrap();
    control.set(&Set { best_effort: true, ..percent(trees[1].clone(), 20) }).unwrap();
    outer.step();
    eventually_ios(&file, &trees[1], 17);
    outer.end();
    let own = Target::Tree { pid: std::process::id() };
    control.set(&Set { best_effort: true, ..percent(own.clone(), 10) }).unwrap();
    set_iorate(std::process::id(), &file, 30).unwrap();
    read(&file, 5);
    let view = look(&file, false);
    assert_eq!(owner(&view, &process(std::process::id())).unwrap().ios, 5);
    assert_eq!(owner(&view, &own).unwrap().ios, 0);
    control.clear(&process(std::process::id())).unwrap();
    read(&file, 4);
    assert_eq!(owner(&look(&file, false), &own).unwrap().ios, 4, "the farther target applies then");
    unmounted(mounted);
}

#[test]
fn a_control_groups_rate_is_that_of_all_in_it_and_below() {
    if !can_mount("a_control_groups_rate") {
        return;
    }
    let Some(group) = Group::new() else {
        return skipped("a_control_groups_rate", "no hierarchy of control groups can be written to");
    };
    let (_scratch, mounted, file) = start("group", &regulated("latency=1us"));
    let control = Control::open(&file).unwrap();
    let script = r#"read line; read_blocks "$1" 10; sleep 0.3; read_blocks "$1" 10; read line"#;
    let mut programs: Vec<Program> = (0..2).map(|_| Program::run(script, &file)).collect();
    group.add("", programs[0].pid());
    group.add("/below", programs[1].pid());
    let target = Target::Group { path: group.name.clone() };
    control.set(&percent(target.clone(), 40)).unwrap();
    // From outside the group.
    read(&file, 3);
    programs.iter_mut().for_each(Program::step);
    eventually_ios(&file, &target, 40);
    assert_eq!(owner(&look(&file, false), &target).unwrap().name, group.name);
    programs.into_iter().for_each(Program::end);
    control.clear(&target).unwrap();
    unmounted(mounted);
}

#[test]
fn the_end_of_a_process_ends_its_rate_and_a_mounts_end_waits_for_nobody() {
    if !can_mount("the_end_of_a_process") {
        return;
    }
    let (scratch, mounted, file) = start("end", &regulated("latency=1ms"));
    let control = Control::open(&file).unwrap();
    let held = |pid| Set {
        target: process(pid),
        rate: Rate::EveryNs(400_000_000),
        best_effort: true,
        back_to_back: false,
    };
    let reader =
        Program::run(r#"read line; exec dd if="$1" of=/dev/null bs=4096 iflag=direct status=none"#, &file);
    let target = process(reader.pid());
    control.set(&held(reader.pid())).unwrap();
    drop({
        let mut reader = reader;
        drop(reader.0.stdin.take());
        eventually("it waits for what is held back", || {
            owner(&look(&file, false), &target).is_some_and(|one| one.unanswered == 1)
        });
        // A killed process has been reaped when the call returns.
        reader
    });
    eventually("its rate ends with it", || look(&file, false).owners.is_empty());
    let late = Program::run(r#"read_blocks "$1" 1000; true"#, &file);
    control.set(&Set { target: Target::Tree { pid: late.pid() }, ..held(late.pid()) }).unwrap();
    eventually("it reads", || look(&file, false).device.requests > 3);
    drop(control);
    let finished = unmounted(mounted);
    assert!(finished.seen.rates.unwrap().past.given >= 2);
    assert!(!scratch.path("mounted/file").exists());
}

#[test]
fn a_killed_process_does_not_wait_for_its_ideal_time() {
    if !can_mount("a_killed_process") {
        return;
    }
    let (_scratch, mounted, file) = start("killed", &regulated("latency=1ms"));
    let control = Control::open(&file).unwrap();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let mut reader = Program::run(
            r#"read line; exec dd if="$1" of=/dev/null bs=4096 iflag=direct status=none"#,
            &file,
        );
        let minute = Rate::EveryNs(60_000_000_000);
        control.set(&Set { best_effort: true, ..Set::new(process(reader.pid()), minute) }).unwrap();
        reader.step();
        eventually("it waits for what is held back", || {
            owner(&look(&file, false), &process(reader.pid())).is_some_and(|one| one.unanswered == 1)
        });
        let begun = Instant::now();
        rustix::process::kill_process(rustix::process::Pid::from_child(&reader.0), signal).unwrap();
        reader.0.wait().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?} after {signal:?}", begun.elapsed());
    }
    drop(control);
    unmounted(mounted);
}

#[test]
fn rates_are_kept_on_the_device_of_the_backing_directory() {
    if !can_mount("rates_are_kept_on_the_device") {
        return;
    }
    let options = Options { regulate: Some(Regulate::default()), ..Options::default() };
    let (scratch, mounted, path) = start("backing", &options);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let own = process(std::process::id());
    let control = Control::open(&path).unwrap();
    control
        .set(&Set {
            target: own.clone(),
            rate: Rate::EveryNs(5_000_000),
            best_effort: true,
            back_to_back: false,
        })
        .unwrap();
    let begun = Instant::now();
    read(&path, 30);
    assert!(begun.elapsed() >= Duration::from_millis(140), "29 of them end 5 ms apart at least");
    let seen = owner(&look(&path, false), &own).unwrap();
    assert_eq!((seen.ios, seen.ideal_ns), (30, Some(5_000_000)));
    control.clear(&own).unwrap();
    // Bytes read are the bytes written, at any offset and length.
    let mut content = fs::read(scratch.path("backing/file")).unwrap();
    for (offset, length) in
        [(0u64, 1usize), (7, 5000), (4096, 4096), (8191, 2), (4 << 20, 10), (5_000_000, 12_288)]
    {
        let bytes: Vec<u8> = (0..length).map(|index| (index * 31 + length) as u8).collect();
        file.write_all_at(&bytes, offset).unwrap();
        content.resize(content.len().max(offset as usize + length), 0);
        content[offset as usize..][..length].copy_from_slice(&bytes);
    }
    for (offset, length) in [(0u64, 10usize), (5, 9000), (4095, 1), (4_999_990, 100_000), (1 << 20, 2 << 20)]
    {
        let mut bytes = vec![1; length];
        let got = file.read_at(&mut bytes, offset).unwrap();
        let expected = &content[offset as usize..content.len().min(offset as usize + length)];
        assert!(got > 0 && bytes[..got] == expected[..got], "{length} at {offset}");
    }
    assert_eq!(file.read_at(&mut [0; 10], content.len() as u64).unwrap(), 0);
    file.sync_all().unwrap();
    drop(file);
    let view = look(&path, true);
    assert!(view.device.requests > 40, "{view:?}");
    drop(control);
    unmounted(mounted);
    assert_eq!(fs::read(scratch.path("backing/file")).unwrap(), content);
}

#[test]
fn traffic_past_the_mount_is_told_as_loss_of_control() {
    if !can_mount("traffic_past_the_mount") {
        return;
    }
    let options = Options { regulate: Some(Regulate::default()), ..Options::default() };
    let (scratch, mounted, path) = start("bypass", &options);
    let device = rustix::fs::stat(scratch.path("backing")).unwrap().st_dev;
    let known = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    if !Path::new(&known).exists() {
        return skipped("traffic_past_the_mount", "the files lie on no disk of their own");
    }
    let others = Program::rival(&scratch.path("backing/file"));
    let bypass = || look(&path, false).device.bypass;
    eventually("it is noticed", || bypass().is_some());
    assert!(bypass().is_none_or(|bypass| bypass.requests_per_s > 20.0 && bypass.share_ratio > 0.1));
    drop(others);
    unmounted(mounted);
}

#[test]
fn a_file_is_mapped_and_run_where_rates_are_kept() {
    if !can_mount("a_file_is_mapped_and_run") {
        return;
    }
    let options = Options { regulate: Some(Regulate::default()), ..Options::default() };
    let (scratch, mounted, _) = start("mapped", &options);
    fs::copy("/bin/sh", scratch.path("backing/sh")).unwrap();
    let output = Command::new(scratch.path("mounted/sh")).args(["-c", "echo ran"]).output().unwrap();
    assert_eq!(output.stdout, b"ran\n", "{}", String::from_utf8_lossy(&output.stderr));
    unmounted(mounted);
}

#[test]
fn who_holds_back_writes_cannot_keep_rates() {
    if !can_mount("who_holds_back_writes") {
        return;
    }
    let scratch = Scratch::new("rates-writeback", LIMIT);
    let options = Options { writeback: true, ..regulated("latency=1us") };
    let refused = sakiyomi_mount::mount(&scratch.path("backing"), &scratch.path("mounted"), &options);
    assert!(refused.unwrap_err().to_string().contains("leave one of them out"));
}

/// Sends a request from a separate process: this test binary, run with only [`asks`].
fn ask(scratch: &Scratch, set: &Set, command: &mut Command) -> String {
    let message = serde_json::to_string(set).unwrap();
    let command = command.args(["--exact", "regulation::asks", "--nocapture"]).env("SAKIYOMI_SET", message);
    let output = command.env("SAKIYOMI_MOUNT", scratch.path("mounted")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = text.lines().find_map(|line| line.split_once("SAID ")).map(|(_, said)| said.to_owned());
    said.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn asked_as(scratch: &Scratch, set: &Set, user: impl Fn(&mut Command)) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    user(&mut command);
    ask(scratch, set, &mut command)
}

/// A helper, not a test: other tests run it in a separate process.
#[test]
#[expect(clippy::print_stdout, reason = "that is the answer")]
fn asks() {
    let Ok(set) = std::env::var("SAKIYOMI_SET") else { return };
    let path = std::env::var_os("SAKIYOMI_MOUNT").unwrap();
    let control = Control::open(PathBuf::from(path)).unwrap();
    let set: Set = serde_json::from_str(&set).unwrap();
    let clears = std::env::var_os("SAKIYOMI_CLEAR").is_some();
    let said = if clears { control.clear(&set.target) } else { control.set(&set).map(drop) };
    match said {
        Ok(()) => println!("SAID {}", if clears { "cleared" } else { "given" }),
        Err(error) => println!("SAID {error}"),
    }
}

/// Returns the child of a process, now or soon.
fn child_of(pid: u32) -> u32 {
    let child = || {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    };
    eventually("it has a child", || child().is_some());
    child().unwrap()
}

/// Waits until an owner has read `ios` blocks, and checks that it reads no more.
fn eventually_ios(file: &Path, target: &Target, ios: u64) {
    let read = || owner(&look(file, false), target).unwrap().ios;
    eventually("it has read all", || read() >= ios);
    assert_eq!(read(), ios);
}

/// A control group with another one below it, removed at the end.
struct Group {
    directory: PathBuf,
    name: String,
}

impl Group {
    fn new() -> Option<Group> {
        let roots =
            ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let name = format!("/sakiyomi-test-{}", std::process::id());
        let directory = roots.iter().map(|root| PathBuf::from(format!("{root}{name}")));
        let directory = directory
            .into_iter()
            .find(|directory| fs::create_dir(directory).is_ok() && directory.join("cgroup.procs").exists())?;
        fs::create_dir(directory.join("below")).ok()?;
        Some(Group { directory, name })
    }

    fn add(&self, below: &str, pid: u32) {
        let list = format!("{}{below}/cgroup.procs", self.directory.display());
        fs::write(list, pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let gone = || {
            fs::remove_dir(self.directory.join("below")).is_ok() && fs::remove_dir(&self.directory).is_ok()
        };
        let begun = Instant::now();
        // The last process may still be exiting.
        while !gone() && begun.elapsed() < Duration::from_secs(5) && self.directory.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
