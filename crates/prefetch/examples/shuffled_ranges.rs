//! Reads a file in 1 MiB ranges in a shuffled order: by a plain loop, by a loop with prefetched ranges, and by slices of a
//! mapping. `cargo run --release -p sakiyomi-prefetch --example shuffled_ranges -- FILE`
//!
//! The file is dropped from the page cache before each pass. Prints the time of each, and the sum of the bytes.
#![expect(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_io::page_cache;
use sakiyomi_prefetch::{MappedReader, Prefetch};

const RANGE_BYTES: u64 = 1 << 20;

type Outcome = Result<u64, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: shuffled_ranges FILE")?;
    let file = File::open(&path)?;
    let order = shuffled(file.metadata()?.len());
    let passes: [(&str, &dyn Fn() -> Outcome); 3] = [
        ("plain loop", &|| plain(&file, &order)),
        ("prefetched ranges", &|| prefetched(&path, &file, &order)),
        ("mapped slices", &|| mapped(&path, &order)),
    ];
    for (name, pass) in passes {
        page_cache::drop_pages(&file, 0..u64::MAX)?;
        let begun = Instant::now();
        let sum = pass()?;
        println!("{name:20} {:8.3} s   sum {sum}", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Returns the ranges of a file in an order that depends on their number only.
fn shuffled(size: u64) -> Vec<Range<u64>> {
    let starts = (0..size).step_by(RANGE_BYTES as usize);
    let mut order: Vec<Range<u64>> = starts.map(|at| at..size.min(at + RANGE_BYTES)).collect();
    let mut random = Pcg64::seed_from_u64(1);
    for last in (1..order.len()).rev() {
        order.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    order
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}

fn plain(file: &File, order: &[Range<u64>]) -> Outcome {
    let mut total = 0;
    for range in order {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        total += sum(&bytes);
    }
    Ok(total)
}

fn prefetched(path: &str, file: &File, order: &[Range<u64>]) -> Outcome {
    let prefetch = Prefetch::open(path, order.iter().cloned())?;
    let mut total = 0;
    for (index, range) in order.iter().enumerate() {
        prefetch.wait(index)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        total += sum(&bytes);
        prefetch.advance(index + 1);
    }
    Ok(total)
}

fn mapped(path: &str, order: &[Range<u64>]) -> Outcome {
    let reader = MappedReader::new(Prefetch::open(path, order.iter().cloned())?)?;
    let mut total = 0;
    for index in 0..order.len() {
        total += sum(reader.slice_of(index)?);
    }
    Ok(total)
}
