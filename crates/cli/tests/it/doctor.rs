//! `doctor`: its findings agree with the behavior of the other commands.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::scratch::{Scratch, json};

/// Runs `doctor --json` by a wrapper command in `/proc`, which is not writable, with a directory for its tests.
fn result(scratch: &Scratch, prefix: &[&str]) -> Option<Value> {
    let words = [prefix, &["env", env!("CARGO_BIN_EXE_sakiyomi"), "doctor", "--json"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir("/proc").env("TMPDIR", scratch.0.join("place"));
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(json(&String::from_utf8(output.stdout).unwrap())["result"].clone())
}

fn with_place(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    for name in ["place", "files", "disk"] {
        fs::create_dir(scratch.0.join(name)).unwrap();
    }
    scratch
}

fn finding<'r>(result: &'r Value, what: &str) -> &'r Value {
    let findings = result["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["what"] == what).unwrap_or_else(|| panic!("no {what}"))
}

#[test]
fn tests_are_made_where_temporary_files_are_and_nothing_of_them_stays() {
    let scratch = with_place("doctor_place");
    let result = result(&scratch, &[]).unwrap();
    let tested_in = result["tested_in"].as_str().expect("a writable directory");
    assert_ne!(tested_in, "/proc");
    for what in ["direct I/O", "io_uring", "Linux AIO", "cachestat", "FUSE"] {
        assert!(finding(&result, what)["available"].is_boolean(), "{what}");
        let found = finding(&result, what)["found"].as_str().unwrap();
        assert!(!found.contains("No such file") || what == "FUSE", "{what}: {found}");
    }
    assert_eq!(scratch.names("place"), [""; 0]);
}

#[test]
fn without_a_writable_directory_nothing_is_said_to_be_missing() {
    let setup = "mount -t tmpfs -o ro none /tmp && mount -t tmpfs -o ro none /var/tmp";
    let script = format!("{setup} && unset TMPDIR XDG_RUNTIME_DIR && exec \"$@\"");
    let scratch = with_place("doctor_read_only");
    // Bound first, because a mount on /tmp might hide the program.
    let program = env!("CARGO_BIN_EXE_sakiyomi");
    let reaches = !program.starts_with("/tmp/") && !program.starts_with("/var/tmp/");
    let prefix = ["unshare", "-m", "sh", "-c", &script, "sh"];
    let Some(result) = result(&scratch, &prefix).filter(|_| reaches) else {
        sakiyomi_testing::skipped("without_a_writable_directory", "needs mount namespaces");
        return;
    };
    assert!(result["tested_in"].is_null());
    for what in ["direct I/O", "io_uring", "Linux AIO", "cachestat"] {
        assert!(finding(&result, what)["available"].is_null(), "{what}");
        assert_eq!(finding(&result, what)["found"], "not tested: no writable directory", "{what}");
    }
    // Findings that need no test are still reported.
    assert_ne!(finding(&result, "FUSE")["available"], true);
}

#[test]
fn fuse_works_for_doctor_if_and_only_if_it_works_for_mount() {
    let scratch = with_place("doctor_fuse");
    let no_admin = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"];
    let no_device = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"];
    for prefix in [&[][..], &no_admin, &no_device] {
        let Some(result) = result(&scratch, prefix) else {
            sakiyomi_testing::skipped("fuse_works_for_doctor", format!("{prefix:?} is not possible here"));
            continue;
        };
        let (files, disk) = (scratch.0.join("files"), scratch.0.join("disk"));
        let mount =
            [env!("CARGO_BIN_EXE_sakiyomi"), "mount", files.to_str().unwrap(), disk.to_str().unwrap()];
        let words = [prefix, &["timeout", "-s", "KILL", "60"], &mount].concat();
        let mut mounted = Command::new(words[0]).args(&words[1..]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(mounted.stderr.take().unwrap()).read_line(&mut said).unwrap();
        if said.starts_with("mounted on ") {
            scratch.ok("umount disk");
        }
        mounted.wait().unwrap();
        let fuse = finding(&result, "FUSE");
        assert_eq!(fuse["available"], said.starts_with("mounted on "), "{prefix:?}: {fuse}, {said}");
        if fuse["available"] == false {
            assert_eq!(said, format!("sakiyomi: {}\n", fuse["found"].as_str().unwrap()));
        }
        let rates = finding(&result, "regulation")["available"] == true;
        assert!(!rates || fuse["available"] == true, "rates need FUSE");
    }
}

#[test]
fn rates_are_said_to_work_only_where_a_mount_can_have_them() {
    let scratch = with_place("doctor_rates");
    // The PIDs in /proc are not those of this namespace.
    let prefix = ["unshare", "--pid", "--fork"];
    let Some(result) = result(&scratch, &prefix) else {
        sakiyomi_testing::skipped("rates_are_said_to_work", "needs namespaces of processes");
        return;
    };
    let rates = finding(&result, "regulation");
    assert_eq!(rates["available"], false, "{rates}");
    if finding(&result, "FUSE")["available"] == true {
        assert!(rates["found"].as_str().unwrap().contains("/proc is that of another namespace"), "{rates}");
    }
    assert_eq!(scratch.names("place"), [""; 0]);
}
