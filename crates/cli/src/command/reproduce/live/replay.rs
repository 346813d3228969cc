//! Hosogi et al. 2013: the commands of a PC's workload in real time on a mounted drive.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sakiyomi_model::{Nanos, Op};
use sakiyomi_mount::Options;
use sakiyomi_reproduce::{LiveReplay, Metrics};

use super::mounted::{EmulatedDrive, sparse_file};
use super::scratch::Scratch;
use crate::progress::go_on;

/// Each command is waited for; the next one follows after the workload's pause.
pub(super) fn measure(replay: &LiveReplay, scratch: &Scratch) -> Result<Metrics> {
    let fill = |files: &Path| sparse_file(&files.join("disk"), replay.params.span.0);
    let options = Options { direct_io: true, ..Options::default() };
    let drive = EmulatedDrive::mount(scratch, (&replay.drive, 0.0), options, fill)?;
    let path = drive.directory().join("disk");
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
    let (mut buffer, mut responses, mut commands) = (Vec::new(), Duration::ZERO, 0_u32);
    for record in replay.params.records(replay.seed)? {
        go_on()?;
        buffer.resize(record.length.0 as usize, 0);
        let begun = Instant::now();
        match record.op {
            Op::Read => file.read_exact_at(&mut buffer, record.offset.0)?,
            Op::Write => file.write_all_at(&buffer, record.offset.0)?,
            Op::Flush | Op::Discard => {}
        }
        responses += begun.elapsed();
        commands += 1;
        thread::sleep(Duration::from_nanos(record.think.unwrap_or(Nanos::ZERO).0));
    }
    let (reads, hits) = drive.seen()?.totals.reads_and_hits();
    ensure!(commands > 0 && reads > 0, "the workload has no reads");
    let mean_ms = responses.as_secs_f64() * 1e3 / f64::from(commands);
    let hit_percent = 100.0 * hits as f64 / reads as f64;
    Ok(super::metrics([("hit_percent", hit_percent), ("response_mean_ms", mean_ms)]))
}
