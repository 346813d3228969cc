//! `probe`: finds the fastest and the cheapest I/O engine for reads and for writes, and whether the storage or the
//! CPU is the limit.

mod result;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_probe::Error;
use sakiyomi_probe::calibration::{Calibration, default_directory};
use sakiyomi_probe::campaign::Campaign;
use sakiyomi_probe::case::Case;
use sakiyomi_probe::cores::{self, CoreCost, distance_name};
use sakiyomi_probe::plan::{Plan, Wanted};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};
use sakiyomi_probe::target::{Target, Watch};
use sakiyomi_report::{Document, ProbeResult};

use crate::args::parse_method;
use crate::console::Common;
use crate::output::{OutDir, OutFile, Overwrite};
use crate::progress::{Interrupted, Progress, go_on};
use crate::provenance::run;
use result::{Probed, result};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi probe . --out report
  sakiyomi probe big.dat --method read,pread:4,uring:8,uring:32 --block 4KiB,64KiB,1MiB --random
  sakiyomi probe . --on tmpfs,loop --buffers best,ordinary --out report
  sakiyomi probe big.dat --cached --method read,mmap:4 --json
  sakiyomi probe . --op read,write,mix:70 --method pread:4,uring:8
";

/// Measure I/O methods: throughput, CPU time, and whether the storage or the CPU is the limit.
#[derive(Debug, Args)]
#[command(
    after_help = "Methods: read (one I/O thread), pread:N (N threads), aio:N (Linux AIO), uring:N (io_uring), \
uring-sqpoll:N (a kernel thread polls), mmap:N and populate:N (N mappings), null (no I/O: the cost of measuring).
In a directory, probe uses an unnamed test file of its own, which leaves nothing behind. It only ever writes to test files \
of its own, and only reads other files and block devices. Buffered writes are measured until their data is on the device.
The calibration, which cost models load, is saved in $XDG_STATE_HOME/sakiyomi/calibration (or \
~/.local/state/sakiyomi/calibration), one file for each device; `sakiyomi doctor` prints the location of the last one."
)]
pub(crate) struct Probe {
    /// A file or block device to read, or a directory for a test file to read and write
    #[arg(required_unless_present = "on")]
    path: Option<PathBuf>,
    /// Also measure a target that only the CPU limits
    #[arg(long, value_enum, value_name = "TARGET", value_delimiter = ',')]
    on: Vec<On>,
    /// I/O methods, with N requests in flight (see below)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "read,pread:4,aio:8,uring:8,mmap:4,null",
        value_parser = parse_method
    )]
    method: Vec<EngineSpec>,
    /// Operations: read, write, mix:N with N % reads; writes need a directory or --on
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "read")]
    op: Vec<Operation>,
    /// Sizes of a request
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64KiB,1MiB")]
    block: Vec<Bytes>,
    /// Bypass the page cache [default, if the file system supports it]
    #[arg(long)]
    direct: bool,
    /// Use the page cache, and evict the file from it before each run
    #[arg(long)]
    buffered: bool,
    /// Use the page cache, and load the file into it before each run
    #[arg(long)]
    cached: bool,
    /// Kinds of memory to read into or write from
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "best,ordinary")]
    buffers: Vec<Memory>,
    /// Access blocks at random offsets
    #[arg(long)]
    random: bool,
    /// Size of test files
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: Bytes,
    /// Duration of a run
    #[arg(long, value_name = "TIME", default_value = "300ms")]
    runtime: Nanos,
    /// Number of runs of each case; the runs of all cases are interleaved
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repetitions: u64,
    /// Skip the control runs: faster, but no case can be found to be storage-bound
    #[arg(long, alias = "no-rivals")]
    no_control_runs: bool,
    /// Seed of the order of runs and of random offsets
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Save the calibration of all targets to this file instead of the default location
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Write result.json, report.html, report.md, calibration.json and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Storage that is as fast as the CPU lets it be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// A test file in memory.
    Tmpfs,
    /// A loop device over a test file in memory; needs root.
    Loop,
}

/// Values of `--buffers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Memory {
    /// Huge pages, registered if the method supports it.
    Best,
    /// Huge pages.
    Huge,
    /// Ordinary pages, registered where the method can.
    Registered,
    /// Ordinary pages.
    Ordinary,
}

impl Memory {
    fn buffers(self) -> Buffers {
        match self {
            Memory::Best => Buffers::HugeRegistered,
            Memory::Huge => Buffers::Huge,
            Memory::Registered => Buffers::Registered,
            Memory::Ordinary => Buffers::Ordinary,
        }
    }
}

impl Probe {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        self.check()?;
        let begun = Instant::now();
        let out = self.overwrite.out(self.out.as_deref(), &["calibration.json"])?;
        let calibration = self.calibration.as_deref().map(OutFile::create).transpose()?;
        let probed = self.measure(common)?;
        let cores = measured_cores()?;
        let mut result = result(&probed, &self.campaign());
        result.notes.extend(cores.iter().filter_map(in_a_sentence));
        let document = Document::new(run(begun.elapsed()), result);
        self.write(&document, &calibrated(&probed, cores), calibration, out.as_ref(), common)?;
        common.present(&document)?;
        Ok(ExitCode::SUCCESS)
    }

    fn check(&self) -> Result<()> {
        let (shortest, longest) = (Nanos::MILLISECOND * 10, Nanos::SECOND * 3600);
        ensure!(
            (shortest..=longest).contains(&self.runtime),
            "--runtime {}: a run lasts from 10ms to 1h",
            self.runtime
        );
        let (least, most) = (Bytes(512), Bytes(2 << 30));
        if let Some(block) = self.block.iter().find(|block| !(least..=most).contains(block)) {
            bail!("--block {block}: give a request size from 512 bytes to 2GiB");
        }
        let (size, smallest) = (self.size, self.block.iter().min().copied().unwrap_or(least));
        let makes_file = !self.on.is_empty() || self.path.as_ref().is_some_and(|path| path.is_dir());
        ensure!(size.0 > 0, "--size 0: an empty test file cannot be read; give a size such as 1GiB");
        ensure!(
            !makes_file || smallest <= size,
            "--size {size}: the test file would hold no block of {smallest}; give a larger one or smaller blocks"
        );
        Ok(())
    }

    fn campaign(&self) -> Campaign {
        Campaign { period: Duration::from_nanos(self.runtime.0), rounds: self.repetitions, seed: self.seed }
    }

    /// Measures all targets, one after the other. All targets are created before anything is measured.
    fn measure(&self, common: &Common) -> Result<Vec<Probed>> {
        let mut targets = Vec::new();
        if let Some(path) = &self.path {
            self.check_overwrites_nothing(path)?;
            targets.push(self.make(common, |watch| Target::at(path, self.size.0, watch))?);
        }
        for on in &self.on {
            targets.push(match on {
                On::Tmpfs => self.make(common, |watch| Target::in_memory(self.size.0, watch))?,
                On::Loop => {
                    self.make(common, |watch| Target::loop_device(self.size.0, self.writes(), watch))?
                }
            });
        }
        targets.into_iter().map(|target| self.probe(common, target)).collect()
    }

    fn writes(&self) -> bool {
        self.op.iter().any(|op| op.writes())
    }

    /// Checks that writes go only to test files of our own.
    fn check_overwrites_nothing(&self, path: &std::path::Path) -> Result<()> {
        if self.writes() && path.exists() && !path.is_dir() {
            return Err(Error::NotOurs(path.to_owned()).into());
        }
        Ok(())
    }

    fn probe(&self, common: &Common, target: Target) -> Result<Probed> {
        let mut notes = Vec::new();
        let plan = Plan::new(&self.wanted(&target, &mut notes)?);
        let campaign = self.campaign();
        let mut progress = Progress::new(Some(campaign.runs(&plan)), common.quiet);
        let mut done = 0;
        let outcome = campaign.run(&target, &plan, &mut |setting| {
            let Some(setting) = setting else { return go_on().map_err(|Interrupted| Error::Interrupted) };
            let message = || {
                format!(
                    "{}: {} by {}, {}",
                    target.name,
                    setting.op,
                    setting.engine,
                    Bytes(setting.block as u64)
                )
            };
            progress.set(done, message).map_err(|Interrupted| Error::Interrupted)?;
            done += 1;
            Ok(())
        });
        let mut outcome = outcome.map_err(unless_interrupted)?;
        let moves = |case: &Case| case.setting.engine.kind != EngineKind::Null;
        if !outcome.cases.iter().any(moves) && !outcome.refused.is_empty() {
            return Err(outcome.refused.swap_remove(0).1.into());
        }
        for (setting, error) in outcome.refused {
            let block = Bytes(setting.block as u64);
            notes.push(format!(
                "{}: {} by {} with {block} was left out: {:#}.",
                target.name,
                setting.op,
                setting.engine,
                anyhow::Error::from(error)
            ));
        }
        Ok(Probed { target, cases: outcome.cases, notes })
    }

    /// Creates a target, with progress while a test file is written.
    fn make(
        &self,
        common: &Common,
        target: impl FnOnce(Watch<'_>) -> Result<Target, Error>,
    ) -> Result<Target> {
        let mut progress = Progress::new(Some(self.size.0), common.quiet);
        let mut watch = |written| {
            progress
                .set(written, || "creating a test file".to_owned())
                .map_err(|Interrupted| Error::Interrupted)
        };
        target(&mut watch).map_err(unless_interrupted)
    }

    /// Returns the settings to measure on this target; unsupported ones are noted.
    fn wanted(&self, target: &Target, notes: &mut Vec<String>) -> Result<Wanted> {
        let blocks: Vec<usize> = self
            .block
            .iter()
            .map(|block| block.0 as usize)
            .filter(|&block| block as u64 <= target.size)
            .collect();
        let Some(&smallest) = self.block.iter().min() else { bail!("--block: give at least one size") };
        if blocks.is_empty() {
            let (path, block) = (target.path.clone(), smallest.0 as usize);
            return Err(Error::TooSmall { path, size: target.size, block }.into());
        }
        if blocks.len() < self.block.len() {
            notes.push(format!("{}: blocks larger than the file were left out.", target.name));
        }
        let maps = |engine: &&EngineSpec| !engine.kind.uses_buffers();
        if self.writes() && self.method.iter().any(|engine| maps(&engine)) {
            notes.push(format!("{}: mappings only read, and were left out of the writes.", target.name));
        }
        Ok(Wanted {
            engines: self.method.clone(),
            ops: self.op.clone(),
            blocks,
            cache: self.cache_states(target, notes),
            mapped: if target.in_memory { CacheState::Cached } else { CacheState::Cold },
            buffers: self.buffers.iter().map(|memory| memory.buffers()).collect(),
            random: self.random,
            control_runs: !self.no_control_runs,
        })
    }

    fn cache_states(&self, target: &Target, notes: &mut Vec<String>) -> Vec<CacheState> {
        let default = !(self.direct || self.buffered || self.cached);
        let asked = [
            (self.direct || default, CacheState::Direct),
            (self.buffered, CacheState::Cold),
            (self.cached, CacheState::Cached),
        ];
        let mut states: Vec<CacheState> =
            asked.into_iter().filter(|&(asked, _)| asked).map(|(_, state)| state).collect();
        if let Err(error) = &target.direct
            && states.contains(&CacheState::Direct)
        {
            notes.push(format!("{}: the page cache was used, not bypassed ({error}).", target.name));
            replace(&mut states, CacheState::Direct, CacheState::Cold);
        }
        if target.in_memory && states.contains(&CacheState::Cold) {
            notes.push(format!(
                "{}: the target is in memory, so it was measured cached instead of uncached.",
                target.name
            ));
            replace(&mut states, CacheState::Cold, CacheState::Cached);
        }
        states
    }

    fn write(
        &self,
        document: &Document<ProbeResult>,
        calibration: &Calibration,
        file: Option<OutFile>,
        out: Option<&OutDir>,
        common: &Common,
    ) -> Result<()> {
        match file {
            Some(file) => file.write(calibration.to_json().as_bytes())?,
            None => save(calibration, common),
        }
        let Some(out) = out else { return Ok(()) };
        out.write_report(document)?;
        out.write("calibration.json", calibration.to_json().as_bytes())?;
        common.note(&out.report());
        Ok(())
    }
}

fn calibrated(probed: &[Probed], cores: Vec<CoreCost>) -> Calibration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let targets = probed.iter().map(|probed| (&probed.target, &probed.cases as &[Case]));
    Calibration::new(now.as_secs(), targets, cores)
}

fn measured_cores() -> Result<Vec<CoreCost>> {
    cores::measure(&mut || go_on().map_err(|Interrupted| Error::Interrupted)).map_err(unless_interrupted)
}

/// Describes the cost of messages between two cores; `None` if nothing could be measured.
fn in_a_sentence(cost: &CoreCost) -> Option<String> {
    let time = |ns: f64| Nanos(ns.round() as u64).to_string();
    let hop = cost.hop_ns.map(|ns| format!("takes {} while the receiver spins", time(ns)));
    let wake = cost.wake_ns.zip(cost.waker_ns).map(|(ns, waker)| {
        format!("wakes a sleeping receiver in {}, and the waker's call takes {}", time(ns), time(waker))
    });
    let [from, to] = cost.cpus;
    let costs: Vec<String> = [hop, wake].into_iter().flatten().collect();
    let distance = distance_name(cost.distance);
    let all = costs.join("; it ");
    (!costs.is_empty()).then(|| format!("A message from CPU {from} to CPU {to} ({distance}) {all}."))
}

/// Saves the calibration of each device in the default directory, merged with earlier measurements. A failure does
/// not fail the measurement.
fn save(calibration: &Calibration, common: &Common) {
    let Some(directory) = default_directory() else { return };
    let saved = || -> Result<()> {
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create the directory {}", directory.display()))?;
        calibration.by_device().into_iter().try_for_each(|mut device| {
            let path = directory.join(device.file_name());
            // A file that is damaged or of another version is replaced.
            if let Ok(older) = Calibration::load(&path) {
                device.complete_with(&older);
            }
            OutFile::create(&path)?.write(device.to_json().as_bytes())
        })
    };
    if let Err(error) = saved() {
        common.note(&format!("the calibration was not saved: {error:#}; name a file with --calibration"));
    }
}

fn replace(states: &mut Vec<CacheState>, from: CacheState, to: CacheState) {
    states.iter_mut().filter(|state| **state == from).for_each(|state| *state = to);
    states.sort();
    states.dedup();
}

/// Converts an error; `main` handles interruptions.
fn unless_interrupted(error: Error) -> anyhow::Error {
    if matches!(error, Error::Interrupted) { Interrupted.into() } else { error.into() }
}
