//! `completions` and `man`: completion scripts and manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, help};
use crate::completion;
use crate::console::print_text;
use crate::manual;
use crate::output::OutDir;

pub(crate) const COMPLETIONS_EXAMPLES: &str = "Examples:
  sakiyomi completions bash > ~/.local/share/bash-completion/completions/sakiyomi
  sakiyomi completions zsh > ~/.zfunc/_sakiyomi
  sakiyomi completions fish > ~/.config/fish/completions/sakiyomi.fish
";

pub(crate) const MAN_EXAMPLES: &str = "Examples:
  sakiyomi man | man -l -
  sakiyomi man trace convert | man -l -
  sakiyomi man --out ~/.local/share/man/man1
";

/// Print the completion script of a shell.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        print_text(&completion::script(self.shell, Cli::command())?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Print the manual page, or write the pages of all commands.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Print the page of this command instead, such as `trace convert`
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write a page for each command to this directory instead of printing one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let pages = manual::pages(Cli::command())?;
        if let Some(directory) = &self.out {
            let out = OutDir::new(directory)?;
            pages.iter().try_for_each(|page| out.write(&page.file_name, &page.text))?;
            return Ok(ExitCode::SUCCESS);
        }
        let words = ["sakiyomi"].into_iter().chain(self.command.iter().map(String::as_str));
        let name = format!("{}.1", words.collect::<Vec<_>>().join("-"));
        help::find(&Cli::command(), &self.command)?;
        let page = pages.iter().find(|page| page.file_name == name).context("every command has a page")?;
        print_text(&String::from_utf8_lossy(&page.text))?;
        Ok(ExitCode::SUCCESS)
    }
}
