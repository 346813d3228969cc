//! The One Billion Row Challenge by blocked reads and by others, with the same kernel, in interleaved runs of processes
//! of their own.

mod engines;
mod rows;
#[path = "../../../crates/exec/examples/brc/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;

use engines::Engine;

/// Compare engines on one file of measurements
#[derive(Parser)]
struct Args {
    /// Number of rows, some 14 bytes each
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Rounds, in each of which every engine runs once; figures are medians
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Number of threads
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
    /// Where the file is written, and removed from
    #[arg(long, default_value = "target")]
    directory: PathBuf,
    /// Runs at the highest ordinary priority, on machines that others use too (needs root)
    #[arg(long)]
    urgent: bool,
    /// Only this engine, once, on this file
    #[arg(long, requires = "file", hide = true)]
    only: Option<Engine>,
    /// An existing file of measurements, instead of a new one
    #[arg(long)]
    file: Option<PathBuf>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let (Some(engine), Some(file)) = (args.only, &args.file) {
        println!("{}", engine.run(file, args.threads)?);
        return Ok(());
    }
    let Some(file) = &args.file else {
        let file = args.directory.join("measurements.txt");
        rows::write(&file, args.rows).with_context(|| format!("cannot write {}", file.display()))?;
        let compared = compare(&args, &file);
        std::fs::remove_file(&file)?;
        return compared;
    };
    compare(&args, file)
}

/// Wall-clock and CPU times of the runs of an engine.
#[derive(Default)]
struct Times {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
}

fn compare(args: &Args, file: &Path) -> Result<()> {
    // Into the page cache.
    std::io::copy(&mut std::fs::File::open(file)?, &mut std::io::sink())?;
    let mut times: Vec<(Engine, Times)> = Engine::ALL.map(|engine| (engine, Times::default())).into();
    let mut expected = None;
    for round in 0..=args.rounds {
        let all = times.len();
        for turn in 0..all {
            // Each round begins with another engine, so that none always follows the same one.
            let (engine, times) = &mut times[(turn + round) % all];
            let (wall, cpu, output) = run(args, *engine, file)?;
            let expected = expected.get_or_insert_with(|| output.clone());
            ensure!(*expected == output, "{engine:?} has another result");
            // The first round warms up.
            if round > 0 {
                times.wall.push(wall);
                times.cpu.push(cpu);
            }
        }
    }
    show(file, &mut times)
}

fn run(args: &Args, engine: Engine, file: &Path) -> Result<(Duration, Duration, String)> {
    let mut command = Command::new(if args.urgent { "nice".into() } else { std::env::current_exe()? });
    if args.urgent {
        command.arg("-n").arg("-20").arg(std::env::current_exe()?);
    }
    command.arg("--only").arg(engine.name()).arg("--file").arg(file);
    command.arg("--threads").arg(args.threads.to_string());
    let (begun, before) = (Instant::now(), children_cpu());
    let output = command.stderr(Stdio::inherit()).output()?;
    let (wall, cpu) = (begun.elapsed(), children_cpu() - before);
    ensure!(output.status.success(), "{engine:?} failed");
    Ok((wall, cpu, String::from_utf8(output.stdout)?))
}

/// Returns the CPU time of the processes that have ended.
fn children_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    // `cutime` and `cstime`: fields 16 and 17, counted from 1, of which two are before the name's end.
    let ticks: u64 = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn show(file: &Path, times: &mut [(Engine, Times)]) -> Result<()> {
    let bytes = file.metadata()?.len() as f64;
    let figures: Vec<(Engine, f64, f64)> = times
        .iter_mut()
        .map(|(engine, times)| (*engine, median(&mut times.wall), median(&mut times.cpu)))
        .collect();
    let rival = figures.iter().find(|figures| figures.0 == Engine::Rayon).context("it always runs")?.1;
    println!("{:36} {:>9} {:>9} {:>7} {:>14}", "", "wall, ms", "CPU, ms", "GB/s", "x rayon + mmap");
    for (engine, wall, cpu) in figures {
        let (about, rate, ratio) = (engine.about(), bytes / wall / 1e9, wall / rival);
        println!("{about:36} {:9.1} {:9.1} {rate:7.2} {ratio:14.3}", wall * 1e3, cpu * 1e3);
    }
    Ok(())
}
