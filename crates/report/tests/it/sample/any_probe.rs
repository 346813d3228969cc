//! Arbitrary probes, sensible or not.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{number, words};
use sakiyomi_report::result::*;

type Floats = BoxedStrategy<f64>;

fn name(known: &'static [&'static str]) -> BoxedStrategy<String> {
    prop_oneof![proptest::sample::select(known).prop_map(str::to_owned), words()].boxed()
}

fn any_case(float: &Floats) -> BoxedStrategy<ProbeCase> {
    let names = (
        name(&["path", "tmpfs"]),
        name(&["read", "pread", "uring", "mmap", "null"]),
        name(&["ordinary", "huge pages"]),
        words(),
        name(&["read", "write", "mix:70"]),
    );
    let verdict = proptest::sample::select(&[
        ProbeVerdict::StorageBound,
        ProbeVerdict::CpuBound,
        ProbeVerdict::LatencyBound,
        ProbeVerdict::Undecided,
    ]);
    let gains = [proptest::option::of(float.clone()), proptest::option::of(float.clone())];
    (
        names,
        [number(), number(), number(), number()],
        vec(float.clone(), 10),
        any::<[bool; 4]>(),
        verdict,
        gains,
    )
        .prop_map(|(names, counts, floats, flags, verdict, [double_depth, better_buffers])| {
            let [block_bytes, depth, p50, p99] = counts;
            let [direct, cached, random, has_requests] = flags;
            ProbeCase {
                target: names.0,
                method: names.1,
                op: names.4,
                block_bytes,
                depth,
                direct,
                cached,
                random,
                buffers: names.2,
                throughput_bytes_per_s: floats[0],
                throughput_range_bytes_per_s: ProbeRange { min: floats[1], max: floats[2] },
                user_ratio: floats[3],
                system_ratio: floats[4],
                kernel_threads_ratio: floats[5],
                cpu_ns_per_byte: floats[6],
                kernel_threads_cpu_ns_per_byte: floats[9],
                machine_cpu_ratio: floats[7],
                busiest_thread_ratio: floats[8],
                busiest_thread: names.3.clone(),
                latency_ns: has_requests.then_some(ProbeLatency { p50, p99 }),
                write_latency_ns: has_requests.then_some(ProbeLatency { p50: p99, p99: p50 }),
                double_depth_gain_ratio: double_depth,
                better_buffers_gain_ratio: better_buffers,
                verdict,
                reason: names.3,
            }
        })
        .boxed()
}

/// Generates any value that deserializes as a probe.
pub(crate) fn any_probe() -> BoxedStrategy<ProbeResult> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, ZERO};
    probe_of(prop_oneof![0.0..=4.0f64, 1e6..1e10f64, POSITIVE | NEGATIVE | NORMAL | ZERO].boxed())
}

/// Generates the same with floats that JSON cannot represent: infinities and NaN.
pub(crate) fn any_broken_probe() -> BoxedStrategy<ProbeResult> {
    probe_of(prop_oneof![0.0..=4.0f64, 1e6..1e10f64, proptest::num::f64::ANY].boxed())
}

fn probe_of(float: Floats) -> BoxedStrategy<ProbeResult> {
    let target = (name(&["path", "tmpfs"]), words(), number())
        .prop_map(|(name, what, size_bytes)| ProbeTarget { name, what, size_bytes });
    let index = || prop_oneof![0..8u64, number()];
    let op = name(&["read", "write", "mix:70"]);
    let choice = (name(&["path", "tmpfs"]), op, any::<[bool; 3]>(), index(), index()).prop_map(
        |(target, op, [direct, cached, random], fastest, cheapest)| ProbeChoice {
            target,
            op,
            direct,
            cached,
            random,
            fastest,
            cheapest,
        },
    );
    let parts = (vec(target, 0..3), vec(any_case(&float), 0..12), vec(choice, 0..4), vec(words(), 0..3));
    (parts, number(), number())
        .prop_map(|((targets, cases, choices, notes), run_ns, repetitions)| ProbeResult {
            targets,
            run_ns,
            repetitions,
            cases,
            choices,
            notes,
        })
        .boxed()
}
