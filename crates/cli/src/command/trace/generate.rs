//! `trace generate`: traces of known properties.

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_trace::generate::pc::PcParams;
use sakiyomi_trace::generate::{Arrival, Pattern, Sizes, Workload};
use sakiyomi_trace::{Record, TraceError};

use super::destination::DestinationArgs;
use crate::console::Common;
use crate::progress::Progress;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi trace generate pc pc.csv
  sakiyomi trace generate random random.parquet --count 100000 --span 200GB --arrival poisson:80
  sakiyomi trace generate zipf zipf.csv --exponent 0.9 --sizes 4KiB:3,64KiB:1 --reads 0.7
";

/// Make a trace.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Anywhere, all places alike
    Random(Shape),
    /// One after the other
    Sequential(Shape),
    /// Several sequential streams, a command of each in turn
    Interleaved {
        /// How many streams
        #[arg(long, value_name = "N", default_value_t = 4)]
        streams: u32,
        #[command(flatten)]
        shape: Shape,
    },
    /// Some places more popular than others
    Zipf {
        /// How unequal: 0 is all alike
        #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
        exponent: f64,
        /// The size of the places
        #[arg(long, value_name = "SIZE", default_value = "1MiB")]
        extent: Bytes,
        #[command(flatten)]
        shape: Shape,
    },
    /// The life of a PC in the manner of a PC benchmark: application start, media import, virus scan, video, gaming
    Pc {
        #[command(flatten)]
        target: Target,
        /// The disk's size
        #[arg(long, value_name = "SIZE", default_value = "200GB")]
        span: Bytes,
        /// How long it lasts
        #[arg(long, value_name = "TIME", default_value_t = PcParams::default().duration)]
        duration: Nanos,
        /// How many commands
        #[arg(long, value_name = "N", default_value_t = PcParams::default().commands)]
        count: u64,
    },
}

/// Where the trace goes, and from which seed it comes.
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    into: DestinationArgs,
    /// Same seed, same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What the simple patterns have in common.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    #[command(flatten)]
    target: Target,
    /// How many commands
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    count: u64,
    /// The part of the device that is used, from its start
    #[arg(long, value_name = "SIZE", default_value = "100GB")]
    span: Bytes,
    /// How long commands are: one size, or several with weights, such as 4KiB:3,64KiB:1
    #[arg(long, value_name = "SIZES", default_value = "4KiB", value_parser = parse_sizes)]
    sizes: Sizes,
    /// The share of reads, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, allow_negative_numbers = true)]
    reads: f64,
    /// When commands come: closed:THINK, every:TIME, poisson:RATE, bursty:ON,OFF,RATE
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
            Generate::Pc { target, span, duration, count } => {
                let params =
                    PcParams { span: *span, duration: *duration, commands: *count, ..PcParams::default() };
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
            weight.parse().with_context(|| format!("the weight `{weight}` is no whole number"))?,
        ))
    };
    Ok(Sizes::Weighted(text.split(',').map(choice).collect::<Result<_>>()?))
}

fn parse_arrival(text: &str) -> Result<Arrival> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let rate = |text: &str| {
        text.parse().with_context(|| format!("the rate `{text}` is no number of commands a second"))
    };
    match kind {
        "closed" => Ok(Arrival::ClosedLoop { think: rest.parse()? }),
        "every" => Ok(Arrival::Fixed { interval: rest.parse()? }),
        "poisson" => Ok(Arrival::Poisson { rate_per_second: rate(rest)? }),
        "bursty" => {
            let parts: Vec<&str> = rest.split(',').collect();
            ensure!(
                parts.len() == 3,
                "write it like bursty:200ms,2s,100 (mean burst, mean silence, commands a second)"
            );
            Ok(Arrival::Bursty {
                on: parts[0].parse()?,
                off: parts[1].parse()?,
                rate_per_second: rate(parts[2])?,
            })
        }
        _ => {
            bail!("commands come closed:THINK, every:TIME, poisson:RATE or bursty:ON,OFF,RATE, not `{kind}`")
        }
    }
}
