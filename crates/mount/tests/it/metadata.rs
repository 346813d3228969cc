//! Cost of names and attributes on a mounted drive, if emulated.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::mounted::{Scratch, can_mount, unmounted};
use sakiyomi_model::Op;
use sakiyomi_mount::{EmulatedStorage, Mounted, Options};
use sakiyomi_trace::{ReadOptions, Record, Trace};

const LIMIT: Duration = Duration::from_secs(60);

/// 16384 blocks; the first 256 are metadata, of which 64 are the journal.
fn options(scratch: &Scratch) -> Options {
    let behind = Some(EmulatedStorage::Fixed("latency=5ms,size=64MiB".parse().unwrap()));
    Options { behind, metadata: true, record: Some(scratch.path("trace.csv")), ..Options::default() }
}

/// Returns the records of the trace: operation, first block, number of blocks.
fn recorded(mounted: Mounted, trace: &Path) -> Vec<(Op, u64, u64)> {
    unmounted(mounted);
    let record = |record: Record| (record.op, record.offset.0 / 4096, record.length.0 / 4096);
    Trace::open(trace, &ReadOptions::default()).unwrap().map(|found| record(found.unwrap())).collect()
}

#[test]
fn what_is_looked_at_is_read_once_from_the_table() {
    if !can_mount("what_is_looked_at") {
        return;
    }
    let scratch = Scratch::new("looked", LIMIT);
    fs::create_dir(scratch.path("backing/dir")).unwrap();
    for number in 0..40 {
        fs::write(scratch.path("backing/dir").join(format!("{number:02}")), "x").unwrap();
    }
    let mounted = scratch.mount(&options(&scratch));
    let file = scratch.path("mounted/dir/39");
    let begun = Instant::now();
    fs::metadata(&file).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(10), "two names, each with a read at least");
    // The kernel asks again, but the blocks are cached.
    thread::sleep(Duration::from_millis(1100));
    fs::metadata(&file).unwrap();
    fs::metadata(scratch.path("mounted/dir/missing")).unwrap_err();
    let seen = recorded(mounted, &scratch.path("trace.csv"));
    // The root, the directory and the first 14 files share a block; the last file lies two blocks further.
    let reads = [(64, 1), (255, 1), (66, 1), (254, 1)];
    assert_eq!(seen, reads.map(|(start, blocks)| (Op::Read, start, blocks)));
}

#[test]
fn what_changes_goes_to_the_journal_when_it_is_to_be_safe() {
    if !can_mount("what_changes_goes_to_the_journal") {
        return;
    }
    let scratch = Scratch::new("journal", LIMIT);
    let mounted = scratch.mount(&options(&scratch));
    let file = File::create(scratch.path("mounted/file")).unwrap();
    file.sync_all().unwrap();
    fs::rename(scratch.path("mounted/file"), scratch.path("mounted/other")).unwrap();
    fs::remove_file(scratch.path("mounted/other")).unwrap();
    File::open(scratch.path("mounted")).unwrap().sync_all().unwrap();
    drop(file);
    let seen = recorded(mounted, &scratch.path("trace.csv"));
    let read = seen.iter().position(|&(op, ..)| op != Op::Read).unwrap();
    assert_eq!(seen[..read].len(), 2, "the root's names and its table: {seen:?}");
    // Each time two blocks and their descriptor, after the previous ones; and a flush.
    let changes = [(Op::Write, 0, 3), (Op::Flush, 0, 0), (Op::Write, 3, 3), (Op::Flush, 0, 0)];
    assert_eq!(seen[read..], changes);
}

#[test]
fn files_lie_behind_the_metadata() {
    if !can_mount("files_lie_behind_the_metadata") {
        return;
    }
    let scratch = Scratch::new("behind", LIMIT);
    fs::write(scratch.path("backing/file"), vec![7; 8192]).unwrap();
    let mounted = scratch.mount(&options(&scratch));
    let free = rustix::fs::statvfs(scratch.path("mounted")).unwrap().f_bfree;
    assert_eq!(free, 16384 - 256 - 2);
    assert_eq!(fs::read(scratch.path("mounted/file")).unwrap(), vec![7; 8192]);
    let seen = recorded(mounted, &scratch.path("trace.csv"));
    assert_eq!(seen.last(), Some(&(Op::Read, 256, 2)));
}
