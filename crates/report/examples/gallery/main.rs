//! Writes pages of each kind, filled with made-up results, for work on the charts:
//!
//! ```text
//! cargo run --example gallery -- DIRECTORY
//! ```
//!
//! The numbers imitate the published experiment: 1,000 s of bursty office work with a short read-ahead (A) and a long
//! one (B), which raises the hit rate, halves the seeks, and worsens the worst response.

#[path = "../../tests/it/sample/run.rs"]
mod followed;
#[path = "../../tests/it/sample/live.rs"]
mod live;
/// The tests' sample, which is plausible enough to be looked at.
#[path = "../../tests/it/sample/probe.rs"]
mod probe;
#[path = "../../tests/it/sample/query.rs"]
mod query;
#[path = "../../tests/it/sample/stream.rs"]
mod stream;

use std::path::PathBuf;

use sakiyomi_report::result::*;
use sakiyomi_report::{Comparison, Reported, html, markdown, result};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn main() -> std::io::Result<()> {
    let gallery =
        Gallery { directory: PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into())) };
    std::fs::create_dir_all(&gallery.directory)?;
    let short = Document::new(run(), simulate("64KiB", 0.39, 9 * MS, 180 * MS));
    let long = Document::new(run(), simulate("1MiB", 0.72, 14 * MS, 420 * MS));
    gallery.write("sim", &long)?;
    gallery.write("compare", &Comparison { a: &short, b: &long })?;
    gallery.write("sweep", &Document::new(run(), explore()))?;
    gallery.write("validate", &Document::new(run(), validate()))?;
    let files = (0..400).map(|index| format!(" /data/photographs/{index:04}.tar"));
    let command = format!("sakiyomi run -- gzip -3{}", files.collect::<String>());
    gallery.write("run", &Document::new(measured(&command), followed::followed().result))?;
    gallery.write("probe", &Document::new(measured("sakiyomi probe /data"), probe::result()))?;
    let command = "sakiyomi sort lineitem.parquet --by l_partkey,l_suppkey:desc -o sorted.parquet";
    gallery.write("query", &Document::new(measured(command), query::sorted().result))?;
    let command =
        "sakiyomi aggregate lineitem.parquet --by l_returnflag --sum l_quantity --avg l_discount --count";
    gallery.write("aggregate", &Document::new(measured(command), query::aggregated().result))?;
    let command = "sakiyomi mount files /mnt/disk --drive deskstar-7k250 --regulate --out mounted";
    gallery.write("mount", &Document::new(measured(command), live::mount()))?;
    gallery.write("serve", &Document::new(measured("sakiyomi serve disk.img"), live::serve()))?;
    gallery.write("stream", &Document::new(measured("sakiyomi stream run alerts.toml"), stream::run()))?;
    gallery.write(
        "stream-plan",
        &Document::new(measured("sakiyomi stream plan alerts.toml --rate 1.2M"), stream::plan()),
    )?;
    gallery
        .write("stream-shortfall", &Document::new(measured("sakiyomi stream plan"), stream::shortfall()))?;
    gallery
        .write("stream-topology", &Document::new(measured("sakiyomi stream topology"), stream::topology()))?;
    gallery.write("stream-sim", &Document::new(measured("sakiyomi stream sim"), stream::simulated()))?;
    gallery.write("top", &Document::new(measured("sakiyomi iorate top /mnt/disk --out watched"), live::top()))
}

struct Gallery {
    directory: PathBuf,
}

impl Gallery {
    /// Writes a page, the same as Markdown, and the charts.
    fn write(&self, name: &str, reported: &impl Reported) -> std::io::Result<()> {
        let (report, charts) = (reported.report(), reported.charts());
        std::fs::write(self.directory.join(format!("{name}.html")), html::render(&report, &charts))?;
        std::fs::write(self.directory.join(format!("{name}.md")), markdown::render(&report, &charts))?;
        charts.iter().try_for_each(|chart| {
            std::fs::write(self.directory.join(format!("{}.svg", chart.name)), &chart.svg)
        })
    }
}

/// Returns the circumstances of a run that simulates nothing.
fn measured(command: &str) -> Run {
    let command = command.split(' ').map(str::to_owned).collect();
    Run { command, wall_ns: Some(4_760 * MS), commands_per_s: None, simulated_per_wall_ratio: None, ..run() }
}

/// A small generator (xorshift), so that the pages are always the same.
struct Dice(u64);

impl Dice {
    /// Returns a number from 0 up to 1, exclusive.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a value around `mean`, with a long tail.
    fn spread(&mut self, mean: u64) -> u64 {
        (-self.share().max(1e-9).ln() * mean as f64) as u64
    }
}

fn run() -> Run {
    Run {
        command: ["sakiyomi", "sim", "office.csv"].map(str::to_owned).to_vec(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: Some("1a2b3c4d5e".to_owned()),
        wall_ns: Some(7_700 * MS),
        machine: Machine {
            kernel: "Linux 6.18".to_owned(),
            cpu: "Example CPU".to_owned(),
            cores: 4,
            memory_bytes: 16 << 30,
        },
        commands_per_s: Some(1_494.0),
        simulated_per_wall_ratio: Some(130.0),
    }
}

fn simulate(read_ahead: &str, hit_share: f64, miss_ns: u64, worst_ns: u64) -> SimResult {
    let mut dice = Dice(0x5EED);
    let chunks: Vec<ChunkPoint> =
        (0..1000).map(|second| chunk(second, &mut dice, hit_share, miss_ns, worst_ns)).collect();
    let sum = |of: fn(&ChunkPoint) -> u64| chunks.iter().map(of).sum::<u64>();
    let read_counts = ReadCounts {
        full_hits: sum(|chunk| chunk.read_counts.full_hits),
        active_hits: sum(|chunk| chunk.read_counts.active_hits),
        near_misses: sum(|chunk| chunk.read_counts.near_misses),
        purged_misses: sum(|chunk| chunk.read_counts.purged_misses),
        pure_misses: sum(|chunk| chunk.read_counts.pure_misses),
    };
    let (reads, writes) = (sum(|chunk| chunk.reads), sum(|chunk| chunk.writes));
    let hit_ratio = (read_counts.full_hits + read_counts.active_hits) as f64 / reads as f64;
    let response_ns = spread(((1.0 - hit_ratio) * miss_ns as f64) as u64, worst_ns);
    let half = |spread: Spread| Spread { mean: spread.mean / 2, p50: spread.p50 / 2, ..spread };
    SimResult {
        trace: "office.csv".to_owned(),
        drive: "desktop-500gb".to_owned(),
        settings: vec!["cache.segments=16".to_owned(), format!("cache.read_ahead.max={read_ahead}")],
        warm_up_ns: 10 * SECOND,
        commands: reads + writes,
        reads,
        writes,
        hit_ratio,
        read_counts,
        writes_absorbed: writes * 99 / 100,
        writes_media: writes - writes * 99 / 100,
        read_bytes: reads * 38_000,
        written_bytes: writes * 22_000,
        seeks: Seeks {
            read: sum(|chunk| chunk.seeks.read),
            read_near_miss: sum(|chunk| chunk.seeks.read_near_miss),
            write: sum(|chunk| chunk.seeks.write),
        },
        response_ns,
        read_response_ns: response_ns,
        write_response_ns: half(response_ns),
        device_ns: half(response_ns),
        host_queue: HostQueue {
            wait_mean_ns: 40_000,
            wait_max_ns: worst_ns / 3,
            backlog_max: 24,
            held_back: 0,
        },
        disk_time_ns: DiskTime {
            idle: sum(|chunk| chunk.disk_time_ns.idle),
            read_seek: sum(|chunk| chunk.disk_time_ns.read_seek),
            read_data: sum(|chunk| chunk.disk_time_ns.read_data),
            write_seek: sum(|chunk| chunk.disk_time_ns.write_seek),
            write_data: sum(|chunk| chunk.disk_time_ns.write_data),
        },
        simulated_ns: 1000 * SECOND,
        breakdown_mean_ns: breakdowns(&read_counts, writes, miss_ns),
        chunking: Chunking { mode: result::ChunkMode::Time, size: SECOND, chunks_per_point: 1 },
        response_curve: curve(hit_ratio, miss_ns, worst_ns),
        response_histogram: histogram(&read_counts, writes, miss_ns),
        chunks,
        ..SimResult::default()
    }
}

fn spread(mean: u64, max: u64) -> Spread {
    Spread { mean, p50: 240_000, p90: mean * 3, p99: mean * 8, p999: max * 2 / 3, max }
}

/// Returns one second of a run: usually few commands, many in bursts, sometimes none.
fn chunk(second: u64, dice: &mut Dice, hit_share: f64, miss_ns: u64, worst_ns: u64) -> ChunkPoint {
    let burst = second % 230 < 45;
    let busy = if burst { 34.0 } else { 5.0 };
    let reads = if dice.share() < 0.15 && !burst { 0 } else { dice.spread(busy as u64) };
    let writes = dice.spread(if burst { 9 } else { 2 });
    let hits = (reads as f64 * (hit_share + (dice.share() - 0.5) * 0.4).clamp(0.0, 1.0)) as u64;
    let active_hits = hits / 12;
    let misses = reads - hits;
    let near_misses = (misses as f64 * if hit_share < 0.5 { 0.8 } else { 0.45 }) as u64;
    let purged_misses = (misses - near_misses) / 4;
    let read_seek = (misses * miss_ns / 2).min(600 * MS);
    let write_seek = (writes / 2 * 8 * MS).min(200 * MS);
    let (read_data, write_data) = (read_seek / 5, write_seek / 8);
    let mean = 200_000 + misses * miss_ns / reads.max(1) + dice.spread(MS / 2);
    let max = (mean * 2 + dice.spread(if burst { worst_ns / 7 } else { miss_ns })).min(worst_ns);
    ChunkPoint {
        start_ns: (second + 10) * SECOND,
        end_ns: (second + 11) * SECOND,
        commands: reads + writes,
        reads,
        writes,
        read_counts: ReadCounts {
            full_hits: hits - active_hits,
            active_hits,
            near_misses,
            purged_misses,
            pure_misses: misses - near_misses - purged_misses,
        },
        seeks: Seeks { read: misses - near_misses, read_near_miss: near_misses, write: writes / 2 },
        response_ns: ResponseSummary { mean, p99: max - (max - mean) / 4, max },
        disk_time_ns: DiskTime {
            idle: SECOND - read_seek - read_data - write_seek - write_data,
            read_seek,
            read_data,
            write_seek,
            write_data,
        },
        backlog_max: if burst { dice.spread(4) } else { 0 },
    }
}

fn breakdowns(counts: &ReadCounts, writes: u64, miss_ns: u64) -> Vec<ClassBreakdown> {
    let row = |class: &str, commands, queue, mechanics: u64| ClassBreakdown {
        class: class.to_owned(),
        commands,
        queue,
        overhead: 180_000,
        seek: mechanics * 45 / 100,
        rotation: mechanics * 40 / 100,
        transfer: mechanics * 15 / 100,
    };
    vec![
        row("full_hit", counts.full_hits, 30_000, 0),
        row("active_hit", counts.active_hits, 300_000, MS),
        row("near_miss", counts.near_misses, miss_ns / 5, miss_ns * 3 / 4),
        row("purged_miss", counts.purged_misses, miss_ns / 4, miss_ns),
        row("pure_miss", counts.pure_misses, miss_ns / 3, miss_ns),
        row("write_absorbed", writes * 99 / 100, 90_000, 0),
        row("write_media", writes / 100, 2 * MS, miss_ns * 5 / 4),
    ]
}

/// Returns a response curve: hits below, misses above, and a tail.
fn curve(hit_ratio: f64, miss_ns: u64, worst_ns: u64) -> Vec<CurvePoint> {
    let response = |share: f64| {
        if share < hit_ratio {
            return 120_000.0 + 160_000.0 * (share / hit_ratio).powi(3);
        }
        let miss = (share - hit_ratio) / (1.0 - hit_ratio);
        miss_ns as f64 * (0.25 + 1.2 * miss) + worst_ns as f64 * miss.powi(40)
    };
    (0..=1000)
        .map(|step| f64::from(step) / 1000.0)
        .map(|share| CurvePoint { share_ratio: share, response_ns: response(share) as u64 })
        .collect()
}

/// Returns ten bins a decade from 10 µs to 1 s.
fn histogram(counts: &ReadCounts, writes: u64, miss_ns: u64) -> Vec<HistogramBin> {
    let edge = |bin: i32| 10f64.powf(4.0 + f64::from(bin) / 10.0);
    let hump = |bin: i32, middle: f64, width: f64, all: u64| {
        let distance = (edge(bin) / middle).log10() / width;
        ((-distance * distance).exp() * all as f64 * 0.1 / (width * std::f64::consts::PI.sqrt())) as u64
    };
    let miss = miss_ns as f64;
    let bin = |bin| HistogramBin {
        from_ns: edge(bin) as u64,
        to_ns: edge(bin + 1) as u64,
        read_counts: ReadCounts {
            full_hits: hump(bin, 2e5, 0.15, counts.full_hits),
            active_hits: hump(bin, 9e5, 0.3, counts.active_hits),
            near_misses: hump(bin, miss * 0.8, 0.2, counts.near_misses),
            purged_misses: hump(bin, miss, 0.25, counts.purged_misses),
            pure_misses: hump(bin, miss * 1.3, 0.3, counts.pure_misses),
        },
        writes: hump(bin, 3e5, 0.12, writes),
    };
    (0..50).map(bin).collect()
}

fn explore() -> SweepResult {
    let mut dice = Dice(7);
    let mut result = SweepResult {
        trace: "office.csv".to_owned(),
        drive: "desktop-500gb".to_owned(),
        settings: Vec::new(),
        varied: vec!["cache.read_ahead.max".to_owned(), "cache.replacement".to_owned()],
        points: Vec::new(),
    };
    for (step, read_ahead) in
        ["32KiB", "64KiB", "128KiB", "256KiB", "512KiB", "1MiB", "2MiB"].iter().enumerate()
    {
        for (replacement, bonus) in [("lru", 0.03), ("fifo", 0.0), ("segmented", 0.045)] {
            let hit_ratio = 0.3 + 0.45 * (1.0 - 0.6f64.powi(step as i32)) + bonus + dice.share() * 0.02;
            let mean = (9e6 * (1.0 - hit_ratio) * (1.0 + dice.share() * 0.1)) as u64;
            result.points.push(SweepPoint {
                values: vec![(*read_ahead).to_owned(), replacement.to_owned()],
                hit_ratio,
                response_mean_ns: mean,
                response_p99_ns: mean * 9,
                response_max_ns: (120e6 * (1.0 + step as f64 * 0.4 + dice.share())) as u64,
                seeks: (11_500.0 * (1.0 - hit_ratio)) as u64,
                idle_ratio: 0.4 + hit_ratio * 0.4,
                same_drive_as_point: (*read_ahead == "2MiB").then(|| result.points.len() as u64 - 3),
                limits: if *read_ahead == "2MiB" { vec![limit()] } else { Vec::new() },
                ..SweepPoint::default()
            });
        }
    }
    result.mark_undominated();
    result
}

fn limit() -> SweepLimit {
    SweepLimit {
        key: "cache.read_ahead.max".to_owned(),
        value: "2MiB".to_owned(),
        acts_as: Some("1MiB".to_owned()),
        limited_by: vec!["cache.size".to_owned(), "cache.segments.count".to_owned()],
    }
}

/// Returns a validation whose hits are predicted well, and whose misses are simulated somewhat too slow.
fn validate() -> ValidateResult {
    let time = |share: f64, slow: f64| {
        let hit = 300_000.0 + 200_000.0 * share;
        let miss = 9e6 * slow * ((share - 0.4) / 0.6).max(0.0).powf(0.7) + 6e6 * share.powi(60);
        (hit + miss) as u64
    };
    let mean = |slow| (0..1000).map(|step| time(f64::from(step) / 1000.0, slow)).sum::<u64>() / 1000;
    let times = |slow| Spread {
        mean: mean(slow),
        p50: time(0.5, slow),
        p90: time(0.9, slow),
        p99: time(0.99, slow),
        p999: time(0.999, slow),
        max: time(1.0, slow),
    };
    let error = |scale: u64| RequestError {
        median: 15 * scale,
        mean: 40 * scale,
        p90: 120 * scale,
        bias: 10 * scale as i64,
    };
    let kind = |kind, requests, scale| KindError {
        kind,
        requests,
        measured_mean_ns: mean(1.0),
        simulated_mean_ns: mean(1.0) + 10 * scale,
        request_error_ns: error(scale),
        correlation: Some(0.93),
    };
    let accuracy = |slow: f64, scale: u64| Accuracy {
        simulated_response_ns: times(slow),
        rms_ns: 30 * scale,
        rms_ratio: 30.0 * scale as f64 / mean(1.0) as f64,
        binned_rms_ns: 31 * scale,
        request_error_ns: error(scale),
        correlation: Some(0.91),
        kinds: vec![
            kind(Kind::Reads, 6600, scale),
            kind(Kind::Writes, 3400, scale),
            kind(Kind::Hits, 2600, scale / 6),
            kind(Kind::Misses, 4000, scale * 2),
        ],
    };
    let labels = LabelAgreement {
        agreement_ratio: 0.97,
        hits_as_hits: 2500,
        hits_as_misses: 90,
        misses_as_hits: 100,
        misses_as_misses: 3910,
        hit_error_ns: error(500),
        miss_error_ns: error(6000),
    };
    let point = |share_ratio| QuantilePoint {
        share_ratio,
        measured_ns: time(share_ratio, 1.0),
        free_ns: time(share_ratio, 1.08),
        anchored_ns: time(share_ratio, 1.03),
    };
    let hump = |bin: i64, width: f64| (1800.0 * (-(bin as f64 / width).powi(2)).exp() / width) as u64;
    let bin = |bin| ErrorBin {
        from_ns: bin * 100_000,
        to_ns: (bin + 1) * 100_000,
        free: hump(bin, 22.0),
        anchored: hump(bin, 2.0) + hump(bin - 55, 3.0) / 9,
    };
    ValidateResult {
        trace: "measured.trace.gz".to_owned(),
        drive: "desktop-500gb".to_owned(),
        replay: vec!["closed loop".to_owned()],
        requests: 10_000,
        judged: 10_000,
        measured_response_ns: times(1.0),
        free: accuracy(1.08, 12_000),
        anchored: accuracy(1.03, 4_000),
        labels: Some(Labels {
            hits: 2590,
            misses: 4010,
            baseline_agreement_ratio: 0.91,
            free: labels,
            anchored: labels,
        }),
        quantile_curve: (0..=1000).map(|step| point(f64::from(step) / 1000.0)).collect(),
        error_histogram: (-60..60).map(bin).collect(),
        ..ValidateResult::default()
    }
}
