//! Tani 2023: processes that read at random on a regulated mount, one of them with a rate.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_iorate::Control;
use sakiyomi_iorate::protocol::{Rate, Set, Target};
use sakiyomi_mount::{Options, Regulate};
use sakiyomi_reproduce::{LiveReaders, Metrics};

use super::mounted::{EmulatedDrive, sparse_file};
use super::scratch::Scratch;
use crate::progress::go_on;

/// Time between two polls for an interruption.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// How much longer the readers may run than they are watched: they are ended when the figures have been taken.
const RESERVE_S: u32 = 60;

/// The figures are those of the mount: of the reader's last I/Os.
pub(super) fn measure(readers: &LiveReaders, scratch: &Scratch) -> Result<Metrics> {
    let regulate = Some(Regulate::default());
    let options = Options { regulate, ..Options::default() };
    let fill = |files: &Path| {
        (0..=readers.rivals).try_for_each(|number| sparse_file(&file(files, number), readers.file_bytes))
    };
    let drive = EmulatedDrive::mount(scratch, (&readers.drive, 0.0), options, fill)?;
    let control = Control::open(drive.directory())?;
    let mut running = Running(Vec::new());
    for number in 0..=readers.rivals {
        running.0.push(reader(readers, &file(drive.directory(), number), number)?);
    }
    let target = Target::Process { pid: running.0[0].id() };
    control.set(&Set {
        target: target.clone(),
        rate: Rate::Percent(readers.percent),
        best_effort: true,
        back_to_back: false,
    })?;
    let (begun, before) = (Instant::now(), drive.seen()?.totals.accesses);
    while begun.elapsed() < Duration::from_secs(u64::from(readers.duration_s)) {
        go_on()?;
        thread::sleep(POLL_PERIOD);
    }
    let (elapsed, after) = (begun.elapsed(), drive.seen()?.totals.accesses);
    let seen = control.find(&target)?;
    drop(running);
    let owner = seen.owners.first().context("the reader with the rate has ended early")?;
    let accuracy = owner.accuracy_ratio.context("the reader with the rate has read nothing")?;
    let ios_per_s = (after - before) as f64 / elapsed.as_secs_f64();
    Ok(super::metrics([("accuracy", accuracy), ("cov", owner.cov_ratio), ("ios_per_s", ios_per_s)]))
}

fn file(directory: &Path, number: u32) -> std::path::PathBuf {
    directory.join(format!("file{number}"))
}

/// `probe` as a process that reads at random, one block at a time. It has a process of its own because rates belong to
/// processes.
fn reader(readers: &LiveReaders, file: &Path, seed: u32) -> Result<Child> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let runtime = format!("{}s", readers.duration_s + RESERVE_S);
    let mut command = Command::new(own);
    command.args(["--quiet", "probe", "--random", "--direct", "--no-control-runs", "--repetitions", "1"]);
    command.args(["--method", "read", "--buffers", "ordinary", "--runtime", &runtime]);
    command.args(["--block", &readers.read_bytes.to_string(), "--seed", &seed.to_string()]).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot start a process that reads")
}

/// Processes that are killed on drop: before their measurement ends, so that it is not saved.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Fails for one that has ended.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
