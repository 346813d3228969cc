//! A short run of the fuzz targets over tables on the stable toolchain: mutations of their seeds, the same at every run.

use std::fs;
use std::path::Path;
use std::sync::PoisonError;
use std::thread;

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_query::table::fuzz;
use sakiyomi_testing::peak_bytes;

use crate::ALONE;

/// Mutations of the seeds of each target, unless `SAKIYOMI_FUZZ_ROUNDS` says otherwise.
const ROUNDS: usize = 2000;

/// Bytes from the allocator during a run at most: the job's memory, and metadata, which is a multiple of the file's
/// size.
const PEAK_MAX_BYTES: usize = 2 * fuzz::JOB_BYTES;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/tables/seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn below(random: &mut Pcg64, bound: usize) -> usize {
    (random.next_u64() % bound.max(1) as u64) as usize
}

/// A place in a file of `length` bytes: half of them in the last fifth, where footers are, or in the first, where headers
/// are.
fn place(length: usize, random: &mut Pcg64) -> usize {
    match below(random, 4) {
        0 => length - 1 - below(random, length / 5),
        1 => below(random, length / 5),
        _ => below(random, length),
    }
}

/// Overwrites bytes by a number at its bounds, as the formats store it: in 4 or 8 bytes, or as a variable-length integer.
fn overwrite(data: &mut [u8], at: usize, random: &mut Pcg64) {
    const TELLING: [i64; 10] =
        [0, -1, 1, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN, 1 << 20, 1 << 40, 255];
    let number = TELLING[below(random, TELLING.len())].wrapping_sub(below(random, 3) as i64);
    let mut bytes = number.to_le_bytes().to_vec();
    match below(random, 3) {
        0 => bytes.truncate(4),
        1 => {
            bytes.clear();
            let mut left = number as u64;
            while left > 0x7f {
                bytes.push(left as u8 | 0x80);
                left >>= 7;
            }
            bytes.push(left as u8);
        }
        _ => {}
    }
    for (to, from) in data[at..].iter_mut().zip(bytes) {
        *to = from;
    }
}

/// Changes a few bytes or numbers, and now and then drops, doubles or exchanges some.
fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Pcg64) {
    for _ in 0..=below(random, 4) {
        if data.is_empty() {
            return;
        }
        let at = place(data.len(), random);
        let until = (at + 1 + below(random, 20)).min(data.len());
        match below(random, 16) {
            0..=4 => data[at] ^= 1 << below(random, 8),
            5..=8 => data[at] = random.next_u64() as u8,
            9..=11 => overwrite(data, at, random),
            12 => drop(data.drain(at..until)),
            13 => {
                let piece = data[at..until].repeat(1 + below(random, 3));
                data.splice(at..at, piece);
            }
            _ => {
                let from = below(random, other.len());
                let to = (from + until - at).min(other.len());
                data.splice(at..at + to - from, other[from..to].iter().copied());
            }
        }
    }
}

/// Keeps the input of a check that panics.
struct Kept<'a>(&'a str, &'a [u8]);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.0);
            let outcome = fs::write(&path, self.1);
            assert!(outcome.is_ok(), "the input cannot be kept as {}", path.display());
        }
    }
}

fn run(target: &str, check: fn(&[u8])) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seeds = seeds(target);
    assert!(seeds.len() > 10, "the seeds of {target} are there");
    seeds.iter().for_each(|seed| check(seed));
    let rounds = std::env::var("SAKIYOMI_FUZZ_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut random = Pcg64::new(20, 13);
    for round in 0..rounds {
        let mut data = seeds[below(&mut random, seeds.len())].clone();
        let other = below(&mut random, seeds.len());
        mutate(&mut data, &seeds[other], &mut random);
        let _kept = Kept(target, &data);
        let peak = peak_bytes(|| check(&data));
        assert!(peak <= PEAK_MAX_BYTES, "round {round} of {target} allocated {peak} bytes");
    }
}

#[test]
fn mutated_parquet_files_are_read_or_refused() {
    run("parquet", fuzz::parquet);
}

#[test]
fn mutated_arrow_files_are_read_or_refused() {
    run("arrow_file", fuzz::arrow_file);
}

#[test]
fn mutated_arrow_streams_are_read_or_refused() {
    run("arrow_stream", fuzz::arrow_stream);
}

#[test]
fn mutated_csv_is_read_or_refused() {
    run("csv", fuzz::csv);
}
