//! `completions` and `man`: sakiyomi described to the shell and to `man`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::console::say;
use crate::output::OutDir;

pub(crate) const COMPLETIONS_EXAMPLES: &str = "Examples:
  sakiyomi completions bash > ~/.local/share/bash-completion/completions/sakiyomi
  sakiyomi completions zsh > ~/.zfunc/_sakiyomi
";

pub(crate) const MAN_EXAMPLES: &str = "Examples:
  sakiyomi man | man -l -
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
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "sakiyomi", &mut script);
        say(&String::from_utf8(script)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Print the manual page, or write the pages of all commands.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page for each command to this directory instead of printing one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        match &self.out {
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command()).render(&mut page)?;
                say(&String::from_utf8(page)?)?;
            }
            Some(directory) => {
                let out = OutDir::new(directory)?;
                clap_mangen::generate_to(Cli::command(), out.path())
                    .with_context(|| format!("cannot write manual pages into {}", directory.display()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
