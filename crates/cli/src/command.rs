//! The commands, one file each.

mod compare;
mod doctor;
mod drive;
mod shell;
mod sim;
mod sweep;
mod trace;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::{Cli, HELP};

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
    /// Block traces: describe, convert, generate
    #[command(subcommand, help_template = HELP, before_help = trace::EXAMPLES)]
    Trace(trace::Trace),
    /// Drives: list and show
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

pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    let common = &cli.common;
    match cli.command {
        Command::Sim(sim) => sim.run(common),
        Command::Compare(compare) => compare.run(common),
        Command::Sweep(sweep) => sweep.run(common),
        Command::Trace(trace) => trace.run(common),
        Command::Drive(drive) => drive.run(common),
        Command::Doctor => doctor::run(common),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}
