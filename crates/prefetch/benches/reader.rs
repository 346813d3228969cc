//! `cargo bench -p sakiyomi-prefetch`: a plain buffered reader, and one with prefetching.
//!
//! A cached file shows the overhead for a program that needs no help; a mount on which each request takes 10 ms (as
//! root) shows the gain for a program that computes on its data. `SAKIYOMI_READ_BENCH=DIR` names the directory for
//! files.
#![allow(missing_docs, clippy::print_stderr)]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use divan::Bencher;
use divan::counter::BytesCount;
use sakiyomi_io::page_cache::drop_pages;
use sakiyomi_mount::{EmulatedStorage, Mounted, Options, mount};
use sakiyomi_prefetch::PrefetchReader;

const CACHED: usize = 256 << 20;
const SLOW: usize = 32 << 20;

fn main() {
    divan::main();
}

/// The reader.
#[derive(Clone, Copy, Debug)]
enum By {
    Plain,
    Ahead,
}

fn open(by: By, path: &Path) -> Box<dyn BufRead> {
    match by {
        By::Plain => Box::new(BufReader::with_capacity(128 << 10, File::open(path).unwrap())),
        By::Ahead => Box::new(PrefetchReader::open(path).unwrap()),
    }
}

/// Files that are removed at the end.
struct Files(PathBuf);

impl Files {
    fn new(name: &str, size: usize) -> Files {
        let root = std::env::var_os("SAKIYOMI_READ_BENCH").map_or_else(std::env::temp_dir, PathBuf::from);
        let root = root.join(format!("sakiyomi-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("backing")).unwrap();
        fs::create_dir_all(root.join("mounted")).unwrap();
        let bytes: Vec<u8> = (0..size as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        fs::write(root.join("backing/file"), bytes).unwrap();
        Files(root)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(reader: &mut dyn BufRead, compute: impl Fn(&[u8]) -> u64) -> u64 {
    let mut sum = 0;
    loop {
        let bytes = reader.fill_buf().unwrap();
        if bytes.is_empty() {
            return sum;
        }
        sum = black_box(sum ^ compute(bytes));
        let count = bytes.len();
        reader.consume(count);
    }
}

/// Some 40 MB/s, as `gzip`.
fn compute(bytes: &[u8]) -> u64 {
    (0..16).fold(0, |sum, _| {
        black_box(bytes).iter().fold(sum, |sum, &byte| (sum ^ u64::from(byte)) * 0x100_0193)
    })
}

#[divan::bench(args = [By::Plain, By::Ahead], sample_count = 20)]
fn cached_in_small_reads(bencher: Bencher, by: By) {
    let files = Files::new("small", CACHED);
    let path = files.0.join("backing/file");
    bencher.counter(BytesCount::new(CACHED)).bench_local(|| run(&mut *open(by, &path), |_| 0));
}

#[divan::bench(args = [By::Plain, By::Ahead], sample_count = 20)]
fn cached_in_large_reads(bencher: Bencher, by: By) {
    let files = Files::new("large", CACHED);
    let path = files.0.join("backing/file");
    let mut buffer = vec![0; 1 << 20];
    bencher.counter(BytesCount::new(CACHED)).bench_local(|| {
        let mut reader = open(by, &path);
        while reader.read(&mut buffer).unwrap() > 0 {}
    });
}

#[divan::bench(args = [By::Plain, By::Ahead], sample_count = 100)]
fn opening_a_cached_file_of_64_kib(bencher: Bencher, by: By) {
    let files = Files::new("tiny", 64 << 10);
    let path = files.0.join("backing/file");
    bencher.bench_local(|| run(&mut *open(by, &path), |_| 0));
}

#[divan::bench(args = [By::Plain, By::Ahead], sample_count = 20)]
fn opening_a_cached_file_of_1_mib(bencher: Bencher, by: By) {
    let files = Files::new("middle", 1 << 20);
    let path = files.0.join("backing/file");
    bencher.bench_local(|| run(&mut *open(by, &path), |_| 0));
}

fn mounted(files: &Files) -> Option<Mounted> {
    let behind = Some(EmulatedStorage::Fixed("latency=10ms,parallel=64".parse().unwrap()));
    let options = Options { behind, ..Options::default() };
    match mount(&files.0.join("backing"), &files.0.join("mounted"), &options) {
        Ok(mounted) => Some(mounted),
        Err(error) => {
            eprintln!("SKIPPED 10 ms: {error}");
            None
        }
    }
}

fn cold(bencher: Bencher, by: By, compute: fn(&[u8]) -> u64) {
    let files = Files::new("slow", SLOW);
    let Some(mounted) = mounted(&files) else { return };
    let path = files.0.join("mounted/file");
    bencher
        .counter(BytesCount::new(SLOW))
        .with_inputs(|| drop_pages(&File::open(&path).unwrap(), 0..u64::MAX).unwrap())
        .bench_local_values(|_| run(&mut *open(by, &path), compute));
    drop(mounted);
}

#[divan::bench(args = [By::Plain, By::Ahead], sample_count = 5, sample_size = 1)]
fn each_request_takes_10_ms_computing(bencher: Bencher, by: By) {
    cold(bencher, by, compute);
}

#[divan::bench(args = [By::Plain, By::Ahead], sample_count = 5, sample_size = 1)]
fn each_request_takes_10_ms_only_reading(bencher: Bencher, by: By) {
    cold(bencher, by, |_| 0);
}
