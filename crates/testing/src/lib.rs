//! Helpers that the tests of several crates share: private directories, visible skips, and a counting allocator.
//!
//! A test must pass on an unprepared machine. It skips what the machine does not support by [`skipped`], which names
//! the test and the reason on stderr; the test harness does not capture it.

mod allocations;

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use allocations::{CountingAllocator, allocations, peak_bytes};

/// Number of the capability to mount file systems (linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;

/// Maximum wait for a condition that usually takes milliseconds: a busy machine may take a thousand times as long.
const WAIT_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum share of time with threads that wait for a core, at which a check of real time still counts.
const BUSY_SHARE_MAX: f64 = 0.5;

/// A directory for one test, removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory inside [`directory`].
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn new(test: &str) -> Scratch {
        Scratch::inside(directory(), test)
    }

    /// Creates a directory inside another one than the default.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn inside(directory: &Path, test: &str) -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = directory.join(format!("sakiyomi-{test}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
        Scratch(root)
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in it, which need not exist.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Returns the number of its entries.
    ///
    /// # Panics
    /// If it cannot be listed.
    #[must_use]
    pub fn entries(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

/// A file for one test, in a directory of its own, removed on drop.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
    _directory: Scratch,
}

impl ScratchFile {
    /// Creates a file inside [`directory`].
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn new(content: impl AsRef<[u8]>) -> ScratchFile {
        ScratchFile::named("file", content)
    }

    /// Creates a file with a given name, for example one that implies its format.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn named(name: &str, content: impl AsRef<[u8]>) -> ScratchFile {
        ScratchFile::inside(directory(), name, content)
    }

    /// Creates a file inside another directory than the default.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn inside(place: &Path, name: &str, content: impl AsRef<[u8]>) -> ScratchFile {
        let directory = Scratch::inside(place, name);
        ScratchFile { path: directory.file(name, content), _directory: directory }
    }

    /// Returns a path at which no file exists yet.
    ///
    /// # Panics
    /// If its directory cannot be created.
    #[must_use]
    pub fn absent(name: &str) -> ScratchFile {
        let directory = Scratch::new(name);
        ScratchFile { path: directory.path(name), _directory: directory }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the directory of test files: `tmp` in the build directory, which is on a disk more often than `/tmp`; or,
/// if that is not writable, the first of the usual temporary directories that is.
///
/// # Panics
/// If none is writable.
#[must_use]
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        // A test program is target/debug/deps/NAME.
        let program = std::env::current_exe().ok();
        let build = program.as_deref().and_then(|program| program.ancestors().nth(3));
        let candidates = build.map(|build| build.join("tmp")).into_iter().chain([
            std::env::temp_dir(),
            PathBuf::from("/var/tmp"),
            PathBuf::from("/dev/shm"),
        ]);
        let mut tried = Vec::new();
        for candidate in candidates {
            if can_write(&candidate) {
                return candidate;
            }
            tried.push(candidate);
        }
        panic!("none of these directories can be written to: {tried:?}")
    })
}

/// Returns whether a directory takes a file that is too large to be stored in its inode.
fn can_write(directory: &Path) -> bool {
    let path = directory.join(format!("sakiyomi-{}", std::process::id()));
    let written = fs::create_dir_all(directory).and_then(|()| fs::write(&path, [0; 1 << 18]));
    let _ = fs::remove_file(&path);
    written.is_ok()
}

/// Reports on stderr that a test, or a part of it, was skipped on this machine, and the reason.
pub fn skipped(test: &str, why: impl Display) {
    // Unlike that of `eprintln!`, this output is shown for tests that pass; in one write, as other tests print too.
    let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes());
}

/// Returns whether the tests run as root.
///
/// # Panics
/// If `/proc` is not mounted.
#[must_use]
pub fn is_root() -> bool {
    status().contains("\nUid:\t0\t0")
}

/// Returns whether this machine lets the tests mount FUSE file systems; if not, reports that `test` is skipped.
///
/// # Panics
/// If `/proc` is not mounted.
#[must_use]
pub fn can_mount(test: &str) -> bool {
    let status = status();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"));
    let capabilities = u64::from_str_radix(capabilities.unwrap_or_default(), 16).unwrap_or_default();
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let able = opened.is_ok() && is_root() && capabilities & (1 << CAP_SYS_ADMIN) != 0;
    if !able {
        skipped(test, "needs /dev/fuse and root");
    }
    able
}

/// Returns whether `script` can run programs on a pseudo-terminal; if not, reports that `test` is skipped. A
/// container may have no pseudo-terminals, or none for this user.
#[must_use]
pub fn has_terminals(test: &str) -> bool {
    let mut script = Command::new("timeout");
    script.args(["10", "script", "-qec", "echo ready", "/dev/null"]).stdin(Stdio::null());
    let output = script.output();
    let able = output.is_ok_and(|output| output.status.success() && output.stdout.starts_with(b"ready"));
    if !able {
        skipped(test, "needs script (package bsdutils) and a pseudo-terminal");
    }
    able
}

/// Returns whether programs started by the tests inherit the default actions of these signals; if not, reports that
/// `test` is skipped. `nohup`, and shells that start jobs in the background, ignore some, and children inherit that.
///
/// # Panics
/// If `/proc` is not mounted.
#[must_use]
pub fn signals_are_default(test: &str, signals: &[u32]) -> bool {
    let status = status();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
    let ignored = u64::from_str_radix(ignored.unwrap_or_default(), 16).unwrap_or_default();
    let found = signals.iter().find(|&&signal| ignored & 1 << (signal - 1) != 0);
    if let Some(signal) = found {
        skipped(test, format_args!("signal {signal} is ignored here, as under nohup"));
    }
    found.is_none()
}

fn status() -> String {
    fs::read_to_string("/proc/self/status").expect("/proc is mounted")
}

/// Waits for a condition that other threads or processes bring about.
///
/// # Panics
/// If it does not hold after a minute; the message is `what`.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WAIT_TIME_MAX, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Repeats a check that depends on being scheduled in time up to five times, as it may fail on a busy machine.
/// `check` returns what it found instead. The test is skipped if it fails each time while threads waited for a core for
/// more than half of the time.
///
/// # Panics
/// If it fails each time, and the machine was not as busy at least once.
pub fn unless_too_busy(mut check: impl FnMut() -> Result<(), String>) {
    let mut least_busy = f64::INFINITY;
    let mut found = String::new();
    for _ in 0..5 {
        let (begun, waited) = (Instant::now(), time_with_waiting_threads());
        let Err(failure) = check() else { return };
        found = failure;
        let share = waited.zip(time_with_waiting_threads()).map_or(0.0, |(before, after)| {
            after.saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64()
        });
        least_busy = least_busy.min(share);
    }
    assert!(least_busy > BUSY_SHARE_MAX, "five times: {found}");
    let thread = thread::current();
    let test = thread.name().unwrap_or_default();
    // The scripts in `.ci` look for these words, and run the test once more by itself.
    skipped(
        test,
        format_args!("too busy: threads waited for a core {:.0} % of the time", least_busy * 100.0),
    );
}

/// Returns how long some thread of this machine has waited for a core since the start, as the kernel accounts it (PSI);
/// `None` if it does not.
fn time_with_waiting_threads() -> Option<Duration> {
    let pressure = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = pressure.lines().find(|line| line.starts_with("some "))?.rsplit_once("total=")?.1;
    Some(Duration::from_micros(total.trim().parse().ok()?))
}
