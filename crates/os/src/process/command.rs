//! Runs a command in place of this process, with its signals and status passed through.
//!
//! The command stays in our process group, on our terminal and with our standard streams. Signals of the terminal
//! reach the whole group, including the command: we neither pass them on nor end by them. Signals that a process
//! sends to us alone are passed on, including those that stop and continue (SIGTSTP, SIGCONT). When the command has
//! stopped, we stop as well, so that the shell notices; when it ends, we can end in the same way. If we are killed,
//! the command continues alone. SIGSTOP cannot be passed on either.
//!
//! Signals are blocked and read (signalfd) rather than caught, so that an ignored signal stays ignored for the
//! command (`nohup`). The kernel keeps a blocked signal pending even if it is ignored: it is passed on to a command,
//! which may have a handler, but does not end this process.
#![allow(unsafe_code)]

mod gate;

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, child_subreaper, getpid, kill_process, pidfd_open,
    set_child_subreaper, setrlimit,
};

use super::Process;
use super::hangup::is_ignored;

/// Signals that are passed on. SIGCONT continues a process even if it is blocked.
const PASSED_ON: [libc::c_int; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Blocked signals to this process, which are read from a descriptor.
pub struct Signals {
    read: OwnedFd,
    /// The signal mask before, which the command inherits.
    before: libc::sigset_t,
    /// Signals that this process was started to ignore.
    ignored: Vec<libc::c_int>,
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signals").field("read", &self.read).finish_non_exhaustive()
    }
}

/// A received signal.
struct ReceivedSignal {
    signal: libc::c_int,
    /// Whether it was sent by the kernel, for example by the terminal, and not by a process.
    from_kernel: bool,
}

impl Signals {
    /// Blocks signals in this thread and in those that it starts from now on; call it before starting other threads.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn hold() -> io::Result<Signals> {
        let set = set_of(PASSED_ON.iter().copied().chain([libc::SIGCHLD]));
        let mut before = set_of([].into_iter());
        let ignored = PASSED_ON.into_iter().filter(|&signal| is_ignored(signal)).collect();
        // SAFETY: `set` was filled, and `before` is filled by the call. Children cannot be waited for while SIGCHLD
        // is ignored, so its default action is restored, which is not a handler.
        let descriptor = unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made, and has no other owner.
        let read = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Signals { read, before, ignored })
    }

    /// Waits until a signal requests that this process ends, for this time at most; returns whether one does. Signals
    /// that the process was started to ignore do not.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn wait_for_end(&self, time: Duration) -> io::Result<bool> {
        let mut watched = [PollFd::new(&self.read, PollFlags::IN)];
        let timeout = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        match poll(&mut watched, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.is_end_requested())
    }

    /// Reads the pending signals; returns whether one requests that this process ends.
    fn is_end_requested(&self) -> bool {
        for ReceivedSignal { signal, .. } in std::iter::from_fn(|| self.next()) {
            match signal {
                ignored if self.ignored.contains(&ignored) => {}
                libc::SIGTSTP => stop(),
                libc::SIGCHLD | libc::SIGCONT => {}
                _ => return true,
            }
        }
        false
    }

    /// Returns the next pending signal, if any.
    fn next(&self) -> Option<ReceivedSignal> {
        // SAFETY: all zeros are a valid structure of plain numbers.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `size` bytes into a structure of that size.
        let read = unsafe { libc::read(self.read.as_raw_fd(), (&raw mut info).cast(), size) };
        let whole = usize::try_from(read) == Ok(size);
        whole.then(|| ReceivedSignal { signal: info.ssi_signo.cast_signed(), from_kernel: info.ssi_code > 0 })
    }
}

fn set_of(signals: impl Iterator<Item = libc::c_int>) -> libc::sigset_t {
    // SAFETY: the first call initializes the set, and the others add to it.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// The reason why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program does not exist.
    #[error("cannot run {}: the program was not found", _0.display())]
    NotFound(OsString),
    /// The program may not be executed, or is not an executable.
    #[error("cannot run {}", _0.display())]
    NotExecutable(OsString, #[source] io::Error),
    /// The callback `ready` refused the start.
    #[error("{} was not run", _0.display())]
    Withheld(OsString),
}

/// A running command.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pidfd: OwnedFd,
}

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The exit code that it returned.
    Code(i32),
    /// The signal that killed it.
    Signal(i32),
}

/// Status and CPU time of an ended command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its exit status.
    pub status: Status,
    /// CPU time in user mode, including descendants that it has waited for.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
}

impl Running {
    /// Starts a program with its arguments.
    ///
    /// # Errors
    /// If it cannot be started.
    ///
    /// # Panics
    /// If `words` is empty.
    pub fn start(words: &[OsString], signals: &Signals) -> Result<Running, StartError> {
        Running::start_with(words, &[], signals)
    }

    /// Like [`Running::start`], with further variables in the environment of the program.
    ///
    /// # Errors
    /// If it cannot be started.
    ///
    /// # Panics
    /// If `words` is empty.
    pub fn start_with(
        words: &[OsString],
        variables: &[(&str, &OsStr)],
        signals: &Signals,
    ) -> Result<Running, StartError> {
        Running::begin(words, variables, signals, |mut command| command.spawn().map(Some))
    }

    /// Like [`Running::start`], but the program begins only after `ready`, called with the PID, has agreed. `ready` may
    /// be called twice, for different processes.
    ///
    /// # Errors
    /// If it cannot be started, or `ready` does not agree.
    ///
    /// # Panics
    /// If `words` is empty.
    pub fn start_after(
        words: &[OsString],
        signals: &Signals,
        mut ready: impl FnMut(u32) -> bool + Send,
    ) -> Result<Running, StartError> {
        Running::begin(words, &[], signals, |command| gate::spawn(command, &mut ready))
    }

    fn begin(
        words: &[OsString],
        variables: &[(&str, &OsStr)],
        signals: &Signals,
        mut spawn: impl FnMut(Command) -> io::Result<Option<Child>>,
    ) -> Result<Running, StartError> {
        let (program, arguments) = words.split_first().expect("a command has a name");
        let mut start = |mut command: Command| {
            let before = signals.before;
            // SAFETY: between fork and exec only a system call is made, on a copy of a set.
            unsafe {
                command.pre_exec(move || {
                    match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) {
                        0 => Ok(()),
                        error => Err(io::Error::from_raw_os_error(error)),
                    }
                });
            }
            spawn(command)
        };
        let command = |program: &OsStr| {
            let mut command = Command::new(program);
            command.args(arguments).envs(variables.iter().copied());
            command
        };
        let started = match start(command(program)) {
            // A script without `#!` line: shells, and all users of `execvp`, run it with a shell.
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg(program).args(arguments).envs(variables.iter().copied());
                start(shell)
            }
            other => other,
        };
        let child = match started {
            Ok(Some(child)) => child,
            Ok(None) => return Err(StartError::Withheld(program.clone())),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(StartError::NotFound(program.clone()));
            }
            Err(source) => return Err(StartError::NotExecutable(program.clone(), source)),
        };
        let opened = pidfd_open(pid(child.id()), PidfdFlags::empty());
        let pidfd = opened.map_err(|error| StartError::NotExecutable(program.clone(), error.into()))?;
        Ok(Running { child, pidfd })
    }

    /// Returns its PID.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended, and passes signals on. Its entry in `/proc` is kept until [`Running::end`].
    ///
    /// # Errors
    /// If the system call fails.
    pub fn wait(&self, signals: &Signals) -> io::Result<()> {
        loop {
            let came = wait_for(&self.pidfd, signals)?;
            while let Some(came) = signals.next() {
                self.pass_on(&came);
            }
            if came.ended {
                return Ok(());
            }
        }
    }

    fn pass_on(&self, came: &ReceivedSignal) {
        if came.signal == libc::SIGCHLD {
            self.forget_orphans();
            if self.is_stopped() {
                // The shell must see the stop. The signal that continues this process is then passed on.
                stop();
            }
        } else if !came.from_kernel
            && let Some(signal) = Signal::from_named_raw(came.signal)
        {
            // The command may just have ended, and then needs no signal.
            let _ = kill_process(pid(self.number()), signal);
        }
    }

    /// Reaps its orphaned descendants that have ended. They are reparented to us by [`adopt_orphans`].
    fn forget_orphans(&self) {
        while let Ok(Some(_)) = child_subreaper() {
            // SAFETY: all zeros are a valid structure, which the kernel fills.
            let ended = unsafe {
                let mut info: libc::siginfo_t = mem::zeroed();
                let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
                if libc::waitid(libc::P_ALL, 0, &raw mut info, flags) < 0 {
                    return;
                }
                info.si_pid()
            };
            // The command's own status is left to `end`.
            if ended == 0 || ended.cast_unsigned() == self.number() {
                return;
            }
            // SAFETY: no memory is written.
            unsafe { libc::waitpid(ended, ptr::null_mut(), libc::WNOHANG) };
        }
    }

    /// Returns whether it is stopped and stays so: after Ctrl-Z and `fg` there is an instant in which only this
    /// process has continued.
    fn is_stopped(&self) -> bool {
        let stopped = || {
            Process::open(self.number())
                .and_then(|mut process| process.is_stopped())
                .is_ok_and(|stopped| stopped)
        };
        stopped() && {
            thread::sleep(Duration::from_millis(50));
            stopped()
        }
    }

    /// Reaps it and returns its status.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn end(self) -> io::Result<End> {
        let mut status = 0;
        let number = self.number().cast_signed();
        // SAFETY: all zeros are a valid `rusage`; the kernel fills both.
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = mem::zeroed();
            (libc::wait4(number, &raw mut status, 0, &raw mut usage), usage)
        };
        if waited < 0 {
            return Err(io::Error::last_os_error());
        }
        let status = if libc::WIFSIGNALED(status) {
            Status::Signal(libc::WTERMSIG(status))
        } else {
            Status::Code(libc::WEXITSTATUS(status))
        };
        let span = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
        Ok(End { status, user: span(usage.ru_utime), system: span(usage.ru_stime) })
    }
}

/// Makes this process a subreaper: orphaned descendants are reparented to it, so that they can be recognized by their
/// ancestors.
///
/// # Errors
/// If the system does not support it (Linux 3.4 does).
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Waits until a process that is not our child has ended, or until a signal requests that we end.
///
/// # Errors
/// If the process does not exist.
pub fn wait_for_other(number: u32, signals: &Signals) -> io::Result<()> {
    let process = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
    let pidfd = pidfd_open(process, PidfdFlags::empty())?;
    loop {
        let came = wait_for(&pidfd, signals)?;
        if signals.is_end_requested() || came.ended {
            return Ok(());
        }
    }
}

/// Stops this process until SIGCONT.
fn stop() {
    let _ = kill_process(getpid(), Signal::STOP);
}

struct WaitOutcome {
    ended: bool,
}

fn wait_for(pidfd: &OwnedFd, signals: &Signals) -> io::Result<WaitOutcome> {
    let mut watched = [PollFd::new(pidfd, PollFlags::IN), PollFd::new(&signals.read, PollFlags::IN)];
    match poll(&mut watched, None::<&Timespec>) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(WaitOutcome { ended: !watched[0].revents().is_empty() })
}

/// Returns the `Pid` of a child.
fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed()).expect("a process's number is not 0")
}

/// Ends this process by a signal, so that its parent sees the same status as that of the command. Returns only if
/// that fails.
pub fn end_by(signal: i32) {
    // Only the core dump of the command itself is useful.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let set = set_of([signal].into_iter());
    // SAFETY: the default action is not a handler, and `set` was filled.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_does_not_request_the_end() {
        let raise = |signal| {
            // SAFETY: the signal is blocked in this thread, to which it is sent.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
        };
        // SAFETY: no other test has a handler of these signals.
        let before = unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
        // Blocks signals only in this thread, which ends with the test.
        let signals = Signals::hold().unwrap();
        raise(libc::SIGUSR2);
        assert!(!signals.wait_for_end(Duration::ZERO).unwrap());
        assert!(signals.next().is_none(), "it was read");
        raise(libc::SIGUSR1);
        raise(libc::SIGUSR2);
        assert!(signals.wait_for_end(Duration::ZERO).unwrap());
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGUSR2, before) };
    }
}
