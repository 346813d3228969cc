//! The command line. Each command has a file of its own under `command/`; shared modules are beside this file.
//!
//! Results go to stdout, progress and warnings to stderr. Exit codes: 0 success, 1 a requested check failed, 2 usage
//! or operating error, 130 ended by Ctrl-C; `run` and `iorate run` exit as their program does. If the reader of a
//! pipe closes it, the command ends silently.

mod args;
mod child;
mod command;
mod completion;
mod console;
mod drive_file;
mod log;
mod manual;
mod measurement;
mod output;
mod parallel;
mod progress;
mod provenance;
mod reading;
mod screen;
mod simulation;
mod tables;
mod vary;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use command::Cli;
use progress::Interrupted;

fn main() -> ExitCode {
    if let Some(answered) = completion::requested(Cli::command) {
        return exit_code(answered);
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| command::exit_with(&error));
    if cli.command.ends_at_a_look() {
        progress::end_at_ctrl_c();
    }
    exit_code(command::run(cli))
}

fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<Interrupted>() => {
            console::complain(&error.to_string());
            ExitCode::from(progress::INTERRUPTED_EXIT_CODE)
        }
        Err(error) => {
            console::complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
