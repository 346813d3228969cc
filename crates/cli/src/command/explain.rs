//! `explain`: records a program, says where its time goes, and predicts what would help.

mod attempt;
pub(crate) mod document;

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use sakiyomi_explain::Recording;
use sakiyomi_explain::record::{SampledRecording, Subject, TracedRecorder, TracedRecording};
use sakiyomi_explain::recording::{RECORDING_SCHEMA, RecordedMachine};
use sakiyomi_io::AtomicFile;
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_os::process::command::{End, Running, Signals, wait_for_other};
use sakiyomi_os::process::{Process, memory};
use sakiyomi_report::{Document, Report, Reported, text};

use crate::child;
use crate::console::{Common, note, note_pretty_json, print_error};
use crate::output::{OutDir, Overwrite};
use crate::provenance;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi explain -- ./job.sh
  sakiyomi explain --try -- tar cf backup.tar directory
  sakiyomi explain --save job.rec --out report -- md5sum big.dat
  sakiyomi explain --pid 4711 --for 30s
  sakiyomi explain --recording job.rec
";

/// The kernel's read-ahead where it is not reported.
const READ_AHEAD_DEFAULT: Bytes = Bytes(128 << 10);

/// Record a command, say what it waits for, and predict what would help
#[derive(Debug, Args)]
#[command(
    after_help = "The command runs unmodified: its standard streams, signals, terminal and exit code are its own, and it \
        continues if sakiyomi is killed. As root, the kernel's tracepoints report everything; without root, samples of \
        /proc show waits of a millisecond and more. A recording holds names and ranges of files, never contents. \
        After the command has ended, up to 16 MiB of a file that it waited for are dropped from the page cache and \
        read again, to measure the storage. Standard output belongs to the command, so the report and the JSON of --json \
        go to standard error."
)]
pub(crate) struct Explain {
    /// Record this running process and its descendants, until it exits or until Ctrl-C
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "recording"])]
    pid: Option<u32>,
    /// With --pid: record for this time
    #[arg(long = "for", value_name = "TIME", requires = "pid")]
    duration: Option<Nanos>,
    /// Explain a recording that was saved before
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    recording: Option<PathBuf>,
    /// Save the recording, for `sakiyomi whatif` and `explain --recording`
    #[arg(long, value_name = "FILE", conflicts_with = "recording")]
    save: Option<PathBuf>,
    /// Run the command again, several times, without and with the remedies that are predicted to help most, and print the measured times beside the predicted ones
    #[arg(long = "try", conflicts_with_all = ["pid", "recording"])]
    attempt: bool,
    /// Record by samples of /proc even as root
    #[arg(long, conflicts_with = "recording")]
    sampled: bool,
    /// Do not read a part of a file again to measure the storage
    #[arg(long, conflicts_with = "recording")]
    no_measure: bool,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required_unless_present_any = ["pid", "recording"], value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A recording in progress.
enum Recorder {
    Traced(TracedRecording),
    Sampled(SampledRecording),
}

impl Recorder {
    fn finish(self) -> Recording {
        match self {
            Recorder::Traced(recording) => recording.finish(),
            Recorder::Sampled(recording) => recording.finish(),
        }
    }
}

impl Explain {
    /// Returns whether it leaves signals to a command.
    pub(crate) fn holds_signals(&self) -> bool {
        self.recording.is_none()
    }

    pub(crate) fn run(&self, common: &Common) -> ExitCode {
        self.explained(common).unwrap_or_else(|error| child::failed(&error))
    }

    fn explained(&self, common: &Common) -> Result<ExitCode> {
        ensure!(
            self.duration.is_none() || self.pid.is_some(),
            "--for is for a process that runs already; give its --pid, or leave --for out"
        );
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let begun = Instant::now();
        if let Some(path) = &self.recording {
            let recording = load(path)?;
            let (result, _) = document::explain(&recording, None);
            let document = Document::new(provenance::run(begun.elapsed()), result);
            if let Some(out) = &out {
                out.write_report(&document)?;
            }
            common.present(&document)?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(path) = &self.save {
            // Before the program runs for an hour in vain.
            ensure!(!path.is_dir(), "{} is a directory; name a file with --save", path.display());
            drop(AtomicFile::create(path).with_context(|| cannot_save(path))?);
        }
        let signals = Signals::hold().context("cannot block signals")?;
        let (recording, end) = match self.pid {
            Some(process) => (self.record_running(process, &signals, common)?, None),
            None => {
                let (recording, end) = self.record_command(&signals, common)?;
                (recording, Some(end))
            }
        };
        // The command has run: what fails now is reported, and its exit code stays.
        let recording = recording.and_then(|recording| {
            self.save.as_ref().map_or(Ok(()), |path| save(&recording, path))?;
            Ok(recording)
        });
        match recording {
            Ok(recording) => self.report(&recording, end, begun, out.as_ref(), &signals, common),
            Err(error) => print_error(&format!("{error:#}")),
        }
        Ok(end.map_or(ExitCode::SUCCESS, |end| child::end_as(end.status)))
    }

    fn subject(&self, program: Vec<String>, directory: Option<PathBuf>, process: Option<u32>) -> Subject {
        let mut places: Vec<PathBuf> = self.command.iter().skip(1).map(PathBuf::from).collect();
        places.retain(|place| place.exists());
        places.extend(directory);
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let of_group = memory::left_to(process.unwrap_or_else(std::process::id));
        let available = memory::available().unwrap_or(READ_AHEAD_DEFAULT.0);
        Subject {
            program,
            places,
            machine: RecordedMachine {
                cores: u32::try_from(cores).unwrap_or(1),
                memory_bytes: of_group.map_or(available, |left| left.min(available)),
            },
            measures_storage: !self.no_measure,
        }
    }

    /// Returns a recorder by tracepoints; notes why it is not possible.
    fn tracer(&self, common: &Common) -> Option<TracedRecorder> {
        if self.sampled {
            return None;
        }
        let created = TracedRecorder::create();
        created.inspect_err(|why| common.note(&format!("recorded by samples of /proc: {why}"))).ok()
    }

    fn record_command(&self, signals: &Signals, common: &Common) -> Result<(Result<Recording>, End)> {
        let program = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let subject = self.subject(program, std::env::current_dir().ok(), None);
        let mut tracer = self.tracer(common);
        let mut recorder = None;
        // It may be called twice, for a script that turns out to need a shell.
        let ready = |process| {
            recorder = Some(match tracer.take() {
                Some(tracer) => tracer.start(&[process], subject.clone()).map(Recorder::Traced),
                None => SampledRecording::start(process, subject.clone()).map(Recorder::Sampled),
            });
            true
        };
        let running = Running::start_after(&self.command, signals, ready)?;
        running.wait(signals).context("cannot wait for the program, which continues on its own")?;
        let recording = recorder.context("the program has ended, but was not recorded")?;
        let recording = recording
            .map(Recorder::finish)
            .map_err(|why| anyhow::anyhow!("the program has run, but was not recorded: {why}"));
        let end = running.end().context("the program has ended, but its exit status is unknown")?;
        Ok((recording, end))
    }

    fn record_running(&self, process: u32, signals: &Signals, common: &Common) -> Result<Result<Recording>> {
        let opened = Process::open(process);
        let opened = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                anyhow::anyhow!("cannot record process {process}: no such process")
            }
            _ => anyhow::anyhow!("cannot record process {process}: {error}"),
        })?;
        let subject = self.subject(
            vec![format!("process {process}")],
            opened.working_directory_path().ok(),
            Some(process),
        );
        let started = match self.tracer(common) {
            Some(tracer) => {
                let threads = threads_of(&opened);
                tracer.start(&threads, subject).map(Recorder::Traced)
            }
            None => SampledRecording::start(process, subject).map(Recorder::Sampled),
        };
        let recorder = started.map_err(|why| anyhow::anyhow!("cannot record process {process}: {why}"))?;
        match self.duration {
            Some(duration) => thread::sleep(Duration::from_nanos(duration.0)),
            None => wait_for_other(process, signals)
                .with_context(|| format!("cannot follow process {process}"))?,
        }
        Ok(Ok(recorder.finish()))
    }

    fn report(
        &self,
        recording: &Recording,
        end: Option<End>,
        begun: Instant,
        out: Option<&OutDir>,
        signals: &Signals,
        common: &Common,
    ) {
        let (mut result, remedies) = document::explain(recording, end);
        if self.attempt
            && let Err(error) =
                attempt::attempt(&self.command, recording, (&mut result, &remedies), signals, common)
        {
            print_error(&format!("{error:#}"));
        }
        let document = Document::new(provenance::run(begun.elapsed()), result);
        if let Some(out) = out
            && let Err(error) = out.write_report(&document)
        {
            print_error(&format!("{error:#}"));
        }
        if common.json {
            note_pretty_json(&document);
        } else {
            let report = Report { runs: Vec::new(), ..document.report() };
            note(text::render(&report, common.color.style_of_notes()).trim_end());
        }
    }
}

/// Returns the threads of a process and of its descendants, its first one first.
fn threads_of(process: &Process) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = vec![process.number()];
    while let Some(number) = next.pop() {
        let Ok(process) = Process::open(number) else { continue };
        let threads = process.threads().unwrap_or_default();
        process.children(&threads, &mut next);
        all.extend(threads);
    }
    let first = process.number();
    all.sort_by_key(|&thread| (thread != first, thread));
    all.dedup();
    all
}

fn cannot_save(path: &Path) -> String {
    format!("cannot save the recording as {}", path.display())
}

fn save(recording: &Recording, path: &Path) -> Result<()> {
    let failed = || cannot_save(path);
    let mut file = AtomicFile::create(path).with_context(failed)?;
    let bytes = serde_json::to_vec(recording).with_context(failed)?;
    file.write_all(&bytes).with_context(failed)?;
    file.commit().with_context(failed)
}

/// Loads a recording.
pub(crate) fn load(path: &Path) -> Result<Recording> {
    let text = fs::read(path).map_err(|error| {
        anyhow!(
            "cannot read the recording {}: {error}; `sakiyomi explain --save FILE -- COMMAND` makes one",
            path.display()
        )
    })?;
    let not_one = || format!("{} is not a recording of `sakiyomi explain --save`", path.display());
    let recording: Recording = serde_json::from_slice(&text).with_context(not_one)?;
    if recording.schema != RECORDING_SCHEMA {
        bail!(
            "{} has the format {}, and this version reads {RECORDING_SCHEMA}",
            path.display(),
            recording.schema
        );
    }
    recording.check().map_err(|problem| anyhow::anyhow!("{} is damaged: {problem}", path.display()))?;
    Ok(recording)
}
