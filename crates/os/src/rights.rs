//! The user that this process runs as, its capabilities, and starting a command with the rights of another user.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Number of the capability to mount file systems, among much else (`linux/capability.h`).
pub const CAP_SYS_ADMIN: u32 = 21;

/// Returns the effective user ID.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the real user ID: the user who started this process, even if its program file is setuid.
#[must_use]
pub fn real_user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Returns whether this process runs as root, which in a container may still lack a capability.
#[must_use]
pub fn is_root() -> bool {
    user() == 0
}

/// Returns whether this process has a capability; root is assumed to have it where `/proc` cannot be read.
#[must_use]
pub fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_of(&status).map_or_else(is_root, |set| set & (1 << number) != 0)
}

/// Returns the set of effective capabilities, from `/proc/PID/status`.
fn effective_of(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// A user and groups, as a process has them for access to files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credentials {
    /// Effective user ID.
    pub user: u32,
    /// Effective group ID.
    pub group: u32,
    /// Supplementary group IDs.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Returns the credentials in `/proc/PID/status`.
    pub(crate) fn of_status(status: &str) -> Option<Credentials> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let effective = |name: &str| field(name)?.split_ascii_whitespace().nth(1)?.parse().ok();
        let groups = field("Groups:").unwrap_or("").split_ascii_whitespace();
        Some(Credentials {
            user: effective("Uid:")?,
            group: effective("Gid:")?,
            groups: groups.map_while(|group| group.parse().ok()).collect(),
        })
    }

    /// Makes a command start with these credentials, and without capabilities unless the user is root. Requires root.
    pub fn apply_to(&self, command: &mut Command) {
        let Credentials { user, group, groups } = self.clone();
        let become_user = move || {
            let checked =
                |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
            // SAFETY: the list is valid for its length, and the call changes nothing but this process.
            checked(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
            // SAFETY: these calls take numbers. The user comes last: without root, the group cannot be changed.
            checked(unsafe { libc::setresgid(group, group, group) })?;
            // SAFETY: as above.
            checked(unsafe { libc::setresuid(user, user, user) })
        };
        // SAFETY: the closure makes system calls only, allocates nothing, and takes no lock.
        unsafe { command.pre_exec(become_user) };
    }
}

/// Returns the home directory of a user, from `/etc/passwd`; `None` if the user is not listed there.
#[must_use]
pub fn home_of(user: u32) -> Option<PathBuf> {
    home_in(&fs::read_to_string("/etc/passwd").ok()?, user)
}

fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut of_user = fields.filter(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(user));
    of_user.find_map(|fields| fields.get(5).filter(|home| home.starts_with('/')).map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::skipped;

    #[test]
    fn the_effective_set_is_found_among_the_others() {
        let status = "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000200000\nCapBnd:\t0\n";
        assert_eq!(effective_of(status), Some(1 << CAP_SYS_ADMIN));
        assert_eq!(effective_of("Name:\tx\n"), None);
    }

    #[test]
    fn credentials_are_the_effective_ones() {
        let status = "Uid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\nGroups:\t20 44 \n";
        let expected = Credentials { user: 1001, group: 6, groups: vec![20, 44] };
        assert_eq!(Credentials::of_status(status), Some(expected));
        assert_eq!(Credentials::of_status("Uid:\t1\n"), None);
    }

    #[test]
    fn a_home_is_the_sixth_field_of_its_user() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\nbroken\nanna:x:1000:1000::/home/anna:/bin/sh\nnone:x:7:7::\n";
        assert_eq!(home_in(passwd, 1000), Some(PathBuf::from("/home/anna")));
        assert_eq!(home_in(passwd, 7), None);
        assert_eq!(home_in(passwd, 8), None);
    }

    #[test]
    fn a_command_has_the_rights_that_it_is_given() {
        const TEST: &str = "a_command_has_the_rights_that_it_is_given";
        if !is_root() {
            return skipped(TEST, "needs root");
        }
        let mut command = Command::new("cat");
        command.arg("/proc/self/status");
        let expected = Credentials { user: 65534, group: 65533, groups: vec![65532] };
        expected.apply_to(&mut command);
        let Ok(output) = command.output() else {
            return skipped(TEST, "users cannot be changed here");
        };
        let status = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(Credentials::of_status(&status), Some(expected));
        assert_eq!(effective_of(&status), Some(0));
    }
}
