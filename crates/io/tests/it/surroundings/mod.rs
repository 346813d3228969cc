//! Tests that run again in a process whose environment a shell has prepared.

use std::path::Path;
use std::process::Command;

use sakiyomi_testing::{Scratch, skipped};

/// Environment variable of a process that a test has started; its value is a directory.
pub(crate) const INSIDE: &str = "SAKIYOMI_TEST_INSIDE";

/// Runs a test again, alone in a process whose environment a shell has prepared.
pub(crate) fn inside(test: &str, shell: &[&str], preparation: &str, directory: &Path) {
    let output = Command::new(shell[0])
        .args(&shell[1..])
        .args(["-c", &format!("{preparation} && exec \"$0\" --exact {test} --nocapture")])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, directory)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{}: {told}\n{errors}", output.status);
}

/// Runs a test again with a file system of its own mounted on a directory.
pub(crate) fn inside_mount(test: &str, kind: &str, scratch: &Scratch) {
    // The mount is visible to that process only, and ends with it.
    let unshare = ["unshare", "--mount", "sh"];
    let allowed = Command::new("unshare").args(["--mount", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return skipped(test, "no right to mount");
    }
    let mount = format!("mount -t {kind} none \"${INSIDE}\"");
    inside(test, &unshare, &mount, scratch.root());
}
