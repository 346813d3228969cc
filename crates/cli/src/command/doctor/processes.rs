//! Findings about processes: what `run`, `daemon` and `explain` see of others, and the rights and limits of this one.

use std::io;
use std::path::Path;
use std::thread;

use sakiyomi_os::priority;
use sakiyomi_os::process::Process;
use sakiyomi_os::tracefs::{self, ActivityTrace, Place};

use super::Finding;
use crate::console::without_numbers;

/// Limit of open files below which commands on many files, and mounts, open and close them again and again: the usual
/// soft limit of Linux.
const OPEN_FILES_USUAL: u64 = 1024;

/// Tests what the kernel tells of a process, on this one.
pub(super) fn figures() -> Finding {
    let number = std::process::id();
    let seen = Process::open(number).and_then(|mut process| {
        process.bytes_read()?;
        let thread = process.thread(number)?;
        thread.times()?;
        thread.sleeps()
    });
    let found = match &seen {
        Ok(_) => "/proc has the times, waits and system calls of threads".to_owned(),
        Err(error) => format!("/proc does not have the times and waits of threads ({})", reason(error)),
    };
    Finding {
        what: "process figures",
        available: Some(seen.is_ok()),
        found,
        consequence: "`run`, `daemon` and `explain` see whether a program computes or waits; without them they do not help",
    }
}

/// Tests whether the pages that a program has touched can be seen, on this one.
pub(super) fn page_tables() -> Finding {
    let seen = Process::open(std::process::id()).and_then(|process| {
        let mut map = process.page_map()?;
        let mappings = process.mappings()?;
        let program = mappings.first().ok_or(io::ErrorKind::NotFound)?;
        map.present(program.start..program.start + program.length, |_| ())
    });
    let found = match &seen {
        Ok(_) => "readable".to_owned(),
        Err(error) => format!("/proc/PID/pagemap cannot be read ({})", reason(error)),
    };
    Finding {
        what: "page tables",
        available: Some(seen.is_ok()),
        found,
        consequence: "`run` and `daemon` also follow programs that read large files through mappings, without tracing",
    }
}

/// Tests the tracing that `run` needs to follow reads without a file offset.
pub(super) fn tracing() -> Finding {
    let checked = tracefs::check();
    let available = checked.is_ok();
    let found = match checked {
        Ok(Place::Mounted(path)) => format!("tracefs, mounted on {}", path.display()),
        Ok(Place::Private) => "tracefs, not mounted; `run` mounts it in a private mount namespace".to_owned(),
        Err(why) => why,
    };
    let consequence = "`run` also follows programs that read by pread, or through small mappings";
    Finding { what: "tracing", available: Some(available), found, consequence }
}

/// Tests the tracing with which `explain` records.
pub(super) fn recording() -> Finding {
    let created = ActivityTrace::create();
    let available = created.is_ok();
    let found = created.map_or_else(|why| why, |_| "an instance of tracefs was made, and removed".to_owned());
    let consequence =
        "`explain` records every event, and predicts; without it, it samples /proc, and predicts nothing";
    Finding { what: "recording", available: Some(available), found, consequence }
}

/// Tests whether a thread may enter the real-time class; on a thread of its own, which then ends.
pub(super) fn real_time() -> Finding {
    let entered =
        thread::spawn(priority::real_time).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    let found = match &entered {
        Ok(()) => "threads may run in the class SCHED_FIFO".to_owned(),
        Err(error) => format!(
            "threads may not run in the class SCHED_FIFO ({}); root may, or see `ulimit -r`",
            reason(error)
        ),
    };
    let consequence =
        "`mount` and `serve` reply on time also while all cores are busy; without it some milliseconds late";
    Finding { what: "real-time priority", available: Some(entered.is_ok()), found, consequence }
}

/// Reports how many files this process may open.
pub(super) fn open_files() -> Finding {
    sakiyomi_io::raise_open_files_max();
    let max = sakiyomi_io::open_files_max();
    Finding {
        what: "open files",
        available: Some(max >= OPEN_FILES_USUAL),
        found: format!("up to {max} (see `ulimit -Hn`)"),
        consequence: "mounts keep the files that the kernel caches open, up to half of this limit",
    }
}

/// Reports whether the kernel's client of NBD is at hand.
pub(super) fn nbd_client() -> Finding {
    let available = Path::new("/sys/module/nbd").exists();
    let found = if available {
        "module nbd"
    } else {
        "no module nbd; where the kernel has it, `modprobe nbd` loads it"
    };
    let consequence =
        "this kernel can use what `serve` serves as /dev/nbdN; QEMU and other clients do not need it";
    Finding { what: "NBD client", available: Some(available), found: found.to_owned(), consequence }
}

fn reason(error: &io::Error) -> String {
    without_numbers(&error.to_string())
}
