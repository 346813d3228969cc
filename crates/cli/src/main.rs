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
mod external;
mod log;
mod manual;
mod output;
mod parallel;
mod progress;
mod provenance;
mod reading;
mod screen;
mod shard;
mod simulation;
mod tables;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use command::Cli;
use progress::Interrupted;

fn main() -> ExitCode {
    if let Some(answered) = completion::requested(Cli::command) {
        return exit_code(answered);
    }
    let cli = match Cli::try_parse_text_command().map_or_else(Cli::try_parse, Ok) {
        Ok(cli) => cli,
        Err(error) => match external::exec(&Cli::command(), std::env::args_os().skip(1)) {
            Some(error) => return exit_code(Err(error)),
            None => command::exit_with(&error),
        },
    };
    if cli.command.polls_for_ctrl_c() {
        progress::end_at_ctrl_c();
    }
    exit_code(command::run(cli))
}

fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<Interrupted>() => {
            console::print_error(&error.to_string());
            ExitCode::from(progress::INTERRUPTED_EXIT_CODE)
        }
        Err(error) => {
            console::print_error(&in_a_sentence(&error));
            ExitCode::from(2)
        }
    }
}

/// Returns an error with its causes; one that the text before it ends with is not said again.
fn in_a_sentence(error: &anyhow::Error) -> String {
    let mut sentence = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !sentence.ends_with(&cause) {
            sentence = format!("{sentence}: {cause}");
        }
    }
    sentence
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
