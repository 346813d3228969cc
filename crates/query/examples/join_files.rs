//! Measures a join of two files:
//! `cargo run --release --example join_files -- LEFT RIGHT ON OUTPUT [MEMORY_MIB [THREADS [merge|left|right]]]`.
//! `left` and `right` are the build side of a hash join.
//!
//! Prints wall time, CPU time, peak memory, and the figures of each phase.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Instant;

use sakiyomi_os::allocator::Keep;
use sakiyomi_query::join::{JoinKind, JoinMethod, JoinSide};
use sakiyomi_query::output::{OutputOptions, Target};
use sakiyomi_query::statement::{Destination, Join, join};
use sakiyomi_query::table::{Format, OpenOptions, Table};
use sakiyomi_query::{Job, JobOptions};

/// Freed memory that the allocator keeps, as in the command-line tool.
const KEEP: Keep = Keep { arenas: 2, mapped_min_bytes: 8 << 20, trim_bytes: 8 << 20 };

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [left, right, on, output, rest @ ..] = &arguments[..] else {
        return Err("expected LEFT RIGHT ON OUTPUT [MEMORY_MIB [THREADS [merge|left|right]]]".into());
    };
    sakiyomi_os::allocator::keep(KEEP);
    let mebibytes: usize = rest.first().map_or(Ok(512), |text| text.parse())?;
    let threads = rest.get(1).map_or(Ok(JobOptions::default().threads), |text| text.parse())?;
    let method = match rest.get(2).map(String::as_str) {
        None => None,
        Some("merge") => Some(JoinMethod::Merge),
        Some("left") => Some(JoinMethod::Hash(JoinSide::Left)),
        Some("right") => Some(JoinMethod::Hash(JoinSide::Right)),
        Some(other) => return Err(format!("unknown method {other}").into()),
    };
    let job = Job::new(JobOptions { memory: mebibytes << 20, threads, ..JobOptions::default() })?;
    let options = OpenOptions { access: sakiyomi_io::Access::Direct, ..OpenOptions::default() };
    let open = |path: &String| Table::open(&[PathBuf::from(path)], &options);
    let destination = Destination::File {
        target: Target::File(PathBuf::from(output)),
        options: OutputOptions::new(Format::Parquet),
    };
    let statement = Join {
        on: on.clone(),
        kind: JoinKind::Inner,
        filter: None,
        select: std::env::var("SEL").ok(),
        method,
    };
    let (begun, cpu) = (Instant::now(), sakiyomi_os::cpu::user_and_system_of_this_process());
    let outcome = join(&job, open(left)?, open(right)?, &statement, &destination, None)?;
    let (user, system) = sakiyomi_os::cpu::user_and_system_of_this_process();
    writeln!(
        stdout(),
        "{} rows: {:.2} s wall, {:.2} + {:.2} CPU s, peak {} MiB, spilled {} MiB",
        outcome.output_rows,
        begun.elapsed().as_secs_f64(),
        (user - cpu.0).as_secs_f64(),
        (system - cpu.1).as_secs_f64(),
        sakiyomi_os::process::memory::peak_resident().unwrap_or(0) >> 20,
        outcome.spilled_bytes >> 20,
    )?;
    for phase in job.phases().list() {
        writeln!(
            stdout(),
            "  {:18} {:6} MiB {:6.3} s elapsed, {:6.3} + {:6.3} CPU s, {:6.3} s waited",
            phase.name,
            phase.bytes >> 20,
            phase.elapsed_ns as f64 / 1e9,
            phase.user_ns as f64 / 1e9,
            phase.system_ns as f64 / 1e9,
            phase.waited_ns as f64 / 1e9,
        )?;
    }
    Ok(())
}
