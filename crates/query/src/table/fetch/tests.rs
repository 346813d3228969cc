//! Tests of fetching while the caller holds most of the memory.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::page_cache::residency;
use sakiyomi_io::{Access, BufferPool, EngineKind, EngineSpec, Io, IoOptions, Memory};
use sakiyomi_testing::Scratch;

use super::*;
use crate::JobOptions;

const RANGE_BYTES: u64 = 64 << 10;
const SPLIT_COUNT: usize = 24;
const SPLIT_RANGES: u64 = 4;
const BUDGET_BYTES: usize = 1 << 20;

/// The bytes of a range, which has a number of its own.
fn content(range: Range<u64>) -> Vec<u8> {
    vec![(range.start / RANGE_BYTES) as u8; RANGE_BYTES as usize]
}

fn ranges_of(split: usize) -> Vec<Range<u64>> {
    let start = split as u64 * SPLIT_RANGES * RANGE_BYTES;
    (0..SPLIT_RANGES).map(|at| start + at * RANGE_BYTES..start + (at + 1) * RANGE_BYTES).collect()
}

fn contents() -> Vec<u8> {
    (0..SPLIT_COUNT).flat_map(ranges_of).flat_map(content).collect()
}

/// A table on a disk that is read with direct transfers.
fn on_fake_disk() -> (Job, Source) {
    let disk = FakeDisk::default();
    let source = Source::unnamed(std::path::Path::new("table"), disk.file(contents(), 512).unwrap());
    let pool = BufferPool::with_budget(BUDGET_BYTES, Memory::Ordinary);
    (Job::over(JobOptions::default(), Io::over(disk.engine(4, Faults::default()), pool)), source)
}

/// Fetches all splits and checks their bytes; `keep` gives the number of splits whose bytes are kept for a while.
/// Returns the number of splits that were left to windows, and the bytes copied from the page cache.
fn fetch(
    (job, source): (Job, Source),
    share: usize,
    mut keep: impl FnMut() -> usize,
) -> Result<(usize, u64), Error> {
    let splits = (0..SPLIT_COUNT).map(|index| Split { file: 0, index, part: 0 }).collect();
    let ranges: RangesOf = Box::new(|split| Ok(ranges_of(split.index)));
    let shared = Arc::new(Shared::new(vec![source], splits, ranges, 1, share, 64 << 10));
    let mut fetcher = Fetcher::new(&job, &shared, 0)?;
    let (mut held, mut windowed) = (VecDeque::new(), 0);
    for index in 0..SPLIT_COUNT {
        let fetched = match fetcher.next() {
            // Nothing is lost if memory is released after that.
            Err(error) if is_all_held(&error) => {
                held.clear();
                fetcher.next()?
            }
            other => other?,
        };
        let fetched = fetched.expect("a split");
        assert_eq!(fetched.split.index, index);
        windowed += usize::from(fetched.parts.is_none());
        let parts = fetched.parts.unwrap_or_default();
        for (part, range) in parts.iter().zip(ranges_of(index)) {
            assert!(part[..] == content(range), "split {index} has other bytes");
        }
        held.push_back(parts);
        let kept = keep();
        while held.len() > kept {
            held.pop_front();
        }
    }
    assert!(fetcher.next()?.is_none());
    Ok((windowed, fetcher.copied_bytes))
}

/// Numbers of kept splits, and a share, by a seed.
fn random(seed: u64) -> (usize, impl FnMut() -> usize) {
    let mut random = Pcg64::seed_from_u64(seed);
    let share = 1 << (18 + random.next_u64() % 3);
    (share, move || (random.next_u64() % 6) as usize)
}

#[test]
fn splits_have_their_bytes_however_much_the_caller_holds() {
    let mut windowed = 0;
    for seed in 0..24 {
        let (share, keep) = random(seed);
        windowed += fetch(on_fake_disk(), share, keep).unwrap().0;
    }
    assert!(windowed > 0);
}

#[test]
fn splits_in_the_page_cache_are_copied_by_their_worker() {
    let scratch = Scratch::new("fetch_resident");
    let path = scratch.path("table");
    std::fs::write(&path, contents()).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let in_memory = residency(&file, 0..u64::MAX).is_ok_and(|found| found.is_whole());
    let mut copied = 0;
    for seed in 0..24 {
        let (share, keep) = random(seed);
        let job = Job::over(JobOptions::default(), small_io());
        let source = Source::named(&path, Access::Buffered).unwrap();
        let (_, bytes) = fetch((job, source), share, keep).unwrap();
        copied += bytes;
    }
    assert!(copied > 0 || !in_memory);
}

fn small_io() -> Io {
    let engine = EngineSpec::usual(EngineKind::Pread);
    Io::open(&IoOptions { engine, budget: BUDGET_BYTES, memory: Memory::Ordinary }).unwrap()
}
