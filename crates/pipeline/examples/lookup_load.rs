//! CPU time of a look-up whose table stays in its file, beside the one that a calibration of `probe` predicts.
//!
//! ```text
//! sakiyomi probe DIR --method pread:4,uring:32 --block 4KiB --random --direct --cached --buffers ordinary --size 256MiB \
//!     --calibration calibration.json
//! cargo run --release -p sakiyomi-pipeline --example lookup_load -- DIR calibration.json [LOOK-UPS]
//! ```
//!
//! `-` stands for no calibration. The rows of the table have 4 KiB each, so that a look-up is one read of one block. The prediction is the CPU time of the
//! same pipeline for keys that the index does not have, and that of a read in the calibration. A second part has a source
//! that another thread feeds at some rates, and shows how much of a core its worker takes.
#![allow(clippy::print_stdout)] // its result

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_pipeline::{Error, Pipeline, Standard};
use sakiyomi_probe::calibration::Calibration;
use sakiyomi_probe::calibration::Query;
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};
use sakiyomi_probe::target::Device;
use sakiyomi_stream::Settings;

/// Rows of the table: 128 MiB, which the page cache holds and no cache of a CPU does.
const TABLE_ROWS: u64 = 32_768;

/// Bytes of each row, and of the header.
const ROW_BYTES: usize = 4096;

/// Look-ups of a run that reads the page cache, and of one that reads the device.
const CACHED_LOOKUPS: u64 = 400_000;
const DIRECT_LOOKUPS: u64 = 100_000;

/// Runs of each kind, of which the one with the least CPU time counts: other load only adds to it.
const RUN_COUNT: usize = 5;

/// Time for which a source is fed at a rate.
const FEED_TIME: Duration = Duration::from_secs(4);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let calibration = arguments.next().filter(|path| path != "-");
    let calibration = calibration.map(|path| Calibration::load(Path::new(&path))).transpose()?;
    let lookups = arguments.next().and_then(|count| count.parse().ok());
    let table = Path::new(&directory).join(format!("lookup-load-{}.csv", std::process::id()));
    write_table(&table)?;
    let device = Device::of(&table)?;
    // A device that has no direct I/O ends the first part.
    let outcome = compare(&table, &device, calibration.as_ref(), lookups);
    std::fs::remove_file(&table)?;
    feed()?;
    Ok(outcome?)
}

fn compare(
    table: &Path,
    device: &Device,
    calibration: Option<&Calibration>,
    wanted: Option<u64>,
) -> Result<(), Error> {
    let costs = calibration.and_then(|calibration| calibration.device(device));
    for kind in [EngineKind::Pread, EngineKind::Uring] {
        for (cache, lookups) in [(CacheState::Cached, CACHED_LOOKUPS), (CacheState::Direct, DIRECT_LOOKUPS)] {
            let lookups = wanted.unwrap_or(lookups);
            let depth = if kind == EngineKind::Uring { 32 } else { 4 };
            let engine = EngineSpec { kind, depth };
            let is_direct = cache == CacheState::Direct;
            let missing = best(table, engine, is_direct, lookups, TABLE_ROWS)?;
            let found = best(table, engine, is_direct, lookups, 0)?;
            let name = format!("{engine}, {}", cache.name());
            println!(
                "{name}: {:.0} ns of CPU time a look-up, {:.0} ns without reads; {:.0} look-ups per second, {:.0} ns on the \
                 core of the step",
                found.cpu_ns, missing.cpu_ns, found.per_s, found.core_ns
            );
            let op = Operation::Read;
            let query = Query {
                engine,
                op,
                cache,
                random: true,
                buffers: Buffers::Ordinary,
                block_bytes: ROW_BYTES as u64,
            };
            match costs.map(|costs| costs.estimate(&query)) {
                None => {
                    println!("{name}: no calibration of the device of {}", table.display())
                }
                Some(Err(error)) => println!("{name}: {error}"),
                Some(Ok(estimate)) => {
                    let predicted_ns =
                        missing.cpu_ns + estimate.cpu_ns_per_op + estimate.kernel_threads_cpu_ns_per_op;
                    println!(
                        "{name}: {predicted_ns:.0} ns predicted; the measured time is {:+.0} %",
                        (found.cpu_ns / predicted_ns - 1.0) * 100.0
                    );
                }
            }
        }
    }
    Ok(())
}

/// The header, then rows of the same length, so that each is one block of the file.
fn write_table(path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut write = |key: &str| {
        let begin = format!("{key},");
        writeln!(file, "{begin}{}", "x".repeat(ROW_BYTES - begin.len() - 1))
    };
    write("key")?;
    (0..TABLE_ROWS).try_for_each(|row| write(&row.to_string()))?;
    file.flush()?;
    file.get_ref().sync_all()
}

/// Figures of a run, per look-up.
#[derive(Clone, Copy)]
struct Figures {
    cpu_ns: f64,
    /// Busy time of the step on its core.
    core_ns: f64,
    per_s: f64,
}

fn best(
    table: &Path,
    engine: EngineSpec,
    is_direct: bool,
    lookups: u64,
    beyond: u64,
) -> Result<Figures, Error> {
    let mut least = run(table, engine, is_direct, lookups, beyond)?;
    for _ in 1..RUN_COUNT {
        let figures = run(table, engine, is_direct, lookups, beyond)?;
        if figures.cpu_ns < least.cpu_ns {
            least = figures;
        }
    }
    Ok(least)
}

/// Looks up random keys, to which `beyond` is added.
fn run(
    table: &Path,
    engine: EngineSpec,
    is_direct: bool,
    lookups: u64,
    beyond: u64,
) -> Result<Figures, Error> {
    let description = format!(
        "[source.in]\nfrom = \"generator\"\nrows = {lookups}\nkeys = {TABLE_ROWS}\n\
         [[step]]\nop = \"select\"\ncolumns = \"key + {beyond} AS key\"\n\
         [[step]]\nop = \"lookup\"\nfile = \"{}\"\non = \"key = key\"\ncolumns = {{ key = \"int64\" }}\n\
         table = \"file\"\ndirect = {is_direct}\nmethod = \"{engine}\"\nin_flight = 128\n\
         [sink.out]\nto = \"discard\"\n",
        table.display()
    );
    let pipeline = Pipeline::parse(&description, "lookup_load")?;
    let (stream, run) = pipeline.build(Standard::default())?;
    let (start, cpu) = (Instant::now(), sakiyomi_os::cpu::of_this_process());
    let report = stream.start(Settings::unpinned(1), &[0; 4])?.finish()?;
    let (elapsed, cpu) = (start.elapsed(), sakiyomi_os::cpu::of_this_process() - cpu);
    run.finish()?;
    let count = lookups as f64;
    Ok(Figures {
        cpu_ns: cpu.as_nanos() as f64 / count,
        core_ns: report.operators[2].busy_ns as f64 / count,
        per_s: count / elapsed.as_secs_f64(),
    })
}

/// Lines at a rate, each when it is due.
struct Paced {
    started: Instant,
    per_s: u64,
    sent: u64,
}

impl Read for Paced {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        if self.started.elapsed() > FEED_TIME {
            return Ok(0);
        }
        let due = Duration::from_nanos(self.sent * 1_000_000_000 / self.per_s.max(1));
        if self.per_s == 0 {
            std::thread::sleep(FEED_TIME);
            return Ok(0);
        }
        // This thread polls: its CPU time is not that of the worker.
        while self.started.elapsed() < due {
            std::hint::spin_loop();
        }
        self.sent += 1;
        space[0] = b'\n';
        Ok(1)
    }
}

/// The share of a core that the worker of a source takes, fed line by line at some rates.
fn feed() -> Result<(), Error> {
    for per_s in [0, 100, 1_000, 10_000, 50_000] {
        let pipeline =
            Pipeline::parse("[source.in]\nfrom = \"stdin\"\n[sink.out]\nto = \"discard\"\n", "feed")?;
        let paced = Paced { started: Instant::now(), per_s, sent: 0 };
        let (stream, run) = pipeline.build(Standard { input: Some(Box::new(paced)), output: None })?;
        let running = stream.start(Settings::unpinned(1), &[0, 0])?;
        let cpu = worker_cpu();
        std::thread::sleep(FEED_TIME / 2);
        let used = worker_cpu().zip(cpu).map(|(now, before)| now.saturating_sub(before));
        let report = running.finish()?;
        run.finish()?;
        let p50_us = report.operators[1]
            .latency
            .as_ref()
            .map_or(0.0, |latency| latency.total.value_at_quantile(0.5) as f64 / 1e3);
        match used {
            None => println!("{per_s} lines per second: the kernel does not tell the CPU time of the worker"),
            Some(used) => println!(
                "{per_s} lines per second: the worker takes {:.1} % of a core; median latency {p50_us:.0} \u{b5}s",
                used.as_secs_f64() / (FEED_TIME / 2).as_secs_f64() * 100.0
            ),
        }
    }
    Ok(())
}

/// CPU time of the thread of the first worker.
fn worker_cpu() -> Option<Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let is_worker = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "stream-0")
    };
    let worker = tasks.filter_map(|task| Some(task.ok()?.path())).find(is_worker)?;
    let ran = std::fs::read_to_string(worker.join("schedstat")).ok()?;
    Some(Duration::from_nanos(ran.split(' ').next()?.parse().ok()?))
}
