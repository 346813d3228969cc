//! Control groups with the memory controller, of either version, removed at the end of a test.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use sakiyomi_testing::wait_until;

/// Groups that this process has made, so that each has a name of its own.
static GROUPS: AtomicU32 = AtomicU32::new(0);

/// A control group whose memory is accounted for.
pub(crate) struct Group {
    directory: PathBuf,
    /// The names of the files with the memory in use and its limit, which differ between the versions.
    usage: &'static str,
    limit: &'static str,
}

impl Group {
    /// Makes a group; `None` where this process may use no memory controller.
    pub(crate) fn new() -> Option<Group> {
        let index = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sakiyomi-test-{}-{index}", std::process::id());
        [
            ("/sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.current", "memory.max"),
        ]
        .into_iter()
        .find_map(|(parent, usage, limit)| {
            let directory = PathBuf::from(parent).join(&name);
            fs::create_dir(&directory).ok()?;
            let group = Group { directory, usage, limit };
            group.directory.join(usage).exists().then_some(group)
        })
    }

    pub(crate) fn with_memory(bytes: u64) -> Option<Group> {
        let group = Group::new()?;
        fs::write(group.directory.join(group.limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// The command of a shell by which it enters the group, with the processes that it starts from then on.
    pub(crate) fn enter(&self) -> String {
        format!("echo 0 > {}/cgroup.procs", self.directory.display())
    }

    /// The bytes of memory in use, page cache included.
    pub(crate) fn usage_bytes(&self) -> u64 {
        fs::read_to_string(self.directory.join(self.usage)).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_until("the group's end", || fs::remove_dir(&self.directory).is_ok());
    }
}
