//! Page faults of fresh memory, and the slowdown of parallel threads.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use sakiyomi_io::{BufferPool, Memory};
use sakiyomi_os::cpu::{self, of_this_thread};
use sakiyomi_os::{allocator, machine};

use super::data::{generator, job, packed_rows};
use super::measure::{Effort, median};
use crate::Error;
use rand_core::Rng;

/// Measured costs of memory and of parallel threads.
pub(super) struct MemoryCosts {
    pub(super) fresh_ns_per_byte: f64,
    pub(super) fresh_heap_ns_per_byte: f64,
    pub(super) start_ns_per_thread: f64,
    pub(super) slowdown: f64,
    pub(super) cores: usize,
}

/// Bytes of memory faulted in.
const FRESH_BYTES: usize = 32 << 20;
/// Measurements of them.
const FRESH_RUNS: usize = 5;
/// Pause before each. A virtual machine that reports free pages gives them back to its host after two seconds
/// (`page_reporting.c`), and their next use takes about ten times longer than that of pages freed just before. A command finds
/// the memory of a machine as it has been for a while.
const FRESH_PAUSE: Duration = Duration::from_millis(2_500);
/// Smallest bytes that a page fault maps.
const PAGE_BYTES: usize = 4096;
/// Jobs that are started, and their memory limit in bytes.
const START_RUNS: usize = 31;
const START_MEMORY_BYTES: usize = 64 << 20;
/// Bytes of the rows of each parallel thread: more than a private cache.
const PARALLEL_BYTES: usize = 8 << 20;
/// Bytes of one of these rows.
const PARALLEL_ROW_BYTES: usize = 64;
/// Rounds of work alone and together in turns; the result is the median of the ratios, because another program or a virtual
/// machine's neighbor disturbs some rounds.
const PARALLEL_ROUNDS: usize = 31;
/// Maximum cores measured at the same time: with this many, memory is shared by all.
const PARALLEL_CORES_MAX: usize = 16;

pub(super) fn measure(effort: Effort) -> Result<MemoryCosts, Error> {
    let (fresh_ns_per_byte, fresh_heap_ns_per_byte) = fresh(effort)?;
    let cores = machine::cores().clamp(1, PARALLEL_CORES_MAX);
    let slowdown = if cores > 1 { slowdown(effort, cores).clamp(1.0, cores as f64) } else { 1.0 };
    let start_ns_per_thread = start(effort, cores)?;
    Ok(MemoryCosts { fresh_ns_per_byte, fresh_heap_ns_per_byte, start_ns_per_thread, slowdown, cores })
}

/// CPU time of the first use of a byte of a buffer and of one that was allocated, in nanoseconds.
fn fresh(effort: Effort) -> Result<(f64, f64), Error> {
    let bytes = effort.amount(FRESH_BYTES);
    let (runs, pause) = match effort {
        Effort::Full => (FRESH_RUNS, FRESH_PAUSE),
        Effort::Glance => (1, Duration::ZERO),
    };
    let (mut buffers, mut heap) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        // Free memory that the allocator kept would have its pages.
        allocator::trim();
        thread::sleep(pause);
        let before = of_this_thread();
        let pool = BufferPool::fixed(1, bytes, Memory::Huge)?;
        let between = of_this_thread();
        let mut memory: Vec<u8> = Vec::with_capacity(bytes);
        memory.spare_capacity_mut().iter_mut().step_by(PAGE_BYTES).for_each(|byte| {
            byte.write(1);
        });
        let after = of_this_thread();
        drop(std::hint::black_box((pool, memory)));
        buffers.push((between - before).as_nanos() as f64 / bytes as f64);
        heap.push((after - between).as_nanos() as f64 / bytes as f64);
    }
    Ok((median(&mut buffers), median(&mut heap)))
}

/// CPU time of a job with a thread per core and its I/O engine that does nothing, per thread, in nanoseconds.
fn start(effort: Effort, cores: usize) -> Result<f64, Error> {
    let before = || cpu::user_and_system_of_this_process();
    let mut times = Vec::new();
    for _ in 0..if effort == Effort::Full { START_RUNS } else { 1 } {
        let (user, system) = before();
        let job = job(START_MEMORY_BYTES, cores)?;
        thread::scope(|scope| {
            (0..cores).for_each(|_| drop(scope.spawn(|| std::hint::black_box(job.available()))));
        });
        drop(job);
        let now = before();
        times.push(((now.0 + now.1).saturating_sub(user + system)).as_nanos() as f64 / cores as f64);
    }
    Ok(median(&mut times))
}

/// Ratio of the CPU time of work on all cores at once to that on one core.
fn slowdown(effort: Effort, cores: usize) -> f64 {
    let rounds = if effort == Effort::Full { PARALLEL_ROUNDS } else { 1 };
    let barrier = Barrier::new(cores);
    let times: Vec<Vec<(f64, f64)>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|number| {
                let barrier = &barrier;
                scope.spawn(move || alone_and_together(effort, number, cores, rounds, barrier))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut ratios: Vec<f64> =
        times.iter().flatten().map(|(alone, together)| together / alone.max(1.0)).collect();
    median(&mut ratios)
}

/// CPU times of this thread's work in each round, in nanoseconds: alone, while the others wait, and together.
fn alone_and_together(
    effort: Effort,
    number: usize,
    cores: usize,
    rounds: usize,
    barrier: &Barrier,
) -> Vec<(f64, f64)> {
    let mut work = ParallelWork::new(effort, number as u64);
    work.run();
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let mut alone = 0.0;
        for turn in 0..cores {
            barrier.wait();
            if turn == number {
                alone = work.run();
            }
        }
        barrier.wait();
        times.push((alone, work.run()));
    }
    times
}

/// Work like that of operators, half compute-bound and half memory-bound: gathers rows in random order and hashes their
/// bytes.
struct ParallelWork {
    rows: Vec<u8>,
    order: Vec<usize>,
    target: Vec<u8>,
}

impl ParallelWork {
    fn new(effort: Effort, stream: u64) -> ParallelWork {
        let count = effort.amount(PARALLEL_BYTES) / PARALLEL_ROW_BYTES + 1;
        let mut random = generator(40 + stream);
        let order = (0..count).map(|_| (random.next_u64() % count as u64) as usize).collect();
        let rows = packed_rows(count, PARALLEL_ROW_BYTES);
        ParallelWork { rows, order, target: vec![0; count * PARALLEL_ROW_BYTES] }
    }

    /// Does the work, and returns its CPU time in nanoseconds.
    fn run(&mut self) -> f64 {
        let before = of_this_thread();
        let mut hash = 0u64;
        for (&row, to) in self.order.iter().zip(self.target.chunks_exact_mut(PARALLEL_ROW_BYTES)) {
            to.copy_from_slice(&self.rows[row * PARALLEL_ROW_BYTES..(row + 1) * PARALLEL_ROW_BYTES]);
            for word in to.chunks_exact(8) {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            }
        }
        std::hint::black_box(hash);
        (of_this_thread() - before).as_nanos() as f64
    }
}
