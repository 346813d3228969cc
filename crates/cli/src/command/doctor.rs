//! `doctor`: the capabilities of this machine, and their consequences for sakiyomi.

mod measured;
mod place;
mod processes;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use sakiyomi_io::page_cache::{self, ResidencyCall};
use sakiyomi_io::{
    Access, BufferPool, EngineKind, EngineSpec, Granted, IoFile, Memory, ReadOptions, ReadStream,
};
use sakiyomi_mount::Regulate;
use sakiyomi_os::rights;
use serde::Serialize;

use crate::console::{Common, print_result, print_text, without_numbers};
use crate::provenance::machine;
use place::TestPlace;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi doctor
  sakiyomi doctor --json
";

/// The result of one test.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    /// `None` if it could not be tested.
    available: Option<bool>,
    found: String,
    consequence: &'static str,
}

pub(crate) fn run(common: &Common) -> Result<ExitCode> {
    let machine = machine();
    let place = TestPlace::find();
    let place = place.as_ref();
    let mounting = |regulate| mounting(place, regulate);
    let findings = [
        memory_is_known(machine.memory_bytes),
        direct_io(place),
        huge_pages(),
        io_uring(place),
        aio(place),
        cachestat(place),
        loop_devices(),
        fuse(&mounting(None)),
        root(),
        processes::figures(),
        processes::page_tables(),
        processes::tracing(),
        processes::recording(),
        processes::real_time(),
        processes::open_files(),
        cgroups(),
        regulation(&mounting(Some(Regulate::default()))),
        processes::nbd_client(),
        measured::calibration(),
        measured::operator_costs(),
    ];
    if common.json {
        let tested_in = place.map(|place| place.parent().display().to_string());
        let result = serde_json::json!({ "machine": machine, "tested_in": tested_in, "findings": findings });
        print_result("sakiyomi.doctor/1", &result)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}\n{}, {} usable cores\n", machine.kernel, machine.cpu, machine.cores);
    text.push_str(&match place {
        Some(place) => format!("tests in {}\n\n", place.parent().display()),
        None => format!("{NOT_TESTED}: {}\n\n", place::tried()),
    });
    for Finding { what, available, found, consequence } in findings {
        let mark = match available {
            Some(true) => "yes",
            Some(false) => "no ",
            None => "?  ",
        };
        text.push_str(&format!("{mark}  {what}: {found}\n     {consequence}\n"));
    }
    text.push_str(&format!("\n{INDEPENDENT}\n"));
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The commands that are pure, whose results do not depend on the machine.
const INDEPENDENT: &str = "sim, compare, sweep, merge, validate, whatif, scenario, stream sim, trace and drive need none of \
                           these, except whatif --on and drive measure.";

fn memory_is_known(bytes: u64) -> Finding {
    Finding {
        what: "memory",
        available: Some(bytes > 0),
        found: format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        consequence: "simulations use a few MiB, however long the trace is",
    }
}

/// Message of a finding that needs a writable directory when none is available.
const NOT_TESTED: &str = "not tested: no writable directory";

/// Tests a property of a file in the test directory; reports it as not tested without such a directory.
fn of_file(
    what: &'static str,
    consequence: &'static str,
    place: Option<&TestPlace>,
    test: impl FnOnce(&Path) -> Result<String, sakiyomi_io::Error>,
) -> Finding {
    let tested = place.map(|place| test(place.file()));
    let available = tested.as_ref().map(Result::is_ok);
    let found = tested.map_or(NOT_TESTED.to_owned(), |found| found.unwrap_or_else(error_chain));
    Finding { what, available, found, consequence }
}

/// Reads a file by an engine; returns whether its buffers were registered.
fn read_by(path: &Path, kind: EngineKind) -> Result<bool, sakiyomi_io::Error> {
    let options = ReadOptions {
        engine: EngineSpec { kind, depth: 1 },
        block: 4096,
        memory: Memory::Ordinary,
        ..ReadOptions::default()
    };
    let mut blocks = ReadStream::open(path, &options)?;
    let registered = blocks.grant().registered;
    blocks.try_for_each(|block| block.map(drop))?;
    Ok(registered)
}

/// Describes an error with its cause, on one line.
fn error_chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    without_numbers(&format!("{:#}", anyhow::Error::from(error)))
}

fn direct_io(place: Option<&TestPlace>) -> Finding {
    let consequence = "transfers that bypass the page cache can be used and measured";
    of_file("direct I/O", consequence, place, |path| {
        let source = IoFile::open(path, Access::Direct)?;
        let offset = source.alignment().offset;
        Ok(format!("files can be opened with O_DIRECT, in multiples of {offset} bytes"))
    })
}

fn huge_pages() -> Finding {
    let granted =
        BufferPool::fixed(1, 2 << 20, Memory::Huge).map(|pool| pool.granted().expect("a fixed pool"));
    let available = granted.as_ref().is_ok_and(|&granted| granted != Granted::Ordinary);
    let found = match granted {
        Ok(Granted::Ordinary) => {
            "not granted: /sys/kernel/mm/transparent_hugepage/enabled is `never`, or memory is fragmented"
                .to_owned()
        }
        Ok(granted) => granted.describe().to_owned(),
        Err(error) => error_chain(error),
    };
    let consequence = "direct transfers into them cost a fraction of the CPU time, and are often faster";
    Finding { what: "huge pages", available: Some(available), found, consequence }
}

fn io_uring(place: Option<&TestPlace>) -> Finding {
    of_file("io_uring", "methods uring:N and uring-sqpoll:N", place, |path| {
        Ok(match read_by(path, EngineKind::Uring)? {
            true => "works, with registered buffers".to_owned(),
            false => "works; buffers cannot be registered (see `ulimit -l`)".to_owned(),
        })
    })
}

fn aio(place: Option<&TestPlace>) -> Finding {
    of_file("Linux AIO", "method aio:N", place, |path| {
        read_by(path, EngineKind::Aio).map(|_| "works".to_owned())
    })
}

fn cachestat(place: Option<&TestPlace>) -> Finding {
    let consequence =
        "the cached pages of a file are counted by cachestat instead of mincore, without mapping the file";
    of_file("cachestat", consequence, place, |path| {
        let source = IoFile::open(path, Access::Buffered)?;
        page_cache::residency_by(source.file(), 0..4096, ResidencyCall::Cachestat)?;
        Ok("answers".to_owned())
    })
}

fn loop_devices() -> Finding {
    let available = Path::new("/dev/loop-control").exists();
    let found = if available { "/dev/loop-control; attaching needs root" } else { "no /dev/loop-control" };
    let consequence = "`probe --on loop`: a block device that only the CPU limits";
    Finding { what: "loop devices", available: Some(available), found: found.to_owned(), consequence }
}

/// Whether this process can mount. `None` if its preconditions are met, but no directory is available for a test.
type Mounting = Result<Option<()>, String>;

/// Mounts an empty directory as `mount` does, with or without rates, and unmounts it.
fn mounting(place: Option<&TestPlace>, regulate: Option<Regulate>) -> Mounting {
    let options = sakiyomi_mount::Options { regulate, ..Default::default() };
    match place {
        Some(place) => sakiyomi_mount::try_mount(place.directory(), &options).map(Some),
        None => sakiyomi_mount::can_mount().map(|()| None),
    }
    .map_err(error_chain)
}

/// Returns availability and consequence of mounting; `works` names the use that mounting permits.
fn of_mounting(mounting: &Mounting, works: &str) -> (Option<bool>, String) {
    match mounting {
        Ok(Some(())) => (Some(true), works.to_owned()),
        Ok(None) => (None, NOT_TESTED.to_owned()),
        Err(why) => (Some(false), why.clone()),
    }
}

fn fuse(mounting: &Mounting) -> Finding {
    let (available, found) = of_mounting(mounting, "an empty directory was mounted, and unmounted");
    let consequence =
        "an emulated drive can be mounted; on it, O_TMPFILE is refused with EOPNOTSUPP (\"not supported\")";
    Finding { what: "FUSE", available, found, consequence }
}

/// Tests a regulated mount, and the rights needed to regulate processes of other users.
fn regulation(mounting: &Mounting) -> Finding {
    let works = if rights::is_root() {
        "mounts regulate all users' processes"
    } else {
        "your own mounts regulate your own processes"
    };
    let (available, found) = of_mounting(mounting, works);
    let consequence = "`mount --regulate` and `iorate`: the I/O time of processes, trees of them and groups is kept constant";
    Finding { what: "regulation", available, found, consequence }
}

fn root() -> Finding {
    Finding {
        what: "root",
        available: Some(rights::is_root()),
        found: format!("running as user {}", rights::user()),
        consequence: "the page cache can be dropped, and processes of other users can be followed",
    }
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
        available: Some(unified || split),
        found: found.to_owned(),
        consequence: "memory limits are respected by read-ahead, and groups can be given rates",
    }
}
