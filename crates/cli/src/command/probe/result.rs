//! The result document of measured cases.

use sakiyomi_io::EngineKind;
use sakiyomi_io::buffer::Granted;
use sakiyomi_io::read::Grant;
use sakiyomi_probe::campaign::Campaign;
use sakiyomi_probe::case::{Case, choice};
use sakiyomi_probe::setting::{CacheState, Operation};
use sakiyomi_probe::target::Target;
use sakiyomi_probe::verdict::Verdict;
use sakiyomi_report::result::{
    ProbeCase, ProbeChoice, ProbeLatency, ProbeRange, ProbeResult, ProbeTarget, ProbeVerdict,
};

use crate::provenance::nanos;

/// A target and its measurements.
pub(crate) struct Probed {
    pub(crate) target: Target,
    pub(crate) cases: Vec<Case>,
    pub(crate) notes: Vec<String>,
}

/// Returns the result of all targets.
pub(crate) fn result(probed: &[Probed], campaign: &Campaign) -> ProbeResult {
    let mut result = ProbeResult {
        run_ns: nanos(campaign.period),
        repetitions: campaign.rounds,
        ..ProbeResult::default()
    };
    for Probed { target, cases, notes } in probed {
        let first = result.cases.len();
        result.choices.extend(choices(target, cases, first));
        result.cases.extend(cases.iter().map(|case| probe_case(target, case)));
        result.notes.extend_from_slice(notes);
        let (name, what) = (target.name.to_owned(), target.what.clone());
        result.targets.push(ProbeTarget { name, what, size_bytes: target.size });
    }
    result
}

/// Returns the recommended cases for each kind of access, in the order of the cases.
fn choices(target: &Target, cases: &[Case], first: usize) -> Vec<ProbeChoice> {
    let way = |case: &Case| (case.setting.op, case.setting.cache, case.setting.random);
    let mut ways: Vec<(Operation, CacheState, bool)> = Vec::new();
    for case in cases {
        if !ways.contains(&way(case)) {
            ways.push(way(case));
        }
    }
    let chosen = ways.into_iter().filter_map(|wanted| {
        let (fastest, cheapest) = choice(cases, |case| way(case) == wanted)?;
        let (op, cache, random) = wanted;
        Some(ProbeChoice {
            target: target.name.to_owned(),
            op: op.to_string(),
            direct: cache == CacheState::Direct,
            cached: cache == CacheState::Cached,
            random,
            fastest: (first + fastest) as u64,
            cheapest: (first + cheapest) as u64,
        })
    });
    chosen.collect()
}

fn probe_case(target: &Target, case: &Case) -> ProbeCase {
    let setting = case.setting;
    ProbeCase {
        target: target.name.to_owned(),
        method: setting.engine.kind.name().to_owned(),
        op: setting.op.to_string(),
        block_bytes: setting.block as u64,
        depth: setting.engine.depth as u64,
        direct: setting.cache == CacheState::Direct,
        cached: setting.cache == CacheState::Cached,
        random: setting.random,
        buffers: buffers(setting.engine.kind, case.grant),
        throughput_bytes_per_s: case.throughput,
        throughput_range_bytes_per_s: ProbeRange { min: case.throughput_min, max: case.throughput_max },
        user_ratio: case.user,
        system_ratio: case.system,
        kernel_threads_ratio: case.kernel_threads,
        cpu_ns_per_byte: case.cpu_ns_per_byte,
        kernel_threads_cpu_ns_per_byte: case.kernel_threads_cpu_ns_per_byte,
        machine_cpu_ratio: case.machine,
        busiest_thread_ratio: case.busiest_thread.share,
        busiest_thread: case.busiest_thread.name.clone(),
        latency_ns: case.latency.map(latency),
        write_latency_ns: case.write_latency.map(latency),
        double_depth_gain_ratio: case.double_depth_gain,
        better_buffers_gain_ratio: case.better_buffers_gain,
        verdict: verdict(case.judgment.verdict),
        reason: case.judgment.reason.clone(),
    }
}

fn latency((p50, p99): (u64, u64)) -> ProbeLatency {
    ProbeLatency { p50, p99 }
}

fn verdict(verdict: Verdict) -> ProbeVerdict {
    match verdict {
        Verdict::StorageBound => ProbeVerdict::StorageBound,
        Verdict::CpuBound => ProbeVerdict::CpuBound,
        Verdict::LatencyBound => ProbeVerdict::LatencyBound,
        Verdict::Undecided => ProbeVerdict::Undecided,
    }
}

/// Describes the memory that was granted; empty for engines without buffers of ours.
fn buffers(kind: EngineKind, grant: Grant) -> String {
    let memory = match grant.memory {
        _ if kind == EngineKind::Null => return String::new(),
        None => return String::new(),
        Some(Granted::Ordinary) => "ordinary",
        Some(granted) => granted.describe(),
    };
    let registered = if grant.registered { ", registered" } else { "" };
    format!("{memory}{registered}")
}
