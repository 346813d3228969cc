//! Compressed inputs are read as their content is, and compressed results are their content.

use std::ops::ControlFlow;

use flate2::Crc;
use flate2::write::{DeflateEncoder, GzEncoder};

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
    let error = read().range(1..9).map(<[u8]>::len).reduce(0, |first, next| first + next).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "a range of a compressed file cannot be read; read all of it");
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
            let ended = read.records(b'\n').map(<[u8]>::to_vec).in_order(|lines| Ok(given.extend(lines)));
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
