//! The user whose rights this process has.

use rustix::process::geteuid;

/// Whether this process has the effective user ID 0. In a container root may still lack capabilities.
#[must_use]
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// The effective user ID.
#[must_use]
pub fn id() -> u32 {
    geteuid().as_raw()
}
