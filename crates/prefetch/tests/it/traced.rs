//! Programs whose reads move no position, and programs that read a block device, on a slow mount: tests what is
//! detected and prefetched.
//!
//! A file system under FUSE answers each request after 10 ms, and the kernel reads 128 KiB ahead on it. The programs
//! are this test binary, for `pread`, and Python, for mappings, which require unsafe code in Rust.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::mounted::{Scratch, can_mount, unmounted};
use sakiyomi_io::page_cache;
use sakiyomi_mount::{EmulatedStorage, Options};
use sakiyomi_os::loop_device::LoopDevice;
use sakiyomi_os::tracefs;
use sakiyomi_prefetch::follow::{self, Learning, Summary, follow};
use sakiyomi_prefetch::profile::Profile;
use sakiyomi_prefetch::{Idle, Limit};
use sakiyomi_testing::{skipped, unless_too_busy, wait_until};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;
const PIECE: u64 = 64 << 10;

/// Tells this test binary what to do when it runs as a followed program.
const TASK: &str = "SAKIYOMI_TEST_READS";

fn can_trace(test: &str) -> bool {
    let why = tracefs::check().err();
    if let Some(why) = &why {
        skipped(test, why);
    }
    why.is_none() && can_mount(test)
}

/// The main function as a followed program. Does nothing as a test.
#[test]
fn reads() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (how, path) = task.split_once(':').unwrap();
    if how == "in-a-child" {
        assert!(own(&format!("in-sequence:{path}")).status().unwrap().success());
        return;
    }
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    match how {
        "in-sequence" => read(&file, 0, size),
        "in-long-reads" => {
            use std::io::Read;
            let mut buffer = vec![0; 16 << 20];
            let mut file = &file;
            while file.read(&mut buffer).unwrap() > 0 {}
        }
        "two-threads" => thread::scope(|scope| {
            scope.spawn(|| read(&file, 0, size / 2));
            scope.spawn(|| read(&file, size / 2, size));
        }),
        "here-and-there" => {
            // Each page at most once, in an order without adjacent pages.
            for step in 0..120u64 {
                let page = step * 0x9e37_79b9 % (size / 4096);
                file.read_exact_at(&mut [0; 4096], page * 4096).unwrap();
            }
        }
        other => panic!("{other}?"),
    }
}

fn read(file: &File, from: u64, to: u64) {
    let mut buffer = vec![0; PIECE as usize];
    for at in (from..to).step_by(PIECE as usize) {
        file.read_exact_at(&mut buffer, at).unwrap();
        // It computes a little.
        std::hint::black_box(buffer.iter().fold(0u64, |sum, &byte| sum.rotate_left(5) ^ u64::from(byte)));
    }
}

/// Returns a command that runs this test binary with a task.
fn own(task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "traced::reads", "--quiet"]).env(TASK, task).stdout(Stdio::null());
    command
}

/// Returns a command of Python that maps the file `times` times as `m`, and executes `read`.
fn mapping(path: &Path, times: u32, read: &str) -> Option<Command> {
    let text = format!(
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
file = os.open({path:?}, os.O_RDONLY)
size = os.fstat(file).st_size
maps = [libc.mmap(None, size, 1, 1, file, 0) for _ in range({times})]
os.close(file)
def touch(of, at):
    return sum(ctypes.string_at(maps[of] + at, {PIECE})[::64])
{read}
"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &text]).stdout(Stdio::null());
    let found = Command::new("python3").arg("--version").output();
    if found.is_err() {
        skipped("mappings", "there is no python3");
    }
    found.ok().map(|_| command)
}

/// The device lies on the mount, so it is removed first.
#[test]
fn a_block_device_is_read_ahead_as_a_file_is() {
    let test = "a_block_device_is_read_ahead";
    if !can_mount(test) {
        return;
    }
    let devices = RefCell::new(Vec::new());
    let program = |path: &Path| {
        let device = match LoopDevice::attach(path, false, true) {
            Ok(device) => device,
            Err(error) => {
                skipped(test, error.to_string());
                return None;
            }
        };
        // A previous user of the device may have changed its read-ahead.
        let name = device.path().file_name().unwrap();
        fs::write(Path::new("/sys/block").join(name).join("queue/read_ahead_kb"), "128").unwrap();
        let mut command = Command::new("md5sum");
        command.arg(device.path()).stdout(Stdio::null());
        devices.borrow_mut().push(device);
        Some(command)
    };
    let Some(summary) = in_a_slow_file("device", 32, program, || devices.borrow_mut().clear()) else {
        return;
    };
    let told =
        summary.readings.iter().find(|told| told.name.starts_with("/dev/loop")).expect("it is followed");
    assert_eq!((told.size, told.read_bytes), (32 * MIB, 32 * MIB));
    assert!(told.prefetched_bytes > 16 * MIB && told.wasted_bytes == 0, "{told:?}");
}

/// Runs a program and follows it.
fn followed(command: Command) -> Summary {
    learned(command, Learning::Never, Profile::new(Vec::new(), PathBuf::new()))
}

/// Runs a program and follows it with a profile.
fn learned(mut command: Command, learning: Learning, profile: Profile) -> Summary {
    let mut child = command.spawn().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let options = follow::Options { limit: Limit::AUTO, memory: None, watch_only: false };
    let (number, stopped) = (child.id(), Arc::clone(&stop));
    let follower = thread::spawn(move || follow(number, options, learning, profile, &stopped).unwrap());
    // The process remains until it is waited for, so that everything can be observed.
    let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
    let waits = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(id, waits).unwrap();
    stop.store(true, Ordering::Release);
    follower.thread().unpark();
    let summary = follower.join().unwrap();
    assert!(child.wait().unwrap().success());
    // Its owner removes the instance concurrently.
    wait_until("an instance is left", || tracefs::own_instances() == 0);
    summary
}

/// Only one test at a time may use the process's instance.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn in_a_slow_file(
    test: &str,
    megabytes: u64,
    program: impl FnOnce(&Path) -> Option<Command>,
    before_unmounting: impl FnOnce(),
) -> Option<Summary> {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new(test, LIMIT);
    let bytes: Vec<u8> = (0..megabytes * MIB).map(|index| (index / 1000) as u8).collect();
    fs::write(scratch.path("backing/file"), bytes).unwrap();
    let spec = "latency=10ms,parallel=64".parse().unwrap();
    let mounted =
        scratch.mount(&Options { behind: Some(EmulatedStorage::Fixed(spec)), ..Options::default() });
    let file = File::open(scratch.path("mounted/file")).unwrap();
    page_cache::drop_pages(&file, 0..u64::MAX).unwrap();
    drop(file);
    let summary = program(&scratch.path("mounted/file")).map(followed);
    before_unmounting();
    unmounted(mounted);
    summary
}

/// Checks that most of a file was prefetched, and that it was read to the end at this many places.
fn is_read_ahead(summary: &Summary, megabytes: u64, places: usize) -> Result<(), String> {
    let size = megabytes * MIB;
    let of_it: Vec<_> = summary.readings.iter().filter(|told| told.name.ends_with("mounted/file")).collect();
    let brought: u64 = of_it.iter().map(|told| told.prefetched_bytes).sum();
    let read_to_the_end = of_it.iter().filter(|told| told.read_bytes > size / (places as u64 * 2)).count();
    // After the end of the first of two places, the second one prefetches itself, except for the data before it was
    // detected.
    // In a mapping the first guess of a direction may be wrong, and costs 4 MiB. Two mappings of a file are followed by
    // themselves: data fetched for one in the part read by the other counts as wasted.
    let is_mapped = of_it.iter().any(|told| told.name.contains("mapping"));
    let others = places as u64 - 1;
    let wasted_max = if is_mapped { 4 * MIB + others * size / 4 } else { others * 2 * MIB };
    let is_so = brought > size / 2
        && read_to_the_end == places
        && summary.wasted_bytes <= wasted_max
        && summary.still == 0;
    let told: Vec<_> = of_it
        .iter()
        .map(|told| (told.read_bytes, told.prefetched_bytes, told.wasted_bytes, told.idle))
        .collect();
    if is_so { Ok(()) } else { Err(format!("{told:?} {:?} {}", summary.untraced, summary.still)) }
}

/// Runs a program on a slow file, which is read ahead at this many places.
fn reads_ahead(test: &str, megabytes: u64, places: usize, program: impl Fn(&Path) -> Option<Command>) {
    unless_too_busy(|| match in_a_slow_file(test, megabytes, &program, || ()) {
        Some(summary) => is_read_ahead(&summary, megabytes, places),
        None => Ok(()),
    });
}

#[test]
fn a_file_that_is_read_in_sequence_by_pread_is_read_ahead() {
    // Where it cannot be traced, its reads are sampled.
    if can_mount("a_file_that_is_read_in_sequence_by_pread") {
        let own = |path: &Path| Some(own(&format!("in-sequence:{}", path.display())));
        reads_ahead("pread", 48, 1, own);
    }
}

/// The position moves only at the end of a long read; touches show the progress meanwhile.
#[test]
fn what_is_read_in_long_reads_is_counted_once() {
    if can_trace("what_is_read_in_long_reads") {
        unless_too_busy(|| {
            let own = |path: &Path| Some(own(&format!("in-long-reads:{}", path.display())));
            let summary = in_a_slow_file("long-reads", 32, own, || ()).unwrap();
            let told: Vec<_> = summary.readings.iter().map(|told| (&told.name, told.read_bytes)).collect();
            let of_it = told.iter().filter(|(name, _)| name.ends_with("mounted/file"));
            let read = of_it.map(|(_, read)| read).sum::<u64>();
            assert!(read <= 32 * MIB, "counted twice: {told:?}");
            // The program ends right after its last read: a follower that gets no CPU then does not observe that end.
            if read == 32 * MIB { Ok(()) } else { Err(format!("{told:?}")) }
        });
    }
}

#[test]
fn two_threads_at_two_places_of_a_file_are_both_read_ahead_of() {
    if can_trace("two_threads_at_two_places") {
        let own = |path: &Path| Some(own(&format!("two-threads:{}", path.display())));
        reads_ahead("pread-threads", 64, 2, own);
    }
}

#[test]
fn a_child_that_reads_by_pread_is_read_ahead_of() {
    if can_trace("a_child_that_reads_by_pread") {
        let own = |path: &Path| Some(own(&format!("in-a-child:{}", path.display())));
        reads_ahead("pread-child", 48, 1, own);
    }
}

#[test]
fn a_mapping_that_is_read_from_beginning_to_end_is_read_ahead_though_the_file_is_closed() {
    if can_mount("a_mapping_that_is_read") {
        let once = format!("for at in range(0, size, {PIECE}): touch(0, at)");
        reads_ahead("mapping", 48, 1, |path| mapping(path, 1, &once));
    }
}

#[test]
fn two_mappings_at_two_places_are_both_read_ahead_of() {
    if can_mount("two_mappings_at_two_places") {
        let turns = format!("for at in range(0, size // 2, {PIECE}): touch(0, at); touch(1, size // 2 + at)");
        reads_ahead("mappings", 64, 2, |path| mapping(path, 2, &turns));
    }
}

#[test]
fn a_mapping_that_is_read_backward_or_in_shuffled_pieces_is_read_ahead() {
    if can_mount("a_mapping_that_is_read_backward") {
        let backward = format!("for at in range(size - {PIECE}, -1, -{PIECE}): touch(0, at)");
        reads_ahead("mapping-backward", 48, 1, |path| mapping(path, 1, &backward));
        let shuffled = format!(
            "piece = 2 << 20
for piece_at in sorted(range(0, size, piece), key=lambda at: at * 7919 % 65537):
    for at in range(piece_at, min(size, piece_at + piece), {PIECE}): touch(0, at)"
        );
        reads_ahead("mapping-shuffled", 48, 1, |path| mapping(path, 1, &shuffled));
    }
}

/// Opens files in an order that cannot be predicted from their names, as an interpreter does with its modules.
#[test]
fn a_start_that_was_learned_waits_less() {
    const FILES: u32 = 80;
    let test = "a_start_that_was_learned";
    if !can_mount(test) || Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let scratch = Scratch::new(test, LIMIT);
    for index in 0..FILES {
        fs::write(scratch.path(&format!("backing/{:x}", index.wrapping_mul(0x9e37_79b9))), vec![7; 50_000])
            .unwrap();
    }
    let spec = || EmulatedStorage::Fixed("latency=10ms,parallel=64".parse().unwrap());
    let run = |learning, profile| {
        let mounted = scratch.mount(&Options { behind: Some(spec()), ..Options::default() });
        let names: Vec<String> = (0..FILES)
            .map(|index| scratch.path(&format!("mounted/{:x}", index.wrapping_mul(0x9e37_79b9))))
            .map(|path| path.display().to_string())
            .collect();
        for name in &names {
            page_cache::drop_pages(&File::open(name).unwrap(), 0..u64::MAX).unwrap();
        }
        // Neither names on the command line nor an order of the directory, which would be predicted.
        let read = "import os, random, sys
names = sorted(os.listdir(sys.argv[1]))
random.Random(5).shuffle(names)
for name in names: open(os.path.join(sys.argv[1], name)).read()";
        let mut command = Command::new("python3");
        command.args(["-c", read]).arg(scratch.path("mounted"));
        let summary = learned(command, learning, profile);
        unmounted(mounted);
        summary
    };
    unless_too_busy(|| {
        let empty = Profile::new(vec!["md5sum".to_owned()], PathBuf::from("/"));
        let first = run(Learning::Auto, empty);
        let Some(profile) = first.learned.profile.clone() else {
            return Err("nothing was learned".to_owned());
        };
        let entries = profile.entries.len() as u64;
        let second = run(Learning::Auto, profile);
        let told = format!(
            "{:?} then {:?} of I/O wait, {entries} entries, {:?}",
            first.io_wait, second.io_wait, second.learned
        );
        let is_so = entries >= u64::from(FILES) * 9 / 10
            && second.learned.replayed_bytes > 20 * 50_000
            && second.io_wait < first.io_wait / 2;
        if is_so { Ok(()) } else { Err(told) }
    });
}

#[test]
fn what_is_read_here_and_there_is_left_alone_and_said_to_be() {
    if !can_trace("what_is_read_here_and_there") {
        return;
    }
    let own = |path: &Path| Some(own(&format!("here-and-there:{}", path.display())));
    let mapped = "for step in range(120):
    at = step * 0x9e3779b9 % (size // 4096) * 4096
    ctypes.string_at(maps[0] + at, 4096)";
    is_left_alone(own);
    is_left_alone(|path| mapping(path, 1, mapped));
}

/// Checks that a program is left alone. On a busy machine it may have ended before enough is observed to report the
/// reason; it is left alone every time.
fn is_left_alone(program: impl Fn(&Path) -> Option<Command>) {
    let is_said = (0..5).any(|_| {
        let Some(summary) = in_a_slow_file("scattered", 64, &program, || ()) else { return true };
        assert_eq!((summary.prefetched_bytes, summary.still), (0, 0), "{:?}", summary.readings);
        let told = summary.readings.iter().find(|told| told.name.ends_with("mounted/file")).unwrap();
        told.idle == Some(Idle::NotSequential)
    });
    assert!(is_said, "five times not");
}
