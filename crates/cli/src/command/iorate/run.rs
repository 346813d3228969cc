//! `iorate run`: runs a program with a rate.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use sakiyomi_iorate::Control;
use sakiyomi_iorate::protocol::{Rate, Set, Target};
use sakiyomi_model::Nanos;
use sakiyomi_os::priority::short_slice;
use sakiyomi_os::process::command::{Running, Signals, Status, adopt_orphans};
use sakiyomi_report::result::IorateProgram;
use sakiyomi_report::{IorateResult, Present, text};

use super::{Words, found, give, warn};
use crate::child;
use crate::console::{Common, Envelope, note, note_pretty_json, print_error};

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi iorate run 20 /mnt/disk -- tar cf backup.tar /mnt/disk
  sakiyomi iorate run --every 40ms /mnt/disk -- dd if=/mnt/disk/file of=/dev/null iflag=direct
  sakiyomi iorate run 30 /mnt/disk --children --report -- make -C /mnt/disk/source
";

pub(super) const USAGE: &str = "sakiyomi iorate run PERCENT|--every TIME DIR -- COMMAND";

/// Time slice of the command. Beside 16 programs on two cores, the mean of I/Os of 1 ms fell from 1.6 ms to 1.1 ms.
const COMMAND_TIME_SLICE: Duration = Duration::from_micros(100);

/// Run a command with a rate.
#[derive(Debug, Args)]
#[command(
    after_help = "The command runs unmodified: its standard streams, signals, terminal and exit code are its own. The exit \
        code is that of the command; 125 if sakiyomi fails or the rate is refused, 126 if the command cannot be \
        executed, 127 if it is not found. Standard output belongs to the command, so the report and the object of \
        --json go to standard error."
)]
pub(crate) struct Run {
    /// Percentage of the device (1 to 100), and any file or directory of the mount
    #[arg(required = true, num_args = 1..=2, value_names = ["PERCENT", "DIR"])]
    words: Vec<OsString>,
    /// Time that each I/O is to take, instead of a percentage
    #[arg(long, value_name = "TIME")]
    every: Option<Nanos>,
    /// Include all descendants of the command, which share the rate
    #[arg(long)]
    children: bool,
    /// Accept the rate even if it cannot be guaranteed
    #[arg(long)]
    best_effort: bool,
    /// Expect each I/O at once after the last one, as of one thread that only reads: larger rates can then be kept
    #[arg(long)]
    back_to_back: bool,
    /// Print the report even if standard error is not a terminal
    #[arg(long)]
    report: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    pub(super) fn run(&self, common: &Common) -> ExitCode {
        self.regulated(common).unwrap_or_else(|error| child::failed(&error))
    }

    fn regulated(&self, common: &Common) -> Result<ExitCode> {
        let (directory, rate) = self.asked()?;
        let control = Control::open(directory)?;
        // Time for which the command waits for a core after a reply is part of its I/O time. If this is refused, it is as
        // long as that of other programs.
        let _ = short_slice(COMMAND_TIME_SLICE);
        let signals = Signals::hold().context("cannot block signals")?;
        let begun = Instant::now();
        let (running, target) = self.start(&control, rate, &signals)?;
        running.wait(&signals).context("cannot wait for the program, which continues on its own")?;
        let elapsed = begun.elapsed();
        // Until its status is fetched, its PID cannot be reused.
        let result = found(&control, &target);
        // The rate may have ended with its process.
        let _ = control.clear(&target);
        let end = running.end().context("the program has ended, but its exit status is unknown")?;
        self.print_report(result, elapsed, end.status, common);
        Ok(child::end_as(end.status))
    }

    fn asked(&self) -> Result<(PathBuf, Rate)> {
        let mut words = Words::new(&self.words, USAGE);
        let rate = words.rate(self.every)?;
        let directory = words.directory()?;
        words.end()?;
        Ok((directory, rate))
    }

    /// Starts the program once its rate is set; returns the program and the owner of the rate.
    fn start(&self, control: &Control, rate: Rate, signals: &Signals) -> Result<(Running, Target)> {
        let set = |target: Target| Set {
            target,
            rate,
            best_effort: self.best_effort,
            back_to_back: self.back_to_back,
        };
        if self.children {
            adopt_orphans().context("cannot become the parent of the command's orphaned descendants")?;
            let target = Target::Tree { pid: std::process::id() };
            give(control, &set(target.clone()))?;
            return Ok((Running::start(&self.command, signals)?, target));
        }
        let mut refused = None;
        let started = Running::start_after(&self.command, signals, |pid| {
            refused = give(control, &set(Target::Process { pid })).err();
            refused.is_none()
        });
        match refused {
            Some(error) => Err(error),
            None => {
                let running = started?;
                let target = Target::Process { pid: running.number() };
                Ok((running, target))
            }
        }
    }

    /// Reports the result. A failure must not change the exit status, which is the program's.
    fn print_report(&self, result: Result<IorateResult>, elapsed: Duration, status: Status, common: &Common) {
        let mut result = match result {
            Ok(result) => result,
            Err(error) => return print_error(&format!("{error:#}; the accuracy of the rate is unknown")),
        };
        let (exit_code, signal) = child::code_and_signal(Some(status));
        result.program = Some(IorateProgram {
            words: self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            exit_code,
            signal,
            elapsed_ns: elapsed.as_nanos() as u64,
        });
        if common.json {
            note_pretty_json(&Envelope { schema: IorateResult::SCHEMA, result: &result });
        } else if self.report || !common.quiet && io::stderr().is_terminal() {
            for owner in &result.owners {
                note(&format!("sakiyomi: {}", text::iorate_owner(owner)));
            }
            warn(&result);
        }
    }
}
