//! `iorate`: sets, clears, lists and watches the rates of processes on a regulated mount.

mod calibrate;
mod change;
mod course;
mod list;
pub(crate) mod result;
mod run;
mod top;

#[cfg(test)]
pub(crate) mod canned;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use sakiyomi_iorate::protocol::{Rate, Refusal, Set, Target};
use sakiyomi_iorate::{Control, Error};
use sakiyomi_model::Nanos;
use sakiyomi_report::result::IorateBypass;
use sakiyomi_report::{IorateResult, Present};

use crate::args::HELP;
use crate::console::{Common, note, print_result, print_text};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi mount files /mnt/disk --drive deskstar-7k250 --regulate
  sakiyomi iorate run 20 /mnt/disk -- tar cf backup.tar /mnt/disk
  sakiyomi iorate set 4711 /mnt/disk 20
  sakiyomi iorate set --group /batch /mnt/disk --every 40ms
  sakiyomi iorate list /mnt/disk
  sakiyomi iorate top /mnt/disk
";

/// Rates of processes on a mount.
#[derive(Debug, Subcommand)]
pub(crate) enum Iorate {
    /// Set the rate of a process: at 20 %, each of its I/Os takes five times the device's service time, however busy the device is
    #[command(help_template = HELP, before_help = change::SET_EXAMPLES, override_usage = change::SET_USAGE)]
    Set(change::Give),
    /// Remove a rate
    #[command(help_template = HELP, before_help = change::CLEAR_EXAMPLES, override_usage = change::CLEAR_USAGE)]
    Clear(change::Clear),
    /// List the rates of a mount, and how well they are kept
    #[command(help_template = HELP, before_help = list::EXAMPLES)]
    List(list::List),
    /// Measure the service times of a device, so that its rates are constant
    #[command(help_template = HELP, before_help = calibrate::EXAMPLES)]
    Calibrate(calibrate::Calibrate),
    /// Run a command with a rate, from its first I/O on
    #[command(help_template = HELP, before_help = run::EXAMPLES, override_usage = run::USAGE)]
    Run(run::Run),
    /// Watch the device and the processes that use it
    #[command(help_template = HELP, before_help = top::EXAMPLES)]
    Top(top::Top),
}

impl Iorate {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Iorate::Set(give) => give.run(common)?,
            Iorate::Clear(clear) => return clear.run(common),
            Iorate::List(list) => list.run(common)?,
            Iorate::Run(run) => return Ok(run.run(common)),
            Iorate::Top(top) => top.run(common)?,
            Iorate::Calibrate(calibrate) => calibrate.run(common)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns whether signals are left to the program that it runs.
    pub(crate) fn holds_signals(&self) -> bool {
        matches!(self, Iorate::Run(_))
    }
}

/// The positional words of a command line, taken one by one with a name for errors.
struct Words<'a> {
    left: std::slice::Iter<'a, OsString>,
    usage: &'static str,
}

impl<'a> Words<'a> {
    fn new(words: &'a [OsString], usage: &'static str) -> Words<'a> {
        Words { left: words.iter(), usage }
    }

    fn next(&mut self, what: &str) -> Result<&'a OsStr> {
        let word = self.left.next().map(OsString::as_os_str);
        word.with_context(|| format!("{what} is missing; write: {}", self.usage))
    }

    fn pid(&mut self) -> Result<u32> {
        let word = self.next("PID")?;
        let pid = word.to_str().and_then(|word| word.parse().ok()).filter(|&pid| pid > 0);
        pid.with_context(|| format!("{} is not a process ID; write: {}", word.display(), self.usage))
    }

    fn directory(&mut self) -> Result<PathBuf> {
        self.next("DIR").map(PathBuf::from)
    }

    /// Parses a percentage, unless a time is given.
    fn rate(&mut self, every: Option<Nanos>) -> Result<Rate> {
        if let Some(every) = every {
            ensure!(every.0 > 0, "--every 0: an I/O cannot take no time; give one such as 40ms");
            return Ok(Rate::EveryNs(every.0));
        }
        let word = self.next("PERCENT (or --every TIME)")?;
        let number = word.to_str().map(|word| word.strip_suffix('%').unwrap_or(word));
        let percent =
            number.and_then(|number| number.parse().ok()).filter(|percent| (1..=100).contains(percent));
        let percent = percent.with_context(|| {
            format!("a rate of {} is not possible; give 1 to 100, percent of the device", word.display())
        })?;
        Ok(Rate::Percent(percent))
    }

    fn end(mut self) -> Result<()> {
        match self.left.next() {
            Some(word) => bail!("unexpected argument {}; write: {}", word.display(), self.usage),
            None => Ok(()),
        }
    }
}

/// Sets a rate; if the device has no capacity for it, suggests how to set it nevertheless.
fn give(control: &Control, set: &Set) -> Result<()> {
    match control.set(set) {
        Ok(_) => Ok(()),
        Err(error @ Error::Refused { why: Refusal::NoRoom { .. }, .. }) => {
            bail!("{error}; --best-effort accepts it without a guarantee")
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the mount's state of an owner that has a rate, or had one until it ended.
fn found(control: &Control, target: &Target) -> Result<IorateResult> {
    Ok(result::result(control.path(), &control.find(target)?, None))
}

/// Warns if rates cannot be guaranteed.
fn warn(result: &IorateResult) {
    if let Some(line) = result.device.bypass.as_ref().map(IorateBypass::describe) {
        note(&format!("warning: {line}"));
    }
}

/// Prints the result as text, or as JSON.
fn emit(result: &IorateResult, common: &Common, words: impl FnOnce(&IorateResult) -> String) -> Result<()> {
    if common.json { print_result(IorateResult::SCHEMA, result) } else { print_text(&words(result)) }
}
