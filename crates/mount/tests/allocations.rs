//! Counts the allocations of a read of 4 KiB, from the kernel's request to the reply: everything in the process,
//! including `fuser` and the threads of the device and of the backing files. The reading side runs in the process as
//! well, and allocates nothing.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use mounted::{Scratch, can_mount, unmounted};
use rustix::fs::{Advice, OFlags, fadvise};
use sakiyomi_drive::spec::builtin;
use sakiyomi_iorate::set_iorate;
use sakiyomi_mount::{EmulatedStorage, Options, Regulate};
use sakiyomi_testing::{CountingAllocator, allocations};

#[path = "it/mounted/mod.rs"]
mod mounted;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LIMIT: Duration = Duration::from_secs(100);
const READS: u64 = 400;
const BLOCK: u64 = 4096;

/// The bound: one allocation for the request and one for its data. Growth of queues and maps is spread over many reads.
const MAX_PER_READ: f64 = 2.05;

fn direct(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap()
}

/// Returns the least allocations per read of a mount with these options, of a file that is cached or not.
fn per_read(options: &Options, rate: Option<u32>, cached: bool) -> f64 {
    let scratch = Scratch::new("allocations", LIMIT);
    let backing = scratch.path("backing/file");
    fs::write(&backing, vec![7; (READS * BLOCK) as usize]).unwrap();
    let record = options.record.is_some().then(|| scratch.path("plain/trace.csv"));
    let mounted = scratch.mount(&Options { record, ..options.clone() });
    let path = scratch.path("mounted/file");
    if let Some(percent) = rate {
        set_iorate(std::process::id(), &path, percent).unwrap();
    }
    let file = direct(&path);
    let mut bytes = [0; BLOCK as usize];
    let mut read_all = || {
        if !cached {
            let backing = File::open(&backing).unwrap();
            backing.sync_all().unwrap();
            fadvise(&backing, 0, None, Advice::Random).unwrap();
            fadvise(&backing, 0, None, Advice::DontNeed).unwrap();
        }
        let before = allocations();
        for block in 0..READS {
            // Out of order, so that the kernel does not read ahead in the backing file.
            file.read_exact_at(&mut bytes, block * 7 % READS * BLOCK).unwrap();
            assert_eq!(bytes, [7; BLOCK as usize]);
        }
        allocations() - before
    };
    // The first round fills queues, maps and pools.
    read_all();
    // Stalls of the machine make queues grow once more.
    let counted = (0..3).map(|_| read_all()).min().unwrap();
    drop(file);
    unmounted(mounted);
    counted as f64 / READS as f64
}

#[test]
fn a_read_allocates_at_most_twice() {
    if !can_mount("a_read_allocates_at_most_twice") {
        return;
    }
    let plain = Options { direct_io: true, ..Options::default() };
    let recording = Options { record: Some("trace.csv".into()), ..plain.clone() };
    let drive = builtin("barracuda-st2000dm006").unwrap().spec();
    let drive =
        Options { behind: Some(EmulatedStorage::Drive(Box::new(drive))), speed: 1000.0, ..plain.clone() };
    let recorded_drive = Options { record: Some("trace.csv".into()), ..drive.clone() };
    let fixed = EmulatedStorage::Fixed("latency=20us,parallel=4".parse().unwrap());
    let rates = Options { regulate: Some(Regulate::default()), ..plain.clone() };
    let rates_on_fixed = Options { behind: Some(fixed), ..rates.clone() };
    let mut too_many = Vec::new();
    for (name, options, rate, cached) in [
        ("plain", &plain, None, true),
        ("plain, not cached", &plain, None, false),
        ("recording", &recording, None, true),
        ("recording, not cached", &recording, None, false),
        ("drive", &drive, None, true),
        ("drive, not cached", &drive, None, false),
        ("drive, recording", &recorded_drive, None, true),
        ("rates on files, none set", &rates, None, true),
        ("rates on files", &rates, Some(50), true),
        ("rates on a fixed device", &rates_on_fixed, Some(50), true),
    ] {
        let count = per_read(options, rate, cached);
        if count > MAX_PER_READ {
            too_many.push(format!("{name}: {count:.2}"));
        }
    }
    assert!(too_many.is_empty(), "more than {MAX_PER_READ} allocations per read: {too_many:?}");
}
