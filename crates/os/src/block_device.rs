//! A disk, as the kernel counts what it does (`/sys/dev/block`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A whole disk.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// The disk that a file system lies on, by the number of its device (`st_dev`), also if that is a partition; none for
    /// a file system that lies on several disks, or on none.
    #[must_use]
    pub fn of(device: u64) -> Option<Disk> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let whole = if directory.join("partition").exists() { directory.parent()? } else { &directory };
        Some(Disk { directory: whole.to_owned() })
    }

    /// Its name in `/dev`.
    #[must_use]
    pub fn name(&self) -> String {
        self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The number of reads and writes that it has completed since it was found.
    ///
    /// # Errors
    /// If it is no longer there.
    pub fn completed(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.directory.join("stat"))?;
        completed_of(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The maximum size of a request to it, in bytes, where the kernel tells.
    #[must_use]
    pub fn request_max_bytes(&self) -> Option<u64> {
        let text = read_trimmed(&self.directory.join("queue/max_sectors_kb"))?;
        text.parse::<u64>().ok()?.checked_mul(1024)
    }
}

fn read_trimmed(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Reads are the first number of `stat`, writes the fifth (Documentation/block/stat.rst).
fn completed_of(text: &str) -> Option<u64> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    numbers.next()??.checked_add(numbers.nth(3)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_counted_and_nothing_else() {
        let text = "    9 1 2 3    40 5 6 7    0 8 9    0    0    0    0  100 1\n";
        assert_eq!(completed_of(text), Some(49));
        assert_eq!(completed_of("9 1 2"), None);
    }

    #[test]
    fn what_lies_on_no_disk_has_none() {
        let proc = rustix::fs::stat("/proc").unwrap();
        assert!(Disk::of(proc.st_dev).is_none());
    }
}
