//! Experiments that are repeated live: with real files, threads and clocks, in a size that this machine allows.
//!
//! They are defined here by the same scenarios as those in virtual time. The caller runs them and returns their
//! metrics, from which the figures follow as from those of simulations.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::spec::{DriveSpec, builtin};
use sakiyomi_model::Nanos;
use sakiyomi_scenario::Scenario;
use sakiyomi_scenario::spec::{DriveChoice, ReadMethod};
use sakiyomi_trace::generate::pc::PcParams;

use crate::paper::Paper;
use crate::task::{Task, key, point};

/// An experiment to be run live.
#[derive(Clone, Debug)]
pub struct LiveTask {
    key: String,
    /// A description of the run and its measurement, for people.
    pub what: String,
    /// The experiment itself.
    pub experiment: LiveExperiment,
}

/// Kinds of live experiments. [`LiveExperiment::metrics`] names what each measures.
#[derive(Clone, Debug)]
pub enum LiveExperiment {
    /// A program reads a file and computes meanwhile.
    Prefetch(LiveProgram),
    /// A text is counted; `s_per_gb` is the time for 10^9 bytes.
    Count(LiveCount),
    /// Programs read at random, one of them with a rate; `ios_per_s` are those of all.
    Readers(LiveReaders),
    /// A workload with pauses on a drive.
    Replay(LiveReplay),
    /// A simulation whose elapsed time is measured.
    Speed(Task),
    /// Sequential direct reads of the storage by one thread; `kernel_percent` is that of a core.
    DirectRead(LiveDirectRead),
    /// TPC-H query 1, once by each of several I/O methods. A machine may lack some of them.
    Query1(LiveTables),
    /// A sort-merge join that spills: the throughputs of reading the tables, of writing the runs, and of reading them again
    /// (`merge_mb_per_s`).
    Join(LiveTables),
}

impl LiveExperiment {
    /// Returns the names of the metrics that the experiment gives if nothing fails.
    #[must_use]
    pub fn metrics(&self) -> &'static [&'static str] {
        match self {
            LiveExperiment::Prefetch(_) => &["elapsed_s"],
            LiveExperiment::Count(_) => &["s_per_gb"],
            LiveExperiment::Readers(_) => &["accuracy", "cov", "ios_per_s"],
            LiveExperiment::Replay(_) => &["hit_percent", "response_mean_ms"],
            LiveExperiment::Speed(_) => &["simulated_per_wall_ratio"],
            LiveExperiment::DirectRead(_) => &["megabytes_per_s", "kernel_percent"],
            LiveExperiment::Query1(_) => {
                &["read_s", "aio_s", "pread2_s", "pread4_s", "pread8_s", "pread16_s"]
            }
            LiveExperiment::Join(_) => &["read_mb_per_s", "write_mb_per_s", "merge_mb_per_s"],
        }
    }
}

impl LiveExperiment {
    /// Returns roughly how long the experiment takes on two cores, for a progress bar.
    #[must_use]
    pub fn expected(&self) -> Nanos {
        /// To make files, to mount a drive and to unmount it.
        const MOUNT_S: f64 = 0.3;
        Nanos::from_secs_f64(match self {
            LiveExperiment::Prefetch(program) => {
                MOUNT_S + WAITING_RATIO * program.bytes as f64 / program.compute_bytes_per_s
            }
            LiveExperiment::Count(count) => {
                let rate = count.compute_bytes_per_s.unwrap_or(COUNTED_IN_MEMORY_BYTES_PER_S);
                MOUNT_S + WAITING_RATIO * count.bytes as f64 / rate
            }
            LiveExperiment::Readers(readers) => MOUNT_S + f64::from(readers.duration_s),
            LiveExperiment::Replay(LiveReplay { params, .. }) => {
                MOUNT_S + params.duration.as_secs_f64() + COMMAND_S * params.commands as f64
            }
            LiveExperiment::Speed(_) => SPEED_S,
            LiveExperiment::DirectRead(read) => MOUNT_S + read.run_ms as f64 / 1e3,
            LiveExperiment::Query1(tables) | LiveExperiment::Join(tables) => TABLES_S * tables.scale,
        })
    }
}

/// Elapsed time over computing time of a program that reads an emulated drive, with and without prefetching.
const WAITING_RATIO: f64 = 1.3;
/// Bytes that are written and counted in memory in a second.
const COUNTED_IN_MEMORY_BYTES_PER_S: f64 = 4e8;
/// Mean response of the commands of the replayed workload.
const COMMAND_S: f64 = 4e-3;
/// Duration of the simulation of the whole benchmark.
const SPEED_S: f64 = 0.3;
/// Duration of the generation of tables of scale factor 1, and of queries on them.
const TABLES_S: f64 = 8.0;

/// A program that reads a file and computes meanwhile.
#[derive(Clone, Debug)]
pub struct LiveProgram {
    /// The emulated drive that holds the file.
    pub drive: DriveSpec,
    /// Where the file begins, as a share of the drive.
    pub place: f64,
    /// Size of the file.
    pub bytes: u64,
    /// Size of a read.
    pub call_bytes: u64,
    /// Bytes for which it computes a second.
    pub compute_bytes_per_s: f64,
    /// Distance in bytes at which a reader prefetches; `None`: without prefetching.
    pub limit: Option<u64>,
}

/// A text that is counted.
#[derive(Clone, Debug)]
pub struct LiveCount {
    /// The emulated drive that holds the text; `None`: it is in memory.
    pub drive: Option<DriveSpec>,
    /// Where it begins, as a share of the drive.
    pub place: f64,
    /// Size of the text.
    pub bytes: u64,
    /// Size of a part.
    pub part_bytes: usize,
    /// How it is read.
    pub method: ReadMethod,
    /// Threads that count; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// Bytes for which a thread computes a second; `None`: as fast as it can.
    pub compute_bytes_per_s: Option<f64>,
}

/// Programs that read at random, each in its own file.
#[derive(Clone, Debug)]
pub struct LiveReaders {
    /// The emulated drive.
    pub drive: DriveSpec,
    /// Size of a file.
    pub file_bytes: u64,
    /// Size of a read.
    pub read_bytes: u64,
    /// Requested performance of the first program in percent.
    pub percent: u32,
    /// Programs without a rate beside it.
    pub rivals: u32,
    /// How long they read, in seconds.
    pub duration_s: u32,
}

/// A workload with pauses on a drive.
#[derive(Clone, Debug)]
pub struct LiveReplay {
    /// The emulated drive.
    pub drive: DriveSpec,
    /// The workload.
    pub params: PcParams,
    /// Its seed.
    pub seed: u64,
}

/// Sequential direct reads by one thread.
#[derive(Clone, Copy, Debug)]
pub struct LiveDirectRead {
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of a read.
    pub block_bytes: usize,
    /// How long it reads, in milliseconds.
    pub run_ms: u64,
}

/// Tables of TPC-H.
#[derive(Clone, Copy, Debug)]
pub struct LiveTables {
    /// Scale factor.
    pub scale: f64,
    /// Seed of the order of rows.
    pub seed: u64,
    /// Seed of the order of the methods of query 1.
    pub order_seed: u64,
    /// Size of a read.
    pub block_bytes: usize,
    /// Memory of the join.
    pub memory_bytes: usize,
}

impl LiveTask {
    pub(crate) fn new(point: &str, repetition: u32, what: String, experiment: LiveExperiment) -> LiveTask {
        LiveTask { key: key(point, repetition), what, experiment }
    }

    /// Its name, unique among the live and simulated tasks of all papers.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Seed of the orders in which the runs of live experiments follow each other.
const ORDER_SEED: u64 = 1;

/// Returns the runs of all points in rounds. In each round every point has one run, in an order of its own: changes of
/// the machine's speed affect all points alike.
pub(crate) fn in_rounds<P>(rounds: u32, points: &[P], run: impl Fn(&P, u32) -> LiveTask) -> Vec<LiveTask> {
    let rounds = (0..rounds).flat_map(|round| {
        let order = shuffled((0..points.len()).collect(), ORDER_SEED.wrapping_add(u64::from(round)));
        let run = &run;
        order.into_iter().map(move |index| run(&points[index], round))
    });
    rounds.collect()
}

/// Returns the items in an order that `seed` determines.
#[must_use]
pub fn shuffled<T>(mut items: Vec<T>, seed: u64) -> Vec<T> {
    let mut random = Pcg64::seed_from_u64(seed);
    // Fisher-Yates shuffle. The bias of the remainder is negligible for so few items.
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    items
}

/// The name of a point's live tasks.
pub(crate) fn live_point<'a>(
    paper: Paper,
    experiment: &str,
    values: impl IntoIterator<Item = &'a str>,
) -> String {
    point(paper, &format!("live/{experiment}"), values)
}

/// The drive that a scenario names, with its settings.
///
/// # Panics
/// If the scenario, which is part of the program, names none, or the settings are not those of a drive.
pub(crate) fn drive(scenario: &Scenario) -> DriveSpec {
    let DriveChoice { model, set, .. } = &scenario.drive;
    let settings = set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let named = model.as_ref().map(|name| builtin(name).map(|drive| drive.spec()));
    let spec = named.unwrap_or_else(|| panic!("{}: no drive", scenario.name));
    let spec = spec.and_then(|spec| spec.with_settings(settings));
    spec.unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn runs(rounds: u32) -> Vec<String> {
        let read = LiveExperiment::DirectRead(LiveDirectRead { file_bytes: 1, block_bytes: 1, run_ms: 1 });
        let tasks = in_rounds(rounds, &["a", "b", "c", "d"], |point, round| {
            LiveTask::new(point, round, String::new(), read.clone())
        });
        tasks.into_iter().map(|task| task.key).collect()
    }

    #[test]
    fn each_round_has_each_point_once_and_an_order_of_its_own() {
        let keys = runs(8);
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 32);
        for (round, keys) in keys.chunks(4).enumerate() {
            assert!(keys.iter().all(|key| key.ends_with(&format!("#{round:04}"))), "{keys:?}");
        }
        let orders: BTreeSet<Vec<&str>> =
            keys.chunks(4).map(|keys| keys.iter().map(|key| &key[..1]).collect()).collect();
        assert!(orders.len() > 2, "{orders:?}");
        assert_eq!(keys, runs(8));
    }
}
