//! A made-up pipeline for the tests and the gallery: its run, its plan, and the topology.

use sakiyomi_report::result::*;

const SECOND: u64 = 1_000_000_000;
const WINDOW_NS: u64 = SECOND / 10;

/// Returns half a minute, with a step of the rate that brings a second core into use.
pub(crate) fn run() -> StreamRunResult {
    let windows: Vec<StreamWindow> = (0..300).map(window).collect();
    let records = windows.iter().map(|window| window.records).sum();
    let operator = |name: &str, cpu, records_in, records_out, busy_ms: u64| StreamOperator {
        name: name.to_owned(),
        cpu: Some(cpu),
        replicas: None,
        records_in,
        records_out,
        failed: 0,
        late: 0,
        busy_ns: busy_ms * 1_000_000,
        ring_max: if cpu == 1 { 37 } else { 0 },
    };
    let change = |at_ns: u64, reason: &str, rate_per_s, cores| StreamChange {
        at_ns,
        reason: reason.to_owned(),
        rate_per_s: Some(rate_per_s),
        cores: Some(cores),
        moves: 1,
        duration_ns: 41_000,
    };
    StreamRunResult {
        pipeline: "alerts.toml".to_owned(),
        elapsed_ns: 30 * SECOND,
        user_ns: 21 * SECOND,
        system_ns: SECOND,
        cores: 2,
        sources: vec![StreamSource {
            name: "log".to_owned(),
            records: 10 * records,
            bad: 3,
            first_bad: Some("at byte 1207: 5 fields instead of 7".to_owned()),
            late: 12,
            shed: 0,
        }],
        operators: vec![
            operator("source.log", 0, 10 * records, 10 * records, 9_000),
            operator("errors", 1, 10 * records, records, 4_000),
            operator("sink.alerts", 1, records, 0, 700),
        ],
        sinks: vec![StreamSink {
            name: "sink.alerts".to_owned(),
            records,
            mean_ns: 5_100,
            p50_ns: 3_900,
            p99_ns: 41_000,
            p99_9_ns: 380_000,
            max_ns: 4_100_000,
            windows,
        }],
        changes: vec![
            change(30_000_000, "first figures", 20_000.0, 1),
            change(10 * SECOND + 60_000_000, "higher rate", 400_000.0, 2),
            change(20 * SECOND + 700_000_000, "lower rate", 20_000.0, 1),
        ],
        failures: Vec::new(),
        snapshots: Some(StreamSnapshots {
            file: "alerts.snapshot".to_owned(),
            is_left: true,
            resumed_from: Some(41),
            taken: 4,
            failed: 1,
            last: 45,
            last_bytes: 81_408,
            max_bytes: 92_160,
            alignment_ns: 210_000,
            alignment_max_ns: 1_900_000,
            write_ns: 7_100_000,
            write_max_ns: 31_000_000,
        }),
        notes: vec![
            "source.log: what was read from standard input and not yet written is lost in a crash".to_owned(),
        ],
    }
}

fn window(index: u64) -> StreamWindow {
    let is_high = (100..200).contains(&index);
    let p50_ns = if is_high { 3_900 } else { 2_100 } + index % 7 * 90;
    StreamWindow {
        start_ns: index * WINDOW_NS,
        end_ns: (index + 1) * WINDOW_NS,
        records: if is_high { 4_000 } else { 200 } + index % 13,
        p50_ns,
        p99_ns: p50_ns * if index.is_multiple_of(50) { 90 } else { 8 },
        max_ns: p50_ns * 120,
    }
}

/// Returns two groups on two cores.
pub(crate) fn plan() -> StreamPlanResult {
    let group = |operators: &[&str], cpu, utilization_ratio| StreamGroup {
        operators: operators.iter().map(|&name| name.to_owned()).collect(),
        cpus: vec![cpu],
        utilization_ratio,
    };
    let rate = |to_per_s, cores, groups: &str, latency_ns| StreamRate {
        to_per_s,
        cores,
        groups: groups.to_owned(),
        latency_ns,
    };
    StreamPlanResult {
        pipeline: "alerts.toml".to_owned(),
        rate_per_s: 1.2e6,
        cores: 2,
        utilization_max_ratio: 0.85,
        groups: vec![group(&["source.log"], 0, 0.61), group(&["errors", "sink.alerts"], 1, 0.28)],
        latency_ns: Some(1_310.0),
        is_exact: true,
        shortfall: None,
        rates: vec![
            rate(9.1e5, 1, "source.log+errors+sink.alerts", 3_100.0),
            rate(1.63e6, 2, "source.log | errors+sink.alerts", 2_700.0),
        ],
    }
}

/// Returns a rate that is too high.
pub(crate) fn shortfall() -> StreamPlanResult {
    let cut = StreamCut {
        stays: vec!["source.log".to_owned(), "errors".to_owned()],
        goes: vec!["paths".to_owned(), "sink.out".to_owned()],
        records_per_s: 2.0e5,
        bytes_per_s: 6.4e6,
    };
    let shortfall =
        StreamShortfall { held_per_s: 1.63e6, limit: "More cores would help.".to_owned(), cut: Some(cut) };
    StreamPlanResult {
        rate_per_s: 2e6,
        groups: Vec::new(),
        latency_ns: None,
        shortfall: Some(shortfall),
        ..plan()
    }
}

/// Returns six numbers of cores, the smallest of which overflow.
pub(crate) fn simulated() -> StreamSimResult {
    let point = |cores: u64, mean_ns: f64, shed_ratio| StreamSimPoint {
        cores,
        groups: "source.log+errors | sink.alerts".to_owned(),
        model_ns: (shed_ratio == 0.0).then_some(mean_ns * 0.99),
        mean_ns,
        p50_ns: (mean_ns * 0.8) as u64,
        p99_ns: (mean_ns * 5.0) as u64,
        p99_9_ns: (mean_ns * 11.0) as u64,
        max_ns: (mean_ns * 40.0) as u64,
        shed_ratio,
        utilization_max_ratio: 1.6 / (cores as f64 + 0.6),
        hops: cores as f64 - 1.0,
        cpu_ns: 900_000_000 * cores,
        ring_max: 1024 / (cores * cores),
    };
    StreamSimResult {
        pipeline: "alerts.toml".to_owned(),
        rate_per_s: 4.5e5,
        simulated_ns: SECOND / 2,
        seed: 1,
        domains: 2,
        cores: 6,
        chosen_cores: Some(4),
        points: vec![
            point(1, 1.9e6, 0.51),
            point(2, 2.1e6, 0.09),
            point(3, 8_600.0, 0.0),
            point(4, 5_890.0, 0.0),
            point(5, 5_680.0, 0.0),
            point(6, 5_780.0, 0.0),
        ],
    }
}

/// Returns two cache domains of two cores.
pub(crate) fn topology() -> StreamTopologyResult {
    let hop = |distance: &str, line_ns: f64| StreamHop {
        distance: distance.to_owned(),
        is_measured: true,
        send_ns: line_ns / 2.0 + 5.5,
        transit_ns: 0.0,
        receive_ns: line_ns / 2.0 + 5.5,
        wake_ns: 21_000.0,
        waker_ns: 8_400.0,
    };
    StreamTopologyResult {
        cores: (0..4).map(|core| StreamCore { core, cpu: core, domain: core / 2 }).collect(),
        hops: vec![hop("near", 58.0), hop("far", 143.0)],
    }
}
