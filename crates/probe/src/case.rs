//! Combines the runs of a setting into one case.

use hdrhistogram::Histogram;
use sakiyomi_io::EngineKind;
use sakiyomi_io::read::Grant;

use crate::latency::Latencies;
use crate::measure::Run;
use crate::plan::Plan;
use crate::setting::{Operation, Setting};
use crate::verdict::{Busiest, Evidence, Judgment, judge};

/// A setting and its runs, one for each round.
#[derive(Clone, Debug)]
pub struct Series {
    /// The setting.
    pub setting: Setting,
    /// The runs, by round.
    pub runs: Vec<Run>,
    /// Latencies of the operations of all runs, in one histogram because these are large.
    pub latencies: Latencies,
}

/// One setting with the medians of its runs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The setting.
    pub setting: Setting,
    /// The resources that were granted.
    pub grant: Grant,
    /// Bytes per second: the median run.
    pub throughput: f64,
    /// Bytes per second of the slowest run.
    pub throughput_min: f64,
    /// Bytes per second of the fastest run.
    pub throughput_max: f64,
    /// CPU time of this process in user mode, as a share of one core.
    pub user: f64,
    /// CPU time of this process in the kernel, as a share of one core.
    pub system: f64,
    /// CPU time of kernel threads, as a share of one core.
    pub kernel_threads: f64,
    /// CPU time of this process per byte, in nanoseconds: the same number as seconds per 10^9 bytes.
    pub cpu_ns_per_byte: f64,
    /// CPU time of kernel threads per byte, in nanoseconds: write-back, the block layer, a loop device, and any other
    /// work of the kernel meanwhile.
    pub kernel_threads_cpu_ns_per_byte: f64,
    /// Utilization of all cores by all processes, 0 to 1.
    pub machine: f64,
    /// The busiest thread.
    pub busiest_thread: Busiest,
    /// Median and 99th percentile of the latency in nanoseconds; of a mix, of its reads. `None` for mappings and for
    /// `null`.
    pub latency: Option<(u64, u64)>,
    /// Like `latency`, for the writes of a mix.
    pub write_latency: Option<(u64, u64)>,
    /// Relative gain in throughput with twice the depth (ratio less 1).
    pub double_depth_gain: Option<f64>,
    /// Relative gain in throughput with the best buffers (ratio less 1).
    pub better_buffers_gain: Option<f64>,
    /// The limiting resource, and why.
    pub judgment: Judgment,
}

/// Returns the requested cases, judged with the help of all measurements. Omits settings that could not be run.
#[must_use]
pub fn cases(plan: &Plan, series: &[Series]) -> Vec<Case> {
    let of = |setting: Setting| series.iter().find(|series| series.setting == setting);
    let asked = plan.settings[..plan.asked].iter().filter_map(|&setting| of(setting));
    asked.filter(|series| !series.runs.is_empty()).map(|series| case(series, of)).collect()
}

fn case<'a>(series: &Series, of: impl Fn(Setting) -> Option<&'a Series>) -> Case {
    let (setting, runs) = (series.setting, &series.runs);
    let gain = |control: Option<Setting>| gain(series, of(control?)?);
    let is_mix = matches!(setting.op, Operation::Mix { .. });
    let elapsed = |run: &Run| run.usage.elapsed.as_secs_f64();
    let ratio = |of: fn(&Run) -> f64| median(runs.iter().map(|run| of(run) / elapsed(run)));
    let throughputs = || runs.iter().map(Run::throughput);
    let mut case = Case {
        setting,
        grant: runs[0].grant,
        throughput: median(throughputs()),
        throughput_min: throughputs().fold(f64::INFINITY, f64::min),
        throughput_max: throughputs().fold(0.0, f64::max),
        user: ratio(|run| run.usage.user.as_secs_f64()),
        system: ratio(|run| run.usage.system.as_secs_f64()),
        kernel_threads: ratio(|run| run.usage.kernel_threads.as_secs_f64()),
        cpu_ns_per_byte: median(runs.iter().map(cpu_ns_per_byte)),
        kernel_threads_cpu_ns_per_byte: median(runs.iter().map(kernel_threads_cpu_ns_per_byte)),
        machine: median(runs.iter().map(|run| mean(&run.usage.cores))),
        busiest_thread: busiest_thread(runs),
        latency: latency(series, setting.op == Operation::Write),
        write_latency: if is_mix { latency(series, true) } else { None },
        double_depth_gain: gain(setting.doubled()),
        better_buffers_gain: gain(setting.with_best_buffers()),
        judgment: Judgment::default(),
    };
    let busiest_core = median(runs.iter().map(|run| run.usage.cores.iter().copied().fold(0.0, f64::max)));
    let cores = runs[0].usage.cores.len();
    case.judgment = judge(&evidence(&case, busiest_core, cores));
    case
}

fn evidence(case: &Case, busiest_core: f64, cores: usize) -> Evidence {
    Evidence {
        setting: case.setting,
        thread: case.busiest_thread.clone(),
        core: busiest_core,
        ours: case.user + case.system + case.kernel_threads,
        cores,
        double_depth: case.double_depth_gain,
        better_buffers: case.better_buffers_gain,
    }
}

fn cpu_ns_per_byte(run: &Run) -> f64 {
    (run.usage.user + run.usage.system).as_nanos() as f64 / run.bytes as f64
}

fn kernel_threads_cpu_ns_per_byte(run: &Run) -> f64 {
    run.usage.kernel_threads.as_nanos() as f64 / run.bytes as f64
}

/// Returns the median of the ratios of runs of the same round, less 1.
fn gain(series: &Series, control: &Series) -> Option<f64> {
    let pairs = series.runs.iter().zip(&control.runs);
    let ratios: Vec<f64> =
        pairs.map(|(run, control)| control.throughput() / run.throughput() - 1.0).collect();
    (!ratios.is_empty()).then(|| median(ratios.into_iter()))
}

/// Returns the median share over the runs, and the thread that was the busiest most often.
fn busiest_thread(runs: &[Run]) -> Busiest {
    let busy = || runs.iter().filter_map(|run| Some((run, run.usage.busiest_thread.as_ref()?)));
    let share = median(busy().map(|(run, busy)| busy.wanted.as_secs_f64() / run.usage.elapsed.as_secs_f64()));
    let count = |name: &str| busy().filter(|(_, other)| other.name == name).count();
    let most = busy().map(|(_, busy)| busy).max_by_key(|busy| count(&busy.name));
    let (name, of_kernel) = most.map(|busy| (busy.name.clone(), busy.of_kernel)).unwrap_or_default();
    Busiest { share, name, of_kernel }
}

fn latency(series: &Series, of_writes: bool) -> Option<(u64, u64)> {
    let kind = series.setting.engine.kind;
    if !kind.uses_buffers() || kind == EngineKind::Null {
        return None;
    }
    let all: &Histogram<u64> = if of_writes { &series.latencies.writes } else { &series.latencies.reads };
    (!all.is_empty()).then(|| (all.value_at_quantile(0.5), all.value_at_quantile(0.99)))
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Returns the median; 0 of no values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (middle, count) = (values.len() / 2, values.len());
    match count {
        0 => 0.0,
        _ if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Ratio to the highest throughput from which a case counts as equally fast.
const NEAR_BEST_MIN_RATIO: f64 = 0.95;

/// Returns the indices of the fastest case, and of the nearly as fast one with the least CPU time per byte; excludes
/// `null`, which transfers nothing.
#[must_use]
pub fn choice(cases: &[Case], group: impl Fn(&Case) -> bool) -> Option<(usize, usize)> {
    let real = |case: &&Case| group(case) && case.setting.engine.kind != EngineKind::Null;
    let among = || cases.iter().enumerate().filter(|(_, case)| real(case));
    let (fastest, best) = among().max_by(|(_, a), (_, b)| a.throughput.total_cmp(&b.throughput))?;
    let near = among().filter(|(_, case)| case.throughput >= NEAR_BEST_MIN_RATIO * best.throughput);
    let (cheapest, _) = near.min_by(|(_, a), (_, b)| a.cpu_ns_per_byte.total_cmp(&b.cpu_ns_per_byte))?;
    Some((fastest, cheapest))
}
