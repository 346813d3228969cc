//! An instance's end, which takes the kernel some 70 ms, in a process of its own: a process cannot end while one of its
//! threads waits for that.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// How often it is tried to remove an instance of which somebody has a file open yet, 10 ms apart.
const TIMES: usize = 500;

/// Has the events of an instance switched off and its directory removed as soon as the caller has closed its files.
///
/// Nobody's child does that, in a session of its own, with nothing open: nobody waits for it, and no terminal ends it.
/// If it is killed, the next instance that is made removes this one.
///
/// # Errors
/// If no process can be made for that; then nothing has been done.
pub(super) fn begin(path: &Path, enable: &[File]) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut files: Vec<libc::c_int> = enable.iter().map(AsRawFd::as_raw_fd).collect();
    files.sort_unstable();
    // SAFETY: in both children only system calls are made, on descriptors and memory that were there before: other
    // threads may have held locks. The first child ends at once, so that the second is nobody's, and is waited for.
    unsafe {
        let child = libc::fork();
        match child {
            -1 => Err(io::Error::last_os_error()),
            0 => match libc::fork() {
                0 => remove(&path, &files),
                -1 => libc::_exit(1),
                _ => libc::_exit(0),
            },
            child => {
                let mut status = 0;
                while libc::waitpid(child, &raw mut status, 0) < 0 {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                if status == 0 { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            }
        }
    }
}

/// # Safety
/// Only between a fork and an end: every descriptor is closed. `enable` is in ascending order.
unsafe fn remove(path: &CString, enable: &[libc::c_int]) -> ! {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    // SAFETY: plain system calls on memory that lives on.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        // At first what is not needed: somebody may read the other end of a pipe.
        let mut from = 0;
        for &file in enable {
            close(from, file - 1);
            from = file + 1;
        }
        close(from, libc::c_int::MAX);
        for &file in enable {
            libc::write(file, c"0".as_ptr().cast(), 1);
            libc::close(file);
        }
        for _ in 0..TIMES {
            if libc::rmdir(path.as_ptr()) == 0 || *libc::__errno_location() != libc::EBUSY {
                break;
            }
            libc::nanosleep(&raw const pause, ptr::null_mut());
        }
        libc::_exit(0)
    }
}

/// # Safety
/// As for [`remove`].
unsafe fn close(from: libc::c_int, to: libc::c_int) {
    // Before Linux 5.9 one by one, as many as there can be usually.
    const MOST: libc::c_int = 65_536;
    // SAFETY: what is closed is used by nobody in this process any more.
    unsafe {
        if from <= to && libc::syscall(libc::SYS_close_range, from, to, 0) != 0 {
            for file in from..=to.min(MOST) {
                libc::close(file);
            }
        }
    }
}
