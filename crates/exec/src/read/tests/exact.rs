//! Blocks are those that were asked for, whatever is cached and however they are read.

use super::*;

/// Where a call's bytes came from, and a digest of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    file: usize,
    number: u64,
    offset: u64,
    bytes: Vec<u8>,
}

fn seen(block: Block<'_>) -> Vec<Seen> {
    assert!(!block.is_empty());
    let (file, number, offset) = (block.file(), block.number(), block.offset());
    vec![Seen { file, number, offset, bytes: block.to_vec() }]
}

/// The blocks of a text, by the definition.
fn expected(file: usize, text: &[u8], range: Range<u64>, size: usize) -> Vec<Seen> {
    let (start, end) = (range.start.min(text.len() as u64), range.end.min(text.len() as u64));
    let blocks = text[start as usize..end.max(start) as usize].chunks(size).enumerate();
    let of_block = |(number, bytes): (usize, &[u8])| Seen {
        file,
        number: number as u64,
        offset: start + (number * size) as u64,
        bytes: bytes.to_vec(),
    };
    blocks.map(of_block).collect()
}

fn pairs<T>(mut first: Vec<T>, next: Vec<T>) -> Vec<T> {
    first.extend(next);
    first
}

/// An odd hash, which is enough to see that a tree of digests is the same (FNV-1a).
fn digest(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The root of a Merkle tree over leaves in order.
fn root(mut level: Vec<u64>) -> Option<u64> {
    while level.len() > 1 {
        let pair =
            |pair: &[u64]| digest(&pair.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<_>>());
        level = level.chunks(2).map(pair).collect();
    }
    level.pop()
}

fn merkle(read: BlockedRead) -> Option<u64> {
    let leaves = read.map_blocks(|block| vec![(block.number(), digest(&block))]);
    let (leaves, _) = leaves.reduce(Vec::new(), pairs).unwrap();
    assert!(leaves.iter().map(|leaf| leaf.0).eq(0..leaves.len() as u64));
    root(leaves.into_iter().map(|leaf| leaf.1).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn blocks_are_those_asked_for_in_every_way(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        size in prop_oneof![1usize..60, 300usize..700], from in 0u64..450, length in 0u64..450, whole: bool,
    ) {
        let scratch = ScratchFile::new(&bytes);
        let range = if whole { 0..u64::MAX } else { from..from + length };
        let expected = expected(0, &bytes, range.clone(), size);
        for way in ways(scratch.path()) {
            let mapped = || way.clone().range(range.clone()).block(size).map_blocks(seen);
            prop_assert_eq!(&mapped().reduce(Vec::new(), pairs).unwrap().0, &expected, "{:?}", &way);
            let mut ordered = Vec::new();
            mapped().in_order(|seen| Ok(ordered.extend(seen))).unwrap();
            prop_assert_eq!(&ordered, &expected, "{:?}", &way);
            let add = |all: &mut Vec<Seen>, block: Block<'_>| all.extend(seen(block));
            let (mut folded, _) =
                way.clone().range(range.clone()).block(size).fold(Vec::new, add, pairs).unwrap();
            folded.sort_by_key(|seen| seen.offset);
            prop_assert_eq!(&folded, &expected, "{:?}", &way);
        }
    }

    #[test]
    fn blocks_of_streams_are_those_asked_for(
        bytes in prop::collection::vec(any::<u8>(), 0..400), size in 1usize..60, given in 1usize..20,
    ) {
        let expected = expected(0, &bytes, 0..u64::MAX, size);
        let short = || Short(Cursor::new(&bytes), given);
        let (reduced, _) =
            blocked_reader("short", short()).block(size).map_blocks(seen).reduce(Vec::new(), pairs).unwrap();
        prop_assert_eq!(&reduced, &expected);
        let (read, mut write) = io::pipe().unwrap();
        let mut ordered = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for part in bytes.chunks(given) {
                    write.write_all(part).unwrap();
                }
                drop(write);
            });
            let mapped = blocked_read("-").block(size).map_blocks(seen);
            mapped.in_order_file(OwnedFd::from(read).into(), |seen| Ok(ordered.extend(seen))).unwrap();
        });
        prop_assert_eq!(&ordered, &expected);
    }

    #[test]
    fn blocks_of_many_files_begin_anew_in_each(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6), size in 1usize..300,
    ) {
        let scratch: Vec<ScratchFile> = texts.iter().map(ScratchFile::new).collect();
        let paths: Vec<PathBuf> = scratch.iter().map(|scratch| scratch.path().to_owned()).collect();
        let expected: Vec<Seen> =
            texts.iter().enumerate().flat_map(|(file, text)| expected(file, text, 0..u64::MAX, size)).collect();
        for way in ways_of_many(&paths) {
            let (found, _) = way.clone().block(size).map_blocks(seen).reduce(Vec::new(), pairs).unwrap();
            prop_assert_eq!(&found, &expected, "{:?}", &way);
        }
    }
}

/// Gives a few bytes at a time.
struct Short<R>(R, usize);

impl<R: io::Read> io::Read for Short<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(self.1);
        self.0.read(&mut bytes[..most])
    }
}

/// The sizes that divide pieces of a large file unevenly, or are larger than these.
const SIZES: [usize; 9] =
    [4096, 10_007, 65_536, 99_991, 131_072, 262_145, 1 << 20, 3_000_001, (12 << 20) + 1];

#[test]
fn the_root_of_a_large_file_is_the_same_cached_cold_and_half_cached() {
    let text: Vec<u8> = (0..10u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let scratch = ScratchFile::new(&text);
    let file = std::fs::File::open(scratch.path()).unwrap();
    file.sync_all().unwrap();
    for size in SIZES {
        let expected = root(text.chunks(size).map(digest).collect());
        for cold in [0..0, 0..u64::MAX, 3 << 20..7 << 20] {
            for way in ways(scratch.path()) {
                let _ = drop_pages(&file, cold.clone());
                let context = format!("blocks of {size}, {cold:?} cold, {way:?}");
                assert_eq!(merkle(way.clone().block(size)), expected, "{context}");
                let _ = drop_pages(&file, cold.clone());
                let (mut leaves, mapped) = (Vec::new(), way.block(size).map(digest));
                mapped.in_order(|leaf| Ok(leaves.push(leaf))).unwrap();
                assert_eq!(root(leaves), expected, "{context}");
            }
        }
    }
}

#[test]
fn direct_reads_have_the_blocks_asked_for() {
    let text: Vec<u8> = (0..3u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let scratch = ScratchFile::new(&text);
    let expected = |size| root(text.chunks(size).map(digest).collect());
    for size in [1000, 4096, 99_991] {
        for way in ways(scratch.path()) {
            match IoFile::open(scratch.path(), Access::Direct) {
                Err(error) => return skipped("direct_reads_have_the_blocks_asked_for", error),
                Ok(_) if way.options.method.is_some_and(|method| !method.kind.uses_buffers()) => {}
                Ok(_) => {
                    assert_eq!(
                        merkle(way.clone().access(Access::Direct).block(size)),
                        expected(size),
                        "{way:?}"
                    )
                }
            }
        }
    }
}

#[test]
fn a_block_without_a_size_has_an_offset_and_no_number() {
    let scratch = ScratchFile::new(b"text");
    let read = || blocked_read(scratch.path());
    assert_eq!(read().map_blocks(|block| block.offset()).reduce(9, |first, _| first).unwrap().0, 0);
    let error = read().map_blocks(|block| block.number()).reduce(9, |first, _| first).unwrap_err();
    assert!(error.to_string().contains("blocks have numbers if their size was set"), "{error}");
}
