//! Loop devices: block devices over files, for measurements and tests on a device that is faster than any disk, or of
//! a chosen size. Over a file on a tmpfs it is an asynchronous block device that copies in kernel threads.
//!
//! Needs root, and Linux 5.8 or later. The device is bound to this process: it is removed when its last user closes
//! it, in particular when the process ends in whatever way.
//!
//! - Writes to the device and writes to the file go through two page caches; do not use both at the same time. The
//!   device's cache is written to the file when its last user closes it.
//! - A process that has the device open, or a mount of it, keeps it alive after the [`LoopDevice`] is dropped.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::Error;

/// `struct loop_info64` (linux/loop.h).
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    file: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<Config>() == 304);

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
/// `LO_FLAGS_READ_ONLY` (linux/loop.h).
const READ_ONLY_FLAG: u32 = 1;
/// `LO_FLAGS_AUTOCLEAR`: the device is detached at its last close.
const AUTOCLEAR_FLAG: u32 = 4;
/// `LO_FLAGS_DIRECT_IO`.
const DIRECT_IO_FLAG: u32 = 16;

/// Maximum free devices that are tried: another process may attach each of them first.
const ATTACH_TRIES_MAX: usize = 64;

/// A file as a block device. Detached on drop.
#[derive(Debug)]
pub struct LoopDevice {
    /// Keeps the device attached.
    _open: File,
    path: PathBuf,
    direct_io: bool,
}

impl LoopDevice {
    /// Attaches a file to a loop device.
    ///
    /// With `direct_io` the kernel bypasses the file's page cache if its file system supports that.
    ///
    /// # Errors
    /// If the file cannot be opened, or if the process lacks the rights or the system loop devices.
    pub fn attach(backing: &Path, direct_io: bool, read_only: bool) -> Result<LoopDevice, Error> {
        let file =
            open(backing, read_only).map_err(|source| Error::Open { path: backing.to_owned(), source })?;
        let failed = |source: io::Error| Error::System { what: describe(backing, &source), source };
        let flags = AUTOCLEAR_FLAG
            | if read_only { READ_ONLY_FLAG } else { 0 }
            | if direct_io { DIRECT_IO_FLAG } else { 0 };
        let (device, path) = attach_to_free(&file, flags, read_only).map_err(failed)?;
        let direct_io = attribute(&path, "dio").is_some_and(|text| text == "1");
        Ok(LoopDevice { _open: device, path, direct_io })
    }

    /// Returns the path of the device: `/dev/loop0`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the kernel bypasses the file's page cache.
    #[must_use]
    pub fn direct_io(&self) -> bool {
        self.direct_io
    }
}

fn open(path: &Path, read_only: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(!read_only).open(path)
}

/// Attaches a file to a free device.
fn attach_to_free(file: &File, flags: u32, read_only: bool) -> io::Result<(File, PathBuf)> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    let mut taken = libc::EBUSY;
    for _ in 0..ATTACH_TRIES_MAX {
        // SAFETY: the request takes no argument and returns a number.
        let number = check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let attached = open(&path, read_only).and_then(|device| {
            configure(&device, file, flags)?;
            Ok(device)
        });
        match attached.as_ref().map_err(io::Error::raw_os_error) {
            // Another process attached the same device first, or has just detached it again.
            Err(Some(code @ (libc::EBUSY | libc::ENXIO))) => taken = code,
            _ => return attached.map(|device| (device, path)),
        }
    }
    Err(io::Error::from_raw_os_error(taken))
}

fn configure(device: &File, file: &File, flags: u32) -> io::Result<()> {
    // SAFETY: all zeros are valid for a structure of numbers, and select the defaults.
    let mut config: Config = unsafe { std::mem::zeroed() };
    config.file = file.as_raw_fd().cast_unsigned();
    config.info.flags = flags;
    // SAFETY: the kernel reads a `struct loop_config`, and takes its own reference to the file.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) })?;
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Describes the failed operation, with a hint at the reason.
fn describe(backing: &Path, error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "this needs root",
        Some(libc::ENOENT | libc::ENODEV) => {
            "the kernel has no loop driver, as in many containers, or /dev lacks the device node"
        }
        Some(libc::ENOTTY) => "this needs Linux 5.8",
        Some(libc::EBUSY | libc::ENXIO) => "all loop devices are in use, or the file is a device in use",
        Some(libc::EINVAL) => "only regular files and block devices can be attached",
        _ => "the loop driver rejects the request",
    };
    format!("attach {} to a loop device ({hint})", backing.display())
}

/// Returns an attribute that the driver shows for an attached device.
fn attribute(device: &Path, name: &str) -> Option<String> {
    let directory = Path::new("/sys/block").join(device.file_name()?).join("loop");
    Some(fs::read_to_string(directory.join(name)).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_io::page_cache::{ResidencyCall, drop_pages, fetch, residency_by};
    use sakiyomi_io::{Access, IoFile};
    use sakiyomi_testing::{Scratch, skipped, wait_until};
    use std::os::unix::fs::FileExt;

    const MB: usize = 1 << 20;

    fn attach_or_skip(test: &str, backing: &Path, direct_io: bool, read_only: bool) -> Option<LoopDevice> {
        match LoopDevice::attach(backing, direct_io, read_only) {
            Ok(device) => Some(device),
            Err(error @ Error::System { .. }) => {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                skipped(test, format_args!("{error}: {}", why.unwrap_or_default()));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn content() -> Vec<u8> {
        (0..16 * MB).map(|at| (at >> 12) as u8 ^ (at % 251) as u8).collect()
    }

    fn shared_memory(test: &str) -> Scratch {
        Scratch::inside(Path::new("/dev/shm"), test)
    }

    #[test]
    fn a_device_is_its_file_and_goes_when_it_is_dropped() {
        let scratch = shared_memory("loop_read");
        let backing = scratch.path("backing");
        fs::write(&backing, content()).unwrap();
        for (direct_io, access) in [(false, Access::Buffered), (true, Access::Direct)] {
            let Some(device) = attach_or_skip("loop_read", &backing, direct_io, true) else { return };
            let path = device.path().to_owned();
            assert_eq!(attribute(&path, "backing_file"), Some(backing.display().to_string()));
            assert_eq!(attribute(&path, "autoclear").as_deref(), Some("1"));
            let source = IoFile::open(&path, access).unwrap();
            assert_eq!(source.size(), 16 << 20);
            let pool = sakiyomi_io::BufferPool::fixed(1, MB, sakiyomi_io::Memory::Ordinary).unwrap();
            let mut buffer = pool.take().unwrap();
            source.file().read_exact_at(buffer.space(), 5 << 20).unwrap();
            assert!(*buffer.space() == content()[5 * MB..6 * MB]);
            let writable = open(&path, false).and_then(|device| device.write_at(&[1; 4096], 0));
            assert!(writable.is_err(), "it is read-only");
            drop((source, device));
            wait_until_gone(&path, &backing);
        }
    }

    /// Waits until the device is detached: a program that probes new devices, such as udev, may have it open for a
    /// moment.
    fn wait_until_gone(device: &Path, backing: &Path) {
        // Another test may have got the same device meanwhile.
        wait_until("the device is still attached", || {
            attribute(device, "backing_file") != Some(backing.display().to_string())
        });
    }

    #[test]
    fn what_is_written_to_a_device_is_in_its_file_when_it_is_gone() {
        let scratch = shared_memory("loop_write");
        let backing = scratch.path("backing");
        fs::write(&backing, vec![0; MB]).unwrap();
        let Some(device) = attach_or_skip("loop_write", &backing, false, false) else { return };
        let path = device.path().to_owned();
        open(&path, false).unwrap().write_all_at(b"here", 70_000).unwrap();
        drop(device);
        wait_until_gone(&path, &backing);
        assert_eq!(&fs::read(&backing).unwrap()[69_999..70_005], b"\0here\0");
    }

    #[test]
    fn devices_at_the_same_time_are_different_ones() {
        let scratch = shared_memory("loop_race");
        let backing = scratch.path("backing");
        fs::write(&backing, vec![0; MB]).unwrap();
        if attach_or_skip("loop_race", &backing, false, true).is_none() {
            return;
        }
        let attach = || LoopDevice::attach(&backing, false, true).unwrap();
        let mut devices: Vec<LoopDevice> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(attach)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        devices.sort_by(|a, b| a.path().cmp(b.path()));
        devices.dedup_by(|a, b| a.path() == b.path());
        assert_eq!(devices.len(), 4);
        let paths: Vec<PathBuf> = devices.iter().map(|device| device.path().to_owned()).collect();
        drop(devices);
        paths.iter().for_each(|path| wait_until_gone(path, &backing));
    }

    #[test]
    fn what_cannot_be_attached_is_refused_with_a_reason() {
        let scratch = shared_memory("loop_refused");
        let missing = LoopDevice::attach(&scratch.path("none"), false, true).unwrap_err();
        assert!(matches!(missing, Error::Open { .. }), "{missing}");
        let directory = LoopDevice::attach(scratch.root(), false, true).unwrap_err();
        assert!(directory.to_string().contains("attach /dev/shm/"), "{directory}");
        let refused = describe(Path::new("/x"), &io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(refused, "attach /x to a loop device (this needs root)");
    }

    #[test]
    fn the_pages_of_a_device_are_fetched_whole_although_it_reads_little_ahead() {
        let scratch = shared_memory("loop_fetch");
        let backing = scratch.path("backing");
        fs::write(&backing, content()).unwrap();
        let Some(device) = attach_or_skip("loop_fetch", &backing, false, true) else { return };
        let file = File::open(device.path()).unwrap();
        assert_eq!(drop_pages(&file, 0..16 << 20).unwrap().cached, 0);
        let found = fetch(&file, 0..16 << 20).unwrap();
        assert_eq!((found.pages, found.is_whole()), (4096, true), "{found:?}");
        let mut last = [0];
        file.read_exact_at(&mut last, (16 << 20) - 1).unwrap();
        assert_eq!(last[0], *content().last().unwrap());
        let arrived = residency_by(&file, (16 << 20) - 1..16 << 20, ResidencyCall::Mincore).unwrap();
        assert!(arrived.is_whole(), "{arrived:?}");
    }
}
