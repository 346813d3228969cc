//! The process that owns an instance: it creates the instance, names threads for it, and removes it.
//!
//! The kernel waits for an RCU grace period, some 20 to 90 ms, when a buffer's size is set, when threads are added,
//! and when an instance is removed; a process cannot end while one of its threads is in such a wait. A daemon
//! therefore makes these calls. It has a session of its own, its parent has ended, its directory is `/`, and it has
//! nothing open but tracefs and a socket to its creator. When the socket is closed, because the instance is not
//! needed any more or because the creator was killed, it removes the instance.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use libc::c_int;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Settings of every instance. With the last one, tracing stops when `free_buffer` is closed, which also happens if the
/// owner is killed.
const COMMON_SETTINGS: [(&CStr, &CStr); 2] =
    [(c"options/event-fork", c"1"), (c"options/disable_on_free", c"1")];

/// Maximum bytes of a request: thread IDs as text, terminated by a newline.
const REQUEST_MAX_BYTES: usize = 8 << 10;

/// Attempts, 10 ms apart, to remove an instance of which another process still has a file open.
const REMOVE_TRIES: usize = 500;

/// Handle of the owner process, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Owner {
    socket: UnixStream,
}

impl Owner {
    /// Starts an owner that creates an instance with these settings in the directory `instances`, and returns when the
    /// instance is set up. The owner removes the instances in `left_over` after its own.
    ///
    /// # Errors
    /// If it cannot be created; then nothing is left of it.
    pub(super) fn start(
        instances: BorrowedFd<'_>,
        name: &CStr,
        left_over: &[CString],
        settings: &[(&CStr, &CStr)],
    ) -> io::Result<Owner> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut keep = [instances.as_raw_fd(), theirs.as_raw_fd()];
        keep.sort_unstable();
        // SAFETY: both children make only system calls, on descriptors and memory from before the fork, because other
        // threads may have held locks. The first child ends at once, so that the second is reparented, and is waited
        // for: when this returns, neither holds a descriptor of the caller, nor its directory.
        unsafe {
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()),
                0 => {
                    libc::setsid();
                    libc::chdir(c"/".as_ptr());
                    close_all_but(&keep);
                    match libc::fork() {
                        0 => own(instances.as_raw_fd(), theirs.as_raw_fd(), name, left_over, settings),
                        -1 => libc::_exit(1),
                        _ => libc::_exit(0),
                    }
                }
                child => wait_for(child)?,
            }
        }
        drop(theirs);
        let mut owner = Owner { socket: ours };
        owner.reply()?;
        Ok(owner)
    }

    /// Adds these threads, and those that they start from now on, to the traced ones.
    pub(super) fn name_threads(&mut self, threads: &[u32]) -> io::Result<()> {
        // A thread ID has at most ten digits.
        for some in threads.chunks(REQUEST_MAX_BYTES / 11) {
            let numbers: Vec<String> = some.iter().map(u32::to_string).collect();
            self.socket.write_all((numbers.join(" ") + "\n").as_bytes())?;
            self.reply()?;
        }
        Ok(())
    }

    /// Returns whether it has ended, which it does only if it is killed; tracing is then off.
    pub(super) fn is_gone(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().contains(PollFlags::HUP)
    }

    /// Waits for the reply to the last request: an error number, or 0.
    fn reply(&mut self) -> io::Result<()> {
        let mut number = [0; size_of::<c_int>()];
        self.socket.read_exact(&mut number)?;
        match c_int::from_ne_bytes(number) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn wait_for(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the call only writes `status`.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    if status == 0 { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// Main function of the owner.
///
/// # Safety
/// Only after a fork, as are the functions below: plain system calls on memory that stays valid.
unsafe fn own(
    instances: c_int,
    socket: c_int,
    name: &CStr,
    left_over: &[CString],
    settings: &[(&CStr, &CStr)],
) -> ! {
    // SAFETY: see above.
    unsafe {
        if let Ok((instance, _held)) =
            set_up(instances, name, settings).inspect_err(|&error| send_error(socket, error))
        {
            send_error(socket, 0);
            serve(instance, socket);
            // Stops tracing at once: events slow the traced programs down, and removal takes time.
            let _ = put(instance, c"events/enable", libc::O_WRONLY, b"0");
            // Keeps `free_buffer` open until then, because closing it takes as long again.
        }
        close_all_but(&[instances]);
        remove(instances, name);
        for name in left_over {
            libc::unlinkat(instances, name.as_ptr(), libc::AT_REMOVEDIR);
        }
        libc::_exit(0)
    }
}

/// Sets up the instance; returns descriptors of its directory and its `free_buffer`, or an error number.
///
/// # Safety
/// The conditions of [`own`] apply.
unsafe fn set_up(
    instances: c_int,
    name: &CStr,
    settings: &[(&CStr, &CStr)],
) -> Result<(c_int, c_int), c_int> {
    // SAFETY: as of this function.
    unsafe {
        if libc::mkdirat(instances, name.as_ptr(), 0o700) != 0 {
            return Err(errno());
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let instance = libc::openat(instances, name.as_ptr(), flags);
        let held = libc::openat(instance, c"free_buffer".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if held < 0 {
            return Err(errno());
        }
        for (path, word) in settings.iter().chain(&COMMON_SETTINGS) {
            put(instance, path, libc::O_WRONLY, word.to_bytes())?;
        }
        Ok((instance, held))
    }
}

/// Serves requests to add threads until the socket is closed.
///
/// # Safety
/// The conditions of [`own`] apply.
unsafe fn serve(instance: c_int, socket: c_int) {
    let mut request = [0u8; REQUEST_MAX_BYTES];
    let mut length = 0;
    loop {
        let rest = &mut request[length..];
        // SAFETY: as of this function; at most as many bytes are read as there is room for.
        let read = unsafe { libc::read(socket, rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(read) {
            Err(_) if errno() == libc::EINTR => continue,
            Err(_) | Ok(0) => return,
            Ok(read) => length += read,
        }
        if request[..length].ends_with(b"\n") {
            // Appends, so that the threads added before stay.
            let how = libc::O_WRONLY | libc::O_APPEND;
            // SAFETY: as of this function.
            unsafe {
                let done = put(instance, c"set_event_pid", how, &request[..length]);
                send_error(socket, done.err().unwrap_or(0));
            }
            length = 0;
        }
    }
}

/// Sends an error number, or 0, to the creator.
///
/// # Safety
/// The conditions of [`own`] apply.
unsafe fn send_error(socket: c_int, error: c_int) {
    let bytes = error.to_ne_bytes();
    // SAFETY: as of this function.
    unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
}

/// Writes a word to a file of tracefs, in one system call.
///
/// # Safety
/// The conditions of [`own`] apply.
unsafe fn put(directory: c_int, path: &CStr, how: c_int, word: &[u8]) -> Result<(), c_int> {
    // SAFETY: as of this function.
    unsafe {
        let file = libc::openat(directory, path.as_ptr(), how | libc::O_CLOEXEC);
        if file < 0 {
            return Err(errno());
        }
        let written = libc::write(file, word.as_ptr().cast(), word.len());
        let error = errno();
        libc::close(file);
        if usize::try_from(written) == Ok(word.len()) { Ok(()) } else { Err(error) }
    }
}

/// Removes an instance; retries while another process has one of its files open.
///
/// # Safety
/// The conditions of [`own`] apply.
unsafe fn remove(instances: c_int, name: &CStr) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    for _ in 0..REMOVE_TRIES {
        // SAFETY: as of this function.
        unsafe {
            if libc::unlinkat(instances, name.as_ptr(), libc::AT_REMOVEDIR) == 0 || errno() != libc::EBUSY {
                return;
            }
            libc::nanosleep(&raw const pause, ptr::null_mut());
        }
    }
}

fn errno() -> c_int {
    // SAFETY: it is the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Closes all descriptors except `keep`, which is in ascending order.
///
/// # Safety
/// The conditions of [`own`] apply.
unsafe fn close_all_but(keep: &[c_int]) {
    let mut from = 0;
    for &file in keep {
        // SAFETY: as of this function.
        unsafe { close(from, file - 1) };
        from = file + 1;
    }
    // SAFETY: as of this function.
    unsafe { close(from, c_int::MAX) };
}

/// Closes the descriptors from `from` to `to`, inclusive.
///
/// # Safety
/// The conditions of [`own`] apply, and the closed descriptors must no longer be used in this process.
unsafe fn close(from: c_int, to: c_int) {
    /// Number of descriptors that are closed one by one before Linux 5.9, which lacks close_range(2): more than the
    /// usual limit of a process.
    const DESCRIPTORS_MAX: c_int = 65_536;
    // SAFETY: as of this function.
    unsafe {
        if from <= to && libc::syscall(libc::SYS_close_range, from, to, 0) != 0 {
            for file in from..=to.min(DESCRIPTORS_MAX) {
                libc::close(file);
            }
        }
    }
}
