//! The commands, one file each.

mod aggregate;
mod compare;
mod daemon;
mod doctor;
mod drive;
mod explain;
mod grep;
pub(crate) mod help;
pub(crate) mod iorate;
mod join;
mod merge;
mod mount;
mod probe;
mod profile;
mod query;
mod reproduce;
mod run;
mod scenario;
mod serve;
mod shell;
mod sim;
mod sort;
mod stream;
mod sweep;
mod trace;
mod umount;
mod validate;
mod wc;
mod whatif;

use std::error::Error;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args as _, FromArgMatches as _, Parser, Subcommand};

use crate::args::HELP;
use crate::child;
use crate::console::{self, Color, Common, note};
use crate::tables::run_command;

/// sakiyomi (先読み, "reading ahead"): measure, hide, bound and predict the time that programs wait for I/O
#[derive(Debug, Parser)]
#[command(
    name = "sakiyomi",
    version = env!("SAKIYOMI_VERSION"),
    help_template = HELP,
    before_help = "Examples:
  sakiyomi explain -- ./job.sh
  sakiyomi sim trace.csv.gz --drive deskstar-7k250 --out result
  sakiyomi sweep trace.csv.gz --drive deskstar-7k250 --vary cache.read_ahead.max=64KiB,256KiB,1MiB
  sakiyomi trace generate pc pc.csv
  sakiyomi probe . --out result
  sakiyomi scenario run scenarios/waseda2006-a.toml
  sakiyomi reproduce --out reproduction
  sakiyomi wc -lw big.txt
  sakiyomi sort lineitem.parquet --by l_partkey,l_suppkey:desc --memory 512MiB -o sorted.parquet
  sakiyomi stream run alerts.toml
  sakiyomi mount files /mnt/disk --drive deskstar-7k250
  sakiyomi serve --drive deskstar-7k250 --nbd disk.sock
  sakiyomi run -- gzip -k big.tar
  sakiyomi iorate run 20 /mnt/disk -- tar cf backup.tar /mnt/disk
",
    after_help = "Sizes: KiB MiB GiB are powers of 1024, kB MB GB powers of 1000; K, M and G alone are powers of 1024.
Durations need their unit: 250us, 1.5ms, 10s.
`sakiyomi NAME` with any other NAME runs the program sakiyomi-NAME from PATH, if there is one, with the remaining arguments.
Exit codes: 0 success, 1 a requested check failed, 2 usage or operating error; 130 ended by Ctrl-C.
`run`, `explain`, `iorate run` and `serve` exit with the code of their command, `wc` and `grep` with the codes of GNU wc and grep."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The commands of sakiyomi.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Command {
    /// Simulate a block trace on a hard disk: cache hits, response times, and disk time
    #[command(help_template = HELP, before_help = sim::EXAMPLES)]
    Sim(sim::Sim),
    /// Compare two simulations, side by side on the same scales
    #[command(help_template = HELP, before_help = compare::EXAMPLES)]
    Compare(compare::Compare),
    /// Simulate every combination of settings, and mark the Pareto-optimal ones
    #[command(help_template = HELP, before_help = sweep::EXAMPLES)]
    Sweep(sweep::Sweep),
    /// Join the shards of a sweep or an experiment into the result of a single run
    #[command(help_template = HELP, before_help = merge::EXAMPLES)]
    Merge(merge::Merge),
    /// Compare a simulated drive with a measured one: distributions, single requests, hits and misses
    #[command(help_template = HELP, before_help = validate::EXAMPLES)]
    Validate(validate::Validate),
    /// Record a command, say what it waits for, and predict what would help
    #[command(help_template = HELP, before_help = explain::EXAMPLES)]
    Explain(explain::Explain),
    /// Predict the elapsed time of a recorded program on other storage, with other memory, or with prefetching
    #[command(help_template = HELP, before_help = whatif::EXAMPLES)]
    Whatif(whatif::Whatif),
    /// Run a command and prefetch the files it reads
    #[command(help_template = HELP, before_help = run::EXAMPLES)]
    Run(run::Run),
    /// List, show, copy and delete what `run` has learned about the starts of commands
    #[command(subcommand, help_template = HELP, before_help = profile::EXAMPLES)]
    Profile(profile::Command),
    /// Prefetch for the processes of this machine that wait for I/O
    #[command(subcommand, help_template = HELP, before_help = daemon::EXAMPLES)]
    Daemon(daemon::Command),
    /// Mount a directory with the timing of an emulated hard disk
    #[command(help_template = HELP, before_help = mount::EXAMPLES)]
    Mount(mount::Mount),
    /// Set and watch rates: constant I/O times for processes on a mount
    #[command(subcommand, help_template = HELP, before_help = iorate::EXAMPLES)]
    Iorate(iorate::Iorate),
    /// Serve a file, a disk or an emulated drive as a block device over NBD
    #[command(help_template = HELP, before_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Unmount a directory mounted by sakiyomi
    #[command(help_template = HELP, before_help = umount::EXAMPLES)]
    Umount(umount::Umount),
    /// Measure I/O methods: throughput, CPU time, and whether the storage or the CPU is the limit
    #[command(help_template = HELP, before_help = probe::EXAMPLES)]
    Probe(probe::Probe),
    /// Run experiments in virtual time: programs, page cache, prefetching, regulation and a drive together
    #[command(subcommand, help_template = HELP, before_help = scenario::EXAMPLES)]
    Scenario(scenario::Command),
    /// Repeat the experiments of the five papers, and compare them with the published figures
    #[command(help_template = HELP, before_help = reproduce::EXAMPLES)]
    Reproduce(reproduce::Reproduce),
    /// Count lines, words, characters and bytes as GNU wc does, on all cores
    #[command(help_template = HELP, before_help = wc::EXAMPLES)]
    Wc(wc::Wc),
    /// Print or count the lines that match a pattern, on all cores
    #[command(help_template = HELP, before_help = grep::EXAMPLES)]
    Grep(grep::Grep),
    /// Sort a table by columns, within a memory limit
    #[command(help_template = HELP, before_help = sort::EXAMPLES)]
    Sort(Box<sort::Sort>),
    /// Join two tables on equal columns, within a memory limit
    #[command(help_template = HELP, before_help = join::EXAMPLES)]
    Join(Box<join::Join>),
    /// Compute sums, means, extremes and counts of groups of rows, within a memory limit
    #[command(help_template = HELP, before_help = aggregate::EXAMPLES)]
    Aggregate(Box<aggregate::Aggregate>),
    /// Generate TPC-H tables, run query 1, calibrate and explain operators
    #[command(subcommand, help_template = HELP, before_help = query::EXAMPLES)]
    Query(query::Query),
    /// Run pipelines of records on cores with low latency, and plan which operator runs where
    #[command(subcommand, help_template = HELP, before_help = stream::EXAMPLES)]
    Stream(stream::Stream),
    /// Describe, convert, generate and record block traces
    #[command(subcommand, help_template = HELP, before_help = trace::EXAMPLES)]
    Trace(trace::Trace),
    /// List, show, import, fit and measure drives
    #[command(subcommand, help_template = HELP, before_help = drive::EXAMPLES)]
    Drive(drive::Drive),
    /// Check what this machine supports, and what that means for sakiyomi
    #[command(help_template = HELP, before_help = doctor::EXAMPLES)]
    Doctor,
    /// Print the help of a command, or the options of every command
    #[command(help_template = HELP, before_help = help::EXAMPLES)]
    Help(help::Help),
    /// Print the completion script of a shell
    #[command(help_template = HELP, before_help = shell::COMPLETIONS_EXAMPLES)]
    Completions(shell::Completions),
    /// Print the manual page, or write the pages of all commands
    #[command(help_template = HELP, before_help = shell::MAN_EXAMPLES)]
    Man(shell::Man),
}

impl Command {
    /// Returns whether Ctrl-C makes the command clean up and end at its next update of the progress. `run`,
    /// `iorate run` and `serve` with a command leave signals to their program; `trace record` reads them itself; `wc` and
    /// `grep` have nothing to clean up, and end at once.
    pub(crate) fn polls_for_ctrl_c(&self) -> bool {
        match self {
            Command::Run(_) | Command::Wc(_) | Command::Grep(_) => false,
            Command::Explain(explain) => !explain.holds_signals(),
            Command::Iorate(iorate) => !iorate.holds_signals(),
            Command::Serve(serve) => !serve.holds_signals(),
            Command::Trace(trace) => !trace.holds_signals(),
            _ => true,
        }
    }
}

impl Cli {
    /// Parses a command line of `wc` or `grep`, which are also run on many small files one by one, without the
    /// definitions of the other commands: these take longer than to count a file. `None` for any other command line,
    /// and for one that is not valid or wants help.
    pub(crate) fn try_parse_text_command() -> Option<Cli> {
        let name = std::env::args_os().nth(1)?;
        let command = match name.to_str()? {
            "wc" => wc::Wc::augment_args(clap::Command::new("wc")),
            "grep" => grep::Grep::augment_args(clap::Command::new("grep")),
            _ => return None,
        };
        let all = Common::augment_args(clap::Command::new("sakiyomi").subcommand(command));
        let mut matches = all.try_get_matches().ok()?;
        let common = Common::from_arg_matches_mut(&mut matches).ok()?;
        let (_, mut own) = matches.remove_subcommand()?;
        let command = if name == "wc" {
            Command::Wc(wc::Wc::from_arg_matches_mut(&mut own).ok()?)
        } else {
            Command::Grep(grep::Grep::from_arg_matches_mut(&mut own).ok()?)
        };
        Some(Cli { command, common })
    }
}

/// Prints clap's message about a command line, which is an error or the requested help, and exits.
pub(crate) fn exit_with(error: &clap::Error) -> ! {
    let code = if error.use_stderr() {
        complain_of(error);
        usage_error_code()
    } else {
        match console::print_help(error) {
            Ok(()) => 0,
            Err(error) if crate::is_closed_pipe(&error) => 0,
            Err(error) => {
                console::print_error(&format!("{error:#}"));
                usage_error_code()
            }
        }
    };
    std::process::exit(code)
}

/// Returns the exit code of a command with wrong arguments. Callers of `run` must be able to distinguish its failures
/// from those of the command that it runs, and `wc` exits as GNU's does.
fn usage_error_code() -> i32 {
    let words = std::env::args_os()
        .skip(1)
        .filter_map(|word| word.into_string().ok())
        .filter(|word| !word.starts_with('-'))
        .take(2)
        .collect::<Vec<_>>();
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    match (word(0), word(1)) {
        ("run" | "explain", _) | ("iorate", "run") => child::OWN_FAILURE_CODE.into(),
        ("wc", _) => 1,
        _ => 2,
    }
}

/// Reports an error in a command line in the form of all other errors: clap's message, with its tip and usage, after
/// the name of sakiyomi and that of the tool that the command replaces.
fn complain_of(error: &clap::Error) {
    let words = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
    let tool =
        words.take(20).find(|word| !word.starts_with('-')).filter(|word| matches!(&**word, "wc" | "grep"));
    let rendered = error.render();
    let text =
        if Color::Auto.style_of_notes().color { rendered.ansi().to_string() } else { rendered.to_string() };
    let name = tool.map_or_else(|| "sakiyomi:".to_owned(), |tool| format!("sakiyomi: {tool}:"));
    let mut text = text.replacen("error:", &name, 1);
    if let Some((std, own)) = error.source().and_then(number_problem) {
        text = text.replacen(&std, own, 1);
    }
    note(text.trim_end());
}

/// Returns the standard library's message about a text that is not a number, and the message that replaces it.
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
        Command::Merge(merge) => merge.run(common),
        Command::Validate(validate) => validate.run(common),
        Command::Run(run) => Ok(run.run(common)),
        Command::Explain(explain) => Ok(explain.run(common)),
        Command::Whatif(whatif) => whatif.run(common).map(|()| ExitCode::SUCCESS),
        Command::Mount(mount) => mount.run(common),
        Command::Iorate(iorate) => iorate.run(common),
        Command::Profile(profile) => profile.run(common),
        Command::Daemon(daemon) => daemon.run(common),
        Command::Serve(serve) => serve.run(common),
        Command::Umount(umount) => umount.run(),
        Command::Probe(probe) => probe.run(common),
        Command::Scenario(scenario) => scenario.run(common),
        Command::Reproduce(reproduce) => reproduce.run(common),
        Command::Wc(wc) => wc.run(common),
        Command::Grep(grep) => grep.run(common),
        Command::Sort(sort) => run_command(&*sort, common),
        Command::Join(join) => run_command(&*join, common),
        Command::Aggregate(aggregate) => run_command(&*aggregate, common),
        Command::Query(query) => query.run(common),
        Command::Stream(stream) => stream.run(common),
        Command::Trace(trace) => trace.run(common),
        Command::Drive(drive) => drive.run(common),
        Command::Doctor => doctor::run(common),
        Command::Help(help) => help.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory;

    use super::Cli;

    /// Returns a command and all of its descendants.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command).chain(below).collect()
    }

    /// Returns the names that lead to a command and to each of its descendants.
    fn paths(command: &clap::Command) -> Vec<Vec<&str>> {
        let mut all = vec![Vec::new()];
        for below in command.get_subcommands() {
            all.extend(paths(below).into_iter().map(|path| [vec![below.get_name()], path].concat()));
        }
        all
    }

    #[test]
    fn an_option_takes_the_same_in_every_command() {
        // One or several, a file or a directory, a format or an engine: these names have several meanings.
        let differ = ["out", "output", "drive", "method", "block", "limit", "on", "to"];
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

    /// Returns the sakiyomi commands in a text of examples, as words. A backslash at the end continues a line; a
    /// pipeline may contain several commands.
    fn example_commands(examples: &str) -> Vec<Vec<String>> {
        let joined = examples.replace("\\\n", " ");
        let parts = joined.lines().flat_map(|line| line.split(" | ")).map(str::trim);
        let ours = parts.filter(|part| part.starts_with("sakiyomi "));
        let words = |part: &str| {
            let part = part.split(" > ").next().unwrap_or(part);
            let mut words = vec![String::new()];
            let mut quoted = false;
            for character in part.chars() {
                match character {
                    '\'' => quoted = !quoted,
                    ' ' if !quoted => words.push(String::new()),
                    other => words.last_mut().unwrap().push(other),
                }
            }
            words.retain(|word| !word.is_empty());
            words
        };
        ours.map(words).collect()
    }

    #[test]
    fn the_last_line_of_help_names_the_options_of_every_command() {
        let cli = Cli::command();
        let common: Vec<String> = cli
            .get_arguments()
            .filter(|argument| argument.is_global_set())
            .map(|argument| format!("--{}", argument.get_long().unwrap()))
            .collect();
        let line = format!("Options of every command ({}): sakiyomi help options", common.join(", "));
        for path in paths(&cli) {
            for flag in ["-h", "--help"] {
                // Its -h is that of GNU grep.
                let flag = if path == ["grep"] { "--help" } else { flag };
                let words = ["sakiyomi"].into_iter().chain(path.iter().copied()).chain([flag]);
                let help = Cli::command().try_get_matches_from(words).unwrap_err().to_string();
                assert_eq!(help.lines().last(), Some(line.as_str()), "{path:?} {flag}:\n{help}");
                assert_eq!(help.matches("--color").count(), 1, "{path:?} {flag}:\n{help}");
            }
        }
    }

    #[test]
    fn every_command_has_examples_which_can_be_typed() {
        let cli = Cli::command();
        for command in all(&cli) {
            let name = command.get_name();
            let examples = command.get_before_help().unwrap_or_else(|| panic!("{name} has no examples"));
            let examples = example_commands(&examples.to_string());
            assert!(examples.iter().any(|words| words.contains(&name.to_owned())), "{name}: {examples:?}");
            for words in examples {
                if let Err(error) = Cli::command().try_get_matches_from(&words) {
                    panic!("{words:?}: {error}");
                }
                let drives = words.windows(2).filter(|pair| pair[0] == "--drive").map(|pair| &pair[1]);
                for drive in drives.filter(|drive| !drive.contains(['.', ':'])) {
                    assert!(
                        sakiyomi_drive::spec::builtin(drive).is_ok(),
                        "{words:?}: no drive is called {drive}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_commands_in_scenarios_can_be_typed() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let mut typed = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let comments: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# ")).collect();
            for words in example_commands(&comments.join("\n")) {
                typed += 1;
                if let Err(error) = Cli::command().try_get_matches_from(&words) {
                    panic!("{}: {words:?}: {error}", path.display());
                }
            }
        }
        assert!(typed > 10, "{typed}");
    }

    #[test]
    fn help_is_sentences_with_a_verb_and_an_object() {
        let odd = ["Who", "Whom", "What", "Of", "Has", "So", "Somebody", "Nobody", "One"];
        let cli = Cli::command();
        for command in all(&cli) {
            let arguments = command.get_arguments().filter_map(|argument| argument.get_help());
            for help in arguments.chain(command.get_about()).map(ToString::to_string) {
                let first = help.split(' ').next().unwrap_or_default();
                assert!(!odd.contains(&first), "{}: {help}", command.get_name());
            }
        }
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
