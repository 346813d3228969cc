//! Tests that run once more in a process whose surroundings a shell has prepared.

use std::path::Path;
use std::process::Command;

use sakiyomi_testing::{Scratch, skipped};

/// Marks the process that a test has started; its value is a directory.
pub(crate) const INSIDE: &str = "SAKIYOMI_TEST_INSIDE";

/// Runs a test once more, by itself in a process of which a shell has prepared the surroundings.
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

/// Runs a test again with a file system of its own on a directory.
pub(crate) fn inside_mount(test: &str, kind: &str, scratch: &Scratch) {
    // The mount is seen by that process only, and goes with it.
    let unshare = ["unshare", "--mount", "sh"];
    let allowed = Command::new("unshare").args(["--mount", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return skipped(test, "no right to mount");
    }
    let mount = format!("mount -t {kind} none \"${INSIDE}\"");
    inside(test, &unshare, &mount, scratch.root());
}
