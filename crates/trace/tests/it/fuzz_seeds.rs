//! A short run of the fuzz targets on the stable toolchain: mutations of their seeds, the same in every run.

use std::fs;
use std::path::Path;

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_trace::fuzz;

const ROUNDS: usize = 20_000;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn below(random: &mut Pcg64, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}

/// Changes, removes, duplicates or exchanges a few bytes: digits, separators and other bytes that parsers are sensitive
/// to.
fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Pcg64) {
    const TELLING: &[u8] = b"0123456789 \n\r,.-+\t\"xRWDFQ\0\xff";
    for _ in 0..=below(random, 4) {
        let at = below(random, data.len() + 1);
        let until = (at + 1 + below(random, 20)).min(data.len());
        match below(random, 6) {
            0 if at < data.len() => data[at] = TELLING[below(random, TELLING.len())],
            1 if at < data.len() => data[at] ^= 1 << below(random, 8),
            2 => data.insert(at, TELLING[below(random, TELLING.len())]),
            3 => drop(data.drain(at..until)),
            4 => {
                let piece = data[at..until].repeat(1 + below(random, 3));
                data.splice(at..at, piece);
            }
            _ => {
                let from = below(random, other.len() + 1);
                let to = (from + 30).min(other.len());
                data.splice(at..until, other[from..to].iter().copied());
            }
        }
    }
}

fn run(target: &str, check: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(seeds.len() > 10, "the seeds of {target} are there");
    seeds.iter().for_each(|seed| check(seed));
    let mut random = Pcg64::new(20, 13);
    for _ in 0..ROUNDS {
        let mut data = seeds[below(&mut random, seeds.len())].clone();
        let other = below(&mut random, seeds.len());
        mutate(&mut data, &seeds[other], &mut random);
        check(&data);
    }
}

#[test]
fn mutated_traces_are_read_or_refused() {
    run("trace_reader", fuzz::trace_reader);
}

#[test]
fn mutated_files_are_recognized_or_refused() {
    run("sniff", fuzz::sniff);
}
