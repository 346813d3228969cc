//! `drive`: lists, shows, imports, fits and measures drives.

mod fit;
mod measure;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Subcommand;
use comfy_table::{Table, presets};
use sakiyomi_drive::spec::{DriveSpec, builtin, explain};
use sakiyomi_model::Bytes;
use sakiyomi_simulation::{FromDisksim, drives};

use crate::args::{ArrayArg, DriveArgs, HELP};
use crate::console::{Common, print_result, print_text};
use crate::output::OutFile;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi drive list
  sakiyomi drive show deskstar-7k250 > mine.toml
  sakiyomi drive show deskstar-7k250 --explain
  sakiyomi drive import cheetah9LP.diskspecs -o cheetah9LP.toml
  sakiyomi drive fit measured.trace.gz --drive deskstar-p7k500 -o mine.toml
  sudo sakiyomi drive measure /dev/sdb
";

/// Drives.
#[derive(Debug, Subcommand)]
pub(crate) enum Drive {
    /// List the built-in drives
    #[command(help_template = HELP, before_help = LIST_EXAMPLES)]
    List,
    /// Print a drive as TOML, with the source of every figure
    #[command(help_template = HELP, before_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Convert DiskSim's parameter files to TOML, and report what the simulation does differently
    #[command(help_template = HELP, before_help = IMPORT_EXAMPLES)]
    Import(Import),
    /// Identify a drive from a measured trace: policies by likelihood, parameters with intervals
    #[command(help_template = HELP, before_help = fit::EXAMPLES)]
    Fit(Box<fit::Fit>),
    /// Measure a live disk by timed reads, or say that it is not a disk
    #[command(help_template = HELP, before_help = measure::EXAMPLES)]
    Measure(measure::Measure),
}

const LIST_EXAMPLES: &str = "Examples:
  sakiyomi drive list
  sakiyomi drive list --json
";

const IMPORT_EXAMPLES: &str = "Examples:
  sakiyomi drive import cheetah9LP.diskspecs -o cheetah9LP.toml
  sakiyomi drive import cheetah9LP.parv | less
  sakiyomi sim trace.csv.gz --drive cheetah9LP.diskspecs
";

const SHOW_EXAMPLES: &str = "Examples:
  sakiyomi drive show deskstar-7k250 > mine.toml
  sakiyomi drive show deskstar-7k250 --explain
";

/// Print a drive as TOML.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// A built-in drive (`sakiyomi drive list`), a TOML file, or a .diskspecs or .parv file of DiskSim
    #[arg(value_name = "NAME|FILE")]
    drive: String,
    /// Change a setting of the drive first, such as cache.read_ahead.max=1MiB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Explain every key: its value, accepted values, and meaning
    #[arg(long)]
    explain: bool,
}

/// Convert DiskSim's parameter files to TOML.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The .model and .seek files that FILE names are read from its directory, as is the .parv file of the \
        same name, which describes the bus. Without a .parv file, only the drive's own transfer time counts."
)]
pub(crate) struct Import {
    /// A .diskspecs file of DiskSim, or the .parv file that refers to it
    #[arg(value_name = "FILE.diskspecs")]
    file: String,
    /// Write the TOML to this file instead of standard output
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Drive {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Drive::List => list(common)?,
            Drive::Show(show) => show.run(common)?,
            Drive::Import(import) => import.run(common)?,
            Drive::Fit(fit) => return fit.run(common),
            Drive::Measure(measure) => measure.run(common)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list(common: &Common) -> Result<()> {
    let lines = drives();
    if common.json {
        return print_result("sakiyomi.drives/1", &lines);
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["name", "drive", "capacity", "rpm", "cache", "queue"]);
    for line in lines {
        let gigabytes = line.capacity_bytes as f64 / 1e9;
        let capacity = if gigabytes < 999.5 {
            format!("{gigabytes:.0} GB")
        } else {
            format!("{:.0} TB", gigabytes / 1e3)
        };
        let row = [line.id, line.name, capacity, line.rpm.to_string()];
        table.add_row(
            row.into_iter().chain([Bytes(line.cache_bytes).to_string(), line.queue_depth.to_string()]),
        );
    }
    print_text(&format!("{table}\n\nsakiyomi drive show NAME prints one with the source of every figure."))
}

impl Show {
    fn run(&self, common: &Common) -> Result<()> {
        let spec = DriveArgs { drive: self.drive.clone(), set: self.set.clone(), array: ArrayArg::default() }
            .spec(common)?;
        if common.json {
            return print_result("sakiyomi.drive/1", &spec);
        }
        if self.explain {
            return print_text(&explained(&spec));
        }
        match builtin(&self.drive) {
            // The stored text, with its comments.
            Ok(drive) if self.set.is_empty() => print_text(drive.toml),
            _ => print_text(&spec.to_toml()),
        }
    }
}

impl Import {
    fn run(&self, common: &Common) -> Result<()> {
        ensure!(
            !self.file.ends_with(".toml"),
            "{}: the file is TOML already; pass it to --drive, or name a .diskspecs or .parv file of DiskSim",
            self.file
        );
        let read = FromDisksim::read(&self.file)?;
        if let Some(out) = &self.output {
            OutFile::create(out)?.write(read.drive.to_toml().as_bytes())?;
        }
        read.notes().iter().for_each(|note| common.note(note));
        if let Some(out) = &self.output {
            common.note(&format!("written: {}", out.display()));
        }
        if common.json {
            let FromDisksim { drive, warnings, files } = &read;
            let result = serde_json::json!({ "drive": drive, "warnings": warnings, "files": files });
            return print_result("sakiyomi.drive-import/2", &result);
        }
        if self.output.is_some() { Ok(()) } else { print_text(&read.drive.to_toml()) }
    }
}

fn explained(spec: &DriveSpec) -> String {
    let entries = spec.entries();
    let mut text = String::new();
    for entry in explain() {
        let values: Vec<&str> =
            entries.iter().filter(|(key, _)| entry.matches(key)).map(|(_, value)| value.as_str()).collect();
        let value = match values.as_slice() {
            [] => "by default".to_owned(),
            [one] => short(one),
            [first, .., last] => format!("{} … {}", short(first), short(last)),
        };
        text.push_str(&format!("{} = {value}\n    [{}] {}\n", entry.key, entry.values, entry.meaning));
    }
    text
}

/// Returns a value, truncated if it is long, such as a drive's list of thousands of defects.
fn short(value: &str) -> String {
    /// Length at which a value is truncated.
    const VALUE_MAX_CHARS: usize = 100;
    let Some((end, _)) = value.char_indices().nth(VALUE_MAX_CHARS) else { return value.to_owned() };
    let shown = value[..end].rfind(", ").map_or(end, |comma| comma + 1);
    format!("{} …", &value[..shown])
}
