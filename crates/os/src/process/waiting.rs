//! Processes of the whole system: whether some are new, which of them wait for I/O, and their credentials.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags, openat};

use super::thread::sleeps_of;
use super::{CWD, Process, Sleeps, reread};
use crate::rights::Credentials;

/// Returns the ID that was assigned last to a process or thread in our PID namespace: as long as it stays the same, no process
/// has started.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn newest() -> io::Result<u32> {
    let load = openat(CWD, "/proc/loadavg", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [0; 128];
    let newest = newest_of(reread(load.as_fd(), &mut buffer)?);
    newest.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses a line like `0.85 2.11 1.88 1/81 4119`.
fn newest_of(load: &str) -> Option<u32> {
    load.split_ascii_whitespace().nth(4)?.parse().ok()
}

impl Process {
    /// Returns whether one of its threads waits for I/O at this moment.
    ///
    /// # Errors
    /// If it has ended.
    pub fn waits_for_io(&self) -> io::Result<bool> {
        /// Threads that are examined at a time: a large server has thousands.
        const EXAMINED_THREADS_MAX: usize = 32;
        /// Number of the examination, so that another part of many threads is examined each time.
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let mut threads = self.threads()?;
        if threads.len() > EXAMINED_THREADS_MAX {
            let turn = TURN.fetch_add(1, Ordering::Relaxed);
            let count = threads.len();
            threads.rotate_left(turn.wrapping_mul(EXAMINED_THREADS_MAX) % count);
            threads.truncate(EXAMINED_THREADS_MAX);
        }
        let waits = |&thread: &u32| {
            sleeps_of(self.directory.as_fd(), thread).is_ok_and(|sleeps| sleeps == Sleeps::ForIo)
        };
        Ok(threads.iter().any(waits))
    }

    /// Returns its process group: the job of a shell that it belongs to, or the service.
    ///
    /// # Errors
    /// If it has ended.
    pub fn group(&mut self) -> io::Result<u32> {
        let mut buffer = [0; super::STAT_LINE_MAX_BYTES];
        let group = self.stat(&mut buffer)?.after_name().nth(2).and_then(|number| number.parse().ok());
        group.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the credentials with which it accesses files.
    ///
    /// # Errors
    /// If it has ended, or has several at the same time, as a program that is setuid.
    pub fn credentials(&self) -> io::Result<Credentials> {
        let mut text = Vec::with_capacity(2048);
        File::from(self.at("status")?).read_to_end(&mut text)?;
        let credentials = Credentials::of_status(&String::from_utf8_lossy(&text));
        credentials.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns whether it sees the same directory tree as this process: it has the same mount namespace and the same root.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn sees_our_files(&self) -> io::Result<bool> {
        let link = |name: &str| rustix::fs::readlinkat(&self.directory, name, Vec::new());
        let own = rustix::fs::readlinkat(CWD, "/proc/self/ns/mnt", Vec::new())?;
        Ok(link("ns/mnt")? == own && link("root")?.as_bytes() == b"/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights;
    use sakiyomi_testing::wait_until;

    #[test]
    fn the_newest_process_is_the_last_number() {
        assert_eq!(newest_of("0.85 2.11 1.88 1/81 4119\n"), Some(4119));
        assert_eq!(newest_of("0.85 2.11\n"), None);
    }

    #[test]
    fn a_new_process_is_noticed_and_has_our_rights_and_group() {
        let before = newest().unwrap();
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let mut process = Process::open(child.id()).unwrap();
        assert_ne!(newest().unwrap(), before);
        let mut own = Process::open(std::process::id()).unwrap();
        assert_eq!(process.group().unwrap(), own.group().unwrap());
        assert_eq!(process.credentials().unwrap(), own.credentials().unwrap());
        assert_eq!(process.credentials().unwrap().user, rights::user());
        assert!(process.sees_our_files().unwrap());
        // Once it has been loaded, it sleeps for another reason.
        wait_until("its sleep", || !process.waits_for_io().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.waits_for_io().is_err());
    }
}
