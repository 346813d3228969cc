//! A separate mount for each test, with a watchdog: a mount that hangs would hang every process that accesses it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use sakiyomi_mount::{Finished, Mounted, Options, mount};
pub(crate) use sakiyomi_testing::can_mount;

/// Three directories: the backing directory, the mount point, and one for comparison.
pub(crate) struct Scratch {
    root: PathBuf,
    /// Ends the watchdog when it is dropped.
    _alive: mpsc::Sender<()>,
}

impl Scratch {
    pub(crate) fn new(test: &str, limit: Duration) -> Scratch {
        let root = sakiyomi_testing::directory().join(format!("mount-{test}-{}", std::process::id()));
        for name in ["backing", "mounted", "plain"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let (alive, gone) = mpsc::channel();
        watch(root.join("mounted"), gone, limit);
        Scratch { root, _alive: alive }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn mount(&self, options: &Options) -> Mounted {
        mount(&self.path("backing"), &self.path("mounted"), options).unwrap()
    }
}

/// Unmounts and returns the statistics.
pub(crate) fn unmounted(mounted: Mounted) -> Finished {
    mounted.finish(Duration::from_secs(5)).unwrap()
}

#[expect(clippy::print_stderr, reason = "nobody else is left to tell")]
fn watch(mounted: PathBuf, gone: mpsc::Receiver<()>, limit: Duration) {
    thread::spawn(move || {
        if gone.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("the mount hangs: it is unmounted");
            detach(&mounted);
            std::process::abort();
        }
    });
}

fn detach(mounted: &Path) {
    let _ = rustix::mount::unmount(mounted, rustix::mount::UnmountFlags::DETACH);
}

impl Drop for Scratch {
    fn drop(&mut self) {
        detach(&self.root.join("mounted"));
        let _ = fs::remove_dir_all(&self.root);
    }
}
