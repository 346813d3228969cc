//! `run`: runs a program and prefetches the files that it reads.

mod result;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sakiyomi_model::Bytes;
use sakiyomi_os::process::command::{End, Running, Signals, wait_for_other};
use sakiyomi_prefetch::Limit;
use sakiyomi_prefetch::follow::{Learning, Options, Summary, follow};
use sakiyomi_prefetch::profile::{Profile, ProfileStore, name_of};
use sakiyomi_report::{Document, Report, Reported, text};

use crate::child;
use crate::console::{Common, note, note_pretty_json, print_error};
use crate::output::{OutDir, Overwrite};
use crate::provenance;
use result::Asked;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi run -- gzip -k big.tar
  sakiyomi run --report --out report -- tar cf backup.tar directory
  sakiyomi run --dry-run -- md5sum big.dat
  sakiyomi run --limit 64MiB --step 16MiB -- sort big.csv -o sorted.csv
  sakiyomi run --pid 4711
";

/// Time limit for the follower's summary after the program has ended; longer than the storage measurement of
/// `--dry-run`.
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(4);

/// Run a command and prefetch the files it reads.
#[derive(Debug, Args)]
#[command(
    after_help = "The command runs unmodified: its standard streams, signals, terminal and exit code are its own, and \
        it continues if sakiyomi is killed. The exit code is that of the command; 125 if sakiyomi fails, 126 \
        if the command cannot be executed, 127 if it is not found. Standard output belongs to the command, \
        so the report and the JSON of --json go to standard error."
)]
pub(crate) struct Run {
    /// Prefetch distance: adapted to the program (auto), or a fixed size
    #[arg(long, value_name = "auto|SIZE", default_value = "auto")]
    limit: Distance,
    /// Bytes per prefetch request, only with --limit SIZE [default: a quarter of it]
    #[arg(long, value_name = "SIZE")]
    step: Option<Bytes>,
    /// Limit the memory for prefetched data further; it is never more than a quarter of the available memory and half of what the control group has left
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Observe without prefetching, and report what prefetching would save; then drop up to 16 MiB of the program's data from the page cache and read them again, to measure the storage
    #[arg(long)]
    dry_run: bool,
    /// Record what the command waits for at its start, and prefetch it at the next one [default: if it waits for many files]
    #[arg(long, conflicts_with = "no_learn")]
    learn: bool,
    /// Neither record what the command waits for nor use what was recorded
    #[arg(long)]
    no_learn: bool,
    /// Print the report even if standard error is not a terminal
    #[arg(long)]
    report: bool,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Follow this running process and its descendants until it exits, or until Ctrl-C
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "pid", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Value of `--limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    Auto,
    Fixed(Bytes),
}

impl FromStr for Distance {
    type Err = String;

    fn from_str(text: &str) -> Result<Distance, String> {
        if text == "auto" {
            return Ok(Distance::Auto);
        }
        text.parse().map(Distance::Fixed).map_err(|error| format!("{error}; or give auto"))
    }
}

/// The least that can be prefetched.
const PAGE_BYTES: u64 = 4 << 10;

/// Checks that a size is at least that of a page; a smaller one has probably lost its unit.
fn ensure_page(option: &str, size: Bytes) -> Result<()> {
    let number = size.0;
    ensure!(
        number >= PAGE_BYTES,
        "{option} {size}: less than a page of 4KiB cannot be prefetched; give a size such as {}MiB",
        number.max(1)
    );
    Ok(())
}

impl Run {
    pub(crate) fn run(&self, common: &Common) -> ExitCode {
        self.followed(common).unwrap_or_else(|error| child::failed(&error))
    }

    fn followed(&self, common: &Common) -> Result<ExitCode> {
        let options = self.options()?;
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let signals = Signals::hold().context("cannot block signals")?;
        let begun = Instant::now();
        if let Some(process) = self.pid {
            let follower =
                Follower::start(process, options, Learning::Never, Profile::new(Vec::new(), PathBuf::new()))?;
            wait_for_other(process, &signals).with_context(|| format!("cannot follow process {process}"))?;
            let elapsed = begun.elapsed();
            self.print_report(follower.finish(), None, elapsed, None, out.as_ref(), common);
            return Ok(ExitCode::SUCCESS);
        }
        let (store, profile) = self.profile();
        let learning = if store.is_some() { self.learning() } else { Learning::Never };
        let running = Running::start(&self.command, &signals)?;
        let follower = Follower::start(running.number(), options, learning, profile);
        running.wait(&signals).context("cannot wait for the program, which continues on its own")?;
        let elapsed = begun.elapsed();
        let summary = follower.and_then(|follower| follower.finish());
        let end = running.end().context("the program has ended, but its exit status is unknown")?;
        let saved_as =
            summary.as_ref().ok().zip(store).and_then(|(summary, store)| save(summary, &store, common));
        self.print_report(summary, saved_as, elapsed, Some(end), out.as_ref(), common);
        Ok(child::end_as(end.status))
    }

    fn options(&self) -> Result<Options> {
        let limit = match (self.limit, self.step) {
            (Distance::Auto, None) => Limit::AUTO,
            (Distance::Auto, Some(step)) => {
                bail!("--step {step} is for a fixed distance; give one, as --limit 64MiB")
            }
            (Distance::Fixed(limit), step) => {
                let step = step.map_or((limit.0 / 4).max(PAGE_BYTES), |step| step.0);
                ensure_page("--limit", limit)?;
                ensure_page("--step", Bytes(step))?;
                Limit::Fixed { limit: limit.0, step }
            }
        };
        self.memory.map_or(Ok(()), |memory| ensure_page("--memory", memory))?;
        Ok(Options { limit, memory: self.memory.map(|bytes| bytes.0), watch_only: self.dry_run })
    }

    fn learning(&self) -> Learning {
        match () {
            () if self.no_learn || self.dry_run => Learning::Never,
            () if self.learn => Learning::Always,
            () => Learning::Auto,
        }
    }

    /// Returns the user's profiles, and that of this command; none if its words or its directory are not UTF-8.
    fn profile(&self) -> (Option<ProfileStore>, Profile) {
        let words: Option<Vec<String>> =
            self.command.iter().map(|word| word.to_str().map(str::to_owned)).collect();
        let directory = std::env::current_dir().ok().filter(|directory| directory.to_str().is_some());
        let empty = || Profile::new(Vec::new(), PathBuf::new());
        let (Some(store), Some(words), Some(directory)) = (ProfileStore::of_user(), words, directory) else {
            return (None, empty());
        };
        let profile =
            if self.learning() == Learning::Never { empty() } else { store.of_command(&words, &directory) };
        (Some(store), profile)
    }

    /// Reports the result. A failure must not change the exit status, which is the program's.
    fn print_report(
        &self,
        summary: Result<Summary>,
        saved_as: Option<String>,
        elapsed: Duration,
        end: Option<End>,
        out: Option<&OutDir>,
        common: &Common,
    ) {
        let summary = match summary {
            Ok(summary) => summary,
            Err(error) => return print_error(&format!("{error:#}; the program has continued on its own")),
        };
        let result = result::result(self.asked(), &summary, saved_as, elapsed, end);
        let document = Document::new(provenance::run(elapsed), result);
        if let Some(out) = out
            && let Err(error) = out.write_report(&document)
        {
            print_error(&format!("{error:#}"));
        }
        if common.json {
            note_pretty_json(&document);
        } else if self.report || self.dry_run || !common.quiet && io::stderr().is_terminal() {
            // The elapsed time is among the figures, and the reader knows the machine.
            let report = Report { runs: Vec::new(), ..document.report() };
            note(text::render(&report, common.color.style_of_notes()).trim_end());
        }
    }

    fn asked(&self) -> Asked {
        let program = match self.pid {
            Some(process) => vec![format!("process {process}")],
            None => self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        };
        let limit = match self.limit {
            Distance::Auto => "adapted to the program".to_owned(),
            Distance::Fixed(limit) => format!("{limit}"),
        };
        Asked { program, limit, dry_run: self.dry_run }
    }
}

/// Saves what was learned; returns the name of the profile. A failure is only noted: the program has run.
fn save(summary: &Summary, store: &ProfileStore, common: &Common) -> Option<String> {
    let profile = summary.learned.profile.as_ref()?;
    match store.save(profile) {
        Ok(()) => Some(name_of(&profile.command, &profile.directory)),
        Err(error) => {
            common
                .note(&format!("what was learned is not saved in {}: {error}", store.directory().display()));
            None
        }
    }
}

/// A thread that follows programs.
struct Follower {
    thread: Thread,
    stop: Arc<AtomicBool>,
    summary: mpsc::Receiver<Result<Summary>>,
}

impl Follower {
    fn start(process: u32, options: Options, learning: Learning, profile: Profile) -> Result<Follower> {
        let (sender, summary) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            let summary = follow(process, options, learning, profile, &stopped);
            // The receiver may no longer exist.
            drop(sender.send(summary.with_context(|| format!("cannot follow process {process}"))));
        };
        let thread = thread::Builder::new().name("follow".to_owned()).spawn(body);
        let thread = thread.context("cannot start a thread that follows the program")?.thread().clone();
        Ok(Follower { thread, stop, summary })
    }

    fn finish(self) -> Result<Summary> {
        self.stop.store(true, Ordering::Release);
        self.thread.unpark();
        let summary = self.summary.recv_timeout(SUMMARY_TIMEOUT);
        summary.context("following the program has failed")?
    }
}
