//! Predictions: the elapsed time of a recorded program with other storage, memory or read-ahead, or with prefetching, by
//! replaying it in virtual time.
//!
//! The present storage is described by a latency, a number of requests at a time, and a bandwidth. The two latter were
//! measured after the recording; the latency is the one with which the replay takes as long as the program did. All
//! other settings are predicted in proportion to that replay, so that errors that both have cancel out.

use sakiyomi_drive::fixed::FixedSpec;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_scenario::spec::{CpuSpec, Distance, DriveChoice, MemorySpec, PrefetchSpec, QueueSpec, RunSpec};
use sakiyomi_scenario::{RunError, Scenario, run_with};

use crate::ledger::{Ledger, Term};
use crate::record::MeasuredPlace;
use crate::recording::{AccessKind, FileAccess, Method, Recording};
use crate::replay::{IsCached, MetadataCost, Program, ProgramOptions, Replay};

/// Read-ahead where the system does not report it: the kernel's default.
const READ_AHEAD_DEFAULT: Bytes = Bytes(128 << 10);
/// The longest latency that is considered.
const LATENCY_MAX: Nanos = Nanos(10_000_000_000);
/// Steps of the search for the latency, each of which halves the interval of its logarithm.
const FIT_STEPS: u32 = 14;
/// The least half-width of a prediction's interval, as a share: what repeated runs of one program differ by.
const INTERVAL_MIN_RATIO: f64 = 0.15;
/// Share of the elapsed time that may be spent on accesses that are not recorded.
const UNSEEN_MAX_RATIO: f64 = 0.1;
/// Least share of the time of opens and look-ups that is left with prefetching, as it was measured of `tar` and `cp`.
const AHEAD_LOOKUP_SHARE: f64 = 0.5;
/// Share of the storage's latency from which on a look-up has waited for the storage.
const LOOKUP_WAIT_MIN_RATIO: f64 = 0.5;
/// Time by which a program starts later under `sakiyomi run`: 6 to 15 ms were measured of `true`.
const RUN_START: Nanos = Nanos(10_000_000);
/// Memory that is simulated beyond what the files of a program can fill, which bounds the memory of the simulation.
const MEMORY_SPARE: Bytes = Bytes(256 << 20);
/// Written data of which this multiple is simulated as memory, because programs are slowed down from a tenth of it on.
const WRITTEN_FACTOR: u64 = 20;

/// Storage of a prediction.
#[derive(Clone, Debug, PartialEq)]
pub enum Storage {
    /// The present one.
    Present,
    /// Storage with the same times at any place.
    Fixed(FixedSpec),
    /// Storage that was measured on this machine.
    Measured(MeasuredPlace),
    /// A hard disk or an array.
    Drive {
        /// Its name.
        name: String,
        /// Its description.
        spec: Box<DriveSpec>,
    },
}

/// The changes of a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The storage.
    pub storage: Storage,
    /// Memory for the page cache; as recorded if `None`.
    pub memory: Option<Bytes>,
    /// The kernel's read-ahead; as recorded if `None`.
    pub read_ahead: Option<Bytes>,
    /// The prefetching by `sakiyomi run`.
    pub prefetching: Prefetching,
    /// Time of an open, look-up or listing that waits; in proportion to the latency of the storage if `None`.
    pub metadata: Option<Nanos>,
}

impl Change {
    /// No change.
    pub const NONE: Change = Change {
        storage: Storage::Present,
        memory: None,
        read_ahead: None,
        prefetching: Prefetching::Off,
        metadata: None,
    };
}

/// Prefetching by `sakiyomi run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefetching {
    /// None.
    #[default]
    Off,
    /// Of data that is predicted from the accesses.
    Followed,
    /// From the start, of all data that an earlier run has used.
    Learned,
}

/// A predicted elapsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The elapsed time.
    pub elapsed: Nanos,
    /// Lower end of its interval.
    pub low: Nanos,
    /// Upper end of its interval.
    pub high: Nanos,
}

/// The model of the machine and the storage on which a program was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Present<'a> {
    recording: &'a Recording,
    device: u64,
    /// The storage.
    pub storage: FixedSpec,
    /// Difference of the elapsed time of the replay from the recorded one, as a share of the latter.
    pub error_ratio: f64,
    replayed: Nanos,
    /// Bytes of memory that are simulated at most.
    memory_max: u64,
}

/// Reasons why nothing can be predicted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// The program used no files.
    #[error("the program used no files, so that other storage, memory or prefetching change nothing")]
    NoFiles,
    /// A sampled recording lacks the accesses that did not wait.
    #[error("predictions need a recording of every access, which needs root and the kernel's tracepoints")]
    Sampled,
    /// The accesses of asynchronous I/O are not recorded.
    #[error("the program waits for asynchronous I/O (io_uring or AIO), whose accesses are not recorded")]
    AsynchronousIo,
    /// The replay does not take as long as the program did.
    #[error(
        "the model of the present storage misses the recorded time by {} %, too much to predict from it",
        (error_ratio * 100.0).round()
    )]
    NoFit {
        /// Difference as a share of the recorded time.
        error_ratio: f64,
    },
    /// The simulation failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl<'a> Present<'a> {
    /// The largest error of the model from which something is predicted, as a share.
    const ERROR_MAX_RATIO: f64 = 0.25;
    /// The shortest latency that is considered. A program that did not wait for the storage does not tell its latency, and
    /// is described by this one.
    pub const LATENCY_MIN: Nanos = Nanos(1_000);
    /// The smallest page cache that is simulated.
    pub const MEMORY_MIN: Bytes = Bytes(1 << 20);

    /// Fits the model to a recording.
    ///
    /// # Errors
    /// The reason why nothing can be predicted.
    pub fn fit(recording: &'a Recording) -> Result<Present<'a>, PredictError> {
        if recording.method == Method::Sampled {
            return Err(PredictError::Sampled);
        }
        let device = recording.main_device().ok_or(PredictError::NoFiles)?;
        let unseen = Ledger::of(recording).sum(|term| *term == Term::AsynchronousIo);
        if unseen.0 as f64 > UNSEEN_MAX_RATIO * recording.elapsed_ns.0 as f64 {
            return Err(PredictError::AsynchronousIo);
        }
        let measured = recording.storage.filter(|storage| storage.device == device);
        let mut present = Present {
            recording,
            device,
            storage: FixedSpec {
                parallel: measured.map_or(32, |storage| storage.parallel),
                bandwidth: measured.map(|storage| Bytes(storage.bandwidth_bytes_per_s)),
                ..FixedSpec::default()
            },
            error_ratio: 0.0,
            replayed: Nanos::ZERO,
            memory_max: memory_max(recording),
        };
        let program = Program::new(recording, &present.options(MetadataCost::Recorded, 1.0));
        let unfitted = present.clone();
        let elapsed = |latency: Nanos| {
            let storage = FixedSpec { latency, ..unfitted.storage };
            simulate(&program, &unfitted.scenario(&Change::NONE, &storage), None)
        };
        let recorded = recording.elapsed_ns;
        let (mut low, mut high) = (Self::LATENCY_MIN, LATENCY_MAX);
        // If the longest latency does not explain it either, the program did not wait for the storage.
        if elapsed(low)? < recorded && elapsed(high)? >= recorded {
            for _ in 0..FIT_STEPS {
                let middle = Nanos((low.0 as f64 * high.0 as f64).sqrt() as u64);
                if elapsed(middle)? < recorded { low = middle } else { high = middle }
            }
        }
        present.storage.latency = low;
        present.replayed = elapsed(low)?;
        present.error_ratio = difference(present.replayed, recorded);
        if present.error_ratio > Self::ERROR_MAX_RATIO {
            return Err(PredictError::NoFit { error_ratio: present.error_ratio });
        }
        Ok(present)
    }

    /// Returns the file system that the predictions concern.
    #[must_use]
    pub fn device(&self) -> u64 {
        self.device
    }

    fn options(&self, metadata: MetadataCost, sync_ratio: f64) -> ProgramOptions {
        ProgramOptions {
            device: self.device,
            metadata,
            sync_ratio,
            prefetches: false,
            is_cached: IsCached::AsRecorded,
            recorded_wait_cpu: self.wait_cpu(),
            wait_cpu: self.wait_cpu(),
            keeps_served_waits: true,
        }
    }

    /// Returns the CPU time of a wait for the present storage.
    fn wait_cpu(&self) -> Nanos {
        let measured = self.recording.storage.filter(|storage| storage.device == self.device);
        measured.map(|storage| storage.wait_cpu_ns).unwrap_or_default()
    }

    fn scenario(&self, change: &Change, storage: &FixedSpec) -> Scenario {
        let recorded = self.recording;
        let read_ahead = recorded.storage.and_then(|storage| storage.read_ahead_bytes).map(Bytes);
        let limit = match change.prefetching {
            Prefetching::Followed => Distance::Auto,
            Prefetching::Off | Prefetching::Learned => Distance::Off,
        };
        Scenario {
            name: String::new(),
            run: RunSpec::default(),
            drive: DriveChoice { fixed: Some(named(storage)), ..DriveChoice::default() },
            queue: QueueSpec::default(),
            memory: MemorySpec {
                size: Bytes(
                    change
                        .memory
                        .map_or(recorded.machine.memory_bytes, |memory| memory.0)
                        .clamp(Self::MEMORY_MIN.0, self.memory_max),
                ),
                read_ahead: change.read_ahead.or(read_ahead).unwrap_or(READ_AHEAD_DEFAULT),
                ..MemorySpec::default()
            },
            cpu: CpuSpec { cores: recorded.machine.cores.max(1), ..CpuSpec::default() },
            machine: sakiyomi_scenario::spec::MachineSpec::default(),
            process: Vec::new(),
            job: Vec::new(),
            prefetch: PrefetchSpec { limit, ..PrefetchSpec::default() },
            regulate: None,
            case: std::collections::BTreeMap::new(),
            vary: std::collections::BTreeMap::new(),
            published: Vec::new(),
        }
    }

    /// Predicts the elapsed time with a change.
    ///
    /// # Errors
    /// If the simulation fails.
    pub fn predict(&self, change: &Change) -> Result<Prediction, PredictError> {
        let (fixed, drive, latency) = match &change.storage {
            Storage::Present => (self.storage, None, None),
            Storage::Fixed(fixed) => (*fixed, None, Some(fixed.latency)),
            Storage::Measured(place) => (place.storage, None, Some(place.storage.latency)),
            Storage::Drive { spec, .. } => (self.storage, Some(&**spec), Some(self.storage.latency)),
        };
        let mut scenario = self.scenario(change, &fixed);
        if let Storage::Drive { name, .. } = &change.storage {
            scenario.drive = DriveChoice { model: Some(name.clone()), ..DriveChoice::default() };
        }
        let mut costs = match (latency, change.metadata) {
            (None, None) => vec![self.options(MetadataCost::Recorded, 1.0)],
            // An open on other storage takes an access at most, and nothing where it is cached.
            (latency, None) => {
                let latency = latency.unwrap_or(self.storage.latency);
                let ratio = latency.0 as f64 / self.storage.latency.0.max(1) as f64;
                // Storage that was measured has no server of this kind, or one whose time was measured.
                let wait_min = match &change.storage {
                    Storage::Measured(_) => Nanos::ZERO,
                    _ => Nanos((self.storage.latency.0 as f64 * LOOKUP_WAIT_MIN_RATIO) as u64),
                };
                let in_proportion = |share: f64| MetadataCost::StorageShare { share, wait_min };
                vec![
                    self.options(in_proportion(ratio), ratio),
                    self.options(in_proportion(ratio.max(1.0)), ratio.max(1.0)),
                    self.options(MetadataCost::Share(0.0), 0.0),
                ]
            }
            (latency, Some(metadata)) => {
                let latency = latency.unwrap_or(self.storage.latency);
                let ratio = latency.0 as f64 / self.storage.latency.0.max(1) as f64;
                vec![self.options(MetadataCost::Each(metadata), ratio)]
            }
        };
        if let Storage::Measured(place) = &change.storage {
            for options in &mut costs {
                // The measured latency contains what serves the waits.
                (options.wait_cpu, options.keeps_served_waits) = (place.wait_cpu, false);
            }
        }
        self.prefetch(change.prefetching, &mut costs);
        let start = if change.prefetching == Prefetching::Off { Nanos::ZERO } else { RUN_START };
        // Learned data is loaded meanwhile, as fast as the storage can.
        let loading = match change.prefetching {
            Prefetching::Learned => {
                let program = Program::loading(self.recording, &self.options(MetadataCost::Recorded, 1.0));
                simulate(&program, &scenario, drive)?
            }
            Prefetching::Off | Prefetching::Followed => Nanos::ZERO,
        };
        let mut times = Vec::new();
        for options in costs {
            let program = Program::new(self.recording, &options);
            let replayed = self.in_proportion(simulate(&program, &scenario, drive)?);
            times.push(replayed.max(loading) + start);
        }
        let (least, most) = (times.iter().min().copied(), times.iter().max().copied());
        let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
        let share = INTERVAL_MIN_RATIO.max(2.0 * self.error_ratio);
        Ok(Prediction {
            elapsed: times[0],
            low: Nanos((least.0 as f64 * (1.0 - share).max(0.0)) as u64),
            high: Nanos((most.0 as f64 * (1.0 + share)) as u64),
        })
    }

    /// Sets what is prefetched. The first variant is the one that is expected.
    fn prefetch(&self, prefetching: Prefetching, costs: &mut Vec<ProgramOptions>) {
        // With the data, part of the look-ups are made ahead.
        let metadata = MetadataCost::Share(AHEAD_LOOKUP_SHARE);
        match prefetching {
            Prefetching::Off => {}
            Prefetching::Followed => {
                // Small files are read ahead where one thread reads those of one directory after the other, so that their
                // order can be followed. Otherwise, this is the most to hope for.
                let is_followed = self.recording.traverses_directories();
                let is_cached = if is_followed { IsCached::SmallFiles } else { IsCached::AsRecorded };
                for options in costs.iter_mut() {
                    (options.prefetches, options.is_cached) = (true, is_cached);
                }
                costs.push(ProgramOptions { metadata, is_cached: IsCached::SmallFiles, ..costs[0] });
            }
            Prefetching::Learned => {
                for options in costs.iter_mut() {
                    options.is_cached = IsCached::Everything;
                }
                // A time of look-ups that was given is kept.
                if !matches!(costs[0].metadata, MetadataCost::Each(_)) {
                    costs.insert(0, ProgramOptions { metadata, ..costs[0] });
                }
            }
        }
    }

    fn in_proportion(&self, simulated: Nanos) -> Nanos {
        let ratio = self.recording.elapsed_ns.0 as f64 / self.replayed.0.max(1) as f64;
        Nanos((simulated.0 as f64 * ratio) as u64)
    }
}

/// Returns the size of memory in bytes beyond which more changes nothing.
fn memory_max(recording: &Recording) -> u64 {
    let accesses = || recording.threads.iter().flat_map(|thread| &thread.accesses);
    let loaded: u64 = accesses().map(|access| access.loaded_bytes).sum();
    let used: u64 = recording.files.iter().filter_map(|file| file.size_bytes).sum();
    let is_write = |access: &&FileAccess| access.kind == AccessKind::Write;
    let written: u64 = accesses().filter(is_write).map(|access| access.length).sum();
    loaded.max(used).saturating_add(written.saturating_mul(WRITTEN_FACTOR)).saturating_add(MEMORY_SPARE.0)
}

fn difference(one: Nanos, other: Nanos) -> f64 {
    one.0.abs_diff(other.0) as f64 / other.0.max(1) as f64
}

/// Returns a fixed device as an experiment names it.
fn named(storage: &FixedSpec) -> String {
    // Less cannot be written.
    const BANDWIDTH_MIN: Bytes = Bytes(1000);
    let bandwidth = storage.bandwidth.map(|bandwidth| bandwidth.max(BANDWIDTH_MIN));
    FixedSpec { bandwidth, ..*storage }.to_string()
}

fn simulate(
    program: &Program,
    scenario: &Scenario,
    drive: Option<&DriveSpec>,
) -> Result<Nanos, PredictError> {
    let replay = Replay::new(program);
    let outcome = run_with(scenario, drive, 0, vec![(program.setup.clone(), Box::new(replay))])?;
    Ok(outcome.elapsed)
}
