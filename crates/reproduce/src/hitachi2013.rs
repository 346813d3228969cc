//! Table 4 and figure 3 of Hosogi et al. 2013: a PC's workload on a drive with a short and with a long read-ahead.

use std::collections::BTreeMap;

use sakiyomi_drive::Drive;
use sakiyomi_drive::observe::{Chunking, Observation, Summary};
use sakiyomi_drive::replay::{Arrival, Pace, Replay};
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::{Class, Device, Nanos, ReadClass};
use sakiyomi_trace::generate::pc::PcParams;
use sakiyomi_trace::{Fit, TraceError};

use crate::estimate::{Estimate, Results};
use crate::paper::{Effort, Paper};
use crate::task::{Metrics, Task, TaskError, point};

/// A drive whose positioning takes about 12 ms, as the published seeks and idle shares imply, and whose media rate is well
/// above that of the computers' drives of 2006: only then does a long read-ahead leave the disk idle for longer.
const DRIVE: &str = "scorpio-wd10tpvx";
/// The two settings of the experiment: name, and the size of the read-ahead.
const READ_AHEADS: [(&str, &str); 2] = [("short", "64KiB"), ("long", "384KiB")];
/// Chunks of figure 3.
const CHUNK: Chunking = Chunking::Time(Nanos::SECOND);
/// Commands of the run whose misses are compared with its hits (section 2).
const MISS_RUN_COMMANDS: u64 = 4_762;
/// The time that the benchmark computes between commands, in all: calibrated to the idle share with the short read-ahead.
const THINK_TOTAL: Nanos = Nanos(82 * Nanos::SECOND.0);
/// Mean time that it computes between the commands of a burst; assumed.
const THINK_IN_BURST: Nanos = Nanos(1_500_000);
/// Shares of sequential and of skipping reads: calibrated to the two hit rates.
const SEQUENTIAL_RATIO: f64 = 0.53;
const SKIP_RATIO: f64 = 0.295;
/// Requests that the host queues; more than the workload has.
const HOST_QUEUE: usize = 1 << 20;
const SEEDS_QUICK: u64 = 5;
const SEEDS_FULL: u64 = 50;

/// A PC's workload on a drive.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) seed: u64,
    params: PcParams,
    read_ahead: &'static str,
}

pub(crate) fn tasks(effort: Effort) -> Vec<Task> {
    let seeds = if effort == Effort::Full { SEEDS_FULL } else { SEEDS_QUICK };
    let params = PcParams {
        duration: THINK_TOTAL,
        command_gap: THINK_IN_BURST,
        sequential: SEQUENTIAL_RATIO,
        skip: SKIP_RATIO,
        ..PcParams::default()
    };
    let part = MISS_RUN_COMMANDS as f64 / params.commands as f64;
    let shorter = PcParams {
        commands: MISS_RUN_COMMANDS,
        duration: Nanos::from_secs_f64(params.duration.as_secs_f64() * part),
        ..params.clone()
    };
    let runs = [("run", params), ("misses", shorter)];
    let all = runs.iter().flat_map(|(run, params)| READ_AHEADS.map(|setting| (*run, params, setting)));
    let tasks = all.flat_map(|(run, params, (name, read_ahead))| {
        let point = point(Paper::Hitachi2013, run, [name]);
        (1..=seeds)
            .map(move |seed| Task::cache(&point, Workload { seed, params: params.clone(), read_ahead }))
    });
    tasks.collect()
}

pub(crate) fn estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let mut estimates = BTreeMap::new();
    let mut add = |id: String, estimate: Option<Estimate>| {
        estimates.extend(estimate.map(|estimate| (id, estimate)));
    };
    let [short, long] = READ_AHEADS.map(|(name, _)| point(Paper::Hitachi2013, "run", [name]));
    for (name, point) in [("short", &short), ("long", &long)] {
        for (id, metric) in [
            ("hit", "hit_percent"),
            ("seeks", "seeks"),
            ("idle", "idle_percent"),
            ("mean", "response_mean_ms"),
        ] {
            add(format!("{name}.{id}"), results.estimate(point, metric));
        }
    }
    add("commands".to_owned(), results.estimate(&short, "commands"));
    let change =
        |metric: &str| results.combined([(&long, metric), (&short, metric)], |[long, short]| long - short);
    add("worst.change".to_owned(), change("response_max_ms"));
    add("full_hits.change".to_owned(), change("full_hits"));
    let misses = point(Paper::Hitachi2013, "misses", ["long"]);
    add("miss.worst".to_owned(), results.estimate(&misses, "miss_over_hit"));
    add("spread.all".to_owned(), results.estimate(&misses, "decades"));
    add("spread.misses".to_owned(), results.estimate(&misses, "miss_decades"));
    estimates
}

impl Workload {
    pub(crate) fn run(&self) -> Result<Metrics, TaskError> {
        let mut spec = builtin(DRIVE)?.spec();
        for key in ["cache.read_ahead.min", "cache.read_ahead.max"] {
            spec.set(key, self.read_ahead)?;
        }
        let mut drive = Drive::new(&spec)?;
        let fit = Fit { sector: drive.sector(), capacity: drive.capacity(), wrap: false };
        let mut records = self.params.records(self.seed)?.peekable();
        // The benchmark waits for each command before it thinks about the next one.
        let arrivals = std::iter::from_fn(|| {
            let record = records.next()?;
            let next = records.peek().map_or(record.time, |next| next.time);
            Some((record, next.saturating_sub(record.time)))
        });
        let arrivals = arrivals.map(|(record, think)| {
            Ok(Arrival {
                at: record.time,
                think,
                stream: record.stream,
                op: record.op,
                fua: record.fua,
                extent: fit.extent(&record, "the workload")?,
            })
        });
        let mut observation = Observation::new(CHUNK, Nanos::ZERO, drive.sector());
        let replay = Replay { pace: Pace::Closed { outstanding: 1 }, host_queue: HOST_QUEUE };
        let host = replay.run::<TraceError>(&mut drive, arrivals, &mut observation)?;
        Ok(metrics(&observation.finish(&drive, host.end)))
    }
}

fn metrics(summary: &Summary) -> Metrics {
    let tally = &summary.tally;
    let all = tally.response(|_| true);
    let hits = tally.response(|class| class == Some(Class::Read(ReadClass::FullHit)));
    let misses = tally.response(|class| {
        matches!(class, Some(Class::Read(ReadClass::NearMiss | ReadClass::PurgedMiss | ReadClass::PureMiss)))
    });
    let ms = |time: Nanos| time.as_secs_f64() * 1e3;
    let decades =
        |times: &sakiyomi_drive::observe::Latency| (ms(times.max()) / ms(times.quantile(0.0))).log10();
    let idle = summary.usage.time.idle.as_secs_f64() / summary.usage.time.total().as_secs_f64();
    let figures = [
        ("commands", tally.counts.commands as f64),
        ("hit_percent", 100.0 * tally.counts.hit_ratio()),
        ("full_hits", tally.counts.of(Class::Read(ReadClass::FullHit)) as f64),
        ("seeks", summary.usage.seeks.total() as f64),
        ("idle_percent", 100.0 * idle),
        ("response_mean_ms", ms(all.mean())),
        ("response_max_ms", ms(all.max())),
        ("miss_over_hit", ms(misses.max()) / ms(hits.max())),
        ("decades", decades(&all)),
        ("miss_decades", decades(&misses)),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
