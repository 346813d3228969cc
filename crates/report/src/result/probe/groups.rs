//! Grouping, naming and judgment of the cases of a probe, shared by sentences, tables and charts.

use super::{ProbeCase, ProbeChoice, ProbeResult, ProbeVerdict};
use crate::number::{duration, round_bytes};

/// The engine that transfers nothing: it measures the overhead of the measurement, and does not compete with others.
const NULL: &str = "null";

/// The comparable cases: those of one target and one kind of access.
pub(crate) struct Group<'a> {
    /// `path, direct`, `tmpfs, cached, random`.
    pub(crate) name: String,
    pub(crate) cases: Vec<&'a ProbeCase>,
    pub(crate) choice: Option<Choice<'a>>,
}

/// The recommended cases of a group.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) fastest: &'a ProbeCase,
    pub(crate) cheapest: &'a ProbeCase,
}

/// Returns the groups in the order of measurement.
pub(crate) fn groups(result: &ProbeResult) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for case in result.cases.iter().filter(|case| case.method != NULL) {
        let name = group_name(&case.target, &case.op, case.direct, case.cached, case.random);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.cases.push(case),
            None => groups.push(Group { choice: choice(result, &name), name, cases: vec![case] }),
        }
    }
    groups
}

fn choice<'a>(result: &'a ProbeResult, group: &str) -> Option<Choice<'a>> {
    let name = |of: &ProbeChoice| group_name(&of.target, &of.op, of.direct, of.cached, of.random);
    let choice = result.choices.iter().find(|choice| name(choice) == group)?;
    let case = |index: u64| result.cases.get(usize::try_from(index).ok()?);
    Some(Choice { fastest: case(choice.fastest)?, cheapest: case(choice.cheapest)? })
}

fn group_name(target: &str, op: &str, direct: bool, cached: bool, random: bool) -> String {
    let access = match (direct, cached) {
        (true, _) => "direct",
        (false, true) => "cached",
        (false, false) => "cold cache",
    };
    let op = match op.split_once(':') {
        _ if op.is_empty() || op == "read" => String::new(),
        Some(("mix", reads)) => format!(", {reads} % reads and writes"),
        _ => format!(", {op}"),
    };
    format!("{target}, {access}{}{op}", if random { ", random" } else { "" })
}

impl Group<'_> {
    /// Returns the label of a case within its group: `uring:8 1 MiB (huge pages)`, without settings that all of them
    /// share.
    pub(crate) fn label(&self, case: &ProbeCase) -> String {
        let block = if self.block_sizes_differ() { round_bytes(case.block_bytes) } else { String::new() };
        self.words(case, &block)
    }

    /// Returns the label without the block size: the name of a curve over block sizes.
    pub(crate) fn series(&self, case: &ProbeCase) -> String {
        self.words(case, "")
    }

    fn words(&self, case: &ProbeCase, block: &str) -> String {
        let mut text = case.name();
        if !block.is_empty() {
            text.push_str(&format!(" {block}"));
        }
        if self.buffers_differ() && !case.buffers.is_empty() {
            text.push_str(&format!(" ({})", case.buffers));
        }
        text
    }

    /// Returns the settings that all cases share and their labels omit: `blocks of 4 KiB, huge pages`.
    pub(crate) fn shared(&self) -> String {
        let Some(first) = self.cases.first() else { return String::new() };
        let block =
            (!self.block_sizes_differ()).then(|| format!("blocks of {}", round_bytes(first.block_bytes)));
        let buffers = (!self.buffers_differ() && !first.buffers.is_empty()).then(|| first.buffers.clone());
        block.into_iter().chain(buffers).collect::<Vec<String>>().join(", ")
    }

    pub(crate) fn block_sizes_differ(&self) -> bool {
        self.cases.windows(2).any(|pair| pair[0].block_bytes != pair[1].block_bytes)
    }

    pub(super) fn buffers_differ(&self) -> bool {
        self.cases.windows(2).any(|pair| pair[0].buffers != pair[1].buffers)
    }

    /// Returns `*` for the fastest case, `+` for the cheapest of those that are nearly as fast.
    pub(crate) fn mark(&self, case: &ProbeCase) -> &'static str {
        let is = |chosen: fn(&Choice<'_>) -> *const ProbeCase| {
            self.choice.as_ref().is_some_and(|choice| std::ptr::eq(chosen(choice), case))
        };
        match (is(|choice| choice.fastest), is(|choice| choice.cheapest)) {
            (true, true) => " *+",
            (true, false) => " *",
            (false, true) => " +",
            (false, false) => "",
        }
    }

    /// Returns the undominated cases, the fastest first: none is as fast with less CPU time.
    pub(crate) fn front(&self) -> Vec<&ProbeCase> {
        let mut order = self.cases.clone();
        order.sort_by(|a, b| {
            (b.throughput_bytes_per_s.total_cmp(&a.throughput_bytes_per_s))
                .then(a.cpu_ns_per_byte.total_cmp(&b.cpu_ns_per_byte))
        });
        let mut least = f64::INFINITY;
        order.retain(|case| {
            let is_cheaper = case.cpu_ns_per_byte < least;
            least = least.min(case.cpu_ns_per_byte);
            is_cheaper
        });
        order
    }

    /// Returns the number of cases with each verdict, without verdicts that do not occur.
    pub(crate) fn verdicts(&self) -> Vec<(usize, ProbeVerdict)> {
        VERDICTS
            .map(|verdict| (self.cases.iter().filter(|case| case.verdict == verdict).count(), verdict))
            .into_iter()
            .filter(|&(cases, _)| cases > 0)
            .collect()
    }
}

const VERDICTS: [ProbeVerdict; 4] =
    [ProbeVerdict::StorageBound, ProbeVerdict::CpuBound, ProbeVerdict::LatencyBound, ProbeVerdict::Undecided];

/// Returns the name of the limiting resource of a case.
pub(crate) fn limit_name(verdict: ProbeVerdict) -> &'static str {
    match verdict {
        ProbeVerdict::StorageBound => "storage-bound",
        ProbeVerdict::CpuBound => "CPU-bound",
        ProbeVerdict::LatencyBound => "latency-bound",
        ProbeVerdict::Undecided => "undecided",
    }
}

impl ProbeCase {
    /// Returns the engine with its depth, which is omitted if it is the implied 1: `uring:8`, `read`.
    pub(super) fn name(&self) -> String {
        let is_single = matches!(&*self.method, "read" | "mmap" | "populate") && self.depth <= 1;
        if is_single { self.method.clone() } else { format!("{}:{}", self.method, self.depth) }
    }
}

/// Describes a case in a sentence: `uring:8 with 1 MiB blocks into huge pages`.
pub(crate) fn phrase(group: &Group<'_>, case: &ProbeCase) -> String {
    let mut text = format!("{} with {} blocks", case.name(), round_bytes(case.block_bytes));
    if group.buffers_differ() && !case.buffers.is_empty() {
        text.push_str(&match case.buffers.strip_prefix("ordinary") {
            Some(rest) => format!(" into ordinary memory{rest}"),
            None => format!(" into {}", case.buffers),
        });
    }
    text
}

/// A reason and the cases that it applies to.
pub(crate) struct Reason<'a> {
    pub(crate) verdict: ProbeVerdict,
    pub(crate) reason: &'a str,
    /// `path, direct: read, uring:8`, by group.
    pub(crate) cases: Vec<String>,
}

/// Returns the distinct reasons.
pub(crate) fn reasons<'a>(groups: &[Group<'a>]) -> Vec<Reason<'a>> {
    let mut reasons: Vec<Reason<'a>> = Vec::new();
    for group in groups {
        for case in group.cases.iter().filter(|case| !case.reason.is_empty()) {
            if !reasons.iter().any(|known| (known.verdict, known.reason) == (case.verdict, &*case.reason)) {
                reasons.push(Reason { verdict: case.verdict, reason: &case.reason, cases: Vec::new() });
            }
        }
    }
    for known in &mut reasons {
        let same = |case: &ProbeCase| (case.verdict, &*case.reason) == (known.verdict, known.reason);
        known.cases = groups.iter().filter_map(|group| cases_of(group, same)).collect();
    }
    reasons
}

fn cases_of(group: &Group<'_>, wanted: impl Fn(&ProbeCase) -> bool) -> Option<String> {
    let cases = group.cases.iter().filter(|case| wanted(case));
    let labels: Vec<String> = cases.map(|case| group.label(case)).collect();
    let all = labels.len();
    match all {
        0 => None,
        2.. if all == group.cases.len() => Some(format!("{}: all {all} cases", group.name)),
        _ => Some(format!("{}: {}", group.name, labels.join(", "))),
    }
}

/// Returns the CPU time of the measurement itself per request; `None` if it was not measured.
pub(crate) fn harness(result: &ProbeResult) -> Option<String> {
    let of_request = |case: &ProbeCase| (case.cpu_ns_per_byte * case.block_bytes as f64).round() as u64;
    let nulls = || result.cases.iter().filter(|case| case.method == NULL).map(of_request);
    let (least, most) = (nulls().min()?, nulls().max()?);
    let range = if duration(least) == duration(most) {
        duration(most)
    } else {
        format!("{} to {}", duration(least), duration(most))
    };
    Some(format!(
        "The method null, which transfers nothing, takes {range} of CPU time per request: this is the \
         overhead of measuring in every case."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn case(throughput_bytes_per_s: f64, cpu_ns_per_byte: f64) -> ProbeCase {
        ProbeCase { throughput_bytes_per_s, cpu_ns_per_byte, ..ProbeCase::default() }
    }

    proptest! {
        #[test]
        fn nothing_on_the_front_is_beaten(points in proptest::collection::vec((0u8..6, 0u8..6), 0..12)) {
            let cases: Vec<ProbeCase> =
                points.iter().map(|&(speed, cpu)| case(f64::from(speed), f64::from(cpu))).collect();
            let group = Group { name: String::new(), cases: cases.iter().collect(), choice: None };
            let front = group.front();
            let beats = |a: &ProbeCase, b: &ProbeCase| {
                let no_worse = a.throughput_bytes_per_s >= b.throughput_bytes_per_s && a.cpu_ns_per_byte <= b.cpu_ns_per_byte;
                no_worse && (a.throughput_bytes_per_s, a.cpu_ns_per_byte) != (b.throughput_bytes_per_s, b.cpu_ns_per_byte)
            };
            for case in &cases {
                let like_one_of_the_front = front.contains(&case);
                prop_assert_eq!(like_one_of_the_front, !cases.iter().any(|other| beats(other, case)));
            }
        }
    }
}
