//! The commands, one file each.

mod compare;
mod doctor;
mod drive;
mod grep;
pub(crate) mod iorate;
mod mount;
mod probe;
mod run;
mod scenario;
mod shell;
mod sim;
mod sweep;
mod trace;
mod umount;
mod validate;
mod wc;

use std::error::Error;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::args::HELP;
use crate::child;
use crate::console::{Colour, Common, note};

/// sakiyomi (先読み, "reading ahead"): makes I/O time visible, hides it behind computation, keeps it constant, predicts it
#[derive(Debug, Parser)]
#[command(
    name = "sakiyomi",
    version,
    help_template = HELP,
    before_help = "Examples:
  sakiyomi sim trace.csv.gz --drive deskstar-7k250 --out result
  sakiyomi sweep trace.csv.gz --drive deskstar-7k250 --vary cache.read_ahead.max=64KiB,256KiB,1MiB
  sakiyomi trace generate pc pc.csv
  sakiyomi probe . --out result
  sakiyomi scenario run scenarios/waseda2006-a.toml
  sakiyomi wc -lw big.txt
  sakiyomi mount files /mnt/disk --drive deskstar-7k250
  sakiyomi run -- gzip -k big.tar
  sakiyomi iorate run 20 /mnt/disk -- tar cf backup.tar /mnt/disk
",
    after_help = "Sizes: KiB MiB GiB are powers of 1024, kB MB GB powers of 1000; a bare K, M, G means the 1024 kind.
Durations need their unit: 250us, 1.5ms, 10s.
Exit codes: 0 done, 1 a check that was asked for failed, 2 usage or operating error; 130 ended by Ctrl-C.
`run` and `iorate run` end as their program does, `wc` and `grep` as GNU's."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What sakiyomi can do.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// Simulate a block trace on a hard disk: hits and misses, response times, what the mechanism does
    #[command(help_template = HELP, before_help = sim::EXAMPLES)]
    Sim(sim::Sim),
    /// Compare two simulations, side by side on the same scales
    #[command(help_template = HELP, before_help = compare::EXAMPLES)]
    Compare(compare::Compare),
    /// Simulate all combinations of settings, and show which are worth having
    #[command(help_template = HELP, before_help = sweep::EXAMPLES)]
    Sweep(sweep::Sweep),
    /// Hold a simulated drive against a measured one: how far off are distributions, single requests, hits and misses?
    #[command(help_template = HELP, before_help = validate::EXAMPLES)]
    Validate(validate::Validate),
    /// Run a program while what it reads is read ahead of it, at a controlled distance
    #[command(help_template = HELP, before_help = run::EXAMPLES)]
    Run(run::Run),
    /// Show a directory's files at the speed of a hard disk: any program meets the drive
    #[command(help_template = HELP, before_help = mount::EXAMPLES)]
    Mount(mount::Mount),
    /// Keep the I/O time of a process on a mount constant: give it a rate, and watch how it is kept
    #[command(subcommand, help_template = HELP, before_help = iorate::EXAMPLES)]
    Iorate(iorate::Iorate),
    /// Take a mount away
    #[command(help_template = HELP, before_help = umount::EXAMPLES)]
    Umount(umount::Umount),
    /// Measure methods of I/O: which is fastest, which cheapest, and is the storage or the CPU the limit?
    #[command(help_template = HELP, before_help = probe::EXAMPLES)]
    Probe(probe::Probe),
    /// Experiments in virtual time: programs, page cache, prefetching, regulation and a drive together
    #[command(subcommand, help_template = HELP, before_help = scenario::EXAMPLES)]
    Scenario(scenario::Command),
    /// Count lines, words, characters and bytes, as GNU wc does, on all cores while reading
    #[command(help_template = HELP, before_help = wc::EXAMPLES)]
    Wc(wc::Wc),
    /// Print the lines that a pattern matches, or count them, on all cores while reading
    #[command(help_template = HELP, before_help = grep::EXAMPLES)]
    Grep(grep::Grep),
    /// Block traces: describe, convert, generate
    #[command(subcommand, help_template = HELP, before_help = trace::EXAMPLES)]
    Trace(trace::Trace),
    /// Drives: list, show, import, fit to a measured one
    #[command(subcommand, help_template = HELP, before_help = drive::EXAMPLES)]
    Drive(drive::Drive),
    /// What this machine allows, and what follows from it
    Doctor,
    /// Print completions for a shell
    #[command(help_template = HELP, before_help = shell::COMPLETIONS_EXAMPLES)]
    Completions(shell::Completions),
    /// Print the manual page
    Man(shell::Man),
}

impl Command {
    /// Whether Ctrl-C has it clean up and end at its next look at the progress. `run` and `iorate run` leave signals to
    /// their program; `wc` and `grep` have nothing to clean up, and end at once.
    pub(crate) fn ends_at_a_look(&self) -> bool {
        match self {
            Command::Run(_) | Command::Wc(_) | Command::Grep(_) => false,
            Command::Iorate(iorate) => !iorate.holds_signals(),
            _ => true,
        }
    }
}

/// Says what is wrong with a command line, or what was asked for about it, and ends.
///
/// Who calls `run` must be able to tell our failures from those of the program, even those of its command line; and `wc`
/// ends as GNU's does.
pub(crate) fn refuse(error: &clap::Error) -> ! {
    let words = std::env::args_os()
        .skip(1)
        .filter_map(|word| word.into_string().ok())
        .filter(|word| !word.starts_with('-'))
        .take(2)
        .collect::<Vec<_>>();
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    if error.use_stderr() {
        let tool = if matches!(word(0), "wc" | "grep") { word(0) } else { "" };
        complain_of(error, tool);
    } else {
        // Nobody may be there to read it.
        let _ = error.print();
    }
    let code = match (word(0), word(1)) {
        _ if !error.use_stderr() => error.exit_code(),
        ("run", _) | ("iorate", "run") => child::OWN_FAILURE.into(),
        ("wc", _) => 1,
        _ => error.exit_code(),
    };
    std::process::exit(code)
}

/// Says what is wrong with a command line as it is said of anything else: clap's words, with its tip and usage, behind
/// our name and that of the tool that the command stands in for.
fn complain_of(error: &clap::Error, tool: &str) {
    let rendered = error.render();
    let text =
        if Colour::Auto.style_of_notes().colour { rendered.ansi().to_string() } else { rendered.to_string() };
    let name = if tool.is_empty() { "sakiyomi:".to_owned() } else { format!("sakiyomi: {tool}:") };
    let mut text = text.replacen("error:", &name, 1);
    if let Some((std, own)) = error.source().and_then(number_problem) {
        text = text.replacen(&std, own, 1);
    }
    note(text.trim_end());
}

/// What the standard library says of a text that is not a number, and what we say.
fn number_problem(source: &(dyn Error + 'static)) -> Option<(String, &'static str)> {
    let own = if let Some(error) = source.downcast_ref::<ParseIntError>() {
        match error.kind() {
            IntErrorKind::PosOverflow => "the number is too large",
            IntErrorKind::NegOverflow => "the number is too small",
            _ => "expected a whole number, such as 3",
        }
    } else if source.is::<ParseFloatError>() {
        "expected a number, such as 0.5"
    } else {
        return None;
    };
    Some((source.to_string(), own))
}

pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    let common = &cli.common;
    match cli.command {
        Command::Sim(sim) => sim.run(common),
        Command::Compare(compare) => compare.run(common),
        Command::Sweep(sweep) => sweep.run(common),
        Command::Validate(validate) => validate.run(common),
        Command::Run(run) => Ok(run.run(common)),
        Command::Mount(mount) => mount.run(common),
        Command::Iorate(iorate) => iorate.run(common),
        Command::Umount(umount) => umount.run(),
        Command::Probe(probe) => probe.run(common),
        Command::Scenario(scenario) => scenario.run(common),
        Command::Wc(wc) => wc.run(common),
        Command::Grep(grep) => grep.run(common),
        Command::Trace(trace) => trace.run(common),
        Command::Drive(drive) => drive.run(common),
        Command::Doctor => doctor::run(common),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory;

    use super::Cli;

    /// Every command and what is below it.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command).chain(below).collect()
    }

    #[test]
    fn an_option_takes_the_same_in_every_command() {
        // One of them or several, a file or a directory: the name says which.
        let differ = ["out", "drive", "method", "block"];
        let mut takes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let cli = Cli::command();
        for argument in all(&cli).iter().flat_map(|command| command.get_opts()) {
            let Some(long) = argument.get_long().filter(|long| !differ.contains(long)) else { continue };
            if !argument.get_action().takes_values() {
                continue;
            }
            takes.entry(long.to_owned()).or_default().insert(format!("{:?}", argument.get_value_names()));
        }
        takes.retain(|_, names| names.len() > 1);
        assert!(takes.is_empty(), "{takes:?}");
    }

    #[test]
    fn a_heading_holds_for_its_own_options_alone() {
        let cli = Cli::command();
        for command in all(&cli) {
            for argument in command.get_opts() {
                let own = ["out", "log", "chunk", "vary", "from", "until", "fit_share", "fit_until", "set"];
                let is_own = own.contains(&argument.get_id().as_str());
                assert!(
                    !is_own || argument.get_help_heading().is_none(),
                    "{} {argument}",
                    command.get_name()
                );
            }
        }
    }
}
