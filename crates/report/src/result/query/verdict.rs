//! Sentences about a query: its speed, the limiting resource, and whether it respected its memory limit.

use super::{QueryBound, QueryPhase, QueryResult};
use crate::number::{bytes, count, duration, percent, ratio};
use crate::words::list;

/// Resident memory beyond the limit that the program itself needs: code, stacks, libraries.
const MEMORY_OVERHEAD_MAX_BYTES: u64 = 32 << 20;

/// Share of system CPU time above which the verdict mentions it.
const SYSTEM_HIGH_RATIO: f64 = 0.25;

pub(super) fn sentences(result: &QueryResult) -> Vec<String> {
    let mut sentences = vec![speed(result)];
    sentences.extend(bound(result));
    sentences.extend(spilled(result));
    sentences.extend(kernel(result));
    sentences.extend(memory(result));
    sentences.extend(prediction(result));
    sentences
}

fn speed(result: &QueryResult) -> String {
    let rows = if result.input_rows > 0 { result.input_rows } else { result.output_rows };
    let per_second = |rows: u64| count((rows as f64 / (result.elapsed_ns.max(1) as f64 / 1e9)) as u64);
    let rate = if result.elapsed_ns > 0 && rows > 0 {
        format!(", {} rows per second", per_second(rows))
    } else {
        String::new()
    };
    format!("{} rows in {}{rate}.", count(rows), duration(result.elapsed_ns))
}

/// Describes the phases that each resource limits, the longest first.
fn bound(result: &QueryResult) -> Option<String> {
    let of = |bound: QueryBound| {
        let mut phases: Vec<&QueryPhase> =
            result.phases.iter().filter(|phase| phase.bound == bound && phase.elapsed_ns > 0).collect();
        phases.sort_by_key(|phase| std::cmp::Reverse(phase.elapsed_ns));
        list(&phases.iter().map(|phase| format!("\u{201c}{}\u{201d}", phase.name)).collect::<Vec<_>>())
    };
    let (cpu, io) = (of(QueryBound::Cpu), of(QueryBound::Io));
    match (cpu.is_empty(), io.is_empty()) {
        (true, true) => None,
        (false, true) => Some("Every phase is bound by the CPU.".to_owned()),
        (true, false) => Some("Every phase is bound by I/O.".to_owned()),
        (false, false) => Some(format!("Bound by I/O: {io}; by the CPU: {cpu}.")),
    }
}

fn spilled(result: &QueryResult) -> Option<String> {
    (result.spilled_bytes > 0)
        .then(|| format!("{} did not fit into memory and were spilled.", bytes(result.spilled_bytes)))
}

fn kernel(result: &QueryResult) -> Option<String> {
    let share = ratio(result.system_ns, result.cpu_ns());
    (share > SYSTEM_HIGH_RATIO).then(|| format!("The kernel uses {} of the CPU time.", percent(share)))
}

fn memory(result: &QueryResult) -> Option<String> {
    let peak = result.memory_peak_bytes?;
    let over = peak.saturating_sub(result.memory_limit_bytes.saturating_add(MEMORY_OVERHEAD_MAX_BYTES));
    if over == 0 {
        return None;
    }
    Some(format!(
        "Resident memory exceeded the limit and {} for the program itself by {}.",
        bytes(MEMORY_OVERHEAD_MAX_BYTES),
        bytes(over)
    ))
}

fn prediction(result: &QueryResult) -> Option<String> {
    let predicted = result.predicted_ns.filter(|&ns| ns > 0)?;
    let error = (result.elapsed_ns as f64 - predicted as f64) / predicted as f64;
    let direction = if error < 0.0 { "shorter" } else { "longer" };
    Some(format!(
        "The cost model predicted {}; it took {} {direction}.",
        duration(predicted),
        percent(error.abs())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn phase(name: &str, elapsed: u64, cpu: u64, waiting: u64) -> QueryPhase {
        QueryPhase {
            name: name.to_owned(),
            elapsed_ns: elapsed,
            user_ns: cpu,
            io_wait_ns: waiting,
            bound: QueryPhase::bound_of(cpu, 0, waiting),
            ..QueryPhase::default()
        }
    }

    #[test]
    fn phases_are_named_with_the_resource_that_limits_them() {
        let mut result = QueryResult {
            input_rows: 6_000_000,
            elapsed_ns: 3 * SECOND,
            phases: vec![phase("read", SECOND, SECOND, 0), phase("write", 2 * SECOND, SECOND / 2, SECOND)],
            ..QueryResult::default()
        };
        let said = sentences(&result).join(" ");
        assert!(said.contains("rows in 3.00 s"), "{said}");
        assert!(
            said.contains("Bound by I/O: \u{201c}write\u{201d}; by the CPU: \u{201c}read\u{201d}."),
            "{said}"
        );
        result.phases.pop();
        assert!(sentences(&result).contains(&"Every phase is bound by the CPU.".to_owned()));
        result.phases.clear();
        assert_eq!(sentences(&result).len(), 1);
    }

    #[test]
    fn memory_beyond_the_limit_is_told_and_memory_within_it_is_not() {
        let mut result = QueryResult {
            memory_limit_bytes: 64 << 20,
            memory_peak_bytes: Some(96 << 20),
            ..QueryResult::default()
        };
        assert!(memory(&result).is_none());
        result.memory_peak_bytes = Some(100 << 20);
        assert!(memory(&result).unwrap().contains("by 4.00 MiB"));
        result.memory_peak_bytes = Some(1 << 20);
        assert!(memory(&result).is_none());
    }

    #[test]
    fn a_prediction_is_held_against_the_measured_time() {
        let result =
            QueryResult { elapsed_ns: 3 * SECOND, predicted_ns: Some(2 * SECOND), ..QueryResult::default() };
        assert!(prediction(&result).unwrap().ends_with("it took 50.0 % longer."));
        assert!(prediction(&QueryResult::default()).is_none());
    }
}
