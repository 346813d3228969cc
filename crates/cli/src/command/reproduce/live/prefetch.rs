//! Fukayama et al. 2006: a program that reads a file and computes, alone and with a thread that reads ahead of it.
//!
//! The thread is that of the paper (figure 2), which reads call by call. A reader that requests a step of 16 MiB at once
//! would be another experiment: the host of an emulated drive serves requests in the order of their arrival, so that one
//! that comes a little late waits for the whole step.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_mount::Options;
use sakiyomi_os::cpu;
use sakiyomi_reproduce::{LiveProgram, Metrics};

use super::mounted::{EmulatedDrive, sparse_file};
use super::scratch::Scratch;
use crate::progress::go_on;

/// The most that the thread reads between two polls of the program (figure 2 of the paper).
const STEP_MAX_BYTES: u64 = 16 << 20;
/// Time between two polls while enough is ahead: far less than the program takes for any limit that is measured.
const POLL_PERIOD: Duration = Duration::from_millis(1);

/// Mounts the drive again for each run, so that nothing is cached.
pub(super) fn measure(program: &LiveProgram, scratch: &Scratch) -> Result<Metrics> {
    let fill = |files: &Path| sparse_file(&files.join("file"), program.bytes);
    let drive = EmulatedDrive::mount(scratch, (&program.drive, program.place), Options::default(), fill)?;
    let path = drive.directory().join("file");
    let open = || File::open(&path).with_context(|| format!("cannot read {}", path.display()));
    let (file, ahead) = (open()?, open()?);
    let position = AtomicU64::new(0);
    let elapsed = thread::scope(|scope| {
        if let Some(limit) = program.limit {
            let (ahead, position) = (&ahead, &position);
            scope.spawn(move || read_ahead(ahead, position, limit, program.call_bytes));
        }
        let elapsed = run(file, program, &position);
        position.store(ENDED_POSITION, Ordering::Relaxed);
        elapsed
    });
    Ok(super::metrics([("elapsed_s", elapsed?.as_secs_f64())]))
}

/// Position of a program that has ended.
const ENDED_POSITION: u64 = u64::MAX;

/// Runs the program, which publishes its position.
fn run(mut file: File, program: &LiveProgram, position: &AtomicU64) -> Result<Duration> {
    let begun = Instant::now();
    let mut buffer = vec![0; program.call_bytes as usize];
    loop {
        go_on()?;
        let bytes = file.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(begun.elapsed());
        }
        position.fetch_add(bytes as u64, Ordering::Relaxed);
        let time = Duration::from_secs_f64(bytes as f64 / program.compute_bytes_per_s);
        super::compute_until(cpu::of_this_thread() + time);
    }
}

/// Reads the next step unless more than `limit` bytes lie ahead of the program, until it has ended or nothing is left.
fn read_ahead(file: &File, position: &AtomicU64, limit: u64, call_bytes: u64) {
    let mut buffer = vec![0; call_bytes as usize];
    let mut at = 0;
    loop {
        let main = position.load(Ordering::Relaxed);
        at = at.max(main);
        if main == ENDED_POSITION {
            return;
        }
        if at - main > limit {
            thread::sleep(POLL_PERIOD);
            continue;
        }
        let end = at + limit.min(STEP_MAX_BYTES);
        while at < end && position.load(Ordering::Relaxed) != ENDED_POSITION {
            match file.read_at(&mut buffer, at) {
                // The program meets the same error.
                Ok(0) | Err(_) => return,
                Ok(bytes) => at += bytes as u64,
            }
        }
    }
}
