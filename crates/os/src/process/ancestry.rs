//! Ancestry of processes: process of a thread, parent, users, control groups; and the end of a process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, statat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{CWD, Process};

/// Ancestry and users of a process. PIDs are 0 for processes outside of our PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process itself, or that of the thread.
    pub process: u32,
    /// The parent: the process that has started it, or its subreaper.
    pub parent: u32,
    /// Its real, effective and saved users.
    pub users: [u32; 3],
}

impl Process {
    /// Returns its process, parent and users.
    ///
    /// # Errors
    /// If it has ended.
    pub fn status(&self) -> io::Result<Status> {
        let mut text = Vec::with_capacity(2048);
        File::from(self.at("status")?).read_to_end(&mut text)?;
        status_of(&String::from_utf8_lossy(&text)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns whether it has a thread of this ID, so that neither ID has been reused.
    #[must_use]
    pub fn has_thread(&self, thread: u32) -> bool {
        // Called for every request of a process with a rate: neither the name nor the call allocates.
        let mut name = io::Cursor::new([0; 24]);
        let written = write!(name, "task/{thread}");
        debug_assert!(written.is_ok(), "a number has at most ten digits");
        let end = name.position() as usize;
        statat(&self.directory, &name.get_ref()[..end], AtFlags::empty()).is_ok()
    }

    /// Returns the name of its program, truncated by the kernel to 15 bytes.
    ///
    /// # Errors
    /// If it has ended.
    pub fn name(&self) -> io::Result<String> {
        let mut text = Vec::new();
        File::from(self.at("comm")?).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned())
    }

    /// Returns its control groups in all hierarchies, as paths from the root of each.
    ///
    /// # Errors
    /// If it has ended.
    pub fn control_groups(&self) -> io::Result<Vec<String>> {
        let mut text = Vec::new();
        File::from(self.at("cgroup")?).read_to_end(&mut text)?;
        Ok(groups_of(&String::from_utf8_lossy(&text)))
    }

    /// Returns a descriptor that becomes readable when it ends (pidfd).
    ///
    /// # Errors
    /// If it has ended already.
    pub fn end(&self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let number = i32::try_from(self.number).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let end = pidfd_open(number, PidfdFlags::empty())?;
        // The process still exists, so the pidfd is its own: the number was not reused in between.
        if self.has_thread(self.number) { Ok(end) } else { Err(gone()) }
    }
}

/// Returns the PIDs of all processes.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn all() -> io::Result<Vec<u32>> {
    let proc = super::open_directory(std::path::Path::new("/proc"))?;
    super::numbers_in(&proc, ".")
}

/// Returns whether `/proc` shows our own PID namespace.
#[must_use]
pub fn is_of_our_namespace() -> bool {
    rustix::fs::readlinkat(CWD, "/proc/self", Vec::new())
        .is_ok_and(|own| own.to_str() == Ok(&std::process::id().to_string()))
}

fn status_of(text: &str) -> Option<Status> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let number = |name: &str| field(name)?.trim().parse().ok();
    let mut users = field("Uid:")?.split_ascii_whitespace().map_while(|user| user.parse().ok());
    let users = [users.next()?, users.next()?, users.next()?];
    Some(Status { process: number("Tgid:")?, parent: number("PPid:")?, users })
}

/// Parses lines like `4:memory:/batch`, whose last part may contain colons.
fn groups_of(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_threads_and_no_others() {
        let own = Process::open(std::process::id()).unwrap();
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let other = thread.join().unwrap();
        assert!(own.has_thread(std::process::id()));
        let begun = std::time::Instant::now();
        while own.has_thread(other) {
            assert!(begun.elapsed().as_secs() < 10, "it has been joined");
        }
        assert!(!own.has_thread(1), "that is another process");
    }

    #[test]
    fn status_is_read_whatever_the_name() {
        let text = "Name:\tTgid:\t7\nState:\tR\nTgid:\t41\nPid:\t42\nPPid:\t5\nUid:\t1\t2\t3\t4\n";
        assert_eq!(status_of(text), Some(Status { process: 41, parent: 5, users: [1, 2, 3] }));
        assert_eq!(status_of("Tgid:\t41\nPPid:\t5\nUid:\t1\t2\n"), None);
        let own = Process::open(std::process::id()).unwrap().status().unwrap();
        assert_eq!((own.process, own.parent), (std::process::id(), std::os::unix::process::parent_id()));
    }

    #[test]
    fn control_groups_are_read_of_both_versions() {
        assert_eq!(groups_of("4:memory:/batch\n1:name=systemd:/a:b\n0::/\n"), ["/batch", "/a:b", "/"]);
    }

    #[test]
    fn the_end_of_a_process_is_told() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        let end = process.end().unwrap();
        let ended = |wait| {
            let mut polled = [rustix::event::PollFd::new(&end, rustix::event::PollFlags::IN)];
            let wait = rustix::time::Timespec { tv_sec: wait, tv_nsec: 0 };
            rustix::event::poll(&mut polled, Some(&wait)).unwrap() == 1
        };
        assert!(!ended(0));
        child.kill().unwrap();
        assert!(ended(20));
        child.wait().unwrap();
        assert!(process.end().is_err() && process.status().is_err());
    }
}
