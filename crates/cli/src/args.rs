//! Groups of options that several commands share; the options of a single command are in its file.

mod regulate;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use sakiyomi_drive::spec::{ArraySpec, DriveSpec};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_model::Nanos;
use sakiyomi_model::suggest::{did_you_mean, similar};
use sakiyomi_simulation::{HOST_QUEUE_DEFAULT, MeasuredTrace, Replaying, Workload};
use sakiyomi_trace::{DeviceChoice, DeviceMap, Format, ReadOptions};

use crate::console::Common;
use crate::drive_file::drive_spec;
pub(crate) use regulate::RegulateArgs;

/// Help template: help begins with a description of the command and with examples, and ends with the page of the options
/// of every command.
pub(crate) const HELP: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}\n\n\
    Options of every command (--json, --quiet, --color): sakiyomi help options";

/// The drive, and changes of its settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct DriveArgs {
    /// A built-in drive (`sakiyomi drive list`), a TOML file, or a .diskspecs or .parv file of DiskSim
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) drive: String,
    /// Change a setting of the drive, such as cache.read_ahead.max=1MiB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) array: ArrayArg,
}

/// Several drives instead of one.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ArrayArg {
    /// Use an array of such drives: raid0, raid1, raid5, raid6 or raid10, the number of drives, and the chunk; the settings
    /// array.failed and array.rebuild take drives away and rebuild them
    #[arg(long, value_name = "LEVEL:DRIVES[:CHUNK]")]
    array: Option<ArraySpec>,
}

impl ArrayArg {
    /// Returns whether there is an array.
    pub(crate) fn is_some(&self) -> bool {
        self.array.is_some()
    }

    /// Returns the array as it is written on the command line.
    pub(crate) fn text(&self) -> Option<String> {
        self.array.as_ref().map(ToString::to_string)
    }
}

impl DriveArgs {
    /// Returns the drive with its changes, validated.
    pub(crate) fn spec(&self, common: &Common) -> Result<DriveSpec> {
        let settings = self.set.iter().map(|setting| {
            let (key, value) = setting.split_once('=').with_context(|| {
                format!("--set {setting}: there is no `=`; write it like --set cache.read_ahead.max=1MiB")
            })?;
            anyhow::ensure!(
                !key.trim().is_empty(),
                "--set {setting}: the key is missing; write it like --set cache.read_ahead.max=1MiB"
            );
            Ok((key.trim(), value.trim()))
        });
        let settings: Vec<(&str, &str)> = settings.collect::<Result<_>>()?;
        let mut spec = drive_spec(&self.drive, common)?;
        spec.array = self.array.array.clone().or(spec.array);
        Ok(spec.with_settings(settings)?)
    }
}

// Headings in a command's help. Each option names its own: a heading for the group would also apply to the options
// after it.
const READING: &str = "Reading the trace";
const REPLAYING: &str = "Replaying the trace";

/// How a trace is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceArgs {
    /// Format of the trace, as listed by `sakiyomi trace formats` [default: detected]
    #[arg(long, help_heading = READING, value_name = "NAME")]
    format: Option<Format>,
    /// Use only requests to this device, if the trace has several: its number, such as 8,16, or its name
    #[arg(long, help_heading = READING, value_name = "N|NAME", conflicts_with = "map")]
    device: Option<DeviceChoice>,
    /// Map several devices to one drive: concat places them one after the other
    #[arg(long, help_heading = READING, value_name = "HOW", value_parser = ["concat"])]
    map: Option<String>,
    /// Reorder records that are up to this much out of order
    #[arg(long, help_heading = READING, value_name = "TIME", default_value = "1s")]
    sort_window: Nanos,
    /// Multiply arrival and think times by this factor; 0.5 is twice as fast
    #[arg(long, help_heading = READING, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    time_scale: f64,
    /// Event of blkparse or ftrace that counts as arrival: Q queued, I inserted, D issued, C completed [default: Q; I
    /// where measured times are compared]
    #[arg(long, help_heading = READING, value_name = "LETTER")]
    action: Option<char>,
}

impl TraceArgs {
    pub(crate) fn options(&self) -> Result<ReadOptions> {
        self.options_by('Q')
    }

    /// Returns the options, with this event by default.
    fn options_by(&self, default: char) -> Result<ReadOptions> {
        let action = self.action.unwrap_or(default);
        let action = u8::try_from(action).ok().filter(u8::is_ascii).with_context(|| {
            format!("--action {action}: give one of blkparse's action letters, such as Q, D or C")
        })?;
        Ok(ReadOptions {
            format: self.format,
            sort_window: self.sort_window,
            device: self.device.clone(),
            map: self.map(),
            time_scale: self.time_scale,
            action,
        })
    }

    fn map(&self) -> DeviceMap {
        if self.map.is_some() { DeviceMap::Concat } else { DeviceMap::Refuse }
    }
}

/// How a trace is replayed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Issue each request at its recorded time [default, unless the trace records a closed loop]
    #[arg(long, help_heading = REPLAYING, conflicts_with = "closed_loop")]
    open_loop: bool,
    /// Issue each request when an earlier one completes, after the trace's think time if it has one
    #[arg(long, help_heading = REPLAYING)]
    closed_loop: bool,
    /// Number of outstanding requests of the closed loop [default: 1]
    #[arg(long, help_heading = REPLAYING, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    outstanding: Option<u32>,
    /// Maximum requests queued in the host while the drive's queue is full
    #[arg(
        long, help_heading = REPLAYING, value_name = "N", default_value_t = HOST_QUEUE_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    host_queue: u32,
    /// Wrap addresses beyond the end of the drive around to its start
    #[arg(long, help_heading = REPLAYING)]
    pub(crate) wrap: bool,
}

impl ReplayArgs {
    fn replaying(&self) -> Replaying {
        let is_closed = match (self.closed_loop, self.open_loop) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        let Self { outstanding, host_queue, wrap, .. } = *self;
        Replaying { is_closed, outstanding, host_queue, wrap }
    }
}

/// A trace and its processing, shared by `sim` and `sweep`.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The trace, in any supported format, plain or compressed; `-` is standard input
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) drive: DriveArgs,
    /// Warm-up: exclude everything before this time from the results
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(crate) warm_up: Nanos,
    #[command(flatten)]
    pub(crate) reading: TraceArgs,
    #[command(flatten)]
    pub(crate) replaying: ReplayArgs,
}

impl WorkloadArgs {
    /// All that decides how the trace is read and replayed, as text: the same for the same options.
    pub(crate) fn definition(&self) -> String {
        format!("{:?} {:?} warm_up {:?}", self.reading, self.replaying, self.warm_up)
    }

    /// Returns the trace and its processing.
    pub(crate) fn workload(&self) -> Result<Workload> {
        let (trace, reading) = (self.trace.clone().into(), self.reading.options()?);
        Ok(Workload { trace, reading, replaying: self.replaying.replaying(), warm_up: self.warm_up })
    }
}

/// A trace with measured times, and a drive to compare with it.
#[derive(Clone, Debug, Args)]
pub(crate) struct MeasurementArgs {
    /// The trace, in a format with measured response times, plain or compressed; `-` is standard input
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) drive: DriveArgs,
    /// Wrap addresses beyond the end of the drive around to its start
    #[arg(long)]
    pub(crate) wrap: bool,
    #[command(flatten)]
    pub(crate) reading: TraceArgs,
}

impl MeasurementArgs {
    /// Returns the trace and how it is read.
    pub(crate) fn trace(&self) -> Result<MeasuredTrace> {
        // A drive's times are those of the requests that it got.
        let (trace, reading) = (self.trace.clone().into(), self.reading.options_by('I')?);
        Ok(MeasuredTrace { trace, reading, wrap: self.wrap })
    }
}

/// Parses an I/O method by its name; an error suggests the nearest name.
pub(crate) fn parse_method(text: &str) -> Result<EngineSpec, String> {
    text.parse::<EngineSpec>().map_err(|error| {
        let (name, _) = text.split_once(':').unwrap_or((text, ""));
        let names = EngineKind::ALL.map(EngineKind::name);
        let is_known = names.contains(&name);
        let near = if is_known { Vec::new() } else { similar(name, names) };
        format!("{error}{}", did_you_mean(&near))
    })
}
