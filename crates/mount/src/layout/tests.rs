//! Compares the layout with a plain map of every block of a small drive.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sakiyomi_model::Bytes;

use super::*;

const BLOCKS: u64 = 96;
const FILE_BLOCKS: u64 = 48;
const SECTOR: Bytes = Bytes(512);

fn id(file: u8) -> FileId {
    FileId { device: 0, inode: u64::from(file) }
}

#[derive(Clone, Debug)]
enum Step {
    Place { file: u8, offset: u64, length: u64 },
    Truncate { file: u8, size: u64 },
    Punch { file: u8, offset: u64, length: u64 },
    Remove { file: u8 },
    Settle { file: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = 0..FILE_BLOCKS * BLOCK_BYTES / 2;
    let length = prop_oneof![0..3 * BLOCK_BYTES, 0..FILE_BLOCKS * BLOCK_BYTES / 2];
    prop_oneof![
        4 => (0u8..4, bytes.clone(), length.clone())
            .prop_map(|(file, offset, length)| Step::Place { file, offset, length }),
        1 => (0u8..4, bytes.clone()).prop_map(|(file, size)| Step::Truncate { file, size }),
        1 => (0u8..4, bytes, length)
            .prop_map(|(file, offset, length)| Step::Punch { file, offset, length }),
        1 => (0u8..4).prop_map(|file| Step::Remove { file }),
        1 => (0u8..4).prop_map(|file| Step::Settle { file }),
    ]
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![Just(Placement::Contiguous), (1u64..8).prop_map(|piece| Placement::Scattered { piece }),]
}

/// The reference: the place of each block of each file.
#[derive(Default)]
struct Naive(BTreeMap<(u8, u64), u64>);

impl Naive {
    fn missing(&self, file: u8, range: Range<u64>) -> Vec<u64> {
        range.filter(|&block| !self.0.contains_key(&(file, block))).collect()
    }

    fn drop_if(&mut self, gone: impl Fn(u8, u64) -> bool) {
        self.0.retain(|&(file, block), _| !gone(file, block));
    }
}

fn apply(layout: &mut Layout, naive: &mut Naive, step: &Step) -> Result<(), TestCaseError> {
    match *step {
        Step::Place { file, offset, length } => {
            let missing = naive.missing(file, blocks_touched(offset, length));
            let placed = layout.place(id(file), offset, length);
            prop_assert_eq!(placed.is_ok(), missing.len() as u64 <= BLOCKS - naive.0.len() as u64);
            if placed.is_ok() {
                // The layout chooses the place; it must not change afterwards.
                for block in missing {
                    let extents: Vec<_> = layout
                        .extents(id(file), block * BLOCK_BYTES, BLOCK_BYTES, Bytes(BLOCK_BYTES))
                        .collect();
                    prop_assert_eq!(extents.len(), 1);
                    naive.0.insert((file, block), extents[0].start.0);
                }
            }
        }
        Step::Truncate { file, size } => {
            layout.truncate(id(file), size);
            naive.drop_if(|of, block| of == file && block * BLOCK_BYTES >= size);
        }
        Step::Punch { file, offset, length } => {
            layout.punch(id(file), offset, length);
            naive.drop_if(|of, block| {
                of == file && block * BLOCK_BYTES >= offset && (block + 1) * BLOCK_BYTES <= offset + length
            });
        }
        Step::Remove { file } => {
            layout.remove(id(file));
            naive.drop_if(|of, _| of == file);
        }
        Step::Settle { file } => layout.settle(id(file)),
    }
    Ok(())
}

/// Checks that every block is where it was placed, no block is used twice, and all others are free.
fn compare(layout: &Layout, naive: &Naive) -> Result<(), TestCaseError> {
    prop_assert_eq!(layout.free_blocks(), BLOCKS - naive.0.len() as u64);
    let mut taken = vec![false; BLOCKS as usize];
    for placed in layout.files.values() {
        for (_, run) in placed.pieces.runs_in(0..u64::MAX) {
            for block in run.start..run.end() {
                prop_assert!(!std::mem::replace(&mut taken[block as usize], true), "block {} twice", block);
            }
        }
    }
    let free = taken.iter().filter(|&&taken| !taken).count() as u64;
    prop_assert_eq!(free, layout.free.blocks());
    for (&(file, block), &place) in &naive.0 {
        let extents: Vec<_> =
            layout.extents(id(file), block * BLOCK_BYTES, BLOCK_BYTES, Bytes(BLOCK_BYTES)).collect();
        prop_assert_eq!(extents, vec![Extent::new(Lba(place), Sectors(1))]);
    }
    Ok(())
}

proptest! {
    #[test]
    fn places_are_those_of_a_plain_map_of_blocks(
        steps in proptest::collection::vec(step(), 1..60), placement in placement(), seed: u64,
    ) {
        let mut layout = Layout::new(Bytes(BLOCKS * BLOCK_BYTES), placement, seed);
        let mut naive = Naive::default();
        for step in &steps {
            apply(&mut layout, &mut naive, step)?;
            compare(&layout, &naive)?;
        }
    }

    #[test]
    fn what_is_stored_is_loaded(
        steps in proptest::collection::vec(step(), 1..60), placement in placement(), seed: u64,
    ) {
        let mut layout = Layout::new(Bytes(BLOCKS * BLOCK_BYTES), placement, seed);
        let mut naive = Naive::default();
        for step in &steps {
            apply(&mut layout, &mut naive, step)?;
        }
        let mut text = Vec::new();
        layout.store(&mut text).unwrap();
        let mut again = Layout::new(Bytes(BLOCKS * BLOCK_BYTES), placement, seed);
        again.load(text.as_slice()).unwrap();
        compare(&again, &naive)?;
        let mut text_again = Vec::new();
        again.store(&mut text_again).unwrap();
        prop_assert_eq!(text, text_again);
    }

    #[test]
    fn any_text_is_loaded_or_refused_without_panic(lines in "(file [0-9] [0-9]\n|[0-9]{1,2} [0-9]{1,2} [0-9]\n|.*\n){0,9}") {
        let mut layout = Layout::new(Bytes(BLOCKS * BLOCK_BYTES), Placement::Contiguous, 0);
        let _ = layout.load(format!("sakiyomi layout 1\nblocks {BLOCKS}\n{lines}").as_bytes());
        let _ = layout.load(lines.as_bytes());
    }

    #[test]
    fn extents_hold_just_the_sectors_of_the_bytes(offset in 0u64..40_000, length in 1u64..40_000) {
        let mut layout = Layout::new(Bytes(1 << 20), Placement::Contiguous, 0);
        layout.place(id(1), 0, 80_000).unwrap();
        let extents: Vec<_> = layout.extents(id(1), offset, length, SECTOR).collect();
        prop_assert_eq!(extents.len(), 1);
        prop_assert_eq!(extents[0].start.0, offset / 512);
        prop_assert_eq!(extents[0].end().0, (offset + length).div_ceil(512));
    }
}

fn pieces_of(layout: &Layout, file: u8) -> usize {
    layout.files[&id(file)].pieces.runs_in(0..u64::MAX).count()
}

#[test]
fn files_that_grow_side_by_side_do_not_interleave() {
    let mut layout = Layout::new(Bytes(1 << 30), Placement::Contiguous, 0);
    for step in 0..256u64 {
        for file in 0..4 {
            layout.place(id(file), step * 64 * 1024, 64 * 1024).unwrap();
        }
    }
    for file in 0..4 {
        layout.settle(id(file));
        assert!(pieces_of(&layout, file) <= 12, "{} pieces of 16 MiB", pieces_of(&layout, file));
    }
    assert_eq!(layout.free_blocks(), (1 << 30) / BLOCK_BYTES - 4 * 16 * 256);
}

#[test]
fn a_scattered_file_lies_in_pieces_all_over_the_drive() {
    let mut layout = Layout::new(Bytes(1 << 30), Placement::Scattered { piece: 16 }, 7);
    layout.place(id(1), 0, 64 << 20).unwrap();
    let pieces: Vec<_> = layout.files[&id(1)].pieces.runs_in(0..u64::MAX).collect();
    assert!(pieces.len() > 800, "{}", pieces.len());
    assert!(pieces.iter().all(|(_, run)| run.blocks <= 64));
    let mean = pieces.iter().map(|(_, run)| run.start).sum::<u64>() / pieces.len() as u64;
    assert!((100_000..160_000).contains(&mean), "{mean} of 262144");
}

#[test]
fn a_layout_of_another_drive_is_refused() {
    let mut text = Vec::new();
    Layout::new(Bytes(1 << 20), Placement::Contiguous, 0).store(&mut text).unwrap();
    let mut other = Layout::new(Bytes(1 << 21), Placement::Contiguous, 0);
    assert_eq!(
        other.load(text.as_slice()).unwrap_err().to_string(),
        "the layout is for a drive of 256 blocks, and this one has 512; name the drive that it was created with, or another file"
    );
    let error = other.load(&b"sakiyomi layout 1\nblocks 512\n3 4 5\n"[..]).unwrap_err().to_string();
    assert_eq!(error, "line 3 of the layout belongs to no file; remove the file to start with a new one");
}
