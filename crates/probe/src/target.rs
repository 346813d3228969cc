//! Targets of a measurement: a file of the user's, which is only read, a test file, a file in memory, or a loop
//! device over one.
//!
//! Test files are unnamed as soon as they are opened, so that nothing is left behind however the process ends. They
//! contain random bytes, because storage may process compressible data faster.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_io::file::{create_unnamed, file_size_max, free_bytes, is_tmpfs, lies_in_memory};
use sakiyomi_io::{Access, IoFile};
use sakiyomi_os::block_device::BlockDevice;
use sakiyomi_os::loop_device::LoopDevice;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A file or device to read, or to read and write.
#[derive(Debug)]
pub struct Target {
    /// Its name in results: `path`, `tmpfs`, `loop`.
    pub name: &'static str,
    /// A short description.
    pub what: String,
    /// The path at which it can be opened.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it is a test file, which may be overwritten.
    pub is_ours: bool,
    /// The device that it lies on.
    pub device: Device,
    /// Whether `O_DIRECT` works on it; the system's error otherwise.
    pub direct: Result<(), String>,
    /// Whether it is on a file system in memory, so that it is always cached.
    pub in_memory: bool,
    // In this order: the device uses the file.
    _device: Option<LoopDevice>,
    _file: Option<File>,
}

/// The device of a target, for which its measurements hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The type of the file system; empty for block devices.
    pub file_system: String,
    /// `MAJOR:MINOR` of the block device, or the number of a file system without one.
    pub number: String,
    /// The kernel's name of the block device; empty if there is none.
    pub name: String,
    /// The drive's model; empty if it has none, as most virtual disks.
    pub model: String,
}

impl Device {
    /// Returns the device of a file, of a directory, or of a block device.
    ///
    /// # Errors
    /// If `path` does not exist.
    pub fn of(path: &Path) -> io::Result<Device> {
        let metadata = fs::metadata(path)?;
        let is_device = metadata.file_type().is_block_device();
        let found = BlockDevice::of_number(if is_device { metadata.rdev() } else { metadata.dev() });
        let file_system = if is_device { String::new() } else { file_system(path).unwrap_or_default() };
        Ok(Device { file_system, number: found.number, name: found.name, model: found.model })
    }
}

/// The usual world-writable tmpfs.
const SHARED_MEMORY: &str = "/dev/shm";

/// Called periodically with the bytes written; an error ends the writing.
pub type Watch<'a> = &'a mut dyn FnMut(u64) -> Result<(), Error>;

impl Target {
    /// Returns an existing file or block device, or creates a test file of `size` bytes in a directory.
    ///
    /// # Errors
    /// If there is nothing to read, or no test file can be created.
    pub fn at(path: &Path, size: u64, watch: Watch<'_>) -> Result<Target, Error> {
        if path.is_dir() {
            let file = test_file(path, size, watch)?;
            let what = format!("test file in {}{}", path.display(), on_what(path));
            let found = target("path", what, (own_path(&file), Some(file)))?;
            return Ok(Target { device: Device::of(path).unwrap_or_default(), ..found });
        }
        let found = target("path", format!("{}{}", path.display(), on_what(path)), (path.to_owned(), None))?;
        if found.size == 0 {
            return Err(Error::Empty(path.to_owned()));
        }
        Ok(found)
    }

    /// Creates a test file in memory: the CPU is the only limit.
    ///
    /// # Errors
    /// If `/dev/shm` is not a file system in memory, or has too little room.
    pub fn in_memory(size: u64, watch: Watch<'_>) -> Result<Target, Error> {
        let file = file_in_memory(size, watch)?;
        let what = format!("test file in {SHARED_MEMORY}, in memory");
        let found = target("tmpfs", what, (own_path(&file), Some(file)))?;
        Ok(Target { device: Device::of(Path::new(SHARED_MEMORY)).unwrap_or_default(), ..found })
    }

    /// Creates a loop device over a test file in memory, writable if `writes`: a block device limited only by the
    /// CPU, with its work done by kernel threads, as with real ones.
    ///
    /// # Errors
    /// Returns the errors of [`Target::in_memory`], and an error if this user may not set up loop devices.
    pub fn loop_device(size: u64, writes: bool, watch: Watch<'_>) -> Result<Target, Error> {
        let file = file_in_memory(size, watch)?;
        let device = LoopDevice::attach(&own_path(&file), false, !writes)?;
        let what = format!("{} over a test file in memory", device.path().display());
        let found = target("loop", what, (device.path().to_owned(), Some(file)))?;
        // The number of the loop device is arbitrary, so it does not identify the target.
        let identity = Device { name: "loop".to_owned(), ..Device::default() };
        Ok(Target { device: identity, _device: Some(device), ..found })
    }
}

fn target(name: &'static str, what: String, (path, file): (PathBuf, Option<File>)) -> Result<Target, Error> {
    let source = IoFile::open(&path, Access::Buffered)?;
    let (size, in_memory) = (source.size(), lies_in_memory(source.file()));
    let direct = IoFile::open(&path, Access::Direct).map(drop).map_err(|error| error_chain(&error));
    let device = Device::of(&path).unwrap_or_default();
    let is_ours = file.is_some();
    Ok(Target { name, what, path, size, is_ours, device, direct, in_memory, _device: None, _file: file })
}

/// Describes an error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    error.source().map_or(error.to_string(), |source| format!("{error}: {source}"))
}

/// Returns a path at which an open file, even an unnamed one, can be opened again.
fn own_path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn file_in_memory(size: u64, watch: Watch<'_>) -> Result<File, Error> {
    let directory = Path::new(SHARED_MEMORY);
    if !is_tmpfs(directory) {
        return Err(Error::NoTmpfs(directory.to_owned()));
    }
    test_file(directory, size, watch)
}

/// Creates an unnamed file of random bytes, and syncs it.
fn test_file(directory: &Path, size: u64, watch: Watch<'_>) -> Result<File, Error> {
    let failed = |source| Error::TestFile { path: directory.to_owned(), source };
    let free = free_bytes(directory).map_err(failed)?;
    let no_room = || Error::NoRoom { path: directory.to_owned(), wanted: size, free };
    if size > free {
        return Err(no_room());
    }
    if size > file_size_max() {
        return Err(Error::FileLimit { wanted: size, limit: file_size_max() });
    }
    let mut file = create_unnamed(directory, Access::Buffered).map_err(failed)?;
    let mut random = Pcg64::seed_from_u64(size);
    let mut chunk = vec![0; 1 << 20];
    let mut written = 0;
    while written < size {
        random.fill_bytes(&mut chunk);
        let count = usize::try_from(size - written).unwrap_or(usize::MAX).min(chunk.len());
        file.write_all(&chunk[..count]).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => no_room(),
            _ => failed(error),
        })?;
        written += count as u64;
        watch(written)?;
    }
    file.sync_all().map_err(failed)?;
    Ok(file)
}

/// Returns `, ext4 on /dev/vda`, from the mounts of this process; empty if the mount cannot be found.
fn on_what(path: &Path) -> String {
    with_mount(path, |kind, device| format!(", {kind} on {device}")).unwrap_or_default()
}

/// Returns the type of the file system that a path is on.
fn file_system(path: &Path) -> Option<String> {
    with_mount(path, |kind, _| kind.to_owned())
}

fn with_mount<T>(path: &Path, of: impl FnOnce(&str, &str) -> T) -> Option<T> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    mount_of(&mounts, &whole).map(|(kind, device)| of(kind, device))
}

/// Returns type and device of the mount that contains a path: the last of those with the longest path, as later
/// mounts hide earlier ones.
fn mount_of<'a>(mounts: &'a str, path: &Path) -> Option<(&'a str, &'a str)> {
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let over = fields.filter(|&(_, place, _)| path.starts_with(place.replace("\\040", " ")));
    over.max_by_key(|&(_, place, _)| place.len()).map(|(device, _, kind)| (kind, device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::Scratch;

    fn unwatched() -> impl FnMut(u64) -> Result<(), Error> {
        |_| Ok(())
    }

    #[test]
    fn a_test_file_has_its_size_and_no_name_and_does_not_repeat() {
        let scratch = Scratch::new("target");
        let found = Target::at(scratch.root(), (2 << 20) + 5, &mut unwatched()).unwrap();
        assert_eq!((found.name, found.size), ("path", (2 << 20) + 5));
        let bytes = fs::read(&found.path).unwrap();
        assert_eq!(bytes.len(), (2 << 20) + 5);
        assert!(bytes[..1 << 20] != bytes[1 << 20..2 << 20]);
        // It can be removed, so it is empty.
        fs::remove_dir(scratch.root()).unwrap();
    }

    #[test]
    fn the_mount_is_the_nearest_one() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n/dev/b /my\\040data xfs rw 0 0\n";
        let of = |path: &str| mount_of(mounts, Path::new(path));
        assert_eq!(of("/dev/shm/x"), Some(("tmpfs", "tmpfs")));
        assert_eq!(of("/dev/shmx"), Some(("ext4", "/dev/a")));
        assert_eq!(of("/my data/y"), Some(("xfs", "/dev/b")));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn who_watches_can_end_it() {
        let mut calls = 0;
        let mut watch = |_| {
            calls += 1;
            if calls < 3 { Ok(()) } else { Err(Error::Interrupted) }
        };
        let ended = Target::at(sakiyomi_testing::directory(), 64 << 20, &mut watch);
        assert!(matches!(ended, Err(Error::Interrupted)) && calls == 3);
    }

    #[test]
    fn more_than_fits_is_refused_before_anything_is_written() {
        let refused = Target::at(sakiyomi_testing::directory(), 1 << 60, &mut unwatched()).unwrap_err();
        assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
    }
}
