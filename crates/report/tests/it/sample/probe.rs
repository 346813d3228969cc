//! A made-up probe: a disk that is fast only into huge pages, a tmpfs that the CPU limits, and a loop device.
//!
//! The gallery shows it too.

use sakiyomi_report::result::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const US: u64 = 1000;

/// The columns of the cases below.
type Row = (&'static str, u64, u64, &'static str, f64, f64, [u64; 2], ProbeVerdict);

const STORAGE: ProbeVerdict = ProbeVerdict::StorageBound;
const CPU: ProbeVerdict = ProbeVerdict::CpuBound;
const LATENCY: ProbeVerdict = ProbeVerdict::LatencyBound;
const UNDECIDED: ProbeVerdict = ProbeVerdict::Undecided;

const ORDINARY: &str = "ordinary";
const HUGE: &str = "huge pages";

/// Engine, depth, block, buffers, GB/s, CPU seconds per GB, latency p50 and p99 in µs, verdict.
const DIRECT: [Row; 14] = [
    ("read", 1, 128 * KIB, HUGE, 0.61, 0.110, [210, 480], LATENCY),
    ("read", 1, MIB, ORDINARY, 0.98, 0.081, [1040, 1700], LATENCY),
    ("read", 1, MIB, HUGE, 2.02, 0.030, [508, 900], LATENCY),
    ("read", 1, 8 * MIB, HUGE, 2.47, 0.021, [3380, 5100], STORAGE),
    ("pread", 4, 128 * KIB, HUGE, 1.94, 0.124, [262, 700], LATENCY),
    ("pread", 4, MIB, HUGE, 2.52, 0.036, [1650, 2900], STORAGE),
    ("pread", 4, 8 * MIB, HUGE, 2.51, 0.024, [13_300, 19_000], STORAGE),
    ("aio", 8, 128 * KIB, HUGE, 2.21, 0.096, [470, 1100], LATENCY),
    ("aio", 8, MIB, HUGE, 2.53, 0.031, [3300, 4600], STORAGE),
    ("uring", 8, 128 * KIB, HUGE, 2.30, 0.088, [450, 1000], LATENCY),
    ("uring", 8, MIB, ORDINARY, 1.03, 0.085, [8100, 9900], LATENCY),
    ("uring", 8, MIB, HUGE, 2.55, 0.028, [3290, 4300], STORAGE),
    ("uring", 8, MIB, "huge pages, registered", 2.54, 0.026, [3290, 4400], STORAGE),
    ("uring-sqpoll", 8, MIB, HUGE, 2.50, 0.414, [3350, 4500], STORAGE),
];
const RANDOM: [Row; 3] = [
    ("read", 1, 4 * KIB, HUGE, 0.041, 0.95, [96, 240], LATENCY),
    ("pread", 16, 4 * KIB, HUGE, 0.46, 1.21, [138, 410], LATENCY),
    ("uring", 32, 4 * KIB, HUGE, 0.71, 0.88, [176, 520], UNDECIDED),
];
const CACHED: [Row; 4] = [
    ("read", 1, MIB, HUGE, 8.9, 0.112, [118, 170], CPU),
    ("mmap", 1, MIB, "", 5.2, 0.192, [0, 0], CPU),
    ("mmap", 4, MIB, "", 9.4, 0.411, [0, 0], CPU),
    ("populate", 1, MIB, "", 7.6, 0.131, [0, 0], CPU),
];
const TMPFS: [Row; 4] = [
    ("read", 1, MIB, HUGE, 9.8, 0.101, [106, 140], CPU),
    ("pread", 4, MIB, HUGE, 13.1, 0.297, [310, 900], CPU),
    ("uring", 8, MIB, HUGE, 9.1, 0.109, [910, 1400], CPU),
    ("mmap", 1, MIB, "", 6.0, 0.166, [0, 0], CPU),
];
const LOOP: [Row; 3] = [
    ("read", 1, MIB, HUGE, 1.42, 0.041, [730, 1500], LATENCY),
    ("uring", 8, MIB, HUGE, 2.31, 0.035, [3600, 6100], CPU),
    ("uring-sqpoll", 8, MIB, HUGE, 2.29, 0.447, [3650, 6400], CPU),
];

pub(crate) fn result() -> ProbeResult {
    let mut result = ProbeResult {
        targets: vec![
            target("path", "test file in /data, ext4 on vda", 4096 * MIB),
            target("tmpfs", "test file in memory", 1024 * MIB),
            target("loop", "loop device over a file in /data", 1024 * MIB),
        ],
        run_ns: 1_000_000 * US,
        repetitions: 5,
        notes: vec![
            "aio was left out on tmpfs, which has no direct access.".to_owned(),
            "Only 3 of 8 GiB of huge pages could be had.".to_owned(),
        ],
        ..ProbeResult::default()
    };
    add(&mut result, "path", (true, false, false), &DIRECT);
    add(&mut result, "path", (true, false, true), &RANDOM);
    add(&mut result, "path", (false, true, false), &CACHED);
    add(&mut result, "tmpfs", (false, true, false), &TMPFS);
    add(&mut result, "loop", (true, false, false), &LOOP);
    let null = ("null", 1, MIB, HUGE, 3300.0, 0.000_29, [0, 1], CPU);
    result.cases.push(ProbeCase { latency_ns: None, ..case("tmpfs", (false, true, false), &null) });
    result
}

fn target(name: &str, what: &str, size_bytes: u64) -> ProbeTarget {
    ProbeTarget { name: name.to_owned(), what: what.to_owned(), size_bytes }
}

/// Adds cases, and the recommended ones among them.
fn add(result: &mut ProbeResult, target: &str, access: (bool, bool, bool), rows: &[Row]) {
    let first = result.cases.len();
    result.cases.extend(rows.iter().map(|row| case(target, access, row)));
    let speed = |index: &usize| result.cases[*index].throughput_bytes_per_s;
    let cpu = |index: &usize| result.cases[*index].cpu_ns_per_byte;
    let all = first..result.cases.len();
    let fastest = all.clone().max_by(|a, b| speed(a).total_cmp(&speed(b))).unwrap_or_default();
    let near = all.filter(|index| speed(index) >= 0.95 * speed(&fastest));
    let cheapest = near.min_by(|a, b| cpu(a).total_cmp(&cpu(b))).unwrap_or_default();
    let (direct, cached, random) = access;
    let (target, fastest, cheapest) = (target.to_owned(), fastest as u64, cheapest as u64);
    let op = "read".to_owned();
    result.choices.push(ProbeChoice { target, op, direct, cached, random, fastest, cheapest });
}

fn case(target: &str, (direct, cached, random): (bool, bool, bool), row: &Row) -> ProbeCase {
    let &(method, depth, block_bytes, buffers, gb_per_s, cpu_ns_per_byte, [p50, p99], verdict) = row;
    let throughput_bytes_per_s = gb_per_s * 1e9;
    let cpu_ratio = gb_per_s * cpu_ns_per_byte;
    let is_on_loop = target == "loop";
    ProbeCase {
        target: target.to_owned(),
        method: method.to_owned(),
        op: "read".to_owned(),
        block_bytes,
        depth,
        direct,
        cached,
        random,
        buffers: buffers.to_owned(),
        throughput_bytes_per_s,
        throughput_range_bytes_per_s: ProbeRange {
            min: throughput_bytes_per_s * 0.96,
            max: throughput_bytes_per_s * 1.02,
        },
        user_ratio: cpu_ratio * 0.07,
        system_ratio: cpu_ratio * 0.93,
        kernel_threads_ratio: if is_on_loop { gb_per_s * 0.36 } else { gb_per_s * 0.01 },
        cpu_ns_per_byte,
        kernel_threads_cpu_ns_per_byte: if is_on_loop { 0.36 } else { 0.01 },
        machine_cpu_ratio: cpu_ratio / 4.0 + 0.02,
        busiest_thread_ratio: if is_on_loop { gb_per_s * 0.36 } else { cpu_ratio.min(0.99) },
        busiest_thread: if is_on_loop { "kworker of loop0" } else { "main thread" }.to_owned(),
        latency_ns: (p50 > 0).then_some(ProbeLatency { p50: p50 * US, p99: p99 * US }),
        write_latency_ns: None,
        double_depth_gain_ratio: Some(if verdict == LATENCY { 0.31 } else { 0.01 }),
        better_buffers_gain_ratio: (buffers == ORDINARY).then_some(1.48),
        verdict,
        reason: reason(verdict, buffers, is_on_loop).to_owned(),
    }
}

fn reason(verdict: ProbeVerdict, buffers: &str, is_on_loop: bool) -> &'static str {
    match verdict {
        STORAGE => {
            "Twice as many requests in flight gain less than 3 %, and no core is busy: the storage is the limit."
        }
        CPU if is_on_loop => {
            "The loop device's one kernel thread is busy: several files or direct I/O beside it would help."
        }
        CPU => {
            "The calling thread keeps its core busy with copying: more threads would help, a faster disk would not."
        }
        LATENCY if buffers == ORDINARY => {
            "Requests into 4 KiB pages are cut into pieces: huge pages gain 148 %."
        }
        LATENCY => "Too little is in flight: twice the depth gains 31 %.",
        UNDECIDED => "Other processes used 30 % of the machine meanwhile.",
    }
}
