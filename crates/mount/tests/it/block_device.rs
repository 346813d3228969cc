//! A loop device on a file of a mount is a real block device on the drive.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::mounted::{Scratch, can_mount, unmounted};
use rustix::fs::FallocateFlags;
use sakiyomi_io::{Access, BufferPool, IoFile, Memory};
use sakiyomi_mount::{EmulatedStorage, Options};
use sakiyomi_os::loop_device::LoopDevice;

#[test]
fn a_block_device_on_a_file_of_a_mount_takes_the_drives_time() {
    if !can_mount("a_block_device_on_a_file_of_a_mount") {
        return;
    }
    let latency = Duration::from_millis(3);
    let scratch = Scratch::new("block-device", Duration::from_secs(60));
    let content: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    fs::write(scratch.path("backing/disk"), &content).unwrap();
    let behind = Some(EmulatedStorage::Fixed("latency=3ms".parse().unwrap()));
    let mounted = scratch.mount(&Options { behind, ..Options::default() });
    match LoopDevice::attach(&scratch.path("mounted/disk"), true, true) {
        Err(error) => sakiyomi_testing::skipped("a_block_device_on_a_file_of_a_mount", error),
        Ok(device) => {
            let source = IoFile::open(device.path(), Access::Direct).unwrap();
            let mut buffer = BufferPool::fixed(1, 4096, Memory::Ordinary).unwrap().take().unwrap();
            for place in [0, 128 << 10, 64 << 10] {
                let begun = Instant::now();
                source.file().read_exact_at(buffer.space(), place).unwrap();
                assert!(begun.elapsed() >= latency, "faster than the drive");
                assert!(buffer.space() == &content[place as usize..][..4096]);
            }
        }
    }
    let seen = unmounted(mounted).seen;
    assert!(seen.totals.accesses == 0 || seen.totals.read_bytes >= 3 * 4096);
}

/// Checks the statements of `docs/explanation/mount.md` about files for block devices.
#[test]
fn a_file_has_places_on_the_drive_once_it_is_allocated_on_the_mount_but_not_by_truncate_or_behind_its_back() {
    if !can_mount("a_file_has_places_once_it_is_allocated") {
        return;
    }
    let scratch = Scratch::new("allocated", Duration::from_secs(60));
    let sparse = File::create(scratch.path("backing/sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    let behind = Some(EmulatedStorage::Fixed("latency=3ms".parse().unwrap()));
    let mounted = scratch.mount(&Options { behind, direct_io: true, ..Options::default() });
    let read = |name: &str| {
        let file = File::open(scratch.path("mounted").join(name)).unwrap();
        let begun = Instant::now();
        file.read_exact_at(&mut [0; 4096], 512 << 10).unwrap();
        begun.elapsed() >= Duration::from_millis(3)
    };
    read("sparse");
    let allocated = File::create(scratch.path("mounted/allocated")).unwrap();
    let has_places = match rustix::fs::fallocate(&allocated, FallocateFlags::empty(), 0, 1 << 20) {
        Ok(()) => {
            assert!(read("allocated"), "faster than the drive");
            true
        }
        Err(error) => {
            sakiyomi_testing::skipped("a_file_has_places_once_it_is_allocated", error);
            false
        }
    };
    drop(allocated);
    // The read is counted when it is answered, and the hole not at all.
    let expected = if has_places { 4096 } else { 0 };
    assert_eq!(unmounted(mounted).seen.totals.read_bytes, expected);
}
