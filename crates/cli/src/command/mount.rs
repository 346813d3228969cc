//! `mount`: emulates the speed of a drive for the files of a directory.

pub(crate) mod course;
pub(crate) mod result;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use sakiyomi_iorate::quotas::Quotas;
use sakiyomi_model::Bytes;
use sakiyomi_mount::layout::{BLOCK_BYTES, Placement};
use sakiyomi_mount::{Bypass, EmulatedStorage, Finished, Mounted, Options, Snapshot, mount};
use sakiyomi_report::{Document, MountResult, Present, Reported, text};

use crate::args::{ArrayArg, DriveArgs, RegulateArgs};
use crate::console::{Common, note, print_result, print_result_line, print_text, without_numbers};
use crate::output::Overwrite;
use crate::progress::{Interrupted, Progress, go_on};
use crate::provenance;
use course::Course;
use result::Second;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi mount files /mnt/disk --drive deskstar-7k250
  sakiyomi mount files /mnt/disk --drive scorpio-wd10tpvx --stats --record trace.parquet
  sakiyomi mount files /mnt/far --drive fixed:latency=10ms,parallel=64,bandwidth=200MB/s,spread=0.2
  sakiyomi mount files /mnt/disk --record trace.csv
  sakiyomi mount files /mnt/disk --regulate
  sakiyomi mount files /mnt/disk --drive deskstar-p7k500 --regulate --service 12.5ms
";

/// Time between two checks whether the mount has ended.
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// Time for which Ctrl-C waits for processes with open files before it unmounts lazily.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// Note about a device whose thread has an ordinary priority.
pub(crate) const NOT_REAL_TIME_NOTE: &str = "note: this user may not give threads a real-time priority (CAP_SYS_NICE, or `ulimit -r`): while all cores are \
     busy, replies are some milliseconds late";

/// The machine's quotas of rates.
const QUOTAS_FILE: &str = "/etc/sakiyomi/rates.toml";

/// Mount a directory at the speed of a drive.
#[derive(Debug, Args)]
#[command(
    after_help = "The mount lasts until Ctrl-C or `sakiyomi umount DIR`. BACKING always holds the current content; do \
        not change it while it is mounted. The kernel caches the files of the mount like any others; drop \
        its caches, or use --direct-io, so that every access reaches the drive."
)]
pub(crate) struct Mount {
    /// The directory that holds the files
    backing: PathBuf,
    /// The empty directory to mount on
    dir: PathBuf,
    /// A built-in drive (`sakiyomi drive list`), a TOML file, a .diskspecs or .parv file of DiskSim, or
    /// fixed:latency=TIME,parallel=N,bandwidth=SIZE/s,spread=SHARE,size=SIZE [default: none, the files' own speed]
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
    /// Scatter files over the drive in pieces of this size, as on an aged file system
    #[arg(long, value_name = "SIZE")]
    fragment: Option<Bytes>,
    /// Seed of the random numbers: locations of --fragment, times of spread
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the locations of files on the drive in FILE, from mount to mount
    #[arg(long, value_name = "FILE")]
    layout: Option<PathBuf>,
    /// Write a trace of all accesses: CSV, or Parquet if FILE ends in .parquet
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print a line each second; with --json, one object per line
    #[arg(long)]
    stats: bool,
    /// Write result.json, report.html, report.md and the charts to this directory when the mount ends
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Bypass the page cache: every access goes to the drive
    #[arg(long)]
    direct_io: bool,
    /// Charge for metadata as well: names and attributes are read from the drive, changes go to a journal
    #[arg(long)]
    metadata: bool,
    #[command(flatten)]
    regulate: RegulateArgs,
    /// Quotas of rates, by user and control group [default: /etc/sakiyomi/rates.toml, if it exists]
    #[arg(long, value_name = "FILE", requires = "regulate")]
    quotas: Option<PathBuf>,
    /// Let the page cache delay writes
    #[arg(long, conflicts_with_all = ["direct_io", "regulate"])]
    writeback: bool,
}

impl Mount {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let wall = Instant::now();
        let mounted = self.mounted(common)?;
        // Taken before the mount is announced, because it may be used at once.
        let mut before = mounted.seen();
        let directory = mounted.directory().display().to_string();
        if mounted.is_real_time() == Some(false) {
            common.note(NOT_REAL_TIME_NOTE);
        }
        common.note(&format!("mounted on {directory}; Ctrl-C unmounts"));
        let mut course = Course::default();
        let watched = self.watch(&mounted, &mut before, &mut course, common);
        let finished = mounted.finish(UNMOUNT_TIMEOUT)?;
        if finished.cut_off {
            note("warning: programs still have files open; their I/O fails from now on");
        }
        course.add(&before, &finished.seen);
        let result = self.result(&finished, directory);
        if let Some(out) = &out {
            let document = Document::new(
                provenance::run(wall.elapsed()),
                MountResult { windows: course.finish(), ..result.clone() },
            );
            out.write_report(&document)?;
            common.note(&out.report());
        }
        watched?;
        if common.json && self.stats {
            print_result_line(MountResult::SCHEMA, &result)?;
        } else if common.json {
            print_result(MountResult::SCHEMA, &result)?;
        } else if !common.quiet {
            let document = Document::new(provenance::run(wall.elapsed()), result);
            print_text(&text::render(&document.report(), common.color.style()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn result(&self, finished: &Finished, directory: String) -> MountResult {
        MountResult { directory, drive: self.drive_text(), ..result::result(finished) }
    }

    /// Returns the drive as it was given, with its array and its changed settings.
    fn drive_text(&self) -> Option<String> {
        let parts = self.drive.iter().cloned().chain(self.array.text()).chain(self.set.iter().cloned());
        self.drive.as_ref().map(|_| parts.collect::<Vec<_>>().join(", "))
    }

    /// Mounts the directory. If it contains many files, scanning them takes a while.
    fn mounted(&self, common: &Common) -> Result<Mounted> {
        let options = self.options(common)?;
        let mut progress = Progress::new(None, common.quiet);
        progress.set(0, || format!("scanning the files in {}", self.backing.display()))?;
        match mount(&self.backing, &self.dir, &options) {
            Err(sakiyomi_mount::Error::Interrupted) => Err(Interrupted.into()),
            mounted => Ok(mounted?),
        }
    }

    fn options(&self, common: &Common) -> Result<Options> {
        let placement = match self.fragment {
            None => Placement::Contiguous,
            Some(piece) => {
                ensure!(
                    piece.0 >= BLOCK_BYTES && piece.0.is_multiple_of(BLOCK_BYTES),
                    "--fragment {piece}: a piece consists of blocks; give a multiple of 4KiB"
                );
                Placement::Scattered { piece: piece.0 / BLOCK_BYTES }
            }
        };
        let real = self.drive.is_none().then_some(self.backing.as_path());
        Ok(Options {
            behind: self.drive.as_deref().map(|drive| self.behind(drive, common)).transpose()?,
            speed: self.speed,
            placement,
            seed: self.seed,
            layout: self.layout.clone(),
            record: self.record.clone(),
            direct_io: self.direct_io,
            writeback: self.writeback,
            metadata: self.metadata,
            regulate: self.regulate.settings(real, common)?,
            quotas: self.quotas()?,
            log: if common.quiet { |_| {} } else { note },
            go_on: || go_on().is_ok(),
            ..Options::default()
        })
    }

    /// Returns the quotas of rates: those of the given file, else those of the machine's, if it has one.
    fn quotas(&self) -> Result<Quotas> {
        let file = self.quotas.as_deref().unwrap_or(Path::new(QUOTAS_FILE));
        if !self.regulate.is_some() || (self.quotas.is_none() && !file.exists()) {
            return Ok(Quotas::default());
        }
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Quotas::parse(&text, sakiyomi_os::user::number)
            .map_err(|problem| anyhow!("{}: {problem}", file.display()))
    }

    fn behind(&self, drive: &str, common: &Common) -> Result<EmulatedStorage> {
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

    /// Waits for the end of the mount, and reports its state each second.
    fn watch(
        &self,
        mounted: &Mounted,
        before: &mut Snapshot,
        course: &mut Course,
        common: &Common,
    ) -> Result<()> {
        let mut next = Instant::now() + Duration::from_secs(1);
        let mut told = false;
        let mut rates = RatesTold::default();
        while !mounted.is_over() && go_on().is_ok() {
            std::thread::sleep(POLL_PERIOD);
            if Instant::now() < next {
                continue;
            }
            next += Duration::from_secs(1);
            let now = mounted.seen();
            let second = Second::between(before, &now);
            course.add(before, &now);
            rates.print(mounted, &now);
            *before = now;
            if self.stats && common.json {
                print_result_line("sakiyomi.mount-second/2", &second)?;
            } else if self.stats {
                print_text(&second.describe())?;
            }
            if let Some(failure) = mounted.recording_failure().filter(|_| !told) {
                told = true;
                note(&without_numbers(&format!("warning: the trace ends here: {failure}")));
            }
        }
        Ok(())
    }
}

/// The last warning that rates cannot be guaranteed.
#[derive(Default)]
struct RatesTold {
    buffered: bool,
    bypass: bool,
}

impl RatesTold {
    fn print(&mut self, mounted: &Mounted, now: &Snapshot) {
        if mounted.is_buffered() && !self.buffered {
            self.buffered = true;
            note(
                "warning: the file system does not support direct I/O, so files are read and written through the page cache: accesses to cached data take less time than on a disk",
            );
        }
        // Without owners of rates no rate can be lost.
        let rates = now.rates.as_ref().filter(|rates| rates.owners > 0);
        let bypass = rates.and_then(|rates| rates.bypass.as_ref());
        if bypass.is_some() == self.bypass {
            return;
        }
        self.bypass = bypass.is_some();
        match bypass {
            Some(Bypass { device, requests_per_s, share_ratio }) => note(&format!(
                "warning: {requests_per_s:.0} requests per second to {device} bypass the mount, {:.0} % of all: rates cannot be kept",
                share_ratio * 100.0
            )),
            None => note("no requests bypass the mount any more, or no process has a rate"),
        }
    }
}
