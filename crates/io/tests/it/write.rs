//! Streams that write: whatever fails, every byte is right, errors have their place, and memory stays bounded.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::page_cache;
use sakiyomi_io::{
    Access, AtomicFile, Buffer, BufferPool, Error, Io, IoFile, IoOptions, Memory, OwnEngine, ReadStream,
    SharedOptions, WriteOptions, WriteStream,
};
use sakiyomi_testing::{Scratch, skipped};

use crate::on_disk::content;
use crate::surroundings::{INSIDE, inside, inside_mount};

/// Small buffers, so that many operations occur.
fn options(block: usize, in_flight: usize) -> WriteOptions {
    WriteOptions { block, in_flight, ..WriteOptions::default() }
}

fn fake_io(disk: &FakeDisk, faults: Faults) -> Io {
    Io::over(disk.engine(4, faults), BufferPool::with_budget(1 << 20, Memory::Ordinary))
}

/// Returns a file for direct I/O; `None` if the build directory does not support it.
fn direct_or_skip(test: &str, made: Result<IoFile, Error>) -> Option<Arc<IoFile>> {
    match made {
        Err(error @ Error::NoDirect { .. }) => {
            skipped(test, error);
            None
        }
        other => Some(Arc::new(other.unwrap())),
    }
}

/// How bytes are handed over.
#[derive(Clone, Debug)]
enum Step {
    Buffer(usize),
    Bytes(usize),
    Flush,
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..20_000).prop_map(Step::Buffer),
        2 => Just(Step::Buffer(usize::MAX)),
        2 => (0usize..6).prop_map(|blocks| Step::Buffer(blocks * 4096)),
        4 => (0usize..30_000).prop_map(Step::Bytes),
        1 => Just(Step::Flush),
        1 => Just(Step::Sync),
    ];
    prop::collection::vec(step, 0..12)
}

/// Returns bytes that differ from their neighbors.
fn bytes(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect()
}

/// Performs a step on the stream and on its oracle, a vector.
fn step(stream: &mut WriteStream, plain: &mut Vec<u8>, step: &Step) {
    match *step {
        Step::Buffer(count) => {
            let mut buffer = stream.buffer().unwrap();
            let new = bytes(plain.len(), count.min(buffer.capacity()));
            assert_eq!(buffer.append(&new), new.len());
            stream.submit(buffer).unwrap();
            plain.extend(new);
        }
        Step::Bytes(count) => {
            let new = bytes(plain.len(), count);
            stream.write_all(&new).unwrap();
            plain.extend(new);
        }
        Step::Flush => stream.flush().unwrap(),
        Step::Sync => stream.sync().unwrap(),
    }
    assert_eq!((stream.len(), stream.is_empty()), (plain.len() as u64, plain.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_writes_give_the_bytes_that_a_vector_has_whatever_goes_wrong(
        steps in steps(), seed: u64, short: u8, late: u8, interrupted in 0u8..128, alignment in 0u32..4,
        block in 1usize..40_000, in_flight in 1usize..5, expected in prop::option::of(1u64..200_000),
        shared: bool, sync: bool,
    ) {
        let faults = Faults {
            seed, short_of_256: short, late_of_256: late, interrupted_of_256: interrupted, ..Faults::default()
        };
        let disk = FakeDisk::default();
        let file = disk.file(Vec::new(), 8usize.pow(alignment)).unwrap();
        let options = WriteOptions { expected, sync, ..options(block, in_flight) };
        let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
        let mut stream = if shared {
            WriteStream::shared(&Io::over(disk.engine(4, faults), pool), &file, &options).unwrap()
        } else {
            WriteStream::over(disk.engine(4, faults), pool, &file, &options).unwrap()
        };
        let mut plain = Vec::new();
        for one in &steps {
            step(&mut stream, &mut plain, one);
        }
        let written = stream.finish().unwrap();
        prop_assert_eq!(written.bytes, plain.len() as u64);
        prop_assert_eq!(written.stats.bytes, plain.len() as u64);
        prop_assert_eq!(file.size(), plain.len() as u64);
        prop_assert!(disk.content(&file) == plain);
    }

    #[test]
    fn a_stream_on_a_real_file_gives_the_bytes_that_a_vector_has(
        steps in steps(), direct: bool, blocks in 1usize..5, engine in 0usize..4, expected in prop::option::of(0u64..200_000),
    ) {
        let access = if direct { Access::Direct } else { Access::Buffered };
        let scratch = Scratch::new("write_property");
        let path = scratch.path("out");
        let Some(file) = direct_or_skip("a_stream_on_a_real_file", IoFile::create(&path, access)) else {
            return Ok(());
        };
        let spec = ["read", "pread:2", "uring:4", "aio:3"][engine].parse().unwrap();
        let own = OwnEngine { spec, ..OwnEngine::default() };
        let options = WriteOptions { expected, ..options(blocks * 4096, 1) };
        let mut stream = match WriteStream::open(&file, &own, &options) {
            Err(error @ Error::Method { .. }) => {
                skipped("a_stream_on_a_real_file", error);
                return Ok(());
            }
            other => other.unwrap(),
        };
        let mut plain = Vec::new();
        for one in &steps {
            step(&mut stream, &mut plain, one);
        }
        prop_assert_eq!(stream.finish().unwrap().bytes, plain.len() as u64);
        prop_assert!(fs::read(&path).unwrap() == plain);
    }

    /// Every call reports the first byte that fails, and the bytes before it are in the file.
    #[test]
    fn the_first_error_is_that_of_every_call_from_then_on(
        bad in prop::collection::vec(0u64..200_000, 1..4), seed: u64, late: u8, short: u8, full: bool, shared: bool,
    ) {
        let first = *bad.iter().min().unwrap();
        let code = if full { libc::ENOSPC } else { libc::EIO };
        let errors = bad.iter().map(|&byte| (byte, code)).collect();
        let faults = Faults { seed, late_of_256: late, short_of_256: short, errors, ..Faults::default() };
        let disk = FakeDisk::default();
        let file = disk.file(Vec::new(), 512).unwrap();
        let options = WriteOptions { expected: Some(200_000), ..options(8192, 3) };
        let io = fake_io(&disk, faults.clone());
        let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
        let mut stream = if shared {
            WriteStream::shared(&io, &file, &options).unwrap()
        } else {
            WriteStream::over(disk.engine(4, faults), pool, &file, &options).unwrap()
        };
        let mut is_told = false;
        for from in (0..200_000).step_by(5000) {
            let outcome = stream.write_all(&bytes(from, 5000));
            prop_assert!(outcome.is_err() || !is_told, "an error stays");
            if let Err(error) = outcome {
                let kind = if full { io::ErrorKind::StorageFull } else { io::Error::from_raw_os_error(code).kind() };
                prop_assert_eq!(error.kind(), kind);
                is_told = true;
            }
        }
        match stream.finish() {
            Err(Error::Write { offset, length, source, .. }) if !full => {
                prop_assert!((offset..offset + length as u64).contains(&first), "{first}: {offset} {length}");
                prop_assert_eq!(source.raw_os_error(), Some(code));
            }
            Err(Error::Full { offset, needed, .. }) if full => {
                prop_assert!(offset <= first && offset + 8192 > first, "{first}: {offset}");
                prop_assert_eq!(offset + needed, 200_000);
            }
            other => prop_assert!(false, "{other:?}"),
        }
        let start = first as usize / 8192 * 8192;
        prop_assert!(disk.content(&file)[..start] == bytes(0, start)[..]);
        prop_assert!(io.pool().account(1 << 20).is_ok(), "all memory came back");
    }
}

#[test]
fn a_caller_that_keeps_all_buffers_gets_an_error_and_goes_on() {
    let disk = FakeDisk::default();
    let file = disk.file(Vec::new(), 1).unwrap();
    let io =
        Io::over(disk.engine(4, Faults::default()), BufferPool::with_budget(256 << 10, Memory::Ordinary));
    let mut stream = WriteStream::shared(&io, &file, &options(64 << 10, 2)).unwrap();
    let mut held: Vec<Buffer> = (0..4).map(|_| stream.buffer().unwrap()).collect();
    assert!(matches!(stream.buffer(), Err(Error::AllHeld { .. })));
    assert!(stream.write(b"x").is_err());
    for _ in 0..20 {
        let mut buffer = held.pop().unwrap();
        buffer.append(&[7; 10]);
        stream.submit(buffer).unwrap();
        stream.flush().unwrap();
        held.push(stream.buffer().unwrap());
    }
    drop(held);
    stream.write_all(&[7; 25]).unwrap();
    assert_eq!(stream.finish().unwrap().bytes, 225);
    assert_eq!(disk.content(&file), [7; 225]);
}

#[test]
fn memory_of_completed_writes_is_there_for_readers_though_the_writer_does_nothing() {
    let disk = FakeDisk::default();
    let source = disk.file(content(1 << 20), 1).unwrap();
    for seed in 0..50 {
        // Short writes are continued without the writer as well.
        let faults =
            Faults { seed, short_of_256: 128, interrupted_of_256: 30, late_of_256: 128, ..Faults::default() };
        let io = Io::over(disk.engine(2, faults), BufferPool::with_budget(512 << 10, Memory::Ordinary));
        let out = disk.file(Vec::new(), 1).unwrap();
        let mut writer = WriteStream::shared(&io, &out, &options(64 << 10, 8)).unwrap();
        let ranges = [(Arc::clone(&source), 0..300_000)];
        let mut reader = ReadStream::ranges(&io, ranges, &SharedOptions::default()).unwrap();
        // Everything beyond the reader's guarantee is in flight.
        for _ in 0..6 {
            let mut buffer = writer.buffer().unwrap();
            buffer.append(&[1; 64 << 10]);
            writer.submit(buffer).unwrap();
        }
        // Larger than the guarantee, so that memory of the writes is needed.
        assert_eq!(reader.next().unwrap().unwrap().len(), 300_000);
        drop(reader);
        assert_eq!(writer.finish().unwrap().bytes, 6 * (64 << 10));
        assert!(disk.content(&out) == [1; 6 * (64 << 10)]);
    }
}

#[test]
fn a_writer_goes_on_beside_readers_that_fill_the_budget() {
    let disk = FakeDisk::default();
    let source = disk.file(content(4 << 20), 512).unwrap();
    let out = disk.file(Vec::new(), 512).unwrap();
    let io = Io::over(
        disk.engine(8, Faults { seed: 1, late_of_256: 100, ..Faults::default() }),
        BufferPool::with_budget(1 << 20, Memory::Ordinary),
    );
    let mut writer = WriteStream::shared(&io, &out, &WriteOptions::default()).unwrap();
    let open = |_| ReadStream::shared(&io, &source, 0..u64::MAX, &SharedOptions::default()).unwrap();
    let mut readers: Vec<ReadStream> = (0..10).map(open).collect();
    let mut expected = Vec::new();
    loop {
        let blocks: Vec<_> =
            readers.iter_mut().filter_map(|reader| reader.next()).map(Result::unwrap).collect();
        if blocks.is_empty() {
            break;
        }
        for block in blocks {
            writer.write_all(&block).unwrap();
            expected.extend_from_slice(&block);
        }
        assert!(io.pool().resident() <= 1 << 20);
    }
    writer.finish().unwrap();
    assert!(disk.content(&out) == expected);
}

#[test]
fn a_file_is_overwritten_in_any_order() {
    let disk = FakeDisk::default();
    let file = disk.file(vec![0; 40_960], 4096).unwrap();
    let faults = Faults { seed: 3, short_of_256: 100, late_of_256: 100, ..Faults::default() };
    let mut stream = WriteStream::shared(&fake_io(&disk, faults), &file, &options(4096, 3)).unwrap();
    for place in [7u8, 2, 9, 0, 4, 1, 8, 3, 6, 5] {
        let mut buffer = stream.buffer().unwrap();
        buffer.append(&[place; 4096]);
        stream.submit_at(u64::from(place) * 4096, buffer).unwrap();
    }
    stream.finish().unwrap();
    let expected: Vec<u8> = (0..10).flat_map(|place| [place; 4096]).collect();
    assert!(disk.content(&file) == expected);
}

#[test]
fn a_stream_that_is_dropped_has_no_writes_in_flight() {
    let disk = FakeDisk::default();
    let file = disk.file(Vec::new(), 1).unwrap();
    let io = fake_io(&disk, Faults { seed: 1, late_of_256: 255, ..Faults::default() });
    let mut stream = WriteStream::shared(&io, &file, &options(1000, 4)).unwrap();
    stream.write_all(&[1; 5000]).unwrap();
    drop(stream);
    assert_eq!(disk.content(&file).len(), 5000);
    assert!(io.pool().account(1 << 20).is_ok(), "all memory came back");
}

#[test]
fn an_expected_size_for_which_there_is_no_room_is_an_error_at_once() {
    let scratch = Scratch::new("write_no_room");
    let file = Arc::new(IoFile::create(&scratch.path("out"), Access::Buffered).unwrap());
    let io = Io::open(&IoOptions::default()).unwrap();
    let options = WriteOptions { expected: Some(1 << 60), ..options(4096, 2) };
    let error = WriteStream::shared(&io, &file, &options).err().unwrap();
    assert!(matches!(error, Error::NoRoom { needed: 0x1000_0000_0000_0000, .. }), "{error}");
}

#[test]
fn direct_writes_go_around_the_page_cache_but_for_the_tail() {
    let scratch = Scratch::new("write_direct");
    let path = scratch.path("out");
    let Some(file) = direct_or_skip("direct_writes", IoFile::create(&path, Access::Direct)) else { return };
    let unaligned = WriteStream::open(&file, &OwnEngine::default(), &options(4000, 2)).err().unwrap();
    if file.alignment().offset > 1 {
        assert!(matches!(unaligned, Error::Unaligned { block: 4000, .. }), "{unaligned}");
    }
    let io = Io::open(&IoOptions::default()).unwrap();
    let mut stream = WriteStream::shared(&io, &file, &options(16_384, 2)).unwrap();
    stream.write_all(&bytes(0, 100_000)).unwrap();
    stream.finish().unwrap();
    let cached = page_cache::residency(&File::open(&path).unwrap(), 0..u64::MAX).unwrap();
    if page_cache::drop_pages(&File::open(&path).unwrap(), 0..u64::MAX).unwrap().cached == 0 {
        assert_eq!((cached.pages, cached.cached), (25, 1), "{cached:?}");
    }
    // The file is in direct mode again.
    let all: Vec<u8> = ReadStream::shared(&io, &file, 0..u64::MAX, &SharedOptions::default())
        .unwrap()
        .flat_map(|block| block.unwrap().to_vec())
        .collect();
    assert!(all == bytes(0, 100_000) && fs::read(path).unwrap() == all);
}

#[test]
fn what_was_allocated_and_not_written_is_given_back() {
    let scratch = Scratch::new("write_shorter");
    let ways = [(Access::Buffered, Some(1 << 20)), (Access::Direct, Some(1 << 20)), (Access::Direct, None)];
    for ((access, expected), finishes) in ways.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let made = IoFile::create(&scratch.path("out"), access);
        let Some(file) = direct_or_skip("what_was_allocated", made) else { return };
        let io = Io::open(&IoOptions::default()).unwrap();
        let options = WriteOptions { expected, ..options(4096, 2) };
        let mut stream = WriteStream::shared(&io, &file, &options).unwrap();
        stream.write_all(&[7; 5000]).unwrap();
        stream.flush().unwrap();
        if finishes {
            stream.finish().unwrap();
        } else {
            drop(stream);
        }
        let metadata = fs::metadata(scratch.path("out")).unwrap();
        assert_eq!(metadata.len(), if finishes || access == Access::Buffered { 5000 } else { 4096 });
        assert!(metadata.blocks() * 512 < 1 << 19, "{} blocks", metadata.blocks());
    }
}

#[test]
fn a_file_that_appears_when_whole_is_written_by_a_stream() {
    let scratch = Scratch::new("write_atomic");
    let path = scratch.path("out");
    fs::write(&path, "old").unwrap();
    let io = Io::open(&IoOptions::default()).unwrap();
    for (access, finishes) in [(Access::Direct, false), (Access::Direct, true), (Access::Buffered, true)] {
        let file = match AtomicFile::create_for(&path, access) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                skipped("a_file_that_appears_when_whole", error);
                continue;
            }
            other => other.unwrap(),
        };
        let mut stream = WriteStream::shared(&io, file.file().unwrap(), &options(65_536, 3)).unwrap();
        let before = fs::read(&path).unwrap();
        stream.write_all(&bytes(0, 500_001)).unwrap();
        if !finishes {
            drop((stream, file));
            assert_eq!(fs::read(&path).unwrap(), b"old");
            continue;
        }
        stream.finish().unwrap();
        assert!(fs::read(&path).unwrap() == before, "not before it is committed");
        file.commit().unwrap();
        assert!(fs::read(&path).unwrap() == bytes(0, 500_001));
        fs::write(&path, "older").unwrap();
    }
    assert_eq!(scratch.entries(), 1);
}

#[test]
fn a_file_over_the_limit_of_the_process_is_an_error_and_not_its_end() {
    let test = "write::a_file_over_the_limit_of_the_process_is_an_error_and_not_its_end";
    let Some(directory) = std::env::var_os(INSIDE) else {
        let scratch = Scratch::new("write_limit");
        // In units of 512 bytes, or 1024 in some shells.
        return inside(test, &["sh"], "ulimit -f 32", scratch.root());
    };
    let path = Path::new(&directory).join("out");
    let io = Io::open(&IoOptions::default()).unwrap();
    let is_too_large = |error: Option<Error>| match error {
        Some(Error::Write { source, .. }) => source.raw_os_error() == Some(libc::EFBIG),
        _ => false,
    };
    for access in [Access::Buffered, Access::Direct] {
        let Some(file) = direct_or_skip(test, IoFile::create(&path, access)) else { return };
        let mut stream = WriteStream::shared(&io, &file, &options(8192, 2)).unwrap();
        let error = (0..9).find_map(|_| stream.write_all(&[1; 4000]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        assert!(is_too_large(stream.finish().err()));
    }
    let file = Arc::new(IoFile::create(&path, Access::Buffered).unwrap());
    let expected = WriteOptions { expected: Some(100_000), ..options(8192, 2) };
    assert!(is_too_large(WriteStream::shared(&io, &file, &expected).err()));
}

#[test]
fn where_direct_writes_are_not_possible_no_file_is_left() {
    let test = "write::where_direct_writes_are_not_possible_no_file_is_left";
    let Some(directory) = std::env::var_os(INSIDE) else {
        return inside_mount(test, "ramfs", &Scratch::new("write_ramfs"));
    };
    let path = Path::new(&directory).join("out");
    let error = IoFile::create(&path, Access::Direct).err();
    let atomic = AtomicFile::create_for(&path, Access::Direct).err();
    if let (Some(error), Some(atomic)) = (error, atomic) {
        assert!(matches!(error, Error::NoDirect { .. }), "{error}");
        assert_eq!(atomic.kind(), io::ErrorKind::Unsupported, "{atomic}");
    } else {
        skipped(test, "a ramfs with direct I/O");
        let _ = fs::remove_file(&path);
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_an_error_that_names_the_room() {
    let test = "write::a_full_disk_is_an_error_that_names_the_room";
    let Some(directory) = std::env::var_os(INSIDE) else {
        return inside_mount(test, "tmpfs -o size=1m", &Scratch::new("write_tmpfs"));
    };
    let path = Path::new(&directory).join("out");
    let io = Io::open(&IoOptions::default()).unwrap();
    for (access, in_flight) in
        [(Access::Buffered, 1), (Access::Direct, 1), (Access::Buffered, 3), (Access::Direct, 3)]
    {
        let file = || IoFile::create(&path, access).map(Arc::new);
        let Ok(first) = file() else { continue };
        let expected = WriteOptions { expected: Some(2 << 20), ..options(65_536, in_flight) };
        let error = WriteStream::shared(&io, &first, &expected).err().unwrap();
        assert!(matches!(error, Error::NoRoom { needed: 0x20_0000, free: 0x10_0000, .. }), "{error}");

        let mut stream = WriteStream::shared(&io, &first, &options(65_536, in_flight)).unwrap();
        let error = (0..64).find_map(|_| stream.write_all(&[1; 65_536]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        let error = stream.finish().unwrap_err();
        let Error::Full { offset, needed, free: 0, .. } = error else { panic!("{error}") };
        // With several in flight, later writes may have taken the last pages while this one waited for a CPU.
        assert!(if in_flight == 1 { offset == 1 << 20 } else { offset <= 1 << 20 }, "{error}");
        assert!((1..=65_536).contains(&needed), "{error}");

        // Truncated, it has room again.
        let fits = WriteOptions { expected: Some(1 << 20), ..expected };
        let mut stream = WriteStream::shared(&io, &file().unwrap(), &fits).unwrap();
        stream.write_all(&vec![1; 1 << 20]).unwrap();
        assert_eq!(stream.finish().unwrap().bytes, 1 << 20);
    }
}
