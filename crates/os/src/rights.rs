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

/// Credentials with which a process accesses files (credentials(7)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credentials {
    /// User ID.
    pub user: u32,
    /// Group ID.
    pub group: u32,
    /// Supplementary group IDs.
    pub groups: Vec<u32>,
    /// Effective capabilities of root, as a bit set; 0 for other users.
    pub capabilities: u64,
}

impl Credentials {
    /// Returns the credentials in `/proc/PID/status`; `None` if the real, effective, saved and file-system IDs differ, as in
    /// a program that is setuid.
    pub(crate) fn of_status(status: &str) -> Option<Credentials> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let single = |name: &str| -> Option<u32> {
            let mut ids = field(name)?.split_ascii_whitespace();
            let first = ids.next()?;
            ids.all(|id| id == first).then(|| first.parse().ok())?
        };
        let user = single("Uid:")?;
        let groups = field("Groups:").unwrap_or("").split_ascii_whitespace();
        Some(Credentials {
            user,
            group: single("Gid:")?,
            groups: groups.map_while(|group| group.parse().ok()).collect(),
            capabilities: if user == 0 { effective_of(status)? } else { 0 },
        })
    }

    /// Returns whether a process with these credentials may do all that one with `others` may.
    #[must_use]
    pub fn include(&self, others: &Credentials) -> bool {
        (self.user, self.group, &self.groups) == (others.user, others.group, &others.groups)
            && others.capabilities & !self.capabilities == 0
    }

    /// Makes a command start with this user and these groups, without capabilities unless the user is root, and without
    /// descriptors but the standard ones. Requires root.
    pub fn apply_to(&self, command: &mut Command) {
        let Credentials { user, group, groups, .. } = self.clone();
        let become_user = move || {
            let checked =
                |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
            // SAFETY: closes nothing now, but at the start of the program; it fails on old systems, which is harmless.
            unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
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

    /// Numbers of the capabilities to change group and user.
    const CAP_SETGID: u32 = 6;
    const CAP_SETUID: u32 = 7;

    #[test]
    fn the_effective_set_is_found_among_the_others() {
        let status = "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000200000\nCapBnd:\t0\n";
        assert_eq!(effective_of(status), Some(1 << CAP_SYS_ADMIN));
        assert_eq!(effective_of("Name:\tx\n"), None);
    }

    #[test]
    fn credentials_of_a_program_that_is_setuid_are_not_given() {
        let status = |uid: &str, gid: &str| {
            format!("Uid:\t{uid}\nGid:\t{gid}\nGroups:\t20 44 \nCapEff:\t0000000000000003\n")
        };
        let user = |user, capabilities| Credentials { user, group: 5, groups: vec![20, 44], capabilities };
        let same = "5\t5\t5\t5";
        assert_eq!(Credentials::of_status(&status("7\t7\t7\t7", same)), Some(user(7, 0)));
        assert_eq!(Credentials::of_status(&status("0\t0\t0\t0", same)), Some(user(0, 3)));
        for differing in ["7\t0\t0\t0", "0\t7\t0\t7", "0\t0\t7\t0", "0\t0\t0\t7"] {
            assert_eq!(Credentials::of_status(&status(differing, same)), None);
            assert_eq!(Credentials::of_status(&status(same, differing)), None);
        }
        assert_eq!(Credentials::of_status("Uid:\t1\n"), None);
        assert!(user(0, 3).include(&user(0, 1)) && !user(0, 1).include(&user(0, 3)));
        assert!(!user(7, 0).include(&user(8, 0)));
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
        let expected = Credentials { user: 65534, group: 65533, groups: vec![65532], capabilities: 0 };
        expected.apply_to(&mut command);
        if !has_capability(CAP_SETGID) || !has_capability(CAP_SETUID) {
            return skipped(TEST, "needs the capabilities to change user and group");
        }
        let output = command.output().unwrap();
        let status = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(Credentials::of_status(&status), Some(expected));
        assert_eq!(effective_of(&status), Some(0));
    }
}
