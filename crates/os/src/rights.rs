//! The user that this process runs as, and its capabilities.

use std::fs;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_found_among_the_others() {
        let status = "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000200000\nCapBnd:\t0\n";
        assert_eq!(effective_of(status), Some(1 << CAP_SYS_ADMIN));
        assert_eq!(effective_of("Name:\tx\n"), None);
    }
}
