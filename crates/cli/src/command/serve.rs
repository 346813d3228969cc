//! `serve`: a block device over NBD.

mod rate;
mod result;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_mount::{EmulatedStorage, Snapshot};
use sakiyomi_nbd::{Address, ExportOptions, Finished, Options, Server, serve};
use sakiyomi_os::process::command::{End, Running, Signals};
use sakiyomi_report::result::IorateProgram;
use sakiyomi_report::{Document, Present, Reported, ServeResult, text};

use super::mount::NOT_REAL_TIME_NOTE;
use super::mount::course::Course;
use super::mount::result::Second;
use crate::args::{ArrayArg, DriveArgs, RegulateArgs};
use crate::child;
use crate::console::{
    Common, Envelope, note, note_pretty_json, print_error, print_result, print_result_line, print_text,
    without_numbers,
};
use crate::output::{OutDir, Overwrite};
use crate::progress::go_on;
use crate::provenance;
use rate::{ExportRate, RateArg};
use result::as_mount;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi serve --drive deskstar-7k250 --nbd disk.sock
  sakiyomi serve disk.img --drive nearline-18tb --nbd 10809 --stats --record trace.parquet
  sakiyomi serve disk.img --nbd disk.sock --read-only
  sakiyomi serve disk.img --nbd disk.sock --regulate --connection-rate 20%
  sakiyomi serve disk.img --nbd disk.sock --regulate --export fast --export slow --rate slow=40ms
  sakiyomi serve --drive deskstar-7k250 --nbd disk.sock -- \\
      nbdcopy image.raw 'nbd+unix:///?socket=disk.sock'
";

/// Time between two checks whether the server is to end.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// Time for which the end waits for requests in flight.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Serve a file, a disk or an emulated drive as a block device.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a COMMAND, the server lasts until Ctrl-C. With one, it lasts as long as the command, which has \
        the address in its variable NBD_URI: the exit code is that of the command, 125 if sakiyomi fails, and the \
        result goes to standard error. Connections are neither encrypted nor authenticated: use a Unix socket, or a tunnel."
)]
pub(crate) struct Serve {
    /// The content: a file or a block device, which must not be in use. With --drive, a file that does not exist is
    /// created [default: a file without a name, as large as the drive]
    file: Option<PathBuf>,
    /// Where to listen: the path of a Unix socket, a port of this machine, or an address with a port
    #[arg(long, value_name = "SOCKET|[ADDRESS:]PORT")]
    nbd: String,
    /// A built-in drive (`sakiyomi drive list`), a TOML file, a .diskspecs or .parv file of DiskSim, or
    /// fixed:latency=TIME,parallel=N,bandwidth=SIZE/s,spread=SHARE,size=SIZE [default: none, the content's own speed]
    #[arg(long, value_name = "NAME|FILE|fixed:…")]
    drive: Option<String>,
    /// Change a setting of the drive, such as cache.read_ahead.max=1MiB; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "drive")]
    set: Vec<String>,
    #[command(flatten)]
    array: ArrayArg,
    /// Speed relative to real time; 0.5 is half as fast
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "drive", allow_negative_numbers = true)]
    speed: f64,
    /// Seed of the random numbers: times of spread
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Access the content through the page cache of this machine [default: only with --drive, or where it must be]
    #[arg(long)]
    buffered: bool,
    /// Offer the block device under this name; may be repeated [default: the empty name]
    #[arg(long, value_name = "NAME")]
    export: Vec<String>,
    #[command(flatten)]
    regulate: RegulateArgs,
    /// Rate that all connections to an export share: percent of the device, or the time of an I/O, after the name of the
    /// export and `=` if it has one; may be repeated
    #[arg(long, value_name = "RATE", requires = "regulate")]
    rate: Vec<ExportRate>,
    /// Rate of each connection to an export that has none: percent of the device, or the time of an I/O
    #[arg(long, value_name = "RATE", requires = "regulate")]
    connection_rate: Option<RateArg>,
    /// Accept rates even if they cannot be guaranteed
    #[arg(long, requires = "regulate")]
    best_effort: bool,
    /// Write a trace of all accesses: CSV, or Parquet if FILE ends in .parquet
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print a line each second; with --json, one object per line
    #[arg(long, conflicts_with = "command")]
    stats: bool,
    /// Write result.json, report.html, report.md and the charts to this directory at the end
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// A command to run, after whose end the server ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Serve {
    /// Returns whether it leaves signals to its command.
    pub(crate) fn holds_signals(&self) -> bool {
        !self.command.is_empty()
    }

    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        if self.command.is_empty() {
            return self.until_interrupted(common);
        }
        Ok(self.with_command(common).unwrap_or_else(|error| child::failed(&error)))
    }

    /// Serves until Ctrl-C.
    fn until_interrupted(&self, common: &Common) -> Result<ExitCode> {
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let wall = Instant::now();
        let server = self.started(common)?;
        let mut watch = Watch::new(&server);
        common.note(&format!("listening on {}; Ctrl-C ends it", self.uri(&server)));
        let watched = self.watch(&server, &mut watch, common, &|| go_on().is_ok());
        let (uri, size) = (self.uri(&server), server.exports()[0].size);
        let finished = self.finished(server, &mut watch)?;
        let result = ServeResult { uri, size_bytes: size, ..self.result(&finished) };
        write_report(out.as_ref(), &result, watch.course, wall, common)?;
        watched?;
        if common.json && self.stats {
            print_result_line(ServeResult::SCHEMA, &result)?;
        } else if common.json {
            print_result(ServeResult::SCHEMA, &result)?;
        } else if !common.quiet {
            let document = Document::new(provenance::run(wall.elapsed()), result);
            print_text(&text::render(&document.report(), common.color.style()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Serves while the command runs; its standard output and exit code are those of this process.
    fn with_command(&self, common: &Common) -> Result<ExitCode> {
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let wall = Instant::now();
        let signals = Signals::hold().context("cannot block signals")?;
        let server = self.started(common)?;
        let mut watch = Watch::new(&server);
        let (uri, size) = (self.uri(&server), server.exports()[0].size);
        let begun = Instant::now();
        let end = self.command_under_watch(&server, &mut watch, &uri, &signals, common)?;
        let elapsed = begun.elapsed();
        let finished = self.finished(server, &mut watch)?;
        let (exit_code, signal) = child::code_and_signal(Some(end.status));
        let program = Some(IorateProgram {
            words: self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            exit_code,
            signal,
            elapsed_ns: elapsed.as_nanos() as u64,
        });
        let result = ServeResult { uri, size_bytes: size, program, ..self.result(&finished) };
        // A failure must not change the exit status, which is the command's.
        if let Err(error) = write_report(out.as_ref(), &result, watch.course, wall, common) {
            print_error(&format!("{error:#}"));
        }
        if common.json {
            note_pretty_json(&Envelope { schema: ServeResult::SCHEMA, result: &result });
        } else if !common.quiet {
            for finding in result.verdict() {
                note(&format!("sakiyomi: {}", finding.sentences.join(" ")));
            }
        }
        Ok(child::end_as(end.status))
    }

    /// Runs the command, and watches the server meanwhile.
    fn command_under_watch(
        &self,
        server: &Server,
        watch: &mut Watch,
        uri: &str,
        signals: &Signals,
        common: &Common,
    ) -> Result<End> {
        let running = Running::start_with(&self.command, &[("NBD_URI", OsStr::new(uri))], signals)?;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watching =
                scope.spawn(|| self.watch(server, watch, common, &|| !is_over.load(Ordering::Relaxed)));
            let waited =
                running.wait(signals).context("cannot wait for the command, which continues on its own");
            is_over.store(true, Ordering::Relaxed);
            // Nothing is printed that could fail.
            let _ = watching.join();
            waited
        })?;
        running.end().context("the command has ended, but its exit status is unknown")
    }

    /// Starts the server.
    fn started(&self, common: &Common) -> Result<Server> {
        ensure!(
            self.file.is_some() || self.drive.is_some(),
            "nothing to serve; name a FILE, or give --drive for an empty drive"
        );
        let options = self.options(common)?;
        if options.address.is_remote() {
            note(&format!(
                "warning: other machines can reach {}, and there is neither encryption nor a password",
                options.address
            ));
        }
        let server = serve(&options)?;
        if server.is_real_time() == Some(false) {
            common.note(NOT_REAL_TIME_NOTE);
        }
        if self.drive.is_none() && !self.buffered && !server.is_direct() {
            common
                .note("note: the content is accessed through the page cache, as direct I/O is not possible");
        }
        Ok(server)
    }

    fn options(&self, common: &Common) -> Result<Options> {
        let mut exports: Vec<ExportOptions> =
            self.export.iter().map(|name| ExportOptions { name: name.clone(), rate: None }).collect();
        if exports.is_empty() {
            exports.push(ExportOptions::default());
        }
        for ExportRate { export, rate } in &self.rate {
            let only = if exports.len() == 1 { Some(exports[0].name.clone()) } else { None };
            let name = export.clone().or(only).unwrap_or_default();
            let found = exports.iter_mut().find(|export| export.name == name);
            let found = found.with_context(|| format!("--rate: {name:?} is not an export; add --export"))?;
            ensure!(found.rate.is_none(), "--rate: the export {name:?} has two rates; give one");
            found.rate = Some(rate.0);
        }
        let real = self.file.as_deref().filter(|_| self.drive.is_none());
        Ok(Options {
            content: self.file.clone(),
            storage: self.drive.as_deref().map(|drive| self.storage(drive, common)).transpose()?,
            speed: self.speed,
            seed: self.seed,
            read_only: self.read_only,
            buffered: self.buffered,
            exports,
            connection_rate: self.connection_rate.map(|rate| rate.0),
            best_effort: self.best_effort,
            regulate: self.regulate.settings(real, common)?,
            record: self.record.clone(),
            ..Options::new(self.nbd.parse::<Address>().context("--nbd")?)
        })
    }

    fn storage(&self, drive: &str, common: &Common) -> Result<EmulatedStorage> {
        if drive == "fixed" || drive.starts_with("fixed:") {
            ensure!(
                self.set.is_empty() && !self.array.is_some(),
                "--set and --array are for hard disks; write the figures of {drive} in --drive, such as fixed:latency=10ms"
            );
            return Ok(EmulatedStorage::Fixed(drive.parse()?));
        }
        let drive = DriveArgs { drive: drive.to_owned(), set: self.set.clone(), array: self.array.clone() };
        Ok(EmulatedStorage::Drive(Box::new(drive.spec(common)?)))
    }

    /// Returns the URI of the first export.
    fn uri(&self, server: &Server) -> String {
        server.address().uri(&server.exports()[0].name)
    }

    fn finished(&self, server: Server, watch: &mut Watch) -> Result<Finished> {
        let finished = server.finish(END_TIMEOUT)?;
        if finished.cut_off {
            note("warning: some requests were still in flight; their clients get no reply");
        }
        watch.course.add(&watch.before, &as_mount(&finished.seen));
        Ok(finished)
    }

    fn result(&self, finished: &Finished) -> ServeResult {
        ServeResult {
            content: self.file.as_ref().map(|file| file.display().to_string()),
            drive: self.drive.clone(),
            ..result::result(finished)
        }
    }

    /// Reports the state of the server each second, while `lasts` is true.
    fn watch(
        &self,
        server: &Server,
        watch: &mut Watch,
        common: &Common,
        lasts: &(dyn Fn() -> bool + Sync),
    ) -> Result<()> {
        let mut next = Instant::now() + Duration::from_secs(1);
        let mut told = false;
        while lasts() {
            std::thread::sleep(POLL_PERIOD);
            if Instant::now() < next {
                continue;
            }
            next += Duration::from_secs(1);
            let now = as_mount(&server.seen());
            let second = Second::between(&watch.before, &now);
            watch.course.add(&watch.before, &now);
            watch.before = now;
            if self.stats && common.json {
                print_result_line("sakiyomi.serve-second/1", &second)?;
            } else if self.stats {
                print_text(&second.describe())?;
            }
            if let Some(failure) = server.recording_failure().filter(|_| !told) {
                told = true;
                note(&without_numbers(&format!("warning: the trace ends here: {failure}")));
            }
        }
        Ok(())
    }
}

/// The course of a server until its last sample.
struct Watch {
    before: Snapshot,
    course: Course,
}

impl Watch {
    fn new(server: &Server) -> Watch {
        Watch { before: as_mount(&server.seen()), course: Course::default() }
    }
}

fn write_report(
    out: Option<&OutDir>,
    result: &ServeResult,
    course: Course,
    wall: Instant,
    common: &Common,
) -> Result<()> {
    let Some(out) = out else { return Ok(()) };
    let result = ServeResult { windows: course.finish(), ..result.clone() };
    out.write_report(&Document::new(provenance::run(wall.elapsed()), result))?;
    common.note(&out.report());
    Ok(())
}
