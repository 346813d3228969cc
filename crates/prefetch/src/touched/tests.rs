use super::*;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// A program that touches granules in an order, computing on each, with a follower that polls. Times are in
/// microseconds.
struct Run {
    /// The granules that each thread touches, in its order.
    threads: Vec<Vec<usize>>,
    length: usize,
    compute: u64,
    latency: u64,
    /// Time to transfer a granule.
    transfer: u64,
    window: usize,
}

/// Result of a run.
#[derive(Debug)]
struct Outcome {
    elapsed: u64,
    counts: Counts,
}

/// Requests at a time.
const FETCHES_MAX: usize = 32;
/// Time between two polls.
const POLL_PERIOD: u64 = 1000;
/// Polls from one scan of everything to the next.
const FULL_SCAN_POLLS: u64 = 10;
/// Granules that a fault brings: the kernel's read-around.
const FAULT_GRANULES: usize = 2;

impl Run {
    fn new(length: usize, threads: Vec<Vec<usize>>) -> Run {
        Run { threads, length, compute: 25, latency: 5000, transfer: 65, window: 16_384 }
    }

    fn needed(&self) -> usize {
        let mut needed = vec![false; self.length];
        self.threads.iter().flatten().for_each(|&granule| needed[granule] = true);
        needed.iter().filter(|needed| **needed).count()
    }

    /// The time that the needed bytes take by themselves with all requests side by side, then the computing.
    fn bound(&self) -> u64 {
        let longest = self.threads.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let needed = self.needed() as u64;
        let rounds = needed.div_ceil(FETCH_GRANULES as u64 * FETCHES_MAX as u64);
        (rounds * self.latency).max(needed * self.transfer) + longest * self.compute
    }

    fn execute(&self, is_helped: bool) -> Outcome {
        let mut file = TouchedFile::new(self.length);
        // When each granule is in memory; 0 if it was not requested.
        let mut arrives = vec![0u64; self.length];
        let mut device_free = 0u64;
        let mut request = |now: u64, part: Range<usize>, arrives: &mut Vec<u64>| -> u64 {
            let mut end = now;
            for granule in part {
                if arrives[granule] == 0 {
                    device_free = device_free.max(now) + self.transfer;
                    arrives[granule] = (now + self.latency).max(device_free);
                }
                end = end.max(arrives[granule]);
            }
            end
        };
        let mut at = vec![(0usize, 0u64); self.threads.len()];
        let mut seen = vec![false; self.length];
        let mut touched_at = vec![u64::MAX; self.length];
        let mut fetches: Vec<u64> = Vec::new();
        let mut now = 0;
        while at.iter().zip(&self.threads).any(|((place, _), order)| *place < order.len()) {
            // The program runs until this poll.
            let until = now + POLL_PERIOD;
            for ((place, ready), order) in at.iter_mut().zip(&self.threads) {
                while *place < order.len() && *ready <= until {
                    let granule = order[*place];
                    let arrived =
                        request(*ready, granule..(granule + 1).min(self.length), &mut arrives).max(*ready);
                    if arrived > *ready {
                        let around = (granule + 1..(granule + FAULT_GRANULES).min(self.length)).start;
                        request(*ready, around..(granule + FAULT_GRANULES).min(self.length), &mut arrives);
                    }
                    if arrived > until {
                        *ready = arrived;
                        break;
                    }
                    touched_at[granule] = touched_at[granule].min(arrived);
                    *ready = arrived + self.compute;
                    *place += 1;
                }
            }
            now = until;
            if is_helped {
                let parts = file.begin_poll(file.poll.is_multiple_of(FULL_SCAN_POLLS));
                for granule in parts.into_iter().flatten() {
                    if !seen[granule] && touched_at[granule] <= now {
                        seen[granule] = true;
                        file.touch(granule..granule + 1);
                    }
                }
                file.end_poll();
                fetches.retain(|&end| end > now);
                while fetches.len() < FETCHES_MAX
                    && let Some(part) = file.next_fetch(self.window)
                {
                    fetches.push(request(now, part, &mut arrives));
                }
            }
        }
        let elapsed = at.iter().map(|&(_, ready)| ready).max().unwrap_or(0);
        Outcome { elapsed, counts: file.counts() }
    }

    /// Asserts that the helped program takes at most `factor` times the bound, and that at most `waste` times the
    /// needed granules are requested.
    fn check(&self, name: &str, factor: f64, waste: f64) {
        let (alone, helped) = (self.execute(false), self.execute(true));
        let (bound, needed) = (self.bound(), self.needed());
        let told = format!(
            "{name}: alone {} ms, helped {} ms, bound {} ms; {needed} needed, {:?}",
            alone.elapsed / 1000,
            helped.elapsed / 1000,
            bound / 1000,
            helped.counts
        );
        assert!(helped.elapsed as f64 <= factor * bound as f64, "{told}");
        assert!(helped.counts.requested as f64 <= waste * needed as f64, "{told}");
    }
}

const LENGTH: usize = 4096;

fn shuffled<T>(mut items: Vec<T>, seed: u64) -> Vec<T> {
    let mut random = Pcg64::seed_from_u64(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    items
}

fn pieces(size: usize, every: usize) -> Vec<Vec<usize>> {
    (0..LENGTH).step_by(every).map(|start| (start..(start + size).min(LENGTH)).collect()).collect()
}

#[test]
fn orders_of_a_dense_file_come_near_the_bound() {
    let in_order: Vec<usize> = (0..LENGTH).collect();
    Run::new(LENGTH, vec![in_order.clone()]).check("in order", 1.3, 1.05);
    Run::new(LENGTH, vec![in_order.iter().rev().copied().collect()]).check("backward", 1.3, 1.1);
    // Shuffled pieces of half a megabyte look like random reads until most of the file is touched.
    for (size, factor) in [(8, 16.0), (16, 5.0), (40, 1.8), (64, 1.3), (200, 1.3)] {
        let reversed: Vec<usize> = pieces(size, size).into_iter().rev().flatten().collect();
        Run::new(LENGTH, vec![reversed]).check(&format!("pieces of {size} backward"), 1.6, 1.2);
        for seed in 0..5 {
            let order = shuffled(pieces(size, size), seed).concat();
            Run::new(LENGTH, vec![order]).check(&format!("pieces of {size} shuffled"), factor, 1.1);
        }
    }
    let (low, high) = in_order.split_at(LENGTH / 2);
    Run::new(LENGTH, vec![low.to_vec(), high.to_vec()]).check("two threads", 1.5, 1.1);
}

#[test]
fn slices_are_fetched_without_what_is_between_them() {
    // Gaps of more than 4 MiB are not recognized; then little is wasted. A long period is known late.
    for (size, every, factor) in [(2, 4, 1.3), (8, 32, 4.0), (3, 24, 9.0), (32, 64, 1.5), (16, 128, 28.0)] {
        let slices = pieces(size, every);
        Run::new(LENGTH, vec![slices.concat()]).check(&format!("{size} of {every}"), factor, 1.3);
        let reversed: Vec<usize> = slices.into_iter().rev().flatten().collect();
        Run::new(LENGTH, vec![reversed]).check(&format!("{size} of {every} backward"), factor, 1.6);
    }
}

#[test]
fn a_sparse_random_reader_is_left_alone() {
    for seed in 0..20 {
        let order: Vec<usize> = shuffled((0..65_536).collect(), seed).into_iter().take(655).collect();
        let run = Run::new(65_536, vec![order]);
        let (alone, helped) = (run.execute(false), run.execute(true));
        assert!(helped.counts.requested * 20 <= helped.counts.touched, "{:?}", helped.counts);
        assert!(helped.elapsed <= alone.elapsed + alone.elapsed / 100);
    }
}

#[test]
fn a_program_that_stops_has_earned_what_is_wasted() {
    for stop in [3, 10, 64, 300, 1000] {
        let run = Run::new(LENGTH, vec![(0..stop).collect()]);
        let counts = run.execute(true).counts;
        assert!(
            counts.ahead() <= FIRST_CREDIT_GRANULES + 3 * counts.used / 2 + FETCH_GRANULES,
            "{stop}: {counts:?}"
        );
    }
}

#[test]
fn the_window_is_never_exceeded() {
    let mut run = Run::new(LENGTH, vec![(0..LENGTH).collect()]);
    run.window = 100;
    let helped = run.execute(true);
    assert!(helped.counts.requested <= LENGTH);
    assert!(helped.elapsed < run.execute(false).elapsed);
}

proptest! {
    /// Whatever is touched: each granule is requested once at most and never after it was touched, within the window.
    #[test]
    fn any_touches_give_requests_of_untouched_granules_within_the_window(
        length in 1..2000usize,
        touches in prop::collection::vec((any::<prop::sample::Index>(), 1..100usize, 0..4u8), 1..200),
        window in 0..600usize,
    ) {
        let mut file = TouchedFile::new(length);
        let mut touched = vec![false; length];
        let mut requested = vec![false; length];
        for (index, count, kind) in touches {
            let parts = file.begin_poll(kind == 0);
            prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= length));
            prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start));
            let start = index.index(length);
            let end = (start + count).min(length);
            file.touch(start..end);
            touched[start..end].fill(true);
            file.end_poll();
            for _ in 0..count {
                let before = file.counts().ahead();
                let Some(part) = file.next_fetch(window) else { break };
                prop_assert!(before < window);
                prop_assert!(!part.is_empty() && part.len() <= FETCH_GRANULES);
                for granule in part {
                    prop_assert!(!touched[granule] && !requested[granule]);
                    requested[granule] = true;
                }
            }
        }
        let count = |of: &[bool]| of.iter().filter(|is| **is).count();
        prop_assert_eq!(file.counts().touched, count(&touched));
        prop_assert_eq!(file.counts().requested, count(&requested));
        let used = touched.iter().zip(&requested).filter(|(touched, requested)| **touched && **requested).count();
        prop_assert_eq!(file.counts().used, used);
    }
}

#[test]
fn all_of_a_requested_range_is_fetched_once_and_within_the_window() {
    let mut file = TouchedFile::new(1000);
    file.touch(100..110);
    let mut parts = Vec::new();
    while let Some(part) = file.next_requested(50..300, usize::MAX) {
        assert!(part.len() <= FETCH_GRANULES, "{part:?}");
        parts.push(part);
    }
    let fetched: Vec<usize> = parts.into_iter().flatten().collect();
    let expected: Vec<usize> = (50..100).chain(110..300).collect();
    assert_eq!(fetched, expected);
    assert_eq!(file.next_requested(290..320, 241), Some(300..301), "one granule of the window is left");
    assert_eq!(file.next_requested(290..320, 241), None);
    file.touch(50..300);
    assert_eq!(file.next_requested(990..usize::MAX, 241), Some(990..994.min(990 + FETCH_GRANULES)));
    assert_eq!(file.next_requested(2000..3000, 241), None, "beyond the end");
}
