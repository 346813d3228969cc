//! Whether file systems can be mounted here.

use std::fs::{self, OpenOptions};

#[expect(clippy::print_stderr, reason = "a test that is left out must say so")]
pub(crate) fn can_mount(test: &str) -> bool {
    let root = fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0");
    let able = root && OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    if !able {
        eprintln!("SKIPPED {test}: needs /dev/fuse and root");
    }
    able
}
