//! The user that this process runs as, and its capabilities.

use std::fs;

/// Number of the capability to mount, among much else (`linux/capability.h`).
pub const CAP_SYS_ADMIN: u32 = 21;

/// The effective user.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user who started this process, whatever rights its program file gives it.
#[must_use]
pub fn real_user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Whether this process runs as root, which in a container may still lack a capability.
#[must_use]
pub fn is_root() -> bool {
    user() == 0
}

/// Whether this process has a capability, by its number; as root it is supposed to where `/proc` cannot be read.
#[must_use]
pub fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_of(&status).map_or_else(is_root, |set| set & (1 << number) != 0)
}

/// The set of effective capabilities, from `/proc/PID/status`.
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
