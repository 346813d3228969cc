//! `drive measure`: a device by timed reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};
use sakiyomi_drive::spec::{Consumed, DriveSpec};
use sakiyomi_identify::{
    Action, Flat, ReadCache, Rotation, Survey, Surveyed, Zone, fit, flat, heads, rotation, zones,
};
use sakiyomi_io::engine::{self, Engine, Op, Payload};
use sakiyomi_io::{Access, BufferPool, EngineKind, EngineSpec, IoFile, Memory};
use sakiyomi_model::{Bytes, Nanos, Sectors};
use sakiyomi_report::number::{duration, plural};
use sakiyomi_simulation::{FitParameter, FitPolicy, step_name};
use sakiyomi_validate::Pace;
use serde::Serialize;

use super::fit::{parameter_table, policy_table};
use crate::console::{Common, print_result, print_text};
use crate::drive_file::drive_spec;
use crate::output::OutFile;
use crate::progress::Progress;

pub(super) const EXAMPLES: &str = "Examples:
  sudo sakiyomi drive measure /dev/sdb -o mine.toml
  sudo sakiyomi drive measure /dev/sdb --drive deskstar-7k250 -o mine.toml
  sakiyomi drive measure large-file --time 1min -o model
";

/// Reads at a time, at most.
const DEPTH_MAX: usize = 64;
/// Largest read.
const READ_MAX: usize = 1 << 20;
/// Returns to the same sector without which a disk could be taken for another device.
const RETURNS_MIN: usize = 24;
/// Unit of places, that of drives' files.
const SECTOR_SIZE: Bytes = Bytes(512);
/// Largest alignment of a read.
const PAGE_SIZE: Bytes = Bytes(4 << 10);
/// A smaller file or device lies in a few tracks, or in a cache.
const SIZE_MIN: Bytes = Bytes(64 << 20);

/// Measure a live disk.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only reads, with O_DIRECT: the page cache is left out. Other programs that use the device disturb the \
        measurement. Of a disk it finds the period of rotation, the zones, skews and heads, and, from them or from \
        --drive, the parameters and policies that its reads identify; of other storage the latency, parallelism and \
        bandwidth of a fixed: model."
)]
pub(crate) struct Measure {
    /// A block device, or a large file on it
    path: PathBuf,
    /// Begin the identification of a disk at this drive: a built-in one, a TOML file, or a file of DiskSim
    /// [default: a drive with the measured tracks]
    #[arg(long, value_name = "NAME|FILE")]
    drive: Option<String>,
    /// Write the drive to this file: TOML of a disk, or the fixed: model
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Maximum time of the measurement
    #[arg(long, value_name = "TIME", default_value = "10min")]
    time: Nanos,
    /// Seed of the random places
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The result of a measurement.
#[derive(Serialize)]
struct MeasureResult {
    path: String,
    size_bytes: u64,
    elapsed_ns: u64,
    /// Whether the device has a period of rotation; `null` if that is not known, for want of time.
    is_disk: Option<bool>,
    /// Reads of the same sector that were not served from a cache.
    returns: u64,
    rotation: Option<Period>,
    /// Zones of a disk, by the angles of its sectors.
    zones: Vec<ZoneOfTracks>,
    /// Heads of a disk, if its skews tell their number.
    heads: Option<u32>,
    /// The read cache of a disk.
    read_cache: Option<Cache>,
    sizes: Vec<Latency>,
    depths: Vec<Throughput>,
    /// The model of a device that is not a disk, as `--drive` takes it.
    fixed: Option<String>,
    /// Policies and parameters of a disk.
    identified: Option<Findings>,
}

/// A period of rotation, with bounds at the level of 95 %.
#[derive(Serialize)]
struct Period {
    rpm: f64,
    low_rpm: f64,
    high_rpm: f64,
    coherence: f64,
}

/// Tracks of the same length.
#[derive(Serialize)]
struct ZoneOfTracks {
    /// The first sector lies between these two.
    start_low_lba: u64,
    start_high_lba: u64,
    sectors_per_track: f64,
    low_sectors_per_track: f64,
    high_sectors_per_track: f64,
    track_skew_sectors: Option<f64>,
    cylinder_skew_sectors: Option<f64>,
}

/// A read cache, by what it serves without the medium.
#[derive(Serialize)]
struct Cache {
    /// Successive reads after the first one from which the drive reads ahead; null if it does not.
    read_ahead_after_sequential: Option<u32>,
    /// Bytes read ahead: at least, and less than.
    read_ahead_low_bytes: Option<u64>,
    read_ahead_high_bytes: Option<u64>,
    /// Whether sectors that the host has read stay.
    consumed: Option<Consumed>,
    /// Segments, each of which keeps one place: at least, and less than.
    segments_low: Option<u32>,
    segments_high: Option<u32>,
}

/// Latencies of single reads of one size.
#[derive(Serialize)]
struct Latency {
    size_bytes: u64,
    reads: u64,
    p10_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
}

/// Throughput of reads of 4 KiB.
#[derive(Serialize)]
struct Throughput {
    depth: usize,
    reads_per_second: f64,
}

/// Policies and parameters of a disk.
#[derive(Serialize)]
struct Findings {
    drive: String,
    requests: usize,
    accepted: &'static str,
    policies: Vec<FitPolicy>,
    parameters: Vec<FitParameter>,
}

impl Measure {
    pub(super) fn run(&self, common: &Common) -> Result<()> {
        let from = self.drive.as_ref().map(|drive| drive_spec(drive, common)).transpose()?;
        let out = self.output.as_deref().map(OutFile::create).transpose()?;
        let begun = Instant::now();
        let mut host = Host::open(&self.path)?;
        let size = Bytes(host.file.size());
        ensure!(
            size >= SIZE_MIN,
            "{}: {size} is too small to tell a disk from its cache; name a device or a file of at least {SIZE_MIN}",
            self.path.display()
        );
        let mut progress = Progress::new(None, common.quiet);
        let surveyed = host.survey(self.time, self.seed, &mut progress)?;
        drop(progress);
        let period = rotation(&surveyed.returns);
        let has_returns = surveyed.returns.len() >= RETURNS_MIN;
        let model = if period.is_none() && has_returns { flat(&surveyed) } else { None };
        let mut result = MeasureResult {
            path: self.path.display().to_string(),
            size_bytes: size.0,
            elapsed_ns: begun.elapsed().as_nanos() as u64,
            is_disk: match (period, model) {
                (Some(_), _) => Some(true),
                (None, Some(_)) => Some(false),
                (None, None) => None,
            },
            returns: surveyed.returns.len() as u64,
            rotation: period.as_ref().map(Period::from),
            zones: zones(&surveyed.tracks).iter().map(ZoneOfTracks::from).collect(),
            heads: heads(&surveyed.tracks),
            read_cache: period.map(|_| Cache::new(surveyed.cache, SECTOR_SIZE)),
            sizes: surveyed.sizes.iter().map(Latency::from).collect(),
            depths: surveyed
                .depths
                .iter()
                .map(|of| Throughput { depth: of.depth, reads_per_second: of.reads_per_second })
                .collect(),
            fixed: model.map(|model| fixed(&model, size)),
            identified: None,
        };
        let mut text = result.fixed.clone();
        // The measurement took minutes, and is printed whatever fails after it.
        let capacity = host.capacity();
        let start = period.and_then(|period| match &from {
            Some(from) => Some(surveyed.with_tracks(from, capacity)),
            None => surveyed.drive(capacity, SECTOR_SIZE, &period),
        });
        let identified = match (period, start) {
            (Some(period), Some(start)) => self.identify(&surveyed, period, start, common).map(Some),
            _ => Ok(None),
        };
        let identified = identified.map(|identified| {
            if let Some((spec, findings)) = identified {
                text = Some(spec.to_toml());
                result.identified = Some(findings);
            }
        });
        if common.json {
            print_result("sakiyomi.drive-measure/2", &result)?;
        } else {
            print_text(&describe(&result, common))?;
        }
        identified?;
        let (Some(out), Some(path)) = (out, &self.output) else { return Ok(()) };
        let text = text.with_context(|| not_written(&self.path, period.is_some()))?;
        out.write(format!("{}\n", text.trim_end()).as_bytes())?;
        common.note(&format!("written: {}", path.display()));
        Ok(())
    }

    /// Identifies a disk from the course of the survey.
    fn identify(
        &self,
        surveyed: &Surveyed,
        period: Rotation,
        mut start: DriveSpec,
        common: &Common,
    ) -> Result<(DriveSpec, Findings)> {
        start.servo.rpm = period.rpm;
        let mut progress = Progress::new(None, common.quiet);
        let mut interrupted = None;
        let mut go_on = |replays: u64| {
            interrupted = progress.set(replays, || format!("{replays} replays")).err();
            interrupted.is_none()
        };
        let found = fit(&start, &surveyed.course, Pace::Closed, &mut go_on);
        if let Some(interrupted) = interrupted {
            return Err(interrupted.into());
        }
        let found = found.with_context(|| {
            format!("{} is larger than {}: give a drive of its size", self.path.display(), start.name)
        })?;
        let findings = Findings {
            drive: start.name.clone(),
            requests: surveyed.course.len(),
            accepted: step_name(found.accepted),
            policies: found.policies.iter().map(FitPolicy::from).collect(),
            parameters: found.parameters.iter().map(FitParameter::from).collect(),
        };
        Ok((found.spec, findings))
    }
}

/// Returns the reason why no drive can be written.
fn not_written(path: &Path, is_disk: bool) -> String {
    let path = path.display();
    if is_disk {
        format!(
            "{path} is a disk whose tracks were not found; name a drive to begin with by --drive, or give more --time"
        )
    } else {
        format!("{path}: it is not known whether this is a disk; give more --time")
    }
}

/// The device and an engine with threads.
struct Host {
    file: Arc<IoFile>,
    engine: Box<dyn Engine>,
    pool: BufferPool,
}

impl Host {
    fn open(path: &Path) -> Result<Host> {
        let file = Arc::new(IoFile::open(path, Access::Direct)?);
        let spec = EngineSpec { kind: EngineKind::Pread, depth: DEPTH_MAX };
        let mut engine = engine::open(spec, READ_MAX, None)?.engine;
        engine.attach(&file);
        let pool = BufferPool::fixed(DEPTH_MAX, READ_MAX, Memory::default())?;
        Ok(Host { file, engine, pool })
    }

    fn capacity(&self) -> Sectors {
        Sectors(self.file.size() / SECTOR_SIZE.0)
    }

    /// Surveys the device in real time.
    fn survey(&mut self, time: Nanos, seed: u64, progress: &mut Progress) -> Result<Surveyed> {
        let begun = Instant::now();
        let now = || Nanos(begun.elapsed().as_nanos() as u64);
        let mut survey = Survey::new(self.capacity(), SECTOR_SIZE, time, seed)
            .aligned(Bytes((self.file.alignment().offset as u64).clamp(SECTOR_SIZE.0, PAGE_SIZE.0)));
        let (mut completions, mut reads) = (Vec::with_capacity(DEPTH_MAX), 0u64);
        loop {
            match survey.poll(now()) {
                Action::Finished => return Ok(survey.into_surveyed()),
                Action::Pause(until) => thread::sleep(Duration::from_nanos(until.saturating_sub(now()).0)),
                Action::Read(probe) => {
                    let buffer = self.pool.take().context("a buffer for each read in flight")?;
                    let (offset, length) =
                        (probe.extent.start.0 * SECTOR_SIZE.0, probe.extent.sectors.0 * SECTOR_SIZE.0);
                    let file = Arc::clone(&self.file);
                    let payload = Payload::Buffer(buffer);
                    self.engine.submit(Op::read(probe.id, file, offset, length as usize, payload));
                }
                Action::Await => {
                    self.engine.reap(1, &mut completions)?;
                    let ended = now();
                    for completion in completions.drain(..) {
                        completion
                            .result
                            .with_context(|| format!("cannot read {}", self.file.path().display()))?;
                        let service = Nanos(completion.service.as_nanos() as u64);
                        survey.completed(completion.op.tag, ended.saturating_sub(service), ended);
                        reads += 1;
                    }
                    let phase = survey.phase();
                    progress.set(reads, || format!("{} reads{}", reads, phase.map_or("", |_| " so far")))?;
                }
            }
        }
    }
}

/// Returns a model as `--drive` takes it.
fn fixed(model: &Flat, size: Bytes) -> String {
    let mut text = format!("fixed:latency={},parallel={}", model.latency, model.parallel);
    if let Some(bandwidth) = model.bandwidth {
        text.push_str(&format!(",bandwidth={bandwidth}"));
    }
    if model.spread > 0.0 {
        text.push_str(&format!(",spread={}", model.spread));
    }
    format!("{text},size={size}")
}

impl From<&Rotation> for Period {
    fn from(rotation: &Rotation) -> Period {
        let Rotation { rpm, interval: [low_rpm, high_rpm], coherence } = *rotation;
        Period { rpm, low_rpm, high_rpm, coherence }
    }
}

impl Cache {
    fn new(found: ReadCache, sector: Bytes) -> Cache {
        let ahead = found.ahead.map(|ahead| ahead.map(|sectors| sectors.0.saturating_mul(sector.0)));
        Cache {
            read_ahead_after_sequential: found.after_sequential,
            read_ahead_low_bytes: ahead.map(|[low, _]| low),
            read_ahead_high_bytes: ahead.map(|[_, high]| high),
            consumed: found.consumed,
            segments_low: found.segments.map(|[low, _]| low),
            segments_high: found.segments.map(|[_, high]| high),
        }
    }

    fn sentence(&self) -> String {
        let ahead = match (self.read_ahead_after_sequential, self.read_ahead_low_bytes) {
            (Some(0), Some(low)) => format!("It reads {} ahead from the first read on", Bytes(low)),
            (Some(after), Some(low)) => {
                format!(
                    "It reads {} ahead from {} on",
                    Bytes(low),
                    plural(u64::from(after), "sequential read")
                )
            }
            _ => "It does not read ahead".to_owned(),
        };
        let kept = self.segments_low.map(|low| format!(", and keeps {}", plural(u64::from(low), "place")));
        format!("{ahead}{}.", kept.unwrap_or_default())
    }
}

impl From<&Zone> for ZoneOfTracks {
    fn from(zone: &Zone) -> ZoneOfTracks {
        ZoneOfTracks {
            start_low_lba: zone.start[0].0,
            start_high_lba: zone.start[1].0,
            sectors_per_track: zone.sectors_per_track,
            low_sectors_per_track: zone.interval[0],
            high_sectors_per_track: zone.interval[1],
            track_skew_sectors: zone.track_skew,
            cylinder_skew_sectors: zone.cylinder_skew,
        }
    }
}

impl From<&sakiyomi_identify::OfSize> for Latency {
    fn from(of: &sakiyomi_identify::OfSize) -> Latency {
        let at = |percent: usize| of.times.get((of.times.len() - 1) * percent / 100).map_or(0, |time| time.0);
        Latency {
            size_bytes: of.size.0,
            reads: of.times.len() as u64,
            p10_ns: at(10),
            p50_ns: at(50),
            p90_ns: at(90),
        }
    }
}

fn describe(result: &MeasureResult, common: &Common) -> String {
    let style = common.color.style();
    let verdict = match (&result.rotation, &result.fixed) {
        (Some(Period { rpm, low_rpm, high_rpm, .. }), _) => format!(
            "{} is a disk: it turns {rpm:.3} times a minute ({low_rpm:.3} to {high_rpm:.3}, 95 %), by {} of the same sector.",
            result.path,
            plural(result.returns, "read")
        ),
        (None, Some(fixed)) => format!(
            "{} is not a disk: {} of the same sector end at no period that a disk could have. Its model is {fixed}",
            result.path,
            plural(result.returns, "read")
        ),
        (None, None) => format!(
            "{}: it is not known whether this is a disk: only {} of the same sector were not served from a cache; give \
             more --time.",
            result.path,
            plural(result.returns, "read")
        ),
    };
    let mut sizes = Table::new();
    sizes.load_preset(presets::NOTHING).set_header(["one read of", "p10", "median", "p90"]);
    for Latency { size_bytes, p10_ns, p50_ns, p90_ns, .. } in &result.sizes {
        sizes.add_row(
            [Bytes(*size_bytes).to_string()]
                .into_iter()
                .chain([p10_ns, p50_ns, p90_ns].map(|time| duration(*time))),
        );
    }
    let mut depths = Table::new();
    depths.load_preset(presets::NOTHING).set_header(["reads of 4 KiB at a time", "per second"]);
    for Throughput { depth, reads_per_second } in &result.depths {
        depths.add_row([depth.to_string(), format!("{reads_per_second:.0}")]);
    }
    let mut text = format!("{}\n\n{sizes}\n\n{depths}", style.wrap(&verdict));
    if !result.zones.is_empty() {
        let mut zones = Table::new();
        let header = ["zone from sector", "sectors per track", "95 %", "skew of tracks", "of cylinders"];
        zones.load_preset(presets::NOTHING).set_header(header);
        let skew =
            |skew: Option<f64>| skew.map_or_else(|| "not seen".to_owned(), |skew| format!("{skew:.1}"));
        for zone in &result.zones {
            let start = match (zone.start_low_lba, zone.start_high_lba) {
                (low, high) if low == high => low.to_string(),
                (low, high) => format!("{low} to {high}"),
            };
            zones.add_row([
                start,
                format!("{:.1}", zone.sectors_per_track),
                format!("{:.1} to {:.1}", zone.low_sectors_per_track, zone.high_sectors_per_track),
                skew(zone.track_skew_sectors),
                skew(zone.cylinder_skew_sectors),
            ]);
        }
        let heads = match result.heads {
            Some(heads) => plural(u64::from(heads), "head"),
            None => {
                "The number of heads is not identified: tracks and cylinders have the same skew.".to_owned()
            }
        };
        text.push_str(&format!("\n\n{zones}\n\n{heads}"));
    }
    if let Some(cache) = &result.read_cache {
        text.push_str(&format!("\n\n{}", style.wrap(&cache.sentence())));
    }
    if let Some(Findings { drive, requests, accepted, policies, parameters }) = &result.identified {
        let from = plural(*requests as u64, "read");
        let outcome = if *accepted == "given" {
            format!("{drive} explains {from} as well as any drive that was tried.")
        } else {
            format!(
                "Identified from {from} of mixed distances, beginning at {drive} (what is above has probes of its own):"
            )
        };
        let (policies, parameters) = (policy_table(policies), parameter_table(parameters));
        text.push_str(&format!("\n\n{}\n\n{policies}\n\n{parameters}", style.wrap(&outcome)));
    }
    text
}
