//! Whatever the engine, the block size, the depth and the faults: a stream returns the file's bytes, or an error in
//! the place of missing ones.

use std::fs::{self, File};

use crate::on_disk::{content, file_with, open};
use proptest::prelude::*;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::read::{Block, Order, ReadOptions, ReadStream};
use sakiyomi_io::{Access, BufferPool, EngineKind, EngineSpec, Error, Memory};

/// Returns the blocks concatenated by offset, whatever their order.
fn joined(blocks: impl Iterator<Item = Result<Block, Error>>, size: usize) -> Result<Vec<u8>, Error> {
    let (mut bytes, mut covered) = (vec![0; size], 0);
    for block in blocks {
        let block = block?;
        let start = block.offset() as usize;
        bytes[start..start + block.len()].copy_from_slice(&block);
        covered += block.len();
    }
    assert_eq!(covered, size, "each byte comes once");
    Ok(bytes)
}

fn any_kind() -> impl Strategy<Value = EngineKind> {
    let moving = EngineKind::ALL.into_iter().filter(|&kind| kind != EngineKind::Null);
    prop::sample::select(moving.collect::<Vec<_>>())
}

fn any_options() -> impl Strategy<Value = ReadOptions> {
    let shape = (any_kind(), 1usize..9, 1usize..12, any::<bool>());
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), 1usize..4);
    (shape, switches).prop_map(|((kind, depth, pages, direct), (huge, register, arrival, hold))| {
        let direct = direct && kind.uses_buffers();
        let depth = if kind == EngineKind::Read { 1 } else { depth };
        ReadOptions {
            engine: EngineSpec { kind, depth },
            access: if direct { Access::Direct } else { Access::Buffered },
            // Through the page cache any size is possible.
            block: if direct { pages * 4096 } else { pages * 3001 },
            memory: if huge { Memory::Huge } else { Memory::Ordinary },
            register,
            order: if arrival { Order::Arrival } else { Order::File },
            range: None,
            hold,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_method_gives_the_same_bytes(options in any_options(), size in 0usize..120_000) {
        let bytes = content(size);
        let file = file_with("same", &bytes);
        if let Some(blocks) = open(file.path(), &options) {
            prop_assert!(joined(blocks, size).unwrap() == bytes);
        }
    }

    #[test]
    fn any_part_of_a_file_can_be_read(options in any_options(), from in 0u64..60_000, length in 0u64..60_000) {
        let bytes = content(100_001);
        let file = file_with("part", &bytes);
        let range = from..from + length;
        let expected = &bytes[from as usize..(from + length).min(100_001) as usize];
        let options = ReadOptions { range: Some(range), order: Order::File, ..options };
        if let Some(blocks) = open(file.path(), &options) {
            let mut got = Vec::new();
            blocks.for_each(|block| got.extend_from_slice(&block.unwrap()));
            prop_assert!(got == expected);
        }
    }
}

/// Returns a stream over memory with faults.
fn faulty(bytes: &[u8], faults: Faults, depth: usize, alignment: usize, options: &ReadOptions) -> ReadStream {
    let disk = FakeDisk::default();
    let file = disk.file(bytes.to_vec(), alignment).unwrap();
    let pool = BufferPool::fixed(depth + options.hold, options.block, Memory::Ordinary).unwrap();
    ReadStream::over(disk.engine(depth, faults), pool, &file, options).unwrap()
}

proptest! {
    #[test]
    fn short_late_and_interrupted_reads_come_whole_and_in_order(
        seed: u64, size in 0usize..50_000, pages in 1usize..9, depth in 1usize..9, direct: bool, rates: [u8; 3],
    ) {
        let alignment = if direct { 512 } else { 1 };
        let options = ReadOptions { block: if direct { pages * 512 } else { pages * 701 }, ..ReadOptions::default() };
        let [short_of_256, late_of_256, interrupted] = rates;
        // A call that is always interrupted eventually becomes an error.
        let faults = Faults { seed, short_of_256, late_of_256, interrupted_of_256: interrupted / 2, ..Faults::default() };
        let bytes = content(size);
        let mut got = Vec::new();
        for block in faulty(&bytes, faults, depth, alignment, &options) {
            let block = block.unwrap();
            prop_assert_eq!(block.offset(), got.len() as u64);
            got.extend_from_slice(&block);
        }
        prop_assert!(got == bytes);
    }

    #[test]
    fn an_error_stands_in_the_place_of_its_block(seed: u64, bad in 0u64..100_000, depth in 1usize..9, short: u8) {
        let bytes = content(100_000);
        let faults = Faults { seed, short_of_256: short, late_of_256: 128, errors: vec![(bad, 5)], ..Faults::default() };
        let options = ReadOptions { block: 3000, ..ReadOptions::default() };
        let results: Vec<_> = faulty(&bytes, faults, depth, 1, &options)
            .map(|block| block.map(|block| (block.offset(), block.to_vec())))
            .collect();
        prop_assert_eq!(results.len(), 34);
        for (index, result) in results.into_iter().enumerate() {
            let start = index as u64 * 3000;
            match result {
                Ok((offset, got)) => {
                    prop_assert!(bad / 3000 != index as u64 && offset == start);
                    prop_assert_eq!(&got[..], &bytes[start as usize..][..got.len()]);
                }
                Err(Error::Read { offset, source, .. }) => {
                    prop_assert!(bad / 3000 == index as u64 && offset == start);
                    prop_assert_eq!(source.raw_os_error(), Some(5));
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_and_never_other_bytes(
        seed: u64, call in 0u64..80, left in 0u64..60_000, depth in 1usize..9, direct: bool, short: u8,
    ) {
        let alignment = if direct { 512 } else { 1 };
        let bytes = content(60_000);
        let shrinks = Some((call, left));
        let faults = Faults { seed, shrinks, short_of_256: short, late_of_256: 100, ..Faults::default() };
        let options = ReadOptions { block: 2048, ..ReadOptions::default() };
        for block in faulty(&bytes, faults, depth, alignment, &options) {
            match block {
                Ok(block) => prop_assert_eq!(&block[..], &bytes[block.offset() as usize..][..block.len()]),
                Err(Error::Shrunk { at, expected, .. }) => prop_assert!(at >= left && expected == 60_000),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    #[test]
    fn as_they_arrive_each_comes_once(seed: u64, depth in 1usize..9, hold in 1usize..5) {
        let bytes = content(40_000);
        let options = ReadOptions { block: 1000, order: Order::Arrival, hold, ..ReadOptions::default() };
        let faults = Faults { seed, late_of_256: 200, ..Faults::default() };
        let mut blocks = faulty(&bytes, faults, depth, 1, &options);
        // The caller can hold `hold` blocks while the next ones arrive.
        let kept: Vec<Block> = blocks.by_ref().take(hold).map(Result::unwrap).collect();
        let all = kept.into_iter().map(Ok).chain(blocks);
        prop_assert!(joined(all, 40_000).unwrap() == bytes);
    }
}

#[test]
fn keeping_more_than_there_is_memory_for_is_an_error_until_some_is_released() {
    let options = ReadOptions { block: 1000, hold: 2, ..ReadOptions::default() };
    let bytes = content(20_000);
    let mut stream = faulty(&bytes, Faults::default(), 3, 1, &options);
    let (mut kept, mut got) = (Vec::new(), Vec::new());
    let mut refused = 0;
    while let Some(block) = stream.next() {
        match block {
            Ok(block) => {
                got.extend_from_slice(&block);
                kept.push(block);
            }
            Err(error) => {
                assert!(matches!(error, Error::AllHeld { .. }) && kept.len() == 5, "{error}: {}", kept.len());
                // The error is returned at every call.
                assert!(matches!(stream.next(), Some(Err(Error::AllHeld { .. }))));
                kept.truncate(2);
                refused += 1;
            }
        }
    }
    assert!(got == bytes && refused == 5, "{refused}");
}

#[test]
fn a_call_that_is_interrupted_for_ever_is_an_error() {
    let faults = Faults { errors: vec![(0, 4)], ..Faults::default() };
    let mut blocks =
        faulty(&content(100), faults, 1, 1, &ReadOptions { block: 100, ..ReadOptions::default() });
    assert!(matches!(blocks.next(), Some(Err(Error::Read { .. }))));
    assert!(blocks.next().is_none());
}

#[test]
fn a_stream_can_be_dropped_at_any_time() {
    let bytes = content(3 << 20);
    let file = file_with("dropped", &bytes);
    for kind in EngineKind::ALL {
        for taken in [0, 1, 7] {
            let options =
                ReadOptions { engine: EngineSpec::usual(kind), block: 64 << 10, ..ReadOptions::default() };
            let Some(mut blocks) = open(file.path(), &options) else { continue };
            let kept: Vec<Block> = blocks.by_ref().take(taken).map(Result::unwrap).take(1).collect();
            drop(blocks);
            if kind != EngineKind::Null {
                kept.iter().for_each(|block| assert_eq!(&block[..], &bytes[..64 << 10]));
            }
        }
    }
}

#[test]
fn a_mapped_file_that_shrinks_is_an_error_and_the_program_lives() {
    for text in ["mmap:3", "populate:2"] {
        let file = file_with("mapped", &content(1 << 20));
        let options =
            ReadOptions { engine: text.parse().unwrap(), block: 128 << 10, ..ReadOptions::default() };
        let mut blocks = ReadStream::open(file.path(), &options).unwrap();
        let first = blocks.next().unwrap().unwrap();
        File::options().write(true).open(file.path()).unwrap().set_len(5000).unwrap();
        // These pages are no longer in the file.
        let sum: u64 = first.iter().map(|&byte| u64::from(byte)).sum();
        assert!(sum > 0 && matches!(first.intact(), Err(Error::Shrunk { at: 5000, .. })));
        drop(first);
        let errors = blocks.filter_map(Result::err).inspect(|error| {
            assert!(matches!(error, Error::Shrunk { expected: 1_048_576, .. }), "{error}");
        });
        assert!(errors.count() >= 1);
    }
}

#[test]
fn no_more_is_mapped_than_was_asked_for() {
    // More blocks than concurrent mappings.
    let bytes = content(4 << 20);
    let file = file_with("many", &bytes);
    let options =
        ReadOptions { engine: "mmap:8".parse().unwrap(), block: 1000, hold: 3, ..ReadOptions::default() };
    let mut blocks = ReadStream::open(file.path(), &options).unwrap();
    let kept: Vec<_> = blocks.by_ref().take(3).collect();
    let all = kept.into_iter().chain(blocks);
    assert!(joined(all, bytes.len()).unwrap() == bytes);
}

#[test]
fn a_file_that_is_cut_under_any_method_is_an_error() {
    for kind in EngineKind::ALL.into_iter().filter(|&kind| kind != EngineKind::Null) {
        let bytes = content(1 << 20);
        let file = file_with("cut", &bytes);
        let options =
            ReadOptions { engine: EngineSpec { depth: 1, kind }, block: 16 << 10, ..ReadOptions::default() };
        let Some(mut blocks) = open(file.path(), &options) else { continue };
        assert_eq!(&blocks.next().unwrap().unwrap()[..], &bytes[..16 << 10]);
        File::options().write(true).open(file.path()).unwrap().set_len(300_000).unwrap();
        let results: Vec<_> = blocks
            .map(|block| block.map(|block| block[..] == bytes[block.offset() as usize..][..block.len()]))
            .collect();
        assert!(results.iter().any(Result::is_err), "{kind:?}");
        assert!(results.iter().flatten().all(|&same| same), "{kind:?}");
    }
}

#[test]
fn what_a_file_gains_while_it_is_read_is_not_read() {
    let bytes = content(10_000);
    let file = file_with("grown", &bytes);
    let options = ReadOptions { block: 4096, ..ReadOptions::default() };
    let blocks = ReadStream::open(file.path(), &options).unwrap();
    fs::write(file.path(), content(100_000)).unwrap();
    assert!(joined(blocks, 10_000).unwrap() == bytes);
}

#[test]
fn what_cannot_be_read_in_blocks_is_refused_with_a_sentence() {
    let refused = |path: &str, options: &ReadOptions| {
        ReadStream::open(path.as_ref(), options).err().unwrap().to_string()
    };
    let plain = ReadOptions::default();
    assert!(refused("/", &plain).contains("/ is a directory"));
    assert!(refused("/dev/null", &plain).contains("a character device"));
    assert!(refused("/nowhere", &plain).contains("/nowhere"));
    let file = file_with("refused", b"x");
    let odd = ReadOptions { access: Access::Direct, block: 1000, ..plain };
    assert!(refused(file.path().to_str().unwrap(), &odd).contains("multiple of"));
}
