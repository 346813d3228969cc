//! CPU time of a line of a web server's log: parsed, filtered, counted by key; and of a tail that waits.
//! `cargo run --release -p sakiyomi-pipeline --example log_lines`.
#![allow(clippy::print_stdout)] // its result

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_pipeline::{Error, Pipeline, Standard};
use sakiyomi_stream::Settings;

/// Lines of the input, unless the command names another number.
const LINE_COUNT: u64 = 5_000_000;

/// Different lines, which are repeated: their memory is that of the test, and not of what is measured.
const LINE_VARIANTS: usize = 10_000;

/// Time for which a tail waits.
const IDLE_TIME: Duration = Duration::from_secs(5);

fn main() -> Result<(), Error> {
    let counted = "[[step]]\nop = \"filter\"\nwhere = \"status >= 500\"\n[[step]]\nop = \"aggregate\"\nby = \"path\"\n\
                 compute = \"count(*) AS n, sum(bytes) AS b\"\n";
    let windows = "event_time = \"time\"\nout_of_order = \"2h\"\n[[step]]\nop = \"aggregate\"\nby = \"path\"\nwindow = \"tumbling:1min\"\n\
                   compute = \"count(*) AS n\"\n[[step]]\nop = \"top\"\nk = 10\nby = \"n\"\n";
    let sink = "[sink.out]\nto = \"stdout\"\n";
    let combined = "[source.log]\nfrom = \"stdin\"\nformat = \"combined\"\n";
    let pattern = "[source.log]\nfrom = \"stdin\"\n\
                   parse = '\"(?P<method>\\S+) (?P<path>\\S+) [^\"]*\" (?P<status>\\d+) (?P<bytes>\\d+)'\n\
                   columns = { status = \"int32\", bytes = \"int64\" }\n";
    let text = lines();
    let wanted = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(LINE_COUNT);
    // Whole repetitions.
    let count = wanted / LINE_VARIANTS as u64 * LINE_VARIANTS as u64;
    println!("{count} lines of {} bytes", text.len() / LINE_VARIANTS);
    for (name, source, steps) in [
        ("combined, filter, count by path", combined, counted),
        ("pattern, filter, count by path", pattern, counted),
        ("combined, top 10 paths a minute", combined, windows),
        ("combined, all columns to lines", combined, ""),
    ] {
        let description = format!("{source}{steps}{sink}");
        for workers in [1, 2] {
            let input = Repeated { text: text.clone(), at: 0, left: count / LINE_VARIANTS as u64 };
            let [wall_ns, cpu_ns] = time(&description, input, count, workers)?;
            println!("{name}, {workers} workers: {wall_ns:.0} ns a line, {cpu_ns:.0} ns of CPU time");
        }
    }
    idle()
}

/// Nanoseconds a line, elapsed and of all threads; those of the input's copy are included.
fn time(description: &str, input: Repeated, count: u64, workers: usize) -> Result<[f64; 2], Error> {
    let pipeline = Pipeline::parse(description, "log_lines")?;
    let standard = Standard { input: Some(Box::new(input)), output: Some(Box::new(std::io::sink())) };
    let (start, cpu) = (Instant::now(), cpu_ns());
    let (stream, run) = pipeline.build(standard)?;
    let last = workers - 1;
    let placed: Vec<usize> = (0..pipeline.operators().count()).map(|operator| operator.min(last)).collect();
    stream.start(Settings::unpinned(workers), &placed)?.finish()?;
    run.finish()?;
    let lines = count as f64;
    Ok([start.elapsed().as_nanos() as f64 / lines, (cpu_ns() - cpu) as f64 / lines])
}

/// The share of a core that a tail takes while nothing comes.
fn idle() -> Result<(), Error> {
    let path = std::env::temp_dir().join(format!("sakiyomi-idle-{}", std::process::id()));
    let description =
        format!("[source.log]\nfrom = \"tail:{}\"\n[sink.out]\nto = \"discard\"\n", path.display());
    let (stream, run) = Pipeline::parse(&description, "idle")?.build(Standard::default())?;
    let running = stream.start(Settings::unpinned(1), &[0, 0])?;
    std::thread::sleep(Duration::from_secs(1));
    let cpu = cpu_ns();
    std::thread::sleep(IDLE_TIME);
    let share = (cpu_ns() - cpu) as f64 / IDLE_TIME.as_nanos() as f64;
    run.stop();
    running.finish()?;
    println!("a tail that waits: {:.2} % of a core", share * 100.0);
    run.finish().map(drop)
}

/// CPU time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    u64::try_from(sakiyomi_os::cpu::of_this_process().as_nanos()).unwrap_or(u64::MAX)
}

fn lines() -> Vec<u8> {
    let mut random = Pcg64::new(1, 1);
    let mut below = |bound: u64| random.next_u64() % bound;
    let mut text = Vec::new();
    for line in 0..LINE_VARIANTS {
        let (host, path, size) = (below(1 << 24), below(1000), below(100_000));
        let status = [200, 200, 200, 200, 304, 404, 500, 503][below(8) as usize];
        let (minute, second) = (line / 200 % 60, line / 4 % 60);
        // Writing to memory does not fail.
        let _ = writeln!(
            text,
            "10.{}.{}.{} - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"GET /shop/item/{path}?ref=mail HTTP/1.1\" \
             {status} {size} \"https://example.org/shop\" \"Mozilla/5.0 (X11; Linux x86_64)\"",
            host >> 16,
            host >> 8 & 255,
            host & 255,
        );
    }
    text
}

/// A text several times.
struct Repeated {
    text: Vec<u8>,
    at: usize,
    left: u64,
}

impl Read for Repeated {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.text.len() {
            self.left = self.left.saturating_sub(1);
            self.at = 0;
        }
        if self.left == 0 {
            return Ok(0);
        }
        let length = space.len().min(self.text.len() - self.at);
        space[..length].copy_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}
