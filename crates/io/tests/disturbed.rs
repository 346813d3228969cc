//! Disturbances of a stream must not show in its bytes: signals, threads that start and end, limits, requests of the
//! largest size.
#![allow(unsafe_code)] // signals are sent and caught

#[path = "it/on_disk/mod.rs"]
mod on_disk;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use on_disk::{content, file_with, open};
use sakiyomi_io::page_cache::drop_pages;
use sakiyomi_io::{Access, EngineKind, EngineSpec, Memory, Order, ReadOptions, ReadStream};

fn moving() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.into_iter().filter(|&kind| kind != EngineKind::Null)
}

/// Returns the options for each engine through the page cache, and for direct I/O where supported.
fn ways() -> impl Iterator<Item = ReadOptions> {
    let both = |kind: EngineKind| [Access::Buffered, Access::Direct].map(|access| (kind, access));
    let possible = |&(kind, access): &(EngineKind, Access)| kind.uses_buffers() || access == Access::Buffered;
    moving().flat_map(both).filter(possible).map(|(kind, access)| ReadOptions {
        engine: EngineSpec::usual(kind),
        access,
        block: 64 << 10,
        ..ReadOptions::default()
    })
}

fn rest_is(blocks: ReadStream, bytes: &[u8], from: usize, options: &ReadOptions) {
    let mut at = from;
    for block in blocks {
        let block = block.unwrap_or_else(|error| panic!("{options:?}: {error:?}"));
        assert!(block[..] == bytes[at..at + block.len()], "{options:?} at {at}");
        at += block.len();
    }
    assert_eq!(at, bytes.len(), "{options:?}");
}

static CAUGHT: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    CAUGHT.fetch_add(1, Ordering::Relaxed);
}

/// Makes the signal interrupt system calls, without `SA_RESTART`.
fn interrupt_by(signal: libc::c_int) {
    // SAFETY: all zeros are a valid action; the handler only counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(_) as usize;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn signals_do_not_show() {
    interrupt_by(libc::SIGUSR1);
    let bytes = content((8 << 20) + 77);
    let file = file_with("signals", &bytes);
    let reader = rustix::thread::gettid().as_raw_nonzero().get();
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: sends a signal that is caught to a thread of this process.
                unsafe { libc::syscall(libc::SYS_tgkill, process, reader, libc::SIGUSR1) };
                thread::sleep(Duration::from_micros(20));
            }
        });
        let all = std::panic::catch_unwind(|| {
            for options in ways() {
                drop_pages(&File::open(file.path()).unwrap(), 0..u64::MAX).unwrap();
                let Some(blocks) = open(file.path(), &options) else { continue };
                rest_is(blocks, &bytes, 0, &options);
            }
        });
        stop.store(true, Ordering::Relaxed);
        all.unwrap();
    });
    assert!(CAUGHT.load(Ordering::Relaxed) > 100);
}

#[test]
fn the_thread_that_began_to_read_may_end() {
    let bytes = content(32 << 20);
    let file = file_with("moved", &bytes);
    for mut options in ways() {
        // Many operations must be in flight at that moment.
        options.engine.depth = if options.engine.kind == EngineKind::Read { 1 } else { 128 };
        options.order = Order::Arrival;
        for seed in 0..5 {
            options.range = Some(seed << 20..u64::MAX);
            drop_pages(&File::open(file.path()).unwrap(), 0..u64::MAX).unwrap();
            let begin = || open(file.path(), &options).map(|mut blocks| (blocks.next(), blocks));
            let begun = thread::scope(|scope| scope.spawn(begin).join().unwrap());
            let Some((first, rest)) = begun else { break };
            for block in first.into_iter().chain(rest.take(200)) {
                let block = block.unwrap_or_else(|error| panic!("{options:?}: {error:?}"));
                assert!(block[..] == bytes[block.offset() as usize..][..block.len()], "{options:?}");
            }
        }
    }
}

#[test]
fn streams_that_are_dropped_leave_no_descriptor_open() {
    let bytes = content(1 << 20);
    let file = file_with("descriptors", &bytes);
    let of_file = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == file.path())).count()
    };
    for options in ways() {
        for taken in [0, 3] {
            let Some(blocks) = open(file.path(), &options) else { continue };
            blocks.take(taken).for_each(|block| drop(block.unwrap()));
            assert_eq!(of_file(), 0, "{options:?}");
        }
    }
}

#[test]
fn what_goes_on_behind_the_largest_call_is_aligned_on_every_device() {
    assert!(sakiyomi_io::engine::CALL_MAX.is_multiple_of(64 << 10), "sectors have 64 KiB at most");
}

/// A sparse file, so that only the buffers need memory: 6 GiB.
#[test]
#[ignore = "needs 7 GiB of memory"]
fn a_block_may_be_larger_than_a_call_can_be() {
    let block = 2usize << 30;
    let size = block as u64 + 12_345;
    let scratch = sakiyomi_testing::ScratchFile::inside(std::path::Path::new("/dev/shm"), "large", []);
    let file = File::options().read(true).write(true).open(scratch.path()).unwrap();
    file.set_len(size).unwrap();
    let call = sakiyomi_io::engine::CALL_MAX as u64;
    let marks = [
        0,
        (1 << 30) + 7,
        call - 1,
        call,
        0x7fff_efff,
        0x7fff_f000,
        block as u64 - 1,
        block as u64,
        size - 1,
    ];
    marks.iter().for_each(|&at| file.write_all_at(b"x", at).unwrap());
    for options in ways() {
        let engine = EngineSpec { depth: 1, ..options.engine };
        let options = ReadOptions { block, engine, memory: Memory::Huge, ..options };
        let Some(blocks) = open(scratch.path(), &options) else { continue };
        let mut lengths = Vec::new();
        for read in blocks {
            let read = read.unwrap_or_else(|error| panic!("{options:?}: {error:?}"));
            let range = read.offset()..read.offset() + read.len() as u64;
            let found = marks.iter().filter(|mark| range.contains(mark));
            found
                .for_each(|mark| assert_eq!(read[(mark - range.start) as usize], b'x', "{options:?} {mark}"));
            lengths.push(read.len());
        }
        assert_eq!(lengths, [block, 12_345], "{options:?}");
    }
}
