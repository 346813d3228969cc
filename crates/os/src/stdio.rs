//! The standard streams that were closed when the program started, as by `wc <&-` in a shell.
//!
//! Rust's runtime opens `/dev/null` for each of them before `main`, so that no file gets its number. They must be
//! examined earlier: by a function that the loader calls before the runtime starts.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bitmap of the closed streams, by descriptor.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: querying the flags of a descriptor changes nothing; a closed one only gives an error.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section consists of pointers to functions, which the loader calls before `main`; C's calling convention
// permits ignoring their arguments. `look` needs nothing that is initialized later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Checks that the program was not started with this standard stream closed.
///
/// # Errors
/// `EBADF` if it was: the error of reading or writing a closed descriptor.
pub fn was_open(stream: BorrowedFd<'_>) -> io::Result<()> {
    let closed = CLOSED.load(Ordering::Relaxed);
    let is_closed = (0..3).contains(&stream.as_raw_fd()) && closed & 1 << stream.as_raw_fd() != 0;
    if is_closed { Err(io::Error::from_raw_os_error(libc::EBADF)) } else { Ok(()) }
}
/// Makes writes to a pipe fail with [`WouldBlock`](io::ErrorKind::WouldBlock) while it is full and has no reader.
///
/// # Errors
/// If it is not an open file.
pub fn set_nonblocking(pipe: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(pipe)?;
    Ok(rustix::fs::fcntl_setfl(pipe, flags | rustix::fs::OFlags::NONBLOCK)?)
}
