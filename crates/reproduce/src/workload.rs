//! A PC's workload on a drive with a cache: a benchmark that waits for each command before it computes for the next one.

use sakiyomi_drive::Drive;
use sakiyomi_drive::observe::{Chunking, Latency, Observation, Summary};
use sakiyomi_drive::replay::{Arrival, Pace, Replay};
use sakiyomi_drive::spec::{DriveSpec, SpecError, builtin};
use sakiyomi_model::{Class, Device, Nanos, ReadClass};
use sakiyomi_trace::generate::pc::PcParams;
use sakiyomi_trace::{Fit, TraceError};

use crate::metrics::{Metrics, TaskError};

/// A drive whose positioning takes about 12 ms, as the published seeks and idle shares imply, and whose media rate is well
/// above that of the computers' drives of 2006: only then does a long read-ahead leave the disk idle for longer.
const DRIVE: &str = "scorpio-wd10tpvx";
/// Chunks of figure 3.
const CHUNK: Chunking = Chunking::Time(Nanos::SECOND);
/// Requests that the host queues; more than the workload has.
const HOST_QUEUE: usize = 1 << 20;

/// A PC's workload on a drive.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) seed: u64,
    pub(crate) params: PcParams,
    /// Size of the read-ahead, least and most.
    pub(crate) read_ahead: &'static str,
}

impl Workload {
    pub(crate) fn run(&self) -> Result<Metrics, TaskError> {
        let mut drive = Drive::new(&drive(self.read_ahead)?)?;
        let fit = Fit { sector: drive.sector(), capacity: drive.capacity(), wrap: false };
        let arrivals = self.params.records(self.seed)?.map(|record| {
            Ok(Arrival {
                at: record.time,
                think: record.think.unwrap_or(Nanos::ZERO),
                stream: record.stream,
                op: record.op,
                fua: record.fua,
                extent: fit.extent(&record, "the workload")?,
            })
        });
        let mut observation = Observation::new(CHUNK, Nanos::ZERO, drive.sector());
        let replay = Replay { pace: Pace::Closed { outstanding: 1 }, host_queue: HOST_QUEUE };
        let host = replay.run::<_, TraceError>(&mut drive, arrivals, &mut observation)?;
        let mut metrics = metrics(&observation.finish(&drive, host.end));
        metrics.insert("simulated_s".to_owned(), host.end.as_secs_f64());
        Ok(metrics)
    }
}

/// The drive with a read-ahead of this size.
pub(crate) fn drive(read_ahead: &str) -> Result<DriveSpec, SpecError> {
    let mut spec = builtin(DRIVE)?.spec();
    for key in ["cache.read_ahead.min", "cache.read_ahead.max"] {
        spec.set(key, read_ahead)?;
    }
    Ok(spec)
}

fn metrics(summary: &Summary) -> Metrics {
    let tally = &summary.tally;
    let all = tally.response(|_| true);
    let hits = tally.response(|class| class == Some(Class::Read(ReadClass::FullHit)));
    let misses = tally.response(|class| {
        matches!(class, Some(Class::Read(ReadClass::NearMiss | ReadClass::PurgedMiss | ReadClass::PureMiss)))
    });
    let near = tally.counts.of(Class::Read(ReadClass::NearMiss)) as f64;
    let ms = |time: Nanos| time.as_secs_f64() * 1e3;
    let decades = |times: &Latency| (ms(times.max()) / ms(times.quantile(0.0))).log10();
    let idle = summary.usage.time.idle.as_secs_f64() / summary.usage.time.total().as_secs_f64();
    let figures = [
        ("commands", tally.counts.commands as f64),
        ("hit_percent", 100.0 * tally.counts.hit_ratio()),
        ("full_hits", tally.counts.of(Class::Read(ReadClass::FullHit)) as f64),
        ("near_percent_of_misses", 100.0 * near / misses.count().max(1) as f64),
        ("seeks", summary.usage.seeks.total() as f64),
        ("idle_percent", 100.0 * idle),
        ("response_mean_ms", ms(all.mean())),
        ("response_max_ms", ms(all.max())),
        ("miss_over_hit", ms(misses.max()) / ms(hits.max())),
        ("miss_min_over_hit", ms(misses.quantile(0.0)) / ms(hits.max())),
        ("decades", decades(&all)),
        ("miss_decades", decades(&misses)),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
