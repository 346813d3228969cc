//! `doctor`: what this machine allows, and what follows from it for sakiyomi.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use crate::args::Common;
use crate::console::{say, say_result};
use crate::machine::machine;

/// `O_DIRECT` of every architecture that Rust's tier 1 covers but ARM, where the number is another one.
const O_DIRECT: i32 =
    if cfg!(any(target_arch = "aarch64", target_arch = "arm")) { 0o200_000 } else { 0o40_000 };

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
    let findings =
        [memory_is_known(machine.memory_bytes), direct_io(), io_uring(), fuse(), root(), cgroups()];
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
    text.push_str("\nsim, compare, sweep, trace and drive need none of these.\n");
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

fn direct_io() -> Finding {
    let directory = std::env::current_dir().unwrap_or_default();
    let path = directory.join(format!(".sakiyomi-doctor-{}", std::process::id()));
    let opened = fs::OpenOptions::new().write(true).create_new(true).custom_flags(O_DIRECT).open(&path);
    let found = match &opened {
        Ok(_) => format!("files in {} can be opened with O_DIRECT", directory.display()),
        Err(error) => format!("not in {}: {error}", directory.display()),
    };
    let available = opened.is_ok();
    // The file may be there although it could not be opened.
    let _ = fs::remove_file(&path);
    Finding {
        what: "direct I/O",
        available,
        found,
        consequence: "transfers around the page cache can be measured",
    }
}

fn io_uring() -> Finding {
    let switch = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let (available, found) = match switch.as_deref().map(str::trim) {
        Ok("0") => (true, "allowed for everyone".to_owned()),
        Ok("1") => (false, "allowed for a group only (kernel.io_uring_disabled = 1)".to_owned()),
        Ok(other) => (false, format!("switched off (kernel.io_uring_disabled = {other})")),
        Err(_) => (Path::new("/proc/sys/kernel").exists(), "not restricted by this kernel".to_owned()),
    };
    Finding { what: "io_uring", available, found, consequence: "one of the I/O methods that can be compared" }
}

fn fuse() -> Finding {
    let device = Path::new("/dev/fuse").exists();
    let helper = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join("fusermount3").exists())
    });
    let found = match (device, helper) {
        (true, true) => "/dev/fuse and fusermount3".to_owned(),
        (true, false) => "/dev/fuse; without fusermount3 only root can mount".to_owned(),
        (false, _) => "no /dev/fuse".to_owned(),
    };
    Finding { what: "FUSE", available: device, found, consequence: "an emulated drive can be mounted" }
}

fn root() -> Finding {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let effective = user.split_whitespace().nth(1).unwrap_or("?");
    Finding {
        what: "root",
        available: effective == "0",
        found: format!("running as user {effective}"),
        consequence: "page caches can be dropped, and processes of others followed",
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
        available: unified || split,
        found: found.to_owned(),
        consequence: "memory limits are respected by read-ahead, and groups can be regulated",
    }
}
