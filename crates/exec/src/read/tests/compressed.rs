//! Compressed inputs are read as their content is, and compressed results are their content.

use std::ops::ControlFlow;

use flate2::Crc;
use flate2::write::{DeflateEncoder, GzEncoder};

use sakiyomi_testing::Scratch;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(1));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A block as `bgzip` writes it.
fn bgzf_block(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::new(1));
    encoder.write_all(bytes).unwrap();
    let deflated = encoder.finish().unwrap();
    let mut checksum = Crc::new();
    checksum.update(bytes);
    let size = (18 + deflated.len() + 8 - 1) as u16;
    let mut block = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0];
    block.extend(size.to_le_bytes());
    block.extend(deflated);
    block.extend(checksum.sum().to_le_bytes());
    block.extend((bytes.len() as u32).to_le_bytes());
    block
}

fn bgzf(bytes: &[u8], size: usize) -> Vec<u8> {
    let blocks = bytes.chunks(size).flat_map(bgzf_block);
    blocks.chain(bgzf_block(b"")).collect()
}

fn zstd_frames(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.chunks(size).flat_map(|part| zstd::bulk::compress(part, 1).unwrap()).collect()
}

/// A frame that does not state its size, as of a stream.
fn zstd_stream(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}

/// A frame without content, as `pzstd` writes it.
fn skippable() -> Vec<u8> {
    vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]
}

/// Ways of packing a text.
fn packed(text: &[u8], size: usize) -> Vec<(&'static str, Vec<u8>)> {
    let half = text.len() / 2;
    let (first, rest) = text.split_at(half);
    let members: Vec<u8> = text.chunks(size).flat_map(gzip).collect();
    vec![
        ("one member", gzip(text)),
        ("members", members),
        ("BGZF", bgzf(text, size.min(60_000))),
        ("BGZF, then a member", [bgzf(first, size.min(60_000)), gzip(rest)].concat()),
        ("frames", zstd_frames(text, size)),
        ("a frame without a size", zstd_stream(text)),
        ("frames, then one without a size", [zstd_frames(first, size), zstd_stream(rest)].concat()),
        (
            "frames without content",
            [skippable(), zstd_frames(first, size), skippable(), zstd_frames(rest, size)].concat(),
        ),
    ]
}

fn text(lines: u32) -> Vec<u8> {
    (0..lines)
        .flat_map(|number| format!("{number}:{}\n", number.wrapping_mul(2_654_435_761)).into_bytes())
        .collect()
}

/// The blocks of a read with their offsets.
fn blocks(read: BlockedRead) -> Vec<(u64, u64, Vec<u8>)> {
    let seen = |block: Block<'_>| vec![(block.number(), block.offset(), block.to_vec())];
    read.map_blocks(seen).reduce(Vec::new(), |first, next| [first, next].concat()).unwrap().0
}

#[test]
fn blocks_of_the_content_are_exact() {
    for lines in [0, 1, 3000, 200_000] {
        let text = text(lines);
        for (how, packed) in packed(&text, 50_000) {
            let scratch = ScratchFile::new(&packed);
            let read = || blocked_read(scratch.path()).threads(2).decompressed();
            for size in [7001, 99_991, 64 << 20] {
                let expected = text.chunks(size).enumerate();
                let expected: Vec<_> = expected
                    .map(|(number, bytes)| (number as u64, (number * size) as u64, bytes.to_vec()))
                    .collect();
                assert!(blocks(read().block(size)) == expected, "{how}: {lines} lines, blocks of {size}");
            }
            let (mut written, mut streamed) = (Vec::new(), Vec::new());
            let report = read().records(b'\n').map(<[u8]>::to_vec).write_ordered(&mut written).unwrap();
            assert!(written == text, "{how}");
            assert_eq!(report.bytes, text.len() as u64);
            let reader = blocked_reader("packed", Cursor::new(&packed)).decompressed();
            reader.map(<[u8]>::to_vec).write_ordered(&mut streamed).unwrap();
            assert!(streamed == text, "{how}");
        }
    }
}

#[test]
fn other_files_are_read_as_they_are() {
    let (text, few) = (text(200_000), b"ab\n");
    let scratch = [
        ScratchFile::new(&text),
        ScratchFile::new(few),
        ScratchFile::new(gzip(&text)),
        ScratchFile::new(b""),
    ];
    let read = || blocked_reads(scratch.iter().map(ScratchFile::path)).decompressed();
    let mut lengths = Vec::new();
    let each = |_: usize, length: Result<(usize, Report), Error>| {
        lengths.push(length.unwrap().0);
        Ok(())
    };
    read().map(<[u8]>::len).reduce_each(|| 0, |first, next| first + next, each).unwrap();
    assert_eq!(lengths, [text.len(), few.len(), text.len(), 0]);
    lengths.clear();
    let each = |_: usize, length: Result<(usize, Report), Error>| {
        lengths.push(length.unwrap().0);
        Ok(())
    };
    read().range(1..9).map(<[u8]>::len).reduce_each(|| 0, |first, next| first + next, each).unwrap();
    assert_eq!(lengths, [8, 2, 8, 0]);
}

#[test]
fn a_range_is_one_of_the_content() {
    let text = text(200_000);
    let end = text.len() as u64;
    let ranges = [
        0..1,
        0..end,
        1..2,
        49_999..50_001,
        1_234_567..1_300_000,
        end - 1..u64::MAX,
        end..end + 5,
        1 << 60..u64::MAX,
    ];
    for (how, packed) in packed(&text, 50_000) {
        let scratch = ScratchFile::new(&packed);
        for range in ranges.clone() {
            let part = &text[range.start.min(end) as usize..range.end.min(end) as usize];
            let read = || blocked_read(scratch.path()).threads(2).decompressed().range(range.clone());
            let expected = part.chunks(7001).enumerate();
            let expected: Vec<_> = expected
                .map(|(number, bytes)| (number as u64, range.start + number as u64 * 7001, bytes.to_vec()))
                .collect();
            assert!(blocks(read().block(7001)) == expected, "{how}: {range:?}");
            let (mut written, mut streamed) = (Vec::new(), Vec::new());
            read().map(<[u8]>::to_vec).write_ordered(&mut written).unwrap();
            assert!(written == part, "{how}: {range:?}");
            // Of a pipe, small and large ones.
            let whole = blocked_read("pipe").decompressed().range(range.clone()).map(<[u8]>::to_vec);
            let (from, mut to) = io::pipe().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // The reader may have enough.
                    let _ = to.write_all(&packed);
                    drop(to);
                });
                let take = |bytes: Vec<u8>| {
                    streamed.extend(bytes);
                    Ok(())
                };
                whole.in_order_file(OwnedFd::from(from).into(), take).unwrap();
            });
            assert!(streamed == part, "{how}: {range:?}");
        }
    }
}

#[test]
fn a_range_of_a_pipe_is_refused_in_a_sentence_unless_it_is_decompressed() {
    for length in [3, 1_000_000] {
        for read in [blocked_read("pipe"), blocked_read("pipe").decompressed()] {
            let (from, mut to) = io::pipe().unwrap();
            let writer = std::thread::spawn(move || to.write_all(&vec![7; length]));
            let mapped = read.range(1..9).map(<[u8]>::to_vec);
            let error = mapped.in_order_file(OwnedFd::from(from).into(), |_| Ok(())).unwrap_err();
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert_eq!(
                source,
                "a range of an input without offsets, such as a pipe, cannot be read; read all of it"
            );
            let _ = writer.join().unwrap();
        }
    }
}

/// The `.gzi` file of blocks of this size.
fn gzi(packed: &[u8], size: u64) -> Vec<u8> {
    let (mut entries, mut at) = (Vec::new(), 0);
    while at < packed.len() {
        entries.push(at as u64);
        at += usize::from(u16::from_le_bytes([packed[at + 16], packed[at + 17]])) + 1;
    }
    // Neither the first block nor the empty one at the end has an entry.
    let entries = &entries[1..entries.len() - 1];
    let mut index = (entries.len() as u64).to_le_bytes().to_vec();
    for (number, at) in (1..).zip(entries) {
        index.extend([*at, number * size].iter().flat_map(|number| number.to_le_bytes()));
    }
    index
}

/// Frames with a seek table, as the seekable format of Zstandard has it.
fn seekable(bytes: &[u8], size: usize, has_checksums: bool) -> Vec<u8> {
    let (mut packed, mut entries, mut count) = (Vec::new(), Vec::new(), 0_u32);
    for part in bytes.chunks(size) {
        let frame = zstd::bulk::compress(part, 1).unwrap();
        entries
            .extend([frame.len() as u32, part.len() as u32].iter().flat_map(|number| number.to_le_bytes()));
        entries.extend(has_checksums.then_some([1, 2, 3, 4]).into_iter().flatten());
        packed.extend(frame);
        count += 1;
    }
    packed.extend([0x5e, 0x2a, 0x4d, 0x18]);
    packed.extend((entries.len() as u32 + 9).to_le_bytes());
    packed.extend(entries);
    packed.extend(count.to_le_bytes());
    packed.push(if has_checksums { 0x80 } else { 0 });
    packed.extend([0xb1, 0xea, 0x92, 0x8f]);
    packed
}

/// Reads a range of a file.
fn ranged(path: &Path, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let read = blocked_read(path).decompressed().range(range).map(<[u8]>::to_vec);
    read.reduce(Vec::new(), concatenated).map(|(bytes, _)| bytes)
}

#[test]
fn a_range_of_a_file_with_an_index_is_read_without_the_parts_before_it() {
    let text = text(100_000);
    let (size, end) = (50_000, text.len() as u64);
    let directory = Scratch::new("indexed");
    let blocks = bgzf(&text, size);
    directory.file("blocks.gz.gzi", gzi(&blocks, size as u64));
    for (name, mut packed) in [
        ("blocks.gz", blocks),
        ("frames.zst", seekable(&text, size, false)),
        ("checked.zst", seekable(&text, size, true)),
    ] {
        let path = directory.file(name, &packed);
        for range in [0..5, 100_000..100_001, 99_999..300_000, end - 3..end + 9, end + 1..end + 2] {
            let part = &text[range.start.min(end) as usize..range.end.min(end) as usize];
            assert!(ranged(&path, range.clone()).unwrap() == part, "{name}: {range:?}");
        }
        // The bytes between the beginning and the range are not read.
        packed[30..size / 8].fill(0xff);
        let path = directory.file(name, &packed);
        assert!(ranged(&path, 700_000..end).unwrap() == text[700_000..], "{name}");
        ranged(&path, 0..end).unwrap_err();
    }
}

#[test]
fn an_index_that_is_not_that_of_the_file_is_refused_in_a_sentence() {
    let text = text(100_000);
    let directory = Scratch::new("wrong-index");
    let blocks = bgzf(&text, 50_000);
    let path = directory.file("blocks.gz", &blocks);
    let index = gzi(&blocks, 50_000);
    let mut moved = index.clone();
    moved[24] ^= 1;
    let mut falling = index.clone();
    falling[24..32].fill(0);
    for wrong in [&index[..index.len() - 1], &[], &[1, 0, 0], &moved, &falling, &[0xff; 24]] {
        directory.file("blocks.gz.gzi", wrong);
        let error = ranged(&path, 120_000..120_001).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            source.ends_with(".gzi is not the index of this file; remove it, or write it anew by `bgzip -r`")
        );
        // It is not needed for the beginning.
        assert_eq!(ranged(&path, 0..5).unwrap(), text[..5]);
    }
    let packed = seekable(&text, 50_000, false);
    let table_at = packed.len() - 9 - 8 * text.len().div_ceil(50_000) - 8;
    let mut changes = vec![packed.clone(); 4];
    changes[0][table_at] ^= 1;
    changes[1][table_at + 4] ^= 1;
    changes[2][table_at + 8] ^= 1;
    let count_at = packed.len() - 9;
    changes[3][count_at..count_at + 4].fill(0xff);
    for wrong in changes {
        let path = directory.file("frames.zst", wrong);
        let error = ranged(&path, 120_000..120_001).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(
            source,
            "the seek table at its end is damaged; read all of the file, or compress it again"
        );
    }
}

#[test]
fn damage_is_an_error_behind_what_was_decoded() {
    let text = text(200_000);
    for (how, packed) in packed(&text, 50_000) {
        let cut = packed[..packed.len() * 3 / 4].to_vec();
        let mut changed = packed.clone();
        let at = changed.len() * 3 / 4;
        changed[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
        for damaged in [cut, changed] {
            let scratch = ScratchFile::new(&damaged);
            let mut given = Vec::new();
            let read = blocked_read(scratch.path()).decompressed();
            let ended = read.records(b'\n').map(<[u8]>::to_vec).in_order(|lines| {
                given.extend(lines);
                Ok(())
            });
            // A frame without a checksum may be changed unseen.
            match ended {
                Err(Error::Stream { .. }) => {
                    assert!(text.starts_with(&given) || how.contains("frame"), "{how}");
                }
                Ok(_) => assert!(how.contains("frame"), "{how}"),
                Err(error) => panic!("{how}: {error}"),
            }
        }
    }
}

#[test]
fn decoding_stops_when_no_more_is_wanted() {
    let text = text(400_000);
    for (how, packed) in packed(&text, 50_000) {
        let scratch = ScratchFile::new(&packed);
        let read = || blocked_read(scratch.path()).decompressed().block(10_000);
        let found = |block: Block<'_>| (block.number() == 3).then_some(3);
        assert_eq!(read().map_blocks(found).find_first().unwrap().0, Some(3), "{how}");
        let stop = |_, _| ControlFlow::<(), usize>::Break(());
        assert_eq!(read().map(<[u8]>::len).try_reduce(0, stop).unwrap().0, ControlFlow::Break(()), "{how}");
    }
}

#[test]
fn a_pipe_whose_writer_is_slow_is_recognized() {
    let text = text(30_000);
    for (how, packed) in packed(&text, 50_000) {
        let (read, mut write) = io::pipe().unwrap();
        let mut given = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The first bytes one by one, so that the reader sees too few of them.
                let (first, rest) = packed.split_at(30);
                for byte in first {
                    write.write_all(&[*byte]).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
                write.write_all(rest).unwrap();
                drop(write);
            });
            let mapped = blocked_read("-").decompressed().map(<[u8]>::to_vec);
            mapped
                .in_order_file(OwnedFd::from(read).into(), |bytes| {
                    given.extend(bytes);
                    Ok(())
                })
                .unwrap();
        });
        assert!(given == text, "{how}");
    }
}

#[test]
fn compressed_results_are_their_content() {
    let text = text(200_000);
    let scratch = ScratchFile::new(&text);
    for compression in [Compression::GZIP, Compression::ZSTD, Compression::Zstd(-1), Compression::Gzip(1)] {
        let written = || {
            let mut written = Vec::new();
            let results =
                blocked_read(scratch.path()).block(100_000).map(<[u8]>::to_vec).compressed(compression);
            results.write_ordered(&mut written).unwrap();
            written
        };
        let first = written();
        assert!(first == written(), "the same in each run");
        let packed = ScratchFile::new(&first);
        let (read, _) = blocked_read(packed.path())
            .decompressed()
            .map(<[u8]>::to_vec)
            .reduce(Vec::new(), concatenated)
            .unwrap();
        assert!(read == text, "{compression:?}");
    }
}

proptest! {
    #[test]
    fn noise_is_refused_and_nothing_panics(
        mut noise in prop::collection::vec(any::<u8>(), 0..200), beginning in 0usize..4,
    ) {
        let beginnings: [&[u8]; 4] = [&[0x1f, 0x8b, 8], &bgzf_block(b"text"), &[0x28, 0xb5, 0x2f, 0xfd], &skippable()];
        noise.splice(0..0, beginnings[beginning].iter().copied());
        let read = || blocked_reader("noise", Cursor::new(&noise)).decompressed();
        let _ = read().map(<[u8]>::to_vec).reduce(Vec::new(), concatenated);
        // By units, as of a large file.
        let long: Vec<u8> = noise.iter().copied().cycle().take(300_000).collect();
        let read = blocked_reader("noise", Cursor::new(&long)).decompressed();
        let _ = read.map(<[u8]>::to_vec).reduce(Vec::new(), concatenated);
    }
}
