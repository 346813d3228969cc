//! Runs of `sakiyomi run`, and files with slow accesses.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use sakiyomi_testing::wait_until;
use serde_json::Value;

use crate::scratch::{Scratch, json};

/// Returns `sakiyomi run` with options, and a program with its arguments.
pub(crate) fn command(scratch: &Scratch, options: &str, program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.arg("run").args(options.split_whitespace()).arg("--").args(program).current_dir(&scratch.0);
    // Profiles must not reach another test, nor those of the user.
    command.env("XDG_CACHE_HOME", scratch.0.join("cache"));
    command
}

pub(crate) fn run(scratch: &Scratch, options: &str, program: &[&str]) -> Output {
    command(scratch, options, program).output().unwrap()
}

/// Runs a program, and returns the result of `sakiyomi run`.
pub(crate) fn result(scratch: &Scratch, options: &str, program: &[&str]) -> Value {
    let output = run(scratch, &format!("{options} --out out --quiet"), program);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = json(&fs::read_to_string(scratch.0.join("out/result.json")).unwrap());
    assert_eq!(document["schema"], "sakiyomi.run/1");
    assert!(fs::read_to_string(scratch.0.join("out/report.html")).unwrap().ends_with("</html>"));
    document["result"].clone()
}

pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} of {value}"))
}

/// `files` of a scratch directory on `slow`, where each access takes long.
pub(crate) struct Slow {
    process: Child,
    directory: PathBuf,
}

impl Slow {
    pub(crate) fn new(scratch: &Scratch, files: &[(&str, usize)]) -> Slow {
        Slow::on(scratch, "fixed:latency=10ms,parallel=64", files)
    }

    /// Mounts the files on a drive.
    pub(crate) fn on(scratch: &Scratch, drive: &str, files: &[(&str, usize)]) -> Slow {
        let directory = scratch.0.join("slow");
        for name in ["files", "slow"] {
            fs::create_dir_all(scratch.0.join(name)).unwrap();
        }
        for (name, size) in files {
            scratch.file(&format!("files/{name}"), vec![7; *size]);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command.args(["mount", "files", "slow", "--drive", drive, "--quiet"]);
        let process = command.current_dir(&scratch.0).stdout(Stdio::null()).spawn().unwrap();
        let device = |path: &PathBuf| std::os::unix::fs::MetadataExt::dev(&fs::metadata(path).unwrap());
        wait_until("the mount", || device(&directory) != device(&scratch.0));
        Slow { process, directory }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // A mount that hangs would block every process that accesses it.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
        wait_until("the mount's end", || self.process.try_wait().unwrap().is_some());
    }
}
