//! `trace`: describes, converts, generates and records block traces.

mod destination;
mod generate;
mod record;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use sakiyomi_report::number;
use sakiyomi_trace::stats::{Collector, Distribution, Info};
use sakiyomi_trace::{DeviceMap, Format, Record, Trace as Records};
use serde::Serialize;

use crate::args::{HELP, TraceArgs};
use crate::console::{Common, print_result, print_text};
use crate::progress::Progress;
use crate::simulation::trace_size;
use destination::DestinationArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi trace info trace.csv.gz
  sakiyomi trace convert trace.csv.gz trace.parquet
  sakiyomi trace generate pc pc.csv
  sakiyomi trace record /dev/sdb --for 30s -o sdb.csv.gz
";

/// Block traces.
#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Describe a trace: rates, sizes, sequentiality, footprint
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi trace info trace.csv.gz
  blkparse -i sda -o - | sakiyomi trace info - --format blkparse
")]
    Info(InfoArgs),
    /// Convert a trace to another format
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi trace convert trace.blkparse.gz trace.parquet
  sakiyomi trace convert trace.csv.gz trace.ascii --to disksim --device 0
  sakiyomi trace convert trace.parquet - | sakiyomi sim - --drive deskstar-7k250
")]
    Convert(Convert),
    /// Generate a trace: an access pattern, or the workload of a PC
    #[command(subcommand, help_template = HELP, before_help = generate::EXAMPLES)]
    Generate(generate::Generate),
    /// Record the requests of a live block device
    #[command(help_template = HELP, before_help = record::EXAMPLES)]
    Record(record::Record),
    /// List the supported formats
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi trace formats
  sakiyomi trace formats --json
")]
    Formats,
}

/// Describe a trace.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The trace, in any supported format, plain or compressed; `-` is standard input
    trace: PathBuf,
    #[command(flatten)]
    reading: TraceArgs,
}

/// Convert a trace to another format.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// The trace, in any supported format, plain or compressed; `-` is standard input
    trace: PathBuf,
    #[command(flatten)]
    into: DestinationArgs,
    #[command(flatten)]
    reading: TraceArgs,
}

impl Trace {
    /// Returns whether it ends by signals itself, or leaves them to a command.
    pub(crate) fn holds_signals(&self) -> bool {
        matches!(self, Trace::Record(_))
    }

    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Trace::Record(record) => return record.run(common),
            Trace::Info(info) => info.run(common)?,
            Trace::Convert(convert) => convert.run(common)?,
            Trace::Generate(generate) => generate.run(common)?,
            Trace::Formats => formats(common)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Serialize)]
struct InfoDocument<'a> {
    trace: &'a str,
    format: &'static str,
    #[serde(flatten)]
    info: &'a Info,
}

impl InfoArgs {
    fn run(&self, common: &Common) -> Result<()> {
        let mut options = self.reading.options()?;
        if options.device.is_none() && options.map == DeviceMap::Refuse {
            // The description of a trace of several devices needs no choice among them.
            options.map = DeviceMap::Keep;
        }
        let mut trace = Records::open(&self.trace, &options)?;
        let mut collector = Collector::default();
        each_record(&mut trace, &self.trace, common, |record| {
            collector.observe(record);
            Ok(())
        })?;
        let info = collector.finish();
        if common.json {
            let result = InfoDocument { trace: trace.name(), format: trace.format().name(), info: &info };
            return print_result("sakiyomi.trace-info/2", &result);
        }
        print_text(&described(trace.name(), trace.format(), &info))
    }
}

fn described(name: &str, format: Format, info: &Info) -> String {
    let mut text = format!("{name}\n");
    let mut line = |key: &str, value: String| text.push_str(&format!("  {key:<18} {value}\n"));
    let share = |ratio: Option<f64>| ratio.map_or_else(|| number::NONE.to_owned(), number::percent);
    line("format", format!("{} ({})", format.name(), format.description()));
    line("records", number::count(info.records));
    line(
        "reads",
        format!(
            "{} ({}), {}",
            number::count(info.reads),
            share(info.read_ratio),
            number::bytes(info.read_bytes)
        ),
    );
    line("writes", format!("{}, {}", number::count(info.writes), number::bytes(info.written_bytes)));
    if info.flushes + info.discards + info.fua_writes > 0 {
        line("others", others(info));
    }
    line("devices", info.devices.to_string());
    if let Some(duration) = info.duration_ns {
        let rate = info.requests_per_s.map_or_else(String::new, |rate| format!(", {rate:.1} commands/s"));
        line("duration", format!("{}{rate}", number::duration(duration)));
    }
    line("pace", if info.closed_loop { "closed loop" } else { "open loop" }.to_owned());
    let sizes = info.size_bytes.as_ref().map(|sizes| spread(sizes, number::bytes));
    line("size", sizes.unwrap_or_else(|| number::NONE.to_owned()));
    line(
        "sequential",
        format!(
            "{}, within 32 streams {}",
            share(info.sequential_ratio),
            share(info.stream_sequential_ratio)
        ),
    );
    line("footprint", number::bytes(info.footprint_bytes));
    line("highest address", number::bytes(info.highest_end_bytes));
    for (key, times) in [
        ("inter-arrival", &info.inter_arrival_ns),
        ("think time", &info.think_ns),
        ("measured response", &info.response_ns),
    ] {
        if let Some(times) = times {
            line(key, format!("{}, CoV {:.2}", spread(times, number::duration), times.cov));
        }
    }
    if let Some(depth) = info.queue_depth_mean {
        line("mean queue depth", format!("{depth:.2}"));
    }
    text
}

fn others(info: &Info) -> String {
    let [flushes, discards, fua] = [info.flushes, info.discards, info.fua_writes].map(number::count);
    format!("{flushes} flushes, {discards} discards, {fua} writes with FUA")
}

fn spread(distribution: &Distribution, format: impl Fn(u64) -> String) -> String {
    format!(
        "mean {}, median {}, p90 {}, p99 {}, {} to {}",
        format(distribution.mean.round() as u64),
        format(distribution.p50),
        format(distribution.p90),
        format(distribution.p99),
        format(distribution.min),
        format(distribution.max)
    )
}

impl Convert {
    fn run(&self, common: &Common) -> Result<()> {
        let mut trace = Records::open(&self.trace, &self.reading.options()?)?;
        let mut into = self.into.open()?;
        each_record(&mut trace, &self.trace, common, |record| into.write(record))?;
        into.finish(common)
    }
}

/// Processes all records of a trace, with progress.
fn each_record(
    trace: &mut Records,
    path: &Path,
    common: &Common,
    mut take: impl FnMut(&Record) -> Result<()>,
) -> Result<()> {
    let mut progress = Progress::new(trace_size(path), common.quiet);
    let mut taken = 0u64;
    while let Some(record) = trace.next() {
        take(&record?)?;
        taken += 1;
        if taken.is_multiple_of(1 << 16) {
            progress.set(trace.bytes_read(), || format!("{taken} records"))?;
        }
    }
    Ok(())
}

fn formats(common: &Common) -> Result<()> {
    if common.json {
        let all = Format::ALL
            .map(|format| serde_json::json!({ "name": format.name(), "description": format.description() }));
        return print_result("sakiyomi.trace-formats/2", &all);
    }
    let lines = Format::ALL.map(|format| format!("{:<20} {}\n", format.name(), format.description()));
    print_text(&lines.concat())
}
