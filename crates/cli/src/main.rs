//! The command line. Each command has a file of its own under `command/`; what they share stands beside this one.
//!
//! Results go to stdout, progress and warnings to stderr. Exit codes: 0 done, 1 a check that was asked for failed,
//! 2 usage or operating error, 130 ended by Ctrl-C. A reader that closes its end of a pipe ends us quietly.

mod args;
mod command;
mod console;
mod drive_file;
mod machine;
mod measurement;
mod outcome;
mod output;
mod progress;
mod simulation;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use command::Cli;
use progress::Interrupted;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| wrong_usage(&error));
    progress::end_at_ctrl_c();
    match command::run(cli) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<Interrupted>() => {
            console::complain(&error.to_string());
            ExitCode::from(130)
        }
        Err(error) => {
            console::complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Says what is wrong, and ends with the code that the command has for it.
fn wrong_usage(error: &clap::Error) -> ! {
    // wc's own; all others agree on 2.
    let is_wc = std::env::args_os().nth(1).is_some_and(|command| command == "wc");
    if is_wc && error.use_stderr() {
        let _ = error.print();
        std::process::exit(1);
    }
    error.exit()
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
