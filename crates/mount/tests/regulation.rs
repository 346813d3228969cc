//! Rates on a mount: given, kept, taken back; by those who may, for those who are meant.

mod mounted;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mounted::{Scratch, can_mount, unmounted};
use rustix::fs::OFlags;
use sakiyomi_iorate::protocol::{Owner, Rate, Refusal, Set, Target, View};
use sakiyomi_iorate::{Control, Error, set_iorate};
use sakiyomi_linux::exchange::{SIZE, exchange};
use sakiyomi_mount::{Behind, Mounted, Options, Regulate};

const LIMIT: Duration = Duration::from_secs(100);

fn regulated(device: &str) -> Options {
    let behind = Some(Behind::Fixed(device.parse().unwrap()));
    Options { behind, regulate: Some(Regulate::default()), ..Options::default() }
}

/// A mount with one file of 4 MiB.
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

/// Reads so many blocks.
fn read(path: &Path, count: u64) {
    let file = direct(path);
    (0..count).for_each(|block| file.read_exact_at(&mut [0; 4096], block % 1024 * 4096).unwrap());
}

/// A process that does what a shell is told, with the file as `$1`; ended with all that it has started.
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

    /// Reads as long as it lives.
    fn rival(file: &Path) -> Program {
        Program::run(r#"while read_blocks "$1" 1000; do :; done"#, file)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it go on behind a `read`, and waits for its end.
    fn go_on(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
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
    Set { target, rate: Rate::Percent(percent), best_effort: false }
}

fn look(path: &Path, all: bool) -> View {
    Control::open(path).unwrap().look(all).unwrap()
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

/// Waits for what others do.
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
    // The device has to be known.
    eventually("the rivals read", || look(&file, true).device.requests > 200);
    set_iorate(std::process::id(), &file, 20).unwrap();
    read(&file, 150);
    let kept = owner(&look(&file, false), &own).unwrap();
    assert_eq!((kept.rate, kept.ios), (Some(Rate::Percent(20)), 150));
    let accuracy = kept.accuracy_ratio.unwrap();
    assert!((0.9..1.15).contains(&accuracy) && kept.cov_ratio < 0.3, "{kept:?}");
    assert!(kept.late < 30, "{kept:?}");
    // Five times what the device takes for one, which it says itself.
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
        let set = Set { target: own.clone(), rate, best_effort: true };
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
        let mut message = [0; SIZE];
        message[..text.len()].copy_from_slice(text);
        exchange(File::open(scratch.path("mounted")).unwrap(), &mut message).unwrap();
        let text = String::from_utf8_lossy(&message).into_owned();
        text.trim_end_matches('\0').to_owned()
    };
    assert!(say(b"").contains("malformed"));
    assert!(say(b"{\"version\":1").contains("malformed"));
    assert!(say(&[0xff; SIZE]).contains("malformed"));
    assert!(say(b"{\"version\":1,\"asker\":1,\"call\":\"dance\"}").contains("malformed"));
    assert!(say(b"{\"version\":77,\"call\":\"dance\"}").contains("\"version\",\"theirs\":1"));
    let other = File::open(scratch.path("mounted")).unwrap();
    let error = rustix::io::ioctl_fionread(&other).unwrap_err();
    assert_eq!(error, rustix::io::Errno::NOTTY, "what others ask a file");
    unmounted(mounted);
}
