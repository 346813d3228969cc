//! Kohagura and Kono 2014: the words of a text are counted, read in four ways.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sakiyomi_exec::read::{IoThread, blocked_read};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_mount::Options;
use sakiyomi_os::cpu;
use sakiyomi_os::ctype::Characters;
use sakiyomi_reproduce::{LiveCount, Metrics, ReadMethod};
use sakiyomi_text::count::{Counter, Part, Wanted};

use super::mounted::EmulatedDrive;
use super::scratch::Scratch;
use crate::progress::go_on;

/// The line that fills the text; its words are counted.
const LINE: &[u8] = b"a word count reads blocks and counts\n";
/// Words of a line.
const LINE_WORDS: u64 = 7;
/// Lines written between two checks for an interruption: a few milliseconds.
const WRITE_CHECK_LINES: u64 = 100_000;
/// Bytes read between two checks for an interruption: a tenth of a second on an emulated drive.
const READ_CHECK_BYTES: u64 = 8 << 20;
/// Bytes for which times are given, as in the paper.
const SCALED_BYTES: f64 = 1e9;

/// Counts the text, once.
pub(super) fn measure(count: &LiveCount, scratch: &Scratch) -> Result<Metrics> {
    let elapsed = match &count.drive {
        Some(drive) => {
            let fill = |files: &Path| write_text(&files.join("text"), count.bytes);
            let drive = EmulatedDrive::mount(scratch, (drive, count.place), Options::default(), fill)?;
            run(&drive.directory().join("text"), count)
        }
        None => {
            let text = Removed(scratch.path().join("text"));
            // The file is cached, as it has just been written.
            write_text(&text.0, count.bytes).and_then(|()| run(&text.0, count))
        }
    };
    Ok(super::metrics([("s_per_gb", elapsed?.as_secs_f64() * SCALED_BYTES / count.bytes as f64)]))
}

/// A file that is removed on drop.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes lines of `bytes` bytes or a few less, so that the last one is whole.
fn write_text(path: &Path, bytes: u64) -> Result<()> {
    let write = || {
        let mut file = BufWriter::new(File::create_new(path)?);
        for line in 0..lines(bytes) {
            if line.is_multiple_of(WRITE_CHECK_LINES) {
                go_on().map_err(io::Error::other)?;
            }
            file.write_all(LINE)?;
        }
        file.flush()
    };
    write().with_context(|| format!("cannot write the text {}", path.display()))
}

fn lines(bytes: u64) -> u64 {
    bytes / LINE.len() as u64
}

fn run(path: &Path, count: &LiveCount) -> Result<Duration> {
    let wanted = Wanted { words: true, ..Wanted::default() };
    let characters = Arc::new(Characters::from_environment());
    let counter = Counter::new(characters, wanted, true).context("the locale's characters are not known")?;
    let threads = count.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let count_part = |part: &[u8]| {
        let begun = cpu::of_this_thread();
        let counted = counter.count(part);
        if let Some(rate) = count.compute_bytes_per_s.filter(|_| go_on().is_ok()) {
            super::compute_until(begun + Duration::from_secs_f64(part.len() as f64 / rate));
        }
        counted
    };
    let join = |part: Part, next: Part| counter.join(part, &next);
    let begun = Instant::now();
    let part = match count.method {
        ReadMethod::Read => {
            let text = read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let parts = on_threads(&text, count.part_bytes, threads, &count_part, &join);
            parts.into_iter().fold(Part::default(), join)
        }
        method => {
            let read = blocked_read(path).block(count.part_bytes).threads(threads);
            let read = match method {
                ReadMethod::Mmap => {
                    read.method(EngineSpec::usual(EngineKind::Mmap)).io_thread(IoThread::Shared)
                }
                ReadMethod::BlockedAny => read.io_thread(IoThread::Shared),
                ReadMethod::Read | ReadMethod::BlockedIo => read.io_thread(IoThread::Dedicated),
            };
            let mut all = Part::default();
            read.map(count_part).in_order(|part| {
                all = counter.join(all, &part);
                // An error ends the reading.
                go_on().map_err(io::Error::other)
            })?;
            all
        }
    };
    let elapsed = begun.elapsed();
    go_on()?;
    let words = counter.figures(&part).words;
    ensure!(words == lines(count.bytes) * LINE_WORDS, "{words} words were counted, which is wrong");
    Ok(elapsed)
}

/// Reads a file into memory.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut text = Vec::with_capacity(file.metadata()?.len() as usize);
    loop {
        go_on().map_err(io::Error::other)?;
        if (&mut file).take(READ_CHECK_BYTES).read_to_end(&mut text)? == 0 {
            return Ok(text);
        }
    }
}

/// Counts equal shares of a text on threads.
fn on_threads(
    text: &[u8],
    part_bytes: usize,
    threads: usize,
    count: &(impl Fn(&[u8]) -> Part + Sync),
    join: &(impl Fn(Part, Part) -> Part + Sync),
) -> Vec<Part> {
    let share = text.len().div_ceil(threads).max(1);
    let counted = |share: &[u8]| share.chunks(part_bytes).map(count).fold(Part::default(), join);
    thread::scope(|scope| {
        let all: Vec<_> = text.chunks(share).map(|share| scope.spawn(move || counted(share))).collect();
        all.into_iter().map(|thread| thread.join().expect("counting does not panic")).collect()
    })
}
