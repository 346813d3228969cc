//! Many streams on one engine and one budget: every byte is right, memory and threads stay within their limits, and
//! no thread deadlocks on its own memory.

use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use arrow_buffer::{Buffer, ScalarBuffer};
use bytes::Bytes;
use proptest::prelude::*;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::read::Block;
use sakiyomi_io::{
    Access, BufferPool, Error, Io, IoFile, IoOptions, Memory, Order, ReadStream, SharedOptions,
};

use crate::on_disk::{content, file_with};
use crate::surroundings::{INSIDE, inside};

/// Returns the names of the threads of this process.
fn thread_names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

#[test]
fn two_hundred_streams_share_the_threads_and_the_memory_of_one() {
    let test = "shared::two_hundred_streams_share_the_threads_and_the_memory_of_one";
    if std::env::var_os(INSIDE).is_none() {
        // Runs alone in a process, so that all of its threads can be counted.
        return inside(test, &["sh"], "true", sakiyomi_testing::directory());
    }
    let bytes = content(3 << 20);
    let scratch = file_with("shared", &bytes);
    let io = Io::open(&IoOptions::default()).unwrap();
    let file = Arc::new(IoFile::open(scratch.path(), Access::Buffered).unwrap());
    let mut streams: Vec<(ReadStream, usize)> = (0..200)
        .map(|_| (ReadStream::shared(&io, &file, 0..u64::MAX, &SharedOptions::default()).unwrap(), 0))
        .collect();
    let mut finished = 0;
    while finished < streams.len() {
        finished = 0;
        for (stream, at) in &mut streams {
            match stream.next() {
                None => {
                    assert_eq!(*at, bytes.len());
                    finished += 1;
                }
                Some(block) => {
                    let block = block.unwrap();
                    assert!(block[..] == bytes[*at..*at + block.len()]);
                    *at += block.len();
                }
            }
            assert!(io.pool().resident() <= 64 << 20);
        }
    }
    let threads = thread_names();
    let of_engine = threads.iter().filter(|name| name.starts_with("sakiyomi-pread")).count();
    assert_eq!(of_engine, 4, "{threads:?}");
    assert!(threads.len() <= 8, "{threads:?}");
}

#[test]
fn a_consumer_that_keeps_every_block_gets_an_error_and_goes_on_after_a_release() {
    let disk = FakeDisk::default();
    let bytes = content(5 << 20);
    let file = disk.file(bytes.clone(), 512).unwrap();
    let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
    let io = Io::over(disk.engine(4, Faults { seed: 1, late_of_256: 128, ..Faults::default() }), pool);
    let mut stream = ReadStream::shared(&io, &file, 0..u64::MAX, &SharedOptions::default()).unwrap();
    let (mut kept, mut at, mut refusals) = (Vec::new(), 0, 0);
    while let Some(block) = stream.next() {
        match block {
            Ok(block) => {
                assert!(block[..] == bytes[at..at + block.len()]);
                at += block.len();
                kept.push(block);
            }
            Err(error) => {
                assert!(matches!(error, Error::AllHeld { budget: 0x10_0000 }), "{error}");
                assert!(matches!(stream.next(), Some(Err(Error::AllHeld { .. }))), "as often as it is asked");
                kept.clear();
                refusals += 1;
            }
        }
    }
    assert!(at == bytes.len() && refusals >= 4, "{at} bytes, {refusals} refusals");
}

/// Merges sorted runs: holds a block of each, and requests another of the run whose block is used up.
fn merged(io: &Io, runs: &[Arc<IoFile>]) -> Result<Vec<u8>, Error> {
    struct Run {
        stream: ReadStream,
        block: Option<Block>,
        at: usize,
    }
    let open = |file| ReadStream::shared(io, file, 0..u64::MAX, &SharedOptions::default());
    let mut runs: Vec<Run> = runs
        .iter()
        .map(|file| Ok(Run { stream: open(file)?, block: None, at: 0 }))
        .collect::<Result<_, Error>>()?;
    let mut out = Vec::new();
    for run in &mut runs {
        run.block = run.stream.next().transpose()?;
    }
    // Without a heap, as the keys are few: all runs are scanned for each.
    for key in 0..=u8::MAX {
        for run in &mut runs {
            while let Some(block) = &run.block {
                let same = block[run.at..].iter().take_while(|&&byte| byte == key).count();
                out.resize(out.len() + same, key);
                run.at += same;
                if run.at < block.len() {
                    break;
                }
                (run.block, run.at) = (None, 0);
                run.block = run.stream.next().transpose()?;
            }
        }
    }
    Ok(out)
}

/// Returns a run of ascending bytes from `number % 200` on.
fn sorted_run(number: usize, size: usize) -> Vec<u8> {
    let least = number % 200;
    (0..size).map(|at| (least + at * (256 - least) / size) as u8).collect()
}

#[test]
fn five_hundred_runs_are_merged_within_the_budget() {
    let runs: Vec<Vec<u8>> = (0..500).map(|number| sorted_run(number, 150_000)).collect();
    let mut counts = [0usize; 256];
    runs.iter().flatten().for_each(|&byte| counts[usize::from(byte)] += 1);
    let expected: Vec<u8> =
        (0..=u8::MAX).flat_map(|byte| std::iter::repeat_n(byte, counts[usize::from(byte)])).collect();
    let scratch: Vec<_> = runs.iter().map(|run| file_with("run", run)).collect();
    let open = |scratch: &sakiyomi_testing::ScratchFile| {
        Arc::new(IoFile::open(scratch.path(), Access::Buffered).unwrap())
    };
    let files: Vec<Arc<IoFile>> = scratch.iter().map(open).collect();
    let io = Io::open(&IoOptions::default()).unwrap();
    assert!(merged(&io, &files).unwrap() == expected);
    assert!(io.pool().resident() <= 64 << 20);
}

#[test]
fn streams_for_which_there_is_no_memory_are_refused() {
    let disk = FakeDisk::default();
    let file = disk.file(content(1 << 20), 1).unwrap();
    let pool = BufferPool::with_budget(256 << 10, Memory::Ordinary);
    let io = Io::over(disk.engine(4, Faults::default()), pool);
    let open = || ReadStream::shared(&io, &file, 0..u64::MAX, &SharedOptions::default());
    let streams: Vec<ReadStream> = (0..4).map(|_| open().unwrap()).collect();
    assert!(matches!(open(), Err(Error::Budget { left: 0, .. })));
    drop(streams);
    assert_eq!(open().unwrap().map(|block| block.unwrap().len()).sum::<usize>(), 1 << 20);
}

#[test]
fn a_range_larger_than_the_budget_is_an_error_in_its_place() {
    let disk = FakeDisk::default();
    let bytes = content(1 << 20);
    let file = disk.file(bytes.clone(), 1).unwrap();
    let io =
        Io::over(disk.engine(4, Faults::default()), BufferPool::with_budget(256 << 10, Memory::Ordinary));
    let ranges = [0..1000, 1000..600_000, 900_000..2_000_000].map(|range| (Arc::clone(&file), range));
    let options = SharedOptions { gap: 0, ..SharedOptions::default() };
    let mut stream = ReadStream::ranges(&io, ranges, &options).unwrap();
    assert!(stream.next().unwrap().unwrap()[..] == bytes[..1000]);
    assert!(matches!(stream.next(), Some(Err(Error::Budget { budget: 262_144, .. }))));
    assert!(matches!(stream.next(), Some(Err(Error::Read { .. }))), "beyond the end of the file");
    assert!(stream.next().is_none());
}

fn any_ranges(size: u64) -> impl Strategy<Value = Vec<(usize, Range<u64>)>> {
    let range = (0usize..3, 0..=size, 0u64..70_000)
        .prop_map(move |(file, start, length)| (file, start..(start + length).min(size)));
    prop::collection::vec(range, 0..60).prop_flat_map(|ranges| {
        // In any order, or in ascending order as a column reader requests them.
        any::<bool>().prop_map(move |sorted| {
            let mut ranges = ranges.clone();
            if sorted {
                ranges.sort_by_key(|(file, range)| (*file, range.start));
            }
            ranges
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn each_range_arrives_whole_whatever_lies_near_it(
        ranges in any_ranges(300_000), seed: u64, depth in 1usize..6, short: u8, late: u8, interrupted in 0u8..128,
        gap in prop::sample::select(vec![0u64, 1000, 65_536]), direct: bool, ahead in 1usize..6, arrival: bool,
    ) {
        let alignment = if direct { 512 } else { 1 };
        let faults = Faults {
            seed, short_of_256: short, late_of_256: late, interrupted_of_256: interrupted, ..Faults::default()
        };
        let disk = FakeDisk::default();
        let bytes: Vec<Vec<u8>> = (0..3)
            .map(|number| content(300_000).iter().map(|byte| byte.wrapping_add(number)).collect())
            .collect();
        let files: Vec<_> = bytes.iter().map(|bytes| disk.file(bytes.clone(), alignment).unwrap()).collect();
        let io = Io::over(disk.engine(depth, faults), BufferPool::with_budget(512 << 10, Memory::Ordinary));
        let order = if arrival { Order::Arrival } else { Order::File };
        let options = SharedOptions { block: 128 << 10, ahead, gap, order };
        let wanted: Vec<_> = ranges.iter().map(|(file, range)| (Arc::clone(&files[*file]), range.clone())).collect();
        let mut got = Vec::new();
        for block in ReadStream::ranges(&io, wanted, &options).unwrap() {
            let block = block.unwrap();
            let file = files.iter().position(|file| Arc::ptr_eq(file, block.file())).unwrap();
            let range = block.offset()..block.offset() + block.len() as u64;
            prop_assert!(block[..] == bytes[file][range.start as usize..range.end as usize]);
            got.push((file, range));
            prop_assert!(io.pool().resident() <= 512 << 10);
        }
        let mut ranges = ranges;
        if arrival {
            ranges.sort_by_key(|(file, range)| (*file, range.start, range.end));
            got.sort_by_key(|(file, range)| (*file, range.start, range.end));
        }
        prop_assert_eq!(got, ranges);
    }

    #[test]
    fn an_error_concerns_the_ranges_of_its_read_and_no_others(bad in 0u64..100_000, seed: u64, gap in 0u64..3000) {
        let disk = FakeDisk::default();
        let bytes = content(100_000);
        let file = disk.file(bytes.clone(), 1).unwrap();
        let faults = Faults { seed, late_of_256: 128, errors: vec![(bad, 5)], ..Faults::default() };
        let io = Io::over(disk.engine(4, faults), BufferPool::with_budget(256 << 10, Memory::Ordinary));
        let options = SharedOptions { block: 5000, gap, ..SharedOptions::default() };
        let wanted: Vec<_> = (0..50).map(|at| (Arc::clone(&file), at * 2000..at * 2000 + 1000)).collect();
        let results: Vec<_> = ReadStream::ranges(&io, wanted, &options).unwrap().collect();
        prop_assert_eq!(results.len(), 50);
        for (at, result) in results.into_iter().enumerate() {
            let start = at * 2000;
            match result {
                Ok(block) => prop_assert!(block[..] == bytes[start..start + 1000]),
                Err(Error::Read { offset, length, .. }) => {
                    prop_assert!((offset..offset + length as u64).contains(&bad), "{offset} {length} {bad}");
                    prop_assert!(offset <= start as u64 && offset + length as u64 >= start as u64 + 1000);
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}

#[test]
fn streams_of_several_threads_share_an_engine() {
    let bytes = content(2 << 20);
    let scratch = file_with("threads", &bytes);
    let file = Arc::new(IoFile::open(scratch.path(), Access::Buffered).unwrap());
    for engine in ["read", "pread:2", "uring:4", "aio:4", "mmap:2"] {
        let options = IoOptions { engine: engine.parse().unwrap(), budget: 4 << 20, ..IoOptions::default() };
        let Ok(io) = Io::open(&options) else {
            sakiyomi_testing::skipped("streams_of_several_threads", format_args!("no {engine} here"));
            continue;
        };
        thread::scope(|scope| {
            for thread in 0..6u64 {
                let (io, file, bytes) = (&io, &file, &bytes);
                scope.spawn(move || {
                    let start = thread * 1000;
                    let options = SharedOptions { block: 100_000, ..SharedOptions::default() };
                    let mut at = start as usize;
                    for block in ReadStream::shared(io, file, start..u64::MAX, &options).unwrap() {
                        let block = block.unwrap();
                        assert!(block[..] == bytes[at..at + block.len()], "{engine}");
                        at += block.len();
                    }
                    assert_eq!(at, bytes.len());
                });
            }
        });
    }
}

/// Without unsafe code: `arrow_buffer::Buffer` can be built from `Bytes`.
#[test]
fn a_block_becomes_shared_bytes_without_a_copy() {
    let disk = FakeDisk::default();
    let bytes = content(400_000);
    let file = disk.file(bytes.clone(), 512).unwrap();
    let io = Io::over(disk.engine(4, Faults::default()), BufferPool::with_budget(1 << 20, Memory::Ordinary));
    // A whole file in blocks, and several columns from one read.
    let blocks = ReadStream::shared(&io, &file, 0..u64::MAX, &SharedOptions::default()).unwrap();
    let columns = (0..8).map(|column| (Arc::clone(&file), column * 10_048..column * 10_048 + 9000));
    let columns: Vec<_> = columns.collect();
    let columns = ReadStream::ranges(&io, columns, &SharedOptions::default()).unwrap();
    let mut shared = Vec::new();
    for block in blocks.chain(columns) {
        let block = block.unwrap();
        let (start, offset) = (block.as_ptr(), block.offset() as usize);
        assert!(start.addr().is_multiple_of(64), "aligned for vectors where its offset is");
        let owned = Bytes::from_owner(block);
        assert_eq!(owned.as_ptr(), start);
        assert!(owned[..] == bytes[offset..offset + owned.len()]);
        shared.push(owned.slice(8..));
    }
    // Its memory belongs to the pool until the last of the shared bytes is dropped, on whatever thread.
    assert!(io.pool().account(1 << 20).is_err());
    thread::spawn(move || drop(shared)).join().unwrap();
    assert!(io.pool().account(1 << 20).is_ok());
}

#[test]
fn a_buffer_becomes_shared_bytes_without_a_copy() {
    let pool = BufferPool::with_budget(1 << 20, Memory::Huge);
    let mut buffer = pool.account(0).unwrap().take(100_000).unwrap().unwrap();
    buffer.append(&content(100_000));
    let start = buffer.as_ptr();
    let owned = Bytes::from_owner(buffer);
    assert_eq!(owned.as_ptr(), start);
    assert!(start.addr().is_multiple_of(64) && owned[..] == content(100_000)[..]);
}

#[test]
fn a_block_becomes_an_arrow_buffer_of_numbers_without_a_copy() {
    let numbers: Vec<u64> = (0..10_000).map(|number| number * number).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let disk = FakeDisk::default();
    let file = disk.file(bytes, 512).unwrap();
    let io = Io::over(disk.engine(4, Faults::default()), BufferPool::with_budget(1 << 20, Memory::Ordinary));
    // A column that begins within a sector, as in columnar files.
    let column = (Arc::clone(&file), 8 * 1_000..8 * 9_000);
    let mut columns = ReadStream::ranges(&io, [column], &SharedOptions::default()).unwrap();
    let block = columns.next().unwrap().unwrap();
    let start = block.as_ptr();
    let column = ScalarBuffer::<u64>::from(Buffer::from(Bytes::from_owner(block)));
    assert_eq!(column.inner().as_ptr(), start);
    assert_eq!(column[..], numbers[1_000..9_000]);
}
