//! `trace generate`: generates traces with known properties.

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_trace::generate::pc::PcParams;
use sakiyomi_trace::generate::{Arrival, Pattern, Sizes, Workload};
use sakiyomi_trace::{Record, TraceError};

use super::destination::DestinationArgs;
use crate::args::HELP;
use crate::console::Common;
use crate::progress::Progress;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi trace generate pc pc.csv
  sakiyomi trace generate random random.parquet --count 100000 --span 200GB --arrival poisson:80
  sakiyomi trace generate zipf zipf.csv --exponent 0.9 --sizes 4KiB:3,64KiB:1 --reads 0.7
";

const RANDOM_EXAMPLES: &str = "Examples:
  sakiyomi trace generate random random.parquet --count 100000 --span 200GB --arrival poisson:80
  sakiyomi trace generate random - --count 1000 | sakiyomi sim - --drive deskstar-7k250
";

const SEQUENTIAL_EXAMPLES: &str = "Examples:
  sakiyomi trace generate sequential sequential.csv --sizes 128KiB --arrival every:5ms
";

const INTERLEAVED_EXAMPLES: &str = "Examples:
  sakiyomi trace generate interleaved streams.csv --streams 8 --sizes 64KiB
";

const ZIPF_EXAMPLES: &str = "Examples:
  sakiyomi trace generate zipf zipf.csv --exponent 0.9 --sizes 4KiB:3,64KiB:1 --reads 0.7
";

const PC_EXAMPLES: &str = "Examples:
  sakiyomi trace generate pc pc.csv
  sakiyomi trace generate pc pc.parquet --span 500GB --duration 300s --count 4000 --seed 2
  sakiyomi trace generate pc pc.parquet --closed-loop --duration 82s --gap 1.5ms
";

/// Generate a trace.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Uniformly random accesses
    #[command(help_template = HELP, before_help = RANDOM_EXAMPLES)]
    Random(Shape),
    /// Sequential accesses
    #[command(help_template = HELP, before_help = SEQUENTIAL_EXAMPLES)]
    Sequential(Shape),
    /// Several sequential streams, one command of each in turn
    #[command(help_template = HELP, before_help = INTERLEAVED_EXAMPLES)]
    Interleaved {
        /// Number of streams
        #[arg(long, value_name = "N", default_value_t = 4)]
        streams: u32,
        #[command(flatten)]
        shape: Shape,
    },
    /// Random accesses with popularity by Zipf's law
    #[command(help_template = HELP, before_help = ZIPF_EXAMPLES)]
    Zipf {
        /// The exponent of Zipf's law; 0 is uniform
        #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
        exponent: f64,
        /// Size of the extents that differ in popularity
        #[arg(long, value_name = "SIZE", default_value = "1MiB")]
        extent: Bytes,
        #[command(flatten)]
        shape: Shape,
    },
    /// The workload of a PC, as in a PC benchmark: application start, media import, virus scan, video, gaming
    #[command(help_template = HELP, before_help = PC_EXAMPLES)]
    Pc {
        #[command(flatten)]
        target: Target,
        /// Size of the disk
        #[arg(long, value_name = "SIZE", default_value = "200GB")]
        span: Bytes,
        /// Duration of the trace
        #[arg(long, value_name = "TIME", default_value_t = PcParams::default().duration)]
        duration: Nanos,
        /// Number of commands
        #[arg(long, value_name = "N", default_value_t = PcParams::default().commands)]
        count: u64,
        #[command(flatten)]
        mix: Mix,
    },
}

/// Shares and times of the workload of a PC.
#[derive(Debug, Args)]
pub(crate) struct Mix {
    /// Wait for each command, and compute until the next one: the duration is the sum of the think times
    #[arg(long)]
    closed_loop: bool,
    /// Mean time between the commands of a burst; in a closed loop, mean think time in a burst
    #[arg(long, value_name = "TIME", default_value_t = PcParams::default().command_gap)]
    gap: Nanos,
    /// Share of reads that begin where the last one of the same file ended
    #[arg(long, value_name = "SHARE", default_value_t = PcParams::default().sequential, allow_negative_numbers = true)]
    sequential: f64,
    /// Share of reads that skip 64 to 112 KiB: a short read-ahead misses them, a long one does not
    #[arg(long, value_name = "SHARE", default_value_t = PcParams::default().skip, allow_negative_numbers = true)]
    skip: f64,
}

/// The destination of a trace, and its seed.
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    into: DestinationArgs,
    /// Seed; the same seed gives the same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Options common to the simple patterns.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    #[command(flatten)]
    target: Target,
    /// Number of commands
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    count: u64,
    /// Size of the part of the device to use, from its start
    #[arg(long, value_name = "SIZE", default_value = "100GB")]
    span: Bytes,
    /// Size of a command, or several sizes with weights, such as 4KiB:3,64KiB:1
    #[arg(long, value_name = "SIZES", default_value = "4KiB", value_parser = parse_sizes)]
    sizes: Sizes,
    /// Share of reads, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, allow_negative_numbers = true)]
    reads: f64,
    /// Arrival of commands: closed:THINK, every:TIME, poisson:RATE or bursty:ON,OFF,RATE
    #[arg(long, value_name = "KIND", default_value = "closed:0", value_parser = parse_arrival)]
    arrival: Arrival,
}

impl Generate {
    pub(crate) fn run(&self, common: &Common) -> Result<()> {
        match self {
            Generate::Random(shape) => shape.write(Pattern::Random, common),
            Generate::Sequential(shape) => shape.write(Pattern::Sequential, common),
            Generate::Interleaved { streams, shape } => {
                shape.write(Pattern::Interleaved { streams: *streams }, common)
            }
            Generate::Zipf { exponent, extent, shape } => {
                shape.write(Pattern::Zipf { exponent: *exponent, extent: *extent }, common)
            }
            Generate::Pc { target, span, duration, count, mix } => {
                let params = PcParams {
                    span: *span,
                    duration: *duration,
                    commands: *count,
                    closed_loop: mix.closed_loop,
                    command_gap: mix.gap,
                    sequential: mix.sequential,
                    skip: mix.skip,
                    ..PcParams::default()
                };
                target.write(params.records(target.seed)?.map(Ok), params.commands, common)
            }
        }
    }
}

impl Shape {
    fn write(&self, pattern: Pattern, common: &Common) -> Result<()> {
        let workload = Workload {
            pattern,
            count: self.count,
            span: self.span,
            sizes: self.sizes.clone(),
            read_share: self.reads,
            arrival: self.arrival,
        };
        let records = workload.records(self.target.seed)?;
        self.target.write(records.map(Ok), self.count, common)
    }
}

impl Target {
    fn write(
        &self,
        records: impl Iterator<Item = Result<Record, TraceError>>,
        count: u64,
        common: &Common,
    ) -> Result<()> {
        let mut into = self.into.open()?;
        let mut progress = Progress::new(Some(count), common.quiet);
        for (index, record) in (1u64..).zip(records) {
            into.write(&record?)?;
            if index.is_multiple_of(1 << 16) {
                progress.set(index, || format!("{index} records"))?;
            }
        }
        drop(progress);
        into.finish(common)
    }
}

fn parse_sizes(text: &str) -> Result<Sizes> {
    if !text.contains([',', ':']) {
        return Ok(Sizes::Fixed(text.parse()?));
    }
    let choice = |part: &str| {
        let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
        Ok((
            size.parse()?,
            weight.parse().with_context(|| format!("the weight `{weight}` is not a whole number"))?,
        ))
    };
    Ok(Sizes::Weighted(text.split(',').map(choice).collect::<Result<_>>()?))
}

fn parse_arrival(text: &str) -> Result<Arrival> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let rate = |text: &str| {
        text.parse().with_context(|| format!("the rate `{text}` is not a number of commands per second"))
    };
    match kind {
        "closed" => Ok(Arrival::ClosedLoop { think: rest.parse()? }),
        "every" => Ok(Arrival::Fixed { interval: rest.parse()? }),
        "poisson" => Ok(Arrival::Poisson { rate_per_second: rate(rest)? }),
        "bursty" => {
            let parts: Vec<&str> = rest.split(',').collect();
            ensure!(
                parts.len() == 3,
                "write it like bursty:200ms,2s,100 (mean burst, mean pause, commands per second)"
            );
            Ok(Arrival::Bursty {
                on: parts[0].parse()?,
                off: parts[1].parse()?,
                rate_per_second: rate(parts[2])?,
            })
        }
        _ => {
            bail!(
                "`{kind}` is not a kind of arrival; give closed:THINK, every:TIME, poisson:RATE or bursty:ON,OFF,RATE"
            )
        }
    }
}
