//! Memory that may be filled: available memory of the machine, and limits of a process's control groups.

use std::fs;
use std::path::Path;

/// Returns the bytes that the machine can provide without swapping (MemAvailable); `None` if it does not report them.
#[must_use]
pub fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Returns the peak resident memory of this process in bytes (VmHWM); `None` if the system does not report it.
#[must_use]
pub fn peak_resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Returns the bytes that the limits of a process's control groups leave, including reclaimable pages of files;
/// `None` if no group has a limit.
///
/// The kernel charges a page of a file to the group of the process that reads it in. Pages that another group has
/// read ahead are not charged to this one until they have to be read again: the limit is respected all the same.
#[must_use]
pub fn left_to(process: u32) -> Option<u64> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    left_in(&groups, |path| fs::read_to_string(path).ok())
}

/// Like [`left_to`], given the text of `/proc/PID/cgroup`; `read` reads files.
fn left_in(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let left = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        match controllers {
            "" => V2_ROOTS.iter().find_map(|root| least(root, path, &V2, &read)),
            _ if controllers.split(',').any(|name| name == "memory") => least(V1_ROOT, path, &V1, &read),
            _ => None,
        }
    });
    left.min()
}

/// File names of a version of control groups.
struct Version {
    limit: &'static str,
    used: &'static str,
    /// Key in `memory.stat` of the inactive pages of files.
    inactive: &'static str,
    active: &'static str,
}

const V1_ROOT: &str = "/sys/fs/cgroup/memory";
const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file ",
    active: "total_active_file ",
};

/// The second one if both versions are mounted.
const V2_ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const V2: Version = Version {
    limit: "memory.max",
    used: "memory.current",
    inactive: "inactive_file ",
    active: "active_file ",
};

/// Limits from this size on mean no limit: version 1 of control groups reports a huge number instead.
const UNLIMITED_MIN_BYTES: u64 = 1 << 60;

/// Returns the minimum that is left in the group and all of its ancestors, in bytes.
fn least(root: &str, path: &str, version: &Version, read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let group = Path::new(root).join(path.trim_start_matches('/'));
    let up_to_root = group.ancestors().take_while(|above| above.starts_with(root));
    up_to_root.filter_map(|group| left_of(group, version, read)).min()
}

fn left_of(group: &Path, version: &Version, read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let number = |name: &str| read(&group.join(name))?.trim().parse::<u64>().ok();
    let limit = number(version.limit).filter(|&limit| limit < UNLIMITED_MIN_BYTES)?;
    let stat = read(&group.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let files = field(version.inactive).unwrap_or(0) + field(version.active).unwrap_or(0);
    Some(limit.saturating_sub(number(version.used)?.saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&Path) -> Option<String> + 'a {
        |path| files.iter().find(|file| Path::new(file.0) == path).map(|file| file.1.to_owned())
    }

    #[test]
    fn the_tightest_group_of_all_above_counts() {
        let v1 = files(&[
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n"),
            ("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "900\n"),
            ("/sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 300\ntotal_active_file 100\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "100\n"),
        ]);
        assert_eq!(left_in("5:cpu:/x\n4:memory:/a/b\n0::/\n", v1), Some(500));
        let v2 = files(&[
            ("/sys/fs/cgroup/s/memory.max", "max\n"),
            ("/sys/fs/cgroup/s/memory.current", "1\n"),
            ("/sys/fs/cgroup/s/t/memory.max", "4096\n"),
            ("/sys/fs/cgroup/s/t/memory.current", "5000\n"),
            ("/sys/fs/cgroup/s/t/memory.stat", "inactive_file 0\nactive_file 4\n"),
        ]);
        assert_eq!(left_in("0::/s/t\n", &v2), Some(0), "more used than allowed");
        assert_eq!(left_in("0::/s\n", &v2), None);
    }

    #[test]
    fn a_machine_says_what_it_has() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
