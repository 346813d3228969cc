//! `help`: the help of a command, and the options of every command.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, CommandFactory};
use sakiyomi_model::suggest::{did_you_mean, similar};

use super::Cli;
use crate::console::{self, Common};
use crate::external;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi help options
  sakiyomi help sim
  sakiyomi help trace convert
";

/// Name of the page of the options of every command.
pub(crate) const OPTIONS_PAGE: &str = "options";

/// Print the help of a command.
#[derive(Debug, Args)]
pub(crate) struct Help {
    /// The command, such as `trace convert`, or `options` for the options of every command [default: list the commands]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Help {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let page = match &self.command[..] {
            [page] if page == OPTIONS_PAGE => options().try_get_matches_from(["sakiyomi", "--help"]),
            words => {
                let cli = Cli::command();
                if let Err(error) = find(&cli, words) {
                    // An external command prints its own help.
                    let words = words.iter().map(OsString::from).chain(["--help".into()]);
                    return Err(external::exec(&cli, words).unwrap_or(error));
                }
                let words = words.iter().map(String::as_str);
                cli.try_get_matches_from(["sakiyomi"].into_iter().chain(words).chain(["--help"]))
            }
        };
        let page = page.expect_err("clap returns a help page as an error");
        console::print_help(&page)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Checks that there is a command of this name.
///
/// # Errors
/// If not; the error suggests the nearest name.
pub(super) fn find(cli: &clap::Command, words: &[String]) -> Result<()> {
    let mut command = cli;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| {
            let near = similar(word, command.get_subcommands().map(clap::Command::get_name));
            let hint = match near.is_empty() {
                true => "; `sakiyomi help` lists them".to_owned(),
                false => did_you_mean(&near),
            };
            anyhow!("`{}` is not a command{hint}", words.join(" "))
        })?;
    }
    Ok(())
}

/// Returns a command that has the options of every command, and nothing else.
fn options() -> clap::Command {
    let page = clap::Command::new("sakiyomi")
        .override_usage("sakiyomi <COMMAND> [OPTIONS]")
        .help_template("{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}")
        .after_help("How sizes and durations are written, and the exit codes: sakiyomi --help");
    console::shown(Common::augment_args(page).about("Options of every command"))
}
