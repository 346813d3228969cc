//! Signals that this process was started to ignore, such as SIGHUP by `nohup`.
#![allow(unsafe_code)]

use std::mem;
use std::ptr;

/// Calls `set`, which sets handlers of signals, and ignores SIGHUP again if it was ignored before: `nohup` starts programs
/// that outlive their terminal.
pub fn kept_ignored<R>(set: impl FnOnce() -> R) -> R {
    let was_ignored = is_ignored(libc::SIGHUP);
    let result = set();
    if was_ignored {
        // SAFETY: it replaces the action of a signal by ignoring it, and no other thread depends on that.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
    result
}

/// Returns whether this process ignores a signal.
pub(super) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeros are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
