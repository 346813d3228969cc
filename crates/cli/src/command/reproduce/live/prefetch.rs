//! Fukayama et al. 2006: a program that reads a file and computes, alone and with a reader ahead of it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_mount::Options;
use sakiyomi_os::cpu;
use sakiyomi_prefetch::PrefetchReader;
use sakiyomi_reproduce::{LiveProgram, Metrics};

use super::mounted::{EmulatedDrive, sparse_file};
use super::scratch::Scratch;
use crate::progress::go_on;

/// The most that the reader ahead requests at a time (figure 2 of the paper).
const STEP_MAX_BYTES: u64 = 16 << 20;

/// Mounts the drive again for each run, so that nothing is cached.
pub(super) fn measure(program: &LiveProgram, scratch: &Scratch) -> Result<Metrics> {
    let fill = |files: &Path| sparse_file(&files.join("file"), program.bytes);
    let drive = EmulatedDrive::mount(scratch, (&program.drive, program.place), Options::default(), fill)?;
    let elapsed = run(&drive.directory().join("file"), program)?;
    Ok(super::metrics([("elapsed_s", elapsed.as_secs_f64())]))
}

fn run(path: &Path, program: &LiveProgram) -> Result<Duration> {
    let begun = Instant::now();
    let mut reader: Box<dyn Read> = match program.limit {
        None => Box::new(File::open(path).with_context(|| format!("cannot read {}", path.display()))?),
        Some(limit) => {
            let options = PrefetchReader::builder().fixed(limit, limit.min(STEP_MAX_BYTES));
            Box::new(options.open(path)?)
        }
    };
    let mut buffer = vec![0; program.call_bytes as usize];
    loop {
        go_on()?;
        let bytes = reader.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(begun.elapsed());
        }
        let time = Duration::from_secs_f64(bytes as f64 / program.compute_bytes_per_s);
        super::compute_until(cpu::of_this_thread() + time);
    }
}
