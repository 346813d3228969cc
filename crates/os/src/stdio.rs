//! The standard streams that were closed when the program started, as by `wc <&-` in a shell.
//!
//! Rust's runtime opens `/dev/null` for each of them before `main`, so that no file gets its number. They must be
//! examined earlier: by a function that the loader calls before the runtime starts.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each of the three.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: asking for the flags of a descriptor changes nothing, and one that is closed is only an error.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section is one of pointers to functions, which the loader calls before `main`, with arguments that C's
// calling convention lets a function leave alone. `look` needs nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// An error, that of reading or writing it, if the program was started with this standard stream closed.
///
/// # Errors
/// `EBADF`, in that case.
pub fn was_open(stream: BorrowedFd<'_>) -> io::Result<()> {
    let closed = CLOSED.load(Ordering::Relaxed);
    let is_closed = (0..3).contains(&stream.as_raw_fd()) && closed & 1 << stream.as_raw_fd() != 0;
    if is_closed { Err(io::Error::from_raw_os_error(libc::EBADF)) } else { Ok(()) }
}
