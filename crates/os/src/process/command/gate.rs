//! Holds a process between fork and exec until a callback, called with its PID, has agreed.
#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;

/// Starts `command`, whose exec waits until `ready`, called with the PID, agrees.
///
/// # Errors
/// If it cannot be started; [`None`] if `ready` does not agree.
pub(super) fn spawn(
    mut command: Command,
    ready: &mut (dyn FnMut(u32) -> bool + Send),
) -> io::Result<Option<Child>> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let (here, there) = (ours.as_raw_fd(), theirs.as_raw_fd());
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || wait(here, there)) };
    thread::scope(|scope| {
        // Runs on its own thread: `spawn` returns only after the exec.
        let ask = move || {
            let mut number = [0; 4];
            // No number arrives if the process could not be created or was killed at once.
            ours.read_exact(&mut number).is_err() || {
                let agreed = ready(u32::from_ne_bytes(number));
                let _ = ours.write_all(&[u8::from(agreed)]);
                agreed
            }
        };
        let asked = thread::Builder::new().name("gate".to_owned()).spawn_scoped(scope, ask)?;
        let started = command.spawn();
        drop(theirs);
        match asked.join().expect("the thread does not panic") {
            true => started.map(Some),
            false => Ok(None),
        }
    })
}

/// Waits for the reply; runs in the child between fork and exec.
fn wait(parents: i32, own: i32) -> io::Result<()> {
    // SAFETY: plain system calls on open descriptors, with buffers of the given length. The parent's end is closed so
    // that its death is noticed.
    let agreed = unsafe {
        libc::close(parents);
        let number = libc::getpid().to_ne_bytes();
        let mut answer = [0u8];
        let said = libc::write(own, number.as_ptr().cast(), number.len());
        said == number.len() as isize
            && loop {
                let read = libc::read(own, answer.as_mut_ptr().cast(), 1);
                let interrupted = read < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
                if !interrupted {
                    break read == 1 && answer[0] == 1;
                }
            }
    };
    if agreed { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
}
