//! `profile`: what `run` has learned of commands.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use sakiyomi_prefetch::profile::{Found, Profile, ProfileStore, Saved, load, name_of, write};
use sakiyomi_report::number::bytes;
use serde::Serialize;

use crate::args::HELP;
use crate::console::{Common, note, print_result, print_text};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi run --learn -- python3 -c 'import pandas'
  sakiyomi profile list
  sakiyomi profile show python3-8c0d2f4a11b39e57
  sakiyomi profile save python3-8c0d2f4a11b39e57 pandas.json
  sakiyomi profile load pandas.json
  sakiyomi profile forget python3-8c0d2f4a11b39e57
";

const LIST_EXAMPLES: &str = "Examples:
  sakiyomi profile list
  sakiyomi profile list --json
";
const SHOW_EXAMPLES: &str = "Examples:
  sakiyomi profile show python3-8c0d2f4a11b39e57
";
const SAVE_EXAMPLES: &str = "Examples:
  sakiyomi profile save python3-8c0d2f4a11b39e57 pandas.json
";
const LOAD_EXAMPLES: &str = "Examples:
  sakiyomi profile load pandas.json
";
const FORGET_EXAMPLES: &str = "Examples:
  sakiyomi profile forget python3-8c0d2f4a11b39e57
  sakiyomi profile forget --all
";

/// Schema of `profile list --json`.
const LIST_SCHEMA: &str = "sakiyomi.profile-list/1";

/// List, show, copy and delete what `run` has learned about the starts of commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the profiles
    #[command(help_template = HELP, before_help = LIST_EXAMPLES)]
    List,
    /// Show what a profile prefetches, in order
    #[command(help_template = HELP, before_help = SHOW_EXAMPLES)]
    Show(Name),
    /// Copy a profile to a file
    #[command(help_template = HELP, before_help = SAVE_EXAMPLES)]
    Save(Save),
    /// Copy a file to the profiles, such as one from another machine with the same files
    #[command(help_template = HELP, before_help = LOAD_EXAMPLES)]
    Load(Load),
    /// Delete profiles
    #[command(help_template = HELP, before_help = FORGET_EXAMPLES)]
    Forget(Forget),
}

/// The name of a profile.
#[derive(Debug, Args)]
pub(crate) struct Name {
    /// The name that `profile list` shows
    name: String,
}

/// Arguments of `profile save`.
#[derive(Debug, Args)]
pub(crate) struct Save {
    /// The name that `profile list` shows
    name: String,
    /// The file to write
    file: PathBuf,
}

/// Arguments of `profile load`.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The file to read
    file: PathBuf,
}

/// Arguments of `profile forget`.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// The names that `profile list` shows
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Delete all profiles
    #[arg(long)]
    all: bool,
}

/// A profile in the list.
#[derive(Serialize)]
struct Listed {
    name: String,
    /// The command and its arguments.
    command: Vec<String>,
    /// Its working directory.
    directory: PathBuf,
    /// Runs that it is made of.
    runs: u64,
    /// Look-ups and files.
    entries: usize,
    /// Bytes that it prefetches.
    bytes: u64,
    /// Why it cannot be used; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Command {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        self.execute(common)?;
        Ok(ExitCode::SUCCESS)
    }

    fn execute(&self, common: &Common) -> Result<()> {
        let store = ProfileStore::of_user()
            .context("no directory for profiles: neither XDG_CACHE_HOME nor HOME is set")?;
        match self {
            Command::List => list(&store, common),
            Command::Show(Name { name }) => show(&named(&store, name)?, common),
            Command::Save(Save { name, file }) => {
                let profile = named(&store, name)?;
                write(&profile, file).with_context(|| format!("cannot write {}", file.display()))
            }
            Command::Load(Load { file }) => {
                let profile = load(file).with_context(|| format!("cannot load {}", file.display()))?;
                store
                    .save(&profile)
                    .with_context(|| format!("cannot write to {}", store.directory().display()))?;
                note(&format!("loaded as {}", name_of(&profile.command, &profile.directory)));
                Ok(())
            }
            Command::Forget(forget) => forget.run(&store),
        }
    }
}

impl Forget {
    fn run(&self, store: &ProfileStore) -> Result<()> {
        let all = || store.all().into_iter().map(|saved| saved.name).collect();
        let names: Vec<String> = if self.all { all() } else { self.names.clone() };
        // Nothing is deleted if one of them is misspelt.
        for name in &names {
            ensure!(exists(store, name), no_profile(store, name));
        }
        for name in &names {
            store.forget(name).with_context(|| format!("cannot delete {}", store.path(name).display()))?;
        }
        Ok(())
    }
}

fn exists(store: &ProfileStore, name: &str) -> bool {
    store.all().iter().any(|saved| saved.name == name)
}

fn no_profile(store: &ProfileStore, name: &str) -> String {
    format!("no profile {name} in {}; `sakiyomi profile list` shows them", store.directory().display())
}

fn named(store: &ProfileStore, name: &str) -> Result<Profile> {
    ensure!(exists(store, name), no_profile(store, name));
    let path = store.path(name);
    load(&path).with_context(|| format!("cannot load {}", path.display()))
}

fn list(store: &ProfileStore, common: &Common) -> Result<()> {
    let listed: Vec<Listed> = store.all().into_iter().map(listed).collect();
    if common.json {
        return print_result(LIST_SCHEMA, &listed);
    }
    if listed.is_empty() {
        return print_text(
            "No profiles yet: `sakiyomi run` makes them for commands that wait for many files.",
        );
    }
    let lines = listed.iter().map(|one| match &one.error {
        Some(error) => format!("{}\n    cannot be used: {error}", one.name),
        None => format!(
            "{}\n    {}\n    in {}: {} files and look-ups, {}, {}",
            one.name,
            one.command.join(" "),
            one.directory.display(),
            one.entries,
            bytes(one.bytes),
            if one.runs == 1 { "1 run".to_owned() } else { format!("{} runs", one.runs) },
        ),
    });
    print_text(&lines.collect::<Vec<_>>().join("\n"))
}

fn listed(saved: Saved) -> Listed {
    let Saved { name, profile } = saved;
    match profile {
        Ok(profile) => Listed {
            name,
            runs: profile.runs,
            entries: profile.entries.len(),
            bytes: profile.bytes(),
            command: profile.command,
            directory: profile.directory,
            error: None,
        },
        Err(error) => Listed {
            name,
            command: Vec::new(),
            directory: PathBuf::new(),
            runs: 0,
            entries: 0,
            bytes: 0,
            error: Some(error.to_string()),
        },
    }
}

fn show(profile: &Profile, common: &Common) -> Result<()> {
    if common.json {
        return crate::console::print_pretty_json(profile);
    }
    let lines = profile.entries.iter().map(|entry| {
        let what = match &entry.found {
            Found::File { ranges, .. } if ranges.is_empty() => "attributes".to_owned(),
            Found::File { .. } => bytes(entry.found.bytes()),
            Found::Directory => "directory".to_owned(),
            Found::Missing => "missing".to_owned(),
        };
        format!("{what:>12}  {}", entry.path.display())
    });
    print_text(&lines.collect::<Vec<_>>().join("\n"))
}
