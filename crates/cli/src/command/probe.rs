//! `probe`: which method of I/O is fastest here, which cheapest, and whether the storage or the CPU is the limit.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_probe::Error;
use sakiyomi_probe::calibration::Calibration;
use sakiyomi_probe::campaign::Campaign;
use sakiyomi_probe::case::Case;
use sakiyomi_probe::plan::{Plan, Wanted};
use sakiyomi_probe::setting::{Buffers, Path};
use sakiyomi_probe::target::{Target, Watch};
use sakiyomi_report::{Document, ProbeResult, chart, html, text};

use crate::args::parse_method;
use crate::console::Common;
use crate::machine::machine;
use crate::outcome::probe::{Probed, result};
use crate::outcome::run;
use crate::output::{OutDir, OutFile, Overwrite};
use crate::progress::{Interrupted, Progress, go_on};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi probe . --out report
  sakiyomi probe big.dat --method read,pread:4,uring:8,uring:32 --block 4KiB,64KiB,1MiB --random
  sakiyomi probe . --on tmpfs,loop --buffers best,ordinary --out report
  sakiyomi probe big.dat --cached --method read,mmap:4 --json
";

/// Measure methods of I/O: throughput, CPU time, and whether the storage or the CPU is the limit.
#[derive(Debug, Args)]
#[command(
    after_help = "Methods: read (one I/O thread), pread:N (N threads), aio:N (Linux AIO), uring:N (io_uring), \
uring-sqpoll:N (a kernel thread polls), mmap:N and populate:N (N mappings), null (no I/O: the cost of measuring).
In a directory, probe reads an unnamed test file of its own, which leaves nothing behind. It only reads other files."
)]
pub(crate) struct Probe {
    /// A file or block device to read, or a directory for a test file
    #[arg(required_unless_present = "on")]
    path: Option<PathBuf>,
    /// Also measure a target that only the CPU limits
    #[arg(long, value_enum, value_name = "TARGET", value_delimiter = ',')]
    on: Vec<On>,
    /// Methods of I/O, with N requests in flight (see below)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "read,pread:4,aio:8,uring:8,mmap:4,null",
        value_parser = parse_method
    )]
    method: Vec<EngineSpec>,
    /// Sizes of a request
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64KiB,1MiB")]
    block: Vec<Bytes>,
    /// Bypass the page cache [default, if the file system supports it]
    #[arg(long)]
    direct: bool,
    /// Read through the page cache, which is emptied of the file before each run
    #[arg(long)]
    buffered: bool,
    /// Read from the page cache, which is filled with the file before each run
    #[arg(long)]
    cached: bool,
    /// Kinds of memory to read into
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "best,ordinary")]
    buffers: Vec<Memory>,
    /// Read blocks at random offsets
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
    /// Leave out the control runs: faster, but no case can be found storage-bound
    #[arg(long)]
    no_rivals: bool,
    /// Seed of the order of runs and of random offsets
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the parameters of a cost model to this file; --out writes them as calibration.toml
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Write result.json, report.html, calibration.toml and the charts to this directory
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

/// As `--buffers` names it.
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
        let out = self.overwrite.out(self.out.as_deref(), &["calibration.toml"])?;
        let calibration = self.calibration.as_deref().map(OutFile::create).transpose()?;
        let probed = self.measure(common)?;
        let document = Document::probe(run(begun.elapsed()), result(&probed, &self.campaign()));
        self.write(&document, &probed, calibration, out.as_ref(), common)?;
        common.tell(&document, |style| text::probe(&document, style))?;
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
            bail!("--block {block}: a request has from 512 bytes to 2GiB");
        }
        let (size, smallest) = (self.size, self.block.iter().min().copied().unwrap_or(least));
        let makes_file = !self.on.is_empty() || self.path.as_ref().is_some_and(|path| path.is_dir());
        ensure!(size.0 > 0, "--size 0: a test file of nothing cannot be read; give a size such as 1GiB");
        ensure!(
            !makes_file || smallest <= size,
            "--size {size}: the test file would hold no block of {smallest}; give a larger one or smaller blocks"
        );
        Ok(())
    }

    fn campaign(&self) -> Campaign {
        Campaign { period: Duration::from_nanos(self.runtime.0), rounds: self.repetitions, seed: self.seed }
    }

    /// All targets, one after the other. What cannot be made is known before anything is measured.
    fn measure(&self, common: &Common) -> Result<Vec<Probed>> {
        let mut targets = Vec::new();
        if let Some(path) = &self.path {
            targets.push(self.make(common, |watch| Target::at(path, self.size.0, watch))?);
        }
        for on in &self.on {
            targets.push(match on {
                On::Tmpfs => self.make(common, |watch| Target::in_memory(self.size.0, watch))?,
                On::Loop => self.make(common, |watch| Target::loop_device(self.size.0, watch))?,
            });
        }
        targets.into_iter().map(|target| self.probe(common, target)).collect()
    }

    fn probe(&self, common: &Common, target: Target) -> Result<Probed> {
        let mut notes = Vec::new();
        let plan = Plan::new(&self.wanted(&target, &mut notes)?);
        let campaign = self.campaign();
        let mut progress = Progress::new(Some(campaign.runs(&plan)), common.quiet);
        let mut done = 0;
        let outcome = campaign.run(&target, &plan, &mut |setting| {
            let Some(setting) = setting else { return go_on().map_err(|Interrupted| Error::Interrupted) };
            let message = || format!("{}: {}, {}", target.name, setting.method, Bytes(setting.block as u64));
            progress.set(done, message).map_err(|Interrupted| Error::Interrupted)?;
            done += 1;
            Ok(())
        });
        let mut outcome = outcome.map_err(unless_interrupted)?;
        let moves = |case: &Case| case.setting.method.kind != EngineKind::Null;
        if !outcome.cases.iter().any(moves) && !outcome.refused.is_empty() {
            return Err(outcome.refused.swap_remove(0).1.into());
        }
        for (setting, error) in outcome.refused {
            let block = Bytes(setting.block as u64);
            notes.push(format!(
                "{}: {} with {block} was left out: {:#}.",
                target.name,
                setting.method,
                anyhow::Error::from(error)
            ));
        }
        Ok(Probed { target, cases: outcome.cases, notes })
    }

    /// The target, with progress while a test file is made.
    fn make(
        &self,
        common: &Common,
        target: impl FnOnce(Watch<'_>) -> Result<Target, Error>,
    ) -> Result<Target> {
        let mut progress = Progress::new(Some(self.size.0), common.quiet);
        let mut watch = |written| {
            progress
                .set(written, || "making a test file".to_owned())
                .map_err(|Interrupted| Error::Interrupted)
        };
        target(&mut watch).map_err(unless_interrupted)
    }

    /// What is measured of this target; what cannot be is noted.
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
        Ok(Wanted {
            methods: self.method.clone(),
            blocks,
            paths: self.paths(target, notes),
            mapped: if target.in_memory { Path::Cached } else { Path::Cold },
            buffers: self.buffers.iter().map(|memory| memory.buffers()).collect(),
            random: self.random,
            rivals: !self.no_rivals,
        })
    }

    fn paths(&self, target: &Target, notes: &mut Vec<String>) -> Vec<Path> {
        let default = !(self.direct || self.buffered || self.cached);
        let asked = [
            (self.direct || default, Path::Direct),
            (self.buffered, Path::Cold),
            (self.cached, Path::Cached),
        ];
        let mut paths: Vec<Path> =
            asked.into_iter().filter(|&(asked, _)| asked).map(|(_, path)| path).collect();
        if let Err(error) = &target.direct
            && paths.contains(&Path::Direct)
        {
            notes
                .push(format!("{}: read through the page cache instead of directly ({error}).", target.name));
            replace(&mut paths, Path::Direct, Path::Cold);
        }
        if target.in_memory && paths.contains(&Path::Cold) {
            notes.push(format!("{}: it lies in the page cache, which is never cold.", target.name));
            replace(&mut paths, Path::Cold, Path::Cached);
        }
        paths
    }

    fn write(
        &self,
        document: &Document<ProbeResult>,
        probed: &[Probed],
        file: Option<OutFile>,
        out: Option<&OutDir>,
        common: &Common,
    ) -> Result<()> {
        let machine = machine();
        let targets = probed.iter().map(|probed| (probed.target.name, &probed.cases as &[Case]));
        let calibration = Calibration::new(format!("{}, {}", machine.kernel, machine.cpu), targets).to_toml();
        if let Some(file) = file {
            file.write(calibration.as_bytes())?;
        }
        let Some(out) = out else { return Ok(()) };
        out.write_report(document, &html::probe(document), &chart::probe(document))?;
        out.write("calibration.toml", calibration.as_bytes())?;
        common.note(&out.report());
        Ok(())
    }
}

fn replace(paths: &mut Vec<Path>, from: Path, to: Path) {
    paths.iter_mut().filter(|path| **path == from).for_each(|path| *path = to);
    paths.sort();
    paths.dedup();
}

/// What ends a run from outside is known to `main`.
fn unless_interrupted(error: Error) -> anyhow::Error {
    if matches!(error, Error::Interrupted) { Interrupted.into() } else { error.into() }
}
