//! `doctor`: what this machine allows, and what follows from it for sakiyomi.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use sakiyomi_linux::page_cache::{self, By};
use sakiyomi_linux::tracefs::{self, Place};
use sakiyomi_linux::{Access, Blocks, Granted, Memory, MethodKind, MethodSpec, Options, Pool, Source};
use serde::Serialize;

use crate::console::{Common, say, say_result};
use crate::machine::machine;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi doctor
  sakiyomi doctor --json
";

/// One thing looked at.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    available: bool,
    found: String,
    consequence: &'static str,
}

pub(crate) fn run(common: &Common) -> Result<ExitCode> {
    let machine = machine();
    let file = TestFile::new();
    let findings = [
        memory_is_known(machine.memory_bytes),
        direct_io(&file),
        huge_pages(),
        io_uring(&file),
        aio(&file),
        cachestat(&file),
        loop_devices(),
        fuse(),
        root(),
        tracing(),
        cgroups(),
        regulation(),
    ];
    if common.json {
        let result = serde_json::json!({ "machine": machine, "findings": findings });
        say_result("sakiyomi.doctor/1", &result)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}\n{}, {} usable cores\n\n", machine.kernel, machine.cpu, machine.cores);
    for Finding { what, available, found, consequence } in findings {
        let mark = if available { "yes" } else { "no " };
        text.push_str(&format!("{mark}  {what}: {found}\n     {consequence}\n"));
    }
    text.push_str("\nsim, compare, sweep, validate, trace and drive need none of these.\n");
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn memory_is_known(bytes: u64) -> Finding {
    Finding {
        what: "memory",
        available: bytes > 0,
        found: format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        consequence: "simulations use a few MiB, however long the trace is",
    }
}

/// A small file in this directory, gone at the end.
struct TestFile(PathBuf);

impl TestFile {
    fn new() -> TestFile {
        let directory = std::env::current_dir().unwrap_or_default();
        let path = directory.join(format!(".sakiyomi-doctor-{}", std::process::id()));
        // Where none can be made, what follows says so.
        let _ = fs::write(&path, [0; 4096]);
        TestFile(path)
    }

    fn directory(&self) -> String {
        self.0.parent().unwrap_or(&self.0).display().to_string()
    }

    /// Whether a method reads it, and why not.
    fn read_by(&self, kind: MethodKind) -> Result<bool, sakiyomi_linux::Error> {
        let options = Options {
            method: MethodSpec { kind, depth: 1 },
            block: 4096,
            memory: Memory::Ordinary,
            ..Options::default()
        };
        let mut blocks = Blocks::open(&self.0, &options)?;
        let registered = blocks.grant().registered;
        blocks.try_for_each(|block| block.map(drop))?;
        Ok(registered)
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An error with its cause, as one line.
fn in_full(error: sakiyomi_linux::Error) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

fn direct_io(file: &TestFile) -> Finding {
    let opened = Source::open(&file.0, Access::Direct);
    let available = opened.is_ok();
    let found = match opened {
        Ok(source) => format!(
            "files in {} can be opened with O_DIRECT, in multiples of {} bytes",
            file.directory(),
            source.alignment().offset
        ),
        Err(error) => in_full(error),
    };
    let consequence = "transfers around the page cache can be made and measured";
    Finding { what: "direct I/O", available, found, consequence }
}

fn huge_pages() -> Finding {
    let granted = Pool::new(1, 2 << 20, Memory::Huge).map(|pool| pool.granted());
    let available = granted.as_ref().is_ok_and(|&granted| granted != Granted::Ordinary);
    let found = match granted {
        Ok(Granted::Ordinary) => {
            "not granted: /sys/kernel/mm/transparent_hugepage/enabled is `never`, or memory is in pieces"
                .to_owned()
        }
        Ok(granted) => granted.in_words().to_owned(),
        Err(error) => in_full(error),
    };
    let consequence = "direct transfers into them cost a fraction of the CPU time, and are often faster";
    Finding { what: "huge pages", available, found, consequence }
}

fn io_uring(file: &TestFile) -> Finding {
    let read = file.read_by(MethodKind::Uring);
    let available = read.is_ok();
    let found = match read {
        Ok(true) => "works, with registered buffers".to_owned(),
        Ok(false) => "works; buffers cannot be registered (see `ulimit -l`)".to_owned(),
        Err(error) => in_full(error),
    };
    Finding { what: "io_uring", available, found, consequence: "methods uring:N and uring-sqpoll:N" }
}

fn aio(file: &TestFile) -> Finding {
    let read = file.read_by(MethodKind::Aio);
    let available = read.is_ok();
    let found = read.map_or_else(in_full, |_| "works".to_owned());
    Finding { what: "Linux AIO", available, found, consequence: "method aio:N" }
}

fn cachestat(file: &TestFile) -> Finding {
    let asked = Source::open(&file.0, Access::Buffered)
        .and_then(|source| page_cache::residency_by(source.file(), 0..4096, By::Cachestat));
    let available = asked.is_ok();
    let found = asked.map_or_else(in_full, |_| "answers".to_owned());
    let consequence = "what the page cache holds of a file is asked for without mapping it; else by mincore";
    Finding { what: "cachestat", available, found, consequence }
}

fn loop_devices() -> Finding {
    let available = Path::new("/dev/loop-control").exists();
    let found = if available { "/dev/loop-control; attaching needs root" } else { "no /dev/loop-control" };
    let consequence = "`probe --on loop`: a block device that only the CPU limits";
    Finding { what: "loop devices", available, found: found.to_owned(), consequence }
}

fn fuse() -> Finding {
    let device = Path::new("/dev/fuse").exists();
    let found = match (device, has_helper()) {
        (true, true) => "/dev/fuse and fusermount3".to_owned(),
        (true, false) => "/dev/fuse; without fusermount3 only root can mount".to_owned(),
        (false, _) => "no /dev/fuse".to_owned(),
    };
    Finding { what: "FUSE", available: device, found, consequence: "an emulated drive can be mounted" }
}

fn has_helper() -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join("fusermount3").exists())
    })
}

/// A mount that regulates, and what it needs to regulate whom.
fn regulation() -> Finding {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let (available, found) = match device {
        Err(error) => (false, format!("/dev/fuse cannot be opened: {error}")),
        Ok(_) if is_root() => (true, "mounts regulate all users' processes".to_owned()),
        Ok(_) if has_helper() => (true, "your own mounts regulate your own processes".to_owned()),
        Ok(_) => (false, "without fusermount3 (package fuse3) only root can mount".to_owned()),
    };
    let consequence = "`mount --regulate` and `iorate`: the I/O time of processes, trees of them and groups is kept constant";
    Finding { what: "regulation", available, found, consequence }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn root() -> Finding {
    Finding {
        what: "root",
        available: is_root(),
        found: format!("running as user {}", rustix::process::geteuid().as_raw()),
        consequence: "page caches can be dropped, and processes of others followed",
    }
}

/// What `run` needs to follow reads that move no position.
fn tracing() -> Finding {
    let checked = tracefs::check();
    let available = checked.is_ok();
    let found = match checked {
        Ok(Place::Mounted(path)) => format!("tracefs, mounted on {}", path.display()),
        Ok(Place::Private) => {
            "tracefs, not mounted here; `run` mounts its own, which nobody else sees".to_owned()
        }
        Err(why) => why,
    };
    let consequence = "`run` follows also programs that read by pread or through mappings";
    Finding { what: "tracing", available, found, consequence }
}

fn cgroups() -> Finding {
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let split = Path::new("/sys/fs/cgroup/blkio").exists();
    let found = match (unified, split) {
        (true, _) => "version 2",
        (false, true) => "version 1, with blkio",
        (false, false) => "none found",
    };
    Finding {
        what: "control groups",
        available: unified || split,
        found: found.to_owned(),
        consequence: "memory limits are respected by read-ahead, and groups can be given rates",
    }
}
